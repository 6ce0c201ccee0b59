"""Kernels and generated code as a notebook shows them."""
