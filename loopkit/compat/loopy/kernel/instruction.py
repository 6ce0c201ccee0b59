"""Statements with loopy's fields, made from loopkit's."""
from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

import loopkit as lk
from loopkit.analysis.accesses import expand_rules
from loopkit.compat.loopy.kernel.data import HasTags
from loopkit.compat.loopy.order import Order
from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.symbolic import SubArrayRef, parse
from loopkit.compat.loopy.tools import Optional
from loopkit.compat.loopy.types import as_numpy
from loopkit.compat.loopy.typing import auto
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of, map_children, subexpressions, subscripts_of, variables
from loopkit.expr.nodes import Reduction, TypeCast, to_text
from loopkit.kernel.c_instruction import top_level
from loopkit.kernel.statement import owner


@dataclass(frozen=True)
class UniqueName:
    """An id that a statement gets when its kernel is made: *name*, or *name* with a number."""

    name: str

    def __str__(self) -> str:
        return self.name


class LegacyStringInstructionTag(str, Tag):
    """A label of a statement, which is equal to its text.

    >>> LegacyStringInstructionTag("main") == "main", LegacyStringInstructionTag("main").value
    (True, 'main')
    """

    def __init__(self, value: str) -> None:
        """The text is that of ``str``, and a tag has no fields of its own."""

    @property
    def value(self) -> str:
        """The label."""
        return str(self)


@dataclass(frozen=True)
class HappensAfter:
    """A dependence on a statement; loopkit finds the instances that depend on each other."""

    variable_name: str | None = None
    instances_rel: Any = None


class _Given(dict[str, HappensAfter]):
    """The dependences that ``depends_on`` has."""

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """For the keys of pytools' dictionaries on disk: ``depends_on`` is a part of a key."""


@dataclass(frozen=True, kw_only=True)
class InstructionBase(HasTags):
    """A statement of a kernel.

    :ivar depends_on: ids, or patterns of ids, of the statements that run before it.
    :ivar happens_after: the same as a mapping; its values are ignored. One of the two may be given.
    :ivar within_inames: the inames of the loops around it; with *within_inames_is_final* it has no others.
    """

    id: str | UniqueName | None = None
    depends_on: Any = frozenset()
    happens_after: Any = field(default=None, compare=False, repr=False)
    depends_on_is_final: bool = False
    no_sync_with: frozenset[Any] = frozenset()
    within_inames: Any = frozenset()
    within_inames_is_final: bool | None = None
    predicates: Any = frozenset()
    tags: Any = frozenset()
    groups: Any = frozenset()
    conflicts_with_groups: Any = frozenset()
    priority: int = 0

    def __post_init__(self) -> None:
        if self.happens_after is not None and not isinstance(self.happens_after, _Given):
            if self.depends_on:
                raise PreconditionError("An instruction has depends_on= and happens_after=.", subject="happens_after",
                                        hint="give one of them")
            object.__setattr__(self, "depends_on", self.happens_after)
        for name in ("depends_on", "within_inames", "predicates", "tags", "no_sync_with"):
            given = getattr(self, name)
            texts = isinstance(given, str) and name != "predicates"
            listed = () if given is None else re.split("[,:]", given) if texts else given
            kind = LegacyStringInstructionTag if name == "tags" else str
            object.__setattr__(self, name, frozenset(kind(x.strip()) if isinstance(x, str) else x for x in listed))
        object.__setattr__(self, "happens_after", _Given.fromkeys(self.depends_on, HappensAfter()))

    def copy(self, **changes: Any) -> Self:
        old = {"depends_on": ()} if "happens_after" in changes else {}
        return replace(self, **{**old, **changes})


@dataclass(frozen=True, kw_only=True)
class MultiAssignmentBase(InstructionBase):
    """A statement that writes."""

    atomicity: Any = ()


