"""The launches of the calls of one signature by functions: which operands of a call each of them takes, in which order.

The host's C functions and OpenCL's kernels are called so. CUDA's launches have prepared parameters instead.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from loopkit.ast.walk import calls
from loopkit.errors import LimitError
from loopkit.expr.nodes import to_text
from loopkit.runtime.calls import CheckedCall
from loopkit.runtime.views import ArrayView, constant, picker
from loopkit.target.code import (
    GeneratedKernel,
    HostIname,
    MapParameter,
    Pointer,
    ScratchPointer,
    Stride,
    ViolationPointer,
)

#: The conversion of a Python number to an argument of a dtype; ``None``: no function takes it.
PassedAs = Callable[["np.dtype[Any] | None"], Callable[[Any], Any]]


class FunctionPlan:
    """The functions of a text, with their arguments.

    A call's operands are its inputs, its allocated outputs and its temporaries, its scalars, the constants, and the
    inames of the host's loops. Each function takes some of them.
    """

    def __init__(self, checked: CheckedCall, functions: Mapping[str, Any], passed_as: PassedAs,
                 references: Mapping[str, Any] = MappingProxyType({})) -> None:
        """:arg references: the operands that are functions, by name."""
        self._checked = checked
        text, bound, names = checked.text, checked.bound, checked.operands
        dtypes = {p.name: np.dtype(p.dtype) for x in text.code.kernels for p in x.parameters}
        # scalars that no function takes are converted too, as a check
        self._scalars = tuple((i, convert, passed_as(dtypes.get(x))) for x, i, convert in checked.scalars)
        constants = {p.name: p for launch in text.code.kernels for p in launch.parameters
                     if p.name not in names and not isinstance(p, HostIname | ViolationPointer)}
        self._constants = [references[p.name] if p.name in references else
                           passed_as(np.dtype(p.dtype))(constant(p, bound.arrays, bound.values))
                           for p in constants.values()]
        self._hosts = {x: passed_as(dtypes[x]) for x in text.hosts}
        places = {x: k for k, x in enumerate([*names, *constants, *text.hosts])}
        self._functions = {x.name: (functions[x.name], picker([
            places[p.name] for p in x.parameters if not isinstance(p, ViolationPointer)])) for x in text.code.kernels}

    def scalars(self, values: Sequence[Any]) -> list[Any]:
        """The scalars among a call's *values* as operands; :raises CallError: one does not fit."""
        return [passed(convert(values[i])) for i, convert, passed in self._scalars]

    def launches(self, operands: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any], Mapping[str, Any]]]:
        """The functions of a call in order, each with its arguments and the values of the sizes and the host's inames.

        :arg operands: without those of the host's inames.
        """
        order, values = self._checked.text.code.order, self._checked.bound.values
        every = calls(order, values) if order is not None else ((name, values) for name in self._functions)
        for name, seen in every:
            function, pick = self._functions[name]
            # outside of a loop its iname has no value and is not used
            yield function, pick([*operands, *[passed(seen.get(x, 0)) for x, passed in self._hosts.items()]]), seen

    def allocated(self, values: Sequence[Any]) -> dict[str, Any]:
        """New outputs, zeroed, for a call with *values* that keeps them."""
        return {x.name: x.new(zero=True) for x in self._checked.outputs}


def require_block(launch: GeneratedKernel, block: Sequence[int], threads: int, along: Sequence[int], where: str
                  ) -> None:
    """:arg threads: the most threads of a block there, and *along* each axis.

    :raises LimitError: the sizes of a call give blocks of more threads.
    """
    by_sizes = " x ".join(to_text(e) for e in launch.block if e != 1)
    found = [(f"threads along {axis}", own, most) for axis, own, most in zip("xyz", block, along, strict=True)]
    for what, own, most in (*found, ("threads per block", prod(block), threads)):
        if own > most:
            raise LimitError(what, most, own, where=f"'{launch.name}' on {where}",
                             hint=f"the block is {by_sizes}: split the l.* inames by numbers")


def describe(launch: GeneratedKernel, arrays: Mapping[str, ArrayView], operands: Mapping[str, Any]) -> Iterator[str]:
    """A line for each parameter of *launch*; of the arrays' operands, addresses are shown."""
    for p in launch.parameters:
        operand = operands[p.name] if not isinstance(p, Stride | MapParameter) else None
        at = f", at {operand:#x}" if isinstance(operand, int) else ""
        if isinstance(p, ScratchPointer):
            yield f"{p.name}: {p.dtype}, a temporary{at}"
        elif isinstance(p, Pointer):
            array = arrays[p.name]
            yield f"{p.name}: {array.dtype}, shape {array.shape}, strides {array.strides} bytes{at}"
        elif isinstance(p, MapParameter):
            yield str(p.tensor_map)
        elif not isinstance(p, Stride):                # a stride is listed with its array
            yield f"{p.name} = {operand}"
