"""The proof of staging looks at results alone: whatever is wrong with a copy, it finds it by itself."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import reordered, with_dependences
from loopkit.analysis.copy_in import require_copied_in
from loopkit.expr.mappers import map_children, substitute
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import Seq, Tree, seq
from loopkit.poly.affine import add
from loopkit.transform import prefetch, staging
from tests.transform.kernels import F32, matmul, stencil


def tiled_stencil() -> lk.LoopKernel:
    return lk.split_iname(stencil(), "i", 8, outer_tag="g.0", inner_tag="l.0")


def tiled_matmul() -> lk.LoopKernel:
    knl = lk.split_iname(matmul(), "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lk.split_iname(lk.split_iname(knl, "j", 4), "k", 4)


def ruled() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(s) := x[s] + x[s+1]*s\ny[i] = f(i)*f(i+2)")
    return lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 8)


def written_first() -> lk.LoopKernel:
    """An array is written, then read backwards, then overwritten."""
    return lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            a[i] = 2*x[i] {id=first}
        end
        for i
            y[i] = a[n-1-i] {id=reader}
        end
        for i
            a[i] = x[i] {id=last}
        end
        """, [lk.GlobalArg("a", F32), lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), "..."])


def of_a_temporary() -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            <> t = 2*x[i] {id=first}
            y[i] = t + 1 {id=reader}
            t = x[i] {id=last}
            z[i] = t {id=after}
        end
        """, [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), lk.GlobalArg("z", F32), "..."])


STAGED: dict[str, tuple[Callable[[], lk.LoopKernel], Callable[[lk.LoopKernel], lk.LoopKernel], str]] = {
    "halo": (tiled_stencil, lambda k: lk.add_prefetch(k, "a", "i_inner"), "a_fetch"),
    "matmul": (tiled_matmul, lambda k: lk.add_prefetch(k, "a", "i_inner, k_inner"), "a_fetch"),
    "rule": (ruled, lambda k: lk.precompute(k, "f", "i_inner"), "f_0"),
    "written": (written_first, lambda k: lk.add_prefetch(k, "a"), "a_fetch"),
    "temporary": (of_a_temporary, lambda k: lk.add_prefetch(k, "t", within="reader"), "t_fetch"),
}


@pytest.fixture(params=STAGED)
def staged_kernel(request: pytest.FixtureRequest) -> tuple[lk.LoopKernel, lk.LoopKernel, str]:
    make, stage, temporary = STAGED[request.param]
    before = make()
    return before, stage(before), temporary


def with_statement(knl: lk.LoopKernel, new: Statement) -> lk.LoopKernel:
    return with_dependences(knl, lambda found, _: found,
                            statements=tuple(new if s.id == new.id else s for s in knl.statements))


def copy_of(knl: lk.LoopKernel, temporary: str) -> Statement:
    [copy] = [s for s in knl.statements if s.written == temporary]
    return copy


def refused(before: lk.LoopKernel, after: lk.LoopKernel, temporary: str) -> lk.Witness:
    with pytest.raises(lk.IllegalTransformError) as err:
        require_copied_in(before, after, temporary, "the step")
    assert str(err.value.witness) in str(err.value)
    return err.value.witness


# Faults of the result

def test_what_staging_makes_is_proven(staged_kernel: tuple[lk.LoopKernel, lk.LoopKernel, str]) -> None:
    before, after, temporary = staged_kernel
    require_copied_in(before, after, temporary, "the step")


@pytest.mark.deep(every=10)
@pytest.mark.parametrize("at", ["first", "last"])
def test_a_copy_of_one_element_less(staged_kernel: tuple[lk.LoopKernel, lk.LoopKernel, str], at: str) -> None:
    before, after, temporary = staged_kernel
    copy = copy_of(after, temporary)
    shape = after.temporaries[temporary].shape
    if not shape:
        cut = [add(p.Variable("i"), -1)]            # one element: there is none in the first iteration
    else:
        dims = copy.inames[-len(shape):]
        cut = [add(p.Variable(x), -1) if at == "first" else add(extent, -2, p.Product((-1, p.Variable(x))))
               for x, extent in zip(dims, shape, strict=True)]
    for condition in cut:
        smaller = with_statement(after, replace(copy, domain=copy.domain.where((">=", condition))))
        witness = refused(before, smaller, temporary)
        assert witness.kind == "missing"
        assert witness.source[0] == copy.id


def test_another_element_copied(staged_kernel: tuple[lk.LoopKernel, lk.LoopKernel, str]) -> None:
    before, after, temporary = staged_kernel
    copy = copy_of(after, temporary)
    for x in copy.inames:
        moved = substitute(copy.expression, {x: p.Sum((p.Variable(x), 1))})
        if moved != copy.expression:
            witness = refused(before, with_statement(after, replace(copy, expression=moved)), temporary)
            assert witness.kind == "value"


def test_another_cell_read(staged_kernel: tuple[lk.LoopKernel, lk.LoopKernel, str]) -> None:
    before, after, temporary = staged_kernel

    def shifted(expr: p.ExpressionNode) -> object:
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(temporary):
            return p.Subscript(expr.aggregate, (add(expr.index_tuple[0], 1), *expr.index_tuple[1:]))
        return map_children(expr, shifted)
    for s in after.statements:
        moved = shifted(s.expression)
        if moved != s.expression:
            assert refused(before, with_statement(after, replace(s, expression=moved)), temporary).kind in (
                "missing", "value")


def test_another_function_computed() -> None:
    before = ruled()
    after = lk.precompute(before, "f", "i_inner")
    copy = copy_of(after, "f_0")
    assert isinstance(copy.expression, p.Sum)
    other = with_statement(after, replace(copy, expression=p.Sum((*copy.expression.children, 1))))
    assert refused(before, other, "f_0").kind == "value"


def test_a_flow_that_is_not_known() -> None:
    """Lowering holds storage to the flow that the kernel brings along: a value without it may be lost."""
    before = tiled_stencil()
    after = lk.add_prefetch(before, "a", "i_inner")
    forgetful = with_dependences(after, lambda found, _: (d for d in found if d.array != "a_fetch"))
    assert refused(before, forgetful, "a_fetch").kind == "missing"


# Writes in between

def moved(knl: lk.LoopKernel, order: list[int]) -> lk.LoopKernel:
    assert isinstance(knl.tree, Seq)
    tree: Tree = seq(*(knl.tree.children[i] for i in order))
    return reordered(knl, tree)


def distributed() -> tuple[lk.LoopKernel, lk.LoopKernel]:
    """All of the array copied ahead of the loop that reads it."""
    before = lk.fix_parameters(written_first(), n=8)
    after = lk.add_prefetch(before, "a", "i", default_tag=None)
    require_copied_in(before, after, "a_fetch", "the step")
    return before, after


def test_a_copy_before_the_write() -> None:
    before, after = distributed()
    witness = refused(before, moved(after, [1, 0, 2, 3]), "a_fetch")
    assert (witness.kind, witness.source[0], witness.sink[0]) == ("flow", "first", "reader")
    assert witness.element == (witness.source[1]["i"],) == (7 - witness.sink[1]["i"],)


def test_a_write_between_copy_and_use_is_no_matter() -> None:
    """The copy holds the value that the reader is to read, whoever writes the array then."""
    before, after = distributed()
    require_copied_in(before, moved(after, [0, 1, 3, 2]), "a_fetch", "the step")


def test_a_copy_after_the_next_write() -> None:
    before, after = distributed()
    witness = refused(before, moved(after, [0, 3, 1, 2]), "a_fetch")
    assert (witness.kind, witness.source[0], witness.sink[0]) == ("anti", "reader", "last")


def test_another_value_of_a_temporary() -> None:
    """A temporary's copy is of the value that flows into it."""
    before = of_a_temporary()
    after = lk.add_prefetch(before, "t", within="reader")
    copy = copy_of(after, "t_fetch")
    wrong = with_dependences(after, lambda found, _: (
        replace(d, source="last") if d.sink == copy.id and d.source == "first" else d for d in found))
    witness = refused(before, wrong, "t_fetch")
    assert (witness.source[0], witness.sink[0]) == ("first", "reader")


