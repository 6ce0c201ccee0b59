"""loopy's order: by dependences, with one loop for each iname."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.order import Item, Loop, ordered


def order_of(instructions: str, domains: str = "{[i,j]: 0<=i,j<n}", **options: object) -> str:
    unit = lp.make_kernel(domains, instructions, **options)
    return " | ".join(line.strip().partition("  {")[0] for line in
                      unit.default_entrypoint.core.statements_text.splitlines())


@pytest.mark.parametrize(("text", "expected"), [
    # the only writer runs first
    ("y[i] = a[i]\na[i] = 2*x[i]", "for i | a[i] = 2*x[i] | y[i] = a[i] | end"),
    # two writers: the order of the text
    ("a[i] = 1\ny[i] = a[i]\na[i] = 2", "for i | a[i] = 1 | y[i] = a[i] | a[i] = 2 | end"),
    # unless dep= decides
    ("a[i] = 1 {dep=last}\na[i] = 2 {id=last}", "for i | a[i] = 2 | a[i] = 1 | end"),
    ("a[i] = 1 {dep=l*}\na[i] = 2 {id=last}", "for i | a[i] = 2 | a[i] = 1 | end"),
    # and with a star nothing else does
    ("y[i] = a[i] {dep=*}\na[i] = 2*x[i]", "for i | y[i] = a[i] | a[i] = 2*x[i] | end"),
    # one loop for each iname: what is between two statements of it goes before or after
    ("a[i] = x[i]\nz[j] = x[j]\nb[i] = a[i]", "for i | a[i] = x[i] | b[i] = a[i] | end | for j | z[j] = x[j] | end"),
    ("a[i] = 1\nz = 3 {id=z}\nb[i] = z {dep=z}", "z = 3 | for i | a[i] = 1 | b[i] = z | end"),
    # a loop is split where a statement outside of it must run between
    ("a[i] = 1 {id=a}\ns[0] = 3 {id=s, dep=a}\nb[i] = 1 {dep=s}",
     "for i | a[i] = 1 | end | s[0] = 3 | for i | b[i] = 1 | end"),
    # a barrier orders the statements around it
    ("b[i] = 1 {dep=bar}\n... gbarrier {id=bar, dep=a}\na[j] = 1 {id=a}",
     "for j | a[j] = 1 | end | ... gbarrier | for i | b[i] = 1 | end"),
    # the condition of a block is that of each statement in it
    ("if x[0] > 3\n  a[i] = 1\nelse\n  b[i] = 2\nend", "for i | a[i] = 1 | b[i] = 2 | end"),
])
def test_statements_run_in_loopys_order(text: str, expected: str) -> None:
    assert order_of(text) == expected


def test_a_sequence_is_kept() -> None:
    text = "a[i] = 1\nb[j] = 2\nc[i] = 3"
    assert order_of(text) == "for i | a[i] = 1 | c[i] = 3 | end | for j | b[j] = 2 | end"
    assert order_of(text, seq_dependencies=True) == \
        "for i | a[i] = 1 | end | for j | b[j] = 2 | end | for i | c[i] = 3 | end"


def test_statements_that_depend_on_each_other_are_refused() -> None:
    with pytest.raises(lp.diagnostic.DependencyCycleFound, match=r"insn -> insn_0 -> insn"):
        lp.make_kernel("{[i]: 0<=i<n}", "a[i] = b[i]\nb[i] = a[i]")


def test_an_unknown_dependence_is_refused() -> None:
    with pytest.raises(lp.LoopyError, match="'other'"):
        lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {dep=other}")


@st.composite
def programs(draw: st.DrawFn) -> list[Item]:
    """Statements over some of three inames, which depend on statements of smaller number."""
    count = draw(st.integers(1, 7))
    places = draw(st.permutations(range(count)))
    return [Item(f"s{k}", places[k], draw(st.frozensets(st.sampled_from("ijk"))),
                 frozenset(f"s{d}" for d in draw(st.sets(st.integers(0, k - 1)) if k else st.just(set[int]()))),
                 f"s{k}")
            for k in range(count)]


def flattened(nodes: tuple[Loop | Item, ...], around: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    return [entry for node in nodes for entry in (
        flattened(node.body, (*around, node.iname)) if isinstance(node, Loop) else [(node.id, around)])]


@settings(max_examples=25)
@given(programs())
def test_each_statement_is_once_in_its_loops_after_what_it_depends_on(items: list[Item]) -> None:
    flat = flattened(ordered(items, "ijk"))
    places = {name: k for k, (name, _) in enumerate(flat)}
    assert sorted(places) == sorted(item.id for item in items)
    for item in items:
        assert frozenset(flat[places[item.id]][1]) == item.inames
        assert all(places[x] < places[item.id] for x in item.after)


@settings(max_examples=25)
@given(programs())
def test_a_loop_is_entered_once_if_its_statements_may_be_together(items: list[Item]) -> None:
    """Without dependences between statements, only inames that overlap partly need several loops."""
    free = [Item(item.id, item.place, item.inames & frozenset("i"), frozenset(), item.text) for item in items]
    assert sum(isinstance(node, Loop) for node in ordered(free, "ijk")) <= 1


def test_the_numbers_are_those_of_one_loop() -> None:
    """Two statements of one iname share its loop, so elements are read before later iterations write them."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = x[i] {id=a}\nb[i] = a[n-1-i] {dep=a}", target=lp.ExecutableCTarget())
    _, (_, b) = unit(x=np.arange(1., 4.), a=np.zeros(3))
    assert b.tolist() == [0, 2, 1]
