"""Must-writes: writes under conditions that replace the values of earlier writes."""
from __future__ import annotations

from dataclasses import replace

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.dependences import dependences
from loopkit.poly.relations import differing
from loopkit.poly.sets import fix_params
from tests.transform.same import assert_same

#: Loops over i in which no value of t lives from one iteration to the next.
ENDED = {
    "both branches": "if x[i] > 0\n <> t = 2*x[i]\nelse\n t = 3\nend\ny[i] = t",
    "three branches": "if x[i] > 0\n <> t = 2*x[i]\nelse\n if x[i] < -1\n  t = 3\n else\n  t = 5\n end\nend\ny[i] = t",
    "a value before": "<> t = 1\nif x[i] > 0\n t = 2*t\nend\ny[i] = t",
    "changed in one branch": "if x[i] > 0\n <> t = 2*x[i]\n t = t + 1\nelse\n t = 3\nend\ny[i] = t",
    "read in its own branch": "if x[i] > 0\n <> t = 2*x[i]\n z[i] = t\nelse\n t = 3\n z[i] = t\nend\ny[i] = t",
    "only in one branch": "if x[i] > 0\n <> t = 2*x[i]\n y[i] = t\nend",
    "only in the other branch": "if x[i] > 0\n y[i] = 1\nelse\n <> t = 2*x[i]\n y[i] = t\nend",
    "branches in the first branch":
        "if x[i] > 0\n if x[i] > 1\n  <> t = 2\n else\n  t = 3\n end\nelse\n t = 5\nend\ny[i] = t",
    "read further in": "if x[i] > 0\n <> t = 2\n if x[i] > 3\n  y[i] = t\n end\nend",
    "two flags in one condition":
        "<> p = x[i] > 0\n<> q = x[i] > 1\nif p and q\n <> t = 2\nelse\n t = 3\nend\ny[i] = t",
    "a flag by hand": "<> flag = x[i] > 0\n<> t = 1 {if=flag}\nt = 2 {if=not flag}\ny[i] = t",
}

#: Loops in which one may.
LIVING = {
    "one branch": "if x[i] > 0\n <> t = 2*x[i]\nend\ny[i] = t",
    "two of three branches": "if x[i] > 0\n <> t = 2*x[i]\nelse\n if x[i] < -1\n  t = 3\n end\nend\ny[i] = t",
    "read before": "z[i] = t\nif x[i] > 0\n <> t = 2*x[i]\nelse\n t = 3\nend\ny[i] = t",
    "read in the first write": "if x[i] > 0\n <> t = 2*t\nelse\n t = 3\nend\ny[i] = t",
    "read in the second write": "if x[i] > 0\n <> t = 2\nelse\n t = 3*t\nend\ny[i] = t",
    "read between": "<> flag = x[i] > 0\n<> t = 1 {if=flag}\nz[i] = t\nt = 2 {if=not flag}\ny[i] = t",
    "read between, under another flag": "<> flag = x[i] > 0\n<> other = x[i] > 1\n<> t = 1 {if=flag}\n"
                                        "z[i] = t {if=other}\nt = 2 {if=not flag}\ny[i] = t",
    "a flag that changes": "<> flag = x[i] > 0\n<> t = 1 {if=flag}\nflag = x[i] > 1\nt = 2 {if=not flag}\ny[i] = t",
    "two flags": "<> flag = x[i] > 0\n<> other = x[i] > 1\n<> t = 1 {if=flag}\nt = 2 {if=not other}\ny[i] = t",
}


def kernel(body: str) -> lk.LoopKernel:
    arrays = [lk.GlobalArg(name, np.float64) for name in "xyz" if f"{name}[" in body]
    return lk.make_kernel("{[i]: 0<=i<n}", f"for i\n{body}\nend", [*arrays, "..."])


def lives_on(knl: lk.LoopKernel) -> bool:
    """Does a value of t flow from one iteration of i to a later one?"""
    loops = {s.id: s.inames.index("i") for s in knl.statements if "i" in s.inames}
    return any(d.array == "t" and d.source in loops and d.sink in loops
               and differing(d.relation, [(loops[d.source], loops[d.sink])]) is not None for d in dependences(knl))


