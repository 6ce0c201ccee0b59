"""Budgets for isl: a bounded number of operations, and then an error or a simpler result instead of a hang.

isl counts allocations and pivots: a million a second, or about 30,000 pivots of a large tableau. Every
function that users call runs isl within a budget. isl's context, which is also that of the users' sets, has no limit
in between.

A required computation ends in an error when the budget is used up (:func:`bounded`). An optional computation, whose
result only makes code simpler or faster, has a small separate budget and a fallback that is always right
(:func:`affordable`).

An optional computation may be cut short because others in its step used up the budget. A result that depends on such a
computation is not kept for later steps (:func:`kept`), so that no result is worse because of earlier computations.
A question that one step may ask of many kernels is a step of its own each time (:func:`apart`).
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import islpy as isl

from loopkit.errors import UndecidedError

#: Operations of isl that one step may take; the largest cases of the tests need a fifth.
BUDGET = 20_000_000

#: Operations of isl that one optional computation may take: a fifth of a second, as a rule.
OPTIONAL = 200_000

#: Operations of isl for an optional computation on which much depends: a form of fewer pieces, or what a call passes.
IMPORTANT = 500_000

#: Operations that all optional computations of one step may take together, in addition to :data:`BUDGET`.
ALL_OPTIONAL = 8_000_000


class _Running(threading.local):
    """The bounded step that runs in this thread.

    :ivar optional: operations left for its optional computations.
    :ivar counted: the operations that isl had counted, or fewer.
    :ivar cut_short: since its last reset, others had used up the budget of an optional computation.
    :ivar passing: results that rest on such a computation, by the memo that does not have them, and their key in it.
    """

    step: str | None = None
    optional: int = 0
    counted: int = 0
    cut_short: bool = False
    passing: Mapping[tuple[int, Hashable], Any] = MappingProxyType({})


_running = _Running()
#: The limit before each bounded step that runs, in any thread.
_limits: list[int] = []


def gave_up(error: isl.Error) -> bool:
    """Did isl use up its budget? (Other errors mean that it cannot do the computation.)"""
    return "maximal number of operations" in str(error)


def _exhausted() -> bool:
    """Does isl refuse another operation at its present limit?"""
    try:
        isl.Val.zero(isl.DEFAULT_CONTEXT)
    except isl.Error:
        return True
    return False


def _at_the_end(error: isl.Error | TypeError) -> bool:
    """Did isl use up its budget, or fail? Texts of its numbers and sets are ``None`` then, without an error."""
    return isinstance(error, isl.Error) or _exhausted()


A = TypeVar("A")


def affordable(compute: Callable[[], A], *, otherwise: A, budget: int = OPTIONAL) -> A:
    """The result of the optional computation *compute*, or *otherwise* if isl gives up or fails.

    The cost does not count against the enclosing step's budget. The optional computations of one step share
    :data:`ALL_OPTIONAL` operations, and fall back once these are used up.

    :arg otherwise: a result that is always right.
    :arg budget: operations of isl.

    >>> points = isl.Set("{ [i] : 0 <= i < 4 or 4 <= i < 8 }")
    >>> affordable(points.coalesce, otherwise=points)
    Set("{ [i] : 0 <= i <= 7 }")
    >>> affordable(points.coalesce, otherwise=points, budget=3).n_basic_set()
    2
    """
    context = isl.DEFAULT_CONTEXT
    limit = context.get_max_operations()
    if not limit:                             # nothing is counted outside of a step
        context.reset_operations()
        _running.counted = 0
    start = _used()
    shared, allowed = _running.optional, budget
    if limit:
        allowed = min(allowed, limit - start)
    if _running.step is not None:
        allowed = min(allowed, shared)
    if allowed <= 0:
        _running.cut_short = True
        return otherwise
    before, passing = _running.cut_short, _running.passing
    finished = _running.cut_short = False
    context.set_max_operations(start + allowed)
    try:
        found = compute()
        finished = True
        return found
    except (isl.Error, TypeError) as err:
        if not _at_the_end(err):
            raise
        return otherwise
    finally:
        taken = _used() - start
        _running.optional = shared - taken    # nested questions took a part of it
        context.set_max_operations(limit and limit + taken)
        # a computation with its full budget would have the same result at any time
        _running.cut_short = before or (allowed < budget and (_running.cut_short or not finished))
        _running.passing = passing


def _used() -> int:
    """The number of operations that isl has counted, or up to a :data:`_PRECISION`-th of :data:`BUDGET` more.

    isl does not report it, but refuses an operation at its limit. So the limit is moved until isl refuses, first in
    steps that double.
    """
    context = isl.DEFAULT_CONTEXT
    limit = context.get_max_operations()

    def counted(number: int) -> bool:
        context.set_max_operations(number)
        return _exhausted()
    precise = step = max(BUDGET // _PRECISION, 1)
    least = min(_running.counted, limit)
    while least + step < limit and counted(least + step):
        least, step = least + step, 2*step
    most = min(least + step, limit)
    while most - least > precise:
        middle = (least + most) // 2
        least, most = (middle, most) if counted(middle) else (least, middle)
    _running.counted = least
    context.set_max_operations(limit)
    return most


#: Parts of the budget to which :func:`_used` is right: each further bit costs an exception.
_PRECISION = 20_000


_MISSING: Any = object()


def kept(memo: MutableMapping[Any, Any], key: Hashable, compute: Callable[[], A]) -> A:
    """The entry *key* of *memo*, computed by *compute* if there is none yet.

    A result for which an optional computation was cut short by others is not stored: only the current step uses it.
    """
    # one look each: isl's sets, which keys may hold, change while they are compared
    found: A = memo.get(key, _MISSING)
    if found is not _MISSING:
        return found
    passing = (id(memo), key)
    _, found = _running.passing.get(passing, (None, _MISSING))
    if found is not _MISSING:
        _running.cut_short = True             # for what is made of it
        return found
    before, _running.cut_short = _running.cut_short, False
    try:
        found = compute()
        if _running.cut_short:
            _running.passing = {**_running.passing, passing: (memo, found)}
        else:
            memo[key] = found
    finally:
        _running.cut_short |= before
    return found


def kept_results(function: Callable[..., A]) -> Callable[..., A]:
    """*function*, for arguments without keywords, with its results :func:`kept`: some thousands of them.

    As with :func:`functools.lru_cache`, ``cache_clear()`` of the result forgets them.
    """
    memo: dict[Hashable, A] = {}

    @wraps(function)
    def cached(*args: Hashable) -> A:
        if len(memo) >= 4096:
            memo.clear()
        return kept(memo, args, lambda: function(*args))
    cached.cache_clear = memo.clear  # type: ignore[attr-defined]
    return cached


class _HasMemo(Protocol):
    @property
    def memo(self) -> dict[Any, Any]: ...


K = TypeVar("K", bound=_HasMemo)
P = ParamSpec("P")


def kept_in_memo(function: Callable[Concatenate[K, P], A]) -> Callable[Concatenate[K, P], A]:
    """*function*, of a kernel or another object with a memo, and of hashable arguments, with its results :func:`kept`
    in the memo.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def cached(knl: K, /, *args: P.args, **options: P.kwargs) -> A:
        return kept(knl.memo, (name, *args, *options.items()), lambda: function(knl, *args, **options))
    return cached


