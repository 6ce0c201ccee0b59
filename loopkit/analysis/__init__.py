"""Analyses of a kernel: accesses, dependences, legality, shapes. Pure functions."""
