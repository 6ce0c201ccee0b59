"""The amount of testing: a sample by default, which takes minutes, and all cases with ``LOOPKIT_DEEP=1``."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar, cast
from zlib import crc32

DEEP = os.environ.get("LOOPKIT_DEEP") == "1"

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., object])


def amount(examples: int) -> int:
    """The number of random examples: *examples* in a deep run, an eighth of them else, and at least one."""
    return max(examples if DEEP else -(-examples // 8), 1)


def some(cases: Sequence[T], every: int, name: Callable[[T], str] = str) -> list[T]:
    """One in *every* of *cases*, at least one: always the same ones, picked by a hash of their names.

    >>> some(range(12), every=4)
    [2, 6, 7]
    """
    chosen = sorted(cases, key=lambda case: crc32(name(case).encode()))[:-(-len(cases) // every)]
    return [case for case in cases if case in chosen]


def shared(make: Function) -> Function:
    """*make*, called once for each of its arguments by all tests of a process; in a deep run, each test calls it anew.

    For kernels that tests only look at or run: what is found out about a kernel is not found out again.
    """
    return make if DEEP else cast(Function, cache(make))
