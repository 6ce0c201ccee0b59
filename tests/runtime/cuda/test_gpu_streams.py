"""Streams, contexts, several GPUs, bound calls and threads, on fake GPUs that do nothing before somebody waits."""
from __future__ import annotations

import gc
import pickle
import threading
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import stream_handle
from loopkit.runtime.kinds import TorchKind
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Exporter, Interface, fake_torch, on_gpu
from tests.runtime.cuda.work import GPU_KINDS, HOST_KINDS, KINDS, F, make, read, saxpy, spread, through_memory

X, Y = np.arange(100, dtype=F), np.linspace(-1, 1, 100, dtype=F)


@pytest.fixture
def knl() -> lk.LoopKernel:
    return saxpy()


# Whose stream

@pytest.mark.parametrize("how", ["in place", "allocated", "temporary"])
def test_the_current_stream_is_used(lab: Lab, how: str) -> None:
    """On another one the kernel would read what is not there yet, or its result be read too early."""
    compiled = lk.compile(through_memory() if how == "temporary" else saxpy(), target="cuda")
    torch = lab.torch
    for turn in range(3):
        x = make(lab, "torch", np.zeros(100, F))
        z = make(lab, "torch", np.zeros(100, F))
        lab.machine.run_all()
        with torch.cuda.stream(torch.cuda.Stream()) if turn else nullcontext():
            x.fill_(turn)
            given = {"x": x} if how == "temporary" else {"x": x, "y": x, "alpha": 2}
            out = compiled(**given, **({"z": z} if how == "in place" else {}))
            assert (read(lab, out.z) == (2*(turn + 1) if how == "temporary" else 3*turn)).all()
            assert lab.machine.launched[-1].stream == torch.streams.of(0)


def test_torch_without_the_private_way_to_its_stream(lab: Lab) -> None:
    torch = fake_torch(lab.machine, raw=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert TorchKind(torch).stream(0)() == stream.cuda_stream


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("how", ["in place", "allocated", "temporary"])
@pytest.mark.parametrize("first", ["torch", "cupy"])
def test_streams_of_two_libraries_are_ordered(lab: Lab, first: str, how: str) -> None:
    compiled = lk.compile(through_memory() if how == "temporary" else saxpy(), target="cuda")
    torch, cupy, machine = lab.torch, lab.cupy, lab.machine
    other = machine.new_stream(blocking=False, context=machine.primary(0)).handle
    for turn in range(1, 4):
        x, y = make(lab, "torch", np.zeros(100, F)), make(lab, "cupy", np.zeros(100, F))
        machine.run_all()
        with torch.cuda.stream(torch.cuda.Stream()), cupy.streams.using(0, other):
            x.fill_(turn)
            y.fill(5, other)
            if how == "temporary":
                given = {"x": x, "z": y} if first == "torch" else {"x": y, "z": x}
                wanted = 2*(turn + 1) if first == "torch" else 12
            elif first == "torch":
                given, wanted = {"x": x, "y": y, "alpha": 2}, 2*turn + 5
            else:
                given, wanted = {"x": y, "y": x, "alpha": 2}, 10 + turn
            if how == "in place":
                given["z"] = make(lab, "cupy", np.zeros(100, F))
            out = compiled(**given)
            # what either library does next comes after the launch
            x.fill_(-1)
            y.fill(-1, other) if how != "temporary" or first != "torch" else None
            if how != "temporary":
                assert (read(lab, out.z) == wanted).all()
            elif first == "torch":
                assert (read(lab, y) == wanted).all()
    machine.run_all()


def test_streams_that_arrays_say_they_are_on(lab: Lab) -> None:
    """An entry of the interface: 1 is the legacy stream, 2 that of a thread, others are handles."""
    compiled = lk.compile(saxpy(), target="cuda")
    own = lab.machine.new_stream(blocking=False, context=lab.machine.primary(0)).handle
    for stream in (None, own, 1, own, None):
        x = Interface(on_gpu(lab.machine, X, stream=own if stream == own else 0), stream=stream)
        z = Interface(on_gpu(lab.machine, Y, stream=own if stream == own else 0), stream=stream)
        compiled(x=x, y=x, z=z, alpha=2)
        assert lab.machine.launched[-1].stream == (own if stream == own else 0)
        assert (read(lab, z) == 3*X).all()
    # a result of the runtime's own is complete
    x = Interface(on_gpu(lab.machine, X, stream=own), stream=own)
    z = compiled(x=x, y=x, alpha=1).z
    assert (read(lab, z) == 2*X).all()
    lab.machine.run_all()                              # and not cleared afterwards
    assert (read(lab, z) == 2*X).all()


def test_arrays_that_are_handed_over_may_go_when_the_call_is_over(lab: Lab) -> None:
    """A library that only hands out capsules takes memory back in the order of a stream that nobody else knows."""
    compiled = lk.compile(saxpy(), target="cuda")
    own = lab.machine.new_stream(blocking=False, context=lab.machine.primary(0)).handle
    for turn in range(3):
        y = make(lab, "torch", Y)
        z = make(lab, "torch", Y)
        compiled(x=Exporter(on_gpu(lab.machine, X + turn, stream=own), own), y=y, z=z, alpha=1)
        lab.machine.finish(lab.machine.streams[own].last)          # it is used for something else by now
        assert (read(lab, z) == X + turn + Y).all()


# Chosen streams

@pytest.mark.deep(every=21)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["in place", "allocated", "temporary"])
def test_a_chosen_stream(lab: Lab, kind: str, how: str) -> None:
    """What the call itself allocates, clears and gives back is ordered with it, although nobody can see that."""
    compiled = lk.compile(through_memory() if how == "temporary" else spread(), target="cuda")
    torch = lab.torch
    x = make(lab, kind, X)
    into = make(lab, kind, np.zeros(200 if how == "in place" else 100, F))
    lab.machine.run_all()
    stream = torch.cuda.Stream()
    chosen = compiled.on(stream)
    for _ in range(2):
        out = chosen(x=x, **({} if how == "allocated" else {"z": into}))
        assert {launch.stream for launch in lab.machine.launched} == {stream.cuda_stream}
        after = make(lab, kind, np.full(100, -9, F))   # may get the memory of a temporary
        lab.machine.synchronize(stream.cuda_stream) if kind in GPU_KINDS else None
        with torch.cuda.stream(stream):
            found = read(lab, out.z) if kind in ("torch", *HOST_KINDS) else _bytes_of(lab, out.z)
        if how == "temporary":
            np.testing.assert_array_equal(found, 2*(X + 1)[::-1])
        else:
            np.testing.assert_array_equal(found[:199:2], X)
            assert not found[1:199:2].any()
        del after
    assert compiled.on(0).target == "cuda"
    assert chosen._runner is not compiled._runner


