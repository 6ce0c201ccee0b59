"""The definitions that the texts of scalar functions need, before the first function of a generated text."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from loopkit.analysis.accesses import expand_rules
from loopkit.errors import NameConflictError
from loopkit.expr.functions import ScalarFunction, functions_in
from loopkit.kernel.c_instruction import OpaqueValue
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered


def functions_of(kernel: LoopKernel) -> Mapping[str, ScalarFunction]:
    """The user's functions that *kernel* calls, by name."""
    expressions = (expand_rules(e, kernel.substitutions) for s in kernel.statements
                   for e in (s.assignee, s.expression, *s.predicates))
    return {f.name: f for e in expressions for f in functions_in(e) if f.text or isinstance(f, OpaqueValue)}


def preambles(lowered: Lowered, language: str) -> Iterator[str]:
    """The preamble in *language* of each function that the kernel calls.

    :raises NameConflictError: a name of the kernel has another meaning in the text of a function.
    """
    kernel, launches = lowered.kernel, [x.name for x in lowered.launches]
    own = {f.instruction.id: f.instruction for f in functions_of(kernel).values()
           if isinstance(f, OpaqueValue) and f.instruction is not None}
    for name, instruction in own.items():
        if preamble := instruction.preamble_for(language).strip("\n"):
            yield f"// given by the user, for {name}\n{preamble}"
    for name, function in functions_of(kernel).items():
        given, preamble = function.text.get(language, ""), function.preamble.get(language, "").strip("\n")
        texts = given if isinstance(given, Mapping) else {"": given}
        words = {word for text in texts.values() for word in re.findall(r"[A-Za-z_]\w*", text)}
        defined = {x for x in launches if re.search(rf"\b{x}\s*\(", preamble)}
        if taken := sorted((words & kernel.all_names) - kernel.functions.keys() | defined):
            raise NameConflictError(
                f"The text of the function '{name}' uses the name '{taken[0]}', which has another meaning in kernel "
                f"'{kernel.name}'.", subject=taken[0], hint="choose another name in the kernel")
        if preamble:
            yield f"// given by the user, for {name}\n{preamble}"
