"""Checks of a kernel and of what it was lowered to, and the report of them."""
