"""tensorize: results, what it distributes, preconditions, messages."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.nests import Issue
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import findings, validate
from tests.cases import matmul_by_warps
from tests.matrix_kernels import data, product
from tests.nvrtc import compile_cuda
from tests.property.machine import MachineError, execute
from tests.transform.same import assert_same, step
from tests.verification.changed import built, without_barriers
from tests.verification.faults import faults

BOX = "{[i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<8}"
F64, BF16 = "mma.m16n8k8.f64", "mma.m16n8k16.f32.bf16"


def made(text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", domain: str = BOX, **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel(domain, text)
    return lk.add_dtypes(knl, {x: dtypes.get(x, np.float64) for x in knl.array_args})


def f64(text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", domain: str = BOX, inames: str | None = None) -> lk.LoopKernel:
    return lk.tensorize(made(text, domain), "insn", F64, inames)


PLAIN = made(domain="{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}")


def run(low: Lowered, size: tuple[int, int, int], seed: int = 0, dtype: str = "float64"
        ) -> tuple[np.ndarray, np.ndarray]:
    """What the tests' machine makes of a product, and numpy."""
    n, m, length = size
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, shape) for shape in ((n, length), (length, m)))
    given = {"a": a.astype(named_dtype(dtype)), "b": b.astype(named_dtype(dtype)), "c": np.full((n, m), np.nan)}
    return execute(low, given, {"n": n, "m": m, "l": length}, random.Random(seed))["c"], a @ b


# What they compute

@pytest.mark.deep
@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_boxes_of_all_shapes_compute_what_loops_do(rows: int, depth: int) -> None:
    """On the host, lane by lane as the instruction takes elements, and by translation validation."""
    rng = random.Random(rows + depth)
    knl = matmul_by_warps((rows, depth), steps=rng.choice((16, 32)), stages=rng.choice((0, 1, 2)))
    low = lowered_once(knl)
    assert issued(low) == {f"mma.m{rows}n8k{depth}.f64"}
    assert validate(low) == ()
    for size in ((1, 1, 1), tuple(rng.randrange(1, 40) for _ in range(3))):
        assert_same(PLAIN, knl, **dict(zip("nml", size, strict=True)))
        np.testing.assert_array_equal(*run(low, size))


def issued(low: Lowered) -> set[str]:
    return {node.instruction.instruction.name for f in low.program.functions for node in nodes_in(f.body)
            if isinstance(node, Region) and isinstance(node.instruction, Issue)}


def test_the_step_keeps_results_and_factors_may_stand_in_any_order() -> None:
    for text in ("c[i, j] = sum(k, a[i, k]*b[k, j])", "c[i, j] = sum(k, a[k, j]*a[i, k])",
                 "c[j, i] = 3*sum(k, b[j, k]*a[k, i])"):
        plain = made(text)
        knl = step(plain, lk.tensorize, "insn", F64)
        assert_same(plain, knl)
        assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN
        assert "mma_m16n8k8_f64(acc" in str(lk.generate_code(knl, target="cuda"))


def test_inames_by_default_are_the_innermost_that_fit() -> None:
    knl = made(domain="{[p, i, j, k]: 0<=p<8 and 0<=i<16 and 0<=j<8 and 0<=k<8}",
               text="c[p, i, j] = sum(k, a[p, i, k]*b[p, k, j])")
    assert "for p, i_part [instr], i_lane [l.0], j_lane [l.0], j_item [vec]" in \
        lk.tensorize(knl, "insn", F64).statements_text
    assert lk.tensorize(knl, "insn", F64, "i, j, k").statements_text == lk.tensorize(knl, "insn", F64).statements_text


