"""Runs a kernel instance by instance, in any order, to show what a refused order would have done."""
