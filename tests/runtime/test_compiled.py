"""Launches, scratch memory, threads, and what is kept between calls."""
from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.__main__ import main
from loopkit.errors import CallError
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime import compiler as compiler_module
from loopkit.runtime.compiled import CompiledKernel, call
from loopkit.target.code import GeneratedCode, GeneratedKernel, Layout, Pointer, ScratchPointer, Value
from loopkit.transform.data import with_dtypes
from tests.runtime.conftest import Workshop, array, n, value

F, INT = np.dtype(np.float32), np.dtype(np.int32)


def two_launches(knl: LoopKernel, layout: Layout) -> GeneratedCode:
    """``t = 2*a`` in one launch, ``y = t reversed`` in the next; blocks of 16."""
    a, t, y = Pointer("a", F), ScratchPointer("t", F, written=True, shape=(n,)), Pointer("y", F, written=True)
    size = Value("n", INT)
    grid = (p.FloorDiv(n + 15, 16), 1, 1)
    loop = ("  #pragma omp parallel for\n  for (int b = 0; b < (n + 15) / 16; ++b)\n"
            "    for (int i = 16 * b; i < 16 * b + 16 && i < n; ++i)\n      ")
    return GeneratedCode("c", f"void first(const float *a, float *t, int n)\n{{\n{loop}t[i] = 2 * a[i];\n}}\n"
                         f"void second(float *y, const float *t, int n)\n{{\n{loop}y[i] = t[n - 1 - i];\n}}\n",
                         (GeneratedKernel("first", (a, t, size), grid, (16, 1, 1)),
                          GeneratedKernel("second", (y, t, size), grid, (16, 1, 1))), layout=layout)


@pytest.fixture
def reverse(workshop: Workshop) -> CompiledKernel:
    return workshop.compiled((array("a"), array("y"), value("n")), ("y",), reads=("a",),
                             shapes={"a": (n,), "y": (n,)}, body=two_launches, name="reverse")


def test_launches_share_scratch_memory(reverse: CompiledKernel) -> None:
    for length in (0, 1, 100):
        a = np.arange(length, dtype=F)
        np.testing.assert_array_equal(reverse(a=a).y, 2 * a[::-1])


def test_calls_from_many_threads(reverse: CompiledKernel) -> None:
    def run(i: int) -> bool:
        a = np.full(50 + i, i, F)
        return bool(np.all(reverse(a=a).y == 2 * a))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_large_scratch_memory_takes_the_wide_text(workshop: Workshop) -> None:
    def body(knl: LoopKernel, layout: Layout) -> GeneratedCode:
        scratch = ScratchPointer("t", np.dtype(np.int8), shape=(2**31,))
        return GeneratedCode("c", "void k(float *y, signed char *t) { y[0] = t != 0; }",
                             (GeneratedKernel("k", (Pointer("y", F), scratch)),),
                             layout=layout)
    knl = workshop.compiled((array("y"),), ("y",), shapes={"y": (1,)}, body=body)
    assert knl().y[0] == 1                                  # the pages are never touched
    assert [x.index_bits for x in workshop.layouts] == [32, 64]


def test_calling_a_kernel_keeps_what_was_compiled(reverse: CompiledKernel) -> None:
    a = np.ones(3, F)
    call(reverse.kernel, a=a)
    kept = reverse.kernel.memo["compiled"]
    call(reverse.kernel, a=a)
    assert reverse.kernel.memo["compiled"] is kept
    with pytest.raises(CallError, match="by name"):
        call(reverse.kernel, a)


def test_an_output_gets_the_dtype_that_follows_from_the_inputs(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a", None), array("y", None), value("n")), ("y",), reads=("a",),
                            shapes={"a": (n,), "y": (n,)}, body=two_launches)

    def infer(kernel: LoopKernel) -> LoopKernel:
        given = kernel.argument_by_name["a"].dtype
        return kernel if given is None else with_dtypes(kernel, {"y": given})
    workshop.replace("infer_types", infer)
    workshop.replace("unknown_dtypes", lambda k: [x.name for x in infer(k).arguments if x.dtype is None])
    assert knl(a=np.ones(3, F)).y.dtype == F
    with pytest.raises(CallError, match="'y' must be of dtype float32, not float64"):
        knl(a=np.ones(3, F), y=np.zeros(3))
    with pytest.raises(CallError, match=r"'a' is missing|dtype of 'a'"):
        knl(n=3)


def test_pickle(reverse: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = reverse.__reduce__()
    again: Any = function(*arguments)
    assert again.target == "c"
    assert repr(again) == "<CompiledKernel 'reverse' for target 'c'>"
    assert pickle.loads(pickle.dumps(reverse.time(a=np.ones(3, F), duration=0.0))).runs == 5


def test_info(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "FAST", ())       # the trials of all compilers with -O3 take five seconds
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    for part in ("loopkit", "targets", "C compiler", "<- used", "CUDA", "GPUs", "cache"):
        assert part in said


@pytest.mark.parametrize(("options", "said"), [
    ({"duration": "long"}, "duration= must be a number, not 'long'"),
    ({"warmup": 1.5}, "warmup= must be an integer, not 1.5"),
    ({"rotate": 2}, "rotate= must be True or False, not 2")])
def test_options_of_timing_are_checked(options: dict[str, object], said: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    with pytest.raises(lk.PreconditionError, match=said):
        lk.compile(knl, target="c").time(x=np.ones(3), **options)          # type: ignore[arg-type]
