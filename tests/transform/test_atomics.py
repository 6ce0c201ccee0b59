"""Atomic updates: what they free from order, and what they do not."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences
from loopkit.errors import InternalError
from loopkit.kernel.target import resolve_target
from loopkit.target.code import Layout, TextTarget, write_code
from loopkit.verification.report import Verdict
from tests.transform.same import assert_same, step
from tests.verification.faults import faults

Step = Callable[[lk.LoopKernel], lk.LoopKernel]


def over_blocks(iname: str) -> Step:
    return lambda knl: lk.split_iname(knl, iname, 4, outer_tag="g.0", inner_tag="l.0")


def kernel(domains: str, text: str) -> lk.LoopKernel:
    knl = lk.make_kernel(domains, text, assumptions="n>=1")
    return lk.add_dtypes(knl, {a: np.int32 for a in ("h", "w", "g") if a in knl.argument_by_name})


def test_refused_updates_name_make_atomic() -> None:
    knl = kernel("{[i]: 0<=i<n}", "h[i//3] = h[i//3] + w[i] {id=add}\nh[i//5] = h[i//5] + 1 {id=one}")
    with pytest.raises(lk.IllegalTransformError, match=r"make_atomic\(knl, \['add', 'one'\]\)"):
        over_blocks("i")(knl)
    over_blocks("i")(step(knl, lk.make_atomic))
    data = lk.make_kernel("{[i]: 0<=i<n}", "h[b[i]] = h[b[i]] + 1 {id=add}", [lk.GlobalArg("b", np.int32), "..."])
    with pytest.raises(lk.UndecidedError, match=r"make_atomic\(knl, 'add'\)"):
        over_blocks("i")(data)


def test_a_step_makes_atomic_what_the_option_makes() -> None:
    text = "h[j] = 0 {{id=zero}}\nh[i//3] = h[i//3] + w[i] {{id=add{0}}}\ny[k] = h[k] {{id=out}}"
    domains = "{[i,j,k]: 0<=i,j,k<n}"
    made = step(kernel(domains, text.format("")), lk.make_atomic, "add")
    written = kernel(domains, text.format(", atomic"))
    assert made == written
    pairs = [{(d.source, d.sink, d.kind): d.relation for d in dependences(knl)} for knl in (made, written)]
    assert pairs[0].keys() == pairs[1].keys()
    assert all(relation.is_equal(pairs[1][key]) for key, relation in pairs[0].items())
    assert ("add", "add", "flow") not in pairs[0]
    assert ("zero", "add", "flow") in pairs[0]


@pytest.mark.parametrize(("text", "error", "message"), [
    ("h[i] = h[i] + 1 {id=S, atomic}", lk.PreconditionError, "'kernel' has no update, except atomic ones"),
    ("h[0] = sum(j, w[j]) {id=S, inames=i}", lk.UndecidedError, "the atomic stores of 'S' may decide"),
    ("h[i] = h[i] + 1 {id=S, atomic=3}", lk.ParseError, "expected"),
])
def test_what_is_no_update(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.make_atomic(kernel("{[i,j]: 0<=i,j<n}", text), "S")


def test_a_temporary_whose_values_lost_their_order() -> None:
    knl = kernel("{[i,j]: 0<=i,j<n}", "for i\n<> t = w[i] {id=set}\nt = t + 1 {id=add}\ny[i] = t {id=out}\nend")
    assert_same(knl, lk.make_atomic(knl, "add"), n=5)
    apart = lk.distribute_loop(knl, "i", before="out")
    with pytest.raises(lk.PreconditionError, match="make the updates of 't' atomic before"):
        lk.make_atomic(apart, "add")


def test_an_operand_of_another_dtype() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "h[i//2] = h[i//2] + w[i] {id=add, atomic}",
                         [lk.GlobalArg("h", np.float32), lk.GlobalArg("w", np.float64), "..."])
    with pytest.raises(lk.TypeInferenceError, match="cannot be computed in another one"):
        lk.lower(knl)


def test_an_update_that_cuda_swaps() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "h[i//2] = max(h[i//2], w[i]) {id=add, atomic}", ["h", "w", "..."])
    knl = over_blocks("i")(lk.add_dtypes(knl, {"h,w": np.float32}))
    assert "atomic_update(&h[" in str(lk.generate_code(knl, target="cuda"))
    # the host has no such update: its blocks run one after another
    assert "omp" not in str(lk.generate_code(knl, target="c"))
    w = np.array([3, 1, 2], np.float32)
    assert knl(w=w, h=np.zeros(2, np.float32)).h.tolist() == [3, 2]


# Buffers

def counting(text: str = "h[x[i]] = h[x[i]] + w[i] {id=count, atomic}") -> lk.LoopKernel:
    return lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<20}", text, [
        lk.GlobalArg("h", np.int32, shape=20), lk.GlobalArg("x", np.uint8), lk.GlobalArg("w", np.int32), "..."])


def buffered(knl: lk.LoopKernel) -> lk.LoopKernel:
    knl = lk.split_iname(knl, "i", 12, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, inner_tag="l.0", within="count")
    return step(knl, lk.buffer_array, "h", "i_inner_outer, i_inner_inner", within="count")


@pytest.mark.deep
def test_a_buffer_for_each_block() -> None:
    knl = buffered(counting("h[j] = j {id=begin}\nh[x[i]] = h[x[i]] + w[i] {id=count, atomic}\n"
                            "y[j] = 2*h[j] {id=out}"))
    knl = lk.add_barrier(knl, "begin", "init_h")
    code = str(lk.generate_code(knl, target="cuda"))
    assert "__shared__ int h_buf[20];" in code
    assert "atomicAdd(&h_buf[" in code
    assert "atomicAdd(&h[" in code
    assert [c.verdict for c in lk.verify(knl, full=True).checks if c.name != "bounds"] == [Verdict.PROVEN]*5
    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 20, 50).astype(np.uint8), rng.integers(-9, 9, 50).astype(np.int32)
    found = knl(x=x, w=w, h=np.zeros(20, np.int32))
    wanted = np.arange(20) + np.bincount(x, w, 20)
    assert (found.h == wanted).all()
    assert (found.y == 2*wanted).all()


def test_a_buffer_of_a_buffer() -> None:
    """Each row of threads has one of its own, which goes to the block's, which goes to the array."""
    knl = lk.split_iname(counting(), "i", 32, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 8, outer_tag="l.1", inner_tag="l.0")
    knl = step(knl, lk.buffer_array, "h", "i_inner_outer, i_inner_inner")
    knl = step(knl, lk.buffer_array, "h_buf", "i_inner_inner", within="count", default_tag="l.0")
    x, w = np.arange(77, dtype=np.uint8) % 20, np.arange(77, dtype=np.int32)
    assert (knl(x=x, w=w, h=np.ones(20, np.int32)).h == 1 + np.bincount(x, w, 20)).all()
    assert "__shared__ int h_buf_buf[4][20];" in str(lk.generate_code(knl, target="cuda"))


