"""How often threads, warps and blocks execute each statement of a lowered kernel, and the strides of its accesses."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain, data_params, fastest_last, origin
from loopkit.analysis.counts import CountGranularity, Key, MemAccess
from loopkit.analysis.counts_of_statements import Reference
from loopkit.analysis.ranges import constant_range
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.dtypes import Type
from loopkit.expr.mappers import element, subscripts_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, Launch, Lowered
from loopkit.lowering.pipeline import placed_once
from loopkit.lowering.stored import in_storage
from loopkit.lowering.types import index_types
from loopkit.poly.affine import NotAffineError, add, affine_difference, floor_div, multiply, remainder
from loopkit.poly.counting import number_of_points
from loopkit.poly.piecewise import points_where
from loopkit.poly.quasi_polynomials import PiecewiseQuasiPolynomial, whole
from loopkit.poly.sets import InstanceSet

#: A number of threads; ``"guess"`` and ``None`` mean the warp of the GPU.
SubgroupSize = int | str | None

#: The memories whose accesses are counted; others are registers.
_MEMORIES = {AddressSpace.GLOBAL: "global", AddressSpace.LOCAL: "local"}


def executions_of(knl: LoopKernel, subgroup_size: SubgroupSize, *, redundant: bool) -> Executions:
    """The executions of the statements of *knl*; :raises PreconditionError: there is no such subgroup size."""
    low = replace(placed_once(knl), shapes=array_shapes(knl))
    size = low.machine.warp if subgroup_size in (None, "guess") else subgroup_size
    if not isinstance(size, int) or size < 1:
        raise PreconditionError(f"subgroup_size= cannot be {subgroup_size!r}.", subject=str(subgroup_size),
                                hint="it is a number of threads, or None for a warp")
    return Executions(low, size, redundant)


def countable_domain(knl: LoopKernel, s: Statement) -> InstanceSet:
    """The instances of *s*; :raises UndecidedError: they depend on data."""
    data = data_params(knl, s.domain)
    if data or s.predicates:
        reason = f"a bound is {origin(knl, data)}" if data else \
            f"its condition '{to_text(s.predicates[0])}' depends on data, or is not affine"
        raise UndecidedError(f"The number of executions of '{s.id}' is unknown.", reason,
                             hint=f"count others: within='not id:{owner(s.id)}'")
    return analysis_domain(knl, s)


@dataclass(frozen=True)
class Executions:
    """The statements of the kernel *low* on its axes.

    :ivar warp: the threads of a warp.
    :ivar redundant: count the copies of a statement along axes without an iname of its own.
    """

    low: Lowered
    warp: int
    redundant: bool

    @property
    def knl(self) -> LoopKernel:
        return self.low.kernel

    @cached_property
    def types(self) -> Mapping[str, Type]:
        """The type of each name, in a text with 32-bit indices."""
        return index_types(self.knl)

    @cached_property
    def launches(self) -> Mapping[str, Launch]:
        """The launch of each statement."""
        return {s: launch for launch in self.low.launches for s in launch.statements}

    def counts(self, statements: Iterable[Statement],
               done: Callable[[Executions, Statement], Iterator[tuple[Key, int]]]
               ) -> Iterator[tuple[Key, PiecewiseQuasiPolynomial]]:
        """The numbers of what *statements* do, each *done* so many times in one execution."""
        numbers: dict[tuple[object, ...], PiecewiseQuasiPolynomial] = {}
        for s in statements:
            for key, times in done(self, s):
                granularity = getattr(key, "count_granularity", None)
                bound = self.launches[s.id].statements[s.id]
                same = (id(s.domain), granularity, self.launches[s.id].name, bound.alone_on, bound.auto,
                        s.predicates)
                if same not in numbers:
                    numbers[same] = self._number(s, bound, granularity)
                yield key, times*numbers[same]

    def _number(self, s: Statement, bound: BoundStatement, granularity: str | None) -> PiecewiseQuasiPolynomial:
        """The number of executions of *s* by all threads, warps or blocks."""
        launch = self.launches[s.id]
        domain = countable_domain(self.knl, s)
        own = set(chain.from_iterable(variables(launch.mapping.coordinates[x]) for x in bound.hardware))
        axes = [axis for axis in launch.mapping.extents if axis not in own and axis not in bound.alone_on]
        factor = whole(1)
        if granularity != CountGranularity.WORKITEM:
            axes = [axis for axis in axes if axis in GRID]
            on_threads = {x for x in bound.hardware if x in launch.mapping.thread_inames}
            domain = domain.onto([x for x in domain.inames if x not in on_threads and x not in bound.auto])
            if granularity == CountGranularity.SUBGROUP:
                domain, warps = _along_axis(domain, "l.warps", floor_div(add(launch.threads, self.warp - 1), self.warp),
                                            self.knl)
                factor *= warps
            factor *= self._rounds(s, bound, launch)
        elif bound.auto:
            axes = [axis for axis in axes if axis in GRID]
        for axis in axes if self.redundant else ():
            domain, copies = _along_axis(domain, axis, launch.mapping.extents[axis], self.knl)
            factor *= copies
        return factor*number_of_points(domain.set, self.knl.assumptions)

    def _rounds(self, s: Statement, bound: BoundStatement, launch: Launch) -> int:
        """The rounds in which the threads of a block execute all points of the ``l.auto`` inames of *s*."""
        if not bound.auto:
            return 1
        threads = prod(launch.axes_for(bound)[0].values())
        return -(-prod(len(self._values(s, x)) for x in bound.auto) // threads)

    def _values(self, s: Statement, iname: str) -> range:
        low, high = constant_range(self.knl, s.domain, iname)
        assert low is not None, "lowering checks the ranges of l.auto inames"
        assert high is not None, "lowering checks the ranges of l.auto inames"
        return range(low, high + 1)

    # Addresses

    def access(self, s: Statement, reference: Reference) -> MemAccess | None:
        """The kind of an access; ``None`` for one to registers."""
        storage = self.low.storages.get(reference.array)
        memory = _MEMORIES.get(AddressSpace.GLOBAL if storage is None else storage.space)
        if memory is None:
            return None
        lid, gid = self._strides(s, reference)
        uniform = lid.get(0, 0) == 0
        granularity = CountGranularity.SUBGROUP if memory == "local" or uniform else CountGranularity.WORKITEM
        return MemAccess(memory, self.knl.data[reference.array].dtype, lid, gid, reference.direction, reference.array,
                         granularity, self.knl.name)

    def _strides(self, s: Statement, reference: Reference
                 ) -> tuple[dict[int, Expression | None], dict[int, Expression | None]]:
        """The distance of the elements of neighbouring threads, and of neighbouring blocks, along each axis."""
        launch = self.launches[s.id]
        bound = launch.statements[s.id]
        accessed = element(reference.array, reference.subscripts)
        storage = self.low.storages.get(reference.array)
        extents: Sequence[Expression | None] = self.low.shapes.get(reference.array, ()) if storage is None \
            else storage.in_memory
        coordinates = {**launch.mapping.coordinates, **self._distributed(s, bound, launch)}
        subscripts = [substitute(e, coordinates) for e in subscripts_of(in_storage(accessed, self.low.storages))]
        found = {axis: _stride_along(axis, subscripts, extents) for axis in launch.mapping.extents
                 if any(axis in variables(e) for e in subscripts)}
        lid, gid = ({int(axis[2:]): stride for axis, stride in found.items() if axis in kind} for kind in (BLOCK, GRID))
        return lid, gid

    def _distributed(self, s: Statement, bound: BoundStatement, launch: Launch) -> dict[str, Expression]:
        """The ``l.auto`` inames of *s* in terms of the axes, in the first round."""
        axes, _ = launch.axes_for(bound)
        box = {x: self._values(s, x) for x in fastest_last(self.knl, s.expression, bound.auto)}
        found: dict[str, Expression] = {}
        last = next(reversed(box), None)
        if last is not None and axes.get("l.0") == len(box[last]):
            found[last] = add(p.Variable("l.0"), box.pop(last).start)
            del axes["l.0"]
        number: Expression = 0
        for axis, stride in zip(axes, _products([*axes.values()]), strict=True):
            number = add(number, multiply(stride, p.Variable(axis))) if axes[axis] > 1 else number
        for x, values in reversed(box.items()):
            is_last = x == next(iter(box))
            found[x] = add(number if is_last else remainder(number, len(values)), values.start)
            number = floor_div(number, len(values))
        return found


def _products(extents: Sequence[int]) -> Iterator[int]:
    return (prod(extents[:i]) for i in range(len(extents)))


def _stride_along(axis: str, subscripts: Sequence[Expression], extents: Sequence[Expression | None]
                  ) -> Expression | None:
    """The distance of the elements at two neighbouring places along *axis*; ``None``: it is not constant."""
    total: Expression = 0
    length: Expression | None = 1
    for subscript, extent in reversed([*zip(subscripts, extents, strict=True)]):
        if axis in variables(subscript):
            step = affine_difference(substitute(subscript, {axis: add(p.Variable(axis), 1)}), subscript)
            if step is None or length is None:
                return None
            total = add(total, multiply(step, length))
        length = None if extent is None or length is None else multiply(length, extent)
    return total


def _along_axis(domain: InstanceSet, axis: str, extent: Expression, knl: LoopKernel
                ) -> tuple[InstanceSet, PiecewiseQuasiPolynomial]:
    """*domain* with a further dimension along an axis of this *extent*; or a factor, if the extent is not affine."""
    wider = domain.onto((*domain.inames, axis))
    try:
        within = points_where(p.Comparison(p.Variable(axis), "<", extent), wider.inames)
        return wider.named(wider.set.intersect(within)).where((">=", p.Variable(axis))), whole(1)
    except NotAffineError:
        if isinstance(extent, p.Product) and variables(extent) <= knl.value_params:
            empty = InstanceSet.universe(())
            factor = whole(1)
            for part in extent.children:
                own, copies = _along_axis(empty, axis, part, knl)
                factor *= copies*number_of_points(own.set, knl.assumptions)
            return domain, factor
    raise UndecidedError(f"The number of blocks along '{axis}' is unknown.",
                         f"its extent {to_text(extent)} is not affine", hint="count_redundant_work=False")
