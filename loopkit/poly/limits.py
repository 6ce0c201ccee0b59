"""isl's questions can grow without bound: a budget of operations, and an error or a plainer answer instead of a hang.

isl counts allocations and pivots: a million a second as a rule, but a pivot of a large tableau takes thirty times as
long, so that the budget is half a minute for most questions, and ten for the worst that are known. Everything that
users call asks isl within one; its context is not limited in between, as it is the one that their own sets live in.

A question whose answer is needed is asked as it is: the end of the budget is an error (:func:`bounded`). A question
whose answer only makes code nicer or faster has a small budget of its own, and an answer that is right in any case
(:func:`affordable`).

An optional question may have no answer only because others have used up what it would have had. An answer that rests
on such a one holds for the step that asked, and is not kept for later ones (:func:`kept`), so that no answer is worse
for what was asked before. (One that is needed may come where it did not: what is known already asks isl nothing.)
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import islpy as isl

from loopkit.errors import UndecidedError

#: Operations of isl that one step may take; the largest cases of the tests need a fifth.
BUDGET = 20_000_000

#: Operations of isl that one optional question may take: a fifth of a second, as a rule.
OPTIONAL = 200_000

#: Operations that all optional questions of one step may take together, beside :data:`BUDGET`.
ALL_OPTIONAL = 8_000_000


class _Running(threading.local):
    """The bounded step that runs in this thread.

    :ivar optional: operations that optional questions may still take in it.
    :ivar cut_short: had a question, since this was last reset, no answer because others had used up its budget?
    :ivar passing: answers that rest on such a question, by the memo that they are no part of and their key in it.
    """

    step: str | None = None
    optional: int = 0
    cut_short: bool = False

    def __init__(self) -> None:
        self.passing: dict[tuple[int, Hashable], Any] = {}

    def forget(self, number: int) -> None:
        """Leave the first *number* of the passing answers only."""
        while len(self.passing) > number:
            self.passing.popitem()


_running = _Running()
#: For each bounded step that runs, of any thread, the limit that there was before it.
_limits: list[int] = []


def gave_up(error: isl.Error) -> bool:
    """Did isl reach the end of its budget? (Other errors say that it cannot do what it was asked for.)"""
    return "maximal number of operations" in str(error)


def _at_the_end(error: isl.Error | TypeError) -> bool:
    """Did isl reach the end of its budget, or fail? Texts of its numbers and sets are ``None`` there, and no error."""
    if isinstance(error, isl.Error):
        return True
    try:
        isl.Val.zero(isl.DEFAULT_CONTEXT)
    except isl.Error:
        return True
    return False


A = TypeVar("A")


def affordable(question: Callable[[], A], *, otherwise: A, budget: int | None = None) -> A:
    """The answer to an optional *question*, or *otherwise* if isl gives up or fails.

    Meant for questions whose answer makes code nicer or faster only: a simpler condition, fewer pieces, a version
    for full tiles. The enclosing step loses nothing of its budget, whatever the question takes; the optional questions
    of one step share :data:`ALL_OPTIONAL` operations, and have no answer once those are used up.

    :arg otherwise: what is right without an answer.
    :arg budget: operations of isl, :data:`OPTIONAL` if none are given.

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
    start = _used(0, limit, limit)
    own = OPTIONAL if budget is None else budget
    shared, allowed = _running.optional, own
    if limit:
        allowed = min(allowed, limit - start)
    if _running.step is not None:
        allowed = min(allowed, shared)
    if allowed <= 0:
        _running.cut_short = True
        return otherwise
    before, passing = _running.cut_short, len(_running.passing)
    answered = _running.cut_short = False
    context.set_max_operations(start + allowed)
    try:
        found = question()
        answered = True
        return found
    except (isl.Error, TypeError) as err:
        if not _at_the_end(err):
            raise
        return otherwise
    finally:
        taken = _used(start, context.get_max_operations(), limit) - start
        _running.optional = shared - taken    # of which questions within this one took a part
        context.set_max_operations(limit and limit + taken)
        # an answer within the whole of its own budget is what it would be at any time
        _running.cut_short = before or (allowed < own and (_running.cut_short or not answered))
        _running.forget(passing)