@pytest.mark.deep
def test_a_copy_for_each_lane_side_by_side() -> None:
    """Lanes that count the same value do so in banks of their own."""
    knl = lk.split_iname(counting(), "i", 32, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_iname="item", inner_iname="lane", inner_tag="l.0")
    knl = lk.buffer_array(knl, "h", "item", default_tag=None)
    knl = step(knl, lk.expand, "h_buf", "lane", trailing=True)
    assert "__shared__ int h_buf[20][4];" in str(lk.generate_code(
        lk.set_temporary_address_space(knl, "h_buf", "local"), target="cuda"))
    x, w = np.arange(77, dtype=np.uint8) % 20, np.arange(77, dtype=np.int32)
    assert (knl(x=x, w=w, h=np.ones(20, np.int32)).h == 1 + np.bincount(x, w, 20)).all()


def test_a_buffer_where_the_subscript_is_affine_for_each_value() -> None:
    """What no form is may be anywhere along its axis."""
    knl = lk.make_kernel("{[i,k]: 0<=i<3 and 0<=k<4}", "h[i*(n//4)] = h[i*(n//4)] + w[k] {id=add, atomic}",
                         [lk.GlobalArg("h", np.int32, shape=21), lk.GlobalArg("w", np.int32), "..."],
                         assumptions="4<=n<=40")
    found = step(knl, lk.buffer_array, "h", "k", default_tag=None)
    for n in (4, 39):
        assert_same(knl, found, n=n)


