"""Statements in C: their accesses are those of ordinary statements, and their code is in the place of these."""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.interpreter.instances import reference_order
from tests.golden_files import GoldenFiles
from tests.interpreter.test_machine import ran
from tests.nvrtc import compile_cuda

NORM = lk.CInstruction(
    "i", """
    double sum = 0;  // of absolute values, and of "1 // 1"
    for (int c = 0; c < $m; ++c)
        sum += fabs($row[c*$row.stride]);
    $total = sum;
    for (int c = 0; c < $m; ++c)
        $unit[c*$unit.stride] = $scale*$row[c*$row.stride]/sum;
    """, {"row": "a[i, 0:m]", "m": "m", "scale": "2*x[i]"}, {"total": "y[i]", "unit": "b[i, 0:m]"}, id="norm")


def norms(*more: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["for i", NORM, *more, "end"],
                         [lk.GlobalArg("b", shape="n, m"), lk.GlobalArg("a", shape="n, m"), "..."], name="norms",
                         assumptions="m>=1")
    return lk.add_dtypes(knl, {"a,b,x,y": np.float64})


def data(n: int = 11, m: int = 5) -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {"a": random.uniform(1, 2, (n, m)), "x": random.uniform(1, 2, n)}


def expected(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return a.sum(1), 2*x[:, None]*a/a.sum(1)[:, None]


BLOCKS = "i", 4
STEPS = {
    "plain": lambda knl: knl,
    "threads": lambda knl: lk.split_iname(knl, *BLOCKS, outer_tag="g.0", inner_tag="l.0"),
    "loops": lambda knl: lk.split_iname(knl, *BLOCKS),
    "peeled": lambda knl: lk.peel(knl, "i", first=1),
    "shared": lambda knl: lk.add_prefetch(
        lk.split_iname(lk.fix_parameters(knl, m=5), *BLOCKS, outer_tag="g.0", inner_tag="l.0"), "a",
        ["i_inner", "norm_row_1"], default_tag="l.auto"),
    "condition": lambda knl: lk.add_dtypes(lk.make_kernel(
        "{[i]: 0<=i<n}", ["for i", "if x[i] > 0", NORM, "end", "end"],
        [lk.GlobalArg("b", shape="n, m"), lk.GlobalArg("a", shape="n, m"), "..."]), {"a,b,x,y": np.float64})}


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("step", "order"), [*((step, "C") for step in STEPS), ("threads", "F")])
def test_results(step: str, order: Any) -> None:
    given = data()
    knl = STEPS[step](norms())
    outputs = {"b": np.zeros_like(given["a"], order=order), "y": np.zeros(11)} if step == "condition" else {}
    found = lk.compile(knl, "c")(a=given["a"].copy(order=order), x=given["x"], **outputs)
    for got, want in zip((found.y, found.b), expected(**given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_text(golden: GoldenFiles) -> None:
    knl = STEPS["threads"](norms("z[i] = b[i, 0] + y[i]"))
    code = lk.generate_code(knl, target="cuda")
    golden.check("c_instruction.cu", code)
    golden.check("c_instruction.c", lk.generate_code(knl, target="c"))
    golden.check("c_instruction.kernel.txt", knl.statements_text)
    compile_cuda(str(code), "sm_80")


# What the operands declare

def shifted(low: str, high: str) -> lk.LoopKernel:
    """Instance i reads a part of what instance i - 1 writes."""
    code = lk.CInstruction("i", "$new = $old[0];", {"old": f"u[{low}:{high}]"}, {"new": "u[i]"}, id="next")
    return lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", [code]), {"u": np.float64})


def test_dependences_follow_from_the_footprint() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.split_iname(shifted("i - 1", "i"), "i", 4, inner_tag="l.0")
    assert caught.value.witness.array == "u"
    assert lk.reverse(shifted("i", "i + 1"), "i").inames
    with pytest.raises(lk.IllegalTransformError):
        lk.reverse(shifted("i - 1", "i"), "i")


def test_verdicts_on_random_footprints() -> None:
    """A loop can be reversed if and only if no iteration writes what another one reads or writes."""
    random, verdicts = np.random.default_rng(5), []
    for _ in range(16):
        step, read, reads, write, writes = random.integers([1, 0, 1, 0, 1], [5, 7, 4, 7, 4]).tolist()
        code = lk.CInstruction("i", "for (int k = 0; k < 1; ++k) $new[k] = $old[k];", {
            "old": f"u[{step}*i + {read}:{step}*i + {read + reads}]"}, {
            "new": f"u[{step}*i + {write}:{step}*i + {write + writes}]"}, id="part")
        knl = lk.make_kernel("{[i]: 0<=i<n}", [code])
        touched = [({step*i + write + k for k in range(writes)}, {step*i + read + k for k in range(reads)})
                   for i in range(12)]
        conflict = any(touched[i][0] & (touched[j][0] | touched[j][1]) for i in range(12) for j in range(12) if i != j)
        try:
            lk.reverse(knl, "i")
            refused = False
        except lk.IllegalTransformError:
            refused = True
        assert refused == conflict, knl.statements_text
        verdicts.append(refused)
    assert {*verdicts} == {True, False}


def test_bounds_follow_from_the_footprint() -> None:
    code = lk.CInstruction("i", "$new = $old[1];", {"old": "u[i:i + 2]"}, {"new": "v[i]"}, id="next")
    knl = lk.make_kernel("{[i]: 0<=i<n}", [code], [lk.GlobalArg("u", np.float64, shape="n"),
                                                   lk.GlobalArg("v", np.float64)])
    with pytest.raises(lk.BoundsError, match="outside its shape"):
        lk.generate_code(knl, target="c")


@pytest.mark.parametrize(("step", "message"), [
    (lambda knl: lk.split_iname(knl, *BLOCKS, inner_tag="ilp"), "do not follow each other in one thread"),
    (lambda knl: lk.tag_inames(lk.fix_parameters(knl, m=4), "norm_unit_1:l.0"), "do not follow each other in one"),
    (lambda knl: lk.split_iname(knl, "norm_unit_1", 4), "The region 'unit' of .* 'norm' has no single stride"),
    (lambda knl: lk.reverse(knl, "norm_unit_1"), "The region 'unit' of .* 'norm' has no single stride from its first")])
def test_steps_that_the_code_cannot_follow(step: Any, message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.generate_code(step(norms()), target="cuda", verify=False)


@pytest.mark.parametrize("m", [1, 4])
def test_steps_on_the_loops_of_regions(m: int) -> None:
    """Loops over regions may get other names and other bounds, or have one iteration."""
    knl = lk.rename_iname(norms(), "norm_row_1", "other")
    knl = lk.shift(knl, "norm_unit_1", 2) if m == 1 else lk.skew(knl, "norm_unit_1", {"i": -1})
    given = data(m=m)
    found = lk.compile(lk.fix_parameters(knl, m=m), "c")(**given)
    for got, want in zip((found.y, found.b), expected(**given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_strides_that_the_code_does_not_use() -> None:
    code = lk.CInstruction("j", "$y = $column[0];", {"column": "a[0:n, j]"}, {"y": "y[j]"}, id="first")
    knl = lk.make_kernel("{[j]: 0<=j<m}", [code], [lk.GlobalArg("a", np.float64, shape="n, m"),
                                                   lk.GlobalArg("y", np.float64), "..."])
    with pytest.raises(lk.PreconditionError, match=r"are m apart.*\n  hint: write \$column.stride"):
        lk.generate_code(knl, target="c")


def test_two_ranges() -> None:
    code = lk.CInstruction((), "$s = 0; for (int p = 0; p < 2; ++p) for (int q = 0; q < 3; ++q) "
                           "$s += $a[p*$a.stride0 + q*$a.stride1];", ["a[1:3, 0:3]"], {"s": "s[0]"}, id="total")
    knl = lk.make_kernel("{[i]: 0<=i<1}", ["t[i] = i", code], [
        lk.GlobalArg("a", np.float32, shape=(3, 4)), lk.GlobalArg("s", np.float32), "..."])
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert lk.compile(knl, "c")(a=a).s[0] == lk.compile(knl, "c")(a=np.asfortranarray(a)).s[0] == a[1:, :3].sum()


def test_side_effects_run_in_order() -> None:
    """C code without assignees, in a loop and in a function without results; a loop in parallel would reorder it."""
    says, then = (lk.CInstruction("i", f"{x}($i);", preamble=f"static void {x}(long long i) {{ (void)i; }}", id=x)
                  for x in ("says", "then"))
    function = lk.make_function([], [lk.CInstruction((), "says(7);", preamble=str(says.preamble), id="own")], name="f")
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["for i", says, then, "f()", "end"], functions=[function])
    assert [r for r in (s.id for s in knl.statements) if r.endswith("effects")] == [
        "c_effects", "says_effects", "then_effects", "f_c_effects", "f_own_effects"]
    text = str(lk.generate_code(knl, "c"))
    body = text[text.index("for (int i"):]
    assert body.index("says(says_i)") < body.index("then(then_i)") < body.index("says(7)")
    assert lk.compile(knl, "c")(n=2) == ()
    assert str(knl.obligations[0]).count("accesses its operands only (")
    with pytest.raises(lk.IllegalTransformError, match="writes c_effects"):
        lk.tag_inames(knl, "i:g.0")


def test_operands_that_share_memory() -> None:
    """Code that writes before it reads would read its own values, but only until a step copies what it reads."""
    code = "for (int p = 0; p < 4; ++p) $u[p*$u.stride] = $t[(3 - p)*$t.stride];"
    knl = lk.make_kernel("{[j,k]: 0<=j,k<4}", [
        "<int32> t[j] = a[j]", lk.CInstruction("", code, {"t": "t[0:4]"}, {"u": "u[0:4]"}), "b[k] = u[k]"],
        [lk.TemporaryVariable("t,u", np.int32, shape=(4,)), lk.GlobalArg("a", np.int32), "..."])
    with pytest.raises(lk.StorageError, match="C code accesses its elements"):
        lk.alias_temporaries(knl, "t,u")
    knl = lk.make_kernel([], [lk.CInstruction("", code, {"t": "a[0:4]"}, {"u": "a[2:6]"})])
    assert "computes the same from a copy of 'a'" in str(knl.obligations[0])


# Errors and values

@pytest.mark.parametrize(("arguments", "message"), [
    (("i", "$y = $x;", "x[i]"), r"the placeholder '\$y'"),
    (("i", "$y = $z;", "x[i]", "y[i]"), r"the placeholder '\$z'"),
    (("i", "$y = 1; }", (), "y[i]"), "brackets that do not match"),
    (("i", "return;", (), "y[i]"), "has 'return' in its code"),
    (("i", "$y = threadIdx.x;", (), "y[i]"), "has 'threadIdx'"),
    (("i", "$y.stride;", (), "y[i]"), "'y\\[i\\]' has 0 ranges"),
    (("i", "$y = 1;", (), "2*y[i]"), "writes an element or a region as '2\\*y'|cannot have the operand"),
    (("i", "$y = 1;", ["x[i]", "x[i+1]"], "y[i]"), "two operands of one array"),
    (("i", "$y = 1;", "y[i]", "y[i]"), "has two operands 'y'"),
    (("i", "$y = 1;", "x[i, :]", "y[i]"), "needs both bounds"),
    (("i", 3, (), "y[i]"), "has a text, or one for each language"), (([3], "$y = 1;", (), "y[i]"), "pairs of a name"),
    (("i", "$y = 1;", (), "y[i]", "2"), "The id of a C instruction cannot be '2'"),
    (("i", "$y = 1;", "x[0:n]", "y[i]", "c", {}, None, abs), "has a reference= and a region")])
def test_wrong_instructions(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.CInstruction(*arguments)


def test_undeclared_accesses_are_undecided() -> None:
    code = "double best = x[0]; $y = best;"
    with pytest.raises(lk.UndecidedError, match="names 'x' in its code") as caught:
        lk.make_kernel("{[i]: 0<=i<n}", ["z[i] = x[i]", lk.CInstruction("i", code, (), "y[i]")])
    assert "assume=" in str(caught.value)
    meant = lk.CInstruction("i", code, (), "y[i]", assume="x is constant")
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["z[i] = x[i]", meant])
    assert "x is constant" in str(knl.obligations[0])


def test_a_language_without_code() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", [lk.CInstruction("i", {"c": "$y = 1;"}, (), "y[i]")])
    with pytest.raises(lk.PreconditionError, match="has no code for the language 'cuda'"):
        lk.generate_code(lk.add_dtypes(knl, {"y": np.float32}), target="cuda")
    with pytest.raises(lk.TypeInferenceError, match="The dtype of the argument 'y'"):
        lk.generate_code(knl, target="c")


def test_a_reference_for_the_interpreter_and_the_history() -> None:
    swap = lk.CInstruction("i", "$low = fmin($a, $b); $high = fmax($a, $b);", {"a": "x[i]", "b": "x[i + n]"},
                           {"low": "l[i]", "high": "h[i]"}, id="swap", reference=_in_order)
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", [swap]), {"x,l,h": np.float64})
    x = np.array([3.0, 1, 2, 5])
    machine, found = ran(knl, {"x": x, "n": 2}, reference_order), lk.compile(knl, "c")(x=x, n=2)
    for i in range(2):
        assert [machine.cell("l", (i,)), machine.cell("h", (i,))] == sorted(x[[i, i + 2]]) == [found.l[i], found.h[i]]
    assert pickle.loads(pickle.dumps(knl)) == knl
    names: dict[str, Any] = {}
    exec(norms().history.script(), names)
    assert names["knl"] == norms()
    with pytest.raises(lk.PreconditionError, match="The C code of 'norm' has no value in Python"):
        ran(norms(), {**data(), "n": 11, "m": 5}, reference_order)


def _in_order(a: Any, b: Any) -> tuple[Any, Any]:
    return min(a, b), max(a, b)
