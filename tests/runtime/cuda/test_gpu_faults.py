"""Faults on a GPU: the error, its content, and that nothing is left behind."""
from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_gpu import ILLEGAL_ADDRESS, INVALID_CONTEXT
from tests.runtime.cuda.work import GPU_KINDS, KINDS, F, make, read, saxpy, spread, through_memory

X = np.arange(100, dtype=F)
each_kind = pytest.mark.parametrize("kind", KINDS)


# Launches

@pytest.mark.deep(every=14)
@each_kind
@pytest.mark.parametrize("bound", [False, True])
def test_a_launch_that_is_refused(lab: Lab, kind: str, bound: bool) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, z = make(lab, kind, X), make(lab, kind, np.zeros(100, F))
    given: dict[str, Any] = {"x": x, "y": x, "z": z, "alpha": 2.5}
    run = compiled.bind(**given) if bound else lambda: compiled(**given)
    run()
    lab.machine.faults.launch = [1]
    with pytest.raises(lk.LaunchError) as caught:
        run()
    err = caught.value
    assert (err.kernel, err.launch, err.grid, err.block, err.sticky) == ("saxpy", "saxpy", (4, 1, 1), (32, 1, 1), False)
    text = str(err)
    assert "could not be launched on GPU 0 (Fake 0, sm_90): CUDA_ERROR_INVALID_VALUE" in text
    assert "grid 4 x 1 x 1, block 32 x 1 x 1" in text
    assert "x: float32, shape (100,), strides (4,) bytes, at 0x" in text
    assert "alpha = 2.5" in text
    assert "n = 100" in text
    np.testing.assert_array_equal(read(lab, run().z), F(3.5)*X)


@pytest.mark.parametrize(("code", "hint"), [(2, "free arrays"), (3, "fork"), (700, "compute-sanitizer")])
def test_hints(lab: Lab, code: int, hint: str) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x = make(lab, "torch", X)
    lab.machine.faults.launch = [code]
    with pytest.raises(lk.LaunchError) as caught:
        compiled(x=x, y=x, z=make(lab, "torch", X), alpha=1)
    assert hint in str(caught.value.hint)
    assert caught.value.sticky is (code == ILLEGAL_ADDRESS)


