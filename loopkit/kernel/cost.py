"""The cost of a kernel before code generation: cells of its temporaries, launches, loops of the host."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import prod

from pymbolic.typing import Expression

from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import AddressSpace
from loopkit.shown import Shown

#: The address spaces by the number of threads that share a cell, the fewest first.
SPACES = (AddressSpace.PRIVATE, AddressSpace.WARP, AddressSpace.LOCAL, AddressSpace.GLOBAL,
          AddressSpace.CONSTANT)
#: The unit that has separate cells in each address space.
OWNERS = {AddressSpace.PRIVATE: "thread", AddressSpace.WARP: "block", AddressSpace.LOCAL: "block",
          AddressSpace.GLOBAL: "call", AddressSpace.CONSTANT: "kernel"}
#: The memory of each address space.
MEMORIES = {AddressSpace.PRIVATE: "registers", AddressSpace.WARP: "registers of warps",
            AddressSpace.LOCAL: "shared memory", AddressSpace.GLOBAL: "global memory",
            AddressSpace.CONSTANT: "constant memory"}
#: Sample sizes for the comparison of parametric numbers of cells.
_SAMPLES = (1, 2, 5, 33, 100, 1000)


def product_text(factors: Iterable[Expression]) -> str:
    """``4*n*(m + 1)``: the numbers multiplied, the other *factors* behind them.

    >>> import pymbolic.primitives as p
    >>> print(product_text([2, p.Variable("n"), 2]), product_text([1, p.Variable("n")]), product_text([]))
    4*n n 1
    """
    known = tuple(factors)
    constant = prod(e for e in known if isinstance(e, int))
    texts = [to_text(e) for e in known if not isinstance(e, int)]
    others = [f"({text})" if re.search(r"[-+/]", text) else text for text in texts]
    return "*".join(others if others and constant == 1 else [str(constant), *others])


@dataclass(frozen=True, repr=False)
class Cells(Shown):
    """The cells of one temporary.

    :ivar shape: all extents, those of its expansion first.
    :ivar element_bytes: bytes of one cell; ``None``: the dtype is undetermined.
    """

    space: AddressSpace
    shape: tuple[Expression, ...]
    element_bytes: int | None

    def __str__(self) -> str:
        """``64 bytes a thread``, ``4*n bytes a call``."""
        size = product_text((self.element_bytes or 1, *self.shape))
        what = "element" if self.element_bytes is None else "byte"
        return f"{size} {what}{'' if size == '1' else 's'} a {OWNERS[self.space]}"

    def more_than(self, other: Cells) -> bool:
        """Is the address space larger than that of *other*, or the same with more bytes for some sample sizes?"""
        mine, theirs = SPACES.index(self.space), SPACES.index(other.space)
        if mine != theirs:
            return mine > theirs
        names = frozenset().union(*map(variables, (*self.shape, *other.shape)))
        return any(self._count(sizes) > other._count(sizes) for sizes in _trials(names))

    def _count(self, sizes: Mapping[str, int]) -> int:
        return prod(max(int(evaluate(e, sizes)), 0) for e in self.shape)


def _trials(names: Collection[str]) -> Iterator[dict[str, int]]:
    """Sizes to try: all the same, and one of them small or large among others."""
    for size in _SAMPLES if names else (1,):
        yield dict.fromkeys(names, size)
    if len(names) > 1:
        for name in names:
            for own, others in permutations((1, 33, 1000), 2):
                yield {**dict.fromkeys(names, others), name: own}


@dataclass(frozen=True)
class Cost:
    """Storage and launches of a kernel, as its schedule and its storage allocation give them.

    :ivar cells: the cells of each temporary with a determined shape.
    :ivar launches: the number of launches, those in loops of the host counted once; ``None``: undetermined, for
        *reason*.
    :ivar hosts: for each loop of the host its iname and the number of launches in one iteration.
    :ivar unknown: the temporaries without determined cells, each with the reason.
    """

    cells: Mapping[str, Cells]
    launches: int | None
    hosts: tuple[tuple[str, int], ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def launch_lines(self) -> Iterator[str]:
        """The number of launches, if there are several, and the loops of the host."""
        if self.launches is not None and self.launches > 1:
            yield f"{self.launches} launches"
        for iname, count in self.hosts:
            yield f"for {iname}: on the host, {'one launch' if count == 1 else f'{count} launches'} per iteration"


@dataclass(frozen=True)
class CostChange:
    """The differences in cost between two kernels.

    :ivar cells: for each temporary of both whose cells changed, the old and the new cells.
    :ivar scratch: temporaries of the second alone that are in global memory.
    :ivar unknown: the temporaries of both without determined cells in one of the kernels, each with the reason.
    """

    cells: Mapping[str, tuple[Cells, Cells]]
    scratch: Mapping[str, Cells]
    launches: tuple[int | None, int | None]
    hosts: tuple[tuple[str, ...], tuple[str, ...]]
    unknown: Mapping[str, str]

    @classmethod
    def between(cls, before: Cost, after: Cost) -> CostChange:
        old = {**before.cells, **before.unknown}
        changed = {x: (before.cells[x], c) for x, c in after.cells.items() if before.cells.get(x, c) != c}
        new = {x: c for x, c in after.cells.items() if x not in old and c.space is AddressSpace.GLOBAL}
        # the second kernel's reason overrides the first one's: the step may have caused it
        unknown = {x: reason for x, reason in {**before.unknown, **after.unknown}.items()
                   if x in old and (x in after.cells or x in after.unknown)}
        hosts = tuple(tuple(x for x, _ in cost.hosts) for cost in (before, after))
        return cls(changed, new, (before.launches, after.launches), (hosts[0], hosts[1]), unknown)

    def grown(self) -> dict[str, tuple[Cells, Cells]]:
        """The temporaries with more cells, or cells in a larger address space."""
        return {x: (old, new) for x, (old, new) in self.cells.items() if new.more_than(old)}

    def added_hosts(self) -> tuple[str, ...]:
        """The inames whose loops the host runs in the second kernel alone."""
        return tuple(x for x in dict.fromkeys(self.hosts[1]) if x not in self.hosts[0])

    def adds_launches(self) -> bool:
        """Does the second kernel provably have more launches, or more loops of the host?"""
        first, second = self.launches
        return first is not None and second is not None and (second > first or bool(self.added_hosts()))

    def lines(self) -> Iterator[str]:
        """The changes as text, one per line."""
        for name, (old, new) in self.cells.items():
            if str(old) != str(new):
                yield f"{name}: {old} -> {new}"
        for name, cells in self.scratch.items():
            yield f"{name}: global, {cells}"
        first, second = self.launches
        if second is None:
            if first is not None:
                yield "storage and launches: not known" if self.unknown else "launches: not known"
            return
        if first not in (None, second):
            yield f"launches: {first} -> {second}"
        if first is not None and self.hosts[0] != self.hosts[1]:
            yield f"loops on the host: {', '.join(self.hosts[0]) or 'none'} -> {', '.join(self.hosts[1]) or 'none'}"
