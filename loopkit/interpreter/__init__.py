"""Runs a kernel instance by instance, in any order, to show the effect of a refused order."""