def test_a_write_at_an_unknown_place_is_undecided() -> None:
    before = lk.make_kernel("{[i, j]: 0<=i<8 and 0<=j<8}", """
        for i
            a[p[i]] = x[i] {id=scatter}
        end
        for j
            y[j] = a[j] {id=reader}
        end
        """, [lk.GlobalArg("a", F32, (8,)), lk.GlobalArg("x", F32), lk.GlobalArg("p", "int32"), "..."])
    before = lk.add_dtypes(before, {"y": F32})
    after = lk.add_prefetch(before, "a", "j", default_tag=None)
    require_copied_in(before, after, "a_fetch", "the step")
    with pytest.raises(lk.UndecidedError, match="scatter"):
        require_copied_in(before, moved(after, [1, 0, 2]), "a_fetch", "the step")


# On the caller's account

def swept_writes(write: str, read: str) -> lk.LoopKernel:
    data = [lk.GlobalArg("a", F32), lk.GlobalArg("x", F32), lk.GlobalArg("p", np.int32), lk.GlobalArg("y", F32), "..."]
    return lk.make_kernel("{[i]: 1<=i<8}", f"""
        for i
            y[i] = a[{read}] {{id=reader}}
            a[{write}] = y[i] + x[i] {{id=writer}}
        end
        """, data)


