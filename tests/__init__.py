"""The tests, one directory for each package of loopkit, and what they share."""
