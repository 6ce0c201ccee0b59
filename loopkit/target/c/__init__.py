"""The C family: expressions as text, and the table of the differences between its languages."""
