"""Products of matrices by the lanes of a warp: results, preconditions, messages."""
from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import For
from loopkit.ast.walk import nodes_in
from loopkit.instructions.mma import Mma
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lower_fully
from loopkit.verification.validation import validate
from tests.cases import matmul_by_warps
from tests.nvrtc import compile_cuda
from tests.property.machine import MachineError, execute
from tests.transform.same import assert_same, step
from tests.verification.changed import built, without_barriers
from tests.verification.faults import faults

BOX = "{[i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<8}"


def product(text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", domain: str = BOX, **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel(domain, text)
    return lk.add_dtypes(knl, {x: dtypes.get(x, np.float64) for x in knl.array_args})


PLAIN = product(domain="{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}")


def run(low: Lowered, size: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What the tests' machine makes of a product, and numpy."""
    n, m, length = size
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-9, 9, shape).astype(float) for shape in ((n, length), (length, m)))
    sizes = {"n": n, "m": m, "l": length}
    return execute(low, {"a": a, "b": b, "c": np.full((n, m), np.nan)}, sizes, random.Random(seed))["c"], a @ b


# What they compute

@pytest.mark.deep
@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("depth", [4, 8, 16])
def test_boxes_of_all_shapes_compute_what_loops_do(rows: int, depth: int) -> None:
    """On the host, lane by lane as the instruction takes elements, and by translation validation."""
    rng = random.Random(rows + depth)
    knl = matmul_by_warps((rows, depth), steps=rng.choice((16, 32)), stages=rng.choice((0, 1, 2)))
    low = lower_fully(knl)
    products = [node.instruction for node in nodes_in(low.program.functions[0].body) if isinstance(node, For)]
    assert [p for p in products if isinstance(p, Mma) and 4*len(p.right) == depth and 8*p.rows == rows]
    assert validate(low) == ()
    for size in ((1, 1, 1), tuple(rng.randrange(1, 40) for _ in range(3))):
        assert_same(PLAIN, knl, **dict(zip("nml", size, strict=True)))
        np.testing.assert_array_equal(*run(low, size))


def test_the_step_keeps_results_and_factors_may_stand_in_any_order() -> None:
    for text in ("c[i, j] = sum(k, a[i, k]*b[k, j])", "c[i, j] = sum(k, a[k, j]*a[i, k])",
                 "c[j, i] = 3*sum(k, b[j, k]*a[k, i])"):
        plain = product(text, BOX.replace("k<8", "k<4"))
        knl = step(plain, lk.tensorize, "i", "j", "k")
        assert_same(plain, knl)
        assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN
        assert "mma_m16n8k4_f64(acc" in str(lk.generate_code(knl, target="cuda"))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("depth", [4, 8, 16])