def test_a_fragment_is_distributed_like_its_matrix() -> None:
    """Its axes are the boxes, then the digits of the register, the slowest first, then those of the lane."""
    text = product(BF16, "fragments").statements_text
    for one, other in (("a_fragment[{1}_part, {0}_part, {1}_item, {0}_lane, {1}_lane]",
                        "a_tile[16*i_warp + 8*{0}_part + {0}_lane, 8*{1}_part + 2*{1}_lane + {1}_item]"),
                       ("b_fragment[{1}_box, {0}_part, {0}_item, {1}_lane, {0}_lane]",
                        "b_tile[8*{0}_part + 2*{0}_lane + {0}_item, 8*{1}_box + {1}_lane]")):
        assert f"{one} = {other}".format(f"{other[0]}_tile_dim_0", f"{other[0]}_tile_dim_1") in text


def ragged(pipelined: bool) -> lk.LoopKernel:
    """Partial tiles whose factors are zeros beyond the edges, in fragments that ldmatrix loads."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b": named_dtype("bfloat16"), "c": np.float32})
    knl = lk.pad_domain(lk.set_accumulator_dtype(knl, np.float32), {"i": 32, "j": 16, "k": 16})
    knl = lk.split_levels(knl, "i", {"i_block": None, "i_warp": 2, "i_box": 16})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_reg": 2, "j_box": 8})
    knl = lk.tag_inames(knl, "i_block: g.1, i_warp: l.0, j_block: g.0, j_reg: unr")
    knl = lk.split_iname(knl, "k", 16, outer_iname="k_outer", inner_iname="k_box")
    knl = lk.prioritize_loops(knl, "i_block, j_block, i_warp, k_outer, j_reg, i_box, j_box")
    for x, rows in (("a", ["i_warp", "i_box"]), ("b", ["j_reg", "j_box"])):
        knl = lk.precompute(knl, f"{x}_padded", [*rows, "k_box"], temporary_name=f"{x}_tile", default_tag="l.auto")
        knl = lk.add_prefetch(knl, f"{x}_tile", [*rows[-1:], "k_box", *rows[:x == "b"]], temporary_name=f"{x}_fragment",
                              default_tag=None, temporary_address_space="warp")
    knl = lk.tensorize(knl, "insn", BF16)
    for x, load in (("a", "ldmatrix.x4"), ("b", "ldmatrix.x4.trans")):
        knl = lk.tensorize(knl, f"{x}_fragment_rule", load)
    return lk.pipeline(knl, "k_outer", 1, temporaries=["a_tile", "b_tile"]) if pipelined else knl


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("pipelined", [False, True])
def test_partial_tiles_of_fragments(pipelined: bool) -> None:
    low = lowered_once(ragged(pipelined))
    assert issued(low) == {BF16, "ldmatrix.x4", "ldmatrix.x4.trans"}
    assert validate(low) == ()
    np.testing.assert_array_equal(*run(low, (19, 9, 21), dtype="bfloat16"))
    assert compile_cuda(lk.generate_code(ragged(pipelined), target="cuda").source, "sm_80").spills == 0


def test_tiles_at_an_edge_stay_loops() -> None:
    knl = made(domain="{[i, j, k]: 0<=i<n and 0<=j<8 and 0<=k<4}")
    knl = lk.tensorize(lk.split_iname(knl, "i", 8, outer_tag="g.0"), "insn", "mma.m8n8k4.f64")
    source = lk.generate_code(knl, target="cuda").source
    assert source.count("mma_m8n8k4_f64(acc") == 1
    assert source.count("+= a[") == 1
    assert validate(lowered_once(knl)) == ()
    with pytest.raises(lk.PreconditionError) as err:
        lk.lower(lk.set_options(knl, full_tiles=False))
    assert str(err.value).splitlines() == [
        "'mma.m8n8k4.f64' cannot execute 'insn.k.update': a thread may have no part in it.",
        "  hint: pad_domain lets all threads have one"]


def test_partial_tiles_of_fragments_cannot_stay_loops() -> None:
    """A thread has no way to the registers of other lanes without the instruction."""
    knl = made(domain="{[i, j, k]: 0<=i<n and 0<=j<8 and 0<=k<4}")
    knl = lk.prioritize_loops(lk.split_iname(knl, "i", 8, outer_tag="g.0"), "i_outer, i_inner, j")
    knl = lk.add_prefetch(knl, "b", ["k", "j"], temporary_name="f", default_tag=None, temporary_address_space="warp")
    knl = lk.tensorize(knl, "insn", "mma.m8n8k4.f64")
    with pytest.raises(lk.PreconditionError, match=r"cannot execute 'insn.k.update': a thread may have no part in it"):
        lk.lower(knl)


# What is proven of them

#: The kinds of faults of instructions, and whether only loads have them.
NEST_FAULTS = {"operand changed": False, "nest divergent": False, "row changed": True, "move of another kind": True}


@pytest.mark.deep
@pytest.mark.parametrize(("name", "way"), [(F64, "shared"), (BF16, "ldmatrix"), ("mma.m16n8k16.s32.s8", "ldmatrix"),
                                           ("mma.m16n8k4.f32.tf32", "fragments")])
def test_validation_and_the_machine_find_each_fault_of_an_instruction(name: str, way: str) -> None:
    low, (given, expected) = lowered_once(product(name, way)), data(name)
    found_kinds = set[str]()
    for number, fault in enumerate(f for f in faults(low.program) if f.kind in NEST_FAULTS):
        if fault.kind in found_kinds and number % 4:
            continue
        found_kinds.add(fault.kind)
        bad = replace(low, program=fault.program)
        assert next(findings(bad), None) is not None, fault.text
        try:
            found = execute(bad, {**given, "c": np.zeros_like(expected)}, {}, random.Random(0))["c"]
        except MachineError:
            continue
        assert (found != expected).any(), fault.text
    assert found_kinds == {kind for kind, of_loads in NEST_FAULTS.items() if way == "ldmatrix" or not of_loads}


@pytest.mark.deep
def test_what_lanes_load_for_others_needs_its_barriers() -> None:
    knl = matmul_by_warps(stages=0)
    bare = built(without_barriers(knl))
    assert {f.kind for f in validate(bare)} == {"barrier"}
    with pytest.raises(MachineError):
        run(bare, (32, 16, 16))
    assert lk.check_races(knl).verdict is lk.Verdict.PROVEN


# What is refused

def fragment(box: str = "i, k", text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", **options: object) -> lk.LoopKernel:
    """With *box* of the left factor in a fragment."""
    knl = lk.prioritize_loops(made(text), "i, j")
    knl = lk.add_prefetch(knl, "a", box, temporary_name="f", default_tag=None, temporary_address_space="warp")
    return lk.tensorize(knl, "insn", F64)


def one_axis() -> lk.LoopKernel:
    knl = made("<> f[8*i + k] = a[i, k]\nc[i, j] = sum(q, f[8*i + q]*b[q, j]) {id=insn}",
               "{[i, j, k, q]: 0<=i<16 and 0<=j<8 and 0<=k,q<8}")
    return lk.tensorize(lk.set_temporary_address_space(knl, "f", "warp"), "insn", F64)


def two_writers() -> lk.LoopKernel:
    knl = made("<> f[i, k] = a[i, k] {id=one}\nf[i, k] = 2*a[i, k] {id=two, dep=one}\n"
               "c[i, j] = sum(q, f[i, q]*b[q, j]) {id=insn}",
               "{[i, j, k, q]: 0<=i<16 and 0<=j<8 and 0<=k,q<8}")
    return lk.tensorize(lk.set_temporary_address_space(knl, "f", "warp"), "insn", F64)


@pytest.mark.parametrize(("make", "message", "hint"), [
    (lambda: lk.tensorize(f64(), "insn", F64), "An instruction executes 'insn' already.", "tensorize a statement once"),
    (lambda: f64("c[i, j] = max(k, a[i, k]*b[k, j])"), "'insn' has no sum.",
     "this instruction computes c[i, j] = sum(k, a[i, k]*b[k, j])"),
    (lambda: f64("c[i, j] = sum(k, a[i, k] + b[k, j])"),
     "The sum of 'insn' adds up a[i, k] + b[k, j], which is not a product of two factors.",
     "compute such factors first: precompute(knl, rule, ...)"),
    (lambda: f64(inames="i, j"), "A product needs three inames, and not 2.",
     "inames='i, j, k': those of the rows, the columns and the steps"),
    (lambda: f64(domain=BOX.replace("i<16", "i<12")),
     "'insn' has no iname for the rows of 'mma.m16n8k8.f64': one in one factor only, without a tag, that runs from "
     "0 to 15.", "split_iname(knl, ..., 16): the inner iname has these values"),
    (lambda: f64(domain=BOX.replace("k<8", "k<n")),
     "'insn' has no iname for the steps of 'mma.m16n8k8.f64': one of its sum, without a tag, that runs from 0 to 7.",
     "split_iname(knl, ..., 8): the inner iname has these values"),
    (lambda: f64(inames="j, i, k"), "'j' must run from 0 to 15, over the rows of 'mma.m16n8k8.f64'.",
     "split_iname(knl, 'j', 16) and give the inner iname"),
    (lambda: f64(inames="i, k, j"), "'j' is not an iname of the sum of 'insn'.", "the sum is over k"),
    (lambda: f64("c[i, j] = sum(k, a[i, k]*b[k, i + j])", inames="i, j, k"),
     "The operand of the sum of 'insn' is not an element for each 'i' times one for each 'j'.",
     "compute such elements first: precompute(knl, rule, ...)"),
    (lambda: lk.tensorize(lk.tag_inames(made(), "i: g.0"), "insn", F64, "i, j, k"),
     "'i' has the tag 'g.0' and cannot be executed by an instruction.", "untag_inames(knl, 'i') first"),
    (one_axis, "The fragment 'f' must have an axis for rows and another one for columns.",
     "prefetch a box with the inames of both"),
    (lambda: fragment("i, k", "c[i, j] = sum(k, a[i, 2*k]*b[k, j])"),
     "Axis 1 of the fragment 'f' must have a multiple of 8 elements; it has 15.",
     "prefetch whole boxes of the instruction"),
    (two_writers, "2 statements write the fragment 'f'.", "let one statement copy all of its elements"),
    (lambda: lk.tag_inames(made(), "k: instr"), "No instruction executes the iterations along 'k'.",
     "tensorize sets the tag 'instr' and chooses the instruction; ilp interleaves iterations")])
def test_what_is_no_product_of_boxes(make: Callable[[], lk.LoopKernel], message: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        make()
    assert str(err.value).splitlines() == [message, f"  hint: {hint}"]


@pytest.mark.parametrize(("statement", "instruction", "message"), [
    ("nope", F64, "'nope' is not a statement of the kernel."),
    ("insn", "mma.m16n8k16.f32.f64", "'mma.m16n8k16.f32.f64' is not an instruction of the GPU.")])
def test_unknown_names(statement: str, instruction: str, message: str) -> None:
    with pytest.raises(lk.UnknownNameError) as err:
        lk.tensorize(made(), statement, instruction)
    assert str(err.value).split("\n")[0] == message


@pytest.mark.parametrize(("text", "tags", "message", "hint"), [
    ("t[i] = a[i]\ny[j] = t[31 - j]", "i: l.0, j: l.0",
     "'t' is in the registers of warps, and 'insn_0' reads it without an instruction of a warp.",
     "set_temporary_address_space(knl, 't', 'shared')"),
    ("t[i] = a[i]\ny[j] = t[j]", "i: l.auto, j: l.0",
     "'t' is in the registers of warps, and the tag l.auto of 'i' distributes it over all threads; default_tag=None "
     "leaves the loops of a copy to tensorize.", "set_temporary_address_space(knl, 't', 'shared')")])
def test_registers_that_no_instruction_reads(text: str, tags: str, message: str, hint: str) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<32}", text,
                         [lk.TemporaryVariable("t", np.float32, address_space="warp"), "..."])
    with pytest.raises(lk.StorageError) as err:
        lk.lower(lk.add_dtypes(lk.tag_inames(knl, tags), {"a": np.float32}))
    assert str(err.value).splitlines() == [message, f"  hint: {hint}"]
