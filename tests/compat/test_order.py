"""loopy's order: by dependences, with one loop for each iname."""
from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.order import Item, Loop, ordered


def order_of(instructions: str, domains: object = ("{[i,j]: 0<=i,j<n}", "{[k]: 0<=k<m}"), **options: object) -> str:
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
    # a statement inherits inames that all writers of a value have, a later writer included
    ("<> t = x[i] {id=a}\nt = t + 1 {id=b, dep=a}\no[0] = o[0] + t {dep=b}",
     "for i | <> t = x[i] | end | t = t + 1 | o[0] = o[0] + t"),
    # also through an argument
    ("u[i] = x[i] + z[j] {id=a}\no[0] = o[0] + u[3] {dep=a}",
     "for j | for i | u[i] = x[i] + z[j] | end | o[0] = o[0] + u[3] | end"),
    # the bound of a sum is read, too
    ("y[i] = sum(k, 1)\n<> m = x[i]", "for i | <> m = x[i] | y[i] = sum(k, 1) | end"),
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


def test_statements_that_depend_on_each_other_have_no_code() -> None:
    """As in loopy a kernel with a circle exists, and a query shows its dependences."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = b[i]\nb[i] = a[i]", target=lp.ExecutableCTarget())
    assert {k: set(s.depends_on) for k, s in unit["loopy_kernel"].id_to_insn.items()} == {
        "insn": {"insn_0"}, "insn_0": {"insn"}}
    for use in (lp.generate_code_v2, lambda u: u(a=np.ones(2), b=np.ones(2)), lambda u: lp.auto_test_vs_ref(u, None)):
        with pytest.raises(lp.diagnostic.DependencyCycleFound, match=r"insn -> insn_0 -> insn"):
            use(lp.split_iname(unit, "i", 4))


def test_a_circle_is_told_before_a_step_that_it_makes_undecided() -> None:
    text = "for i\n <> t = x[i]\n a[ind[i]] = b[i] + t\n b[ind[i]] = a[i]\nend"
    unit = lp.add_dtypes(lp.make_kernel("{[i]: 0<=i<16}", text, target=lp.ExecutableCTarget()), {"ind": np.int32})
    unit = lp.preprocess_kernel(lp.split_iname(lp.tag_inames(unit, "i:g.0"), "i", 4))
    with pytest.raises(lp.diagnostic.DependencyCycleFound, match=r"insn_0 -> insn_1 -> insn_0") as found:
        lp.generate_code_v2(unit)
    assert isinstance(found.value.__cause__, lk.UndecidedError | lk.IllegalTransformError)
    in_order = lp.make_kernel("{[i]: 0<=i<16}", text.replace("b[i] + t", "c[i] + t"), target=lp.ExecutableCTarget())
    with pytest.raises((lk.UndecidedError, lk.IllegalTransformError)):
        lp.tag_inames(lp.add_dtypes(in_order, {"ind": np.int32}), "i:g.0")


def is_ordered(text: str, step: object = None, **options: object) -> bool:
    unit = lp.make_kernel("{[i]: 0<=i<n}", text, options=options)
    unit = lp.add_dtypes(unit, {a.name: np.float32 for a in unit["loopy_kernel"].args if isinstance(a, lp.GlobalArg)})
    try:
        lp.generate_code_v2(unit if step is None else step(unit))  # type: ignore[operator]
    except lp.diagnostic.VariableAccessNotOrdered:
        return False
    return True


@pytest.mark.parametrize(("text", "expected"), [
    ("a[i] = 12 {id=first}\na[i+1] = 13", False),
    ("a[i] = 12 {id=first}\na[i+1] = 13 {dep=first}", True),
    ("a[i] = 12 {id=first}\nb[i] = 1 {dep=first, id=b}\na[i+1] = 13 {dep=b}", True),
    ("a[i] = 12 {id=first}\n... gbarrier {id=bar, dep=first}\na[i+1] = 13 {dep=bar}", True),
    # no element is common
    ("a[2*i] = 12\na[2*i+1] = 13", True),
    # the claim that no order is needed counts if both make it
    ("a[i] = 12 {id=f, nosync=g}\na[i+1] = 13 {id=g, nosync=f@global}", True),
    ("a[i] = 12 {id=f, nosync_query=writes:a@any}\na[i+1] = 13 {id=g, nosync=f}", True),
    ("a[i] = 12 {id=f}\na[i+1] = 13 {id=g, nosync=f}", False),
    # loopy compares no accesses of scalars
    ("<> t = 12\nt = 13\ny[i] = t", True),
    # a star leaves the writer of what is read out
    ("a[i] = x[i]\ny[i] = a[i]", True),
    ("a[i] = x[i]\ny[i] = a[i] {dep=*}", False),
    # all parts of a multiple assignment run before a reader of one of them
    ("u[i], v[i] = x[i], y[i]\nv[i+1] = u[i]", True),
])
def test_two_accesses_of_an_element_need_an_order(text: str, expected: bool) -> None:
    assert is_ordered(text) is expected


def test_functions_need_an_order_too() -> None:
    callee = lp.make_function("{[i]: 0<=i<3}", "a[i] = x[i]\na[i+1] = 13", name="f")
    caller = lp.make_kernel("{[j]: 0<=j<n}", "y[j, :] = f(x[j, :])", target=lp.ExecutableCTarget())
    with pytest.raises(lp.diagnostic.VariableAccessNotOrdered, match="'a'"):
        lp.merge([caller, callee])(x=np.ones((2, 3)), y=np.ones((2, 4)))
    made = lp.make_kernel("{[i]: 0<=i<n}", [
        lp.Assignment("a[i]", "1", id="f", no_sync_with=frozenset([("g", "any")])),
        lp.Assignment("a[i+1]", "2", id="g", no_sync_with=frozenset([("f", "any")]))])
    lp.generate_code_v2(made)


def test_options_and_steps_settle_the_order_of_two_accesses() -> None:
    text = "a[i] = 12 {id=f}\na[i+1] = 13 {id=g}"
    assert is_ordered(text, enforce_variable_access_ordered="no_check")
    with pytest.warns(lp.diagnostic.LoopyWarning, match="No chain of dependences"):
        assert is_ordered(text, enforce_variable_access_ordered=False)
    unit = lp.make_kernel("{[i]: 0<=i<n}", text, silenced_warnings="variable_*", options={
        "enforce_variable_access_ordered": False})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.generate_code_v2(unit)
    assert is_ordered(text, lambda unit: lp.add_dependency(unit, "id:g", "id:f"))
    assert is_ordered(text, lambda unit: lp.add_nosync(unit, "any", "id:f", "id:g", bidirectional=True))
    assert not is_ordered(text, lambda unit: lp.add_nosync(unit, "any", "id:f", "id:g"))
    assert is_ordered(text, lambda unit: lp.add_barrier(unit, "id:f", "id:g"))
    with pytest.raises(lp.LoopyError, match="enforce_variable_access_ordered"):
        is_ordered(text, enforce_variable_access_ordered="yes")


def test_claims_are_fields_of_statements() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {id=f, nosync=g@global}\nb[i] = a[i] {id=g}\nc[i] = 3 {id=h}")

    def claims(unit: lp.TranslationUnit) -> dict[str, set[tuple[str, str]]]:
        return {k: {*s.no_sync_with} for k, s in unit["loopy_kernel"].id_to_insn.items() if s.no_sync_with}

    assert claims(unit) == {"f": {("g", "global")}}
    assert claims(lp.add_nosync(unit, "local", "id:f", "id:g or id:h")) == {
        "f": {("g", "global")}, "g": {("f", "local")}}
    assert claims(lp.add_nosync(unit, "any", "id:f", "id:h", bidirectional=True, force=True)) == {
        "f": {("g", "global"), ("h", "any")}, "h": {("f", "any")}}
    queried = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {id=f, nosync_query=writes:*@local}\nb[i] = 2 {id=g, nosync=g}")
    assert claims(queried) == {"f": {("g", "local")}, "g": {("g", "any")}}
    assert str(queried).endswith("CLAIMS\n  id=f, no_sync_with=g@local\n  id=g, no_sync_with=g@any")
    assert "CLAIMS" not in str(lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1"))


def test_an_unknown_dependence_is_refused() -> None:
    with pytest.raises(lp.LoopyError, match="'other'"):
        lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {dep=other}")
    with pytest.raises(lp.LoopyError, match=r"'insn\*' is not a statement"):
        lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {dep=insn*}")
    assert order_of("a[i] = 1 {dep=other}", options={"check_dep_resolution": False}) == "for i | a[i] = 1 | end"


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
