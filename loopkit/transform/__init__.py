"""Transformations: functions from a kernel to a kernel, one module for each family."""