def _bytes_of(lab: Lab, x: Any) -> np.ndarray:
    """The elements as they are now."""
    if hasattr(x, "on_gpu"):
        x = x.on_gpu
    if hasattr(x, "array"):
        found: np.ndarray = x.array.copy()
        return found
    pointer = int(x.gpudata) if hasattr(x, "gpudata") else x.pointer
    memory = lab.machine.find(pointer)
    assert memory is not None
    return memory.bytes()[:4*x.shape[0]].view(F).copy()


def test_handles() -> None:
    ptr = SimpleNamespace(value=77)
    for given, wanted in [
            (77, 77), (0, 0), (1, 0), (2, 2), (SimpleNamespace(cuda_stream=77), 77), (SimpleNamespace(ptr=77), 77),
            (SimpleNamespace(handle=77), 77), (SimpleNamespace(handle=ptr), 77),
            (SimpleNamespace(handle=SimpleNamespace(value=None)), 0), (SimpleNamespace(handle=None), 0),
            (SimpleNamespace(__cuda_stream__=lambda: (0, 77)), 77), (SimpleNamespace(__cuda_stream__=(0, 1)), 0),
            (SimpleNamespace(cuda_stream=0), 0)]:
        assert stream_handle(given) == wanted, given
    for wrong in ("fast", None, True, 1.5, object()):
        with pytest.raises(lk.CallError, match="not a CUDA stream"):
            stream_handle(wrong)


def test_there_are_no_streams_on_the_host(lab: Lab) -> None:
    with pytest.raises(lk.DeviceError, match="compiled for the target 'c', which has no streams"):
        lk.compile(saxpy(), target="c").on(0)


