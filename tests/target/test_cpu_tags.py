"""The tags cpu.threads and cpu.simd: their text, what is refused, and where they are meant."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import For, Node
from loopkit.ast.walk import as_block, rewritten
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.kernel.tags import CpuThreadsTag, GroupTag, SimdTag
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles
from tests.lowering.kernels import F32, make

pytestmark = pytest.mark.optimised


def row_sums() -> lk.LoopKernel:
    return make("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k])", a=F32)


def product() -> lk.LoopKernel:
    """The product with four rows and eight columns in registers."""
    knl = make("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])", a=F32, b=F32)
    knl = lk.split_iname(knl, "i", 4, outer_tag="cpu.threads", inner_tag="unr")
    return lk.prioritize_loops(lk.split_iname(knl, "j", 8, inner_tag="cpu.simd"), "j_outer, k, i_inner")


def strided_sums() -> lk.LoopKernel:
    """Sums of which each has an element of an array."""
    knl = make("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = max(k, exp(a[i, k]))", a=F32)
    knl = lk.split_iname(knl, "i", 4, inner_tag="ilp")
    return lk.tag_inames(lk.split_iname(knl, "k", 8), "k_inner:cpu.simd")


@pytest.mark.parametrize(("name", "make_kernel"), [
    ("row_sums", lambda: lk.tag_inames(row_sums(), "i:cpu.threads, k:cpu.simd")), ("product", product),
    ("accumulators", strided_sums)])
def test_golden_text(name: str, make_kernel: Callable[[], lk.LoopKernel], golden: GoldenFiles) -> None:
    golden.check(f"cpu/{name}.c", lk.generate_code(make_kernel(), target="c"))


def test_the_tags_are_those_of_a_gpu_on_the_host() -> None:
    knl = lk.tag_inames(row_sums(), "i:cpu.threads, k:cpu.simd")
    assert dict(knl.tags) == {"i": CpuThreadsTag(), "k": SimdTag()}
    assert isinstance(knl.tags["i"], GroupTag)
    assert [str(t) for t in knl.tags.values()] == ["cpu.threads", "cpu.simd"]
    assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN
    assert "# simd" in str(lk.lower(knl, "c"))


def test_results() -> None:
    """One text each: ragged tiles, rows of other lengths, and accumulators that are elements of arrays."""
    rng = np.random.default_rng(0)
    a, b = rng.random((13, 21)).astype(F32), rng.random((21, 30)).astype(F32)
    for target in (lk.CTarget(), lk.CTarget(contract=True)):
        np.testing.assert_allclose(lk.compile(product(), target=target)(a=a, b=b).c, a @ b, rtol=1e-5)
    np.testing.assert_allclose(strided_sums()(a=a).y, np.exp(a).max(axis=1), rtol=1e-5)


def test_a_kernel_with_such_tags_runs_on_the_host() -> None:
    """Without a target, too, whatever the machine has."""
    assert lk.compile(lk.tag_inames(row_sums(), "i:cpu.threads")).target == "c"


@pytest.mark.parametrize(("tags", "way"), [("i:cpu.threads", "i:g.0"), ("k:cpu.simd", "k:vec")])
def test_other_targets_say_what_to_write(tags: str, way: str) -> None:
    with pytest.raises(lk.PreconditionError, match="which is for the host") as caught:
        lk.generate_code(lk.tag_inames(row_sums(), tags), target="cuda")
    assert way in (caught.value.hint or "")


@pytest.mark.parametrize("tag", ["cpu.threads", "cpu.simd"])
@pytest.mark.parametrize("text", ["y[i+1] = y[i]", "y[i] = y[i+1]", "y[0] = x[i]", "s[0] = s[0] + x[i]"])
def test_what_a_loop_carries_is_refused(text: str, tag: str) -> None:
    """A vector could write after all reads, and one element in order; a SIMD loop has no order."""
    knl = make("{[i]: 0<=i<n}", text, **dict.fromkeys(re.findall(r"[xs](?=\[)|y(?=\[i)", text), F32))
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, {"i": tag})
    assert caught.value.witness is not None


def test_a_refusal_shows_the_other_order() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(make("{[i]: 0<=i<n}", "y[i] = y[i+1]", y=F32), "i:cpu.simd")
    shown = str(caught.value.replay())
    assert "both in one SIMD loop" in shown
    assert "y[0] is" in shown


def test_a_reduction_over_host_threads_is_refused() -> None:
    with pytest.raises(lk.PreconditionError, match="reduction iname 'k'"):
        lk.tag_inames(row_sums(), "k:cpu.threads")


@pytest.mark.parametrize(("knl", "message"), [
    (lambda: make("{[i]: 0<=i<n}", "h[x[i]] = h[x[i]] + 1 {atomic}", x=np.int32, h=np.int32), "atomically"),
    (lambda: make("{[i]: 0<=i<8}", "<> t = x[i] {id=w}\n y[0] = t {dep=w, inames=}", x=F32), "a cell of 't'"),
    (lambda: make("{[i, k]: 0<=i<8 and 0<=k<9}", """
        for k
            <> t[k] = x[k]
        end
        for i
            t[i] = t[i+1] + 1
        end
        for i
            y[i] = t[i]
        end
        """, x=F32), "a cell of 't'"),
    (lambda: make("{[i]: 0<=i<8}", "y[0] = sum(i, x[i])", x=np.complex64), "accumulates complex64"),
    (lambda: make("{[i]: 0<=i<8}", "y[0] = sum(i, x[i])", x=np.float16), "accumulates float16")])
def test_what_vector_units_cannot_do(knl: Callable[[], lk.LoopKernel], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message) as caught:
        lk.generate_code(lk.tag_inames(knl(), "i:cpu.simd"), target="c")
    assert caught.value.subject == "i"


def test_an_operation_of_the_user_is_no_openmp_reduction() -> None:
    add = lk.ReductionOperation("either", "a + b - 2*a*b", 0, reorderable=True)
    knl = lk.make_kernel("{[i]: 0<=i<8}", "y[0] = either(i, x[i])", reductions=[add])
    with pytest.raises(lk.PreconditionError, match="which OpenMP lacks"):
        lk.generate_code(lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), "i:cpu.simd"), target="c")


def test_each_reduction_of_the_language() -> None:
    """Numbers are combined in vector units, tuples are refused, and both keep their meaning in the text."""
    numbers = make("{[i]: 0<=i<9}", "\n".join(f"{name}_of[0] = {name}(i, x[i])" for name in REDUCTIONS), x=np.int32)
    x = np.array([7, 5, 13, 7, 15, 23, 5, 7, 5], np.int32)
    mapped = lk.tag_inames(numbers, "i:cpu.simd")
    assert str(lk.generate_code(mapped, target="c", verify="full")).count("omp simd reduction") == len(REDUCTIONS)
    one, other = (lk.compile(k, target="c")(x=x).asdict() for k in (numbers, mapped))
    assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in other.items()}
    for text in ("y[0] = argmax(i, x[i]).index", "y[0] = segmented(sum)(i, x[i], i == 4).value"):
        tuples = make("{[i]: 0<=i<9}", text, x=np.int32)
        assert lk.generate_code(tuples, target="c", verify="full")
        with pytest.raises(lk.LoopkitError, match=r"which OpenMP lacks|reader before its writer"):
            lk.generate_code(lk.tag_inames(tuples, "i:cpu.simd"), target="c")
        copied = lk.add_prefetch(tuples, "x", ["i"])
        with pytest.raises(lk.IllegalTransformError, match="outside of 'x_fetch'"):
            lk.pad_domain(copied, {"i": 4})


def test_stores_under_a_condition_stay_a_plain_loop() -> None:
    knl = lk.tag_inames(make("{[i]: 0<=i<n}", "y[i] = x[i] {if=x[i] > 0}", x=F32), "i:cpu.simd")
    assert "omp simd" not in str(lk.generate_code(knl, target="c"))


def test_c_code_stays_in_a_plain_loop() -> None:
    """It may store under a condition."""
    code = lk.CInstruction("i", "if ($x < 0) break; $y = $x;", {"x": "x[i]"}, {"y": "y[i]"}, id="c")
    knl = lk.make_kernel("{[i]: 0<=i<n}", [code, "z[i] = (h[i] << i % 5) | 1"])
    knl = lk.add_dtypes(knl, {"x,y": F32, "h": np.int32})
    text = str(lk.generate_code(lk.tag_inames(knl, "i:cpu.simd"), target="c"))
    assert re.search(r"simd\n +for \(.*\n +// insn", text)
    assert not re.search(r"simd\n +for \(.*\n +// c_y", text)


def test_bounds_checks_leave_loops() -> None:
    knl = lk.tag_inames(make("{[i]: 0<=i<n}", "y[i] = x[at[i]]", x=F32, at=np.int32), "i:cpu.simd")
    assert "omp simd" not in str(lk.generate_code(knl, target=lk.CTarget(check_bounds=True)))
    assert "omp simd" in str(lk.generate_code(knl, target="c"))


def test_full_tiles_have_constant_loops() -> None:
    """Sums stay in registers only if their loops have constant lengths."""
    text = str(lk.generate_code(product(), target="c"))
    assert re.search(r"#pragma omp simd\n +for \(long long j_inner = 0; j_inner < 8; \+\+j_inner\)", text)
    assert "#pragma GCC unroll" in text


def test_functions_of_vectors_are_declared_for_simd_loops_alone() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = exp(x[i])", x=F32)
    assert "declare simd" not in str(lk.generate_code(knl, target="c"))
    assert "declare simd" in str(lk.generate_code(lk.tag_inames(knl, "i:cpu.simd"), target="c"))


def test_validation_finds_a_loop_that_is_none() -> None:
    """The check of the loop program asks the accesses, not the tag."""
    low = lk.lower(make("{[i]: 0<=i<n}", "y[i+1] = y[i]", y=F32), "c")
    function, = low.program.functions

    def at_once(node: Node) -> Node:
        return replace(node, instruction=SimdLoop()) if isinstance(node, For) else node
    wrong = replace(function, body=as_block(rewritten(function.body, at_once)))
    found = validate(replace(low, program=replace(low.program, functions=(wrong,))))
    assert [x.kind for x in found] == ["simd"]
