"""C instructions as ordinary statements: one for each value or region that is read, and for each that is written."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loopkit.errors import UndecidedError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.c_instruction import PLACEHOLDER, CInstruction, OpaqueValue, without_literals
from loopkit.kernel.kernel import LoopKernel


@dataclass
class WrittenOut:
    """The text, the domains and the functions of C *instructions*.

    A region that is read is a reduction in a fixed order, and its value stands for all of its elements. What is written
    is a function without a text of everything that is read. So each analysis finds the declared accesses.
    """

    instructions: list[CInstruction] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    reductions: list[ReductionOperation] = field(default_factory=list)
    functions: list[ScalarFunction] = field(default_factory=list)

    def lines(self, given: CInstruction) -> Iterator[str]:
        """The statements of *given*, all reads before all writes."""
        self.instructions.append(given)
        for name, text in given.operands.items():
            value, inames, domain = self._region(given, name, text)
            if inames:
                operation = f"{given.id}_reads_{name}"
                self.reductions.append(ReductionOperation(operation, "3*a + b"))
                value = f"{operation}({domain}, {value})"
            yield f"<> {given.id}_{name} = {value} {{{self._options(given, name, ())}}}"
        for name, text in given.writes.items():
            target, inames, domain = self._region(given, name, text)
            if inames:
                self.domains.append(domain)
            arguments = [*(f"{given.id}_{x}" for x in given.operands), *inames] or ["0"]
            function = f"{given.id}_writes_{name}"
            self.functions.append(OpaqueValue(function, len(arguments), instruction=given))
            yield f"{target} = {function}({', '.join(arguments)}) {{{self._options(given, name, inames)}}}"

    @staticmethod
    def _region(given: CInstruction, name: str, text: str) -> tuple[str, tuple[str, ...], str]:
        """The element at new inames, these, and their domain."""
        parts, ranges = given.region(text.strip())
        if not ranges:
            return text.strip(), (), ""
        inames = {axis: f"{given.id}_{name}_{axis}" for axis in ranges}
        subscripts = ", ".join(inames.get(axis, part) for axis, part in enumerate(parts))
        bounds = " and ".join(f"{low} <= {inames[axis]} < {high}" for axis, (low, high) in ranges.items())
        domain = f"{{[{', '.join(inames.values())}]: {bounds}}}"
        return f"{text.strip().partition('[')[0]}[{subscripts}]", tuple(inames.values()), domain

    @staticmethod
    def _options(given: CInstruction, name: str, inames: Iterable[str]) -> str:
        return f"id={given.id}_{name}, inames={':'.join((*given.inames, *inames))}"

    def require_declared(self, knl: LoopKernel) -> None:
        """:raises UndecidedError: the code names something of *knl* that its operands do not declare."""
        for given in self.instructions:
            words = {word for code in given.codes.values()
                     for word in re.findall(r"[A-Za-z_]\w*", PLACEHOLDER.sub(" ", without_literals(code)))}
            names = sorted(words & {*knl.argument_by_name, *knl.temporaries, *knl.inames})
            if names and given.assume is None:
                raise UndecidedError(
                    f"The C instruction '{given.id}' names '{names[0]}' in its code, an access without a footprint.",
                    reason=f"the elements of '{names[0]}' that the code accesses are unknown",
                    hint=f"declare it, read_variables={{'{names[0]}': '{names[0]}[...]'}}, and write ${names[0]}; or "
                         "assume='the reason why this is no access'")
