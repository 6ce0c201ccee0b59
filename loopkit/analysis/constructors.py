"""Kernels made from kernels: each constructor says what becomes of the dependences.

The dependences of the reference order follow the instances, whatever order these get. :func:`annotated` changes
neither, :func:`reordered` the order, :func:`rewritten` the expressions, :func:`reindexed` the instances, and
:func:`specialized` what is known of them. :func:`with_dependences` is for steps that make new values.
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
    """The parts of a kernel beside its statements and their order."""

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
    """Those that change where the instances stay."""

    statements: tuple[Statement, ...]
    reductions: Mapping[str, ReductionNode]
    substitutions: Mapping[str, SubstitutionRule]


class Contents(Expressions, total=False):
    """All that a new kernel may have in the place of what the one before had."""

    tree: Tree


def _unchanged(found: Sequence[Dependence], _: LoopKernel) -> Sequence[Dependence]:
    return found


# {{{ the constructors

def annotated(kernel: LoopKernel, **annotations: Unpack[Annotations]) -> LoopKernel:
    """*kernel* with other *annotations*: its dependences bind as before.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> annotated(knl, name="twice").name
    'twice'
    """
    _require_parts(annotations, Annotations)
    return replace(kernel, derived=Derivation(kernel, _unchanged), **annotations)


def reordered(kernel: LoopKernel, tree: Tree, **annotations: Unpack[Annotations]) -> LoopKernel:
    """*kernel*, whose instances run in the order of *tree*: the dependences are those of the order before.

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
    """*kernel*, whose instances compute the same values with other *expressions*, or keep them in other cells."""
    _require_parts(expressions, Expressions)
    new = expressions.get("statements", kernel.statements)
    if {s.id: s.domain for s in new} != {s.id: s.domain for s in kernel.statements}:
        raise InternalError("Statements written in other words have other instances.")
    return replace(kernel, derived=Derivation(kernel, _unchanged), **expressions)


def reindexed(kernel: LoopKernel, images: Mapping[str, Sequence[Image]], **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel*, in which other instances stand for those that it has: moved, copied, parted, or none.

    :arg images: as for :func:`between_images`.
    """
    return with_dependences(kernel, lambda found, _: between_images(found, images), **contents)


def with_dependences(kernel: LoopKernel, derive: Derive, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, for steps that have a derivation of dependences of their own.

    :arg derive: called when somebody asks for them, with the dependences of *kernel* and with the new kernel.
    """
    _require_parts(contents, Contents)
    return replace(kernel, derived=Derivation(kernel, derive), **contents)


def specialized(kernel: LoopKernel, derive: Derive = _unchanged, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* of which more is known: pairs of instances that do not meet bind each other no more.

    A kernel whose own order is the reference is looked at anew.

    :arg derive: as for :func:`with_dependences`; default: the dependences are those of *kernel*.
    """
    _require_parts(contents, Contents)
    derivation = Derivation(kernel, lambda found, new: refined(new, derive(found, new)))
    return replace(kernel, derived=None if kernel.derivation is None else derivation, **contents)


def in_own_order(kernel: LoopKernel, **contents: Unpack[Contents]) -> LoopKernel:
    """*kernel* with other *contents*, whose own order is the reference: a program that a user has just written."""
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
    """A statement whose instances stand for those of a statement before.

    :ivar relation: from old instances to new ones; ``None``: they are the same.
    :ivar within: the old instances that it stands for; ``None``: all.
    """

    statement: str
    relation: Map | None = None
    within: Set | None = None


def between_images(found: Iterable[Dependence], images: Mapping[str, Sequence[Image]]) -> Iterator[Dependence]:
    """The dependences *found*, between the images of their statements.

    :arg images: those of each statement that changes. One that has none is gone, and its dependences with it.
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
    """The pairs of *relation* between two images; ``None`` if the images hold none."""
    part = relation if source.within is None else relation.intersect_domain(source.within)
    part = part if sink.within is None else part.intersect_range(sink.within)
    return None if part is not relation and part.is_empty() else carry(part, source.relation, sink.relation)

# }}}
