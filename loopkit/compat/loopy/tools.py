"""loopy's switches of its caches; loopkit keeps compiled code on disk, and ``LOOPKIT_CACHE_DIR`` is its place."""
from __future__ import annotations

#: loopkit's cache needs no switch.
CACHING_ENABLED = True


def set_caching_enabled(flag: bool) -> None:
    """Nothing changes: loopkit's cache is always right, as its key is the whole text and the compiler."""


class CacheMode:
    """A block in which caches are on or off; loopkit's cache stays as it is."""

    def __init__(self, new_flag: bool) -> None:
        self.new_flag = new_flag

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def clear_in_mem_caches() -> None:
    """Nothing to clear: results of analyses belong to their kernel."""
