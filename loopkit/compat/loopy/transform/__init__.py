"""loopy's transformations by their names and arguments; each one is a step of loopkit."""
