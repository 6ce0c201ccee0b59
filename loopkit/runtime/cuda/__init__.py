"""Running kernels on a GPU: what NVRTC needs, and what the driver runs."""
