"""Several kernels become one."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytools.tag import Tag

import loopkit as lk
from loopkit.analysis.dependences import dependences

LINE = "{[i]: 0<=i<n}"
X = np.arange(1, 7.0)


class Marked(Tag):
    """A tag of a user."""


def stage(text: str, name: str = "kernel", **options: Any) -> lk.LoopKernel:
    return lk.make_kernel(LINE, text, name=name, **options)


def test_the_result_is_that_of_one_kernel_after_the_other() -> None:
    """Also for reductions, rules, conditions, mapped loops, bounds from memory and a number that one kernel writes."""
    first = lk.make_kernel(["{[i, k]: 0<=i<n and 0<=k<m}"], """
        f(u) := u + 1
        <> t = f(sum(k, a[i, k]))
        y[i] = t {if=i>0}
        total = 3*m {id=all}
        """, [lk.GlobalArg("y", np.float64, shape="n"), "..."])
    first = lk.split_iname(lk.add_dtypes(first, {"a": np.float64}), "i", 4, outer_tag="g.0", inner_tag="l.0")
    second = lk.make_kernel(["{[j]: 0<=j<n}", "[c] -> {[q]: 0<=q<c}"], """
        f(u) := u + 1
        <> t = f(y[j])
        <int32> c = count[j]
        z[j] = t*total + sum(q, x[q])
        """, [lk.GlobalArg("y", shape="n"), "..."])
    second = lk.add_dtypes(second, {"x": np.float64, "count": np.int32, "total": np.float64})
    fused = lk.fuse_kernels([first, second], suffixes=["_1", "_2"])
    assert set(fused.temporaries) == {"acc_k", "t_1", "t_2", "c", "acc_q"}
    assert [a.name for a in fused.arguments] == ["y", "a", "m", "n", "total", "count", "x", "z"]
    assert (fused.history.made, len(fused.history)) == (None, 0)
    a, count = np.arange(12.0).reshape(6, 2), np.arange(6, dtype=np.int32)
    out = lk.compile(fused, "c")(a=a, x=X, count=count, y=np.full(6, 7.0), total=np.zeros(()))
    y = np.where(np.arange(6) > 0, a.sum(1) + 1, 7)
    np.testing.assert_array_equal(out.y, y)
    np.testing.assert_array_equal(out.z, (y + 1)*6 + [X[:c].sum() for c in count])


def test_statements_run_in_the_order_of_the_data_flow() -> None:
    use, make = stage("z[i] = y[i] + 1 {id=use}"), stage("y[i] = 2*x[i] {id=make}")
    fused = lk.fuse_kernels([use, make], data_flow=[("y", 1, 0)])
    assert [s.id for s in fused.statements] == ["make", "use"]
    assert fused.statement("use").options.depends_on == {"make"}
    assert [a.name for a in fused.arguments] == ["n", "y", "z", "x"]
    assert {(d.kind, d.source, d.sink) for d in dependences(fused)} == {
        ("flow", "make", "use"), ("explicit", "make", "use")}
    assert [s.id for s in lk.fuse_kernels([use, make]).statements] == ["use", "make"]


def test_loops_stay_apart_until_a_proof() -> None:
    knl = lk.fuse_kernels([stage("y[i] = 2*x[i]"), stage("z[i] = y[i]"), stage("w[i] = z[n-1-i]")])
    assert [s.id for s in knl.statements] == ["insn", "insn_0", "insn_1"]
    assert knl.statements_text.count("for i") == 3
    assert lk.fuse_loops(knl, ["i"], within="insn, insn_0").statements_text.count("for i") == 2
    with pytest.raises(lk.IllegalTransformError):
        lk.fuse_loops(knl, ["i"])


def test_what_belongs_to_a_kernel_stays() -> None:
    first = lk.tag_kernel(stage("y[i] = 2*x[i]", assumptions="n >= 4"), Marked())
    first = lk.tag_inames(first, {"i": [Marked(), "g.0"]})
    claim = lk.tag_inames(lk.make_kernel("{[j]: 0<=j<n}", "a[p[j]] = 1 {id=A}"), "j:g.0", assume="p is a permutation")
    parts = [lk.add_barrier(stage("u[i] = 1 {id=P}\nv[i] = 1 {id=Q}"), "P", "Q"), first, claim]
    with pytest.raises(lk.UndecidedError):
        lk.fuse_kernels(parts)
    fused = lk.fuse_kernels(parts, assume="p is a permutation")
    assert (fused.obligations[0], len(fused.barriers)) == (claim.obligations[0], 1)
    assert fused.kernel_tags == {Marked()}
    assert fused.user_tags == {"i": frozenset({Marked()})}
    assert {x: str(t) for x, t in fused.tags.items()} == {"i": "g.0", "j": "g.0"}
    assert fused.assumptions.is_equal(first.assumptions)


def test_declarations_complete_each_other() -> None:
    first = stage("y[i+2] = x[i]", kernel_data=[lk.GlobalArg("y", np.float32, tags=Marked()), "..."])
    second = stage("z[i] = y[i]", kernel_data=[lk.GlobalArg("y", shape="2 + n"), "..."])
    third = stage("w[i] = y[i]", kernel_data=[lk.GlobalArg("y", shape="n + 2"), "..."])
    y = lk.fuse_kernels([first, second, third]).array_args["y"]
    assert (y.dtype, y.tags, str(y.shape)) == (np.float32, {Marked()}, str(second.array_args["y"].shape))


def test_calls_are_inlined() -> None:
    twice = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="twice")
    knl = lk.make_kernel("{[i]: 0<=i<m}", "y[i,:] = twice(x[i,:], 3)", functions=[twice])
    knl = lk.add_dtypes(knl, {"x": np.float64})
    fused = lk.fuse_kernels([knl, lk.rename_argument(knl, "y", "z")])
    assert not fused.calls
    batched = lk.to_batched(fused, 2, "x, z")
    x = np.arange(12.0).reshape(2, 2, 3)
    out = lk.compile(batched, "c")(x=x)
    np.testing.assert_array_equal(out.z, 2*x)
    np.testing.assert_array_equal(out.y, 2*x[1])


OTHER = "{[j]: 0<=j<n}"


@pytest.mark.parametrize(("kernels", "options", "error", "message"), [
    ([], {}, lk.PreconditionError, "at least one kernel"),
    ([stage("y[i] = 1")]*2, {"suffixes": ["_a"]}, lk.PreconditionError, "2 kernels have 1 suffixes"),
    ([stage("y[i] = 1"), lk.make_kernel("{[i]: 0<=i<m}", "z[i] = 1")], {}, lk.PreconditionError,
     "The iname 'i' has the domain"),
    ([stage("y[i] = 1"), lk.make_kernel(OTHER, "z[j] = i[j]")], {}, lk.NameConflictError,
     "'i' is the name of one kernel's iname and of another kernel's argument"),
    ([stage("y[i] = x[i]", kernel_data=[lk.GlobalArg("x", np.float32), "..."]),
      stage("z[i] = x[i]", kernel_data=[lk.GlobalArg("x", np.float64), "..."])], {}, lk.PreconditionError,
     "The argument 'x' is GlobalArg"),
    ([stage("y[i] = q"), lk.make_kernel("{[j]: 0<=j<q}", "q2[j] = 1"),
      lk.make_kernel("{[j]: 0<=j<q}", "q2[j] = 1", assumptions="q < 0")], {}, lk.PreconditionError, "contradict"),
    ([stage("y[i] = s"), lk.make_kernel("{[j]: 0<=j<s}", "y[j] = 1"), stage("s = 4")], {}, lk.PreconditionError,
     "The argument 's' is ValueArg"),
    ([stage("f(u) := 2*u\ny[i] = f(x[i])"), stage("f(u) := 3*u\ny[i] = f(x[i])")], {}, lk.PreconditionError,
     r"The rule 'f' is '2\*u' in one kernel and '3\*u' in"),
    ([lk.tag_inames(stage("y[i] = 1"), "i:g.0"), lk.tag_inames(stage("y[i] = 1"), "i:g.1")], {}, lk.PreconditionError,
     "The tag of the iname 'i' is 'g.0' in one kernel and 'g.1'"),
    ([stage("y[i] = 1"), stage("z[i] = y[i]")], {"data_flow": [("y", 0, 2)]}, lk.PreconditionError, "has the kernel 2"),
    ([stage("y[i] = 1"), stage("z[i] = y[i]")], {"data_flow": [("y", 1, 0)]}, lk.PreconditionError,
     "Kernel 1 does not write an argument 'y'"),
    ([stage("y[i] = 1"), stage("z[i] = 2")], {"data_flow": [("y", 0, 1)]}, lk.PreconditionError,
     "Kernel 1 does not have an argument 'y'"),
    ([stage("y[i] = z[i]"), stage("z[i] = y[i]")], {"data_flow": [("y", 0, 1), ("z", 1, 0)]}, lk.PreconditionError,
     "data_flow has a cycle of kernels: ")])
def test_refused(kernels: list[lk.LoopKernel], options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.fuse_kernels(kernels, **options)
