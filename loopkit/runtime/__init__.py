"""Compiling kernels, keeping what was compiled, and running it."""
