"""Axes of array arguments that become other axes, or other arguments: the interface of the kernel changes."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, analysis_domain, is_of_c_code
from loopkit.analysis.constructors import Image, between_images, reference_pairs, with_dependences, with_other_axes
from loopkit.analysis.ranges import iname_range
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.mappers import element, map_children, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import GlobalArg, MemoryLayout
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement, with_expressions
from loopkit.kernel.tree import Leaf, Tree, in_order_of, rewrite, seq
from loopkit.poly.affine import add, floor_div, quotient_and_rest, subtract
from loopkit.poly.elements import outside
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Condition, InstanceSet
from loopkit.transform.step import known_list, require_fresh, require_positive, transform

Axes = tuple[Expression, ...]


@transform
def split_array_axis(kernel: LoopKernel, array_names: str | Sequence[str], axis_nr: int, count: int,
                     order: str = "C") -> LoopKernel:
    """Split an axis of arrays into groups of *count* elements: element ``i`` becomes element ``i // count, i % count``.

    The interface of the kernel changes: a call passes arguments with the new axes. Each element keeps a place of its
    own, so no dependence changes.

    :arg array_names: the arrays, arguments or temporaries.
    :arg axis_nr: the number of the axis; negative numbers count from the end.
    :arg order: ``"C"``: the axis within a group follows the axis of groups; ``"F"``: it precedes it.
    :raises UnknownNameError: a name is not an array.
    :raises PreconditionError: there is no such axis; *count* is not positive; the order or the strides of an array are
        declared, or its elements are constants.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_array_axis(lk.split_iname(knl, "i", 4), "x, y", 0, 4)
    >>> print(knl.statements_text)
    for i_outer, i_inner
      y[i_outer, i_inner] = 2*x[i_outer, i_inner]  {id=insn}
    end
    >>> knl(x=np.arange(8.).reshape(2, 4), n=8).y.shape
    (2, 4)
    """
    chosen, count = known_list("array", array_names, kernel.data), require_positive(count, "count")
    if order not in ("C", "F"):
        raise PreconditionError(f"The order of the new axes cannot be {order!r}.", subject="order",
                                hint="pass order='C' or order='F'")
    shapes, numbers = array_shapes(kernel), dict[str, int]()
    for name in chosen:
        rank = len(shapes.get(name, ()))
        if not -rank <= axis_nr < rank:
            raise PreconditionError(f"'{name}' has {rank} axes, but no axis {axis_nr}.", subject=name)
        _require_plain_layout(kernel, name)
        numbers[name] = axis_nr % rank

    def parts(name: str, own: Sequence[Expression | None], halves: tuple[Expression | None, Expression | None]
              ) -> tuple[Expression | None, ...]:
        at = numbers[name]
        return (*own[:at], *(halves if order == "C" else halves[::-1]), *own[at + 1:])

    def subscripts(name: str, own: Axes) -> Axes:
        return _all_known(parts(name, own, group_and_place(kernel, own[numbers[name]], count)))

    def shape(name: str, own: Sequence[Expression | None]) -> tuple[Expression | None, ...]:
        extent = own[numbers[name]]
        groups = None if extent is None else -(-extent // count) if isinstance(extent, int) else \
            floor_div(add(extent, count - 1), count)
        return parts(name, own, (groups, count))

    def reshaped_one(a: GlobalArg) -> GlobalArg:
        known = None if a.shape is None else _all_known(shape(a.name, a.shape))
        inferred = None if a.shape is not None else shape(a.name, shapes[a.name])
        like = a.shape_like if a.shape_like in chosen else None
        return replace(a, shape=known, inferred=inferred, shape_like=like)
    result = with_other_axes(kernel, chosen, subscripts, lambda name, own: _all_known(shape(name, own)))
    return with_dependences(result, lambda found, _: found, arguments=tuple(
        reshaped_one(a) if isinstance(a, GlobalArg) and a.name in chosen else _unlike(a, chosen)
        if isinstance(a, GlobalArg) else a for a in kernel.arguments))


def _all_known(extents: Sequence[Expression | None]) -> Axes:
    return tuple(e for e in extents if e is not None)


def _unlike(a: GlobalArg, changed: Sequence[str]) -> GlobalArg:
    """*a*, whose output has not the shape of a *changed* array."""
    return replace(a, shape_like=None) if a.shape_like in changed else a


def _require_plain_layout(kernel: LoopKernel, name: str) -> None:
    datum = kernel.data[name]
    declared = datum.order is not None or datum.strides is not None if isinstance(datum, GlobalArg) else \
        datum.read_only or datum.layout != MemoryLayout() or datum.fixed or datum.instruction
    if declared:
        raise PreconditionError(f"The layout of '{name}' was declared, so its axes cannot change.", subject=name,
                                hint="change the axes first, and declare the layout then")


def group_and_place(kernel: LoopKernel, subscript: Expression, count: int) -> tuple[Expression, Expression]:
    """``subscript // count`` and ``subscript % count``, in few terms if the inames' ranges allow it."""
    ranges = {x: iname_range(kernel, x) for x in variables(subscript) & {*kernel.inames}}
    return quotient_and_rest(subscript, count, {x: extent for x, (low, extent) in ranges.items()
                                                if low == 0 and extent})



