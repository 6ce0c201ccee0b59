"""Products by warpgroups: their numbers, proofs, texts and refusals, and the faults that each check finds."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Completion, Instruction, Node, Region, Scope
from loopkit.ast.walk import nodes_in
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.fences import ProxyFence, RegisterFence
from loopkit.instructions.groups import CommitGroup, WaitGroup
from loopkit.instructions.shared_matrices import SharedMatrix
from loopkit.instructions.wgmma import WGMMA, WgmmaIssue
from loopkit.kernel.tree import Barrier
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda
from tests.property.matrix_units import IN_A_REGISTER, left_holder
from tests.verification.changed import built, changed, report, with_one_changed, without
from tests.warpgroup_kernels import (
    BY_TMA,
    FROM_REGISTERS,
    PRODUCTS,
    data,
    data_of_products,
    product,
    product_from_registers,
    product_of_products,
)

SMALL = "wgmma.m64n8k16.f32.bf16"
TARGET = lk.CudaTarget("sm_90a")


def issue_of(lowered: Lowered) -> WgmmaIssue:
    [found] = [node.instruction for node in nodes_in(lowered.program.functions[0].body)
               if isinstance(node, Region) and isinstance(node.instruction, WgmmaIssue)]
    return found


# What they compute

@pytest.mark.deep(every=22)
@pytest.mark.parametrize(("name", "left", "right", "stages", "swizzled"), PRODUCTS)
def test_each_layout(name: str, left: str, right: str, stages: int, swizzled: bool) -> None:
    """Proven; the emulated matrix units read the right bytes, early or late; ptxas runs the products asynchronously."""
    require_right(product(name, left, right, stages, swizzled=swizzled), *data(name, left, right))


@pytest.mark.deep(every=8)
@pytest.mark.parametrize(("name", "left", "right", "stages", "swizzle"), BY_TMA)
def test_tiles_by_tma(name: str, left: str, right: str, stages: int, swizzle: int) -> None:
    """Without proxy fences: both go through the asynchronous proxy."""
    knl = product(name, left, right, stages, by_tma=swizzle)
    require_right(knl, *data(name, left, right))
    assert "proxy_fence();" not in lk.generate_code(knl, target=TARGET).source


@pytest.mark.deep(every=9)
@pytest.mark.parametrize(("name", "right", "stages"), FROM_REGISTERS)
def test_a_left_factor_from_registers(name: str, right: str, stages: int) -> None:
    require_right(product_from_registers(name, right, stages), *data(name, right=right))


def test_registers_by_ldmatrix() -> None:
    """Each warp of the warpgroup loads the registers of its rows from the swizzled tile."""
    a, b = (np.random.default_rng(0).integers(-4, 5, (n, 128)).astype(named_dtype("bfloat16")) for n in (64, 8))
    knl = lk.make_kernel("{[i, j, k]: 0<=i<64 and 0<=j<8 and 0<=k<128}", "c[i, j] = sum(k, a[i, k]*b[j, k])  {id=insn}")
    knl = lk.split_levels(lk.add_dtypes(knl, {"a,b": a.dtype, "c": np.float32}), "k", {
        "k_outer": None, "k_step": 4, "k_box": 16}, tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "k_outer, k_step, i, j")
    for x, sweep in (("a", "i"), ("b", "j")):
        knl = lk.add_prefetch(knl, x, [sweep, "k_step", "k_box"], temporary_name=f"{x}_tile", default_tag="l.auto")
    knl = lk.add_prefetch(knl, "a_tile", "i, k_step, k_box", temporary_name="a_held", default_tag=None,
                          temporary_address_space="warp")
    knl = lk.set_accumulator_dtype(lk.swizzle(knl, "a_tile, b_tile", chunk=8), np.float32)
    knl = lk.tensorize(lk.tensorize(knl, "insn", SMALL), "a_held_rule", "ldmatrix.x4")
    require_right(knl, {"a": a, "b": b}, a.astype(np.float32) @ b.astype(np.float32).T)


def test_a_product_of_a_product() -> None:
    """The sums of one product are the left factor of the next one, without a shuffle or a copy to shared memory."""
    knl = product_of_products()
    require_right(knl, *data_of_products())
    source = lk.generate_code(knl, target=TARGET).source
    assert source.count("shfl") == source.count("= __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);") == 1
    assert "syncwarp" not in source
    assert {x for x in ("q", "k", "v", "p") if f"{x}_held" in source} == {"p"}


def require_right(knl: lk.LoopKernel, given: dict[str, np.ndarray], expected: np.ndarray) -> None:
    assert lk.verify(knl, full=True).proven
    for completion in ("first", "last"):
        found = lk.emulate(knl, given, completion=completion, target=TARGET).c
        np.testing.assert_array_equal(found, expected)
    compiled = compile_cuda(lk.generate_code(knl, target=TARGET).source, "sm_90a")
    assert "C75" not in compiled.binary.log             # ptxas remarks products that it runs one after another
    assert compiled.spills == 0


def test_all_proofs_of_a_pipeline() -> None:
    verdicts = lk.verify(product(SMALL), full=True)
    assert verdicts.proven
    assert verdicts["barriers"].summary == "2, each needed"
    assert [line.strip() for line in verdicts["barriers"].notes if "loop over" in line] == [
        "product: commit group of products, wait for all groups of products, commit group, wait for all groups but 1, "
        "a proxy fence, barrier in the loop over 'k_outer'"]


def test_a_product_on_the_host() -> None:
    """In C the threads run the loops."""
    given, expected = data(SMALL)
    for knl in (product(SMALL, stages=1), product_from_registers(SMALL, whole=True)):
        np.testing.assert_array_equal(knl(**given).c, expected)


# Their texts

def test_the_text_of_a_pipeline(golden: GoldenFiles) -> None:
    """One commit group and one wait for each tile; a call has two descriptors."""
    source = lk.generate_code(product("wgmma.m64n128k16.f32.bf16", "ik", "kj"), target=TARGET).source
    golden.check("product_by_warpgroups.cu", source)
    assert re.findall(r"__align__\((\d+)\) unsigned char shared_memory_", source) == ["1024"]


def test_the_text_of_a_product_of_a_product(golden: GoldenFiles) -> None:
    """Registers are pinned at the waits and fences that their uses rely on; a fence is behind the wait for a phase."""
    source = lk.generate_code(product_of_products(), target=TARGET).source
    golden.check("product_of_products.cu", source)
    loop = source[source.index("for (int j_tile = 0"):]
    found = re.findall(r"keep_\w+\(\w+\)|wait_for_p\w+|register_fence|wgmma\w+|end_product_group", loop)
    assert found == [
        "wait_for_phase", "keep_below(acc_d)", "register_fence", "wgmma_m64n64k16_f32_bf16", "end_product_group",
        "wait_for_products", "keep_below(acc_d)", "keep_words_below(p_held)",
        "wait_for_phase", "keep_below(acc_j)", "keep_words_below(p_held)", "register_fence",
        "wgmma_m64n64k16_f32_bf16_registers", "end_product_group", "wait_for_products",
        "wait_for_products", "keep_below(acc_j)"]


def test_products_run_on_until_their_sums_are_needed() -> None:
    """Each product ends a group, so that threads use the sums of one while the next one runs."""
    knl = lk.make_kernel("{[t, i, j, d, e]: 0<=t<4 and 0<=i<64 and 0<=j<16 and 0<=d,e<64}", """
        a_rows(row, column) := a[row, column]
        b_rows(tile, row, column) := b[tile, row, column]
        for t, i
            <> x[j] = sum(d, a_rows(i, d)*b_rows(t, j, d))  {id=x}
            <> y[j] = sum(e, a_rows(i, e)*b_rows(t, j, e))  {id=y}
            <> z[j] = exp2(x[j])  {id=z}
            c[t, i, j] = y[j]*z[j]  {id=c}
        end""", [lk.GlobalArg("a", named_dtype("bfloat16"), shape=(64, 64)),
                 lk.GlobalArg("b", named_dtype("bfloat16"), shape=(4, 16, 64)), "..."])
    knl = lk.tile(knl, {"d": 16, "e": 16})
    for x, sweep in (("a", "i, d_outer, d_inner, e_outer, e_inner"), ("b", "j, d_outer, d_inner, e_outer, e_inner")):
        knl = lk.precompute(knl, f"{x}_rows", sweep, temporary_name=x*2, default_tag=None, dtype="bfloat16",
                            allow_reordering=True)
        knl = lk.tensorize(knl, f"{x}{x}_rule", "tma.load.swizzle128")
    knl = lk.set_accumulator_dtype(knl, np.float32)
    for s in "xy":
        knl = lk.tensorize(knl, s, "wgmma.m64n16k16.f32.bf16")
    knl = lk.delay(knl, "t", {"y.e.update": "x", "y": "c"}, by=0)
    source = lk.generate_code(knl, target=TARGET).source
    loop = source[source.index("for (int t = 0"):]
    found = re.findall(r"wgmma_m\w+|end_product_group|wait_for_products<\d>|exp2f", loop)
    product = ["wgmma_m64n16k16_f32_bf16", "end_product_group"]
    assert found == [*product, *product, "wait_for_products<1>", "exp2f", "wait_for_products<0>",
                     "wait_for_products<0>"]                            # before the tile of b is copied again


def test_names_say_shapes_and_types() -> None:
    for name, wgmma in WGMMA.items():
        types = f"{wgmma.sum.ptx}.{wgmma.factor.ptx}"
        assert name == wgmma.name == "wgmma.m{}n{}k{}.{}".format(*wgmma.shape, types)
        assert wgmma.shape[2]*wgmma.factor.size == 32
    assert len(WGMMA) == 5*32 + 2*18


@pytest.mark.parametrize("name", [
    "wgmma.m64n8k16.f32.f16", "wgmma.m64n24k32.s32.u8", "wgmma.m64n16k8.f32.tf32", "wgmma.m64n256k32.f32.e4m3"])
def test_a_register_for_each_sum(name: str) -> None:
    """Those of the manual: thread 37 is lane 5 of warp 1."""
    sums, (_, columns, _) = WGMMA[name].sums, WGMMA[name].shape
    assert sums.registers == columns // 2
    assert [sums.element(37, k) for k in range(4)] == [(17, 2), (17, 3), (25, 2), (25, 3)]


@pytest.mark.parametrize("factor", ["f32.tf32", "f32.f16", "f32.bf16", "f32.e4m3", "f32.e5m2", "s32.s8", "s32.u8"])
def test_the_registers_of_a_left_factor(factor: str) -> None:
    """Each warp has 16 rows, in the layout of the manual for ``mma.sync``, with four registers a thread."""
    numbers = IN_A_REGISTER[factor.split(".")[1]]
    left = WGMMA[f"wgmma.m64n8k{8*numbers}.{factor}"].left
    assert left.registers == 4*numbers
    for row in range(64):
        for step in range(8*numbers):
            lane, place = left_holder(row % 16, step, numbers, 16)
            assert left.holder(row, step) == (row // 16*32 + lane, place)


@pytest.mark.parametrize("arch", ["sm_90", "sm_100a"])
def test_one_architecture_has_it(arch: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        lk.generate_code(product(SMALL), target=lk.CudaTarget(arch))
    assert str(err.value).splitlines() == [f"'insn.k.update' needs {SMALL}, which {arch} does not have.",
                                           "  hint: target=lk.CudaTarget('sm_90a')"]


# Faults

def leaving_out(kind: type[Instruction], of: Completion | None = None) -> Callable[[Barrier], Iterator[Barrier]]:
    return lambda place: iter([without(kind, of)(place)])


def weaker_wait(place: Barrier) -> Iterator[Barrier]:
    for i in place.instructions:
        if isinstance(i, WaitGroup) and i.of is Completion.PRODUCTS:
            yield replace(place, instructions=tuple(
                replace(x, pending=x.pending + 1) if x is i else x for x in place.instructions))


def narrower(place: Barrier) -> Iterator[Barrier]:
    yield from (replace(place, scope=scope) for scope in (Scope.THREAD, Scope.WARP) if scope < place.scope)


FAULTS = {
    "proxy fence": (leaving_out(ProxyFence), {"proxy fence"}, True),
    "register fence": (leaving_out(RegisterFence), {"register fence"}, False),
    "wait": (leaving_out(WaitGroup, Completion.PRODUCTS), {"group of products"}, True),
    "weaker wait": (weaker_wait, {"group of products"}, True),
    "commit": (leaving_out(CommitGroup, Completion.PRODUCTS), {"group of products"}, True),
    "barrier": (narrower, {"barrier", "proxy fence", "group", "group of products"}, False)}


@pytest.mark.parametrize(("fault", "held"), [*((x, False) for x in FAULTS), *(
    (x, True) for x in ("register fence", "wait", "weaker wait", "commit"))])
def test_a_fault_is_found(fault: str, held: bool) -> None:
    """By the check of the tree with a witness, by that of the program, and where it can show by emulation.

    A left factor in registers is there until its products are done: nothing else waits for them in the loop.
    """
    change, kinds, shows = FAULTS[fault]
    knl, (given, expected) = product_from_registers(SMALL, whole=True) if held else product(SMALL), data(SMALL)
    wrong = [*with_one_changed(lowered_once(knl), change)]
    assert wrong
    for lowered in wrong:
        found = report(knl, lowered)["races"]
        assert found.verdict is lk.Verdict.REFUTED
        assert any(isinstance(f.error, lk.VerificationError) and f.error.witness is not None for f in found.findings)
        assert not held or any("an element of 'a_held' before" in str(f.error) for f in found.findings)
        program = built(lowered)
        mismatches = {m.kind for m in validate(program)}
        assert mismatches & kinds
        if shows and lowered is wrong[0]:
            computed = lk.emulate(knl, given, target=TARGET, program=program.program).c
            assert not np.array_equal(computed, expected)


def test_the_witness_of_a_missing_proxy_fence() -> None:
    knl = product(SMALL, stages=1)
    [lowered] = with_one_changed(lowered_once(knl), leaving_out(ProxyFence))
    first, witness, hint = str(report(knl, lowered)["races"].findings[0].error).splitlines()
    assert first == "'insn.k.update' may access an element of 'a_tile' before 'a_tile_rule' has its effect there."
    assert re.search(r"a_tile_rule\[.*\] writes a_tile\[0, 0\], which insn.k.update\[.*\] reads", witness)
    assert hint == "  hint: put a proxy fence between the two"


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_wrong_descriptor_is_found(side: str) -> None:
    low = lowered_once(product("wgmma.m64n16k16.f32.bf16", stages=1))
    matrix: SharedMatrix = getattr(issue_of(low), side)
    first = matrix.first.index_tuple
    for other in (replace(matrix, stride=512), replace(matrix, layout=replace(matrix.layout, swizzle=False)),
                  replace(matrix, first=replace(matrix.first, index=(first[0] + 8, *first[1:])))):
        def change(node: Node, other: SharedMatrix = other) -> Node:
            if isinstance(node, Region) and isinstance(node.instruction, WgmmaIssue):
                return replace(node, instruction=replace(node.instruction, **{side: other}))
            return node
        assert {m.kind for m in validate(changed(low, change))} == {"instruction"}


@pytest.mark.parametrize("wrong", [[2, 3, 0, 1, 4, 5, 6, 7], [4, 5, 6, 7, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 7, 6]])
def test_a_wrong_register_is_found(wrong: list[int]) -> None:
    """By the check of the program, in terms of rows and steps; or since words are not whole registers."""
    low = lowered_once(product_from_registers(SMALL, whole=True))

    def change(node: Node) -> Node:
        if isinstance(node, Region) and isinstance(node.instruction, WgmmaIssue):
            left = node.instruction.left
            assert isinstance(left, tuple)
            return replace(node, instruction=replace(node.instruction, left=tuple(left[k] for k in wrong)))
        return node
    assert {m.kind for m in validate(changed(low, change))} == {"instruction"}


@pytest.mark.parametrize("space", ["warp", "shared"])
def test_the_factor_in_registers_has_the_rows(space: str) -> None:
    """In either place of the product; else the first factor has them if both may."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j<64 and 0<=k<16}", "c[i, j] = sum(k, b[k, j]*a[i, k])  {id=insn}")
    knl = lk.add_dtypes(knl, {"a,b": named_dtype("bfloat16"), "c": np.float32})
    knl = lk.add_prefetch(knl, "a", "i, k", temporary_name="a_held", temporary_address_space=space, default_tag=None)
    knl = lk.tensorize(lk.set_accumulator_dtype(knl, np.float32), "insn", "wgmma.m64n64k16.f32.bf16")
    assert {"i_warp", "j_warp"} & {*knl.inames} == {"i_warp" if space == "warp" else "j_warp"}


