"""Checks of functions and of their calls: a call means what the function means on arrays of its own."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_of
from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.dependences import dependences, joined
from loopkit.analysis.legality import require_legal
from loopkit.analysis.witnesses import parameters_of
from loopkit.errors import (
    AccessWitness,
    BoundsError,
    IllegalTransformError,
    NameConflictError,
    PreconditionError,
    ShapeError,
    UndecidedError,
    Witness,
    cell_text,
    values_text,
)
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import subscripts_of
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import PassedArray, kind_of
from loopkit.language.calls import MadeCall, before_steps, has_steps
from loopkit.poly.affine import if_affine, subtract
from loopkit.poly.relations import (
    in_one_iteration,
    other_instance,
    same_element,
    shared_dims,
    smallest_pair,
    subscript_relation,
)
from loopkit.poly.sets import InstanceSet, Map, as_points, bounded_by, lexmin_point, params_text


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
        _require_order_of_values(function)
    return found


def _require_order_of_values(function: LoopKernel) -> None:
    """:raises PreconditionError: the values of *function* do not follow from the order of its statements as it is."""
    own = [o for o in function.obligations if o.step != "make_kernel"]
    if own:
        raise PreconditionError(f"The function '{function.name}' has a step without a proof: {own[0]}.",
                                subject=function.name, hint="apply this step to the caller, with within=")
    if not has_steps(function):
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
            _require_slices_inside(kernel, call, passed)
        if has_steps(call.embedding.callee):
            _require_assumptions(kernel, call)
            _require_apart(kernel, call)
    if made and kernel.tags:
        require_legal(kernel, "make_kernel")            # the parallel loops of a function, between its calls


Subscripts = tuple[Expression, ...]


def _accesses(call: MadeCall, name: str) -> Iterator[tuple[Access, Subscripts, InstanceSet]]:
    """The accesses of the function to its argument *name*: each with its subscripts and its instances in the caller."""
    callee = call.embedding.callee
    domains = {s.id: s.domain for s in call.body.statements}
    for s in callee.statements:
        for a in accesses_of(callee, s):
            if a.array == name:
                yield a, tuple(map(call.embedding.expression, a.subscripts)), domains[call.embedding.ids[s.id]]


def _require_slices_inside(kernel: LoopKernel, call: MadeCall, passed: PassedArray) -> None:
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
    """The steps of the function were proven under its assumptions, which must hold where the call runs a statement."""
    callee, embedding = call.embedding.callee, call.embedding
    assumed = embedding.domain(InstanceSet((), as_points(callee.assumptions)))
    for version in (callee, before_steps(callee)):
        names = {x: f"{x}''" for x in (*version.inames, *version.temporaries)}
        domains = {id(s.domain): s.domain for s in version.statements}.values()
        for runs in (replace(embedding, names=names).domain(d).onto(embedding.place.inames) for d in domains):
            point = _least_point(kernel, runs.subtract(assumed))
            if point is not None:
                raise PreconditionError(
                    f"The steps of the function '{callee.name}' assume {params_text(callee.assumptions)}, which does "
                    f"not hold in the call '{embedding.call}'{values_text({**point[0], **point[1]}, ' with {}')}.",
                    subject=callee.name,
                    hint="state it in assumptions= of the caller, or put the call under a condition")


def _require_apart(kernel: LoopKernel, call: MadeCall) -> None:
    """No two arrays of the function share an element of which one is written: its steps were proven for such arrays."""
    arrays, written = call.embedding.arrays, call.embedding.callee.written_names
    for a in (arrays[name] for name in arrays if name in written):
        _require_distinct(kernel, call, a)
    for a, b in combinations(arrays.values(), 2):
        if a.array != b.array or not {a.name, b.name} & written:
            continue
        for first, second in product(_accesses(call, a.name), _accesses(call, b.name)):
            if not (first[0].is_write or second[0].is_write):
                continue
            if (pairs := _on_one_element(kernel, call, (a, *first[1:]), (b, *second[1:]))) is None:
                raise UndecidedError(
                    f"Whether '{a.name}' and '{b.name}' of '{call.node.function}' share elements in the call "
                    f"'{call.embedding.call}' cannot be decided.", f"both are slices of '{a.array}', with subscripts "
                    "that are not affine", hint="call the function without steps, and apply them to the caller")
            if not pairs.is_empty():
                raise _overlap(kernel, call, (a, *first), (b, *second), pairs)


def _require_distinct(kernel: LoopKernel, call: MadeCall, a: PassedArray) -> None:
    """The subscripts of *a* are different elements of the caller's array."""
    place, sizes = call.embedding.place, parameters_of(kernel)
    names = (*place.inames, *a.axes)
    points = place.onto(names).where(*(condition for axis, extent in zip(a.axes, a.extents, strict=True)
                                       for condition in (() if extent is None else bounded_by(axis, 0, extent))))
    relation = if_affine(lambda: subscript_relation(names, a.subscripts).intersect_domain(points.set))
    if relation is None:
        raise UndecidedError(
            f"Whether the elements of '{a.array}' that the call '{call.embedding.call}' passes as '{a.name}' are "
            "different cannot be decided.", "its subscripts are not affine",
            hint="call the function without steps, and apply them to the caller")
    pairs = other_instance(in_one_iteration(
        same_element(relation, relation), [(i, i) for i in range(len(place.inames))]))
    if not pairs.is_empty():
        values, one, two = smallest_pair(pairs, names, names, sizes)
        first, second = (f"{a.name}[{', '.join(str(point[x]) for x in a.axes)}]" for point in (one, two))
        element = cell_text(a.array, [evaluate(e, {**values, **one}) for e in a.subscripts])
        raise PreconditionError(
            f"In the call '{call.embedding.call}', {first} and {second} are both {element}"
            f"{values_text(values, ' with {}')}, and the steps of '{call.node.function}' take them for different "
            "elements.", subject=a.array, hint="call the function without steps, and apply them to the caller")


