"""CUDA C++: one ``__global__`` function per launch."""
