"""Expressions: nodes, text, walks, dtype rules."""
