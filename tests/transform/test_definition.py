"""Steps that define another kernel, and those that rename and label statements."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pymbolic import var

import loopkit as lk
from loopkit.analysis.dependences import dependences

X = np.arange(1, 9.0)


def pair(**options: Any) -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 0<=i<n}", "t[i] = 2*x[i] {id=A}\ny[i] = t[i] + 1 {id=B, dep=A}", **options)


def ran(knl: lk.LoopKernel, **arrays: Any) -> Any:
    return lk.compile(knl, target="c")(x=X, **arrays)


def test_a_kernel_grows() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", [])
    for name, source in (("a", "x"), ("b", "a"), ("c", "b")):
        knl = lk.with_statements(knl, [*knl.instructions, lk.Assignment(f"{name}[i]", f"2*{source}[i]", id=name)])
    knl = lk.with_statements(knl, [*knl.instructions, "s[j] = c[j]"], [*knl.domains, "{[j]: 0<=j<n}"])
    assert [s.id for s in knl.instructions] == ["a", "b", "c", "insn"]
    assert [step.verdict for step in knl.history] == ["defined"]*4
    out = ran(knl)
    assert np.array_equal(out.c, 8*X)
    assert np.array_equal(out.s, 8*X)


def test_dependences_are_those_of_the_new_order() -> None:
    knl = pair()
    turned = lk.with_statements(knl, [insn.copy(depends_on=()) for insn in knl.instructions[::-1]])
    assert {(d.source, d.sink, d.kind) for d in dependences(turned)} == {("B", "A", "anti")}
    assert np.array_equal(ran(turned, t=np.zeros(8)).y, np.ones(8))


def test_transformed_kernels_keep_order_tags_and_history() -> None:
    knl = lk.split_iname(pair(), "i", 4, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lk.IllegalTransformError, match=r"with_statements \(i_outer: g.0, i_inner: l.0\) would run"):
        lk.map_instructions(knl, "A", lambda insn: insn.copy(expression=insn.expression*var("y")[0]))
    changed = lk.map_instructions(knl, "B", lambda insn: insn.copy(expression=insn.expression*2))
    assert changed.tree == knl.tree
    assert dict(changed.tags) == dict(knl.tags)
    assert [step.verdict for step in changed.history] == ["proven", "defined"]
    assert np.array_equal(ran(changed).y, 4*X + 2)


def test_shared_loops_stay_shared() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = x[i] {id=A}\nend\nfor i\nz[i] = y[n-1-i] {id=B}\nend")
    new = lk.with_statements(knl, [knl.instructions[0], "b[i] = 3", knl.instructions[1]])
    assert new.statements_text.count("for i") == 3
    assert lk.with_statements(knl, knl.instructions).tree == knl.tree


def test_rules_temporaries_and_assumptions_stay() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(u) := u*u\n<> t = f(x[i]) {id=A}\ny[i] = t {id=B}\nunused[i] = 2 {id=C}", [
        lk.GlobalArg("x", np.float64, shape="n"), "...", lk.TemporaryVariable("unused", np.int32)],
        assumptions="n mod 4 = 0")
    new = lk.remove_instructions(knl, "C")
    assert (set(new.temporaries), set(new.substitutions)) == ({"t"}, {"f"})
    assert new.assumptions.is_equal(knl.assumptions)
    assert np.array_equal(ran(new).y, X*X)
    other = lk.with_statements(new, [lk.SubstitutionRule("f", ("u",), "3*u"), *new.instructions])
    assert np.array_equal(ran(other).y, 3*X)


@pytest.mark.parametrize("use", ["y[i] = t + 1", "y[i] = f(t)", "y[i] = sum(j, t*x[j])", "y[j] = 1",
                                 "y[i] = 1 {if=t > 2}"])
def test_readers_of_a_removed_value(use: str) -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[t] -> {[j]: 0<=j<t}"],
                         ["f(u) := u + 1", "for i", "<int32> t = b[i] {id=A}", f"{use} {{id=B}}" if "{" not in use else
                          use.replace("{", "{id=B, "), "end", "z[0] = 1 {id=C, inames=}"])
    with pytest.raises(lk.PreconditionError, match=r"(?s)'B.*' reads the temporary 't', .*remove 'B' too, or"):
        lk.remove_instructions(knl, "A")
    assert [s.id for s in lk.remove_instructions(knl, "A, B").statements] == ["C"]


def test_dep_goes_through_removed_statements() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {id=A}\nb[i] = 2 {id=B, dep=A}\nc[i] = 3 {id=C, dep=B, nosync=B}")
    new = lk.remove_instructions(knl, "B")
    assert new.statement("C").options.depends_on == {"A"}
    assert new.statement("C").options.no_sync_with == set()
    assert lk.remove_instructions(knl, None).instructions == ()


def test_an_order_with_other_values_is_no_definition() -> None:
    knl = lk.make_kernel("{[k, i]: 0<=k<8 and 0<=i<n}",
                         "for k\n<> t = x[k] {id=A}\nfor i\nt = t + x[i] {id=B}\nend\ny[k] = t\nend")
    jammed = lk.unroll_and_jam(knl, "k", 4)
    with pytest.raises(lk.PreconditionError, match="would read another value of 't' in it") as caught:
        lk.with_statements(jammed, jammed.instructions)
    assert "privatize(knl, 't')" in str(caught.value.hint)


def test_a_reduction_around_a_copy_is_no_expression() -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<8 and 0<=k<16}", "y[i] = sum(k, a[i,k])")
    knl = lk.add_prefetch(lk.split_iname(lk.add_dtypes(knl, {"a": np.float32}), "k", 4), "a", ["k_inner"])
    with pytest.raises(lk.PreconditionError, match=r"'insn\.k' of 'insn' shares its loops with other statements"):
        lk.with_statements(knl, knl.instructions)


def test_ordered_and_peeled_reductions() -> None:
    horner = lk.ReductionOperation("horner", "2*a + b")
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<8}", "y[i] = horner(k, a[i,k])", reductions=[horner])
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float64}), "k", 4)
    assert lk.with_statements(knl, knl.instructions).statements_text == knl.statements_text
    assert lk.to_batched(knl, 2, "y").statement("insn").inames == ("ibatch", "i")
    plain = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<8}", "y[i] = sum(k, a[i,k])")
    with pytest.raises(lk.PreconditionError, match=r"'insn\.k' of 'insn' has peeled iterations or is a scan"):
        lk.to_batched(lk.peel(plain, "k", first=1), 2, "y")


def test_scripts_of_definitions() -> None:
    knl = lk.with_statements(pair(), [lk.Assignment(var("y")[var("i")], "2*x[i]", id="only")])
    names: dict[str, Any] = {}
    exec(knl.history.script(), names)
    assert names["knl"] == knl
    assert knl.history.replay(pair()) == knl
    mapped = lk.map_instructions(knl, None, lambda insn: insn)
    with pytest.raises(lk.PreconditionError, match=r"Step 2 \(map_instructions\) cannot be written into a script"):
        mapped.history.script()


# Names and labels

def test_statements_get_other_ids() -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}",
                         "y[i] = sum(k, a[i,k]) {id=A}\nz[i] = y[i] {id=B, dep=A, nosync=A}")
    knl = lk.add_barrier(knl, "A", "B")
    new = lk.replace_instruction_ids(knl, {"A": "C", "B": "D"})
    assert [s.id for s in new.statements] == ["C.k.init", "C.k.update", "C", "D"]
    assert (new.statement("D").options.depends_on, new.statement("D").options.no_sync_with) == ({"C"}, {"C"})
    assert new.reductions["C.k"].final == "C"
    assert (new.barriers[0].first, new.barriers[0].second) == ("C", "D")
    assert {(d.source, d.sink) for d in dependences(new)} == {
        tuple({"A": "C", "B": "D"}.get(s.split(".")[0], "") + s[1:] for s in (d.source, d.sink))
        for d in dependences(knl)}


@pytest.mark.parametrize(("ids", "error", "message"), [
    ({"A": "B"}, lk.NameConflictError, "'B' is already the id of a statement"),
    ({"X": "B"}, lk.UnknownNameError, "'X' is not a statement of the kernel"),
    ({"A": []}, lk.PreconditionError, "'A' cannot get the ids of an empty list"),
    ({"A": "2x"}, lk.PreconditionError, "'A' cannot get the ids 2x"),
    ({"A": ["C", "nosuch"]}, lk.UnknownNameError, "'nosuch' is not a statement")])
def test_refused_ids(ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.replace_instruction_ids(pair(), ids)


def test_an_obligation_covers_the_statements_that_stay() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[first] -> {[k]: first<=k<first+2}"], """
        <> first = ptr[i] {id=first}
        y[k] = a*x[k] {id=store}
        z[i] = 1 {id=other}""")
    knl = lk.tag_inames(knl, {"i": "g.0"}, assume="the rows do not overlap")
    new = lk.map_instructions(knl, "other", lambda insn: insn.copy(expression=insn.expression + 1))
    assert (new.obligations, new.tags) == (knl.obligations, knl.tags)
    assert all(d.source != "store" for d in dependences(new))
    for changed in ("first", "store"):
        with pytest.raises(lk.UndecidedError, match="two instances of 'store'"):
            lk.map_instructions(knl, changed, lambda insn: insn.copy(
                assignee="y[k+1]" if insn.id == "store" else insn.assignee, expression=insn.expression + 1))


@pytest.mark.parametrize("first", [True, False])
def test_an_obligation_speaks_of_the_values_of_the_time(first: bool) -> None:
    """The caller spoke of the idx that the store reads, and idx[p] = 0 may give it other values."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "h[idx[i]] = x[i] {id=store}")
    knl = lk.tag_inames(knl, {"i": "g.0"}, assume="idx is a permutation")
    new, domains = "for p\n idx[p] = 0\nend", ["{[p]: 0<=p<n}", *map(str, knl.domains)]
    with pytest.raises(lk.UndecidedError, match="two instances of 'store'"):
        lk.with_statements(knl, [new, *knl.instructions] if first else [*knl.instructions, new], domains)
    both = lk.make_kernel(domains, f"h[idx[i]] = x[i] {{id=store}}\n{new}")
    both = lk.tag_inames(both, {"i": "g.0"}, assume="idx is a permutation")
    store, other = both.instructions
    if first:
        with pytest.raises(lk.UndecidedError, match="two instances of 'store'"):
            lk.with_statements(both, [other, store])
    else:
        assert lk.with_statements(both, [store, other]).obligations == both.obligations