# Contexts and devices

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("current", ["none", "own", "the other GPU's", "a foreign one"])
def test_whatever_context_is_current(lab: Lab, kind: str, current: str) -> None:
    """It is left as it was, too."""
    machine = lab.machine
    contexts = {"none": [], "own": [machine.primary(0)], "the other GPU's": [machine.primary(1)],
                "a foreign one": [machine.foreign_context(0)]}[current]
    compiled = lk.compile(saxpy(), target="cuda", device=0)
    for _ in range(2):
        x, z = make(lab, kind, X), make(lab, kind, Y)
        machine.stack.extend(contexts)
        compiled(x=x, y=x, z=z, alpha=1)
        out = compiled(x=x, y=x, alpha=2)
        assert machine.stack == contexts
        del machine.stack[:]
        np.testing.assert_array_equal(read(lab, z), 2*X)
        np.testing.assert_array_equal(read(lab, out.z), 3*X)
    assert {launch.context for launch in machine.launched} == {machine.primary(0)}


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("kind", GPU_KINDS)
def test_two_gpus(lab: Lab, kind: str) -> None:
    """Each runs what was compiled for it: they are of different architectures."""
    compiled = lk.compile(saxpy(), target="cuda")
    for ordinal in (0, 1, 0, 1):
        x, y = make(lab, kind, X, ordinal), make(lab, kind, Y, ordinal)
        z, = compiled(x=x, y=y, alpha=3)
        np.testing.assert_array_equal(read(lab, z), F(3)*X + Y)
        assert lab.machine.launched[-1].context == lab.machine.primary(ordinal)
    x, y = make(lab, kind, X, 0), make(lab, kind, X, 1)
    for _ in range(2):
        with pytest.raises(lk.CallError, match="'x' lies on GPU 0 and 'y' on GPU 1"):
            compiled(x=x, y=y, alpha=3)
    second = lk.compile(saxpy(), target="cuda", device=1)
    with pytest.raises(lk.CallError, match="lies on GPU 0, and the kernel was compiled for GPU 1"):
        second(x=x, y=x, alpha=3)
    np.testing.assert_array_equal(second(x=X, y=Y, alpha=1).z, X + Y)
    assert lab.machine.launched[-1].context == lab.machine.primary(1)


def test_streams_of_cupy_on_another_gpu_than_the_current(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    first, second = (lab.machine.new_stream(blocking=False, context=lab.machine.primary(i)).handle for i in (0, 1))
    x = make(lab, "cupy", X, 1)
    lab.machine.run_all()
    with lab.cupy.streams.using(0, first), lab.cupy.streams.using(1, second):
        np.testing.assert_array_equal(read(lab, compiled(x=x, y=x, alpha=1).z), 2*X)
    assert lab.machine.launched[-1].stream == second


def test_an_architecture_that_a_gpu_does_not_run(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target=lk.CudaTarget(arch="sm_90a"))
    np.testing.assert_array_equal(compiled(x=X, y=X, alpha=1).z, 2*X)
    x = make(lab, "torch", X, 1)
    with pytest.raises(lk.DeviceError, match="sm_90a does not run on GPU 1"):
        compiled(x=x, y=x, alpha=1)
    with pytest.raises(lk.DeviceError, match="sm_86 does not run on GPU 0"):
        lk.compile(saxpy(), target=lk.CudaTarget(arch="sm_86"))(x=X, y=X, alpha=1)
    older = lk.compile(saxpy(), target=lk.CudaTarget(arch="sm_80"))
    np.testing.assert_array_equal(read(lab, older(x=x, y=x, alpha=1).z), 2*X)


def test_compiled_kernels_can_be_pickled(lab: Lab, knl: lk.LoopKernel) -> None:
    compiled = lk.compile(knl, target="cuda", device=1, debug=True)
    compiled(x=X, y=X, alpha=1)
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(again(x=X, y=Y, alpha=2).z, F(2)*X + Y)
    assert lab.machine.launched[-1].context == lab.machine.primary(1)
    assert again._given == ("cuda", 1, True, None)


# Bound calls

@pytest.mark.deep(every=21)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["in place", "allocated", "temporary"])
def test_bound_calls(lab: Lab, kind: str, how: str) -> None:
    compiled = lk.compile(through_memory() if how == "temporary" else saxpy(), target="cuda")
    x = make(lab, kind, X)
    given = {"x": x} if how == "temporary" else {"x": x, "y": x, "alpha": 2}
    z = make(lab, kind, np.zeros(100, F))
    run = compiled.bind(**given, **({"z": z} if how != "allocated" else {}))
    assert run.number_of_launches == (2 if how == "temporary" else 1)
    wanted = 2*(X + 1)[::-1] if how == "temporary" else 3*X
    first = run()
    assert how == "allocated" or first.z is z
    np.testing.assert_array_equal(read(lab, first.z), wanted)
    if kind == "dlpack" or kind in HOST_KINDS:
        np.testing.assert_array_equal(read(lab, run().z), wanted)
        assert run().z is first.z
        return
    lab.machine.faults.allocation = 0                  # from here on there is no memory
    again = run()
    assert again.z is first.z
    np.testing.assert_array_equal(read(lab, again.z), wanted)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("kind", KINDS)
