"""Hardware instructions: one file each."""