@dataclass(frozen=True)
class Assignment(MultiAssignmentBase):
    """``assignee = expression``; both may be given as texts.

    :ivar temp_var_type: ``Optional(dtype)`` declares a temporary, and ``Optional(None)`` one whose dtype follows.
    :ivar reduced: the inames of its reductions that share a loop with others, and are not in the expression.
    """

    assignee: Any = None
    expression: Any = None
    temp_var_type: Any = field(default=Optional(), kw_only=True)
    reduced: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "temp_var_type", _declared(self.temp_var_type))
        for name in ("assignee", "expression"):
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, parse(given))

    @property
    def assignees(self) -> tuple[Any, ...]:
        return (self.assignee,)

    def assignee_var_names(self) -> tuple[str, ...]:
        """The names that it writes."""
        return tuple(map(array_of, self.assignees))

    def write_dependency_names(self) -> frozenset[str]:
        """The names that it writes."""
        return frozenset(self.assignee_var_names())

    def read_dependency_names(self) -> frozenset[str]:
        """The names that it reads, inames included."""
        every = [self.expression, *self.predicates, *(i for a in self.assignees for i in subscripts_of(a))]
        return frozenset(x for e in every for x in variables(e))

    def dependency_names(self) -> frozenset[str]:
        """The names that it reads and writes."""
        return self.read_dependency_names() | self.write_dependency_names()

    def reduction_inames(self) -> frozenset[str]:
        """The inames of its reductions."""
        return self.reduced.union(
            x for e in subexpressions(self.expression) if isinstance(e, Reduction) for x in e.inames)

    def __str__(self) -> str:
        return line_of(self)


@dataclass(frozen=True)
class CallInstruction(MultiAssignmentBase):
    """``assignees = function(arguments)``; the parts may be texts.

    >>> from loopkit.compat.loopy.tools import Optional
    >>> print(CallInstruction("(a, b[i])", "f(x[i])", temp_var_types=(Optional("int32"), Optional())))
    <int32> a, b[i] = f(x[i])

    :ivar temp_var_types: for each assignee as for :class:`Assignment`; ``None``: no assignee is declared.
    """

    assignees: Any = ()
    expression: Any = None
    temp_var_types: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.assignees, str):
            written = self.assignees.strip()
            listed = written[1:-1] if written[:1] == "(" else written
            object.__setattr__(self, "assignees", tuple(filter(None, top_level(listed, ","))))
        given = (Optional(),)*len(self.assignees) if self.temp_var_types is None else self.temp_var_types
        if len(given) != len(self.assignees):
            raise PreconditionError(f"A call has {len(self.assignees)} assignees and {len(given)} temp_var_types.",
                                    subject="temp_var_types", hint="give Optional() for what is not a new temporary")
        object.__setattr__(self, "temp_var_types", tuple(map(_declared, given)))

    def __str__(self) -> str:
        return line_of(self)


def make_assignment(assignees: tuple[Any, ...], expression: Any, temp_var_types: Any = None, **kwargs: Any
                    ) -> Assignment | CallInstruction:
    """The statement that writes *expression* to *assignees*: a call if there are several, or slices.

    >>> print(make_assignment(("y[i]",), "2*x[i]"))
    y[i] = 2*x[i]
    """
    if len(assignees) == 1 and not isinstance(assignees[0], SubArrayRef):
        return Assignment(*assignees, expression, temp_var_type=(temp_var_types or [Optional()])[0], **kwargs)
    return CallInstruction(assignees, expression, temp_var_types=temp_var_types, **kwargs)


def _declared(given: Any) -> Optional:
    """The declaration of a temporary in loopy's present form; ``None``, ``auto`` and a dtype are older forms."""
    if isinstance(given, Optional):
        return given
    new = Optional() if given is None else Optional(None) if given is auto else Optional(given)
    warnings.warn(f"temp_var_type={given!r} is an older form. Pass lp.Optional({', '.join(map(repr, new.given))}).",
                  DeprecationWarning, stacklevel=4)
    return new


@dataclass(frozen=True)
class CInstruction(InstructionBase):
    """A statement in C, whose code names variables of the kernel.

    :ivar iname_exprs: inames, and pairs of a name in the code and an expression.
    :ivar read_variables: the names of what the code reads; an array is read as a whole.
    :ivar assignees: the targets of the code: variables, elements, and arrays as a whole; without any it has a side
        effect.
    :ivar assume: the reason why a name of the kernel in the code means something else; loopy does not have it.
    """

    iname_exprs: Any = ()
    code: str = ""
    read_variables: Any = frozenset()
    assignees: Any = ()
    assume: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("iname_exprs", "read_variables", "assignees"):
            given = getattr(self, name)
            listed = [x.strip() for x in given.split(",")] if isinstance(given, str) else list(given)
            object.__setattr__(self, name, tuple(x for x in listed if not isinstance(x, str) or x))

    def __str__(self) -> str:
        return f"{', '.join(map(text_of, self.assignees))} = CODE({', '.join(map(str, self.iname_exprs))}): {self.code}"


