"""The definitions that the texts of scalar functions need, before the first function of a generated text."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from loopkit.errors import NameConflictError
from loopkit.expr.functions import CallText, ScalarFunction
from loopkit.kernel.c_instruction import OpaqueValue
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered
from loopkit.target.code import ReferencePointer, called_functions


def functions_of(kernel: LoopKernel) -> Mapping[str, ScalarFunction]:
    """The user's functions that *kernel* calls, by name."""
    return {name: f for name, f in called_functions(kernel).items() if f.text or isinstance(f, OpaqueValue)}


def preambles(lowered: Lowered, language: str) -> Iterator[str]:
    """The preamble in *language* of each function that the kernel calls.

    :raises NameConflictError: a name of the kernel has another meaning in the text of a function.
    """
    kernel, launches = lowered.kernel, [x.name for x in lowered.launches]
    found: dict[str, str] = {}                  # a preamble of several functions occurs once
    for name, function in functions_of(kernel).items():
        code = function.instruction if isinstance(function, OpaqueValue) else None
        preamble = (function.preamble.get(language, "") if code is None else code.preamble_for(language)).strip("\n")
        given: CallText = function.text.get(language, "")
        texts = given.values() if isinstance(given, Mapping) else [given]
        words = {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}
        defined = {x for x in launches if re.search(rf"\b{x}\s*\(", preamble)}
        if taken := sorted((words & kernel.all_names) - kernel.functions.keys() | defined):
            raise NameConflictError(
                f"The text of the function '{name}' uses the name '{taken[0]}', which has another meaning in kernel "
                f"'{kernel.name}'.", subject=taken[0], hint="choose another name in the kernel")
        found.setdefault(preamble, name if code is None else code.id)
    yield from (f"// given by the user, for {name}\n{preamble}" for preamble, name in found.items() if preamble)


def references_in(text: str, kernel: LoopKernel) -> Iterator[ReferencePointer]:
    """The Python references of functions of *kernel* that *text* calls."""
    for name, function in kernel.functions.items():
        for found in sorted(set(re.findall(rf"\b{name}_python(?:_[biuf]\d+)+\b", text))):
            dtype, *arguments = (np.dtype(f"{kind}{int(bits)//8}") for kind, bits in re.findall(
                r"_([biuf])(\d+)", found.removeprefix(f"{name}_python")))
            yield ReferencePointer(found, dtype, function, tuple(arguments))
