"""The loop kernel, a frozen value, and its parts: statements, data, order, tags, options, history."""
