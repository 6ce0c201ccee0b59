"""split_iname, split_levels, join_inames, rename_iname, remove_unused_inames."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.tags import TAGS, GroupTag, LocalTag
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, triangle, twice, two_loops
from tests.transform.same import assert_domain, assert_same, step

# Split_iname


def test_split_makes_two_nested_loops() -> None:
    knl = step(twice(), lk.split_iname, "i", 4)
    assert outline(knl) == text("""
        for i_outer
          for i_inner
            insn: y[4*i_outer + i_inner] = 2*x[4*i_outer + i_inner]
        """)
    assert_domain(knl, "[n] -> { [i_outer, i_inner] : 0 <= i_inner <= 3 and 0 <= 4i_outer + i_inner < n }")
    assert knl.inames == ("i_outer", "i_inner")


@pytest.mark.deep(every=28)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("length", [1, 2, 4, 32])
def test_split_runs_every_instance_once(n: int, length: int) -> None:
    assert_same(twice(), lk.split_iname(twice(), "i", length), n=n)


def test_split_takes_names_and_tags() -> None:
    knl = step(twice(), lk.split_iname, "i", 8, outer_iname="block", inner_iname="thread", outer_tag="g.0",
               inner_tag="l.0")
    assert knl.inames == ("block", "thread")
    assert dict(knl.tags) == {"block": GroupTag(0), "thread": LocalTag(0)}
    assert_same(twice(), knl, n=13)


def test_split_of_a_split() -> None:
    knl = lk.split_iname(lk.split_iname(twice(), "i", 12), "i_inner", 4)
    assert knl.inames == ("i_outer", "i_inner_outer", "i_inner_inner")
    assert_same(twice(), knl, n=29)


def test_split_of_a_reduction_iname() -> None:
    knl = step(matvec(), lk.split_iname, "k", 4)
    assert knl.reductions["insn.k"].inames == ("k_outer", "k_inner")
    assert outline(knl) == text("""
        for i
          insn.k.init: acc_k = neutral(sum)
          for k_outer
            for k_inner
              insn.k.update: acc_k sum= a[i, 4*k_outer + k_inner]*x[4*k_outer + k_inner]
          insn: y[i] = acc_k
        """)
    assert_same(matvec(), knl, n=5, m=11)


def test_split_of_an_iname_that_does_not_start_at_zero() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 3<=i<n}", "y[i] = 2*x[i]"), {"x": F32})
    knl = lk.split_iname(plain, "i", 8)
    for n in (3, 4, 8, 21):
        assert_same(plain, knl, n=n)


def test_split_of_both_inames_of_a_triangle() -> None:
    knl = lk.split_iname(lk.split_iname(triangle(), "i", 3), "j", 4)
    for n in (1, 3, 10):
        assert_same(triangle(), knl, n=n)


def test_split_within_one_of_two_loops() -> None:
    knl = step(two_loops(), lk.split_iname, "i", 4, within="second")
    assert knl.statement("first").inames == ("i",)
    assert knl.statement("second").inames == ("i_outer", "i_inner")
    assert_same(two_loops(), knl, n=11)


def test_split_acts_on_all_loops_of_the_name() -> None:
    knl = lk.split_iname(two_loops(), "i", 4)
    assert all(s.inames == ("i_outer", "i_inner") for s in knl.statements)
    assert_same(two_loops(), knl, n=11)


def test_split_reaches_into_substitution_rules() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "f(a) := a*x[i]\ny[i] = f(3) + f(i)"), {"x": F32})
    assert_same(plain, lk.split_iname(plain, "i", 4), n=10)


def test_within_distributes_a_loop() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<5}", """
        for i
          for j
            y[i,j] = x[i,j] {id=a}
            z[i,j] = 2*y[i,j] {id=b}
            w[i,j] = z[i,j] + y[i,j] {id=c}
          end
        end"""), {"x": F32})
    split = lk.split_iname(knl, "j", 4, within="a or c")
    assert [s.inames for s in split.statements] == [
        ("i", "j_outer", "j_inner"), ("i", "j"), ("i", "j_outer", "j_inner")]
    assert len(split.tree.body.children) == 3
    assert_same(knl, split, n=3)
    turned = lk.affine_map_inames(knl, "i,j", "d,j0", "d = i + j, j0 = j", within="b")
    assert_same(knl, lk.rename_iname(turned, "i", "i0", within="c"), n=3)


def test_within_cannot_cut_a_cycle_or_a_reduction() -> None:
    knl = lk.make_kernel("{[i,k]: 1<=i<n and 0<=k<n}", """
        for i
          y[i] = z[i-1] {id=a}
          z[i] = y[i] {id=b}
        end
        r[i] = sum(k, x[i,k]) {id=c}""")
    with pytest.raises(lk.IllegalTransformError, match="distributing the loop over 'i' would") as caught:
        lk.split_iname(knl, "i", 4, within="a")
    assert caught.value.witness is not None
    with pytest.raises(lk.ScheduleError, match="only some parts of the reduction of 'c'"):
        lk.split_iname(knl, "i", 4, within="c.k.update")


@pytest.mark.parametrize("apply", [
    lambda knl, **how: lk.split_iname(knl, "i", 4, **how), lambda knl, **how: lk.chunk_iname(knl, "i", 4, **how),
    lambda knl, **how: lk.split_levels(knl, "i", {"b": None, "a": 4}, **how),
    lambda knl, **how: lk.reverse(knl, "i", **how), lambda knl, **how: lk.skew(knl, "i", {"t": 1}, **how),
    lambda knl, **how: lk.affine_map_inames(knl, "t, i", "q, e", ["q = t", "e = -i"], **how),
    lambda knl, **how: lk.map_domain(knl, "{ [t, i] -> [t1, i1] : t1 = t and i1 = -i }", **how),
    lambda knl, **how: lk.join_inames(knl, "t, i", **how)])
def test_distribution_on_the_callers_word(apply: Callable[..., lk.LoopKernel]) -> None:
    """assume= and unsafe= of each step are also for the loops that within= distributes."""
    knl = lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<8}", """
        for t, i
          y[p[i]] = x[i] {id=a}
          z[i] = y[i] {id=b}
        end""")
    with pytest.raises(lk.UndecidedError, match=r"distributing the loop over .[ti]"):
        apply(knl, within="b")
    for how in ({"assume": "p is the identity"}, {"unsafe": True}):
        assert apply(knl, within="b", **how).obligations


# Split_levels

LEVELS = {"block": None, "warp": 3, "lane": 4, "item": 2}


@pytest.mark.deep
def test_levels_are_splits_of_splits() -> None:
    knl = step(matvec(), lk.split_levels, "k", LEVELS, tags={"item": "unr"})
    once = matvec()
    for names, length in ((("rest", "item"), 2), (("rest_outer", "lane"), 4), (("block", "warp"), 3)):
        split = "k" if "k" in once.inames else "rest" if "rest" in once.inames else "rest_outer"
        once = lk.split_iname(once, split, length, outer_iname=names[0], inner_iname=names[1])
    assert outline(knl) == outline(once)
    for mine, other in zip(knl.statements, once.statements, strict=True):
        assert mine.inames == other.inames
        assert mine.domain.is_equal(other.domain)
    assert {x: str(t) for x, t in knl.tags.items()} == {"item": "unr"}
    for m in (0, 1, 23, 24, 50):
        assert_same(matvec(), knl, n=3, m=m)


@pytest.mark.parametrize(("factors", "tags", "error", "message"), [
    ({"a": None}, {}, lk.PreconditionError, "two or more new inames"),
    ({"a": 2, "b": 4}, {}, lk.PreconditionError, "the first with the extent None"),
    ({"a": None, "b": None}, {}, lk.PreconditionError, "the number of values of 'b' must be a positive integer"),
    ({"a": None, "b": 0}, {}, lk.PreconditionError, "not 0"),
    ({"a": None, "y": 4}, {}, lk.NameConflictError, "'y' is taken"),
    ({"a": None, "b": 4}, {"c": "unr"}, lk.UnknownNameError, "'c'"),
])
def test_levels_that_cannot_be(factors: Mapping[str, int | None], tags: Mapping[str, str],
                               error: type[lk.LoopkitError], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.split_levels(twice(), "i", factors, tags=tags)


# Join_inames

def test_join_runs_through_all_points() -> None:
    plain = lk.fix_parameters(scaled_matrix(), m=7)
    knl = step(plain, lk.join_inames, ["i", "j"])
    assert outline(knl) == text("""
        for i_j
          insn: y[i_j // 7, i_j % 7] = 2*x[i_j // 7, i_j % 7] + i_j // 7 + (-1)*(i_j % 7)
        """)
    assert_domain(knl, "[n] -> { [i_j] : 0 <= i_j < 7n }")
    for n in (0, 1, 5):
        assert_same(plain, knl, n=n)


def test_join_of_three_with_offsets() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j,k]: 2<=i<n and 1<=j<4 and -2<=k<3}", "y[i,j,k+2] = x[i] + j*k"),
                          {"x": F32})
    knl = step(plain, lk.join_inames, ["i", "j", "k"], "ijk")
    assert knl.inames == ("ijk",)
    for n in (2, 3, 6):
        assert_same(plain, knl, n=n)


def test_join_of_a_triangle_keeps_its_points() -> None:
    plain = lk.fix_parameters(triangle(), n=9)
    assert_same(plain, lk.join_inames(plain, ["i", "j"]))


def test_a_loop_over_joined_tiles_has_no_condition() -> None:
    plain = lk.make_kernel("{[i, j]: 4 <= 4*i < n and 0<=j<3}", "y[i, j] = 2*x[i, j]")
    plain = lk.add_dtypes(plain, {"x": F32})
    knl = step(plain, lk.join_inames, ["i", "j"], "t")
    source = lk.generate_code(knl, target="c").source
    assert "t = 3; t < " in source
    assert "if (" not in source.partition("t = 3; t < ")[2]
    for n in (1, 4, 5, 9, 12):
        assert_same(plain, knl, n=n)


def test_join_takes_a_tag() -> None:
    plain = lk.fix_parameters(scaled_matrix(), n=5, m=7)
    knl = step(plain, lk.join_inames, ["i", "j"], "t", tag="l.0")
    assert dict(knl.tags) == {"t": LocalTag(0)}
    assert_same(plain, knl)


def test_join_of_inames_for_any_threads() -> None:
    plain = lk.fix_parameters(scaled_matrix(), n=5, m=7)
    knl = lk.join_inames(lk.tag_inames(plain, "i:l.auto, j:l.auto"), "i, j", "t")
    assert dict(knl.tags) == {"t": TAGS["l.auto"]}
    assert_same(plain, knl)
    with pytest.raises(lk.PreconditionError, match=r"'i' has the tag 'l\.auto' and cannot be joined"):
        lk.join_inames(lk.tag_inames(plain, "i:l.auto"), "i, j")


def test_join_of_reduction_inames() -> None:
    plain = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<6 and 0<=k<5}", "y[i] = sum([j,k], a[i,j,k])")
    plain = lk.add_dtypes(plain, {"a": F32})
    knl = step(plain, lk.join_inames, ["j", "k"], "jk")
    assert next(iter(knl.reductions.values())).inames == ("jk",)
    assert_same(plain, knl, n=4)


def test_split_and_join_give_the_instances_back() -> None:
    plain = lk.fix_parameters(twice(), n=20)
    knl = lk.join_inames(lk.split_iname(plain, "i", 4), ["i_outer", "i_inner"], "i")
    assert_domain(knl, plain.domains_text)
    assert_same(plain, knl)


# Rename_iname

def test_rename() -> None:
    knl = step(scaled_matrix(), lk.rename_iname, "i", "row")
    assert outline(knl) == text("""
        for row
          for j
            insn: y[row, j] = 2*x[row, j] + row + (-1)*j
        """)
    assert_domain(knl, "[n, m] -> { [row, j] : 0 <= row < n and 0 <= j < m }")
    assert_same(scaled_matrix(), knl, n=3, m=5)


def test_rename_keeps_the_tag() -> None:
    knl = lk.rename_iname(lk.split_iname(twice(), "i", 8, outer_tag="g.0", inner_tag="l.0"), "i_inner", "thread")
    assert dict(knl.tags) == {"i_outer": GroupTag(0), "thread": LocalTag(0)}
    assert_same(twice(), knl, n=19)


def test_rename_within_one_of_two_loops() -> None:
    knl = step(two_loops(), lk.rename_iname, "i", "q", within="second")
    assert [s.inames for s in knl.statements] == [("i",), ("q",)]
    assert_same(two_loops(), knl, n=6)


def test_rename_of_a_reduction_iname() -> None:
    knl = step(matmul(), lk.rename_iname, "k", "inner")
    assert knl.reductions["insn.k"].inames == ("inner",)
    assert_same(matmul(), knl, n=3, m=4, l=5)


def test_rename_of_an_iname_that_bounds_another() -> None:
    knl = step(triangle(), lk.rename_iname, "i", "row")
    assert_domain(knl, "[n] -> { [row, j] : row < n and 0 <= j <= row }")
    assert_same(triangle(), knl, n=6)


# Remove_unused_inames

def test_remove_drops_an_iname_of_one_point() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and j=0}", "for j\n y[i] = 2*x[i]\nend"), {"x": F32})
    knl = step(plain, lk.remove_unused_inames)
    assert knl.inames == ("i",)
    assert_same(plain, knl, n=5)


def test_remove_keeps_what_is_mentioned_or_has_many_points() -> None:
    plain = lk.make_kernel("{[i,j,k]: 0<=i<n and j=3 and 0<=k<2}", "y[i] = j {inames=i:j:k}")
    assert lk.remove_unused_inames(plain).inames == plain.inames


def test_remove_only_looks_at_those_named() -> None:
    plain = lk.make_kernel("{[i,j,k]: 0<=i<n and j=0 and k=0}", "y[i] = 1 {inames=i:j:k}")
    assert lk.remove_unused_inames(plain, ["k"]).inames == ("i", "j")


ERRORS: Mapping[str, tuple[object, type[lk.LoopkitError], dict[str, object]]] = {
    "split: unknown iname": (lambda: lk.split_iname(twice(), "ii", 4), lk.UnknownNameError,
                             {"kind": "iname", "name": "ii", "close": ("i",)}),
    "split: zero": (lambda: lk.split_iname(twice(), "i", 0), lk.PreconditionError, {"subject": "inner_length"}),
    "split: a float": (lambda: lk.split_iname(twice(), "i", 4.0), lk.PreconditionError,         # type: ignore[arg-type]
                       {"subject": "inner_length"}),
    "split: True": (lambda: lk.split_iname(twice(), "i", True), lk.PreconditionError, {"subject": "inner_length"}),
    "split: a parameter": (lambda: lk.split_iname(twice(), "i", "n"), lk.PreconditionError,     # type: ignore[arg-type]
                           {"subject": "inner_length"}),
    "split: tagged": (lambda: lk.split_iname(lk.tag_inames(twice(), "i:g.0"), "i", 4), lk.PreconditionError,
                      {"subject": "i"}),
    "split: name taken": (lambda: lk.split_iname(twice(), "i", 4, outer_iname="x"), lk.NameConflictError,
                          {"subject": "x"}),
    "split: one name twice": (lambda: lk.split_iname(twice(), "i", 4, outer_iname="q", inner_iname="q"),
                              lk.PreconditionError, {"subject": "q"}),
    "split: no name": (lambda: lk.split_iname(twice(), "i", 4, outer_iname="1q"), lk.NameConflictError,
                       {"subject": "1q"}),
    "split: unknown statement": (lambda: lk.split_iname(twice(), "i", 4, within="nothing"), lk.UnknownNameError,
                                 {"kind": "statement", "name": "nothing"}),
    "join: one": (lambda: lk.join_inames(scaled_matrix(), ["i"]), lk.PreconditionError, {"subject": "i"}),
    "join: the same": (lambda: lk.join_inames(scaled_matrix(), ["i", "i"]), lk.PreconditionError, {"subject": "i, i"}),
    "join: parametric inner": (lambda: lk.join_inames(scaled_matrix(), ["i", "j"]), lk.PreconditionError,
                               {"subject": "j"}),
    "join: wrong order": (lambda: lk.join_inames(lk.fix_parameters(scaled_matrix(), n=4), ["j", "i"]),
                          lk.ScheduleError, {"subject": "i"}),
    "join: unknown iname": (lambda: lk.join_inames(scaled_matrix(), ["i", "q"]), lk.UnknownNameError,
                            {"kind": "iname", "name": "q"}),
    "join: name taken": (lambda: lk.join_inames(lk.fix_parameters(scaled_matrix(), m=4), ["i", "j"], "y"),
                         lk.NameConflictError, {"subject": "y"}),
    "rename: unknown iname": (lambda: lk.rename_iname(twice(), "q", "r"), lk.UnknownNameError,
                              {"kind": "iname", "name": "q"}),
    "rename: name taken": (lambda: lk.rename_iname(scaled_matrix(), "i", "j"), lk.NameConflictError, {"subject": "j"}),
    "rename: a parameter's": (lambda: lk.rename_iname(twice(), "i", "n"), lk.NameConflictError, {"subject": "n"}),
    "remove: unknown iname": (lambda: lk.remove_unused_inames(twice(), ["q"]), lk.UnknownNameError,
                              {"kind": "iname", "name": "q"}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refused(name: str) -> None:
    call, error, fields = ERRORS[name]
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {field: getattr(caught.value, field) for field in fields} == fields


def test_the_argument_of_a_rule_is_no_new_iname() -> None:
    """It would take the iname's place in the rule's body."""
    knl = lk.make_kernel("{[i,j]: 0<=i<4 and 0<=j<2}", "f(s) := x[s+i+j]\ny[i,j] = f(2)")
    for call in (lambda: lk.rename_iname(knl, "i", "s"), lambda: lk.split_iname(knl, "i", 2, inner_iname="s"),
                 lambda: lk.join_inames(knl, ["i", "j"], "s")):
        with pytest.raises(lk.NameConflictError):
            call()


@pytest.mark.deep
def test_bounds_of_two_sizes_on_the_grid() -> None:
    knl = lk.make_kernel("{[q,i]: 0<=q<3 and m<=i<n and p<=i}", "for q, i\n a[i] = a[i] + q\nend",
                         [lk.GlobalArg("a", np.float64, shape=(6,)), "..."], assumptions="0<=m and 0<=p and n<=6")
    mapped = lk.tag_inames(knl, "i:g.0")
    for sizes in ((0, 0, 6), (2, 1, 6), (1, 3, 5), (4, 0, 2)):
        assert_same(knl, mapped, **dict(zip("mpn", sizes, strict=True)))


@pytest.mark.parametrize("select", [
    lambda knl: lk.split_iname(knl, "i", 4, within="id:second"),
    lambda knl: lk.rename_iname(knl, "i", "k", within="id:second"),
    lambda knl: lk.chunk_iname(knl, "i", 2, within="id:second"),
    lambda knl: lk.split_levels(knl, "i", {"a": None, "b": 4}, within="id:second")],
    ids=["split", "rename", "chunk", "levels"])
def test_a_selection_without_the_iname_is_an_error(select: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    """A step that changes nothing would hide a slip in the selection."""
    knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "x[i] = 1 {id=first}\ny[j] = 2 {id=second}")
    with pytest.raises(lk.PreconditionError, match="No statement that within= selects has the iname 'i'"):
        select(knl)
