"""Constructors of kernels from kernels: each states how the dependences change.

The dependences of the reference order are relations of instances, and a new execution order does not change them.
:func:`annotated` changes neither statements nor order, :func:`reordered` the order, :func:`rewritten` the expressions,
:func:`reindexed` the instances, and :func:`specialized` adds facts about them. :func:`with_dependences` is for steps
that introduce values.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from loopkit.analysis.refinement import refined
from loopkit.errors import InternalError
from loopkit.kernel.data import Argument, SubstitutionRule, TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.given_order import Chain
from loopkit.kernel.history import History
from loopkit.kernel.kernel import Derivation, Derive, LoopKernel, WholeKernel
from loopkit.kernel.obligation import Obligation
from loopkit.kernel.options import Options
from loopkit.kernel.statement import ReductionNode, RequestedBarrier, Statement
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Tree, leaves
from loopkit.poly.relations import carry
from loopkit.poly.sets import Map, Set


class Annotations(TypedDict, total=False):
    """The parts of a kernel other than its statements and their order."""

    name: str
    arguments: tuple[Argument, ...]
    temporaries: Mapping[str, TemporaryVariable]
    given_order: tuple[Chain, ...]
    tags: Mapping[str, InameTag]
    barriers: tuple[RequestedBarrier, ...]
    assumptions: Set
    options: Options
    history: History
    obligations: tuple[Obligation, ...]
    whole: WholeKernel


class Expressions(Annotations, total=False):
    """The parts that may change while the instances stay the same."""

    statements: tuple[Statement, ...]
    reductions: Mapping[str, ReductionNode]
    substitutions: Mapping[str, SubstitutionRule]


class Contents(Expressions, total=False):
    """All parts of a kernel that a constructor may replace."""

    tree: Tree


def _unchanged(found: Sequence[Dependence], _: LoopKernel) -> Sequence[Dependence]:
    return found


# {{{ the constructors

def annotated(kernel: LoopKernel, **annotations: Unpack[Annotations]) -> LoopKernel:
    """*kernel* with other *annotations*: its dependences stay the same.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> annotated(knl, name="twice").name
    'twice'
    """
    _require_parts(annotations, Annotations)
    return replace(kernel, derived=Derivation(kernel, _unchanged), **annotations)


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
        raise InternalError("Another order has other statements.")
    return replace(kernel, derived=Derivation(kernel, _unchanged), tree=tree, **annotations)


def rewritten(kernel: LoopKernel, **expressions: Unpack[Expressions]) -> LoopKernel:
    """*kernel* with other *expressions* or storage for the same values: its dependences stay the same."""
    _require_parts(expressions, Expressions)
    new = expressions.get("statements", kernel.statements)
    if {s.id: s.domain for s in new} != {s.id: s.domain for s in kernel.statements}:
        raise InternalError("The rewritten statements have other instances.")
    return replace(kernel, derived=Derivation(kernel, _unchanged), **expressions)


def reindexed(kernel: LoopKernel, images: Mapping[str, Sequence[Image]], **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with its instances moved, copied, split or removed: the dependences follow the instances.

    :arg images: as for :func:`between_images`.
    """
    return with_dependences(kernel, lambda found, _: between_images(found, images), **contents)


def with_dependences(kernel: LoopKernel, derive: Derive, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, for a step that derives its dependences itself.

    :arg derive: from the dependences of *kernel* and the new kernel to its dependences; called at their first use.
    """
    _require_parts(contents, Contents)
    return replace(kernel, derived=Derivation(kernel, derive), **contents)


def specialized(kernel: LoopKernel, derive: Derive = _unchanged, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with more facts: pairs of instances that do not access one element are no longer dependences.

    If the order of *kernel* is the reference order, its dependences are computed again.

    :arg derive: as for :func:`with_dependences`; default: the dependences of *kernel*.
    """
    _require_parts(contents, Contents)
    derivation = Derivation(kernel, lambda found, new: refined(new, derive(found, new)))
    return replace(kernel, derived=None if kernel.derivation is None else derivation, **contents)


def in_own_order(kernel: LoopKernel, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, in a new reference order: that of its tree, as of a program just written."""
    _require_parts(contents, Contents)
    return replace(kernel, derived=None, **contents)

# }}}


def _require_parts(given: Annotations, parts: type) -> None:
    """:raises TypeError: some of *given* are none of *parts*."""
    if wrong := given.keys() - parts.__annotations__.keys():
        raise TypeError(f"not in {parts.__name__}: {', '.join(sorted(wrong))}")


# {{{ dependences along instances

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
        for source in images.get(d.source, (Image(d.source),)):
            for sink in images.get(d.sink, (Image(d.sink),)):
                key = tuple(map(id, (d.relation, source.relation, source.within, sink.relation, sink.within)))
                if key not in moved:
                    moved[key] = _moved(d.relation, source, sink)
                relation = moved[key]
                if relation is not None:
                    yield replace(d, source=source.statement, sink=sink.statement, relation=relation)


def _moved(relation: Map, source: Image, sink: Image) -> Map | None:
    """The pairs of *relation* between two images; ``None``: there are none."""
    part = relation if source.within is None else relation.intersect_domain(source.within)
    part = part if sink.within is None else part.intersect_range(sink.within)
    return None if part is not relation and part.is_empty() else carry(part, source.relation, sink.relation)

# }}}
