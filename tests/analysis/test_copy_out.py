"""The proof of buffers looks at results alone: whatever is wrong with a buffer, it finds it by itself."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.copy_out import require_buffered
from loopkit.analysis.dependences import dependences
from loopkit.expr.mappers import substitute
from loopkit.kernel.statement import Dependence, Statement
from loopkit.poly.affine import add
from loopkit.poly.sets import InstanceSet
from loopkit.transform import buffering, staging
from tests.transform.kernels import F32


def accumulation() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "y[i] = y[i] + a[i, k]",
                         [lk.GlobalArg("a", F32), lk.GlobalArg("y", F32), "..."])
    return lk.split_iname(knl, "i", 4)


def running_sum() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 1<=i<n}", "y[i] = y[i-1] + x[i]",
                         [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), "..."])
    return lk.split_iname(knl, "i", 4)


def two_writes() -> lk.LoopKernel:
    """Loads nothing: each element is written before it is read, and then again; another statement reads it all."""
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                y[i, j] = x[i, j] {id=set}
            end
            for j
                y[i, j] = y[i, j]*2 {id=use}
            end
        end
        for i
            z[i] = y[i, 3] {id=other}
        end
        """, [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), lk.GlobalArg("z", F32), "..."])


def overlapping() -> lk.LoopKernel:
    """Two elements of each box are worked on, the last one inside the next box."""
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<2}", "y[4*i + 5*j] = y[4*i + 5*j] + 1",
                          [lk.GlobalArg("y", F32), "..."])


KERNELS: dict[str, tuple[Callable[[], lk.LoopKernel], Callable[[lk.LoopKernel], lk.LoopKernel]]] = {
    "accumulation": (accumulation, lambda k: lk.buffer_array(k, "y", "i_inner")),
    "running sum": (running_sum, lambda k: lk.buffer_array(k, "y", "i_inner", default_tag=None)),
    "two writes": (two_writes, lambda k: lk.buffer_array(k, "y", "j", within="set,use")),
    "whole boxes": (overlapping, lambda k: lk.buffer_array(k, "y", "j", default_tag=None, fetch_bounding_box=True)),
}


@pytest.fixture(params=KERNELS)
def buffered(request: pytest.FixtureRequest) -> tuple[lk.LoopKernel, lk.LoopKernel]:
    make, step = KERNELS[request.param]
    before = make()
    return before, step(before)


def refused(before: lk.LoopKernel, after: lk.LoopKernel) -> lk.IllegalTransformError:
    with pytest.raises(lk.IllegalTransformError) as err:
        require_buffered(before, after, "y", "y_buf", "the step")
    assert str(err.value.witness) in str(err.value)
    return err.value


def with_statement(knl: lk.LoopKernel, new: Statement) -> lk.LoopKernel:
    return with_dependences(knl, lambda found, _: found,
                            statements=tuple(new if s.id == new.id else s for s in knl.statements))


def shrunk(domain: InstanceSet) -> InstanceSet:
    """*domain* without the first value of its last iname."""
    last = domain.inames[-1]
    low, _ = domain.constant_range(last)
    assert low is not None
    return domain.where((">=", add(p.Variable(last), -low - 1)))


# Faults of the result

def test_what_the_step_makes_is_proven(buffered: tuple[lk.LoopKernel, lk.LoopKernel]) -> None:
    require_buffered(*buffered, "y", "y_buf", "the step")


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("which", ["init_y", "store_y"])
def test_one_element_less(buffered: tuple[lk.LoopKernel, lk.LoopKernel], which: str) -> None:
    before, after = buffered
    if which in after.statement_by_id:
        s = after.statement(which)
        refused(before, with_statement(after, replace(s, domain=shrunk(s.domain))))


@pytest.mark.parametrize("which", ["init_y", "store_y"])
def test_another_element(buffered: tuple[lk.LoopKernel, lk.LoopKernel], which: str) -> None:
    before, after = buffered
    if which in after.statement_by_id:
        s = after.statement(which)
        shift = {s.inames[-1]: p.Sum((p.Variable(s.inames[-1]), 1))}
        moved = replace(s, expression=substitute(s.expression, shift)) if which == "init_y" \
            else replace(s, assignee=substitute(s.assignee, shift))
        refused(before, with_statement(after, moved))


def test_a_flow_or_a_dependence_that_is_not_known(buffered: tuple[lk.LoopKernel, lk.LoopKernel]) -> None:
    before, after = buffered
    known = dependences(after)
    for d in known:
        if d.array == "y_buf" and d.kind == "flow":
            refused(before, with_dependences(after, lambda *_, d=d: (x for x in known if x is not d)))


def test_an_order_of_others_that_is_not_known() -> None:
    make, step = KERNELS["two writes"]
    before = make()
    after = step(before)
    forgetful = with_dependences(after, lambda found, _: (d for d in found if d.sink != "other"))
    err = refused(before, forgetful)
    assert (err.witness.source[0], err.witness.sink[0], err.witness.kind) == ("set", "other", "flow")


def test_loading_what_others_write_in_no_order() -> None:
    make, step = KERNELS["whole boxes"]
    before = make()
    after = step(before)
    known = dependences(after)
    for pair in (("init_y", "store_y"), ("store_y", "init_y")):
        forgetful = with_dependences(
            after, lambda *_, pair=pair: (d for d in known if (d.source, d.sink) != pair))
        err = refused(before, forgetful)
        assert {err.witness.source[0], err.witness.sink[0]} == {"init_y", "store_y"}


# Faults of the step itself

def without(array: str, *kinds: str) -> Callable[[Callable[..., Iterable[Dependence]]], Callable[..., Any]]:
    return lambda right: lambda *args: [d for d in right(*args) if d.array != array or d.kind not in kinds]


def one_load_less(right: Callable[..., lk.LoopKernel]) -> Callable[..., lk.LoopKernel]:
    return lambda self, load, store: right(self, None, store)


def short_copies(right: Callable[..., Statement]) -> Callable[..., Statement]:
    def copy(*args: Any) -> Statement:
        s = right(*args)
        return replace(s, domain=shrunk(s.domain))
    return copy


FAULTS: dict[str, tuple[object, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "an offset shifted": (staging.Box, "offsets", lambda right: lambda self, args: tuple(
        add(e, 1) for e in right(self, args))),
    "an element shifted": (staging.Box, "arguments", lambda right: lambda self: tuple(add(e, 1) for e in right(self))),
    "a short box": (staging, "swept_interval", lambda right: lambda *args: replace(
        right(*args), extent=max(right(*args).extent - 1, 1))),
    "short copies": (buffering.Buffer, "_copy", short_copies),
    "no load": (buffering.Buffer, "with_copies", one_load_less),
    "no flow": (buffering, "order_of_values", without("y_buf", "flow")),
    "no anti": (buffering.Buffer, "dependences", without("y", "anti")),
    "no flow between fillings": (buffering.Buffer, "dependences", without("y", "flow")),
    "no output": (buffering.Buffer, "dependences", without("y", "output")),
}

#: What harms no one: each element of the accumulation is of one filling.
HARMLESS = {("accumulation", "no flow between fillings"), ("accumulation", "no output"), ("two writes", "no load"),
            ("two writes", "no anti"), ("two writes", "no output"), ("running sum", "no output"),
            ("whole boxes", "no output")}


@pytest.mark.deep(every=36)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_own_step(kernel: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, step = KERNELS[kernel]
    where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    if (kernel, fault) in HARMLESS:
        step(make())
        return
    with pytest.raises(lk.IllegalTransformError):
        step(make())
