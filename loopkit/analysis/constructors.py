"""Constructors of kernels from kernels: each states how the dependences change.

The dependences of the reference order are relations of instances, and a new execution order does not change them.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypedDict, Unpack

import pymbolic.primitives as p
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.analysis.accesses import Access, accesses_to, commute
from loopkit.analysis.must_writes import is_must_write
from loopkit.analysis.ranges import iname_extent, iname_range
from loopkit.errors import InternalError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.mappers import element, map_children
from loopkit.kernel.data import Argument, Options, SubstitutionRule, TemporaryVariable
from loopkit.kernel.history import History
from loopkit.kernel.kernel import Derivation, Derive, LoopKernel, WholeKernel
from loopkit.kernel.statement import (
    CallRegion,
    Dependence,
    Obligation,
    ReductionNode,
    RequestedBarrier,
    Statement,
    with_expressions,
    writing_ends,
)
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import GivenOrder, Tree, leaves
from loopkit.poly.affine import subtract
from loopkit.poly.relations import carry, same_element
from loopkit.poly.sets import InstanceSet, Map, Set


class Annotations(TypedDict, total=False):
    """The parts of a kernel other than its statements and their order."""

    name: str
    arguments: tuple[Argument, ...]
    temporaries: Mapping[str, TemporaryVariable]
    functions: Mapping[str, ScalarFunction]
    given_pairs: GivenOrder
    tags: Mapping[str, InameTag]
    user_tags: Mapping[str, frozenset[Tag]]
    kernel_tags: frozenset[Tag]
    barriers: tuple[RequestedBarrier, ...]
    assumptions: Set
    declared_domains: tuple[InstanceSet, ...]
    options: Options
    history: History
    obligations: tuple[Obligation, ...]
    whole: WholeKernel


class Expressions(Annotations, total=False):
    """The parts that may change while the instances stay the same."""

    statements: tuple[Statement, ...]
    reductions: Mapping[str, ReductionNode]
    calls: Mapping[str, CallRegion]
    substitutions: Mapping[str, SubstitutionRule]


class Contents(Expressions, total=False):
    """All parts of a kernel that a constructor may replace."""

    tree: Tree


def _unchanged(found: Sequence[Dependence], _: LoopKernel) -> Sequence[Dependence]:
    return found


# The constructors

def annotated(kernel: LoopKernel, **annotations: Unpack[Annotations]) -> LoopKernel:
    """*kernel* with other *annotations*: its dependences stay the same.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> annotated(knl, name="twice").name
    'twice'
    """
    _require_parts(annotations, Annotations)
    return with_dependences(kernel, _unchanged, **annotations)


def reordered(kernel: LoopKernel, tree: Tree, **annotations: Unpack[Annotations]) -> LoopKernel:
    """*kernel* with its instances in the order of *tree*: its dependences stay the same.

    >>> from loopkit.analysis.dependences import dependences
    >>> from loopkit.kernel.tree import Seq
    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", "t[i] = x[i] {id=first}\\ny[j] = t[j] {id=second}")
    >>> turned = reordered(knl, Seq(knl.tree.children[::-1]))
    >>> [(d.source, d.sink) for d in dependences(turned)]
    [('first', 'second')]
    """
    _require_parts(annotations, Annotations)
    if {*leaves(tree)} != {*leaves(kernel.tree)}:
        raise InternalError("The new order has other statements.")
    return with_dependences(kernel, _unchanged, tree=tree, **annotations)


def rewritten(kernel: LoopKernel, **expressions: Unpack[Expressions]) -> LoopKernel:
    """*kernel* with other *expressions* or storage for the same values: its dependences stay the same.

    Whether the values are the same is the caller's claim: a flow leads from instances to instances, and does not show
    that two expressions of one instance are equal.
    """
    _require_parts(expressions, Expressions)
    new = expressions.get("statements", kernel.statements)
    if {s.id: s.domain for s in new} != {s.id: s.domain for s in kernel.statements}:
        raise InternalError("The rewritten statements have other instances.")
    return with_dependences(kernel, _unchanged, **expressions)


def reindexed(kernel: LoopKernel, images: Mapping[str, Sequence[Image]], **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with its instances moved, copied, split or removed: the dependences follow their *images*."""
    return with_dependences(kernel, lambda found, _: between_images(found, images), **contents)


