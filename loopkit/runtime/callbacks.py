"""Python references of the user's functions, called by the code of the host."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from loopkit.target.code import GeneratedKernel, ReferencePointer


def callback_type(parameter: ReferencePointer) -> Any:
    """The type of the pointer."""
    return ctypes.CFUNCTYPE(*map(np.ctypeslib.as_ctypes_type, (parameter.dtype, *parameter.arguments)))


def reference_call(parameter: ReferencePointer, failures: list[Exception]) -> Any:
    """The function that compiled code calls; its exceptions go to *failures*, because no code can pass them on."""
    dtype = parameter.dtype

    def call(*arguments: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                given = [d.type(x) for d, x in zip(parameter.arguments, arguments, strict=True)]
                return dtype.type(parameter.function.value(*given)).item()
        except Exception as err:  # noqa: BLE001
            failures.append(err)
            return dtype.type(0).item()
    return callback_type(parameter)(call)


def raising_failures(function: Callable[..., None], launch: GeneratedKernel, failures: list[Exception]
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