def test_an_array_written_in_between_is_refused_with_the_write() -> None:
    knl = swept_writes("i", "i-1")
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.add_prefetch(knl, "a", "i", default_tag=None)
    assert err.value.witness.source == ("writer", {"i": 1})
    assert err.value.witness.element == (1,)
    assert err.value.after is not None
    with pytest.raises(lk.IllegalTransformError, match="before it is written") as own:
        require_copied_in(knl, err.value.after, "a_fetch", "the step")
    assert own.value.witness == lk.Witness({}, ("writer", {"i": 1}), ("reader", {"i": 2}), "a", (1,), "flow")


def test_unsafe_puts_the_write_down() -> None:
    forced = lk.add_prefetch(swept_writes("i", "i-1"), "a", "i", default_tag=None, unsafe=True)
    assert forced.history[-1].verdict == "unsafe"
    assert any("writer[i=1] writes a[1]" in o.claim for o in forced.obligations)


def test_a_write_at_an_unknown_place_may_be_assumed() -> None:
    knl = swept_writes("p[i]", "i-1")
    with pytest.raises(lk.UndecidedError, match="writer"):
        lk.add_prefetch(knl, "a", "i", default_tag=None)
    taken = lk.add_prefetch(knl, "a", "i", default_tag=None, assume="p is beyond 7")
    assert taken.history[-1].verdict == "assumed"
    assert {o.reason for o in taken.obligations} == {"p is beyond 7"}
    with pytest.raises(lk.IllegalTransformError):
        lk.add_prefetch(swept_writes("i", "i-1"), "a", "i", default_tag=None, assume="it is fine")


# Faults of the step itself

def shrunk(copy: Statement) -> Statement:
    """*copy* without the last value of its last iname."""
    last = copy.inames[-1]
    _, high = copy.domain.constant_range(last)
    assert high is not None
    return replace(copy, domain=copy.domain.where((">=", add(high - 1, p.Product((-1, p.Variable(last)))))))


FAULTS: dict[str, tuple[object, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "a footprint shrunk": (staging.StagingBuffer, "copy_in", lambda right: lambda *args, **options: shrunk(
        right(*args, **options))),
    "a box shrunk": (staging, "swept_interval", lambda right: lambda *args: replace(
        right(*args), extent=right(*args).extent - 1)),
    "an offset shifted": (staging.Box, "offsets", lambda right: lambda self, args: tuple(
        add(e, 1) for e in right(self, args))),
    "a copied element shifted": (staging.Box, "arguments", lambda right: lambda self: tuple(
        add(e, 1) for e in right(self))),
    "no flow to the readers": (prefetch, "_through_the_copy", lambda right: lambda *args: (
        d for d in right(*args) if not d.array.endswith("_fetch"))),
}


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("kernel", ["halo", "matmul"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_staging_is_found_by_its_own_step(kernel: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, stage, _ = STAGED[kernel]
    where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    with pytest.raises(lk.IllegalTransformError) as err:
        stage(make())
    assert err.value.witness.kind in ("missing", "value")
