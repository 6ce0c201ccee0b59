"""Compiling kernels, caching the compiled objects, and running them."""