# What they refuse

def tiles(name: str, right: str = "jk", chunk: int = 0, *, factors: str = "ab", threads: int = 128) -> lk.LoopKernel:
    """A product with whole rows of both factors in tiles, in blocks of one warpgroup."""
    wgmma = WGMMA[name]
    rows, columns, steps = wgmma.shape
    knl = lk.make_kernel(f"{{[i, j, k, q]: 0<=i<{rows} and 0<=j<{columns} and 0<=k<{4*steps} and 0<=q<{threads}}}", f"""
        c[i, j] = sum(k, a[i, k]*b[{', '.join(right)}])  {{id=insn}}
        d[q] = 0  {{id=other}}""")
    knl = lk.add_dtypes(knl, {"a,b": named_dtype(wgmma.factor.dtype), "c": np.dtype(wgmma.sum.dtype), "d": np.int32})
    knl = lk.split_iname(lk.tag_inames(knl, "q: l.0"), "k", steps, inner_iname="k_box")
    knl = lk.prioritize_loops(knl, "k_outer, i, j")
    for x, sweep in (("a", "i"), ("b", "j")):
        if x in factors:
            knl = lk.add_prefetch(knl, x, [sweep, "k_outer", "k_box"], temporary_name=f"{x}_tile",
                                  default_tag="l.auto")
            knl = lk.swizzle(knl, f"{x}_tile", chunk=chunk) if chunk else knl
    return lk.tensorize(lk.set_accumulator_dtype(knl, np.dtype(wgmma.sum.dtype)), "insn", name)


