"""Hints: steps that make a refused step legal, each tried and checked."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import combinations, islice, pairwise

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, accesses_of
from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import violations
from loopkit.analysis.order import loops_of
from loopkit.errors import IllegalTransformError, LoopkitError, UndecidedError, Witness
from loopkit.expr.mappers import children, update_of, variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.literals import call_text
from loopkit.kernel.tags import TAGS, is_simd
from loopkit.poly.limits import bounded
from loopkit.poly.relations import injective_given
from loopkit.transform.affine import shift, skew
from loopkit.transform.data import set_temporary_address_space
from loopkit.transform.expansion import expand, privatize
from loopkit.transform.order import distribute_loop, interchange
from loopkit.transform.synchronization import make_atomic

Step = Callable[[LoopKernel], LoopKernel]
#: Steps to make before the refused one: their calls as a user writes them, and what they make of a kernel.
Way = tuple[str, Step]

#: The number of ways of one family that are tried, and of families that contribute their first success as a hint.
MOST_TRIED, MOST_TOLD = 40, 2
#: Operations of isl for all that is tried: a fifth of a second, as a rule, and what most kernels of the tests need.
BUDGET = 200_000
#: Factors of a skew and distances of a shift that are tried.
_FACTORS = (1, 2, -1, 3)
#: The steps that may make a loop parallel.
_TAGGING = ("tag_inames", "split_iname")
_NO_WAY = "keep these loops in order: no tried skew, shift, privatization or distribution makes the step legal"


def _call(transformation: Callable[..., LoopKernel], *args: object, **kwargs: object) -> Way:
    text = call_text(transformation.__name__, "knl", *map(repr, args), **{k: repr(v) for k, v in kwargs.items()})
    return text, lambda kernel: transformation(kernel, *args, **kwargs)


def _then(*ways: Way) -> Way:
    *ahead, last = (text for text, _ in ways)
    return f"{', '.join(ahead)} and {last}", lambda kernel: reduce(lambda found, way: way[1](found), ways, kernel)


def tried_hints(kernel: LoopKernel, name: str, step: Step, refusal: IllegalTransformError, known: Sequence[str]
                ) -> tuple[str, ...]:
    """Hints for a refused *step* of this *name*: the tried ones that make it legal, then *known*."""
    told: list[str] = []
    found: list[str] = []
    is_complete = True
    try:
        with bounded(f"looking for what would make {name} on kernel '{kernel.name}' legal", BUDGET):
            told += [accumulation] if (accumulation := _accumulation(kernel, refusal)) else []
            told += [text for text in (_of_the_text(kernel, refusal) if name in _TAGGING else ()) if text is not None]
            first = (_first(ways, kernel, step) for ways in _families(kernel, name, refusal.witness))
            for text in islice(filter(None, first), MOST_TOLD - len(told)):
                if not any(text.startswith(f"{way} and ") for way in found):     # a known way and a needless step
                    found.append(text)
    except UndecidedError:
        is_complete = False                 # after an exhausted budget, no claim about all hints
    hints = (*told, *(f"it would be legal after {text}" for text in found), *known)
    return hints if hints or not is_complete else (_NO_WAY,)


def _first(ways: Iterator[Way], kernel: LoopKernel, step: Callable[[LoopKernel], object]) -> str | None:
    for text, first in islice(ways, MOST_TRIED):
        with suppress(LoopkitError):
            step(first(kernel))
            return text
    return None


def storage_hints(kernel: LoopKernel, temporary: str, lower: Callable[[LoopKernel], object], known: Sequence[str]
                  ) -> Sequence[str]:
    """Hints for a refused storage of *temporary*: the first one that makes *lower* succeed; else *known*."""
    if temporary in kernel.temporaries:
        with suppress(UndecidedError), bounded(f"looking for cells of '{temporary}' in kernel '{kernel.name}'", BUDGET):
            if found := _first(_ways_to_cells(kernel, temporary), kernel, lower):
                return (found,)
    return known


def _ways_to_cells(kernel: LoopKernel, temporary: str) -> Iterator[Way]:
    """Another address space for *temporary*, or a separate cell for each iteration of a loop around its users."""
    declared = kernel.temporaries[temporary].address_space
    for space in (AddressSpace.LOCAL, AddressSpace.GLOBAL) if declared is not None else ():
        if space is not declared:
            yield _call(set_temporary_address_space, temporary, str(space))
    users = {a.statement for a in accesses_by_array(kernel).get(temporary, ())}
    loops = [x for x in kernel.inames if all(x in kernel.statement_by_id[s].inames for s in users)]
    yield from (_call(privatize, x, temporary) for x in loops)
    yield from (_call(expand, temporary, x) for x in loops)
    if len(loops) > 1:
        yield _call(expand, temporary, loops)


def _families(kernel: LoopKernel, name: str, witness: Witness) -> Iterator[Iterator[Way]]:
    ids = [s for s, _ in (witness.source, witness.sink) if s in kernel.statement_by_id]
    if not ids:
        return
    loops = loops_of(kernel.paths[ids[-1]])
    shared = [x for x in loops if all(x in kernel.statement_by_id[s].inames for s in ids)]
    # expansion as a hint would undo a step of expansion or contraction
    if witness.array in kernel.temporaries and name not in ("contract", "expand", "privatize"):
        yield (_call(privatize, x, witness.array) for x in shared)
    if name == "fuse_loops":
        own = [x for x in loops if all(x not in kernel.statement_by_id[s].inames for s in ids[:-1])]
        yield (_call(shift, x, by) for x in own for by in _FACTORS)
    if len(set(ids)) == 2:
        yield (_call(distribute_loop, x, before=ids[-1]) for x in reversed(shared))
    if name != "make_atomic":
        yield _updates(kernel, ids, witness.array)
    yield _skews(shared)
    if name in _TAGGING:
        yield _wavefronts(shared)


def _updates(kernel: LoopKernel, ids: Sequence[str], array: str) -> Iterator[Way]:
    """Atomic updates of *array* and stores of numbers: those among the statements *ids*, and all."""
    every = [s.id for s in kernel.statements if s.written == array and s.id not in kernel.reduction_of
             and (update_of(s.assignee, s.expression) is not None or not variables(s.expression))]
    for chosen in ([x for x in every if x in ids], every):
        if chosen:
            yield _call(make_atomic, chosen[0] if len(chosen) == 1 else chosen)


def _skews(shared: Sequence[str]) -> Iterator[Way]:
    """Each inner iname skewed by one outer iname, then all of them by the outermost."""
    for factor in _FACTORS:
        yield from (_call(skew, inner, by={outer: factor}) for outer, inner in combinations(shared, 2))
    for factor in _FACTORS if len(shared) > 2 else ():
        outer, *rest = shared
        yield _then(*(_call(skew, x, by={outer: factor}) for x in rest))


def _wavefronts(shared: Sequence[str]) -> Iterator[Way]:
    """One of two loops skewed by the other and moved outside: the inner loop may then be parallel."""
    for outer, inner in pairwise(shared):
        for factor in _FACTORS:
            swapped = _call(interchange, outer, inner)
            yield _then(_call(skew, inner, by={outer: factor}), swapped)
            yield _then(swapped, _call(skew, outer, by={inner: factor}), _call(interchange, inner, outer))


def _accumulation(kernel: LoopKernel, refusal: IllegalTransformError) -> str | None:
    """For a statement that adds to its assignee: a reduction may run in any order, if no other dependence breaks."""
    (source, _), (sink, _), array = refusal.witness.source, refusal.witness.sink, refusal.witness.array
    s = kernel.statement_by_id.get(source)
    if s is None or source != sink or array not in kernel.array_args or refusal.after is None:
        return None
    found = update_of(s.assignee, s.expression)
    if found is None or array in variables(found[1]):
        return None
    if any((v.dependence.source, v.dependence.sink, v.dependence.array) != (source, sink, array)
           for v in violations(refusal.after)):
        return None
    return (f"write the accumulation into '{array}' as a reduction, {found[0]}(...): a reduction may "
            "combine its terms in any order")


def _differ_in_one_subscript(previous: Expression, result: Expression) -> bool:
    """Are they elements of one array, and differ in at most one subscript?"""
    if not isinstance(previous, p.Subscript) or not isinstance(result, p.Subscript):
        return previous == result
    return previous.aggregate == result.aggregate and sum(
        a != b for a, b in zip(previous.index_tuple, result.index_tuple, strict=True)) <= 1


def _of_the_text(kernel: LoopKernel, refusal: IllegalTransformError) -> Sequence[str | None]:
    """Other forms of the text of a loop that cannot be parallel."""
    old, witness = _old_values(refusal), refusal.witness
    return (old,) if old is not None else (_shared_elements(kernel, witness), _running_total(kernel, witness))


def _running_total(kernel: LoopKernel, witness: Witness) -> str | None:
    """For a statement that combines its previous result with an operand: a scan runs over threads."""
    (source, at), (sink, then), array = witness.source, witness.sink, witness.array
    s = kernel.statement_by_id.get(source)
    if s is None or source != sink:
        return None
    if (node := kernel.reduction_of.get(source)) is not None:
        if not kernel.operation(node.operation).associative:
            return None
        return (f"threads combine their parts of '{node.operation}' in their order if each thread has operands that "
                f"follow one another: split_iname(knl, '{node.inames[-1]}', 64, outer_tag='l.0')")
    if s.combine is not None:               # realize_scan made a sequential scan
        return "a scan may run over threads: tag its sweep before realize_scan"
    operand = next((e for e in children(s.expression) if array in variables(e)), None)
    found = None if operand is None else update_of(operand, s.expression)
    if operand is None or found is None:
        return None
    # a condition may replace the previous result by a start
    previous = operand.then if isinstance(operand, p.If) else operand
    if array in variables(found[1]) or not _differ_in_one_subscript(previous, s.assignee):
        return None
    own = next(a for a in accesses_of(kernel, s) if a.is_write)
    if previous != s.assignee and not (own.exact and injective_given(own.relation, s.domain, ())):
        return None                         # several instances write one element
    if previous == s.assignee:              # only the final value may be read
        moving = {x for x in at if at[x] != then.get(x)}
        inside = [a for a in accesses_by_array(kernel)[array] if a.statement != s.id and not a.is_write]
        if not any(moving <= {*kernel.statement_by_id[a.statement].inames} for a in inside):
            return None
    return (f"a scan may run over threads: write the running {found[0]} as a reduction whose bound moves, "
            f"{found[0]}(k, ...), tag its sweep, then realize_scan")


def _shared_elements(kernel: LoopKernel, witness: Witness) -> str | None:
    """For two instances of calls: the calls of one function pass slices that share elements."""
    if {witness.source[0], witness.sink[0]} - kernel.statement_by_id.keys():
        return None
    first, second = (kernel.statement_by_id[s].options.calls for s, _ in (witness.source, witness.sink))
    if not first or not second or witness.array in kernel.temporaries:
        return None
    names = dict.fromkeys(kernel.calls[x[0]].function for x in (first, second))
    return (f"the slices of '{witness.array}' that the calls of {' and '.join(map(repr, names))} pass share elements: "
            "pass slices that share none, or write the results to another array")


def _old_values(refusal: IllegalTransformError) -> str | None:
    """For a statement that reads values from before the loop: the ways to keep them."""
    (source, at), (sink, then), after = refusal.witness.source, refusal.witness.sink, refusal.after
    if after is None or source != sink or any(v.dependence.kind != "anti" for v in violations(after)):
        return None
    moving = [x for x in at if at[x] != then.get(x) and is_simd(after.tags.get(x))]
    vectors = annotated(after, tags={**after.tags, **dict.fromkeys(moving, TAGS["vec"])})
    tag = f"tag '{moving[0]}' vec: a vector reads all of its elements before it writes them; or " \
        if moving and next(violations(vectors), None) is None else ""
    array = refusal.witness.array
    return f"{tag}write the results to another array than '{array}', as the loop reads old values of it"
