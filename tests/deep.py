"""The amount of testing: a sample by default, which takes minutes, and all cases with ``LOOPKIT_DEEP=1``."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar
from zlib import crc32

DEEP = os.environ.get("LOOPKIT_DEEP") == "1"

T = TypeVar("T")


def amount(examples: int) -> int:
    """The number of random examples: *examples* in a deep run, a quarter of them else, and at least one."""
    return max(examples if DEEP else -(-examples // 4), 1)


def some(cases: Sequence[T], every: int, name: Callable[[T], str] = str) -> list[T]:
    """One in *every* of *cases*, at least one: always the same ones, picked by a hash of their names.

    >>> some(range(12), every=4)
    [2, 6, 7]
    """
    chosen = sorted(cases, key=lambda case: crc32(name(case).encode()))[:-(-len(cases) // every)]
    return [case for case in cases if case in chosen]
