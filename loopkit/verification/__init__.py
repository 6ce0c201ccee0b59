"""Checks of a kernel and of its lowered form, and the report of their results."""
