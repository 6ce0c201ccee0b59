"""Runs loop programs for GPUs on the host, with the layouts and the asynchrony of their instructions."""
