"""distribute_loop and unroll_and_jam."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, triangle
from tests.transform.same import assert_same, step
from tests.transform.test_fusion import kernel, same

# Distribute_loop


def chain(third: str = "c[i] = b[i] + a[i]") -> lk.LoopKernel:
    return kernel("{[i]: 1<=i<n}", f"""
        for i
            a[i] = 2*x[i] {{id=first}}
            b[i] = a[i-1] + 1 {{id=second}}
            {third} {{id=third}}
        end
        """)


@pytest.mark.deep
def test_in_front_of_a_statement() -> None:
    knl = step(chain(), lk.distribute_loop, "i", "second")
    assert outline(knl) == text("""
        for i
          first: a[i] = 2*x[i]
        for i
          second: b[i] = a[i + -1] + 1
          third: c[i] = b[i] + a[i]
        """)
    assert knl.history[-1].verdict == "proven"
    same(chain(), knl)
    same(chain(), step(knl, lk.distribute_loop, "i", before="third"))


def test_fusion_takes_it_back() -> None:
    knl = lk.fuse_loops(lk.distribute_loop(chain(), "i", before="third"), "i")
    assert outline(knl) == outline(chain())


def test_statements_that_feed_back_are_refused() -> None:
    plain = kernel("{[i]: 1<=i<n}", """
        for i
            a[i] = b[i-1] + x[i] {id=first}
            b[i] = 2*a[i] {id=second}
        end
        """)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.distribute_loop(plain, "i", before="second")
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 3}, ("second", {"i": 1}), ("first", {"i": 2}))
    assert (w.array, w.element, w.kind) == ("b", (1,), "flow")
    knl = lk.distribute_loop(plain, "i", before="second", unsafe=True)
    assert [o.verdict for o in knl.obligations] == ["unsafe"]


def test_a_temporary_of_each_iteration_is_expanded() -> None:
    plain = kernel("{[i]: 0<=i<n}", """
        for i
            <> t = 2*x[i] {id=first}
            b[i] = t + 1 {id=second}
        end
        """)
    same(plain, lk.distribute_loop(plain, "i", before="second"))


def nest() -> lk.LoopKernel:
    return kernel("{[i, j]: 0<=i<n and 0<=j<m}", """
        for i
            a[i] = 2*x[i] {id=first}
            for j
                b[i, j] = a[i] + j {id=second}
                c[i, j] = b[i, j] + 1 {id=third}
            end
            d[i] = x[i] {id=fourth}
        end
        """)


@pytest.mark.deep
def test_loops_further_inside_are_split_too() -> None:
    knl = step(nest(), lk.distribute_loop, "i", before="third")
    assert outline(knl) == text("""
        for i
          first: a[i] = 2*x[i]
          for j
            second: b[i, j] = a[i] + j
        for i
          for j
            third: c[i, j] = b[i, j] + 1
          fourth: d[i] = x[i]
        """)
    for n, m in ((0, 2), (3, 0), (3, 5)):
        assert_same(nest(), knl, n=n, m=m)


def test_the_first_statement_of_an_inner_loop() -> None:
    knl = lk.distribute_loop(nest(), "i", before="second")
    assert outline(knl).splitlines()[2:5] == ["for i", "  for j", "    second: b[i, j] = a[i] + j"]
    assert_same(nest(), knl, n=3, m=5)


def test_an_inner_loop_alone() -> None:
    knl = lk.distribute_loop(nest(), "j", before="third")
    assert outline(knl).splitlines()[2:6] == ["  for j", "    second: b[i, j] = a[i] + j", "  for j",
                                              "    third: c[i, j] = b[i, j] + 1"]
    assert_same(nest(), knl, n=3, m=5)


@pytest.mark.deep
def test_a_triangle() -> None:
    plain = kernel("{[i, j]: 0<=i<n and i<=j<n}", """
        for i, j
            a[i, j] = x[i] + x[j] {id=first}
            b[j, i] = a[i, j] {id=second}
        end
        """)
    same(plain, lk.distribute_loop(plain, "i", before="second"))
    same(plain, lk.distribute_loop(plain, "j", before="second"))


def test_a_reduction_goes_with_its_statement() -> None:
    plain = kernel("{[i, k]: 0<=i<n and 0<=k<n}", """
        for i
            b[i] = 2*x[i] {id=first}
            c[i] = sum(k, a[i, k]) {id=second}
        end
        """)
    knl = step(plain, lk.distribute_loop, "i", before="second")
    assert knl.statements_text == """for i
  b[i] = 2*x[i]  {id=first}
end
for i
  c[i] = sum(k, a[i, k])  {id=second}
