"""Checks of functions and of their calls: a call means what the function means on arrays of its own."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_of
from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.dependences import dependences, joined
from loopkit.analysis.legality import violations
from loopkit.analysis.witnesses import parameters_of, smallest_violation
from loopkit.errors import (
    AccessWitness,
    BoundsError,
    IllegalTransformError,
    NameConflictError,
    PreconditionError,
    ShapeError,
    UndecidedError,
    Witness,
    values_text,
)
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import subscripts_of
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import PassedArray, kind_of
from loopkit.language.calls import MadeCall
from loopkit.poly.affine import if_affine, subtract
from loopkit.poly.relations import in_one_iteration, same_element, shared_dims, smallest_pair, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, as_points, lexmin_point, params_text


def require_functions(functions: Iterable[LoopKernel]) -> dict[str, LoopKernel]:
    """*functions* by name.

    :raises NameConflictError: two have one name.
    :raises PreconditionError: one has steps that hold only on its own.
    """
    found: dict[str, LoopKernel] = {}
    for function in functions:
        if function.name in found:
            raise NameConflictError(f"Two functions have the name '{function.name}'.", subject=function.name,
                                    hint="make_function(..., name=...) gives each its own")
        found[function.name] = function
        _require_own_order(function)
    return found


def _require_own_order(function: LoopKernel) -> None:
    """:raises PreconditionError: the values of *function* do not follow from the order of its statements as it is."""
    own = [o for o in function.obligations if o.step != "make_kernel"]
    if own:
        raise PreconditionError(f"The function '{function.name}' has a step without a proof: {own[0]}.",
                                subject=function.name, hint="apply this step to the caller, with within=")
    if function.derivation is None:
        return
    if peeled := next((node for node in function.reductions.values() if node.others), None):
        raise PreconditionError(f"The function '{function.name}' has a reduction with peeled iterations, of "
                                f"'{peeled.final}'.", subject=function.name, hint="peel the caller's loop instead")
    before, after = _values(function), _values(in_own_order(function))
    for key in {*before, *after}:
        if key not in before or key not in after or not before[key].is_equal(after[key]):
            array, _, reader = key
            raise PreconditionError(
                f"After the steps of the function '{function.name}', '{reader}' reads values of '{array}' that a later "
                "iteration overwrites in the order of the statements.", subject=function.name,
                hint=f"privatize or expand '{array}' in the function, or apply the steps to the caller, with within=")


def _values(function: LoopKernel) -> dict[tuple[str, str, str], Map]:
    """The flow of the values of temporaries between each two statements."""
    return joined(((d.array, d.source, d.sink), d.relation) for d in dependences(function)
                  if d.of_value and d.kind == "flow" and not d.relation.is_empty())


def require_calls(kernel: LoopKernel, made: Sequence[MadeCall]) -> None:
    """Check the calls *made* of the new *kernel*.

    :raises BoundsError: a function accesses an element outside of a slice.
    :raises ShapeError: a function declares a larger array than a call passes.
    :raises PreconditionError: the sizes of a call contradict the assumptions of a function with steps.
    :raises IllegalTransformError: a function with steps gets overlapping slices, or its parallel loops conflict here.
    :raises UndecidedError: it is not known whether such slices overlap.
    """
    for call in made:
        for passed in call.embedding.arrays.values():
            _require_inside(kernel, call, passed)
        if call.embedding.callee.derivation is not None:
            _require_assumptions(kernel, call)
            _require_apart(kernel, call)
    if made and kernel.tags:
        if found := [v for v in violations(kernel) if v.exact]:
            worst, witness = smallest_violation(kernel, found, ())
            raise IllegalTransformError(
                f"make_kernel: the parallel loops of a function run '{worst.dependence.source}' and "
                f"'{worst.dependence.sink}' at once or in the wrong order.", witness, after=kernel)
        if unknown := next(violations(kernel), None):
            d = unknown.dependence
            raise UndecidedError(
                f"make_kernel: whether the parallel loops of a function keep the order of '{d.source}' and '{d.sink}' "
                "cannot be decided.", f"both access '{d.array}' by subscripts that are not affine",
                hint="tag the loops in the caller, with assume=")


def _accesses(call: MadeCall, name: str) -> Iterator[tuple[Access, tuple[Expression, ...], InstanceSet]]:
    """The accesses of the function to its argument *name*: each with its subscripts and its instances in the caller."""
    callee = call.embedding.callee
    domains = {s.id: s.domain for s in call.body.statements}
    for s in callee.statements:
        for a in accesses_of(callee, s):
            if a.array == name:
                yield a, tuple(map(call.embedding.expression, a.subscripts)), domains[call.embedding.ids[s.id]]


def _require_inside(kernel: LoopKernel, call: MadeCall, passed: PassedArray) -> None:
    """The function declares no larger array, and accesses no other elements, than *passed*."""
    function, declared = call.node.function, call.embedding.callee.array_args[passed.name].shape
    for extent, own in zip(passed.extents, declared or (), strict=False):
        needed = None if own is None else call.embedding.expression(own)
        if extent is None or needed is None:
            continue
        point = _point_where(kernel, call.embedding.place, ">", subtract(needed, extent))
        if point is not None:
            values = values_text({**point[0], **point[1]}, " with {}")
            raise ShapeError(f"The call '{call.embedding.call}' passes {to_text(extent)} elements along an axis of "
                             f"'{passed.name}', and '{function}' declares {to_text(needed)}: too few{values}.",
                             subject=passed.name, hint="pass a larger slice")
    for a, subscripts, domain in _accesses(call, passed.name):
        for extent, subscript in zip(passed.extents, subscripts, strict=True):
            if extent is None or not a.exact or (domain.params and {*domain.params} & {*kernel.temporaries}):
                continue                    # the check of the caller's array remains
            for operator, value in ((">=", subtract(subscript, extent)), ("<", subscript)):
                point = _point_where(kernel, domain, operator, value)
                if point is not None:
                    sizes, instance = point
                    raise BoundsError(
                        f"The function '{function}' accesses elements outside of the slice of '{passed.array}' that "
                        f"the call '{call.embedding.call}' passes.", check="bounds", witness=AccessWitness(
                            sizes, (call.embedding.ids[a.statement], instance), passed.name,
                            tuple(evaluate(e, {**sizes, **instance}) for e in subscripts),
                            "writes" if a.is_write else "reads"),
                        hint=f"the slice has {to_text(extent)} elements along this axis")


#: Values of the sizes, and of the inames.
Point = tuple[dict[str, int], dict[str, int]]


def _point_where(kernel: LoopKernel, domain: InstanceSet, operator: str, value: Expression) -> Point | None:
    """The smallest point of *domain* where *value* compares to 0 so; ``None``: there is none, or it is not affine."""
    found = if_affine(lambda: domain.where((operator, value)))
    return None if found is None else _least_point(kernel, found)


def _least_point(kernel: LoopKernel, points: InstanceSet) -> Point | None:
    return lexmin_point(points.set.intersect_params(kernel.assumptions), points.inames, parameters_of(kernel))


def _require_assumptions(kernel: LoopKernel, call: MadeCall) -> None:
    """The steps of the function were proven under its assumptions, which must hold for each instance of the call."""
    callee, embedding = call.embedding.callee, call.embedding
    assumed = embedding.domain(InstanceSet((), as_points(callee.assumptions)))
    point = _least_point(kernel, embedding.place.subtract(assumed))
    if point is not None:
        condition = params_text(callee.assumptions)
        raise PreconditionError(
            f"The steps of the function '{callee.name}' assume {condition}, which does not hold in the call "
            f"'{embedding.call}'{values_text({**point[0], **point[1]}, ' with {}')}.", subject=callee.name,
            hint="state it in assumptions= of the caller, or under a condition around the call")


def _require_apart(kernel: LoopKernel, call: MadeCall) -> None:
    """No two arrays of the function share an element of which one is written: its steps were proven for such arrays."""
    arrays, written = call.embedding.arrays, call.embedding.callee.written_names
    for a, b in combinations(arrays.values(), 2):
        if a.array != b.array or not {a.name, b.name} & written:
            continue
        for (first, at, source), (second, other, sink) in product(_accesses(call, a.name), _accesses(call, b.name)):
            if not (first.is_write or second.is_write):
                continue
            elements, others = a.element(at), b.element(other)
            own = if_affine(lambda x=elements, y=others: same_element(                             # type: ignore[misc]
                subscript_relation(source.inames, subscripts_of(x)).intersect_domain(source.set),
                subscript_relation(sink.inames, subscripts_of(y)).intersect_domain(sink.set)))
            if own is None:
                raise UndecidedError(
                    f"Whether '{a.name}' and '{b.name}' of '{call.node.function}' share elements in the call "
                    f"'{call.embedding.call}' cannot be decided.", f"both are slices of '{a.array}', with subscripts "
                    "that are not affine", hint="call the function without steps, and apply them to the caller")
            pairs = in_one_iteration(own, shared_dims(source.inames, sink.inames, call.embedding.place.inames))
            pairs = pairs.intersect_params(kernel.assumptions)
            if not pairs.is_empty():
                sizes, one, two = smallest_pair(pairs, source.inames, sink.inames, parameters_of(kernel))
                ids = call.embedding.ids
                raise IllegalTransformError(
                    f"The call '{call.embedding.call}' passes '{a.array}' as '{a.name}' and as '{b.name}', which the "
                    f"steps of '{call.node.function}' take for different arrays.", Witness(
                        sizes, (ids[first.statement], one), (ids[second.statement], two), a.array,
                        tuple(evaluate(e, {**sizes, **one}) for e in subscripts_of(elements)),
                        kind_of(first.is_write, second.is_write)),
                    ("call the function without steps, and apply them to the caller",), after=kernel)
