"""The C family: expressions as text, and the table of what its languages differ in."""