@pytest.mark.deep
def test_partial_sums_in_registers() -> None:
    knl = kernel("{[i,k]: 0<=i<n and 0<=k<m}", "h[i] = h[i] + a[i,k] {id=add, atomic}")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.int32}), "k", 4, outer_tag="g.0")
    found = step(knl, lk.buffer_array, "h", "k_inner")
    assert "int h_buf;" in str(lk.generate_code(found, target="cuda"))
    for n, m in ((1, 1), (5, 11)):
        assert_same(knl, found, n=n, m=m)


def test_a_reader_in_the_filling() -> None:
    """What reads the array among its updates would miss those that are still in the buffer."""
    text = "for i, k\nh[i] = h[i] + w[k] {id=add, atomic}\ny[i,k] = h[i] {id=out}\nend"
    knl = kernel("{[i,k]: 0<=i<n and 0<=k<m}", text)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.buffer_array(knl, "h", "k", within="add", default_tag=None)
    assert "out" in (caught.value.witness.source[0], caught.value.witness.sink[0])
    with pytest.raises(lk.PreconditionError, match="'out' uses 'h' in another way"):
        lk.buffer_array(knl, "h", "k")


def test_buffers_that_cannot_be() -> None:
    with pytest.raises(lk.PreconditionError, match="whose extent is not declared"):
        lk.buffer_array(lk.make_kernel("{[i]: 0<=i<n}", "h[x[i]] = h[x[i]] + 1 {atomic}", ["h", "x", "..."]), "h", "i")
    with pytest.raises(lk.PreconditionError, match="the dtype of 'h' is unknown"):
        lk.buffer_array(lk.make_kernel("{[i,k]: 0<=i,k<n}", "h[i] = h[i] + w[k] {atomic}"), "h", "k")
    with pytest.raises(lk.PreconditionError, match="are for values"):
        lk.buffer_array(counting(), "h", "i", fetch_bounding_box=True)


# The old value of an update

def compaction() -> lk.LoopKernel:
    return lk.make_kernel("{[b, i]: 0<=b<n and 0<=i<64}", """
        for b
            <> count = 0
            for i
                if x[b, i] > 0
                    <> place, count = count, count + 1 {id=take, atomic}
                    y[b, place] = x[b, i]
                end
            end
            total[b] = count
        end
        """, [lk.GlobalArg("x,y", np.float32, shape="n, 64"), "..."])


@pytest.mark.parametrize("tags", ["", "b:g.0, i:l.0"])
def test_each_update_keeps_another_value(tags: str) -> None:
    """Threads take places from a counter in shared memory, in any order."""
    knl = lk.tag_inames(compaction(), tags, assume="places differ") if tags else compaction()
    assert [o.claim for o in knl.obligations][:1] == ["'take' may keep the old values in any order"]
    x = np.random.default_rng(2).normal(size=(3, 64)).astype(np.float32)
    found = knl(x=x, y=np.zeros_like(x))
    for row, own, total in zip(x, found.y, found.total, strict=True):
        assert sorted(own[:total]) == sorted(row[row > 0])
        assert not own[total:].any()
    if tags:
        assert "place = atomicAdd(&count, 1);" in str(lk.generate_code(knl, target="cuda"))
        assert "place = atomic_add(&count, 1);" in str(lk.generate_code(knl, target="opencl"))
    assert lk.verify(knl, full=True).verdict is not Verdict.REFUTED


