"""The choice of a GPU, and the messages if none can be used: by calls, ``compile`` and ``python -m loopkit info``."""
from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.__main__ import main
from loopkit.runtime import compiled as compiled_module
from loopkit.runtime.cuda import devices
from loopkit.runtime.cuda.devices import find_gpu, gpu_count, why_not
from tests.runtime.cuda.conftest import Lab, install
from tests.runtime.cuda.fake_arrays import TorchDevice
from tests.runtime.cuda.fake_gpu import Machine
from tests.runtime.cuda.work import F, make, saxpy

X = np.arange(10, dtype=F)


# Which

@pytest.mark.parametrize(("device", "ordinal"), [
    (1, 1), (np.int64(1), 1), ("cuda:1", 1), ("cuda:0", 0), ("cuda", 0), (TorchDevice("cuda", 1), 1),
    (TorchDevice("cuda"), 0), (SimpleNamespace(id=1), 1), (SimpleNamespace(id=1, platform="gpu"), 1),
    (SimpleNamespace(device_id=1), 1), (SimpleNamespace(ordinal=1), 1)])
def test_ways_to_name_a_gpu(lab: Lab, device: object, ordinal: int) -> None:
    knl = lk.compile(saxpy(), target="cuda", device=device)
    assert (knl(x=X, y=X, alpha=1).z == 2*X).all()
    assert lab.machine.launched[-1].context == lab.machine.primary(ordinal)


def test_the_current_gpu(lab: Lab) -> None:
    with lab.machine.context(lab.machine.primary(1)):
        assert find_gpu().ordinal == 1
        for device in ("cuda", TorchDevice("cuda")):
            assert find_gpu(device).ordinal == 1
        lk.compile(saxpy(), target="cuda")(x=X, y=X, alpha=1)
    assert lab.machine.launched[-1].context == lab.machine.primary(1)
    assert find_gpu() is find_gpu(0)
    assert gpu_count() == 2


@pytest.mark.parametrize(("device", "match"), [
    (2, "There is no GPU 2: this machine has 2, counted from 0"), (-1, "There is no GPU -1"),
    (True, "True is not a device"), ("gpu", "'gpu' is not a device"),
    ("cuda:x", "is not a device"), (1.0, "is not a device"),
    (TorchDevice("cpu"), "'cpu' is not an NVIDIA GPU"),
    (TorchDevice("mps", 0), "'mps:0' is not an NVIDIA GPU"),
    (SimpleNamespace(id=0, platform="cpu"), "is not an NVIDIA GPU"), (SimpleNamespace(id=0, platform="tpu"), "NVIDIA"),
    (object(), "is not a device")])
@pytest.mark.usefixtures("lab")
def test_what_is_no_gpu(device: object, match: str) -> None:
    with pytest.raises(lk.DeviceError, match=match):
        lk.compile(saxpy(), target="cuda", device=device)