# An argument for each element of an axis

def with_separate_axes(kernel: LoopKernel, name: str, axes: Sequence[int]) -> LoopKernel:
    """*kernel* with an argument for each element of *axes* in the place of the array argument *name*."""
    return _Separation(kernel, name, tuple(axes)).result


@dataclass(frozen=True)
class _Separation:
    """The array argument *name*, and its *axes* whose elements become arguments."""

    kernel: LoopKernel
    name: str
    axes: tuple[int, ...]

    @cached_property
    def extents(self) -> tuple[int, ...]:
        shape = array_shapes(self.kernel)[self.name]
        found = tuple(e for e in (shape[k] for k in self.axes) if isinstance(e, int))
        if len(found) < len(self.axes):
            raise PreconditionError(f"An axis of '{self.name}' cannot be separated: its extent is not constant.",
                                    subject=self.name, hint="fix_parameters, or declare a constant extent")
        return found

    @cached_property
    def names(self) -> Mapping[tuple[int, ...], str]:
        return {index: "".join((self.name, *(f"_s{k}" for k in index)))
                for index in product(*map(range, self.extents))}

    def require(self) -> None:
        """:raises PreconditionError: an access is outside the axes, or in a reduction; UndecidedError: it may be."""
        for name in self.names.values():
            require_fresh(self.kernel, name)
        _require_plain_layout(self.kernel, self.name)
        shape = array_shapes(self.kernel)[self.name]
        knl = self.kernel
        for a in accesses_by_array(knl).get(self.name, ()):
            s = knl.statement_by_id[a.statement]
            if is_of_c_code(knl, s):
                raise PreconditionError(f"The C instruction at '{s.id}' accesses '{self.name}' as one array.",
                                        subject=self.name, hint="give the instruction an operand for each element")
            own = zip(self.own(a.subscripts), self.extents, strict=True)
            if all(isinstance(e, int) and 0 <= e < extent for e, extent in own):
                continue                                     # whatever the other subscripts are
            if not a.affine:
                raise UndecidedError(f"It is unknown which of the arrays of '{self.name}' '{a.statement}' accesses.",
                                     "a subscript is not an affine form of the inames and the sizes")
            bad = outside(a.relation, shape, self.kernel.assumptions, self.axes)
            if bad is not None:
                raise PreconditionError(f"'{a.statement}' accesses '{self.name}' outside of its separate axes.",
                                        subject=self.name, hint="declare a larger shape, or guard the access")

    def own(self, subscripts: Axes) -> Axes:
        return tuple(subscripts[k] for k in self.axes)

    def rest(self, subscripts: Axes) -> Axes:
        return tuple(e for k, e in enumerate(subscripts) if k not in self.axes)

    def read(self, expr: Expression, known: Mapping[Expression, int]) -> Expression:
        """*expr* with the new arguments; *known*: the values of subscripts."""
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name == self.name:
                index = tuple(self.read(e, known) for e in expr.index_tuple)
                own = tuple(known.get(e, e) for e in self.own(index))
                *others, last = [k for k in self.names if all(e in (k[i], e) and (
                    not isinstance(e, int) or e == k[i]) for i, e in enumerate(own))]
                result: Expression = element(self.names[last], self.rest(index))
                for k in reversed(others):
                    tests = [p.Comparison(e, "==", k[i]) for i, e in enumerate(own) if not isinstance(e, int)]
                    test = tests[0] if len(tests) == 1 else p.LogicalAnd(tuple(tests))
                    result = p.If(test, element(self.names[k], self.rest(index)), result)
                return result
            case _:
                return map_children(expr, lambda e: self.read(e, known))

    def copies(self, s: Statement) -> Iterator[tuple[Statement, InstanceSet]]:
        """The statements in the place of *s*, each with the instances of *s* that it runs."""
        own = self.own(s.subscripts) if s.written == self.name else ()
        open_ones = [e for e in own if not isinstance(e, int)]
        if not open_ones:
            yield with_expressions(s, partial(self.read, known={})), s.domain
            return
        if s.id in self.kernel.reduction_of or any(s.id == r.final for r in self.kernel.reductions.values()) or any(
                s.id in (b.first, b.second) for b in self.kernel.barriers):
            raise PreconditionError(f"The reduction or the barrier at '{s.id}' does not allow a statement for each "
                                    f"element of '{self.name}'.", subject=s.id,
                                    hint=f"write a statement for each element: subscript {to_text(open_ones[0])}")
        for index in self.names:
            conditions: list[Condition] = [("==", subtract(e, k)) for e, k in zip(own, index, strict=True)]
            where = s.domain.where(*conditions)
            if not where.is_empty():
                known = {e: k for e, k in zip(own, index, strict=True) if not isinstance(e, int)}
                new = self.kernel.fresh_name("".join((s.id, *(f"_s{k}" for k in index))))
                # the dependences have no bounds that depend on data
                yield replace(with_expressions(s, partial(self.read, known=known)), id=new, domain=where), \
                    analysis_domain(self.kernel, s).where(*conditions)

    @cached_property
    def result(self) -> LoopKernel:
        self.require()
        knl = self.kernel
        copies = {s.id: [*self.copies(s)] for s in knl.statements}
        ids = {s: [copy.id for copy, _ in found] for s, found in copies.items()}

        def renamed(s: Statement) -> Statement:
            after, apart = (frozenset(new for old in found for new in ids.get(old, [old]))
                            for found in (s.options.depends_on, s.options.no_sync_with))
            return replace(s, options=replace(s.options, depends_on=after, no_sync_with=apart))

        def placed(tree: Tree) -> Tree:
            return seq(*map(Leaf, ids[tree.statement])) if isinstance(tree, Leaf) else tree
        tree = rewrite(knl.tree, placed)
        images = {s: [Image(copy.id, within=where.set) for copy, where in found]
                  for s, found in copies.items() if ids[s] != [s]}

        def divided(found: Sequence[Dependence], new: LoopKernel) -> Iterator[Dependence]:
            for d in between_images(found, images):
                for name in self.names.values() if d.array == self.name else ():
                    own = replace(d, array=name)
                    for a, b in reference_pairs(new, own):
                        pairs = d.relation.intersect(same_element(a.relation, b.relation))
                        if not pairs.is_empty():
                            yield replace(own, relation=pairs)
                if d.array != self.name:
                    yield d
        arg = knl.array_args[self.name]
        shape = array_shapes(knl)[self.name]
        rest = tuple(e for k, e in enumerate(shape) if k not in self.axes)
        new_args = [replace(arg, name=name, shape=None if arg.shape is None else _all_known(rest), shape_like=None,
                            inferred=rest if arg.shape is None else None) for name in self.names.values()]
        return with_dependences(
            knl, divided, tree=tree,
            statements=in_order_of(tree, (renamed(copy) for s in knl.statements for copy, _ in copies[s.id])),
            substitutions={name: replace(rule, expr=self.read(rule.expr, {}))
                           for name, rule in knl.substitutions.items()},
            arguments=tuple(new for a in knl.arguments for new in (
                new_args if a is arg else [_unlike(a, [self.name]) if isinstance(a, GlobalArg) else a])))
