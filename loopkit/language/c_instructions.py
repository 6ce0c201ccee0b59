"""C instructions as ordinary statements: one for each value or region that is read, and for each that is written."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pymbolic.primitives as p

from loopkit.expr.functions import UNKNOWN, ScalarFunction
from loopkit.expr.mappers import subexpressions, variables
from loopkit.expr.nodes import TypeCast
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.parsing import parse_expression
from loopkit.kernel.c_instruction import EFFECTS, CInstruction, OpaqueValue, RegionRead

#: Texts, and objects other than C instructions.
Item = TypeVar("Item")


@dataclass
class WrittenOut:
    """The text, the domains and the functions of C *instructions*, in a kernel with *given_domains*.

    A region that is read is a reduction in a fixed order, and its value stands for all of its elements. A written value
    is a function without a text of everything that is read. So each analysis finds the declared accesses.
    """

    given_domains: str
    instructions: list[CInstruction] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    reductions: list[ReductionOperation] = field(default_factory=list)
    functions: list[ScalarFunction] = field(default_factory=list)

    def program(self, items: Iterable[Item | CInstruction]) -> list[Item | str]:
        """*items* with the statements of C instructions."""
        items = list(items)
        start = [f"<int32> {EFFECTS} = 0 {{id={EFFECTS}, inames=}}"] if any(
            isinstance(x, CInstruction) and x.has_effects for x in items) else []
        return [*start, *(x for item in items for x in (
            self.lines(item) if isinstance(item, CInstruction) else (item,)))]

    def lines(self, given: CInstruction) -> Iterator[str]:
        """The statements of *given*, all reads before all writes."""
        self.instructions.append(given)
        # values first: the code replaces what follows
        for name, text in sorted(given.operands.items(), key=lambda x: bool(given.region(x[1])[1])):
            value, inames, domain = self._region(given, name, text)
            if inames:
                operation = f"{given.id}_reads_{name}"
                self.reductions.append(RegionRead(operation))
                value = f"{operation}({domain}, {value})"
            # a size may have more than 32 bits
            dtype = "int64" if not inames and self._is_of_sizes(value) else ""
            yield f"<{dtype}> {given.id}_{name} = {value} {{{self._options(given, name, ())}}}"
        for name, text in given.writes.items():
            target, inames, domain = self._region(given, name, text)
            if inames:
                self.domains.append(domain)
            arguments = [*(f"{given.id}_{x}" for x in given.operands), *inames] or ["0"]
            function = f"{given.id}_writes_{name}"
            self.functions.append(OpaqueValue(function, len(arguments), UNKNOWN, instruction=given))
            yield f"{target} = {function}({', '.join(arguments)}) {{{self._options(given, name, inames)}}}"

    def _is_of_sizes(self, text: str) -> bool:
        """Does the value *text* consist of names in domains, and of integers?"""
        expr = parse_expression(text)
        names = re.findall(r"[A-Za-z_]\w*", " ".join((self.given_domains, *self.domains)))
        return variables(expr) <= {*names} and not any(
            isinstance(part, p.Subscript | p.Call | p.Quotient | TypeCast | float | complex)
            for part in subexpressions(expr))

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
