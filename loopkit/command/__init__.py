"""The acts of ``python -m loopkit`` on the kernels in a user's files."""