@dataclass(frozen=True)
class NoOpInstruction(InstructionBase):
    """A statement without effect, which others may name in ``depends_on``."""

    @property
    def assignees(self) -> tuple[Any, ...]:
        return ()

    def dependency_names(self) -> frozenset[str]:
        """The names that it reads and writes."""
        return frozenset()

    assignee_var_names = write_dependency_names = read_dependency_names = reduction_inames = dependency_names

    def __str__(self) -> str:
        return line_of(self)


@dataclass(frozen=True)
class BarrierInstruction(NoOpInstruction):
    """A barrier: lowering places those that dependences need, and this one orders the statements around it."""

    synchronization_kind: str = "global"
    mem_kind: str = "global"


def line_of(statement: InstructionBase) -> str:
    """*statement* in loopy's language.

    >>> line_of(Assignment("y[i]", "2*x[i]", id="twice", depends_on="load", within_inames=frozenset("j")))
    'y[i] = 2*x[i] {id=twice, dep=load, inames=+j}'
    """
    options = [] if statement.id is None else [
        f"id_prefix={statement.id}" if isinstance(statement.id, UniqueName) else f"id={statement.id}"]
    if statement.depends_on or statement.depends_on_is_final:
        final = "*" if statement.depends_on_is_final else ""
        options.append(f"dep={final}{':'.join(sorted(statement.depends_on))}")
    if statement.within_inames or statement.within_inames_is_final:
        more = "" if statement.within_inames_is_final else "+"
        options.append(f"inames={more}{':'.join(sorted(statement.within_inames))}")
    if isinstance(statement, NoOpInstruction):
        # a condition of a line without effect has none, too
        kind = {"global": "gbarrier", "local": "lbarrier"}[statement.synchronization_kind] \
            if isinstance(statement, BarrierInstruction) else "nop"
        return f"... {kind}{_braces(options)}"
    assert isinstance(statement, Assignment | CallInstruction)
    options += [f"if={':'.join(map(text_of, statement.predicates))}"] if statement.predicates else []
    options += [f"tags={':'.join(sorted(map(str, statement.tags)))}"] if statement.tags else []
    options += ["atomic"] if statement.atomicity else []
    options += [f"nosync={claims_text(statement.no_sync_with)}"] if statement.no_sync_with else []
    declared = statement.temp_var_types if isinstance(statement, CallInstruction) else (statement.temp_var_type,)
    written = ", ".join((f"<{_dtype_name(new.value)}> " if new.has_value else "") + text_of(assignee)
                        for assignee, new in zip(statement.assignees, declared, strict=True))
    results = f"{written} = " if written else ""
    return f"{results}{text_of(statement.expression)}{_braces(options)}"


def claims_text(claims: Iterable[str | tuple[str, str]]) -> str:
    """*claims*, ids with and without a scope, as in ``nosync=``."""
    return ":".join(sorted(x if isinstance(x, str) else "@".join(x) for x in claims))


def _braces(options: list[str]) -> str:
    return f" {{{', '.join(options)}}}" if options else ""


def _dtype_name(dtype: Any) -> str:
    return "" if dtype is None or dtype is auto else as_numpy(dtype).name


def text_of(expr: Any) -> str:
    """*expr*, a text or an expression, as text; numbers of numpy keep their dtypes."""
    match expr:
        case str():
            return with_parentheses(expr)
        case SubArrayRef(swept_inames=swept, subscript=part) if swept:
            return f"[{', '.join(x.name for x in swept)}]: {text_of(part)}"
        case SubArrayRef(subscript=part):
            return array_of(part)
        case p.Call(function=function, parameters=given) if any(isinstance(x, SubArrayRef) for x in given):
            return f"{text_of(function)}({', '.join(map(text_of, given))})"
        case _:
            return to_text(_sized(expr))


def _sized(expr: Any) -> Any:
    if isinstance(expr, p.CommonSubexpression):
        return _sized(expr.child)                              # as cse(...) in a text
    if isinstance(expr, np.generic):
        return TypeCast(expr.dtype.name, expr.item())
    if isinstance(expr, complex) and np.complex64(expr) == expr:
        return TypeCast("complex64", expr)                 # in a text it would have the dtype complex128
    if isinstance(expr, p.NaN):
        return math.nan if expr.data_type is None else TypeCast(as_numpy(expr.data_type).name, math.nan)
    return map_children(expr, _sized)


