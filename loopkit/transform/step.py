"""The decorator of all transformations, which records them, and their common preconditions."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec

from loopkit.analysis.constructors import annotated
from loopkit.errors import (
    ENTRY_POINTS,
    IllegalTransformError,
    NameConflictError,
    PreconditionError,
    ScheduleError,
)
from loopkit.kernel.annotations import require_kinds
from loopkit.kernel.data import ADDRESS_SPACES, AddressSpace, address_space
from loopkit.kernel.given_order import given, given_anew, still_given
from loopkit.kernel.history import TRANSFORMATIONS, HistoryStep
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.tags import TAGS, InameTag
from loopkit.language.names import fault, is_id
from loopkit.poly.domains import set_text
from loopkit.poly.limits import bounded
from loopkit.transform.effects import Effects
from loopkit.transform.match import matching

P = ParamSpec("P")


def transform(function: Callable[Concatenate[LoopKernel, P], LoopKernel]
              ) -> Callable[Concatenate[LoopKernel, P], LoopKernel]:
    """Record a transformation in the kernel's history, with its arguments and its time.

    A transformation composed of others is one step: the history does not list the inner steps.
    """
    @functools.wraps(function)
    def step(kernel: LoopKernel, /, *args: P.args, **kwargs: P.kwargs) -> LoopKernel:
        start = time.perf_counter()
        given, named = tuple(map(settled, args)), {k: settled(v) for k, v in kwargs.items()}
        require_kinds(function, (kernel, *given), named)
        try:
            with bounded(f"{function.__name__} on kernel '{kernel.name}'"):
                result = function(kernel, *given, **named)
        except IllegalTransformError as refusal:
            refusal.before = kernel               # for nested steps, the kernel before the outermost
            refusal.try_hints(functools.partial(ENTRY_POINTS["hints"], kernel, function.__name__,
                                      lambda other: function(other, *given, **named), refusal))
            raise
        record = HistoryStep(function.__name__, given, tuple(named.items()), _verdict(kernel, result),
                             time.perf_counter() - start, Effects((kernel, result)))
        return result.with_history(kernel.history.then(record),
                                   still_given(result.tree, result.tags, result.given_order))
    TRANSFORMATIONS[function.__name__] = step
    return step


def _verdict(before: LoopKernel, after: LoopKernel) -> str:
    """The verdict on the step from *before* to *after*, whose history still lists the inner steps."""
    if owed := after.obligations[len(before.obligations):]:
        return min((o.verdict for o in owed), key=("unsafe", "assumed").index)
    parts = after.history.steps[len(before.history):]
    return "proven" if after.history.proven or any(s.verdict == "proven" for s in parts) else "structural"


def settled(argument: Any) -> Any:
    """*argument* for the history: an iterator becomes a sequence, a mutable value is copied.

    An isl set becomes its text, which a script can contain.
    """
    match argument:
        case dict():
            return {k: settled(v) for k, v in argument.items()}
        case list():
            return list(map(settled, argument))
        case set():
            return set(argument)
        case Mapping():
            return dict(argument)
        case Iterator():
            return tuple(argument)
        case _:
            return set_text(argument) or argument


def require_iname(kernel: LoopKernel, iname: str) -> None:
    """:raises UnknownNameError: *iname* is not an iname of *kernel*."""
    if iname not in kernel.inames:
        raise unknown("iname", str(iname), kernel.inames)


def require_untagged(kernel: LoopKernel, iname: str, what: str) -> None:
    """:raises PreconditionError: *iname* has a tag; *what* names the refused operation (``"split"``)."""
    if iname in kernel.tags:
        raise PreconditionError(f"'{iname}' has the tag '{kernel.tags[iname]}' and cannot be {what} any more.",
                                subject=iname, hint=f"untag_inames(knl, '{iname}') first")


def require_whole_reductions(kernel: LoopKernel, iname: str, chosen: frozenset[str] | None) -> None:
    """:raises ScheduleError: *chosen* holds some of the statements of a reduction inside *iname*, but not all."""
    for node in kernel.reductions.values():
        parts = node.parts
        if chosen is not None and iname in kernel.statement(node.final).inames and parts & chosen \
                and not parts <= chosen:
            raise ScheduleError(f"within= names only some of the statements that make up the reduction of "
                                f"'{node.final}'.", subject=iname, hint=f"name '{node.final}', which stands for all")


def require_fresh(kernel: LoopKernel, name: str, *, called: bool = False) -> None:
    """:raises NameConflictError: *name* is taken or reserved; *called*: parentheses follow it."""
    reason = fault(name, called=called)
    if reason is not None:
        raise NameConflictError(f"The name '{name}' {reason}.", subject=name, hint="choose another name")
    if name in kernel.all_names:
        raise NameConflictError(f"The name '{name}' is taken in kernel '{kernel.name}'.", subject=name,
                                hint="choose another name, or rename the one that has it")


def require_fresh_id(kernel: LoopKernel, statement_id: str, *others: str) -> None:
    """:raises NameConflictError: the kernel, or one of *others*, has a statement of this id, or the id is invalid."""
    if not is_id(statement_id):
        raise NameConflictError(f"'{statement_id}' cannot be the id of a statement.", subject=statement_id,
                                hint="an id is letters, digits and underscores, not beginning with a digit, and no "
                                     "word of the language")
    if statement_id in kernel.statement_by_id or statement_id in others:
        raise NameConflictError(f"'{statement_id}' is the id of a statement already.", subject=statement_id,
                                hint="choose another id")


def given_or_fresh(kernel: LoopKernel, name: str | None, like: str) -> str:
    """*name*, or without it a fresh name *like* this one."""
    return name if name is not None else kernel.fresh_name(like)


def outer_and_inner(kernel: LoopKernel, iname: str, outer: str | None, inner: str | None) -> tuple[str, str]:
    """The names of the parts of *iname*, which are ``i_outer`` and ``i_inner`` unless others are given.

    :raises NameConflictError: one is taken.
    :raises PreconditionError: both are the same.
    """
    outer = given_or_fresh(kernel, outer, f"{iname}_outer")
    inner = given_or_fresh(kernel, inner, f"{iname}_inner")
    for name in (outer, inner):
        require_fresh(kernel, name)
    if outer == inner:
        raise PreconditionError("The outer and the inner iname need two names.", subject=outer)
    return outer, inner


def require_positive(value: object, what: str) -> int:
    """:raises PreconditionError: *value* is no positive integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise PreconditionError(f"{what} must be a positive integer, not {value!r}.", subject=what)
    return int(value)