def test_a_launch_that_is_refused_in_every_context(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x = make(lab, "torch", X)
    lab.machine.faults.launch = [INVALID_CONTEXT, INVALID_CONTEXT]
    machine = lab.machine
    with machine.context(machine.primary(0)), pytest.raises(lk.LaunchError, match="CUDA_ERROR_INVALID_CONTEXT"):
        compiled(x=x, y=x, z=make(lab, "torch", X), alpha=1)
    assert not lab.machine.faults.launch


def test_the_second_of_two_launches(lab: Lab) -> None:
    compiled = lk.compile(through_memory(), target="cuda")
    x = make(lab, "torch", X)
    compiled(x=x)
    lab.machine.faults.launch = [0, 1]
    with pytest.raises(lk.LaunchError) as caught:
        compiled(x=x)
    assert caught.value.launch == lab.machine.launched[1].name
    assert "a temporary, at 0x" in str(caught.value)
    assert "z: float32, shape (100,), strides (4,) bytes, at 0x" in str(caught.value)


# Kernels that break the context

@pytest.mark.deep(every=7)
@each_kind
def test_in_debug_mode_the_launch_is_known(lab: Lab, kind: str) -> None:
    compiled = lk.compile(through_memory(), target="cuda", debug=True)
    x = make(lab, kind, X)
    np.testing.assert_array_equal(read(lab, compiled(x=x).z), 2*(X + 1)[::-1])
    lab.machine.faults.in_kernel = ILLEGAL_ADDRESS
    with pytest.raises(lk.LaunchError) as caught:
        compiled(x=x)
    first = lab.machine.launched[0].name
    assert f"'{first}' of kernel 'through_memory' failed on GPU 0" in str(caught.value)
    assert (caught.value.launch, caught.value.sticky) == (first, True)
    assert "debug" not in str(caught.value.hint)
    assert len(lab.machine.launched) == 3


def test_debug_mode_waits_for_each_launch(lab: Lab) -> None:
    compiled = lk.compile(through_memory(), target="cuda", debug=True)
    stream = lab.torch.cuda.Stream()
    x = make(lab, "torch", X)
    lab.machine.run_all()
    compiled(x=x)
    with lab.torch.cuda.stream(stream):
        lab.machine.synchronised.clear()
        compiled(x=x, z=make(lab, "torch", X))
        assert lab.machine.synchronised == [stream.cuda_stream]*2


def test_otherwise_a_later_launch_reports_it(lab: Lab) -> None:
    compiled = lk.compile(spread(), target="cuda")
    x, z = make(lab, "torch", X), make(lab, "torch", np.zeros(200, F))
    lab.machine.faults.in_kernel = ILLEGAL_ADDRESS
    compiled(x=x, z=z)                                 # nobody has waited yet
    lab.machine.run_all()
    with pytest.raises(lk.LaunchError, match="something that was launched before") as caught:
        compiled(x=x, z=z)
    assert caught.value.sticky
    assert "debug=True" in str(caught.value.hint)
    with pytest.raises(lk.DeviceError):
        compiled(x=X)
    with pytest.raises(lk.DeviceError):
        lk.compile(saxpy(), target="cuda")(x=X, y=X, alpha=1)


@pytest.mark.parametrize("kind", ["numpy", "torch_cpu", "dlpack"])
def test_calls_that_wait_report_it_themselves(lab: Lab, kind: str) -> None:
    compiled = lk.compile(spread(), target="cuda")
    x = make(lab, kind, X)
    compiled(x=x)
    lab.machine.faults.in_kernel = ILLEGAL_ADDRESS
    with pytest.raises(lk.LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        compiled(x=x)
    assert "debug=True" in str(caught.value.hint)


def test_nothing_more_is_said_when_arrays_of_a_lost_context_go(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *what: said.append(what))
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    compiled = lk.compile(spread(), target="cuda")
    z = compiled(x=make(lab, "dlpack", X)).z
    compiled(x=X)
    lab.machine.sticky = ILLEGAL_ADDRESS
    lab.machine.retained[0] = 0                        # its context cannot even be made current
    del z, compiled
    gc.collect()
    for at_exit in lab.at_exit[::-1]:
        at_exit()
    assert not said


def test_after_a_fork(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lk.compile(spread(), target="cuda")
    compiled(x=X)
    monkeypatch.setattr("os.getpid", lambda: -1)
    lab.machine.retained[0] = 0                        # as the driver sees it in the child
    with pytest.raises(lk.DeviceError, match="before this process was forked") as caught:
        compiled(x=X)
    assert "spawn" in str(caught.value.hint)
    for at_exit in lab.at_exit[::-1]:                  # the child leaves what is the parent's
        at_exit()
    assert lab.machine.retained[0] == 0


def test_at_the_end_all_contexts_are_given_back(lab: Lab) -> None:
    compiled = lk.compile(spread(), target="cuda")
    compiled(x=X)
    compiled(x=make(lab, "torch", X, 1))
    assert lab.machine.retained == {0: 1, 1: 1}
    for at_exit in lab.at_exit[::-1]:
        at_exit()
    assert lab.machine.retained == {0: 0, 1: 0}


# Memory

@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("kind", "allocation"), [("numpy", 0), ("numpy", 1), ("numpy", 2), ("torch_cpu", 2),
                                                  ("interface", 0), ("dlpack", 0)])
def test_out_of_memory(lab: Lab, kind: str, allocation: int) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, y = make(lab, kind, X), make(lab, kind, X)
    lab.machine.faults.allocation = allocation
    with pytest.raises(lk.DeviceError, match=r"has no 400 bytes for an array; 4.0 GiB are free") as caught:
        compiled(x=x, y=y, alpha=1)
    assert "torch's cache" in str(caught.value.hint)
    lab.machine.faults.allocation = None
    np.testing.assert_array_equal(read(lab, compiled(x=x, y=y, alpha=1).z), 2*X)


@pytest.mark.parametrize("kind", ["interface", "dlpack", "pycuda"])
def test_no_memory_for_a_temporary(lab: Lab, kind: str) -> None:
    compiled = lk.compile(through_memory(), target="cuda")
    x, z = make(lab, kind, X), make(lab, kind, X)
    lab.machine.faults.allocation = 0
    with pytest.raises(lk.DeviceError):
        compiled(x=x, z=z)
    if kind != "dlpack":                               # whose temporaries are made for each run
        with pytest.raises(lk.DeviceError):
            compiled.bind(x=x, z=z)
    lab.machine.faults.allocation = None
    compiled(x=x, z=z)
    np.testing.assert_array_equal(read(lab, z), 2*(X + 1)[::-1])


def test_too_much_memory(lab: Lab) -> None:
    compiled = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", assumptions="n>=1"), target="cuda")
    x = make(lab, "interface", X)
    wide = x.on_gpu
    x.told |= {"shape": (2**31,), "strides": (0,)}
    with pytest.raises(lk.DeviceError, match=r"has no 8.0 GiB for an array; 4.0 GiB are free"):
        compiled(x=x)
    assert wide.pointer


@pytest.mark.deep(every=7)
@each_kind
def test_calls_leave_nothing_behind(lab: Lab, kind: str) -> None:
    for knl in (saxpy(), through_memory(), spread()):
        compiled = lk.compile(knl, target="cuda")
        x = make(lab, kind, X)
        given = {"x": x, "y": x, "alpha": 1} if knl.name == "saxpy" else {"x": x}
        before = len(lab.machine.alive())
        for _ in range(3):
            out = compiled(**given)
            assert len(lab.machine.alive()) <= before + 1
            del out
            lab.machine.run_all()
        assert len(lab.machine.alive()) == before


@pytest.mark.parametrize("kind", [k for k in GPU_KINDS if k != "dlpack"])
def test_grids_are_checked_before_the_launch(lab: Lab, kind: str) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[0]"), {"x": F})
    compiled = lk.compile(lk.tag_inames(knl, {"i": "g.1"}), target="cuda")
    x = make(lab, kind, X)
    for _ in range(2):
        with pytest.raises(lk.LimitError, match="70000 blocks along y"):
            compiled(x=x, n=70_000)
    assert read(lab, compiled(x=x, n=65_535).y).shape == (65_535,)


def test_the_message_in_the_documentation(lab: Lab) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[at[i]]", name="gather")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F, "at": np.int32}), "i", 64, outer_tag="g.0", inner_tag="l.0")
    x, at = make(lab, "torch", X[:10]), make(lab, "torch", np.zeros(1000, np.int32))
    lab.machine.faults.in_kernel = ILLEGAL_ADDRESS
    with pytest.raises(lk.LaunchError) as caught:
        lk.compile(knl, target="cuda", debug=True)(x=x, at=at)
    for page in ("errors", "running"):
        shown = (Path(__file__).parents[3] / "docs" / f"{page}.rst").read_text(encoding="utf-8")
        (block,) = re.findall(r"^   LaunchError: (.*(?:\n    .*)*)", shown, re.MULTILINE)
        assert anywhere(block.replace("\n   ", "\n")) == anywhere(str(caught.value))


def anywhere(message: str) -> str:
    """The message on any GPU, without the driver's description of the code and the addresses of the arrays."""
    message = re.sub(r"(CUDA_ERROR_\w+): .*", r"\1", message)
    return re.sub(r"at 0x\w+", "at 0x...", re.sub(r"GPU 0 \([^)]*\)", "GPU 0 (...)", message))