def test_gpus_that_the_table_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for an older chip of the same family runs; there may be none."""
    install(monkeypatch, Machine(((9, 4), (15, 0))))
    try:
        gpu = find_gpu()
        assert (gpu.arch, gpu.known_arch, gpu.l2_bytes) == ("sm_94", "sm_90", 1 << 16)
        assert str(gpu) == "GPU 0 (Fake 0, sm_94)"
        assert gpu.free_bytes() == gpu.memory == 4 << 30
        assert (lk.compile(saxpy(), target="cuda")(x=X, y=X, alpha=1).z == 2*X).all()
        fast = lk.compile(saxpy(), target=lk.CudaTarget(fast_math=True))
        assert (fast(x=X, y=X, alpha=1).z == 2*X).all()
        with pytest.raises(lk.DeviceError, match="has an architecture that loopkit does not support"):
            lk.compile(saxpy(), target="cuda", device=1)(x=X, y=X, alpha=1)
    finally:
        devices._initialised.cache_clear()


# What is missing

def without_pycuda(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_import(monkeypatch, ModuleNotFoundError("No module named 'pycuda'", name="pycuda"))


def without_a_driver(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_import(monkeypatch, ImportError("libcuda.so.1: cannot open shared object file: No such file or directory"))


def broken(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_import(monkeypatch, ImportError("undefined symbol: _Py_Spam"))


def init_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise lab.pycuda.LogicError("cuInit failed: system has unsupported display driver")
    monkeypatch.setattr(lab.pycuda, "init", fail)


def too_old(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.machine.capabilities = ((6, 1), (6, 1))


def none(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.machine.capabilities = ()


def taken(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.machine.faults.retain = True


def _no_import(monkeypatch: pytest.MonkeyPatch, error: ImportError) -> None:
    real = builtins.__import__

    def imported(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "pycuda":
            raise error
        return real(name, *rest, **named)
    for name in ("pycuda", "pycuda.driver", "pycuda.gpuarray", "pycuda.tools"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", imported)


each_lack = pytest.mark.parametrize(("lack", "sentence"), [
    (without_pycuda, "Running on a GPU needs the package 'pycuda', which is not installed. (pip install 'loopkit"),
    (without_a_driver, "Running on a GPU needs NVIDIA's driver, and its library (libcuda) is not on this machine. ("),
    (broken, "pycuda is installed and cannot be loaded: undefined symbol: _Py_Spam. (pip install"),
    (init_fails, "NVIDIA's driver does not start: cuInit failed: system has unsupported display driver. (nvidia-smi"),
    (too_old, "The GPU 0 (Fake 0) is too old: its compute capability is 6.1, and kernels need 7.0 or newer. ("),
    (none, "There is no NVIDIA GPU on this machine. ("),
    (taken, "The GPU 0 cannot be used: cuDevicePrimaryCtxRetain failed: out of memory. (nvidia-smi"),
], ids=lambda value: value.__name__ if callable(value) else "")


@pytest.mark.deep(every=6)
@each_lack
def test_one_clear_sentence(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                            lack: Callable[[Lab, pytest.MonkeyPatch], None], sentence: str) -> None:
    lack(lab, monkeypatch)
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("GPUs")]
    assert len(told) == 1
    assert told[0].startswith(f"GPUs         none can be used: {sentence}")
    assert "targets      c, cuda, opencl; kernels run on c" in lines
    # a kernel without a target runs on the host; one for a GPU says the same sentence
    knl = lk.compile(saxpy())
    assert knl.target == "c"
    assert (knl(x=X, y=X, alpha=1).z == 2*X).all()
    assert (saxpy()(x=X, y=X, alpha=1).z == 2*X).all()
    asked = lk.compile(saxpy(), target="cuda")         # whose text can be read all the same
    assert "__global__" in asked.source
    for call in (lambda: asked(x=X, y=X, alpha=1), lambda: asked.bind(x=X, y=X, alpha=1),
                 lambda: asked.time(x=X, y=X, alpha=1), lambda: lk.compile(saxpy(), device=0)):
        with pytest.raises(lk.DeviceError) as caught:
            call()
        assert sentence.startswith(caught.value.message)
        assert caught.value.hint
    assert not lab.machine.launched


def test_what_was_missing_may_come(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        without_pycuda(lab, patch)
        assert why_not() is not None
    assert why_not() is None


# Choosing, and telling

def test_info_with_gpus(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.machine.capabilities = ((9, 0), (6, 1), (8, 0))
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("GPUs"))
    assert lines[at].startswith("GPUs         GPU 0 (Fake 0, sm_90), 4 GiB")
    assert "The GPU 1 (Fake 1) is too old" in lines[at + 1]
    assert lines[at + 2].strip() == "GPU 2 (Fake 2, sm_80), 4 GiB"
    assert any("kernels run on the GPU" in line for line in lines)


def test_without_a_target_there_must_be_a_gpu_and_a_compiler(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for there, target in ((False, "c"), (True, "cuda")):
        monkeypatch.setattr(compiled_module, "has_cuda_compiler", lambda found=there: found)
        knl = lk.compile(saxpy())
        assert knl.target == target
        assert (knl(x=X, y=X, alpha=1).z == 2*X).all()
    assert len(lab.machine.launched) == 1
    assert lk.compile(saxpy(), device=1).target == "cuda"
    called = saxpy()
    z = make(lab, "torch", X)
    assert called(x=make(lab, "torch", X), y=make(lab, "torch", X), z=z, alpha=1).z is z
    assert called.memo["compiled"].target == "cuda"


def test_arrays_on_a_gpu_for_a_kernel_on_the_host(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="c")
    for kind in ("torch", "cupy", "interface", "dlpack"):
        with pytest.raises(lk.CallError, match="'x' lies on a GPU, and the kernel runs on the host") as caught:
            knl(x=make(lab, kind, X), y=X, alpha=1)
        assert caught.value.argument == "x"
