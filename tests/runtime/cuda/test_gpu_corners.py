"""Corners of calls on GPUs: devices but the first, odd names, odd arrays, chosen streams, what fails in between."""
from __future__ import annotations

import copy
import ctypes
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda import compiler, devices, runner
from loopkit.runtime.cuda.compiler import binary_key
from loopkit.runtime.kinds import TorchKind, general_kind
from tests.runtime.cuda.conftest import Lab, install
from tests.runtime.cuda.fake_gpu import Machine
from tests.runtime.cuda.work import F, make, saxpy

ONES = np.ones(8, F)


@pytest.fixture
def only_second(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The first GPU is too old to be used."""
    yield install(monkeypatch, Machine(((6, 1), (9, 0))))
    runner.array_kinds.cache_clear()
    devices._initialised.cache_clear()


# Devices

def test_no_other_gpu_is_touched(lab: Lab) -> None:
    x = make(lab, "torch", ONES, 1)
    lk.compile(saxpy(), target="cuda", device=1)(x=x, y=x, alpha=2.0)
    assert list(devices._gpus) == [1]


def test_a_gpu_beside_one_that_is_too_old(only_second: Lab) -> None:
    x = make(only_second, "torch", ONES, 1)
    knl = lk.compile(saxpy(), target="cuda", device=1)
    knl(x=x, y=x, alpha=2.0)
    assert 'extern "C"' in knl.source
    assert lk.compile(saxpy()).target == "c"               # which takes the first


def test_arrays_of_the_host_go_to_the_gpu_that_is_current(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    went = []
    for ordinal in (0, 1, 1, 0):
        with lab.machine.context(lab.machine.primary(ordinal)):
            assert (knl(x=ONES, y=ONES, alpha=2.0).z == 3).all()
        went.append(lab.machine.launched[-1].context)
    assert went == [lab.machine.primary(ordinal) for ordinal in (0, 1, 1, 0)]
    assert (knl(x=ONES, y=ONES, alpha=2.0).z == 3).all()
    assert lab.machine.launched[-1].context == lab.machine.primary(0)


def test_debug_mode_where_another_context_is_current(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda", debug=True)
    x, z = make(lab, "torch", ONES, 1), make(lab, "torch", ONES, 1)
    failed: list[Exception] = []

    def work() -> None:
        try:
            knl(x=x, y=x, z=z, alpha=1.0)
        except lk.LoopkitError as err:
            failed.append(err)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with lab.machine.context(lab.machine.primary(0)):
        work()
    assert not failed


def test_a_chosen_stream_on_a_gpu_that_is_not_current(lab: Lab) -> None:
    stream = lab.machine.new_stream(context=lab.machine.primary(1)).handle
    knl = lk.compile(saxpy(), target="cuda").on(stream)
    x = make(lab, "torch", ONES, 1)
    knl(x=x, y=x, alpha=1.0)
    for ordinal in (0, 1):
        with lab.machine.context(lab.machine.primary(ordinal)):
            knl(x=x, y=x, alpha=1.0)
    assert {launch.stream for launch in lab.machine.launched} == {stream}


# Chosen streams

def test_copies_keep_the_stream(lab: Lab) -> None:
    stream = lab.machine.new_stream(context=lab.machine.primary(0)).handle
    knl = lk.compile(saxpy(), target="cuda")
    chosen = knl.on(stream)
    x, z = make(lab, "torch", ONES), make(lab, "torch", ONES)
    for one in (chosen, copy.copy(chosen), copy.deepcopy(chosen)):
        one(x=x, y=x, z=z, alpha=1.0)
    assert [launch.stream for launch in lab.machine.launched] == [stream]*3
    assert pickle.loads(pickle.dumps(knl)).target == "cuda"
    with pytest.raises(lk.DeviceError, match="streams cannot be pickled"):
        pickle.dumps(chosen)


def test_a_stream_chosen_for_each_call_costs_one_check(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lab.machine.new_stream(context=lab.machine.primary(0)).handle
    knl = lk.compile(saxpy(), target="cuda")
    prepared: list[object] = []
    original = runner.CudaRunner._plan

    def counting(self: Any, *args: Any) -> Any:
        prepared.append(None)
        return original(self, *args)
    monkeypatch.setattr(runner.CudaRunner, "_plan", counting)
    x, z = make(lab, "torch", ONES), make(lab, "torch", ONES)
    for _ in range(5):
        knl.on(stream)(x=x, y=x, z=z, alpha=1.0)
    assert len(prepared) == 1


@pytest.mark.parametrize("chosen", [False, True])
def test_what_goes_out_through_dlpack_is_complete(lab: Lab, chosen: bool) -> None:
    """Its library cannot be told which stream to wait for."""
    own, other = (lab.machine.new_stream(blocking=False, context=lab.machine.primary(0)).handle for _ in range(2))
    seen: list[np.ndarray] = []

    class Namespace:
        @staticmethod
        def from_dlpack(array: Any) -> Any:
            there = np.ctypeslib.as_array((ctypes.c_float*8).from_address(array.pointer))
            lab.machine.finish(lab.machine.enqueue("read", other, lambda: seen.append(there.copy()),
                                                   lab.machine.primary(0)))
            return array
    x = make(lab, "dlpack", ONES)
    type(x).__array_namespace__ = lambda self: Namespace
    try:
        knl = lk.compile(saxpy(), target="cuda")
        (knl.on(own) if chosen else knl)(x=x, y=x, alpha=1.0)
    finally:
        del type(x).__array_namespace__
    assert (seen[0] == 2).all()


# Names and values

@pytest.mark.deep(every=5)
@pytest.mark.parametrize("name", ["self", "knl", "args", "kwargs", "arguments"])
def test_arguments_may_have_any_name(name: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = 2*{name}[i]")
    compiled = lk.compile(knl, target="c")
    for call in (knl, compiled, lambda **given: compiled.bind(**given)()):
        assert (call(**{name: np.ones(3)}).y == 2).all()


def test_strides_have_names_of_their_own() -> None:
    knl = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] + x_stride_0"), target="c")
    for x in (np.ones(4), np.ones(8)[::2]):
        assert (knl(x=x, x_stride_0=1.0).y == 3).all()


@pytest.mark.parametrize("name", ["expf", "fabsf", "csqrt", "min_i32", "floor_div_i64", "power3_f32",
                                  "make_complex64", "llabs"])
def test_names_of_functions_of_the_text_are_refused(name: str) -> None:
    with pytest.raises(lk.LoopkitError, match=f"'{name}' is "):
        lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {name}[i]")


def test_arrays_that_tell_nonsense(lab: Lab) -> None:
    class NoType:
        __cuda_array_interface__ = {"shape": (8,), "data": (0, False), "version": 3}        # noqa: RUF012

    class NoData:
        __cuda_array_interface__ = {"shape": (8,), "typestr": "<f4", "data": None, "version": 3}    # noqa: RUF012

    class NoDevice:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise BufferError("not today")
    knl = lk.compile(saxpy(), target="cuda")
    for odd in (NoType(), NoData(), NoDevice()):
        with pytest.raises(lk.CallError, match="'x'"):
            knl(x=odd, y=make(lab, "torch", ONES), alpha=1.0)


def test_tensors_tell_the_same_alone_and_together(lab: Lab) -> None:
    """A call looks at what :meth:`read_plain` reads, a first call at :meth:`signature`; of complex ones not."""
    kind = general_kind(make(lab, "torch", ONES))
    assert isinstance(kind, TorchKind)
    x, y = make(lab, "torch", ONES), make(lab, "torch", np.ones((3, 4), np.float32), 1)
    signature, addresses = kind.read_plain([None, x, y], [1, 2])
    assert tuple(signature) == (*kind.signature(x)[0], *kind.signature(y)[0])
    assert addresses == [kind.signature(x)[1], kind.signature(y)[1]]
    assert kind.is_plain(x)
    z = make(lab, "torch", np.ones((3, 4), np.complex64), 1)
    assert not kind.is_plain(z)
    assert tuple(kind.read_plain([z], [0])[0]) != kind.signature(z)[0]


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("target", ["c", "cuda"])
def test_a_masked_array_is_never_taken_for_a_plain_one(target: str) -> None:
    run = lk.compile(saxpy(), target=target)
    for _ in range(2):
        run(x=ONES, y=ONES, alpha=1.0)
        with pytest.raises(lk.CallError, match="masked array"):
            run(x=np.ma.masked_less(ONES, 2), y=ONES, alpha=1.0)


def test_real_and_complex_tensors_in_turns(lab: Lab) -> None:
    """Real ones are recognised without looking for conjugates, and conjugates are refused all the same."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "z[i] = x[i] + x[i]")
    run = lk.compile(knl, target="cuda")
    for dtype in (np.float32, np.complex64, np.float32, np.complex64):
        x, z = (make(lab, "torch", np.ones(4, dtype)) for _ in range(2))
        for _ in range(2):
            run(x=x, z=z)
    x = make(lab, "torch", np.ones(4, np.complex64))
    with pytest.raises(lk.CallError, match="negated or conjugated"):
        run(x=x.flagged(conj=True), z=make(lab, "torch", np.ones(4, np.complex64)))


def test_a_tensor_for_a_scalar(lab: Lab) -> None:
    class Scalar:
        def item(self) -> float:
            return 2.0
    x = make(lab, "torch", ONES)
    with pytest.raises(lk.CallError, match=r"pass alpha=alpha.item\(\)"):
        lk.compile(saxpy(), target="cuda")(x=x, y=x, alpha=Scalar())


# Failures

def test_too_little_memory_for_a_bound_call(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = make(lab, "pycuda", ONES)
    lab.machine.faults.allocation = 0
    for call in (knl, knl.bind):
        with pytest.raises(lk.DeviceError):
            call(x=x, y=x, alpha=1.0)


def test_a_place_for_texts_that_cannot_be_written(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOOPKIT_DUMP", str(tmp_path / "file" / "below"))
    knl = lk.set_options(saxpy(), annotate=False)
    with pytest.raises(lk.CompilerError, match=r"cannot be written to \$LOOPKIT_DUMP"):
        lk.compile(knl, target="c")(x=ONES, y=ONES, alpha=1.2345)


def test_a_duration_without_end(lab: Lab) -> None:
    with pytest.raises(lk.CallError, match="finite"):
        lk.compile(saxpy(), target="cuda").time(x=ONES, y=ONES, alpha=1.0, duration=float("inf"))


# Compilers

def test_the_compiler_that_is_expected_fits_its_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel of another major version is not what will be loaded."""
    there = {"cuda-bindings": "13.5.0", "nvidia-cuda-nvrtc-cu12": "12.8.93"}

    def version(name: str) -> str:
        if name not in there:
            raise compiler.metadata.PackageNotFoundError(name)
        return there[name]
    monkeypatch.setattr(compiler.metadata, "version", version)
    assert compiler.expected_nvrtc() is None
    there["nvidia-cuda-nvrtc"] = "13.5.37"
    assert compiler.expected_nvrtc() == ("NVRTC", "13.5.37")
    there |= {"cuda-bindings": "12.9.1"}
    assert compiler.expected_nvrtc() == ("NVRTC", "12.8.93")


def test_nvcc_brings_its_own_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise lk.CompilerError("no headers here")
    monkeypatch.setattr("loopkit.runtime.cuda.compiler.headers_identity", missing)
    assert binary_key("#include <cuda_fp16.h>", lk.CudaTarget("sm_90"), "nvcc", "13.0")
    with pytest.raises(lk.CompilerError):
        binary_key("#include <cuda_fp16.h>", lk.CudaTarget("sm_90"), "NVRTC", "13.0")
