"""Statements of a kernel, reductions as groups of statements, and the dependences between instances."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.ast.nodes import Commuting, Completion, Instruction, Scope, commuting_of, completion_of
from loopkit.expr.mappers import array_of, element, subscripts_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.poly.affine import add
from loopkit.poly.sets import InstanceSet, Map
from loopkit.shown import Declared, Shown


@dataclass(frozen=True, repr=False)
class StatementOptions(Declared):
    """The options that the user gave a statement in braces.

    :ivar depends_on: ids of statements ordered before it by ``dep=``.
    :ivar no_sync_with: ids of statements that ``nosync=`` claims to need no barrier against.
    :ivar tags: labels, and user tags.
    :ivar producer: the producer thread of its block runs it, beside the block's other threads.
    :ivar calls: the calls of functions that the statement belongs to, outermost first; see
        :attr:`loopkit.kernel.kernel.KernelBody.calls`.
    """

    depends_on: frozenset[str] = frozenset()
    no_sync_with: frozenset[str] = frozenset()
    tags: frozenset[str | Tag] = frozenset()
    producer: bool = False
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Statement(Shown):
    """``assignee = expression`` (or ``assignee op= expression``), once for each point of *domain*.

    :ivar expression: free of :class:`loopkit.expr.nodes.Reduction`; may call substitution rules.
    :ivar domain: the instance set; ``domain.inames`` are the statement's inames. A parameter of the domain may be an
        integer temporary (a bound read from memory).
    :ivar predicates: conditions that are not affine (affine ones are part of *domain*); all must hold.
    :ivar combine: ``None`` for ``=``; else the reduction operation (``"sum"``, ...) that combines the expression into
        the assignee.
    :ivar instructions: the instructions that execute it, if its assignee is in a memory of theirs.
    """

    id: str
    assignee: p.Variable | p.Subscript
    expression: Expression
    domain: InstanceSet
    predicates: tuple[Expression, ...] = ()
    combine: str | None = None
    options: StatementOptions = StatementOptions()
    instructions: tuple[Instruction, ...] = ()

    @property
    def inames(self) -> tuple[str, ...]:
        return self.domain.inames

    def __str__(self) -> str:
        target, value = to_text(self.assignee), to_text(self.expression)
        value = value if self.combine is None else f"{self.combine}({target}, {value})"
        conditions = "".join(f", if {to_text(e)}" for e in self.predicates)
        loops = f", for each {', '.join(self.inames)}" if self.inames else ""
        return f"{self.id}: {target} = {value}{conditions}{loops}"

    @property
    def commuting(self) -> Commuting | None:
        """Its access that may run in any order among others, and concurrently: an atomic one."""
        return commuting_of(self.instructions, self.assignee, self.expression, self.combine)

    @property
    def commutes(self) -> bool:
        """Is it its write that may run in any order among others?"""
        return self.commuting is not None and self.commuting[0] == self.assignee

    @property
    def any_order(self) -> str | None:
        """The key of accesses that may run in any order among themselves: the operation of atomic updates.

        A store of one number has the key of this number, and every other store or update one of its own.
        """
        if self.commuting is None:
            return None
        return self.commuting[1] or f"= {self.id if variables(self.expression) else to_text(self.expression)}"

    @property
    def has_nest(self) -> bool:
        """Does one instruction execute it with the nest of loops around it?"""
        return any(i.executes_loops for i in self.instructions)

    @property
    def loads_for_others(self) -> bool:
        """May a thread load an element that it reads for another thread?"""
        return self.accesses_for(is_write=False) is not Scope.THREAD

    def accesses_for(self, *, is_write: bool) -> Scope:
        """The threads for which a thread may store an element, or load one."""
        own = "stores" if is_write else "loads"
        return max((i.scope for i in self.instructions if i.for_others == own), default=Scope.THREAD)

    @property
    def completion(self) -> Completion:
        """The event at which its accesses are performed, if instructions execute it."""
        return completion_of(self.instructions)

    @property
    def subscripts(self) -> tuple[Expression, ...]:
        return subscripts_of(self.assignee)

    @property
    def written(self) -> str:
        """The array or variable on the left-hand side."""
        return array_of(self.assignee)


def owner(statement_id: str) -> str:
    """The id of the statement that *statement_id* belongs to: itself, or for ``S.k.init`` the statement ``S``."""
    return statement_id.split(".")[0]


def with_expressions(statement: Statement, f: Callable[[Expression], Expression]) -> Statement:
    """*statement* with *f* applied to all of its expressions."""
    assignee = f(statement.assignee)
    assert isinstance(assignee, p.Variable | p.Subscript)
    return replace(statement, assignee=assignee, expression=f(statement.expression),
                   predicates=tuple(map(f, statement.predicates)))


@dataclass(frozen=True, repr=False)
class PassedArray(Declared):
    """The elements of the caller that an array argument of a function stands for.

    :ivar name: the function's argument.
    :ivar array: the caller's array or temporary.
    :ivar subscripts: its subscripts, in terms of *axes*.
    :ivar axes: a name for each axis of the argument, which no user can write.
    :ivar extents: the extents along the axes; ``None``: as far as the array reaches.
    """

    name: str
    array: str
    subscripts: tuple[Expression, ...]
    axes: tuple[str, ...]
    extents: tuple[Expression | None, ...]

    def element(self, subscripts: tuple[Expression, ...]) -> p.Variable | p.Subscript:
        """The caller's element at the function's *subscripts*."""
        values = dict(zip(self.axes, subscripts, strict=True))
        return element(self.array, tuple(add(substitute(e, values)) for e in self.subscripts))

    def of(self, outer: p.Variable | p.Subscript) -> PassedArray:
        """The same argument in the elements *outer* of another array."""
        return replace(self, array=array_of(outer), subscripts=subscripts_of(outer), extents=(None,)*len(self.axes))


@dataclass(frozen=True, repr=False)
class CallRegion(Declared):
    """The call of a function, whose statements are embedded in the caller.

    :ivar text: the call as the user wrote it.
    :ivar inames: those of the call, in whose loops the function runs.
    :ivar values: the expression of each value argument.
    :ivar names: the function's own name of each iname and temporary that was made for it.
    :ivar ids: the function's own id of each statement.
    """

    function: str
    text: str
    inames: tuple[str, ...]
    arrays: tuple[PassedArray, ...]
    values: Mapping[str, Expression]
    names: Mapping[str, str]
    ids: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class RequestedBarrier(Shown):
    """A barrier that the user requested.

    :ivar kind: ``"local"``: the threads of a block wait; ``"global"``: a launch ends; ``"turns"``: the warpgroups of a
        block run what is from *first* to *second* one after another.
    """

    first: str
    second: str
    kind: str

    def __str__(self) -> str:
        return (f"{self.kind} from {self.first} to {self.second}" if self.kind == "turns" else
                f"{self.kind} barrier between {self.first} and {self.second}")


@dataclass(frozen=True)
class ReductionNode:
    """``accumulator = operation(inames, operand)`` as three statements, or more if the updates are split.

    :ivar name: ``S.k`` for the reduction over ``k`` in statement ``S``.
    :ivar accumulator: the temporary for the partial result (``acc_k``).
    :ivar inames: the current reduction inames (``("k_outer", "k_inner")`` after a split).
    :ivar init: id of the statement that sets the neutral element.
    :ivar updates: ids of the statements that combine operands; those after the first are for peeled iterations.
    :ivar final: id of the statement whose expression uses the accumulator.
    :ivar sweep: the iname of a scan that the threads of a block compute together, else ``None``.
    """

    name: str
    operation: str
    accumulator: str
    inames: tuple[str, ...]
    init: str
    updates: tuple[str, ...]
    final: str
    sweep: str | None = None

    @property
    def update(self) -> str:
        return self.updates[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The updates of peeled iterations."""
        return self.updates[1:]

    @property
    def parts(self) -> frozenset[str]:
        return frozenset((self.init, *self.updates, self.final))


