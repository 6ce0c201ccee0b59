"""Functions with bounds checks: each launch raises an error for its first access outside of an array."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from loopkit.errors import AccessWitness, BoundsError
from loopkit.expr.evaluate import evaluate
from loopkit.runtime.calls import CheckedCall
from loopkit.target.code import CheckedAccess, GeneratedKernel


def raising(function: Callable[..., None], launch: GeneratedKernel, checked: CheckedCall) -> Callable[..., None]:
    """*function* of the text of *launch*, without its last parameter: an access outside of an array is an error.

    :arg checked: any call of the signature.
    """
    if not launch.checks:
        return function
    record = ctypes.c_longlong * max(access.numbers for access in launch.checks)

    def run(*operands: Any) -> None:
        numbers = record()
        function(*operands, numbers)
        if numbers[0]:
            raise _violation(launch.checks[numbers[1]], numbers[2:], checked)
    return run


def _violation(access: CheckedAccess, numbers: list[int], checked: CheckedCall) -> BoundsError:
    axes = len(access.unsigned)
    element = tuple(x % 2**64 if is_unsigned else x for x, is_unsigned in zip(numbers, access.unsigned, strict=False))
    others = {x for x, _, _ in checked.scalars}
    sizes: Mapping[str, int] = {x: value for x, value in checked.bound.values.items()
                                if x not in others and isinstance(value, int)}
    shape = checked.bound.arrays[access.array].shape if access.shape is None else \
        tuple(evaluate(e, sizes) for e in access.shape)
    instance = access.statement, dict(zip(access.inames, numbers[axes:], strict=False))
    return BoundsError(f"'{access.statement}' {access.how} '{access.array}' outside its shape {shape}.", check="bounds",
                       witness=AccessWitness(sizes, instance, access.array, element, access.how),
                       hint=f"correct the data behind {access.text}, make '{access.array}' larger, or guard the "
                            "statement with if=")