T = TypeVar("T", isl.Set, isl.Map, isl.PwAff, isl.PwMultiAff)
S = TypeVar("S", isl.Set, isl.Map)


def coalesced(points: T) -> T:
    """*points* in fewer pieces, if isl finds them within an optional budget; isl 0.27 fails on some unions."""
    domain = points if isinstance(points, isl.Set | isl.Map) else points.domain()
    if len(_pieces(domain)) < 2:
        return points

    def joined() -> T:
        empty_pieces_marked(domain)           # those of a function's domain are the function's own
        return points.coalesce()
    return affordable(joined, otherwise=points, budget=IMPORTANT)


def empty_pieces_marked(points: S) -> S:
    """*points* with each empty piece marked as empty in isl's representation.

    Without that mark isl 0.27, when it joins pieces, may look for a facet of an empty one, and end the process.
    """
    if len(pieces := _pieces(points)) > 1:
        for piece in pieces:
            piece.is_empty()
    return points


def without_empty_pieces(points: S) -> S:
    """*points* for functions of isl that fail on an unmarked empty piece.

    Minima and maxima take such a piece for a 0. Loop generation and transitive closure join pieces.
    """
    pieces = _pieces(empty_pieces_marked(points))
    if len(pieces) < 2 or not any(piece.plain_is_empty() for piece in pieces):
        return points
    result: S = type(points).empty(points.get_space())
    for piece in pieces:                      # isl leaves out pieces that are marked as empty
        result = result.union(piece)
    return result


def _pieces(points: isl.Set | isl.Map) -> list[Any]:
    return points.get_basic_sets() if isinstance(points, isl.Set) else points.get_basic_maps()


@contextmanager
def bounded(what: str, budget: int | None = None) -> Iterator[None]:
    """Run isl under *budget*, or :data:`BUDGET`; *what* names the step and its kernel in the error.

    Inside another bounded step the outer one's budget holds.

    :raises UndecidedError: isl gave up.
    """
    if _running.step is not None:
        yield
        return
    context = isl.DEFAULT_CONTEXT
    _limits.append(context.get_max_operations() if not _limits else _limits[0])
    context.reset_operations()
    _running.counted, most = 0, BUDGET if budget is None else budget
    context.set_max_operations(most)
    before = _running.cut_short, _running.passing
    _running.step, _running.optional = what, min(ALL_OPTIONAL, budget or ALL_OPTIONAL)
    try:
        yield
    except (isl.Error, TypeError) as err:
        if not _at_the_end(err):
            raise
        raise _gave_no_answer(what, err, most) from err
    finally:
        _running.step = None
        _running.cut_short, _running.passing = before       # a whole step is the same whatever ran before it
        limit = _limits.pop()
        if not _limits:
            context.set_max_operations(limit)


def _gave_no_answer(what: str, error: isl.Error | TypeError, most: int) -> UndecidedError:
    """The error of the step *what*, in which isl failed, or stopped after *most* operations."""
    failed = isinstance(error, isl.Error) and not gave_up(error)
    reason = f"isl failed: {error}" if failed else f"isl stopped after {most:_} operations"
    return UndecidedError(f"{what} has a question that cannot be decided.", reason,
                          hint="fix some parameters (fix_parameters), or split the kernel")


@contextmanager
def apart(what: str) -> Iterator[None]:
    """:func:`bounded`, with budgets of its own also inside another step: what that one computes makes no difference.

    :raises UndecidedError: isl gave up.
    """
    if _running.step is None:
        with bounded(what):
            yield
        return
    context = isl.DEFAULT_CONTEXT
    limit, start = context.get_max_operations(), _used()
    before = _running.optional, _running.cut_short, _running.passing
    _running.optional, _running.cut_short, _running.passing = ALL_OPTIONAL, False, {}
    context.set_max_operations(start + BUDGET)
    try:
        yield
    except (isl.Error, TypeError) as err:
        if not _at_the_end(err):
            raise
        raise _gave_no_answer(what, err, BUDGET) from err
    finally:
        context.set_max_operations(limit + _used() - start)
        _running.optional, _running.cut_short, _running.passing = before
