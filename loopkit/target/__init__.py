"""From a lowered program to text: one C-family emitter and a dialect for each target."""
