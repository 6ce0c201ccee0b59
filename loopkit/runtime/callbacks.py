"""Python references of the user's functions, called by the code of the host."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from loopkit.expr.functions import OfReference
from loopkit.target.code import GeneratedKernel, ReferencePointer


def callback_type(parameter: ReferencePointer) -> Any:
    """The type of the pointer."""
    return ctypes.CFUNCTYPE(*map(np.ctypeslib.as_ctypes_type, (parameter.dtype, *parameter.arguments)))


@dataclass(frozen=True)
class _Kept:
    """Keeps an exception in *failures*: compiled code cannot pass it on."""

    failures: list[BaseException]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> bool:
        self.failures.extend(() if error is None else (error,))
        return True


def reference_call(parameter: ReferencePointer, failures: list[BaseException]) -> Any:
    """The function that compiled code calls; its exceptions go to *failures*."""
    dtype = parameter.dtype

    def call(*arguments: Any) -> Any:
        with _Kept(failures), np.errstate(all="ignore"):
            given = [d.type(x) for d, x in zip(parameter.arguments, arguments, strict=True)]
            name = parameter.function.name
            with OfReference(f"Python reference of '{name}'", name, given):
                return dtype.type(parameter.function.value(*given)).item()
        return dtype.type(0).item()
    return callback_type(parameter)(call)


def raising_failures(function: Callable[..., None], launch: GeneratedKernel, failures: list[BaseException]
                     ) -> Callable[..., None]:
    """*function*, which raises the first exception of the references that it called."""
    if not any(isinstance(x, ReferencePointer) for x in launch.parameters):
        return function

    def call(*operands: Any) -> None:
        failures.clear()
        function(*operands)
        if failures:
            raise failures[0]
    return call
