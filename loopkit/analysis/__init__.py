"""Analyses of a kernel: accesses, dependences, legality, shapes. Functions of values passed in."""
