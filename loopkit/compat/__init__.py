"""Other packages' names on top of loopkit."""
