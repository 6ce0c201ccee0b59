"""OpenCL C: one ``__kernel`` function per launch."""
