"""No kernel is made from another one with an unchecked order."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import (
    Image,
    annotated,
    in_own_order,
    reindexed,
    reordered,
    rewritten,
    specialized,
    with_dependences,
)
from loopkit.analysis.dependences import dependences, with_assumed
from loopkit.analysis.legality import require_legal
from loopkit.errors import InternalError
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import Derivation
from loopkit.kernel.tree import Seq


def two_loops() -> lk.LoopKernel:
    """The second statement reads what the first one writes."""
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", "t[i] = x[i]  {id=first}\ny[j] = t[j]  {id=second}")


def turned(knl: lk.LoopKernel) -> Seq:
    assert isinstance(knl.tree, Seq)
    return Seq(knl.tree.children[::-1])


# No other way

def test_a_kernel_has_no_copy() -> None:
    assert not hasattr(lk.LoopKernel, "copy")


@pytest.mark.parametrize("make", [two_loops, lambda: lk.split_iname(two_loops(), "i", 4)])
@pytest.mark.parametrize("changes", [
    {"tree": Seq(())}, {"statements": ()}, {"reductions": {}}, {"substitutions": {}}, {"name": "other"}])
def test_replace_asks_for_the_dependences(make: Callable[[], lk.LoopKernel], changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'derived' must be specified"):
        replace(make(), **changes)


def test_a_derivation_is_not_replaced_beside() -> None:
    knl = two_loops()
    with pytest.raises(ValueError, match="derivation"):
        replace(knl, derived=None, derivation=Derivation(knl, lambda found, _: found))


@pytest.mark.parametrize(("make", "part"), [
    (annotated, "tree"), (annotated, "statements"), (annotated, "reductions"), (annotated, "substitutions"),
    (annotated, "derived"), (rewritten, "tree"), (rewritten, "derived"), (specialized, "tree"),
    (specialized, "derived"),
    (in_own_order, "derivation")])
def test_constructors_take_their_parts_only(make: Callable[..., lk.LoopKernel], part: str) -> None:
    knl = two_loops()
    with pytest.raises(TypeError, match=part):
        make(knl, **{part: getattr(knl, part, None)})


def test_another_order_has_the_same_statements() -> None:
    knl = two_loops()
    with pytest.raises(InternalError, match="other statements"):
        reordered(knl, turned(knl).children[0])


def test_other_expressions_have_the_same_instances() -> None:
    knl = two_loops()
    first, second = knl.statements
    for statements in ((first,), (first, replace(second, id="third")),
                       (first, replace(second, domain=second.domain.where(("==", p.Variable("j")))))):
        with pytest.raises(InternalError, match="other instances"):
            rewritten(knl, statements=statements)


# What binds

KEEPING: dict[str, Callable[[lk.LoopKernel], lk.LoopKernel]] = {
    "annotated": lambda knl: annotated(knl, name="again"),
    "rewritten": lambda knl: rewritten(knl, statements=knl.statements[::-1]),
    "specialized": lambda knl: specialized(knl, assumptions=knl.assumptions),
    "reindexed": lambda knl: reindexed(knl, {"first": [Image("first")]}),
    "with_dependences": lambda knl: with_dependences(knl, lambda found, _: found),
}


@pytest.mark.parametrize("step", KEEPING.values(), ids=KEEPING)
def test_a_reordered_kernel_is_not_legal_in_its_own_order(step: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    """Whatever steps come before the new order and after it."""
    knl = two_loops()
    wrong = reordered(knl, turned(knl))
    assert [d.kind for d in dependences(in_own_order(wrong))] == ["anti"]       # it reads what was there before
    for after in (wrong, step(wrong), reordered(step(knl), turned(knl)), step(step(wrong))):
        with pytest.raises(lk.IllegalTransformError):
            require_legal(after, "the step")
    assert require_legal(reordered(wrong, knl.tree), "the step").history.proven


def test_instances_that_are_gone_bind_nothing() -> None:
    knl = two_loops()
    assert {(d.source, d.sink) for d in dependences(knl)} == {("first", "second")}
    assert not dependences(reindexed(knl, {"first": ()}))
    at_0 = knl.statement("first").domain.where(("==", p.Variable("i"))).set
    moved = reindexed(knl, {"first": [Image("one", within=at_0), Image("two")]})
    assert [(d.source, d.sink) for d in dependences(moved)] == [("one", "second"), ("two", "second")]


def test_many_steps_are_no_deep_recursion() -> None:
    knl = lk.split_iname(two_loops(), "i", 4)
    for k in range(2000):
        knl = annotated(knl, name=f"step{k}")
    assert len(with_assumed(knl)) == 1


def test_what_a_kernel_shows() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "<> s = sum(k, a[i, k]*x[k]) {id=row}\ny[i] = 2*s {id=out}",
                         options=lk.Options(full_tiles=False))
    knl = lk.add_dtypes(knl, {"a,x": np.float32})
    assert [s.id for s in knl.instructions] == ["row", "out"]
    assert to_text(knl.instructions[0].expression) == "sum(k, a[i, k]*x[k])"
    assert knl.domains_text.splitlines() == [d.text for d in knl.domains]
    assert knl.args is knl.arguments
    assert knl.temporary_variables is knl.temporaries
    assert knl.all_inames() == {"i", "k"}
    assert not knl.options.full_tiles
