"""The notebook form of kernels and generated code."""