def test_rows_of_128_bytes_with_a_swizzle() -> None:
    assert "wgmma_m64n8k16_f32_bf16<" in lk.generate_code(tiles(SMALL, chunk=8), target=TARGET).source


def right_in_registers() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<64 and 0<=j<8 and 0<=k<16}", "c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}")
    knl = lk.add_dtypes(knl, {"a,b": named_dtype("bfloat16"), "c": np.float32})
    for x, box in (("a", "i, k"), ("b", "k, j")):
        knl = lk.add_prefetch(knl, x, box, temporary_name=f"{x}_held", temporary_address_space="warp", default_tag=None)
    return lk.tensorize(lk.set_accumulator_dtype(knl, np.float32), "insn", SMALL)


def test_lanes_that_compute_other_elements() -> None:
    """Of 8 bits a lane has two sums next to each other, and a register four factors."""
    dtype = named_dtype("float8_e4m3fn")
    knl = lk.make_kernel("{[i, j, d, e]: 0<=i<64 and 0<=j,d<32 and 0<=e<8}", """
        p(row, column) := cast(float8_e4m3fn, sum(d, q[row, d]*k[column, d]))
        c[i, e] = sum(j, p(i, j)*v[e, j])  {id=insn}""")
    knl = lk.add_dtypes(knl, {"q,k,v": dtype, "c": np.float32})
    knl = lk.precompute(knl, "p", "i, j", precompute_inames=["p_i", "p_j"], temporary_name="p_held", dtype=dtype,
                        default_tag=None, temporary_address_space="warp")
    knl = lk.tensorize(lk.set_accumulator_dtype(knl, np.float32), "p_held_rule", "wgmma.m64n32k32.f32.e4m3")
    with pytest.raises(lk.PreconditionError) as err:
        lk.tensorize(knl, "insn", "wgmma.m64n8k32.f32.e4m3")
    assert str(err.value).splitlines() == [
        "'p_held_rule' computes the elements of the fragment 'p_held' in other lanes than those of the factor.",
        "  hint: set_temporary_address_space(knl, 'p_held', 'shared'), or copy it to a fragment"]