def shown_id(statement: str, realized: frozenset[str]) -> str:
    """The id of a part of a reduction: that of its statement, or loopy's own if the statement is *realized*.

    >>> shown_id("row.k.update", frozenset()), shown_id("row.k.update", frozenset(["row"]))
    ('row', 'row_k_update')
    """
    return statement.replace(".", "_") if owner(statement) in realized else owner(statement)


def with_parts_of_reductions(kernel: lk.LoopKernel, realized: frozenset[str],
                             rules: Mapping[str, lk.SubstitutionRule]) -> Iterator[lk.Assignment]:
    """The instructions of *kernel*: those *realized* as the statements of their reductions; and without *rules*."""
    every = [i if isinstance(e := i.expression, str) else replace(i, expression=expand_rules(e, rules))
             for i in kernel.instructions]
    if not realized:
        yield from every
        return
    whole = {i.id: i for i in every}
    for s in kernel.statements:
        if owner(s.id) not in realized:
            if s.id in whole:
                yield whole[s.id]
            continue
        nodes = [node for node in kernel.reductions.values() if s.id in node.parts]
        before = {x for node in nodes for x in ((*node.updates,) if s.id == node.final else (node.init,)) if x != s.id}
        given = whole.get(s.id)
        value = s.expression if s.combine is None else kernel.operation(s.combine).apply(s.assignee, s.expression)
        new = lk.Assignment(s.assignee, expand_rules(value, rules), id=shown_id(s.id, realized),
                            within_inames=frozenset(s.inames), predicates=s.predicates, tags=s.options.tags,
                            depends_on=frozenset(shown_id(x, realized) for x in before))
        yield new if given is None else replace(new, depends_on=new.depends_on | given.depends_on)


def instructions_of(statements: Sequence[lk.Assignment], order: Order, writers: Mapping[str, frozenset[str]],
                    readers: Mapping[str, frozenset[str]], reduced: Mapping[str, frozenset[str]]
                    ) -> list[Assignment | BarrierInstruction]:
    """loopy's form of *statements*, and the global barriers of *order*, with their dependences.

    Statements depend on the only writer of a name that they read if a step added one of the two. A new one depends on
    a barrier if all readers of its value do. A barrier depends on it if it reads a value that the barrier waits for.

    :arg writers, readers: by array; *reduced*: by statement, the inames of its reductions.
    """
    own, nothing = [*(str(s.id) for s in statements), *order.barriers], frozenset[str]()
    barriers, found = {bar: order.before(bar, own) for bar in order.barriers}, list[Assignment | BarrierInstruction]()
    for s in statements:
        name = str(s.id)
        new = Assignment(
            s.assignee, s.expression, id=s.id, no_sync_with=order.claims.get(name, nothing), tags=s.tags,
            within_inames=s.within_inames, predicates=frozenset(s.predicates), reduced=reduced.get(name, nothing))
        sources = [writers.get(x, nothing) for x in new.read_dependency_names()]
        only = nothing.union(*(w for w in sources if len(w) == 1)) - {name}
        after = order.before(name, own) | (only - order.after.keys())
        if name not in order.after:
            sinks = readers.get(s.written, nothing) - {name}
            above = nothing.union(bar for bar in barriers if sinks and all(bar in order.before(x) for x in sinks))
            after = only | above
            barriers |= {bar: before | {name} for bar, before in barriers.items()
                         if bar not in above and any(w & order.before(bar) for w in sources)}
        found.append(new.copy(depends_on=after | s.depends_on))
    return [*found, *(BarrierInstruction(id=bar, depends_on=barriers[bar]) for bar in sorted(barriers))]


def core_instruction(new: Assignment, old: lk.Assignment) -> lk.Assignment:
    """loopkit's form of *new*, which takes the place of *old*.

    :raises PreconditionError: *new* is not an assignment, or has another atomicity.
    """
    if not isinstance(new, Assignment):
        raise PreconditionError(f"'{old.id}' becomes {new!r}, and not an assignment.", subject=str(old.id))
    if new.atomicity:
        raise PreconditionError(f"A step cannot make '{old.id}' atomic.", subject=str(old.id),
                                hint="{atomic} in the text makes it atomic")
    same = frozenset(new.predicates) == frozenset(old.predicates)
    return old.copy(assignee=new.assignee, expression=new.expression, id=new.id,
                    tags=frozenset(str(x) if isinstance(x, str) else x for x in new.tags),
                    within_inames=new.within_inames, predicates=old.predicates if same else tuple(new.predicates))
