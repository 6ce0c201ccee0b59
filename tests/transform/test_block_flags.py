"""add_block_flags: what blocks of one launch hand on reaches whoever waits, and nobody waits for ever."""
from __future__ import annotations

import random
import re
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import loopkit as lk
from loopkit.ast.nodes import For
from loopkit.ast.walk import nodes_in
from loopkit.instructions.vector_access import VectorAccess, vectors_of
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.lowering.kernels import F32, make
from tests.nvrtc import compile_cuda
from tests.property.machine import MachineError, execute
from tests.transform.same import assert_same, step
from tests.verification.changed import changed
from tests.verification.faults import faults


def sums(reader: str = "sum(q, part[q])", writer: str = "part[b] = sum(i, x[b, i])", given: str = ""
         ) -> lk.LoopKernel:
    """Each block reads what those before it have written."""
    return make(["{[b, i]: 0<=b<n and 0<=i<4}", "[b] -> {[q]: 0<=q<b}"], f"""
        for b
            <> {writer}  {{id=write{given}}}
            y[b] = {reader}  {{id=read}}
        end
        """, x=F32)


def on_blocks(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.tag_inames(lk.add_block_flags(knl, "part"), "b:g.0, i:l.0")


@pytest.mark.deep
def test_one_launch_where_there_were_two() -> None:
    plain = sums()
    assert len(lk.generate_code(lk.tag_inames(plain, "b:g.0, i:l.0"), target="cuda").kernels) == 2
    knl = lk.tag_inames(step(plain, lk.add_block_flags, "part"), "b:g.0, i:l.0")
    code = lk.generate_code(knl, target="cuda")
    assert len(code.kernels) == 1
    assert code.source.count("store_with_flag(&part[b], ") == code.source.count("wait_for(&part[q])") == 1
    assert "const int b = block;" in code.source
    assert "cudaMemset(part, 0, sizeof(flagged<float>)*n);" in code.host
    assert "#pragma omp" not in str(lk.generate_code(knl, target="c"))
    assert all(text in str(knl) for text in ("blocks by tickets", "{id=write, sets a flag}", "waits for flags of part"))
    assert validate(lowered_once(knl)) == ()
    assert_same(plain, knl, n=7)


@pytest.mark.deep
@pytest.mark.parametrize("tags", ["i:g.0, j:g.1", "i:g.1, j:g.0", "i:g.2, j:g.1"])
def test_blocks_in_two_directions(tags: str) -> None:
    """Blocks are numbered along the first axis first; what goes on along both goes to greater numbers in any case."""
    plain = make(["{[i, j]: 0<=i<n and 0<=j<m}", "[i] -> {[a]: 0<=a and a = i - 1}",
                  "[j] -> {[c]: 0<=c and c = j - 1}"], """
        for i, j
            <> t[i, j] = x[i, j] + max(0.5*sum(a, t[a, j]), sum(c, t[i, c]))
            y[i, j] = t[i, j]
        end
        """, x=F32, t=F32)
    knl = lk.tag_inames(lk.add_block_flags(plain, "t"), tags)
    assert len(lk.generate_code(knl, target="cuda").kernels) == 1
    assert "gridDim.x" in lk.generate_code(knl, target="cuda").source
    assert_same(plain, knl, n=5, m=4)
    run(knl, x=(5, 4))


@pytest.mark.deep
def test_one_value_for_all_blocks() -> None:
    """It comes from the first block, which all others are after; statements need not have the same inames."""
    plain = make("{[f, i, b]: f=0 and 0<=i<8 and 0<=b<n}", """
        for f
            <> mean = sum(i, z[i])/8
        end
        y[b] = x[b] - mean {inames=b}
        """, x=F32, z=F32)
    knl = lk.tag_inames(lk.add_block_flags(plain, "mean"), "f:g.0, b:g.0, i:l.0")
    assert len(lk.generate_code(knl, target="cuda").kernels) == 1
    assert_same(plain, knl, n=9)
    run(knl, x=(9,), z=(8,))


def run(knl: lk.LoopKernel, **shapes: tuple[int, ...]) -> None:
    """Blocks at once, as they may start and overtake each other: all as in the kernel's order."""
    rng = np.random.default_rng(0)
    given = {name: rng.integers(-3, 4, shape).astype(F32) for name, shape in shapes.items()}
    first = next(iter(shapes.values()))
    low = lowered_once(knl)
    wanted = knl(**given).y
    for seed in range(4):
        found = execute(low, {**given, "y": np.zeros_like(wanted)}, dict(zip("nm", first, strict=False)),
                        random.Random(seed))
        np.testing.assert_array_equal(found["y"], wanted)


@settings(max_examples=amount(25), deadline=None)
@given(st.data())
def test_whatever_goes_forward(data: st.DataObject) -> None:
    """Values of several temporaries go from any block to any after it, or on in the same one, however many a block
    computes."""
    count = data.draw(st.integers(1, 3), "temporaries")
    domains = ["{[b, i]: 0<=b<n and 0<=i<4}"]
    lines = []
    for k in range(count):
        terms = ["sum(i, x[b, i])"]
        for j in range(data.draw(st.integers(0, 2), "reads")):
            other = data.draw(st.integers(0, count - 1), "of")
            least = 0 if other < k else 1
            low = data.draw(st.integers(least, 3), "from")
            high = data.draw(st.integers(low, 5), "to")
            domains.append(f"[b] -> {{[q{k}{j}]: 0<=q{k}{j} and b - {high}<=q{k}{j}<=b - {low}}}")
            terms.append(f"sum(q{k}{j}, t{other}[q{k}{j}])")
        lines.append(f"<> t{k}[b] = {' + '.join(terms)}")
    names = [f"t{k}" for k in range(count)]
    text = "\n".join(["for b", *lines, f"y[b] = {' - '.join(f'{x}[b]' for x in names)}", "end"])
    knl = make(domains, text, x=F32, **dict.fromkeys(names, F32))
    knl = lk.add_block_flags(knl, ", ".join(names))
    match data.draw(st.sampled_from(("blocks", "several a block", "two axes")), "mapping"):
        case "blocks":
            knl = lk.tag_inames(knl, "b:g.0, i:l.0")
        case "several a block":
            knl = lk.tag_inames(lk.split_iname(knl, "b", 3, outer_tag="g.0"), "i:l.0")
        case _:
            knl = lk.tag_inames(lk.split_iname(knl, "b", 3, outer_tag="g.1", inner_tag="g.0"), "i:l.0")
    assert len(lk.generate_code(knl, target="cuda").kernels) == 1
    run(knl, x=(8, 4))


def test_whoever_starts_out_of_turn_is_found() -> None:
    """Without the numbers, blocks may fill the GPU and wait for others that never start; and values must be told."""
    low = lowered_once(on_blocks(sums()))
    x = np.ones((6, 4), F32)
    kinds = {"value stored without its flag", "value read without a wait", "blocks without tickets"}
    found = [f for f in faults(low.program) if f.kind in kinds]
    assert {f.kind for f in found} == kinds
    for fault in found:
        wrong = replace(low, program=fault.program)
        assert validate(wrong)
        assert any(fails(wrong, x, seed) for seed in range(20))


def fails(low: Lowered, x: np.ndarray, seed: int) -> bool:
    try:
        execute(low, {"x": x, "y": np.zeros(6, F32)}, {"n": 6}, random.Random(seed))
    except MachineError:
        return True
    return False


@pytest.mark.parametrize(("knl", "error", "words"), [
    (sums("part[b - 1]"), lk.StorageError, r"read\[b=0\] would wait for an element of 'part' that no statement writes"),
    (sums(writer="part[b // 2] = sum(i, x[b, i])"), lk.StorageError,
     r"write\[b=0\] and write\[b=1\] write one element"),
    (sums("part[n - 1 - b]"), lk.StorageError, "reads what .* writes after it"),
    (sums(given=", if=x[b, 0] > 0"), lk.UndecidedError, "wait forever")])
def test_nobody_waits_for_ever(knl: lk.LoopKernel, error: type[lk.LoopkitError], words: str) -> None:
    with pytest.raises(error, match=words):
        lk.add_block_flags(knl, "part")


def test_a_value_goes_to_no_block_before() -> None:
    knl = make("{[b, c]: 0<=b,c<n}", """
        for c
            <> part[c] = 2*x[c] {id=write}
        end
        for b
            y[b] = part[n - 1 - b] {id=read}
        end
        """, x=F32)
    knl = lk.tag_inames(lk.add_block_flags(knl, "part"), "b:g.0, c:g.0")
    with pytest.raises(lk.StorageError, match=r"write\[c=1\] runs in no such block for read\[b=0\]"):
        lk.generate_code(knl)


def test_a_launch_is_made_once() -> None:
    """What a loop of the host carries is there when its next launch begins."""
    plain = make("{[t, b]: 1<=t<m and 0<=b<n}", """
        for t, b
            <> part[t, b] = x[t, b] {id=write}
            y[t, b] = if(b > 0, part[t, b - 1], 0)
            z[t, b] = if(b < n - 1, y[t - 1, b + 1], 0)
        end
        """, x=F32, y=F32)
    knl = lk.tag_inames(lk.add_block_flags(plain, "part"), "b:g.0")
    with pytest.raises(lk.StorageError, match="in a loop of the host"):
        lk.generate_code(knl)


def test_other_refusals() -> None:
    knl = sums()
    with pytest.raises(lk.UnknownNameError):
        lk.add_block_flags(knl, "whole")
    with pytest.raises(lk.StorageError, match="is declared shared"):
        lk.generate_code(on_blocks(lk.set_temporary_address_space(knl, "part", "local")))
    with pytest.raises(lk.StorageError, match="Readers wait for 'part', but a condition or a bound of 'read' reads it"):
        lk.add_block_flags(make("{[b]: 0<=b<n}", """
            for b
                <> part[b] = x[b]
                y[b] = 1  {id=read,if=part[b] > 0}
            end
            """, x=F32), "part")
    updated = make("{[b, i]: 0<=b<n and 0<=i<4}", """
        for b
            <> part[b] = 0
            for i
                part[b] = part[b] + x[b, i] {id=add}
            end
            y[b] = part[b]
        end
        """, x=F32)
    with pytest.raises(lk.StorageError, match="wait for a single write, but 'add' updates it"):
        lk.add_block_flags(updated, "part")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, F32, np.float64, np.complex64, np.complex128])