REFUSALS: dict[str, tuple[Callable[[], lk.LoopKernel], str, str]] = {
    "no swizzle": (lambda: tiles(SMALL),
                   "the elements a_tile[16*i_warp + 8*i_part + i_lane, 16*k_outer + k_box] of a matrix are not where "
                   "the instruction looks for them", "swizzle(knl, 'a_tile', chunk=8)"),
    "another swizzle": (lambda: tiles(SMALL, chunk=4),
                        "the matrix units cannot read 'a_tile' with the swizzle 'columns ^ 4*(axis 0 mod 16)' of rows "
                        "of 64 elements", "let the last axis of 'a_tile' have 64 elements, and swizzle(knl, 'a_tile', "
                        "chunk=8): split_iname, split_array_axis and tag_array_axes make boxes of them"),
    "long rows": (lambda: tiles("wgmma.m64n128k16.f32.f16", "kj", chunk=8),
                  "the matrix units cannot read 'b_tile' with the swizzle 'columns ^ 8*(axis 0 mod 8)' of rows of 128 "
                  "elements", "let the last axis of 'b_tile' have 64 elements, and swizzle(knl, 'b_tile', chunk=8): "
                  "split_iname, split_array_axis and tag_array_axes make boxes of them"),
    "transposed bytes": (lambda: tiles("wgmma.m64n128k32.s32.s8", "kj", chunk=16),
                         "steps of b_tile[32*k_outer + k_box, 8*j_part + 2*j_lane + j_item] are not next to each "
                         "other, as the instruction needs them for int8",
                         "store 'b_tile' with the steps along its last axis"),
    "global memory": (lambda: tiles(SMALL, chunk=8, factors="a"),
                      "'b' is in global memory, and the instruction multiplies matrices in shared memory",
                      "add_prefetch(knl, 'b', ...) or precompute the tile"),
    "right registers": (right_in_registers,
                        "'b_held' is in registers, from which the instruction takes the factor of the rows only",
                        "set_temporary_address_space(knl, 'b_held', 'shared')"),
    "parts of warpgroups": (lambda: tiles(SMALL, chunk=8, threads=160),
                            "its blocks must have whole warpgroups along l.0, and not 160 threads",
                            "give l.0 a multiple of 128 threads in all statements")}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_a_way_out(case: str) -> None:
    make, reason, hint = REFUSALS[case]
    with pytest.raises(lk.PreconditionError) as err:
        lk.generate_code(make(), target=TARGET)
    first, last = str(err.value).splitlines()
    assert re.fullmatch(rf"'wgmma.*' cannot execute 'insn.k.update': {re.escape(reason)}\.", first)
    assert last == f"  hint: {hint}"