# Instances that must run after others, and claims of the caller in place of a proof

@dataclass(frozen=True, repr=False)
class Dependence(Shown):
    """*sink* instances that must run after the *source* instances *relation* gives them.

    :ivar kind: ``"flow"``, ``"anti"``, ``"output"`` or ``"explicit"``.
    :ivar array: the array that both access; ``""`` for explicit ones.
    :ivar relation: source inames to sink inames, anonymous.
    :ivar exact: both accesses are affine and must-accesses: each pair accesses one element.
    :ivar of_value: *array* is a temporary. The dependence is the flow of a value, or keeps the order of two writes: a
        read may get the value of either, as one of them is conditional.
    :ivar assumed: an obligation allows steps to break these pairs, so they no longer bind. If *exact*, the pairs
        access one element and the caller claims that their order does not matter; else the claim is that they never do.
    """

    kind: str
    array: str
    source: str
    sink: str
    relation: Map
    exact: bool = True
    of_value: bool = False
    assumed: bool = False

    def __str__(self) -> str:
        of = f" of {self.array}" if self.array else ""
        return f"{self.kind} dependence{of}, {self.source} to {self.sink}: {self.relation}"

    def __reduce__(self) -> tuple[Any, ...]:
        # islpy cannot pickle relations that have one name on both sides
        return _restored, (self.kind, self.array, self.source, self.sink, str(self.relation), self.exact,
                           self.of_value, self.assumed)


def _restored(kind: str, array: str, source: str, sink: str, relation: str, *others: bool) -> Dependence:
    return Dependence(kind, array, source, sink, Map(relation), *others)


@dataclass(frozen=True, repr=False)
class Obligation(Shown):
    """One claim under which a step was accepted; each printed form of the kernel shows it.

    :ivar step: the step, as in its call.
    :ivar claim: the condition that must hold.
    :ivar reason: the text given by ``assume=``; ``None``: ``unsafe=True`` overrode the verdict.
    """

    step: str
    claim: str
    reason: str | None = None

    @property
    def verdict(self) -> str:
        """``"assumed"`` or ``"unsafe"``, as a step's verdict in the history."""
        return "unsafe" if self.reason is None else "assumed"

    def __str__(self) -> str:
        because = "unsafe" if self.reason is None else f"assumed: {self.reason}"
        return f"{self.step}: {self.claim} ({because})"


def kind_of(source_writes: bool, sink_writes: bool) -> str:
    """The kind of a dependence between accesses of which one is a write."""
    return ("output" if sink_writes else "flow") if source_writes else "anti"


def writing_ends(kind: str) -> tuple[bool, bool]:
    """Whether the source of a dependence of *kind* is a write, and whether its sink is."""
    return kind in ("flow", "output"), kind in ("anti", "output")
