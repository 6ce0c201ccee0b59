"""assignment_to_subst."""
from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step

F32 = np.float32


def kernel(text: str, domain: str = "{[i,j]: 0<=i,j<n}", **dtypes: str) -> lk.LoopKernel:
    knl = lk.make_kernel(domain, text, assumptions="n>=1" if "n" in domain else None)
    known = {name: np.dtype(dtype) for name, dtype in ({"x": "float32"} | dtypes).items() if name in knl.array_args}
    return lk.add_dtypes(knl, known)


def rules(knl: lk.LoopKernel) -> dict[str, str]:
    return {rule.name: str(rule) for rule in knl.substitutions.values()}


LEGAL: dict[str, tuple[lk.LoopKernel, str, int]] = {
    "an array": (kernel("<> t[i] = 2*x[i]\ny[j] = t[j] + t[n-1-j]"), "t", 1),
    "a cell at a constant distance": (kernel("<> t[i+2] = 2*x[i]\ny[j] = t[j+2]"), "t", 1),
    "a scalar in its loop": (kernel("for i\n<> t = 2*x[i]\ny[i] = t\nz[i] = t*t\nend"), "t", 1),
    "a scalar of another loop": (kernel("<> t = 2*x[0]\ny[i] = t\nz[j] = 3*t"), "t", 1),
    "two definitions": (kernel("for i\n<> t = 2*x[i]\ny[i] = t\nt = x[i] + 1\nz[i] = t*t\nend"), "t", 2),
    "a reader in a reduction": (kernel("<> t[i] = 2*x[i]\ny[0] = sum(j, t[j]*t[j])"), "t", 1),
    "an argument, which stays": (kernel("t[i] = 2*x[i]\ny[j] = t[j]"), "t", 1),
    "an operand that the kernel wrote": (kernel("<> s[i] = x[i] + 1\n<> t[i] = 2*s[i]\ny[j] = t[j]"), "t", 1),
    "an operand that is overwritten later": (kernel("<> t[i] = 2*x[i]\ny[j] = t[j]\nx[i] = 0"), "t", 1),
    "another rule": (kernel("twice(v) := 2*v\n<> t[i] = twice(x[i])\ny[j] = t[j]"), "t", 1),
    "a chain of dep=": (kernel("a[i] = 1 {id=A}\n<> t[i] = x[i] {id=B, dep=A}\ny[i] = t[i] {id=C, dep=B}"), "t", 1),
    "a condition": (kernel("<> t[i] = 2*x[i]\nif t[j] > 3\ny[j] = 1\nend"), "t", 1),
    "a weak value": (kernel("<> t[i] = i\ny[j] = t[j] + u[j]", u="int8"), "t", 1),
    "a value that loses digits": (kernel("<float32> t[i] = u[i]/3\ny[j] = t[j] + u[j]", u="float64"), "t", 1),
    "an index": (kernel("<int8> t[i] = u[i] + 100\ny[j] = x[t[j] + 128]", u="int8"), "t", 1),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name: str) -> None:
    knl, array, count = LEGAL[name]
    after = step(knl, lk.assignment_to_subst, array)
    assert after.history[-1].verdict == "proven"
    assert len(after.substitutions) - len(knl.substitutions) == count
    assert (array in after.written_names) is (array in knl.array_args)
    assert (array in after.temporaries) is False
    given = {"x": np.arange(256, dtype=F32)} if name == "an index" else {}
    assert_same(knl, after, n=5, **given)  # type: ignore[arg-type]
    assert_same(knl, lk.expand_subst(after), n=5, **given)  # type: ignore[arg-type]


def test_a_rule_can_be_made_a_copy_again() -> None:
    knl = kernel("""
        <> a[i] = 2*i + x[i]
        <> b[i] = 2*a[i]
        <> c[i] = 3*b[i]
        y[i] = 2*b[i] + 3*c[i]
        """, "{[i]: 0<=i<10}")
    after = lk.precompute(lk.assignment_to_subst(knl, "b"), "b_subst", "i", allow_global_storage=True)
    assert_same(knl, after)


def test_some_readers_and_further_arguments() -> None:
    knl = kernel("for i\n<> t = 2*x[i] {id=D}\ny[i] = t {id=A}\nz[i] = t*t {id=B}\nend")
    after = lk.assignment_to_subst(knl, "t", "i", within="B")
    assert after.statements_text == lk.make_kernel("{[i]: 0<=i<n}", """
        t_subst(i) := 2*x[i]
        for i
            <> t = 2*x[i] {id=D}
            y[i] = t {id=A}
            z[i] = t_subst(i)*t_subst(i) {id=B}
        end""").statements_text
    assert_same(knl, after, n=4)


