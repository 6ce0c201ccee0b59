"""Calls, files and numbers that are rare."""
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.interpreter.interpreter import InitialData, converted, function_value
from loopkit.runtime import calls
from loopkit.runtime import compiler as compiler_module
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.cuda.driver import Driver, DriverError
from loopkit.runtime.cuda.kinds import OwnKind
from loopkit.runtime.kinds import ArrayKinds
from loopkit.runtime.scalars import converter
from loopkit.runtime.views import internal_overlap


def twice() -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")


# Arguments

def test_a_stride_between_elements() -> None:
    x = np.zeros(4, [("a", np.complex128), ("b", np.float64)])["a"]       # aligned to half of an element
    with pytest.raises(lk.CallError, match="stride of 24 bytes, not a multiple of its 16-byte elements"):
        lk.compile(twice(), target="c")(x=x)


def test_a_scalar_of_no_number() -> None:
    with pytest.raises(lk.CallError, match="cannot be passed by value"):
        converter("x", np.dtype("S3"))


def test_an_empty_array_does_not_overlap_itself() -> None:
    assert not internal_overlap(np.zeros((0, 4))[:, ::2])


def test_kinds_of_gpus_have_no_arrays_in_the_memory_of_the_host() -> None:
    with pytest.raises(NotImplementedError, match="loopkit has no arrays"):
        OwnKind().numpy(None)


def test_a_capsule_that_is_refused() -> None:
    class Refuses:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **kwargs: object) -> None:
            raise BufferError("not today")
    with pytest.raises(lk.CallError, match="cannot be read through DLPack: not today"):
        lk.compile(twice(), target="c")(x=Refuses())


def test_the_error_of_a_kind_reaches_the_user() -> None:
    """An array without an address has the error of its kind, which tells more."""
    class Sparse(OwnKind):
        def signature(self, x: Any) -> Any:
            raise RuntimeError("no data pointer")

        def view(self, name: str, x: Any) -> Any:
            raise lk.CallError(f"'{name}' is sparse.", argument=name)
    kinds = ArrayKinds()
    kinds._kinds[int] = Sparse()
    with pytest.raises(lk.CallError, match="'x' is sparse"):
        kinds.signature("x", 1)


# Calls

def test_plans_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_MOST_SIGNATURES", 2)
    run = lk.compile(twice(), target="c")
    for _ in range(2):
        for n in range(1, 6):
            assert (run(x=np.ones(n)).y == 2).all()
    assert all(len(known.plans) <= 2 for known in run._runner._signatures.values())


def test_the_launches_of_a_bound_call_of_the_host() -> None:
    assert lk.compile(twice(), target="c").bind(x=np.ones(3)).number_of_launches == 1


def test_what_outputs_list() -> None:
    assert {"y", "asdict", "count"} <= set(dir(lk.compile(twice(), target="c")(x=np.ones(3))))


@pytest.mark.parametrize("what", ["ptx", "cubin", "sass", "resources"])
def test_the_host_has_no_machine_code_of_gpus(what: str) -> None:
    with pytest.raises(lk.DeviceError, match="is compiled for the target 'c', which has no"):
        getattr(lk.compile(lk.add_dtypes(twice(), {"x": np.float32}), target="c"), what)


def test_a_function_without_a_signature_is_a_reference() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y = max(i, x[i])"), {"x": np.float64})
    lk.check_equivalent(max, knl, {"n": 4}, target="c")


def test_random_scalars() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", [lk.ValueArg("a", np.float64), "..."])
    knl = lk.add_dtypes(knl, {"x": np.float64})
    assert lk.check_equivalent(lambda a, x: a*x, knl, {"n": 4}, target="c").error == 0


# Compilers and files

def test_a_cache_that_is_not_there(tmp_path: Path) -> None:
    assert DiskCache(tmp_path / "none").size() == (0, 0)


def test_the_compiler_of_a_wheel_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert compiler_module._compiler_commands("mycc -x")[0] == ("mycc", "-x")
    assert compiler_module._compiler_commands(None)[-1][1:] == ("-m", "ziglang", "cc")


def test_a_program_without_a_version_is_no_compiler() -> None:
    assert compiler_module._probe(("false",), None, compiler_module.SAFE) is None


@pytest.mark.parametrize(("known", "text"), [(True, "CUDA_ERROR_7: too bad"), (False, "CUDA error 7")])
def test_errors_of_the_driver(known: bool, text: str) -> None:
    def tells(words: bytes) -> Any:
        def ask(code: int, place: Any) -> int:
            place._obj.value = words
            return 0 if known else 1
        return ask
    library = SimpleNamespace(cuGetErrorName=tells(b"CUDA_ERROR_7"), cuGetErrorString=tells(b"too bad"),
                              cuStreamSynchronize=lambda stream: 7)
    with pytest.raises(DriverError, match=text) as caught:
        Driver(library).synchronize(0)                 # type: ignore[arg-type]
    assert caught.value.code == 7


# Numbers of the interpreter

def test_random_truth_values() -> None:
    data = InitialData(0, {}, frozenset())
    found = {bool(data.value("m", (i,), np.dtype(np.bool_))) for i in range(32)}
    assert found == {False, True}


def test_conversions_of_numbers() -> None:
    assert converted(3 + 4j, np.dtype(np.float64)) == 3
    assert converted(2**64 + 5, np.dtype(np.int64)) == 5
    assert function_value("pow", np.int64(2), np.int64(-1)) == 0.5
    assert np.isnan(function_value("lgamma", np.float64(-1)))
