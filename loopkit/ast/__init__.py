"""The loop program after scheduling: loops, branches, barriers, declarations; its printed form and simplifications."""