def test_an_old_value_and_its_update_stay_together() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "old[i], h[b[i]] = h[b[i]], h[b[i]] + 1 {id=A, atomic}", [
        lk.GlobalArg("b,h", np.int32, shape="n"), "..."])
    for apart in (lk.distribute_loop(knl, "i", "A_1"), lk.split_iname(knl, "i", 4, inner_tag="ilp")):
        with pytest.raises(lk.PreconditionError, match=r"'A' keeps .* but the update does not follow it directly"):
            lk.generate_code(apart, target="c")
    with pytest.raises(lk.PreconditionError, match="but 'A' uses 'h' in another way"):
        lk.buffer_array(lk.split_iname(knl, "i", 4), "h", "i_inner")
    with pytest.raises(lk.UndecidedError, match=r"old, h\[b\[i\]\] = h\[b\[i\]\], h\[b\[i\]\] \+ 1 \{atomic\}"):
        lk.make_kernel("{[i]: 0<=i<n}", "<> old = h[b[i]] {atomic}\ny[i] = old", [lk.GlobalArg("b", np.int32), "..."])


def test_an_update_does_not_use_the_place_of_its_old_value() -> None:
    """One step evaluates the operand before it keeps the old value, and two statements after it."""
    arrays = [lk.GlobalArg("b,h,y", np.int32, shape="n"), "..."]
    for text in ("y[i], h[b[i]] = h[b[i]], h[b[i]] + y[i] {atomic}", "b[i], h[b[i]] = h[b[i]], h[b[i]] + 1 {atomic}"):
        with pytest.raises(lk.ParseError, match=r"The update of 'h' uses '[by]', which keeps its old value"):
            lk.make_kernel("{[i]: 0<=i<n}", text, arrays)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i], h[b[i]] = h[b[i]], h[b[i]] + 1 {id=A, atomic}", arrays)
    knl = lk.map_instructions(knl, "A_1", lambda insn: insn.copy(expression="h[b[i]] + y[i]"))
    with pytest.raises(lk.PreconditionError, match="or uses the place where it is kept"):
        lk.generate_code(knl, target="c")


def test_a_step_stays_one_beside_other_code() -> None:
    """Calls of functions and C instructions are rewritten after the step is made. Apart, the two have no text."""
    take = lk.make_function("{[k]: 0<=k<4}", "p[k], h[b[k]] = h[b[k]], h[b[k]] + 1 {id=A, atomic}", [
        lk.GlobalArg("b,p", np.int32, shape=4), lk.GlobalArg("h", np.int32, shape=9)], name="take")
    code = lk.CInstruction("i", "$y = $x > 0;", {"x": "b[i, 0]"}, {"y": "y[i]"}, id="sign")
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["for i", "p[i, :], h[:] = take(b[i, :], h[:])", code, "end"], [
        lk.GlobalArg("b,p", np.int32, shape="n, 4"), lk.GlobalArg("h", np.int32, shape=9),
        lk.GlobalArg("y", np.int32, shape="n"), "..."], functions=[take])
    knl = lk.tag_inames(knl, "i:g.0")
    assert "p[4*i + k] = atomicAdd(&h[b[4*i + k]], 1);" in str(lk.generate_code(knl, target="cuda"))
    b = np.array([[1, 1, 2, 1]], np.int32)
    assert knl(b=b, h=np.zeros(9, np.int32)).p.tolist() == [[0, 1, 0, 2]]
    low, target = lk.lower(knl), resolve_target("cuda")
    apart = next(fault.program for fault in faults(low.program) if fault.kind == "step taken apart")
    assert isinstance(target, TextTarget)
    with pytest.raises(InternalError, match="loads an old value, and not in one step"):
        write_code(replace(low, program=apart), target, Layout())


def test_an_old_value_in_a_threads_own_memory() -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<3}", """
        for i
            <> count = 0
            for k
                y[i, k], count = count, count + 2 {atomic}
            end
        end
        """, [lk.GlobalArg("y", np.int32, shape="n, 3"), "..."])
    knl = lk.tag_inames(knl, "i:g.0")
    assert "y[3*i + k] = count;\n        count += 2;" in str(lk.generate_code(knl, target="cuda"))
    assert knl(n=2).y.tolist() == [[0, 2, 4]]*2