def as_address_space(space: str | AddressSpace) -> AddressSpace:
    """An address space from its name (``"local"`` is ``"shared"``); :raises PreconditionError: there is none."""
    found = address_space(space)
    if found is None:
        raise PreconditionError(f"'{space}' is no address space.", subject=str(space), hint=ADDRESS_SPACES)
    return found


def as_tag(tag: str | InameTag) -> InameTag:
    """An iname tag from its name; :raises PreconditionError: there is none."""
    found = tag if isinstance(tag, InameTag) else TAGS.get(tag)
    if found is None:
        raise PreconditionError(f"'{tag}' is no iname tag.", subject=str(tag), hint=f"the tags are {', '.join(TAGS)}")
    return found


def with_given_order(kernel: LoopKernel, *chains: Sequence[str]) -> LoopKernel:
    """*kernel* with the order of the inames of each of *chains* recorded as given by the user, as in its tree."""
    return annotated(kernel, given_order=given_anew(kernel.given_order, given(kernel.tree, chains)))


def matching_statements(kernel: LoopKernel, within: str | Collection[str] | None) -> frozenset[str] | None:
    """The statements that *within* selects, a match expression or a list of them; ``None`` selects all.

    :raises ParseError: it is no match expression.
    :raises UnknownNameError: a pattern matches nothing of the kernel.
    :raises PreconditionError: no statement is left.
    """
    return None if within is None else matching(kernel, within)