def test_dependences_of_the_reader_bind_later_steps() -> None:
    """The reader is now the one that must read an operand before it is overwritten."""
    knl = kernel("for i\n<> t[i] = 2*x[i] {id=D}\ny[i] = t[i] {id=R}\nx[i] = 0 {id=W}\nend")
    after = lk.assignment_to_subst(knl, "t")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.shift(after, "i", 1, within="R")
    assert (caught.value.witness.kind, caught.value.witness.array) == ("anti", "x")


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str]] = {
    "an operand overwritten before": (lambda: lk.assignment_to_subst(kernel(
        "<> t[i] = 2*x[i]\nx[i] = 0\ny[j] = t[j]"), "t"), lk.IllegalTransformError, "x"),
    "an element overwritten before": (lambda: lk.assignment_to_subst(kernel(
        "for i\n<> t[i] = 2*x[i+1]\nx[i+1] = 0\nend\ny[j] = t[j]"), "t"), lk.IllegalTransformError, r"x\[1\]"),
    "a temporary overwritten before": (lambda: lk.assignment_to_subst(kernel(
        "for i\n<> s = x[i]\n<> t = 2*s\ns = 0\ny[i] = t + s\nend"), "t"), lk.IllegalTransformError, "later value"),
    "an unknown name": (lambda: lk.assignment_to_subst(kernel("y[i] = x[i]"), "q"), lk.UnknownNameError, "'q'"),
    "no reader": (lambda: lk.assignment_to_subst(kernel("y[i] = x[i]"), "y"), lk.PreconditionError, "reads 'y'"),
    "an input": (lambda: lk.assignment_to_subst(kernel("y[i] = x[i]"), "x"), lk.PreconditionError,
                 r"insn\[i=0\] \(with n = 1\) reads an element of 'x' that no statement assigns before"),
    "a part that is not assigned": (lambda: lk.assignment_to_subst(kernel(
        "for i\nt[i+1] = x[i]\nend\ny[j] = t[j]"), "t"), lk.PreconditionError, r"insn_0\[j=0\]"),
    "several assignments": (lambda: lk.assignment_to_subst(kernel(
        "for i\n<> t[2*i] = x[i]\nt[2*i+1] = 0\nend\ny[j] = t[j]"), "t"), lk.PreconditionError,
        "from several statements"),
    "a subscript of the written element": (lambda: lk.assignment_to_subst(kernel(
        "<int32> t[i] = i\ny[t[j]] = x[j]"), "t"), lk.PreconditionError, "the written element of 'insn_0'"),
    "an update": (lambda: lk.assignment_to_subst(kernel("t[i] = t[i] + x[i]\ny[j] = t[j]"), "t"),
                  lk.PreconditionError, "no statement assigns before"),
    "a reduction": (lambda: lk.assignment_to_subst(kernel("<> t = sum(j, x[j])\ny[i] = t"), "t"),
                    lk.PreconditionError, "holds a reduction"),
    "a scalar of other iterations": (lambda: lk.assignment_to_subst(kernel(
        "for i\n<> t = x[i]\nend\nfor j\ny[j] = t\nend"), "t"), lk.PreconditionError,
        "other iterations of 'i'.*\n.*expand"),
    "a condition on data": (lambda: lk.assignment_to_subst(kernel(
        "<> t[i] = 0\nif x[i] > 0\nt[i] = x[i]\nend\ny[j] = t[j]"), "t"), lk.PreconditionError, "several statements"),
    "a subscript of data": (lambda: lk.assignment_to_subst(kernel(
        "t[i] = 0\nt[w[i]] = x[i]\ny[j] = t[j]", w="int32"), "t"), lk.PreconditionError, "several statements"),
    "an argument of no iname": (lambda: lk.assignment_to_subst(kernel(
        "<> t[i] = x[i]\ny[j] = t[j]"), "t", "j"), lk.PreconditionError, "'j' is not an iname of 'insn'"),
    "an index without a dtype": (lambda: lk.assignment_to_subst(lk.make_kernel(
        "{[i]: 0<=i<n}", "<> t[i] = u[i]\ny[i] = x[t[i]]"), "t"), lk.PreconditionError, "its dtype is unknown"),
    "a rule with the array": (lambda: lk.assignment_to_subst(kernel("f(v) := t[v]\n<> t[i] = x[i]\ny[j] = f(j)"), "t"),
                              lk.PreconditionError, "expand_subst"),
    "an argument without accesses": (lambda: lk.assignment_to_subst(lk.make_kernel(
        "{[i]: 0<=i<n}", "y[i] = 1", [lk.GlobalArg("x", F32, shape="n"), "..."]), "x"), lk.PreconditionError,
        "reads 'x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, pattern = REFUSED[name]
    with pytest.raises(error, match=pattern):
        call()


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("seed", range(30))
def test_a_rule_has_the_values_of_the_assignment(seed: int) -> None:
    """Random chains of statements: the step is refused, or the results are the same; some steps are legal."""
    chosen = random.Random(seed)
    assert any(_legal_steps(chosen) for _ in range(60))


def _legal_steps(chosen: random.Random) -> int:
    """The number of temporaries and arrays whose assignment became a rule, with the same results."""
    arrays = ["a", "b", "c", "x"]
    blocks = []
    for k in range(4):
        lines = [f"{chosen.choice('abc')}[i + {chosen.randint(0, 1)}] = {chosen.choice(arrays)}["
                 f"i + {chosen.randint(0, 1)}] + {chosen.choice(arrays)}[{chosen.choice(['i', '3'])}] + {k}"
                 for _ in range(chosen.randint(1, 2))]
        blocks.append("for i\n" + "\n".join(lines) + "\nend")
    knl = lk.make_kernel("{[i]: 0<=i<6}", "\n".join(blocks))
    knl = lk.add_dtypes(knl, dict.fromkeys(knl.array_args, np.int64))
    done = 0
    for name in "abc":
        for s in knl.statements:
            try:
                after = lk.assignment_to_subst(knl, name, within=s.id)
            except lk.LoopkitError:
                continue
            done += 1
            assert_same(knl, after)
            break
    return done
