"""The marker ``auto`` of loopy: a value that the kernel decides."""
from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class auto:  # noqa: N801 (loopy's name)
    """As an argument's dtype, shape or offset: it follows from the kernel or from the call."""


def unless_auto(value: T | type[auto]) -> T | None:
    """*value*, and ``None`` for ``auto``."""
    return None if value is auto else value  # type: ignore[return-value]


def is_integer(obj: Any) -> bool:
    """Is *obj* an integer of Python or numpy?"""
    return isinstance(obj, int | np.integer)


def assert_tuple(obj: Any) -> tuple[Any, ...]:
    """*obj*, which is a tuple."""
    assert isinstance(obj, tuple)
    return obj
