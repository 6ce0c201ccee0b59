"""The proof of a temporary's buffer looks at results alone: whatever is wrong with it, it finds it by itself."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.copy_out import require_values_buffered
from loopkit.analysis.dependences import dependences, order_of_values
from loopkit.expr.mappers import substitute
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import add
from loopkit.transform import buffering, staging
from tests.analysis.test_copy_out import shrunk, with_statement, without
from tests.transform.test_buffering_values import line, rows

Pair = tuple[lk.LoopKernel, lk.LoopKernel]

KERNELS: dict[str, tuple[Callable[[], lk.LoopKernel], Callable[[lk.LoopKernel], lk.LoopKernel]]] = {
    "rows": (rows, lambda k: lk.buffer_array(k, "t", "j,k", within="work", default_tag=None)),
    "tiles": (line, lambda k: lk.buffer_array(k, "t", "i_inner", within="work", default_tag=None)),
    "running sum": (lambda: line("t[i] = t[i] + t[i-1]", "1<=i<n"),
                    lambda k: lk.buffer_array(k, "t", "i_inner", within="work", default_tag=None)),
}


@pytest.fixture(params=KERNELS)
def buffered(request: pytest.FixtureRequest) -> Pair:
    make, step = KERNELS[request.param]
    before = make()
    return before, step(before)


def refused(before: lk.LoopKernel, after: lk.LoopKernel) -> None:
    with pytest.raises(lk.IllegalTransformError) as err:
        require_values_buffered(before, after, "t", "t_buf", "the step")
    assert err.value.witness.array in ("t", "t_buf")


def flowing(before: lk.LoopKernel, after: lk.LoopKernel) -> lk.LoopKernel:
    """*after* with the flow through its buffer as it runs, whatever the step made of it."""
    outer = tuple(x for x in after.statement("store_t").inames if x in before.inames)
    others = [d for d in dependences(after) if d.array != "t_buf"]
    return with_dependences(after, lambda _, fresh: (*others, *order_of_values(fresh, "t_buf", outer)))


# Faults of the result

def test_what_the_step_makes_is_proven(buffered: Pair) -> None:
    require_values_buffered(*buffered, "t", "t_buf", "the step")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("which", ["init_t", "store_t"])
def test_one_element_less(buffered: Pair, which: str) -> None:
    before, after = buffered
    s = after.statement(which)
    refused(before, flowing(before, with_statement(after, replace(s, domain=shrunk(s.domain)))))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("which", ["init_t", "store_t"])
def test_another_cell(buffered: Pair, which: str) -> None:
    before, after = buffered
    s = after.statement(which)
    shift = {s.inames[-1]: p.Sum((p.Variable(s.inames[-1]), 1))}
    moved = replace(s, assignee=substitute(s.assignee, shift)) if which == "init_t" \
        else replace(s, expression=substitute(s.expression, shift))
    refused(before, flowing(before, with_statement(after, moved)))


def test_a_flow_that_is_not_known(buffered: Pair) -> None:
    before, after = buffered
    known = dependences(after)
    for d in known:
        if d.array in ("t", "t_buf") and d.kind == "flow":
            refused(before, with_dependences(after, lambda *_, d=d: (x for x in known if x is not d)))


def test_a_flow_that_is_none(buffered: Pair) -> None:
    before, after = buffered
    known = dependences(after)
    for d in known:
        if d.array == "t" and d.kind == "flow":
            wider = replace(d, relation=d.relation.union(d.relation.domain().product(d.relation.range()).unwrap()))
            if not wider.relation.is_subset(d.relation):
                refused(before, with_dependences(after, lambda *_, d=d, w=wider: (w if x is d else x for x in known)))


# Faults of the step itself

def short_copies(right: Callable[..., Statement]) -> Callable[..., Statement]:
    def copy(*args: Any) -> Statement:
        s = right(*args)
        return replace(s, domain=shrunk(s.domain))
    return copy


FAULTS: dict[str, tuple[object, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "an offset shifted": (staging.Box, "offsets", lambda right: lambda self, args: tuple(
        add(e, 1) for e in right(self, args))),
    "an element shifted": (staging.Box, "arguments", lambda right: lambda self: tuple(add(e, 1) for e in right(self))),
    "short copies": (buffering.Buffer, "_copy", short_copies),
    "no load": (buffering.Buffer, "value_points", lambda right: lambda b: (None, right(b)[1])),
    "no store": (buffering.Buffer, "value_points", lambda right: lambda b: (right(b)[0], None)),
    "no flow": (buffering, "order_of_values", without("t_buf", "flow")),
    "no flow to and fro": (buffering.Buffer, "dependences", without("t", "flow")),
}


@pytest.mark.deep(every=21)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_own_step(kernel: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, step = KERNELS[kernel]
    before = lk.add_dtypes(make(), {"t": "float32"})
    where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    with pytest.raises(lk.IllegalTransformError):
        step(before)
