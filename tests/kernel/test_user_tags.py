"""User tags: kept by the steps, found by queries and by ``within=``, and without effect."""
from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pytools.tag import Tag, UniqueTag

import loopkit as lk


@dataclass(frozen=True)
class Axis(Tag):
    """The use of an axis."""

    use: str = "any"


class Stored(Tag):
    """A tag without fields."""


@dataclass(frozen=True)
class Name(UniqueTag):
    """An object has at most one name."""

    name: str


def tagged() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i,j]: 0<=i<64 and 0<=j<m}",
        [lk.Assignment("t[i]", "x[i]", id="A", tags=Axis("in")), "for i, j\ny[i,j] = t[i] {id=B, tags=out:last}\nend"],
        [lk.GlobalArg("x", np.float32, tags=Stored()), lk.ValueArg("m", tags=[Axis()]), "...",
         lk.TemporaryVariable("t", np.float32, tags=frozenset([Axis("temporary")]))], tags=[Name("knl")])
    return lk.tag_inames(knl, {"i": [Axis("rows"), Stored()], "j": Axis("columns")})


def test_queries() -> None:
    knl = lk.tag_inames(tagged(), "i:l.0")
    assert {str(t) for t in knl.iname_tags("i") if not isinstance(t, Tag)} == {"l.0"}
    assert knl.iname_tags_of_type("i", Axis) == {Axis("rows")}
    assert knl.iname_tags("j") == {Axis("columns")}
    assert knl.tags_of_type(Name) == {Name("knl")}
    assert knl.tagged(Stored()).kernel_tags == {Name("knl"), Stored()}
    assert knl.array_args["x"].tags_of_type(Stored) == {Stored()}
    assert knl.temporaries["t"].tagged(Stored()).tags == {Axis("temporary"), Stored()}
    assert knl.statement("A").options.tags == {Axis("in")}
    assert [insn.tags for insn in knl.instructions] == [{Axis("in")}, {"out", "last"}]
    with pytest.raises(lk.UnknownNameError):
        knl.iname_tags("q")


