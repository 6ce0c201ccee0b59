"""From a kernel to a program of launches, by named stages: types, reductions, binding, storage, barriers, code."""
