"""Stores of matrices from registers: their layouts, their text, the barriers that they need, and their refusals."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Node, Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.stmatrix import CUDA, STMATRIX, StMatrixIssue
from loopkit.instructions.table import CUDA_HELPERS
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles
from tests.matrix_stores import data, product, stored
from tests.nvrtc import compile_cuda
from tests.verification.changed import changed

SM_90 = lk.CudaTarget("sm_90")


@pytest.mark.deep(every=8)
@pytest.mark.parametrize(("name", "dtype"), [
    *((name, "bfloat16") for name in STMATRIX), ("stmatrix.x4", "int8"), ("stmatrix.x2", "float32")])
def test_each_store(name: str, dtype: str) -> None:
    """Proven, and the elements of the emulated lanes are where the readers look for them."""
    knl, x = stored(name, dtype), data(dtype)
    assert validate(lowered_once(knl)) == ()
    np.testing.assert_array_equal(lk.emulate(knl, x=x, target=SM_90).y.astype(float), 2*x.astype(float))


def test_the_text(golden: GoldenFiles) -> None:
    """The way from sums to an array, without conditions: TMA stores what is inside of the array."""
    knl = product(swizzle=64, edges=True)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    code = lk.generate_code(knl, target=SM_90)
    golden.check("product_by_stmatrix.cu", code)
    assert compile_cuda(str(code), "sm_90").spills == 0
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(named_dtype("bfloat16")) for shape in ((19, 16), (16, 72)))
    found = lk.emulate(knl, a=a, b=b, target=SM_90, completion="last").c
    np.testing.assert_array_equal(found.astype(float), a.astype(float) @ b.astype(float))


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_90", "sm_100a"])
def test_the_functions_of_all_instructions(arch: str) -> None:
    calls = "\n".join(f"    {name}({', '.join('r' for _ in range(text.count('unsigned int r')))}, tile);"
                      for name, text in CUDA.helpers.items() if name.startswith("stmatrix") and isinstance(text, str))
    text = "".join(str(text) for name, text in CUDA_HELPERS.items() if name.startswith("stmatrix"))
    compile_cuda(f"{text}\nextern \"C\" __global__ void all(unsigned int r)\n{{\n"
                 f"    __shared__ __align__(16) unsigned char tile[512];\n{calls}\n}}\n", arch)


def test_an_architecture_without_the_instruction() -> None:
    with pytest.raises(lk.PreconditionError, match=r"stmatrix\.x4.*sm_80 does not have"):
        lk.generate_code(stored("stmatrix.x4"), target=lk.CudaTarget("sm_80"))


def test_a_lane_reads_its_own_elements_behind_a_barrier() -> None:
    """Another lane has stored them."""
    knl = stored("stmatrix.x4", reads_own=True)
    text = lk.generate_code(knl, target=SM_90).source
    assert re.search(r"stmatrix_x4\(.*?__syncwarp\(\);.*// use", text, re.DOTALL)
    x = data("bfloat16")
    np.testing.assert_array_equal(lk.emulate(knl, x=x, target=SM_90).y.astype(float), 2*x.astype(float))


def _issue_changed(of: Callable[[StMatrixIssue], StMatrixIssue]) -> Callable[[Node], Node]:
    return lambda node: replace(node, instruction=of(node.instruction)) if isinstance(node, Region) and isinstance(
        node.instruction, StMatrixIssue) else node


#: Faults of the operands.
FAULTS: dict[str, Callable[[StMatrixIssue], StMatrixIssue]] = {
    "registers exchanged": lambda i: replace(i, registers=(*i.registers[2:4], *i.registers[:2], *i.registers[4:])),
    "elements exchanged": lambda i: replace(i, registers=(i.registers[1], i.registers[0], *i.registers[2:])),
    "another row": lambda i: replace(i, row=replace(i.row, index=(i.row.index_tuple[0] + 1, i.row.index_tuple[1]))),
    "another piece": lambda i: replace(i, row=replace(i.row, index=(i.row.index_tuple[0], 0))),
    "columns for rows": lambda i: replace(i, instruction=STMATRIX["stmatrix.x4.trans"]),
    "fewer matrices": lambda i: replace(i, instruction=STMATRIX["stmatrix.x2"])}


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    """By the check of the program; and the emulation has a wrong result, or stops."""
    knl, x = stored("stmatrix.x4", swizzled=True), data("bfloat16")
    low = lowered_once(knl)
    wrong = changed(low, _issue_changed(FAULTS[fault]))
    assert any(isinstance(n, Region) and isinstance(n.instruction, StMatrixIssue) for f in wrong.program.functions
               for n in nodes_in(f.body))
    assert {m.kind for m in validate(wrong)} == {"instruction"}
    try:
        found = lk.emulate(knl, x=x, target=SM_90, program=wrong.program).y
    except lk.VerificationError:
        return
    assert not np.array_equal(found.astype(float), 2*x.astype(float))


@pytest.mark.parametrize(("make", "message", "hint"), [
    (lambda: _of_sums(),
     "'result' does not copy values in registers to a tile in shared memory",
     "compute the values into a temporary, in loops of its own"),
    (lambda: lk.lower(stored("stmatrix.x4", "float64")),
     "an element of 't' has 8 bytes, and ldmatrix and stmatrix move at most 4",
     "leave the copy to plain loads and stores"),
    (lambda: lk.lower(stored("stmatrix.x4.trans", "int8")), "'t' is int8, and .trans stores elements of 2 bytes",
     "leave out .trans"),
    (lambda: lk.lower(lk.swizzle(stored("stmatrix.x4"), "t", chunk=4)), "the swizzle separates the 16 bytes",
     "swizzle(knl, 't', chunk=8)"),
    (lambda: lk.lower(lk.set_temporary_address_space(stored("stmatrix.x4"), "v", "shared")),
     "'v' is in shared memory, and not in registers of the thread", "let the lanes that compute the elements store")])
def test_refused(make: Callable[[], object], message: str, hint: str) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        make()
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def _of_sums() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<16}", "t[i, j] = 2*x[i, j]  {id=result}", [
        lk.TemporaryVariable("t", np.float16, (16, 16), address_space="shared"), "..."])
    return lk.tensorize(lk.add_dtypes(knl, {"x": np.float16}), "result", "stmatrix.x4")
