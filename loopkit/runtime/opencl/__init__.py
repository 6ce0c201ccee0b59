"""OpenCL kernels through pyopencl: devices, compilation, arrays, launches."""
