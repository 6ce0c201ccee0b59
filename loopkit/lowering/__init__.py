"""From a kernel to a program of launches, by stages: types, reductions, schedule, storage, binding, barriers, loops."""
