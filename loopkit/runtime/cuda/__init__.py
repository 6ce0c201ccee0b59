"""Running kernels on CUDA GPUs: compilers, what they say about a kernel, and what becomes of it on a device."""