@pytest.mark.deep
@pytest.mark.parametrize("body", ENDED.values(), ids=ENDED.keys())
def test_no_old_value_lives_on(body: str) -> None:
    knl = kernel(body)
    assert not lives_on(knl)
    mapped = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    str(lk.generate_code(mapped, target="cuda"))
    assert_same(knl, mapped, n=11)


@pytest.mark.deep(every=10)
@pytest.mark.parametrize("body", ENDED.values(), ids=ENDED.keys())
def test_nor_where_flags_are_set_in_several_loops(body: str) -> None:
    """Peeling makes a statement that sets the flag for each loop that it makes."""
    knl = kernel(body)
    peeled = lk.peel(knl, "i", first=2, last=1)
    assert not lives_on(peeled)
    mapped = lk.split_iname(peeled, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert lk.verify(lk.lower(mapped, stop="types").kernel).ok
    for n in (0, 1, 2, 3, 9):
        assert_same(knl, mapped, n=n)


@pytest.mark.deep
@pytest.mark.parametrize("body", ENDED.values(), ids=ENDED.keys())
def test_nor_where_flags_have_a_cell_for_each_iteration(body: str) -> None:
    knl = kernel(body)
    expanded = knl
    for name in [t for t in knl.temporaries if t != "t"]:
        expanded = lk.expand(expanded, name, "i")
    peeled = lk.peel(expanded, "i", first=1, last=1)
    assert not lives_on(peeled)
    for n in (0, 1, 2, 3, 9):
        assert_same(knl, peeled, n=n)


@pytest.mark.parametrize("written", ["flag[i+1]", "flag[at[i]]"])
def test_a_flag_in_another_cell_says_nothing(written: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"""
for i
 <> {written} = x[i] > 0
 <> t = 2*x[i] {{if=flag[i]}}
 y[i] = t {{if=flag[i]}}
end
""", [lk.GlobalArg("x", np.float64), lk.GlobalArg("at", np.int32), "..."] if "at" in written
     else [lk.GlobalArg("x", np.float64), "..."])
    assert lives_on(knl)


@pytest.mark.parametrize("again", [
    "for k\n  flag = z[k] > 1\n end", "for k\n  flag = z[k] > 1\n  w[k] = t {if=flag}\n end"])
def test_a_flag_that_changes_in_a_loop_between(again: str) -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<2}", f"""
for i
 <> flag = x[i] > 0
 <> t = 2*x[i] {{if=flag}}
 {again}
 y[i] = t {{if=flag}}
end
""", [lk.GlobalArg("x", np.float64), lk.GlobalArg("y", np.float64), lk.GlobalArg("z", np.float64), "..."])
    assert lives_on(knl)


@pytest.mark.parametrize("body", LIVING.values(), ids=LIVING.keys())
def test_an_old_value_may_live_on(body: str) -> None:
    assert lives_on(kernel(body))


@pytest.mark.parametrize("subscript", ["[i]", "[0]"])
def test_cells_of_an_array(subscript: str) -> None:
    knl = kernel(f"if x[i] > 0\n <> t{subscript} = 2*x[i]\nelse\n t{subscript} = 3\nend\ny[i] = t{subscript}")
    assert not lives_on(knl)


def test_another_cell_is_not_ended() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            if x[i] > 0
                <> t[i] = 2*x[i]
            else
                t[i+1] = 3
            end
            y[i] = t[i]
        end
        """, [lk.GlobalArg("x", np.float64), "..."])
    assert lives_on(knl)


def flows(knl: lk.LoopKernel, kind: str, source: str, sink: str) -> str:
    found = [d.relation for d in dependences(knl) if (d.kind, d.array, d.source, d.sink) == (kind, "t", source, sink)]
    assert len(found) <= 1
    return str(fix_params(found[0], {"n": 4})) if found else ""


