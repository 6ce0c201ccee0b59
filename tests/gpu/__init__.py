"""Tests that need a GPU; they skip elsewhere, with the reason."""
