"""Independent checks of what lowering made."""