def _used(least: int, most: int, limit: int) -> int:
    """The number of operations that isl has counted under its *limit*, or somewhat more; the limit stays.

    isl does not tell. It refuses an operation once it has reached its limit, so the limit is moved until it does.
    """
    context = isl.DEFAULT_CONTEXT
    while most - least > limit // _PRECISION:
        middle = (least + most + 1) // 2
        context.set_max_operations(middle)
        try:
            isl.Val.zero(context)
            most = middle - 1
        except isl.Error:
            least = middle
    context.set_max_operations(limit)
    return most


# {{{ answers that are kept

_MISSING: Any = object()


def kept(memo: MutableMapping[Any, Any], key: Hashable, answer: Callable[[], A]) -> A:
    """The entry *key* of *memo*, which is *answer* if there is none yet.

    An answer for which a question was cut short by what others had used up is no entry of *memo*: it serves what is
    being asked, and is found anew later.
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
        found = answer()
        if _running.cut_short:
            _running.passing[passing] = memo, found
        else:
            memo[key] = found
    finally:
        _running.cut_short |= before
    return found


def kept_results(function: Callable[..., A]) -> Callable[..., A]:
    """*function*, for arguments without keywords, with its results :func:`kept`: some thousands of them."""
    memo: dict[Hashable, A] = {}

    @wraps(function)
    def asked(*args: Hashable) -> A:
        if len(memo) >= _RESULTS:
            memo.clear()
        return kept(memo, args, lambda: function(*args))
    return asked


_RESULTS = 4096

# }}}


#: Parts of a limit to which :func:`_used` is right: each further bit costs an exception.
_PRECISION = 20_000

T = TypeVar("T", isl.Set, isl.Map, isl.PwAff, isl.PwMultiAff)
S = TypeVar("S", isl.Set, isl.Map)


def coalesced(points: T) -> T:
    """*points* in fewer pieces, where isl finds them and can afford it.

    isl 0.27 fails on some unions with an error of its own ("original tableau does not correspond to original basic
    map"). Those stay as they are: they mean the same.
    """
    domain = points if isinstance(points, isl.Set | isl.Map) else points.domain()
    if len(_pieces(domain)) < 2:
        return points

    def joined() -> T:
        empty_pieces_marked(domain)           # those of a function's domain are the function's own
        return points.coalesce()
    return affordable(joined, otherwise=points, budget=JOINING)


#: Operations of isl that joining the pieces of one union may take.
JOINING = 500_000


def empty_pieces_marked(points: S) -> S:
    """*points*, of which isl knows each piece that has no point for an empty one.

    isl finds out that a piece is empty when it is asked, and remembers it with the piece. A piece that is empty without
    isl's knowledge is a fault of isl 0.27 waiting to happen: when isl joins pieces, it may come upon one of which no
    constraint is left, look for a facet of that, and end the process.
    """
    if len(pieces := _pieces(points)) > 1:
        for piece in pieces:
            piece.is_empty()
    return points


def without_empty_pieces(points: S) -> S:
    """*points* for those functions of isl that trip over an empty piece that is not known as such.

    Minima and maxima take it for a 0; loops and transitive closures join pieces on their way, and may end the process.
    """
    pieces = _pieces(empty_pieces_marked(points))
    if len(pieces) < 2 or not any(piece.plain_is_empty() for piece in pieces):
        return points
    result: S = type(points).empty(points.get_space())
    for piece in pieces:                      # isl leaves those out that it knows to be empty
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
    most = BUDGET if budget is None else budget
    if _running.step is not None:
        yield
        return
    context = isl.DEFAULT_CONTEXT
    _limits.append(context.get_max_operations() if not _limits else _limits[0])
    context.reset_operations()
    context.set_max_operations(most)
    before = _running.cut_short, len(_running.passing)
    _running.step, _running.optional = what, ALL_OPTIONAL if budget is None else min(ALL_OPTIONAL, budget)
    try:
        yield
    except (isl.Error, TypeError) as err:
        if not _at_the_end(err):
            raise
        failed = isinstance(err, isl.Error) and not gave_up(err)
        reason = f"isl says: {err}" if failed else f"isl gave up after {most:_} operations"
        raise UndecidedError(
            f"{what} asks a question that cannot be decided.", reason,
            hint="fix some parameters (fix_parameters), or split the kernel") from err
    finally:
        _running.step = None
        _running.cut_short = before[0]        # the whole of a step is the same whatever ran before it
        _running.forget(before[1])
        limit = _limits.pop()
        if not _limits:
            context.set_max_operations(limit)