def test_bound_calls_read_their_arrays_anew(lab: Lab, kind: str) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x = make(lab, kind, X)
    run = compiled.bind(x=x, y=make(lab, kind, Y), alpha=1)
    np.testing.assert_array_equal(read(lab, run().z), X + Y)
    if kind in HOST_KINDS:
        (x if kind == "numpy" else x.numpy())[:] = 5
    elif kind == "torch":
        x.fill_(5)
    else:
        lab.machine.run_all()
        target = int(x.gpudata) if kind == "pycuda" else (x.on_gpu if hasattr(x, "on_gpu") else x).pointer
        memory = lab.machine.find(target)
        assert memory is not None
        memory.bytes()[:400].view(F)[:] = 5
    np.testing.assert_array_equal(read(lab, run().z), 5 + Y)


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("kind", GPU_KINDS)
def test_bound_calls_keep_their_arrays_and_give_them_back(lab: Lab, kind: str) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    run = compiled.bind(x=make(lab, kind, X), y=make(lab, kind, Y), alpha=1)
    other = make(lab, kind, -X)                        # whose memory could have been that of x
    np.testing.assert_array_equal(read(lab, run().z), X + Y)
    del run, other
    lab.machine.run_all()
    gc.collect()
    assert not lab.machine.alive()


def test_bound_calls_on_another_stream_than_that_of_their_making(lab: Lab) -> None:
    """Neither what was cleared at the making nor a temporary, given back early, gets in between."""
    torch = lab.torch
    making, running = torch.cuda.Stream(), torch.cuda.Stream()
    x = make(lab, "torch", X)
    lab.machine.run_all()
    for knl in ("spread", "through_memory"):
        compiled = lk.compile(spread() if knl == "spread" else through_memory(), target="cuda")
        with torch.cuda.stream(making):
            run = compiled.bind(x=x)
            fixed = compiled.on(running).bind(x=x)
        for call in (run, fixed):
            with torch.cuda.stream(running):
                out = call()
                assert lab.machine.launched[-1].stream == running.cuda_stream
            del call
        del run, fixed
        for first, second in ((running, making), (making, running)):
            lab.machine.finish(lab.machine.streams[(first if knl == "spread" else second).cuda_stream].last)
        with torch.cuda.stream(running):
            found = read(lab, out.z)
        np.testing.assert_array_equal(found[::2] if knl == "spread" else found,
                                      X if knl == "spread" else 2*(X + 1)[::-1])


def test_bound_calls_check_once(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, y = make(lab, "torch", X), make(lab, "torch", Y)
    with pytest.raises(lk.CallError, match="overlaps"):
        compiled.bind(x=x, y=y, z=x, alpha=1)
    with pytest.raises(lk.CallError, match="by name"):
        compiled.bind(x, y)
    with pytest.raises(lk.CallError, match="'x' is missing"):
        compiled.bind(x=None, y=y, alpha=1)
    with pytest.raises(lk.CallError, match="not aligned"):
        compiled.bind(x=Interface(x.data, data=(x.data_ptr() + 2, False), shape=(99,)), y=y[:99], alpha=1)
    machine = lab.machine
    run = compiled.bind(x=x, y=y, alpha=1)
    for context in (machine.primary(1), machine.foreign_context(0)):
        with machine.context(context):
            np.testing.assert_array_equal(read(lab, run().z), X + Y)


# Lifetimes and threads

def test_what_is_remembered_keeps_no_array(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    for kind in KINDS:
        x, y = make(lab, kind, X), make(lab, kind, Y)
        out = compiled(x=x, y=y, alpha=1)
        watched = [weakref.ref(a) for a in (x, y)] + ([weakref.ref(out.z)] if kind != "pycuda" else [])
        del x, y, out
        gc.collect()
        assert [w() for w in watched] == [None]*len(watched), kind
    lab.machine.run_all()
    assert not lab.machine.alive()


def test_programs_outlive_their_kernels(lab: Lab) -> None:
    """A graph may launch them when the kernel is gone; and one text is loaded once."""
    compiled = lk.compile(saxpy(), target="cuda")
    compiled(x=X, y=X, alpha=1)
    lk.compile(saxpy(), target="cuda")(x=X, y=X, alpha=1)
    assert len(lab.machine.modules) == 1
    run = compiled.bind(x=make(lab, "torch", X), y=make(lab, "torch", X), z=make(lab, "torch", X), alpha=1)
    del compiled
    gc.collect()
    np.testing.assert_array_equal(read(lab, run().z), 2*X)
    del run
    gc.collect()
    assert len(lab.machine.modules) == 1


def test_threads(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    wrong: list[Any] = []

    def work(i: int) -> None:
        try:
            for k in range(12):
                kind = KINDS[(i + k) % len(KINDS)]
                n = 90 + i - k % 3
                x = make(lab, kind, np.full(n, i, F))
                found = read(lab, compiled(x=x, y=x, alpha=k).z)
                if found.shape != (n,) or not (found == i*(k + 1)).all():
                    wrong.append((i, k, kind, found))
        except BaseException as err:                   # noqa: BLE001 (whatever it is, the test shows it)
            wrong.append(err)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