def _on_one_element(kernel: LoopKernel, call: MadeCall, *ends: tuple[PassedArray, Subscripts, InstanceSet]
                    ) -> Map | None:
    """The pairs of instances in one instance of the call that access one element; ``None``: it is not affine."""
    def relation(passed: PassedArray, subscripts: Subscripts, instances: InstanceSet) -> Map:
        own = subscripts_of(passed.element(subscripts))
        return subscript_relation(instances.inames, own).intersect_domain(instances.set)
    pairs = if_affine(lambda: same_element(*(relation(*end) for end in ends)))
    if pairs is None:
        return None
    source, sink = (instances.inames for _, _, instances in ends)
    within = in_one_iteration(pairs, shared_dims(source, sink, call.embedding.place.inames))
    return within.intersect_params(kernel.assumptions)


def _overlap(kernel: LoopKernel, call: MadeCall, first: tuple[PassedArray, Access, Subscripts, InstanceSet],
             second: tuple[PassedArray, Access, Subscripts, InstanceSet], pairs: Map) -> IllegalTransformError:
    """The error for two arguments of *call* that share the elements of *pairs*."""
    (a, write, subscripts, source), (b, other, _, sink), ids = first, second, call.embedding.ids
    sizes, one, two = smallest_pair(pairs, source.inames, sink.inames, parameters_of(kernel))
    element = tuple(evaluate(e, {**sizes, **one}) for e in subscripts_of(a.element(subscripts)))
    return IllegalTransformError(
        f"The call '{call.embedding.call}' passes '{a.array}' as '{a.name}' and as '{b.name}', which the steps of "
        f"'{call.node.function}' take for different arrays.", Witness(
            sizes, (ids[write.statement], one), (ids[other.statement], two), a.array, element,
            kind_of(write.is_write, other.is_write)),
        ("call the function without steps, and apply them to the caller",), after=kernel)