end"""
    same(plain, knl)


def test_a_part_of_a_reduction() -> None:
    knl = lk.distribute_loop(matvec(), "i", before="insn.k.update")
    assert outline(knl).splitlines()[:3] == ["for i", "  insn.k.init: acc_k = neutral(sum)", "for i"]
    for n, m in ((0, 3), (1, 1), (5, 7)):
        assert_same(matvec(), knl, n=n, m=m)


@pytest.mark.deep
def test_one_of_two_loops_of_a_name() -> None:
    knl = lk.distribute_loop(chain(), "i", before="second")
    knl = lk.rename_iname(knl, "i", "r", within="second or third")
    knl = lk.split_iname(knl, "r", 4, inner_tag="l.0", outer_tag="g.0")
    same(chain(), knl)


@pytest.mark.parametrize(("call", "error", "field", "value"), [
    (lambda: lk.distribute_loop(chain(), "q", "second"), lk.UnknownNameError, "name", "q"),
    (lambda: lk.distribute_loop(chain(), "i", "sceond"), lk.UnknownNameError, "name", "sceond"),
    (lambda: lk.distribute_loop(chain(), "i", "first"), lk.ScheduleError, "subject", "first"),
    (lambda: lk.distribute_loop(nest(), "j", "first"), lk.ScheduleError, "subject", "first"),
    (lambda: lk.distribute_loop(matvec(), "i", "insn"), lk.ScheduleError, "subject", "insn"),
    (lambda: lk.unroll_and_jam(matvec(), "q", 4), lk.UnknownNameError, "name", "q"),
    (lambda: lk.unroll_and_jam(matvec(), "i", 0), lk.PreconditionError, "subject", "factor"),
    (lambda: lk.unroll_and_jam(lk.tag_inames(matvec(), "i:g.0"), "i", 2), lk.PreconditionError, "subject", "i"),
    (lambda: lk.unroll_and_jam(matvec(), "i", 2, inner_iname="a"), lk.NameConflictError, "subject", "a"),
    (lambda: lk.unroll_and_jam(matvec(), "i", 2, inner_iname="i"), lk.NameConflictError, "subject", "i"),
])
def test_refused(call: object, error: type[lk.LoopkitError], field: str, value: object) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert getattr(caught.value, field) == value


# Unroll_and_jam

def test_unroll_and_jam() -> None:
    knl = step(scaled_matrix(), lk.unroll_and_jam, "i", 4)
    assert outline(knl).splitlines()[:3] == ["for i_outer", "  for j", "    for i_inner"]
    assert {x: str(t) for x, t in knl.tags.items()} == {"i_inner": "unr"}
    assert len(knl.history) == len(scaled_matrix().history) + 1
    for n, m in ((0, 3), (1, 1), (4, 3), (9, 2)):
        assert_same(scaled_matrix(), knl, n=n, m=m)


@pytest.mark.deep
def test_it_is_distributed_over_what_stands_in_the_loop() -> None:
    knl = step(nest(), lk.unroll_and_jam, "i", 2, outer_iname="io", inner_iname="ii")
    assert [line for line in outline(knl).splitlines() if "for" in line] == [
        "for io", "  for ii", "  for j", "    for ii", "  for ii"]
    for n, m in ((0, 2), (3, 0), (4, 1), (5, 5)):
        assert_same(nest(), knl, n=n, m=m)


@pytest.mark.deep
@pytest.mark.parametrize("iname", ["i", "j", "k"])
def test_of_a_matrix_product(iname: str) -> None:
    knl = step(matmul(), lk.unroll_and_jam, iname, 3)
    for n, m, l in ((0, 1, 2), (1, 1, 1), (4, 5, 7), (6, 3, 0)):                    # noqa: E741
        assert_same(matmul(), knl, n=n, m=m, l=l)


def test_both_loops_of_a_matrix_product() -> None:
    knl = lk.unroll_and_jam(lk.unroll_and_jam(matmul(), "j", 2), "i", 2)
    assert outline(knl).splitlines()[:2] == ["for i_outer", "  for j_outer"]
    for n, m, l in ((1, 1, 1), (4, 5, 7)):                                          # noqa: E741
        assert_same(matmul(), knl, n=n, m=m, l=l)


def test_of_a_triangle() -> None:
    for n in (0, 1, 4, 7):
        assert_same(triangle(), lk.unroll_and_jam(triangle(), "i", 3), n=n)


@pytest.mark.deep
def test_under_a_mapping() -> None:
    knl = lk.split_iname(scaled_matrix(), "j", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.unroll_and_jam(knl, "i", 2)
    for n, m in ((0, 3), (1, 1), (4, 3), (9, 9)):
        assert_same(scaled_matrix(), knl, n=n, m=m)


@pytest.mark.deep
def test_with_a_prefetch() -> None:
    knl = lk.unroll_and_jam(matmul(), "i", 4)
    knl = lk.split_iname(knl, "k", 4)
    knl = lk.add_prefetch(knl, "b", ["k_inner"])
    for n, m, l in ((1, 1, 1), (5, 3, 6)):                                          # noqa: E741
        assert_same(matmul(), knl, n=n, m=m, l=l)


def test_only_some_loops() -> None:
    plain = kernel("{[i, j]: 0<=i<n and 0<=j<n}", """
        for i, j
            a[i, j] = x[i] + x[j] {id=first}
        end
        for i, j
            b[j, i] = a[i, j] {id=second}
        end
        """)
    knl = lk.unroll_and_jam(plain, "i", 2, within="writes:b")
    assert {s.id: s.inames for s in knl.statements} == {"first": ("i", "j"), "second": ("i_outer", "i_inner", "j")}
    same(plain, knl)


@pytest.mark.deep
def test_a_dependence_against_the_inner_loop_is_refused() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i, j]: 1<=i<n and 0<=j<n-1}", "a[i, j] = a[i-1, j+1] + 1"), {"a": F32})
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.unroll_and_jam(plain, "i", 2)
    w = caught.value.witness
    assert w.array == "a"
    assert w.kind == "flow"
    assert w.parameters == {"n": 4}
    assert w.source[1]["i_outer"] == w.sink[1]["i_outer"]
    assert w.source[1]["j"] == w.sink[1]["j"] + 1
    skewed = lk.add_dtypes(lk.make_kernel("{[i, j]: 1<=i<n and 0<=j<n-1}", "a[i, j] = a[i-1, j] + 1"), {"a": F32})
    same(skewed, lk.unroll_and_jam(skewed, "i", 2), 0, 1, 2, 5)
