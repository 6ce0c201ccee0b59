"""Timing by events, on the clock of fake GPUs."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Tensor
from tests.runtime.cuda.work import KINDS, F, make, read, rows, saxpy, through_memory

X = np.arange(1000, dtype=F)


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("kind", KINDS)
def test_the_time_is_that_of_the_launches(lab: Lab, kind: str) -> None:
    x, z = make(lab, kind, X), make(lab, kind, X)
    timing = lk.compile(saxpy(), target="cuda").time(x=x, y=x, z=z, alpha=2, duration=0.01, bytes=12_000, flops=2000)
    assert timing.seconds == pytest.approx(lab.machine.kernel_seconds, rel=1e-3)
    assert timing.spread < 1e-8
    assert timing.runs >= 5
    assert timing.gigabytes_per_second == pytest.approx(0.6, rel=1e-3)
    assert timing.teraflops == pytest.approx(1e-4, rel=1e-3)
    assert str(timing).startswith("20 us +- ")
    np.testing.assert_array_equal(read(lab, z), X)     # what is written is a copy
    twice = lk.compile(through_memory(), target="cuda").time(x=x, duration=0.01)
    assert twice.seconds == pytest.approx(2*lab.machine.kernel_seconds, rel=1e-3)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("kind", ["numpy", "torch", "pycuda"])
def test_rotated_arguments_are_copies(lab: Lab, kind: str) -> None:
    x = make(lab, kind, X)
    knl = lk.compile(saxpy(), target="cuda")
    timing = knl.time(x=x, y=x, alpha=2, duration=0.01, rotate=True)
    assert timing.runs >= 5
    used = {launch.arguments["x"] for launch in lab.machine.launched if launch.name == "saxpy"}
    assert len(used) * 2*X.nbytes >= 3*65536           # more than the cache holds, three times
    lab.machine.total_memory = 1000
    with pytest.raises(lk.CallError, match="do not fit"):
        knl.time(x=x, y=x, alpha=2, rotate=True)


@pytest.mark.deep
def test_strided_arguments(lab: Lab) -> None:
    base = make(lab, "torch", np.arange(600, dtype=F).reshape(20, 30))
    knl = lk.compile(rows(), target="cuda")
    for x in (base, base.seen(lambda a: a.T), base.seen(lambda a: a[::2, 3:])):
        for rotate in (False, True):
            y = make(lab, "torch", np.zeros(x.shape, F))
            assert knl.time(x=x, y=y, duration=0.001, rotate=rotate).seconds > 0
            assert not read(lab, y).any()


def test_arguments_that_are_still_being_made(lab: Lab) -> None:
    """On a stream that only their library knows; subscripts among them would lead anywhere."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[at[i]]")
    knl = lk.add_dtypes(knl, {"x": F, "at": np.int32})
    x, at = make(lab, "torch", X), make(lab, "torch", np.full(10, 2**30, np.int32))
    lab.machine.run_all()
    stream = lab.torch.cuda.Stream()
    with lab.torch.cuda.stream(stream):
        at.fill_(7)
    for rotate in (False, True):
        lk.compile(knl, target="cuda").time(x=x, at=at, duration=0.001, rotate=rotate)


def test_names_that_options_have(lab: Lab) -> None:
    knl = lk.compile(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<bytes}", "y[i] = x[i]"), {"x": F}), target="cuda")
    x = make(lab, "torch", X)
    timing = knl.time({"bytes": 10}, x=x, duration=0.001, bytes=80)
    assert timing.bytes == 80
    assert lab.machine.launched[-1].arguments["bytes"] == 10


@pytest.mark.parametrize("given", [{"alpha": "2"}, {"n": 5000}, {"q": 1}])
def test_what_a_call_refuses(lab: Lab, given: dict[str, Any]) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = make(lab, "torch", X)
    assert isinstance(x, Tensor)
    with pytest.raises(lk.CallError) as caught:
        knl.time({"x": x, "y": x, "alpha": 1, **given})
    assert caught.value.argument in (*given, "x")
