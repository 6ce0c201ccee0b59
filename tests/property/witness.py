"""Is the witness of a refusal real? Checked by enumeration, without isl's relations."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymbolic.primitives as p

import loopkit as lk
from loopkit.analysis.accesses import expanded_expression
from loopkit.errors import Witness
from loopkit.expr.evaluate import known_value
from loopkit.expr.mappers import subexpressions
from loopkit.kernel.statement import Statement
from loopkit.poly.sets import holds, params_of
from tests.property.pipelines import Step

#: Steps after which an instance has other coordinates, or another name.
MOVING = ("skew", "shift", "reverse", "affine_map_inames", "duplicate_inames", "chunk_iname", "peel")


def require_real(knl: lk.LoopKernel, step: Step, witness: Witness) -> None:
    """Both instances exist in the kernel before the step, touch the element, and run in the witness' order.

    :raises AssertionError: one of these is not so.
    """
    knl = _with_splits(knl, step)
    if not {witness.source[0], witness.sink[0]} <= set(knl.statement_by_id):
        return                                          # a statement that the step would have made
    for name, values in (witness.source, witness.sink):
        s = knl.statement_by_id[name]
        if set(values) != set(s.inames):
            return                                      # in inames that the step would have made
        point = {**witness.parameters, **values}
        assert holds(params_of(s.domain.bound(s.inames)), point), f"{name} has no instance {values}"
    if witness.kind != "explicit":
        _require_touches(knl, witness)
    before = _time(knl, *witness.source), _time(knl, *witness.sink)
    if step.name in MOVING:
        assert before[0] >= before[1] or knl.tags, "the step keeps the order of the two"
        return
    if not step.name.startswith(("add_prefetch", "precompute")):
        assert before[0] < before[1], "the source does not run first"


def _with_splits(knl: lk.LoopKernel, step: Step) -> lk.LoopKernel:
    """*knl* with the splits that *step* makes before it is refused, and with other coordinates where it gives some."""
    if step.name in MOVING:
        return Step(step.name, step.args, (*step.kwargs, ("unsafe", True))).apply(knl)
    kwargs = {k: v for k, v in step.kwargs if k not in ("outer_tag", "inner_tag", "tag")}
    if step.name in ("split_iname", "join_inames"):
        return Step(step.name, step.args, tuple(kwargs.items())).apply(knl)
    if step.name == "tile":
        for x, size in step.args[0].items():
            knl = lk.split_iname(knl, x, size)
    return knl


def _require_touches(knl: lk.LoopKernel, witness: Witness) -> None:
    kinds = {"flow": (True, False), "anti": (False, True), "output": (True, True)}[witness.kind]
    for (name, values), is_write in zip((witness.source, witness.sink), kinds, strict=True):
        s = knl.statement_by_id[name]
        touched = list(_elements(knl, s, witness.array, {**witness.parameters, **values}, is_write))
        verb = "writes" if is_write else "reads"
        assert touched, f"{name} never {verb} {witness.array}"
        assert witness.element is None or None in touched or tuple(witness.element) in touched, \
            f"{name} {verb} {touched} of {witness.array} there, not {witness.element}"


def _elements(knl: lk.LoopKernel, s: Statement, array: str, point: Mapping[str, int], is_write: bool) -> Any:
    """The elements of *array* that an instance writes or reads; ``None`` for one that is read from memory."""
    value = expanded_expression(knl, s)
    roots = [s.assignee] if is_write else [value, *s.predicates, *_subscripts(s.assignee)]
    if not is_write and s.combine is not None:
        roots.append(s.assignee)
    for root in roots:
        for e in [root] if is_write else subexpressions(root):
            if isinstance(e, p.Subscript) and e.aggregate == p.Variable(array):
                values = [known_value(i, point) for i in e.index_tuple]
                yield None if None in values else tuple(values)
            elif e == p.Variable(array):
                yield ()
    if not is_write and array in s.domain.params:
        yield ()


def _subscripts(target: Any) -> tuple[Any, ...]:
    return tuple(target.index_tuple) if isinstance(target, p.Subscript) else ()


def _time(knl: lk.LoopKernel, statement: str, values: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(step.position if step.iname is None else values[step.iname] for step in knl.paths[statement])
