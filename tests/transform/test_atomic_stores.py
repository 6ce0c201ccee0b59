"""Atomic stores and updates without an operation: when their order is free, and their texts."""
from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences
from tests.deep import amount
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda
from tests.transform.same import step


def kernel(text: str, domains: str = "{[i]: 0<=i<n}", **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel(domains, text, [*(lk.GlobalArg(x, t) for x, t in dtypes.items()), "..."],
                         name="atomic_accesses")
    return lk.add_dtypes(knl, {a.name: np.float32 for a in knl.arguments if a.dtype is None and a.name in ("x", "w")})


def over_threads(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _form(rng: random.Random) -> str:
    """A random affine form of i and j."""
    a, b, c, d = rng.choice([0, 1, 1, 2]), rng.choice([0, 0, 1, -1]), rng.randint(0, 2), rng.choice([2, 3])
    return rng.choice([f"({a}*i + {b}*j + {c})", f"(({a}*i + {b}*j) // {d})", f"(({a}*i + {b}*j) % {d})"])


def test_proven_stores_are_those_of_equal_values() -> None:
    """A store is accepted if and only if, at all small sizes, no two instances store different affine values."""
    rng, accepted = random.Random(3), 0
    for _ in range(amount(160)):
        place, value = _form(rng), rng.choice([_form(rng), _form(rng), "7", "alpha + n"])
        code, differ = compile(f"({place}, {value})", "", "eval"), False
        for n in range(1, 7):
            stored: dict[int, int] = {}
            for i, j in product(range(n), repeat=2):
                where, what = eval(code, {"i": i, "j": j, "n": n, "alpha": 5})
                differ = differ or stored.setdefault(where, what) != what
        as_element = rng.random() < 0.3         # x may have equal elements, which is not known
        text = f"y[{place} + n] = {f'2*x[{value} + n]' if as_element else value} {{atomic, inames=i:j}}"
        domains, arrays = "{[i,j]: 0<=i,j<n}", [lk.GlobalArg(a, np.float64, shape="9*n + 9") for a in "xy"]
        try:
            knl = lk.make_kernel(domains, text, [*(a for a in arrays if a.name == "y" or as_element), "..."])
        except lk.UndecidedError:
            assert differ, text
            continue
        accepted += 1
        assert not differ, text
        assert not [d for d in dependences(knl) if d.kind == "output"]
    assert accepted > 5


@pytest.mark.parametrize("text", [
    "y[b[i]] = 3 {id=S, atomic}", "y[b[i]] = w[2] {id=S, atomic}", "y[0] = 1 {id=S, atomic, if=x[i] > 0}",
    "y[i//2] = x[i//2] {id=S, atomic}", "y[i//2] = philox_f32(n, i//2, 0, 0) {id=S, atomic}"])
def test_stores_of_equal_values_run_at_once(text: str) -> None:
    knl = over_threads(kernel(text, b=np.int32, y=np.float32) if "b[" in text else kernel(text, y=np.float32))
    assert not knl.obligations
    assert lk.check_races(knl).verdict.name == "PROVEN"
    compile_cuda(str(lk.generate_code(knl, target="cuda")))
    text = str(lk.generate_code(knl, target="c"))
    assert text.count("#pragma omp atomic write\n") == text.count("// S") == 2
    assert "#pragma omp parallel for" in text


@pytest.mark.parametrize(("text", "reason"), [
    ("y[0] = x[i] {id=S, atomic}", "with n = 2: S[i=0] writes y[0], which S[i=1] writes too"),
    ("y[b[i]] = i {id=S, atomic}", "a subscript is read from memory"),
    ("y[i//2] = i {id=S, atomic}", "with n = 2"),
    ("x[i] = 2*w[i]\ny[i//2] = x[i//2] {id=S, atomic}", "with n = 2"),
    ("y[b[i]] = max(2*y[b[i]], w[i]) {id=S, atomic}", "a subscript is read from memory")])
def test_other_stores_are_a_claim(text: str, reason: str) -> None:
    dtypes = {"b": np.int32, "y": np.float32} if "b[" in text else {"y": np.float32}
    with pytest.raises(lk.UndecidedError) as caught:
        kernel(text, **dtypes)
    assert reason in str(caught.value)
    assert "make_atomic(knl, 'S', assume=" in str(caught.value)
    plain = kernel(text.replace(", atomic", ""), **dtypes)
    with pytest.raises(lk.UndecidedError, match="may decide which value 'y' keeps"):
        lk.make_atomic(plain, "S")
    claimed = step(plain, lk.make_atomic, "S", assume="each of them will do")
    assert "may run in any order (assumed: each of them will do)" in str(claimed.obligations[0])
    assert "S" not in {d.source for d in dependences(claimed) if d.sink == "S"}
    over_threads(lk.make_atomic(plain, "S", unsafe=True))


def test_the_value_is_one_of_those_stored() -> None:
    any_of = over_threads(lk.make_atomic(kernel("y[0] = x[i] {id=S}"), "S", assume="any element"))
    x = np.arange(1, 100, dtype=np.float32)
    assert any_of(x=x).y[0] in x
    first = kernel("y[b[i]] = if(y[b[i]] == 0, x[i], y[b[i]]) {id=S}", b=np.int32, y=np.float32)
    first = over_threads(lk.make_atomic(first, "S", assume="any of a bin's elements"))
    b = (np.arange(99) % 7).astype(np.int32)
    found = first(b=b, x=x, y=np.zeros(8, np.float32)).y
    assert all(found[k] in x[b == k] for k in range(7))
    assert found[7] == 0


@pytest.mark.parametrize("dtype", [np.complex64, np.float16, np.uint8])
def test_stores_of_other_dtypes(dtype: type[np.generic]) -> None:
    knl = over_threads(lk.make_kernel("{[i]: 0<=i<n}", "y[b[i]] = z[0] {id=S, atomic}", [
        lk.GlobalArg("y", dtype, shape=4), lk.GlobalArg("z", dtype), lk.GlobalArg("b", np.int32), "..."]))
    source = str(lk.generate_code(knl, target="cuda"))
    assert ("volatile" in source) == (dtype is np.uint8)
    compile_cuda(source)


def test_a_flag_of_a_block() -> None:
    """A shared flag that some threads set: all of them read it after a barrier."""
    knl = kernel("<> any_ = 0\nany_ = 1 {atomic, if=x[i] > 0}\nw[j] = any_", "{[i,j]: 0<=i,j<64}")
    knl = lk.tag_inames(knl, "i:l.0, j:l.0")
    assert lk.check_races(knl).verdict.name == "PROVEN"
    source = str(lk.generate_code(knl, target="cuda"))
    assert source.count("__syncthreads();") == 2
    compile_cuda(source)
    x = np.full(64, -1, np.float32)
    assert not knl(x=x).w.any()
    x[5] = 1
    assert knl(x=x).w.all()


def test_what_cannot_be_atomic() -> None:
    with pytest.raises(lk.PreconditionError, match=r"update 'S' of the temporary 't' has no operation"):
        kernel("<> t = 0\nt = 2*t + x[i] {id=S, atomic}\ny[i] = t")
    wide = over_threads(lk.make_kernel("{[i]: 0<=i<n}", "y[i//2] = y[i//2] + z[i] {id=S, atomic}", [
        lk.GlobalArg("y", np.complex128), lk.GlobalArg("z", np.complex128), "..."]))
    with pytest.raises(lk.PreconditionError, match="CUDA has no atomic access to complex128, as 'S' needs it"):
        lk.generate_code(wide, target="cuda")
    point = np.dtype([("x", np.float32), ("y", np.int32)])
    pairs = lk.make_kernel("{[i]: 0<=i<n}", "y[i//2] = z[i//2] {id=S, atomic}", [
        lk.GlobalArg("y", point), lk.GlobalArg("z", point), "..."])
    with pytest.raises(lk.PreconditionError, match="CUDA has no atomic access to tuples, as 'S' needs it"):
        lk.generate_code(over_threads(pairs), target="cuda")
    assert "#pragma" not in str(lk.generate_code(over_threads(pairs), target="c"))
    z = np.array([1, 2j, 3])
    assert wide(z=z, y=np.zeros(2, complex)).y.tolist() == [1 + 2j, 3]


def test_a_claim_stays_with_its_statement() -> None:
    """Other statements can be defined beside a claimed one; a changed one needs a claim of its own."""
    knl = lk.make_atomic(kernel("y[0] = x[i] {id=S}\nw[i] = 2*x[i] {id=T}"), "S", assume="any of them")
    again = lk.remove_instructions(knl, "T")
    assert again.obligations == knl.obligations
    over_threads(again)
    with pytest.raises(lk.UndecidedError, match="with_statements: the order of the atomic stores of 'S'"):
        lk.map_instructions(knl, "S", lambda insn: insn.copy(expression="2*x[i]"))
    proven = kernel("y[0] = x[0] {id=S, atomic, inames=i}")
    with pytest.raises(lk.UndecidedError, match="with_statements: the order of the atomic stores of 'S'"):
        lk.with_statements(proven, [*proven.instructions, lk.Assignment("x[i]", "i")])


def every_kind() -> lk.LoopKernel:
    """Updates by a function, by compare-and-swap and by the user's operation, a store and a flag."""
    larger = lk.ReductionOperation("larger", "if(b*b > a*a or (b*b == a*a and b > a), b, a)", reorderable=True)
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        extreme[b[i]] = if(x[i]*x[i] > extreme[b[i]]*extreme[b[i]] or (x[i]*x[i] == extreme[b[i]]*extreme[b[i]]
            and x[i] > extreme[b[i]]), x[i], extreme[b[i]]) {id=by_operation, atomic}
        <> before, bits[b[i]] = bits[b[i]], bits[b[i]] ^ i {id=flip, atomic}
        factor[i], total[b[i]] = total[b[i]], total[b[i]]*x[i] {id=multiply, atomic}
        parity[i] = before & 1
        small[b[i]] = small[b[i]] | cast(uint8, i) {id=within_a_word, atomic}
        sample[0] = x[i] {id=store}
        found[0] = true {id=flag, atomic, if=x[i] > 2}
        """, [*(lk.GlobalArg(a, t, shape=16) for a, t in (
            ("total", np.float64), ("extreme", np.float32), ("bits", np.int64), ("small", np.uint8))),
            lk.GlobalArg("b", np.int32), lk.GlobalArg("x", np.float32), "..."], reductions=[larger],
        name="atomic_accesses")
    return over_threads(lk.make_atomic(knl, "store", assume="any element is a sample"))


def test_an_operation_that_is_also_a_sum() -> None:
    """Updates by it run in parallel. As a sum, the operand would read the element again."""
    either = lk.ReductionOperation("either", "a + b - a*b", 0, reorderable=True)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "p[b[i]] = p[b[i]] + x[i] - p[b[i]]*x[i] {id=S, atomic}", [
        lk.GlobalArg("p,x", np.float64, shape=9), lk.GlobalArg("b", np.int32), "..."], reductions=[either])
    assert lk.tag_inames(knl, "i:l.0").statement("S").combine == "either"


def test_texts(golden: GoldenFiles) -> None:
    knl = every_kind()
    assert {s.id: s.combine for s in knl.statements if s.combine} == {
        "multiply_1": "product", "by_operation": "larger", "flip_1": "bit_xor", "within_a_word": "bit_or"}
    source = str(lk.generate_code(knl, target="cuda"))
    compile_cuda(source)
    golden.check("atomic_accesses.cu", source)
    golden.check("atomic_accesses.c", str(lk.generate_code(knl, target="c")))
    x, b = np.array([1, -3, 2.5, 2], np.float32), np.array([0, 1, 0, 1], np.int32)
    zeros: dict[str, Any] = {a.name: np.zeros(16, a.dtype) for a in knl.arguments if a.name in ("bits", "small")}
    found = knl(x=x, b=b, total=np.ones(16), extreme=np.zeros(16, np.float32), **zeros)
    assert found.total[:2].tolist() == [2.5, -6]
    assert found.extreme[:2].tolist() == [2.5, -3]
    assert found.bits[:2].tolist() == [0 ^ 2, 1 ^ 3]
    assert found.small[:2].tolist() == [0 | 2, 1 | 3]
    assert (found.parity.tolist(), found.factor.tolist()) == ([0, 0, 0, 1], [1, 1, 1, -3])
    assert found.sample[0] in x
    assert found.found[0]
