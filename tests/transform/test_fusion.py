"""fuse_loops."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, two_loops
from tests.transform.same import assert_same, step

IJ = "{[i, j]: 0<=i<n and 0<=j<n}"


def kernel(domain: str, lines: str, temporaries: str = "", **kwargs: Any) -> lk.LoopKernel:
    """A kernel of float32 arrays."""
    knl = lk.make_kernel(domain, lines, [*([lk.TemporaryVariable(t, F32) for t in temporaries.split()]), "..."],
                         **kwargs)
    arrays = sorted(set(knl.array_args) - {"y"})
    return lk.add_dtypes(knl, dict.fromkeys(arrays, F32))


def producer_consumer(read: str = "j", domain: str = IJ) -> lk.LoopKernel:
    return kernel(domain, f"""
        a[i] = 2*x[i] + 1 {{id=first}}
        b[j] = a[{read}] + x[j] {{id=second}}
        """)


def same(before: lk.LoopKernel, after: lk.LoopKernel, *sizes: int, **others: int) -> None:
    for n in sizes or (0, 1, 2, 7):
        assert_same(before, after, n=n, **others)


# Legal

def test_two_loops_become_one() -> None:
    knl = step(producer_consumer(), lk.fuse_loops, ["i", "j"])
    assert outline(knl) == text("""
        for i
          first: a[i] = 2*x[i] + 1
          second: b[i] = a[i] + x[i]
        """)
    assert knl.history[-1].verdict == "proven"
    assert len({id(s.domain) for s in knl.statements}) == 1             # one set, one leaf of the generated loops
    same(producer_consumer(), knl)


def test_the_new_iname() -> None:
    knl = step(producer_consumer(), lk.fuse_loops, "j, i", "p")
    assert knl.inames == ("p",)
    assert knl.statements_text.startswith("for p\n  a[p] = ")
    same(producer_consumer(), knl)


def test_the_first_name_of_the_list_stays() -> None:
    assert lk.fuse_loops(producer_consumer(), ["j", "i"]).inames == ("j",)


def test_a_backward_read_may_be_fused() -> None:
    plain = producer_consumer("j-1", "{[i, j]: 0<=i<n and 1<=j<n}")
    same(plain, lk.fuse_loops(plain, ["i", "j"]))


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("domain", [
    "{[i, j]: 0<=i<n and 3<=j<n}",
    "{[i, j]: 2<=i<n and 0<=j<n+2}",
    "{[i, j]: 0<=i<n and n<=j<2*n}",                 # one after the other, no value in common
    "{[i, j]: 0<=i<n and 0<=j<m}",
    "{[i, j]: 0<=i<n and 0<=2*j<n}",
    "{[i, j]: 0<=i<n and 0<=j<n and (exists q: j=3*q)}",
    "{[i, j]: 0<=i<n and (0<=j<2 or 4<=j<n)}",
])
def test_different_bounds(domain: str) -> None:
    plain = kernel(domain, """
        a[i] = 2*x[i] {id=first}
        b[j] = x[j] - 3 {id=second}
        """)
    knl = lk.fuse_loops(plain, ["i", "j"])
    assert outline(knl).count("for") == 1
    for n in (0, 1, 3, 8):
        sizes = {"m": 5} if "m" in plain.argument_by_name else {}
        assert_same(plain, knl, n=n, **sizes)


def test_a_bound_that_sizes_decide() -> None:
    plain = kernel("{[i, j]: 0<=i<n and 0<=j<m}", """
        a[i] = 2*x[i] {id=first}
        b[j] = x[j] - 3 {id=second}
        """)
    assert "i < (m < n ? n : m);" in str(lk.generate_code(lk.fuse_loops(plain, ["i", "j"]), target="c"))


def test_triangles() -> None:
    plain = kernel("{[i, j, p, q]: 0<=i<n and 0<=j<=i and 0<=p<n and p<=q<n}", """
        for i, j
            a[i, j] = x[i] - 2*x[j] {id=lower}
        end
        for p, q
            b[p, q] = x[p] + x[q] {id=upper}
        end
        """)
    outer = step(plain, lk.fuse_loops, ["i", "p"])
    both = step(outer, lk.fuse_loops, ["j", "q"])
    assert outline(both).count("for") == 2
    assert {s.inames for s in both.statements} == {("i", "j")}
    same(plain, outer)
    same(plain, both)


def test_inner_loops_after_outer_ones() -> None:
    plain = kernel("{[i, j, p, q]: 0<=i,p<n and 0<=j,q<m}", """
        for i, j
            a[i, j] = 2*x[i, j] {id=first}
        end
        for p, q
            b[p, q] = a[p, q] + 1 {id=second}
        end
        """)
    knl = lk.fuse_loops(lk.fuse_loops(plain, ["i", "p"]), ["j", "q"])
    assert knl.statements_text.startswith("for i, j\n")
    for sizes in ({"n": 0, "m": 3}, {"n": 3, "m": 0}, {"n": 4, "m": 5}):
        assert_same(plain, knl, **sizes)


def test_three_loops() -> None:
    plain = kernel("{[i, j, k]: 0<=i<n and 0<=j<n-1 and 1<=k<n}", """
        a[i] = x[i] {id=first}
        b[j] = a[j] {id=second}
        c[k] = b[k-1] {id=third}
        """)
    knl = step(plain, lk.fuse_loops, ["i", "j", "k"])
    assert outline(knl).count("for") == 1
    same(plain, knl)


@pytest.mark.deep
def test_loops_of_one_name() -> None:
    lines = """
        for i
            a[i] = 2*x[i] {id=first}
        end
        for i
            b[i] = a[i] {id=second}
        end
        for i
            c[i] = a[i] + b[i] {id=third}
        end
        """
    plain = kernel("{[i]: 0<=i<n}", lines)
    knl = step(plain, lk.fuse_loops, "i")
    assert outline(knl).count("for") == 1
    same(plain, knl)
    some = step(plain, lk.fuse_loops, "i", within="first or second")
    assert outline(some).count("for") == 2
    same(plain, some)
    other = step(plain, lk.fuse_loops, "i", "q", within="second or third")
    assert {s.id: s.inames for s in other.statements} == {"first": ("i",), "second": ("q",), "third": ("q",)}
    same(plain, other)


def test_a_temporary_between_the_loops() -> None:
    plain = kernel(IJ, """
        t[i] = 2*x[i] {id=first}
        b[j] = t[j] + 1 {id=second}
        """, "t")
    same(plain, lk.fuse_loops(plain, ["i", "j"]))


@pytest.mark.deep
def test_the_reductions_of_two_statements() -> None:
    plain = kernel("{[i, k, l]: 0<=i<n and 0<=k,l<m}", """
        b[i] = sum(k, a[i, k]) {id=first}
        c[i] = sum(l, a[i, l]*a[i, l]) {id=second}
        """)
    knl = step(plain, lk.fuse_loops, ["k", "l"])
    assert outline(knl) == text("""
        for i
          first.k.init: acc_k = neutral(sum)
          second.l.init: acc_l = neutral(sum)
          for k
            first.k.update: acc_k sum= a[i, k]
            second.l.update: acc_l sum= a[i, k]*a[i, k]
          first: b[i] = acc_k
          second: c[i] = acc_l
        """)
    assert "for k" in knl.statements_text                      # the shared loop shows
    assert knl.reductions["second.l"].inames == ("k",)
    for n, m in ((0, 0), (1, 0), (3, 5)):
        assert_same(plain, knl, n=n, m=m)
        mapped = lk.split_iname(knl, "i", 2, inner_tag="l.0", outer_tag="g.0")
        assert_same(plain, lk.split_iname(mapped, "k", 4), n=n, m=m)
        assert_same(plain, lk.split_iname(knl, "k", 4, inner_tag="l.0"), n=n, m=m)


def test_a_reduction_with_a_plain_loop() -> None:
    plain = kernel("{[i, k]: 0<=i,k<n}", """
        a[i] = 2*x[i] {id=first}
        s = sum(k, x[k]) {id=second}
        """)
    knl = lk.fuse_loops(plain, ["i", "k"])
    assert outline(knl) == text("""
        second.k.init: acc_k = neutral(sum)
        for i
          first: a[i] = 2*x[i]
          second.k.update: acc_k sum= x[i]
        second: s = acc_k
        """)
    same(plain, knl)


# What is between

def between(line: str) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<n and 0<=k<n}", f"""
        a[i] = 2*x[i] {{id=first}}
        {line} {{id=middle}}
        b[j] = x[j] + z[0] {{id=last}}
        """), {"x,z": F32})


def test_what_depends_on_the_first_loop_goes_behind() -> None:
    plain = between("c[k] = a[k]")
    knl = step(plain, lk.fuse_loops, ["i", "j"])
    assert [s for s in knl.paths if knl.paths[s][0].position == 1] == ["middle"]
    same(plain, knl, 1, 2, 7)


def test_the_rest_goes_before() -> None:
    plain = between("z[0] = x[0]")
    knl = step(plain, lk.fuse_loops, ["i", "j"])
    assert knl.paths["middle"][0].position == 0
    same(plain, knl, 1, 2, 7)


def test_what_stands_between_and_can_go_nowhere() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.fuse_loops(between("z[0] = a[0]"), ["i", "j"])
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 1}, ("middle", {}), ("last", {"i": 0}))
    assert (w.array, w.element, w.kind) == ("z", (0,), "flow")


def test_what_waits_for_another_goes_behind_with_it() -> None:
    plain = kernel("{[i, j, k, l]: 0<=i,j,k,l<n}", """
        a[i] = 2*x[i] {id=first}
        c[k] = a[k] {id=direct}
        d[l] = c[l] {id=indirect}
        b[j] = x[j] {id=last}
        """)
    knl = lk.fuse_loops(plain, ["i", "j"])
    assert list(knl.paths) == ["first", "last", "direct", "indirect"]
    same(plain, knl)


def test_a_dependence_of_another_iteration_holds_nothing_back() -> None:
    plain = kernel("{[t, i, j, k]: 0<=t<3 and 0<=i,j,k<n}", """
        for t
            for i
                a[t, i] = 2*x[t, i] {id=first}
            end
            for k
                c[t, k] = a[t-1, k] {id=middle, if=t>=1}
            end
            for j
                b[t, j] = c[t, j] {id=last}
            end
        end
        """)
    knl = lk.fuse_loops(plain, ["i", "j"])
    assert list(knl.paths) == ["middle", "first", "last"]
    same(plain, knl, 1, 4)


# Illegal

def test_a_forward_read_is_refused() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.fuse_loops(producer_consumer("j+1", "{[i, j]: 0<=i<n and 0<=j<n-1}"), ["i", "j"])
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 2}, ("first", {"i": 1}), ("second", {"i": 0}))
    assert (w.array, w.element, w.kind) == ("a", (1,), "flow")


def test_an_overwritten_value_is_refused() -> None:
    plain = kernel("{[i, j]: 0<=i<n-1 and 0<=j<n}", """
        b[i] = a[i+1] {id=read}
        a[j] = x[j] {id=write}
        """)
    same(plain, lk.fuse_loops(plain, ["i", "j"]))               # read before the write, as it was
    plain = kernel("{[i, j]: 1<=i<n and 0<=j<n}", """
        b[i] = a[i-1] {id=read}
        a[j] = x[j] {id=write}
        """)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.fuse_loops(plain, ["i", "j"])
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 2}, ("read", {"i": 1}), ("write", {"i": 0}))
    assert (w.array, w.element, w.kind) == ("a", (0,), "anti")


def test_a_reversed_read_through_a_temporary() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.fuse_loops(two_loops(), "i")
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 2}, ("first", {"i": 1}), ("second", {"i": 0}))


def test_an_indirect_read_is_undecided() -> None:
    plain = lk.make_kernel(IJ, """
        a[i] = 2*x[i] {id=first}
        b[j] = a[idx[j]] {id=second}
        """)
    with pytest.raises(lk.UndecidedError):
        lk.fuse_loops(plain, ["i", "j"])


def test_on_the_callers_account() -> None:
    plain = lk.make_kernel(IJ, """
        a[i] = 2*x[i] {id=first}
        b[j] = a[idx[j]] {id=second}
        """)
    knl = lk.fuse_loops(plain, ["i", "j"], assume="idx points backwards")
    assert [(o.step, o.verdict) for o in knl.obligations] == [("fuse_loops(i, j)", "assumed")]
    ahead = producer_consumer("j+1", "{[i, j]: 0<=i<n and 0<=j<n-1}")
    knl = lk.fuse_loops(ahead, ["i", "j"], unsafe=True)
    assert [o.verdict for o in knl.obligations] == ["unsafe"]
    assert knl.history[-1].verdict == "unsafe"


def test_only_the_outer_of_two_loops_may_be_fused() -> None:
    plain = kernel("{[i, j, p, q]: 0<=i,p<n and 0<=j<m and 0<=q<m-1}", """
        for i, j
            a[i, j] = x[i, j] {id=first}
        end
        for p, q
            b[p, q] = a[p, q+1] {id=second}
        end
        """)
    knl = lk.fuse_loops(plain, ["i", "p"])
    for n, m in ((0, 1), (1, 1), (4, 6)):
        assert_same(plain, knl, n=n, m=m)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.fuse_loops(knl, ["j", "q"])
    assert caught.value.witness.element == (0, 1)


# With other steps

def test_equal_tags_stay() -> None:
    plain = producer_consumer(domain="{[i, j]: 0<=i<64 and 0<=j<48}")
    knl = lk.fuse_loops(lk.tag_inames(plain, "i:l.0, j:l.0"), ["i", "j"], "p")
    assert {x: str(t) for x, t in knl.tags.items()} == {"p": "l.0"}
    assert_same(plain, knl)


@pytest.mark.deep
@pytest.mark.parametrize("read", ["j", "j-1"])
def test_mapped_after_it(read: str) -> None:
    plain = producer_consumer(read, "{[i, j]: 0<=i<n and 1<=j<n}")
    fused = lk.fuse_loops(plain, ["i", "j"])
    mapped = lk.split_iname(fused, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert len(lk.generate_code(mapped, target="cuda").kernels) == (1 if read == "j" else 2)
    same(plain, mapped, 0, 1, 4, 9)


@pytest.mark.deep
def test_a_prefetch_in_a_fused_loop() -> None:
    plain = kernel("{[i, j]: 1<=i<n-1 and 0<=j<n}", """
        b[i] = a[i-1] + a[i+1] {id=first}
        c[j] = 2*a[j] {id=second}
        """)
    knl = lk.fuse_loops(plain, ["i", "j"])
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(knl, "a", ["i_inner"], default_tag="l.auto")
    same(plain, knl, 2, 3, 9)


@pytest.mark.deep
def test_tiles_of_two_sweeps() -> None:
    plain = producer_consumer()
    knl = lk.split_iname(lk.split_iname(plain, "i", 4), "j", 4)
    knl = lk.fuse_loops(knl, ["i_outer", "j_outer"], "tile")
    assert outline(knl).splitlines()[:2] == ["for tile", "  for i_inner"]
    same(plain, knl, 0, 1, 4, 9)
    same(plain, lk.fuse_loops(knl, ["i_inner", "j_inner"]), 0, 1, 4, 9)


def _nested() -> lk.LoopKernel:
    return kernel("{[i, j, k]: 0<=i,j,k<n}", """
        for i
            a[i] = x[i] {id=first}
        end
        for k
            for j
                b[j, k] = x[j] {id=second}
            end
        end
        """)


def _clash() -> lk.LoopKernel:
    return kernel("{[i, j]: 0<=i,j<n}", """
        for i
            a[i] = x[i] {id=first}
        end
        for j
            for i
                b[j, i] = x[i] {id=second}
            end
        end
        """)


@pytest.mark.parametrize(("call", "error", "field", "value"), [
    (lambda: lk.fuse_loops(producer_consumer(), ["i", "q"]), lk.UnknownNameError, "name", "q"),
    (lambda: lk.fuse_loops(producer_consumer(), []), lk.PreconditionError, "subject", "inames"),
    (lambda: lk.fuse_loops(producer_consumer(), "i"), lk.ScheduleError, "subject", "i"),
    (lambda: lk.fuse_loops(_nested(), ["i", "j"]), lk.ScheduleError, "subject", "i"),
    (lambda: lk.fuse_loops(producer_consumer(), ["i", "j"], within="first"), lk.ScheduleError, "subject", "i"),
    (lambda: lk.fuse_loops(producer_consumer(), ["i", "j"], "x"), lk.NameConflictError, "subject", "x"),
    (lambda: lk.fuse_loops(_clash(), ["i", "j"]), lk.NameConflictError, "subject", "i"),
    (lambda: lk.fuse_loops(lk.tag_inames(producer_consumer(), "i:g.0"), ["i", "j"]), lk.PreconditionError,
     "subject", "j"),
])
def test_refused(call: object, error: type[lk.LoopkitError], field: str, value: object) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert getattr(caught.value, field) == value


def test_a_name_of_its_own_settles_a_clash() -> None:
    knl = lk.fuse_loops(_clash(), ["i", "j"], "p")
    assert {s.inames for s in knl.statements} == {("p",), ("p", "i")}
    same(_clash(), knl)


@pytest.mark.deep
def test_rows_whose_bounds_are_read_from_memory() -> None:
    plain = lk.make_kernel(["{[i]: 0<=i<n}", "[lo, hi] -> {[j]: lo<=j<hi}", "{[r]: 0<=r<n}"], """
        for i
            <> lo = start[i] {id=low}
            <> hi = start[i+1] {id=high}
            y[i] = sum(j, val[j]*x[col[j]]) {id=row}
        end
        for r
            z[r] = y[r] + x[r] {id=after}
        end
        """, [lk.GlobalArg("start,col", "int32"), lk.GlobalArg("val,x,y,z", F32), "..."])
    data = {"start": np.array([0, 2, 2, 5], np.int32), "col": np.array([2, 0, 1, 1, 2], np.int32),
            "val": np.array([1, 2, 3, 4, 5], F32), "x": np.array([1, -2, 3], F32)}
    knl = step(plain, lk.fuse_loops, ["i", "r"])
    assert outline(knl).splitlines()[-1] == "  after: z[i] = y[i] + x[i]"
    assert_same(plain, knl, n=3, **data)
    back = lk.apply_schedule(knl, {"low": "[i, 0]", "high": "[i, 1]", "row": "[i, 2]", "after": "[i, 3]"})
    assert outline(back) == outline(knl)
    turned = lk.apply_schedule(plain, {"low": "[n-1-i, 0]", "high": "[n-1-i, 1]", "row": "[n-1-i, 2]",
                                   "after": "[n-1-r, 3]"})
    assert_same(plain, turned, n=3, **data)