def test_one_text_serves_all_architectures(rows: int, depth: int) -> None:
    """Of a box some have one instruction, some several smaller ones, and the oldest shuffles."""
    domain = BOX.replace("i<16", f"i<{rows}").replace("k<8", f"k<{depth}")
    source = lk.generate_code(lk.tensorize(product(domain=domain), "i", "j", "k"), target="cuda").source
    assert len(re.findall(r"mma_\w+\(acc", source)) == (depth // 4 if rows == 8 else 1)
    assert source.count("asm volatile") == rows // 8
    found = {arch: compile_cuda(source, arch) for arch in ("sm_75", "sm_80", "sm_90")}
    assert not any(x.spills for x in found.values())


# What is proven of them

@pytest.mark.deep
def test_the_machine_sees_what_lanes_load() -> None:
    """Every other element, order or lane makes a wrong result there; see test_faults for what validation finds."""
    low = lower_fully(lk.set_options(matmul_by_warps((16, 8), stages=0), full_tiles=False))
    wrong = [f for f in faults(low.program) if f.kind.startswith(("fragment", "product"))]
    assert {f.kind for f in wrong} == {"fragment shifted", "product divergent"}
    for fault in wrong:
        with pytest.raises((MachineError, AssertionError)):
            np.testing.assert_array_equal(*run(replace(low, program=fault.program), (32, 16, 16)))


@pytest.mark.deep
def test_what_lanes_load_for_others_needs_its_barriers() -> None:
    knl = matmul_by_warps(stages=0)
    bare = built(without_barriers(knl))
    assert {f.kind for f in validate(bare)} == {"barrier"}
    with pytest.raises(MachineError):
        run(bare, (32, 16, 16))
    assert lk.check_races(knl).verdict is lk.Verdict.PROVEN


# What is refused

@pytest.mark.parametrize(("make", "message"), [
    (lambda: lk.tensorize(product("c[i, j] = sum(k, a[i, k] + b[k, j])"), "i", "j", "k"),
     "The operand of the sum of 'insn' is not an element for each 'i' times one for each 'j'."),
    (lambda: lk.tensorize(product("c[i, j] = max(k, a[i, k]*b[k, j])"), "i", "j", "k"), "There is no sum over 'k'."),
    (lambda: lk.tensorize(product(), "k", "j", "i"), "There is no sum over 'i'."),
    (lambda: lk.tensorize(product(), "j", "i", "k"), "'i' must run from 0 to 7, over the columns."),
    (lambda: lk.tensorize(product(domain=BOX.replace("k<8", "k<n")), "i", "j", "k"),
     "'k' must run from 0 to 3 or 7 or 15, over the steps."),
    (lambda: lk.tensorize(lk.tag_inames(product(), "i: g.0"), "i", "j", "k"),
     "'i' has the tag 'g.0' and cannot be computed by matrix instructions."),
    (lambda: lk.tag_inames(product("c[i, j] = a[i, k]", "{[i, j, k]: 0<=i<16 and 0<=j,k<8}"), "j: mma"),
     "'j' is not the iname of a sum, and the tag 'mma' needs one.")])
def test_what_is_no_product_of_boxes(make: Callable[[], lk.LoopKernel], message: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        make()
    assert str(err.value).split("\n")[0] == message


@pytest.mark.parametrize(("text", "reason"), [
    ("c[i, j] = sum(k, w[i, k]*b[k, j])", r"w\[8\*i_row \+ i_lane, k\] is float32, and these instructions need float"),
    ("c[i, j] = sum(k, a[i, k]*b[k, j + m[0]])", "depends on data"),
    ("c[i, j] = sum(k, if(i < 3, a[i, k], 0)*b[k, j])", "not a product of two elements"),
    ("c[i, j] = sum(k, a[i, k]*b[k, j // 2])", r"must depend on 'j_lane' and 'j_item' only as 2\*j_lane \+ j_item")])
def test_operands_that_lanes_cannot_load_for_each_other(text: str, reason: str) -> None:
    knl = lk.tensorize(product(text, w=np.float32, m=np.int32), "i", "j", "k")
    with pytest.raises(lk.PreconditionError, match=rf"'insn.k.update' by matrix instructions: .*{reason}"):
        lk.lower(knl)


def test_lanes_that_are_not_those_of_the_instruction() -> None:
    knl = lk.tensorize(lk.prioritize_loops(product(domain=BOX.replace("i<16", "i<8")), "j, i"), "i", "j", "k")
    with pytest.raises(lk.PreconditionError, match=r"in whole warps: there are j_lane of 4, i of 8"):
        lk.lower(knl)
    knl = lk.tag_inames(product(), "k: mma")
    with pytest.raises(lk.PreconditionError, match=r"in whole warps: there are no inames"):
        lk.lower(knl)


def test_tiles_at_an_edge_stay_loops() -> None:
    knl = product(domain="{[i, j, k]: 0<=i<n and 0<=j<8 and 0<=k<4}")
    knl = lk.tensorize(lk.split_iname(knl, "i", 8, outer_tag="g.0"), "i_inner", "j", "k")
    source = lk.generate_code(knl, target="cuda").source
    assert source.count("mma_m8n8k4_f64(acc") == 1
    assert source.count("+= a[") == 1
    assert validate(lower_fully(knl)) == ()
    ragged = lk.set_options(knl, full_tiles=False)
    with pytest.raises(lk.PreconditionError, match="a thread may have no part in it; pad_domain"):
        lk.lower(ragged)
