"""loopy's types of values: a dtype of numpy in an object of its own."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loopkit.compat.loopy.typing import auto
from loopkit.errors import TypeInferenceError
from loopkit.expr.kinds import DTYPES, dtype_of


class LoopyType:
    """Base of the types of values."""


@dataclass(frozen=True)
class NumpyType(LoopyType):
    """The type of values of a dtype.

    >>> NumpyType(np.dtype("f4")).numpy_dtype
    dtype('float32')
    """

    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return self.dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def is_integral(self) -> bool:
        return self.dtype.kind in "iu"

    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    def involves_complex(self) -> bool:
        return self.is_complex()

    def uses_complex(self) -> bool:
        return self.is_complex()

    def __str__(self) -> str:
        return f"np:{self.dtype}"


#: The values that :func:`to_loopy_type` takes.
ToLoopyTypeConvertible = Any


def to_loopy_type(dtype: Any, allow_auto: bool = False, allow_none: bool = False, for_atomic: bool = False) -> Any:
    """*dtype*, whatever names one, as a :class:`NumpyType`; ``auto`` and ``None`` stay if they are allowed.

    :raises TypeInferenceError: it names no dtype.
    """
    if (dtype is None and allow_none) or (dtype is auto and allow_auto) or isinstance(dtype, LoopyType):
        return dtype
    return NumpyType(as_numpy(dtype))


def as_numpy(dtype: Any) -> np.dtype[Any]:
    """The dtype of numpy that *dtype* is, names or holds; :raises TypeInferenceError: there is none."""
    if isinstance(dtype, NumpyType):
        return dtype.dtype
    found = dtype_of(dtype)
    if found is None and isinstance(dtype, np.dtype):
        found = dtype
    if found is None:
        raise TypeInferenceError(f"{dtype!r} is not a dtype.", subject=repr(dtype), hint=DTYPES)
    return found