def test_a_flag_is_sure_of_the_cell_of_its_own_iteration_only() -> None:
    """t[i] is written where flag[i] holds, t[n-1-i] is read there: it was written where flag[n-1-i] held."""
    knl = lk.make_kernel("{[i,k]: 0<=i,k<n}", """
        for k
            <> t[k] = 7 {id=init}
        end
        for i
            <> flag = x[i] > 2
            t[i] = x[i] {id=write, if=flag}
            y[i] = t[n-1-i] {id=read, if=flag}
        end
        """, [lk.GlobalArg("x,y", np.float64), "..."])
    every = isl.Map("{ [k] -> [i = 3 - k] : 0 <= k < 4 }")
    assert isl.Map(flows(knl, "flow", "init", "read")).is_equal(every)
    own = in_own_order(knl, statements=tuple(
        replace(s, expression=p.Subscript(p.Variable("t"), p.Variable("i"))) if s.id == "read" else s
        for s in knl.statements))
    assert flows(own, "flow", "init", "read") == ""


def last_write(text: str) -> lk.LoopKernel:
    return lk.make_kernel("{[i,j]: 0<=i,j<n}", f"<> t = 0\n<> u[0] = 0\nfor i, j\n{text}\nend\ny[0] = t + u[0]",
                          [lk.GlobalArg("x", np.float64, shape=("n", "n")), lk.GlobalArg("y", np.float64),
                           lk.GlobalArg("idx", np.int32, shape=("n",)),
                           lk.TemporaryVariable("u", np.float64, shape=(1,)), "..."])


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("text", [
    "t = x[i,j] {if=x[i,j] > 2}", "if x[i,j] > 2\n t = 1\nelse\n u[0] = i\nend", "u[idx[i]] = x[i,j]"])
def test_the_order_of_writes_of_which_any_may_be_the_last_binds(text: str) -> None:
    """Data decide which of the writes is the last one, so their order must stay."""
    knl = last_write(text)
    with pytest.raises(lk.UndecidedError):
        lk.interchange(knl, "i", "j")
    with pytest.raises(lk.LoopkitError):
        lk.lower(lk.tag_inames(lk.fix_parameters(knl, n=4), "i:l.0"))
    with pytest.raises(lk.LoopkitError):
        lk.lower(lk.tag_inames(knl, "j:g.0"))
    assert_same(knl, lk.split_iname(knl, "j", 2), n=5, idx=np.zeros(5, np.int32))


def test_an_else_is_printed_as_one() -> None:
    code = str(lk.generate_code(kernel(ENDED["both branches"]), target="c"))
    assert "} else {" in code
    assert "if (!" not in code


#: Loops over rows k of blocks i, in bounds that are read from memory; does a value of t flow to a later block?
ROWS = {
    "in the same bounds": ("for k\n <> t = x[k]\n y[k] = t\nend", False),
    "in another loop of the same bounds": ("for k\n <> t[k] = x[k]\nend\nfor k\n y[k] = t[k]\nend", False),
    "after the loop": ("for k\n <> t = x[k]\nend\ny[i] = t", True),
    "in wider bounds": ("for k\n <> t[k] = x[k]\nend\nfor j\n y[j] = t[j]\nend", True),
    "after the bounds changed": ("for k\n <> t[k] = x[k]\nend\nlast = last + 1\nfor k\n y[k] = t[k]\nend", True),
    "under a flag in the loop": ("for k\n <> f = x[k] > 0\n <> t = 1 {if=f}\n y[k] = t {if=f}\nend", False),
    "under another flag in the loop": ("for k\n <> f = x[k] > 0\n <> t = 1 {if=f}\n y[k] = t\nend", True),
}


@pytest.mark.parametrize(("body", "lives"), ROWS.values(), ids=ROWS)
def test_bounds_that_are_read_from_memory(body: str, lives: bool) -> None:
    arrays = [*(lk.GlobalArg(name, np.float64) for name in "xy" if f"{name}[" in body), lk.GlobalArg("rows", np.int32)]
    domains = ["{[i]: 0<=i<n}", "{[k]: first<=k<last}", *(["{[j]: 0<=j<9}"] if "for j" in body else [])]
    knl = lk.make_kernel(domains, f"for i\n<> first = rows[i]\n<> last = rows[i+1]\n{body}\nend", [*arrays, "..."])
    assert lives_on(knl) is lives
