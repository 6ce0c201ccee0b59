"""The decorator of all transformations, which records each one in the history, and their common preconditions."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec

import numpy as np

from loopkit.analysis.constructors import annotated
from loopkit.analysis.match import Within, matching, matching_names
from loopkit.analysis.order import moves
from loopkit.errors import (
    IllegalTransformError,
    NameConflictError,
    PreconditionError,
    ScheduleError,
    require_known,
)
from loopkit.expr.mappers import variables
from loopkit.kernel.annotations import checked, require_kinds
from loopkit.kernel.cost import CostChange
from loopkit.kernel.history import TRANSFORMATIONS, History, HistoryStep
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import TAGS, InameTag
from loopkit.kernel.tree import given, still_given
from loopkit.language.names import another, fault, is_id
from loopkit.poly.domains import AnyMap, AnySet
from loopkit.poly.limits import bounded
from loopkit.shown import ENTRY_POINTS

P = ParamSpec("P")


#: A function from a kernel and other arguments to a kernel.
KernelFunction = Callable[Concatenate[LoopKernel, P], LoopKernel]


def transform(function: KernelFunction[P]) -> KernelFunction[P]:
    """Record a transformation in the kernel's history, with its arguments and its time.

    A transformation composed of others is one step: the history does not list the inner steps.
    """
    return _recorded(function, _verdict, lambda before, after: tuple(_effects(before, after)))


def definition(function: KernelFunction[P]) -> KernelFunction[P]:
    """Record a step that defines another kernel. Its verdict is ``"defined"``: there is nothing to prove."""
    return _recorded(function, lambda before, after: "defined", lambda before, after: ())


def _recorded(function: KernelFunction[P], verdict: Callable[[LoopKernel, LoopKernel], str],
              effects: Callable[[LoopKernel, LoopKernel], tuple[str, ...]]) -> KernelFunction[P]:
    @functools.wraps(function)
    def step(kernel: LoopKernel, /, *args: P.args, **kwargs: P.kwargs) -> LoopKernel:
        start = time.perf_counter()
        given, named = tuple(map(recordable, args)), {k: recordable(v) for k, v in kwargs.items()}
        require_kinds(function, (kernel, *given), named)
        try:
            with bounded(f"{function.__name__} on kernel '{kernel.name}'"):
                result = function(kernel, *given, **named)
        except IllegalTransformError as refusal:
            refusal.before = kernel               # for nested steps, the kernel before the outermost
            refusal.try_hints(functools.partial(ENTRY_POINTS["hints"], kernel, function.__name__,
                                      lambda other: function(other, *given, **named), refusal))
            raise
        record = HistoryStep(function.__name__, given, tuple(named.items()), verdict(kernel, result),
                             time.perf_counter() - start, lambda: effects(kernel, result))
        return result.with_history(kernel.history.then(record),
                                   still_given(result.tree, result.tags, result.given_pairs))
    TRANSFORMATIONS[function.__name__] = step
    return step


def _verdict(before: LoopKernel, after: LoopKernel) -> str:
    """The verdict on the step from *before* to *after*, whose history still lists the inner steps."""
    if added := after.obligations[len(before.obligations):]:
        return min((o.verdict for o in added), key=("unsafe", "assumed").index)
    parts = after.history.steps[len(before.history):]
    return "proven" if after.history.proven or any(s.verdict == "proven" for s in parts) else "structural"


def recordable(argument: Any) -> Any:
    """*argument* for the history: an iterator becomes a sequence, a mutable value is copied, isl objects are text."""
    match argument:
        case Mapping():
            return {k: recordable(v) for k, v in argument.items()}
        case list() | set():
            return type(argument)(map(recordable, argument))
        case Iterator():
            return tuple(argument)
        case _:
            return str(argument) if isinstance(argument, AnySet | AnyMap) else argument


def _effects(before: LoopKernel, after: LoopKernel) -> Iterator[str]:
    if before.tree is after.tree and before.tags == after.tags and before.temporaries == after.temporaries:
        return
    order = still_given(after.tree, after.tags, after.given_pairs)
    if moved := moves(before, after).beside(order):
        yield str(moved)
    inames = frozenset(after.inames)
    for x, y in sorted(before.given_pairs - order):
        if {x, y} <= inames and (y, x) not in order and (x, y) not in moved.sunk:
            yield f"{x} is inside {y}, and the order {x}, {y} was given"
    yield from CostChange.between(*(ENTRY_POINTS["cost"](knl) for knl in (before, after))).lines()


@checked
def replay(kernel: LoopKernel, history: History | LoopKernel) -> LoopKernel:
    """Apply the steps of *history* to *kernel*.

    Each step is checked on *kernel* as in a direct call, because a proof for the kernel of the history need not hold
    for *kernel*.

    :arg history: ``knl.history``, a slice of a history (``knl.history[2:]``), or a kernel with a history.
    :raises ReplayError: a step cannot be applied to *kernel*; with the step, its number and its error.

    >>> mapped = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> mapped = lk.split_iname(mapped, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> knl = lk.make_kernel("{[i]: 0<=i<m}", "z[i] = a[i] + b[i]")
    >>> print(lk.replay(knl, mapped.history).statements_text)
    for i_outer [g.0], i_inner [l.0]
      z[128*i_outer + i_inner] = a[128*i_outer + i_inner] + b[128*i_outer + i_inner]  {id=insn}
    end
    """
    return (history.history if isinstance(history, LoopKernel) else history).replay(kernel)


def require_iname(kernel: LoopKernel, iname: str) -> None:
    """:raises UnknownNameError: *iname* is not an iname of *kernel*."""
    require_known("iname", [iname], kernel.inames)


def known_list(kind: str, names: str | Iterable[str], known: Collection[str], *, where: str = "the kernel"
               ) -> tuple[str, ...]:
    """*names*, with each pattern replaced by those *known* that match it.

    :arg kind: the kind of the names (``"iname"``).
    :raises UnknownNameError: a name is not among those *known*, or a pattern matches none.
    """
    found = matching_names(names, known)
    require_known(kind, found, known, where=where)
    return found


def iname_list(kernel: LoopKernel, names: str | Iterable[str]) -> tuple[str, ...]:
    """The inames *names* of *kernel*, which may be patterns, each once; :raises UnknownNameError: one is not there."""
    return tuple(dict.fromkeys(known_list("iname", names, kernel.inames)))


def require_no_rule(kernel: LoopKernel, names: frozenset[str]) -> None:
    """:raises PreconditionError: a substitution rule uses one of *names*."""
    for rule in kernel.substitutions.values():
        if used := variables(rule.expr) & names:
            raise PreconditionError(f"'{min(used)}' is used by the substitution rule '{rule.name}'.", subject=min(used),
                                    hint=f"expand_subst(knl, '{rule.name}') first")


def require_dtype(name: str, dtype: np.dtype | None) -> np.dtype:
    """:raises PreconditionError: the *dtype* of *name* is unknown."""
    if dtype is None:
        raise PreconditionError(f"The dtype of '{name}' is unknown.", subject=name,
                                hint=f"declare it first: add_dtypes(knl, {{'{name}': ...}})")
    return dtype


def require_untagged(kernel: LoopKernel, iname: str, what: str) -> None:
    """:raises PreconditionError: *iname* has a tag; *what* names the refused operation (``"split"``)."""
    require_iname(kernel, iname)
    if iname in kernel.tags:
        raise PreconditionError(f"'{iname}' has the tag '{kernel.tags[iname]}' and cannot be {what}.",
                                subject=iname, hint=f"untag_inames(knl, '{iname}') first")


def require_owners(kernel: LoopKernel, inames: Sequence[str], chosen: frozenset[str], act: str) -> list[Statement]:
    """The statements of *chosen* with *inames*.

    :raises PreconditionError, ScheduleError: there are none, or one has only some of the inames (to *act*).
    """
    owners = [s for s in kernel.statements if s.id in chosen and not set(inames).isdisjoint(s.inames)]
    if not owners:
        raise PreconditionError(f"No statement that within= selects has the iname "
                                f"{' or '.join(map(repr, inames))}.", subject=inames[0])
    for s in owners:
        own = [x for x in inames if x in s.inames]
        if len(own) < len(inames):
            raise ScheduleError(f"'{s.id}' has only {', '.join(own)} of the inames to {act}.", subject=s.id,
                                hint=f"{act} inames that all their statements share, or select statements by within=")
    return owners


def require_whole_reductions(kernel: LoopKernel, iname: str, chosen: frozenset[str]) -> None:
    """:raises ScheduleError: *chosen* holds some of the statements of a reduction inside *iname*, but not all."""
    for node in kernel.reductions.values():
        if iname in kernel.statement(node.final).inames and node.parts & chosen and not node.parts <= chosen:
            raise ScheduleError(f"within= selects only some parts of the reduction of "
                                f"'{node.final}'.", subject=iname, hint=f"name '{node.final}', which selects all parts")


def require_fresh(kernel: LoopKernel, name: str, *, called: bool = False, in_rules: bool = True) -> None:
    """:raises NameConflictError: *name* is taken or reserved.

    :arg called: parentheses follow it; *in_rules*: the bodies of rules may get it.
    """
    if (reason := fault(name, called=called)) is not None:
        raise NameConflictError(f"The name '{name}' {reason}.", subject=name, hint=f"choose {another(name)}")
    if name in (kernel.all_names if in_rules else kernel.names_outside_rules):
        raise NameConflictError(f"The name '{name}' is taken in kernel '{kernel.name}'.", subject=name,
                                hint="choose another name, or rename the one that has it")


def new_name(kernel: LoopKernel, name: str | None, like: str) -> str:
    """*name*, or without it a fresh name *like* this one; :raises NameConflictError: *name* is taken."""
    if name is not None:
        require_fresh(kernel, name)
    return kernel.fresh_name(like) if name is None else name


def new_id(kernel: LoopKernel, statement_id: str | None, like: str, *others: str) -> str:
    """*statement_id*, or without it a fresh id *like* this one; :raises NameConflictError: it is taken."""
    found = kernel.fresh_name(like) if statement_id is None else statement_id
    if not is_id(found):
        raise NameConflictError(f"'{found}' cannot be the id of a statement.", subject=found,
                                hint="an id has letters, digits and underscores, does not begin with a digit, "
                                     "and is not a keyword")
    if found in kernel.statement_by_id or found in others:
        raise NameConflictError(f"'{found}' is already the id of a statement.", subject=found,
                                hint="choose another id")
    return found


def outer_and_inner(kernel: LoopKernel, iname: str, outer: str | None = None, inner: str | None = None
                    ) -> tuple[str, str]:
    """The names of the parts of *iname*: ``i_outer`` and ``i_inner`` unless others are given."""
    first, second = new_name(kernel, outer, f"{iname}_outer"), new_name(kernel, inner, f"{iname}_inner")
    if first == second:
        raise PreconditionError("The outer and the inner iname need different names.", subject=first)
    return first, second


def require_positive(value: object, what: str) -> int:
    """:raises PreconditionError: *value* is not a positive integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise PreconditionError(f"{what} must be a positive integer, not {value!r}.", subject=what)
    return int(value)


def as_tag(tag: str | InameTag) -> InameTag:
    """An iname tag from its name; :raises PreconditionError: there is none."""
    found = tag if isinstance(tag, InameTag) else TAGS.get(tag)
    if found is None:
        raise PreconditionError(f"'{tag}' is not an iname tag.", subject=str(tag),
                                hint=f"the tags are {', '.join(TAGS)}")
    return found


def with_given_order(kernel: LoopKernel, *chains: Sequence[str]) -> LoopKernel:
    """*kernel* with the order of the inames of each of *chains* recorded as given by the user."""
    new = given(kernel.tree, chains)
    return annotated(kernel, given_pairs=new.union(pair for pair in kernel.given_pairs if pair[::-1] not in new))


def matching_statements(kernel: LoopKernel, within: Within, iname: str | None = None) -> frozenset[str]:
    """The statements that *within* selects, a match expression or a list of them; ``None`` selects all.

    :raises ParseError, UnknownNameError, PreconditionError: it is none, names nothing, or selects no statement, or none
        with *iname*.
    """
    if within is None:
        return frozenset(kernel.statement_by_id)
    chosen = matching(kernel, within)
    if iname is not None and not any(iname in kernel.statement_by_id[x].inames for x in chosen):
        raise PreconditionError(f"No statement that within= selects has the iname '{iname}'.", subject=iname)
    return chosen