@pytest.mark.parametrize(("step", "inames"), [
    (lambda knl: lk.rename_iname(knl, "i", "r"), {"r": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.split_iname(knl, "j", 4), {"i": {Axis("rows"), Stored()}}),
    (lambda knl: lk.split_iname(knl, "i", 4, within="B"), {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.duplicate_inames(knl, "i", within="A"), {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.untag_inames(knl, "i", Axis), {"i": {Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.untag_inames(lk.tag_inames(knl, "i:l.0"), "i"),
     {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.tag_inames(knl, "i:g.0"),
     {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.add_prefetch(lk.fix_parameters(knl, m=8), "x", ["i"]),
     {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}}),
    (lambda knl: lk.with_statements(knl, [*knl.instructions, "z[i] = 1"]),
     {"i": {Axis("rows"), Stored()}, "j": {Axis("columns")}})])
def test_steps_keep_them(step: Callable[[lk.LoopKernel], lk.LoopKernel], inames: dict[str, set[Tag]]) -> None:
    """Parts of a split iname and copies of an iname inherit none, as in loopy; all others stay."""
    knl = step(tagged())
    assert {x: own for x, own in knl.user_tags.items() if own} == inames
    assert knl.array_args["x"].tags == {Stored()}
    assert knl.temporaries["t"].tags == {Axis("temporary")}
    assert knl.statement("A").options.tags == {Axis("in")}
    assert knl.kernel_tags == {Name("knl")}


def test_fused_loops_have_the_tags_of_all() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i] = 1\nz[j] = 2")
    knl = lk.fuse_loops(lk.tag_inames(knl, {"i": Stored(), "j": Axis()}), ["i", "j"])
    assert knl.user_tags == {"i": {Stored(), Axis()}}


@pytest.mark.parametrize(("within", "chosen"), [
    ("tag:Axis", {"A"}), ("tag:out", {"B"}), ("tag:la*", {"B"}), (Axis, {"A"}), (Tag, {"A"}), (Axis("in"), {"A"}),
    ([Axis, "tag:out"], {"A", "B"}), ("tag:Axis or tag:out", {"A", "B"})])
def test_within(within: Any, chosen: set[str]) -> None:
    knl = lk.tag_instructions(tagged(), "found", within=within)
    assert {s.id for s in knl.statements if "found" in s.options.tags} == chosen


@pytest.mark.parametrize("within", [Stored, Axis("other"), [Stored]])
def test_within_selects_nothing(within: Any) -> None:
    with pytest.raises(lk.PreconditionError, match="selects no statement of kernel 'kernel'"):
        lk.tag_instructions(tagged(), "found", within=within)


def test_equality_pickling_and_code() -> None:
    knl = tagged()
    assert pickle.loads(pickle.dumps(knl)) == knl
    plain = lk.make_kernel("{[i,j]: 0<=i<64 and 0<=j<m}", "t[i] = x[i] {id=A}\nfor i, j\ny[i,j] = t[i] {id=B}\nend", [
        lk.GlobalArg("x", np.float32), "m", "...", lk.TemporaryVariable("t", np.float32)])
    others = [lk.tag_inames(plain, {"i": Stored()}), lk.tag_kernel(plain, Stored()),
              lk.tag_instructions(plain, Stored())]
    assert all(other != plain for other in others)
    assert {str(lk.generate_code(other, target="c")) for other in (knl, plain, *others)} == {
        str(lk.generate_code(plain, target="c"))}


def test_the_card() -> None:
    knl = lk.tag_inames(tagged(), "i:g.0")
    lines = " ".join(str(knl).split())
    assert ("i: g.0 Axis(use='rows') Stored(), j: Axis(use='columns'), kernel kernel: Name(name='knl'), x: Stored(), "
            "m: Axis(use='any'), t: Axis(use='temporary')") in lines
    assert "t[i] = x[i] {id=A, tags=Axis(use='in')}" in lines
    assert "tag_inames(knl, {'i': [Axis(use='rows'), Stored()], 'j': Axis(use='columns')})" in str(knl.history)


def test_scripts_import_the_classes() -> None:
    knl = lk.tag_inames(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1"), {"i": [Axis("rows"), "g.0"]})
    script = knl.history.script()
    assert script.startswith(f"import {__name__}\n")
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["knl"] == knl

    class Local(Tag):
        """A class without an address."""
    with pytest.raises(lk.PreconditionError, match="cannot be written into a script"):
        lk.tag_kernel(knl, Local()).history.script()


@pytest.mark.parametrize("call", [
    lambda knl: lk.tag_kernel(knl, Name("other")), lambda knl: lk.tag_inames(knl, {"i": [Name("a"), Name("b")]}),
    lambda knl: lk.tag_instructions(knl, [Name("a"), Name("b")]),
    lambda knl: lk.ValueArg("n", tags=[Name("a"), Name("b")]),
    lambda knl: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", tags=[Name("a"), Name("b")])])
def test_unique_tags(call: Callable[[lk.LoopKernel], object]) -> None:
    with pytest.raises(lk.PreconditionError, match=r"has two tags of one unique class \(.*Name"):
        call(tagged())


@pytest.mark.parametrize("call", [
    lambda: lk.GlobalArg("x", tags="mine"), lambda: lk.ValueArg("n", tags=3),                  # type: ignore[arg-type]
    lambda: lk.tag_kernel(tagged(), ["mine"]), lambda: lk.tag_inames(tagged(), {"q": Stored()}),  # type: ignore[list-item]
    lambda: lk.tag_instructions(tagged(), "a b"), lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", tags="a")])  # type: ignore[arg-type]
def test_refused_tags(call: Callable[[], object]) -> None:
    with pytest.raises(lk.LoopkitError):
        call()
