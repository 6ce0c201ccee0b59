"""Running kernels on NVIDIA GPUs: compilers, devices, arrays, launches."""