def with_dependences(kernel: LoopKernel, derive: Derive, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, for a step that derives its dependences itself.

    :arg derive: from the dependences of *kernel* and the new kernel to its dependences; called at their first use.
    """
    _require_parts(contents, Contents)
    return replace(kernel, derived=Derivation(kernel, derive), **contents)


def specialized(kernel: LoopKernel, derive: Derive = _unchanged, **expressions: Unpack[Expressions]) -> LoopKernel:
    """*kernel* with more facts: pairs of instances that do not access one element are no longer dependences.

    If the order of *kernel* is the reference order, its dependences are computed again.

    :arg derive: as for :func:`with_dependences`; default: the dependences of *kernel*.
    """
    _require_parts(expressions, Expressions)
    derivation = Derivation(kernel, lambda found, new: _refined(new, derive(found, new)))
    return replace(kernel, derived=None if kernel.derivation is None else derivation, **expressions)


def in_own_order(kernel: LoopKernel, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, in a new reference order: that of its tree, as of a program just written."""
    _require_parts(contents, Contents)
    return replace(kernel, derived=None, **contents)


def _require_parts(given: Annotations, parts: type) -> None:
    """:raises TypeError: some of *given* are not among *parts*."""
    if wrong := given.keys() - parts.__annotations__.keys():
        raise TypeError(f"not in {parts.__name__}: {', '.join(sorted(wrong))}")


# Dependences along instances

@dataclass(frozen=True)
class Image:
    """A statement whose instances replace those of an old statement.

    :ivar relation: from old instances to new ones; ``None``: they are the same.
    :ivar within: the old instances that it replaces; ``None``: all.
    """

    statement: str
    relation: Map | None = None
    within: Set | None = None


def between_images(found: Iterable[Dependence], images: Mapping[str, Sequence[Image]]) -> Iterator[Dependence]:
    """The dependences *found* between the images of their statements.

    :arg images: the images of each statement that changes. A statement without images is removed with its dependences.
    """
    every = tuple(found)
    moved: dict[tuple[int, ...], Map | None] = {}
    for d in every:
        for source, sink in product(*(images.get(s, (Image(s),)) for s in (d.source, d.sink))):
            key = tuple(map(id, (d.relation, source.relation, source.within, sink.relation, sink.within)))
            if key not in moved:
                moved[key] = _between_two(d.relation, source, sink)
            relation = moved[key]
            if relation is not None:
                yield replace(d, source=source.statement, sink=sink.statement, relation=relation)


def _between_two(relation: Map, source: Image, sink: Image) -> Map | None:
    """The pairs of *relation* between two images; ``None``: there are none."""
    part = relation if source.within is None else relation.intersect_domain(source.within)
    part = part if sink.within is None else part.intersect_range(sink.within)
    return None if part is not relation and part.is_empty() else carry(part, source.relation, sink.relation)


# More facts

def _refined(knl: LoopKernel, found: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """*found*, the dependences of *knl*, without pairs that do not access one element.

    A size that becomes a number, or an assumption, may make a subscript affine or decide a condition. A must-write
    then hides the writes before it.
    """
    every = tuple(found)
    vague = [d for d in every if _is_vague(d)]
    if not vague:
        return every
    # references of one kind are refined together, as a dependence does not name its references
    joined: dict[tuple[object, ...], Dependence] = {}
    for d in vague:
        key = (d.kind, d.array, d.source, d.sink)
        joined[key] = replace(d, relation=joined[key].relation.union(d.relation)) if key in joined else d
    result = [d for d in every if not _is_vague(d)]
    for d in joined.values():
        pairs = [(a, b) for a, b in reference_pairs(knl, d) if not commute(a, b)]
        for a, b in pairs:
            own = d.relation.intersect(same_element(a.relation, b.relation))
            result += [] if own.is_empty() else [replace(d, relation=own, exact=a.exact and b.exact)]
        result += [] if pairs else [d]                      # a step has replaced the references
    return tuple(_without_hidden(knl, result, {d.array for d in vague if d.of_value}))


def _is_vague(d: Dependence) -> bool:
    return not d.exact and not d.assumed and d.kind != "explicit"


def reference_pairs(knl: LoopKernel, d: Dependence) -> list[tuple[Access, Access]]:
    """Each access of the source of *d* with each one of its sink."""
    sources, sinks = (accesses_to(knl, s, d.array, is_write=is_write)
                      for s, is_write in zip((d.source, d.sink), writing_ends(d.kind), strict=True))
    return list(product(sources, sinks))


def _without_hidden(knl: LoopKernel, found: list[Dependence], arrays: Collection[str]) -> Iterator[Dependence]:
    """*found* without flow of values of *arrays* that a must-write hides.

    An output dependence orders two writes either of which may be the last. It decides which of them hides the other,
    and stays if some read may get the value of either.
    """
    def is_must(array: str, statement: str) -> bool:
        return any(map(is_must_write, accesses_to(knl, statement, array, is_write=True)))
    orders = [d for d in found if d.kind == "output" and d.array in arrays and is_must(d.array, d.sink)]
    flows: list[Dependence] = []
    for d in found:
        if d.array not in arrays or d.kind not in ("flow", "output"):
            yield d
        elif d.kind == "flow":
            relation = d.relation
            # a write of one element hides a pair only if the pair shares no other element
            known = any(len(own) == 1 and own[0].relation.is_single_valued() for own in (
                accesses_to(knl, d.source, d.array, is_write=True), accesses_to(knl, d.sink, d.array, is_write=False)))
            for order in orders if known else ():
                for last in found:
                    if (order.array, order.source, last.kind, last.array, last.source, last.sink) == (
                            d.array, d.source, "flow", d.array, order.sink, d.sink):
                        relation = relation.subtract(order.relation.apply_range(last.relation))
            if not relation.is_empty():
                flows.append(replace(d, relation=relation))
    yield from flows
    for d in found:
        if d.array in arrays and d.kind == "output" and not (
                is_must(d.array, d.source) and is_must(d.array, d.sink)):     # only one of two must-writes is the last
            for first, second in product(*([f for f in flows if (f.array, f.source) == (d.array, writer)]
                                           for writer in (d.source, d.sink))):
                if first.sink == second.sink:
                    relation = d.relation.intersect(same_element(first.relation, second.relation))
                    if not relation.is_empty():
                        yield replace(d, relation=relation)


# Expansion and contraction of temporaries

#: Subscripts or extents, one for each axis.
_Axes = tuple[Expression, ...]


def with_axes(kernel: LoopKernel, names: Collection[str], inames: tuple[str, ...], *, trailing: bool = False
              ) -> LoopKernel:
    """*kernel* with an axis over each of *inames* for the temporaries *names*, before their axes or, *trailing*, after
    them.

    The dependences stay the same: the caller has checked that values stay within an iteration of *inames*. All
    statements that use the temporaries must have the inames.
    """
    places = tuple(subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inames)

    def joined(new: _Axes, own: _Axes) -> _Axes:
        return (*own, *new) if trailing else (*new, *own)
    if not trailing:
        kernel = annotated(kernel, temporaries={x: replace(t, layout=t.layout.behind(len(inames))) if x in names else t
                                                for x, t in kernel.temporaries.items()})
    return with_other_axes(kernel, names, lambda _, own: joined(places, own),
                           lambda _, own: joined(tuple(iname_extent(kernel, x) for x in inames), own))


def without_axes(kernel: LoopKernel, axes: Mapping[str, Collection[int]]) -> LoopKernel:
    """*kernel* without the *axes* of each temporary. The dependences stay the same, as values do."""
    def rest(name: str, own: _Axes) -> _Axes:
        return tuple(e for k, e in enumerate(own) if k not in axes[name])
    return with_other_axes(kernel, axes.keys(), rest, rest)


def with_other_axes(kernel: LoopKernel, names: Collection[str], subscripts: Callable[[str, _Axes], _Axes],
                    shape: Callable[[str, _Axes], _Axes]) -> LoopKernel:
    """*kernel* with other *subscripts* and *shape* of the temporaries *names*, made from those that they have."""
    def indexed(expr: Expression, hidden: tuple[str, ...] = ()) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in names:
                index = subscripts(name, tuple(indexed(e, hidden) for e in expr.index_tuple))
            case p.Variable(name=name) if name in names and name not in hidden:
                index = subscripts(name, ())
            case _:
                return map_children(expr, lambda e: indexed(e, hidden))
        return element(name, index)
    return rewritten(
        kernel, statements=tuple(with_expressions(s, indexed) for s in kernel.statements),
        substitutions={name: replace(rule, expr=indexed(rule.expr, rule.arguments))
                       for name, rule in kernel.substitutions.items()},
        temporaries={t.name: replace(t, shape=shape(t.name, t.shape)) if t.name in names and t.shape is not None else t
                     for t in kernel.temporaries.values()})