def test_all_dtypes_compile(dtype: type) -> None:
    """A value takes as many words as it has 4 bytes."""
    knl = lk.tag_inames(make(["{[b]: 0<=b<n}", "[b] -> {[q]: 0<=q<b}"], """
        for b
            <> part[b] = x[b] + x[b]
            y[b] = sum(q, part[q])
        end
        """, x=dtype), "b:g.0")
    code = lk.generate_code(lk.add_block_flags(knl, "part"), target="cuda")
    compile_cuda(code.source)
    scratch = {p.name: p for p in code.kernels[0].parameters}["part"]
    assert scratch.element_bytes == 8*max(np.dtype(dtype).itemsize // 4, 1)


@pytest.mark.deep(every=9)
@pytest.mark.parametrize(("text", "waits"), [
    ("y[part[b], j] = y[part[b], j] + x[b, j]", "y[4*wait_for(&part[b]) + j]"),
    ("y[b, j] = x[part[b], j]", "x[4*wait_for(&part[b]) + j]"),
    ("y[n - 1 - b, j] = 2*x[if(b > 0, part[0], 0), j]", "x[4*(b > 0 ? wait_for(&part[0]) : 0) + j]")])
@pytest.mark.parametrize("tag", ["", "vec", "l.0"])
def test_what_is_waited_for_may_be_a_subscript(text: str, waits: str, tag: str) -> None:
    """Also the subscript of a written element; and no vector access there comes before the assignment that waits."""
    knl = lk.make_kernel("{[b, j]: 0<=b<n and 0<=j<4}", f"""
        for b
            <> part[b] = z[b]
            for j
                {text}  {{id=use}}
            end
        end
        """, [lk.GlobalArg("x,y", shape=("n", 4)), "..."])
    plain = lk.add_dtypes(knl, {"x,y": F32, "z": np.int32})
    plain = lk.make_atomic(plain, "use") if "y[part" in text else plain
    knl = lk.tag_inames(lk.add_block_flags(plain, "part"), {"b": "g.0", **({"j": tag} if tag else {})})
    source = lk.generate_code(knl, target="cuda").source
    assert waits in source
    assert len(re.findall(r"(?<!&)\bpart\[", source)) == 0
    compile_cuda(source)
    low = lowered_once(knl)
    assert validate(low) == ()
    rng = np.random.default_rng(0)
    given = {"x": rng.integers(-3, 4, (5, 4)).astype(F32), "y": np.zeros((5, 4), F32),
             "z": rng.integers(0, 5, 5).astype(np.int32)}
    wanted = {**given, "y": given["y"].copy()}
    plain(**wanted)
    for seed in range(4):
        found = execute(low, {**given, "y": given["y"].copy()}, {"n": 5}, random.Random(seed))
        np.testing.assert_array_equal(found["y"], wanted["y"])


def test_matrix_instructions_do_not_wait() -> None:
    knl = lk.make_kernel("{[b, i, j, k, p, q]: 0<=b<n and 0<=i,j,p<8 and 0<=k,q<4}", """
        for b
            for p, q
                <> t[b, p, q] = 2*x[b, p, q]
            end
            for i, j
                y[b, i, j] = sum(k, t[b, i, k]*z[k, j])  {id=product}
            end
        end
        """)
    knl = lk.add_block_flags(lk.add_dtypes(knl, {"x,y,z": np.float64}), "t")
    knl = lk.tag_inames(lk.tensorize(knl, "product", "mma.m8n8k4.f64"), "b:g.0, p:l.0")
    with pytest.raises(lk.PreconditionError, match=r"threads wait for t\[b, i, k\] at each element"):
        lk.lower(knl)


def test_vectors_moved_without_waiting_are_found() -> None:
    """Those of the kernel in which nobody waits, in the program in which blocks do."""
    plain = lk.tag_inames(make("{[b, j]: 0<=b<n and 0<=j<4}", """
        for b
            <> part[b] = 2*z[b]
            for j
                y[b, j] = x[part[b], j]
            end
        end
        """, x=F32, z=np.int32), "b:g.0, j:vec")
    low, other = lowered_once(lk.add_block_flags(plain, "part")), lowered_once(plain)
    (own,), (vectors,) = ([vectors_of(node) for node in nodes_in(k.program.functions[0].body)
                           if isinstance(node, For) and vectors_of(node)] for k in (low, other))
    assert [v.array for v in vectors] == ["x", "y"]
    assert [v.array for v in own] == ["y"]
    wrong = changed(low, lambda node: replace(node, instruction=VectorAccess(vectors))
                    if isinstance(node, For) and vectors_of(node) else node)
    assert any("x[part, j] is moved without an inter-block flag" in str(f) for f in validate(wrong))
