"""The real cases: right on the host, accepted for two GPUs, and each text as it was read last.

The golden files of a case are its kernel, its loop program, its CUDA text with the host part, its OpenCL text and
its C text.
"""
from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import epsilon
from loopkit.kernel.printing import kernel_text
from loopkit.runtime.rounding import error_bound
from tests.cases import CASES, Case
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

pytestmark = pytest.mark.optimised

BY_NAME = {case.name: case for case in CASES}
RUNS = [pytest.param(case.name, sizes, id=f"{case.name}-{'x'.join(map(str, sizes))}")
        for case in CASES for sizes in case.sizes]


@cache
def kernel(name: str, full_tiles: bool = True) -> lk.LoopKernel:
    made = BY_NAME[name].make()
    return made if full_tiles else lk.set_options(made, full_tiles=False)


@cache
def compiled(name: str, full_tiles: bool = True) -> lk.CompiledKernel:
    return lk.compile(kernel(name, full_tiles), target="c")


@cache
def cuda(name: str, full_tiles: bool = True) -> lk.GeneratedCode:
    return lk.generate_code(kernel(name, full_tiles), target="cuda")


def bound(case: Case, expected: np.ndarray, arguments: dict[str, object]) -> float:
    """What rounding may cost: an eps of the result's dtype for each operation that follows another.

    The data lie in [-1, 1), so that the terms of a sum are no larger than its result and 1 together.
    """
    sizes = {str(k): max(getattr(v, "shape", (v,)), default=1) for k, v in arguments.items()}
    lengths = {p: max(sizes.values()) for s in kernel(case.name).statements for p in s.domain.params}
    operations = 16 + 2*error_bound(kernel(case.name), lengths).length
    return epsilon(case.dtype) * operations * max(1.0, float(np.max(np.abs(expected), initial=0)))


@pytest.mark.deep(every=19)
@pytest.mark.parametrize("full_tiles", [True, False], ids=["full_tiles", "generic"])
@pytest.mark.parametrize(("name", "sizes"), RUNS)
def test_result(name: str, sizes: tuple[int, ...], full_tiles: bool) -> None:
    case = BY_NAME[name]
    arguments = case.data(np.random.default_rng(sizes), *sizes)
    expected = case.expected(arguments)
    outputs = compiled(name, full_tiles)(**arguments).asdict()
    assert set(outputs) == set(expected)
    for array, want in expected.items():
        assert outputs[array].dtype == case.dtype
        assert outputs[array].shape == want.shape, array
        error = np.max(np.abs(outputs[array].astype(np.float64) - want), initial=0)
        assert error <= bound(case, want, arguments), array


@pytest.mark.deep(every=76)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", BY_NAME)
def test_cuda_compiles(name: str, arch: str) -> None:
    code = cuda(name)
    resources = compile_cuda(code.source, arch)
    assert set(resources.kernels) == {launch.name for launch in code.kernels}
    assert resources.spills == 0
    assert resources.stack == 0                         # no array of a thread fell out of its registers
    for launch in code.kernels:
        assert resources.kernels[launch.name].static_shared == launch.shared_bytes - launch.dynamic_shared_bytes
        # the block fits the register file
        assert resources.kernels[launch.name].registers * np.prod(launch.block) <= 65536


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("name", BY_NAME)
def test_cuda_without_full_tiles_compiles(name: str) -> None:
    assert compile_cuda(cuda(name, full_tiles=False).source, "sm_90").stack == 0


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("name", BY_NAME)
def test_text_is_the_same_each_time(name: str) -> None:
    again = BY_NAME[name].fresh()
    assert again == kernel(name)
    assert lk.generate_code(again, target="cuda") == cuda(name)


@pytest.mark.deep
@pytest.mark.parametrize("name", BY_NAME)
def test_text_does_not_depend_on_what_was_asked_before(name: str) -> None:
    """isl simplifies sets in place, whenever it is asked about them."""
    fresh, used = BY_NAME[name].fresh(), BY_NAME[name].fresh()
    shown = str(fresh)
    assert used == BY_NAME[name].fresh()
    lk.lower(used)
    assert str(used) == shown
    assert lk.generate_code(used) == lk.generate_code(fresh)


@pytest.mark.parametrize("name", BY_NAME)
def test_golden_kernel(name: str, golden: GoldenFiles) -> None:
    golden.check(f"{name}.kernel.txt", kernel_text(kernel(name)))


@pytest.mark.parametrize("name", BY_NAME)
def test_golden_ast(name: str, golden: GoldenFiles) -> None:
    golden.check(f"{name}.ast.txt", lk.lower(kernel(name)))


@pytest.mark.parametrize("name", BY_NAME)
def test_golden_cuda(name: str, golden: GoldenFiles) -> None:
    code = cuda(name)
    golden.check(f"{name}.cu", code)
    golden.check(f"{name}.host.cpp", code.host)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.deep]*(name == "scan_by_block")) for name in BY_NAME])
def test_golden_opencl(name: str, golden: GoldenFiles) -> None:
    try:
        code: object = lk.generate_code(kernel(name), target="opencl")
    except lk.PreconditionError as refusal:
        code = "".join(f"// {line}\n" for line in str(refusal).splitlines())
    golden.check(f"{name}.cl", code)


@pytest.mark.parametrize("name", BY_NAME)
def test_golden_c(name: str, golden: GoldenFiles) -> None:
    golden.check(f"{name}.c", lk.generate_code(kernel(name), target="c"))
