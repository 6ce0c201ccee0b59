"""within= as a match expression."""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.transform.step import matching_statements
from tests.transform.kernels import F32


def program() -> lk.LoopKernel:
    return lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<n and 0<=k<n}", """
        for i
            <> t = x[i] {id=load, tags=early}
            y[i] = t + x[i] {id=first}
            z[i] = sum(k, a[i, k]*x[k]) {id=dot}
        end
        for j
            y[j] = y[j] + 1 {id=last, tags=late}
        end
        """, [lk.GlobalArg("x,y,z,a", F32), "..."])


DOT = {"dot", "dot.k.init", "dot.k.update"}
ALL = {"load", "first", "last"} | DOT


@pytest.mark.parametrize(("within", "names"), [
    ("first", {"first"}),
    ("id:first", {"first"}),
    ("id: first", {"first"}),
    ("first, last", {"first", "last"}),
    ("first or id:last", {"first", "last"}),
    ("l*", {"load", "last"}),
    ("id:[fl]*", {"load", "first", "last"}),
    ("*", ALL),
    ("dot", DOT),
    ("dot.k.update", {"dot.k.update"}),
    (["first", "l*"], {"load", "first", "last"}),
    (("first", "writes:z"), {"first"} | DOT),
    ("writes:y", {"first", "last"}),
    ("writes:y and iname:i", {"first"}),
    ("iname:k", DOT),
    ("reads:t", {"first"}),
    ("reads:x", {"load", "first"} | DOT),
    ("reads:x and not reads:a", {"load", "first"}),
    ("reads:y", {"last"}),
    ("tag:early", {"load"}),
    ("tag:*", {"load", "last"}),
    ("not writes:y", {"load"} | DOT),
    ("not not first", {"first"}),
    ("not (first or last) and iname:i", {"load"} | DOT),
    ("first or last and reads:y", {"first", "last"}),          # and binds tighter
    ("(first or last) and reads:y", {"last"}),
    ("first, last and tag:late", {"first", "last"}),
    ("(first, last) and tag:late", {"last"}),
    ("  (first)  ", {"first"}),
])
def test_names(within: str, names: set[str]) -> None:
    assert matching_statements(program(), within) == names


def test_no_within_names_all() -> None:
    assert matching_statements(program(), None) == {s.id for s in program().statements}


def test_what_a_rule_reads_its_statement_reads() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        f(q) := x[q]
        y[i] = f(i) {id=first}
        z[i] = y[i] {id=second}
        """)
    assert matching_statements(knl, "reads:x") == {"first"}


def test_in_a_transformation() -> None:
    knl = lk.rename_iname(program(), "i", "row", within="writes:y and not iname:j or reads:a or tag:early")
    assert {s.inames for s in knl.statements} == {("row",), ("row", "k"), ("j",)}


@pytest.mark.parametrize(("within", "column", "expected"), [
    ("", 1, "a pattern"),
    ("first or", 9, "a pattern"),
    ("first and or last", 11, "a pattern"),
    ("first last", 7, "'and', 'or', ',' or the end"),
    ("(first or last", 15, "')'"),
    ("first)", 6, "'and', 'or', ',' or the end"),
    ("first,,last", 7, "a pattern"),
    ("wrote:y", 1, "a pattern"),
    ("not", 4, "a pattern"),
    ("first and writes:", 11, "a name after 'writes:'"),
    ("("*101 + "first" + ")"*101, 101, "at most 100 levels"),
])
def test_unreadable(within: str, column: int, expected: str) -> None:
    with pytest.raises(lk.ParseError) as caught:
        matching_statements(program(), within)
    assert caught.value.column == column
    assert caught.value.expected.startswith(expected)


@pytest.mark.parametrize(("within", "kind", "name"), [
    ("frist", "statement", "frist"),
    ("not frist", "statement", "frist"),
    ("writes:q", "array or temporary", "q"),
    ("first or reads:q*", "array or temporary", "q*"),
    ("iname:q", "iname", "q"),
    ("tag:q", "statement tag", "q"),
])
def test_a_pattern_that_matches_nothing(within: str, kind: str, name: str) -> None:
    with pytest.raises(lk.UnknownNameError) as caught:
        matching_statements(program(), within)
    assert (caught.value.kind, caught.value.name) == (kind, name)


@pytest.mark.parametrize("within", ["first and last", "not *", "writes:x", []])
def test_no_statement_left(within: str | list[str]) -> None:
    with pytest.raises(lk.PreconditionError, match="selects no statement"):
        matching_statements(program(), within)
