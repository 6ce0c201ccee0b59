"""apply_schedule: a new order of all statements."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, stencil, triangle, twice
from tests.transform.same import assert_domain, assert_same, step
from tests.transform.test_fusion import kernel, producer_consumer, same


def jacobi() -> lk.LoopKernel:
    return kernel("{[t, i]: 0<=t<m and 1<=i<n-1}", """
        for t
            for i
                b[i] = a[i-1] + a[i+1] {id=half}
            end
            for i
                a[i] = b[i] {id=back}
            end
        end
        """)


def same_jacobi(knl: lk.LoopKernel) -> None:
    for n, m in ((0, 2), (3, 0), (4, 1), (5, 4), (8, 3)):
        assert_same(jacobi(), knl, n=n, m=m)


# Legal

def test_the_order_that_stands() -> None:
    knl = step(jacobi(), lk.apply_schedule, {"half": "[t, 0, i]", "back": "[t, 1, i]"})
    assert outline(knl) == outline(jacobi())
    assert knl.history[-1].verdict == "proven"


def test_a_list_is_as_good_as_a_text() -> None:
    knl = step(jacobi(), lk.apply_schedule, {"half": ["t", 0, "i"], "back": ("t", 1, "i")})
    assert outline(knl) == outline(jacobi())


def test_an_interchange() -> None:
    knl = step(scaled_matrix(), lk.apply_schedule, {"insn": "[j, i]"})
    assert outline(knl) == outline(lk.interchange(scaled_matrix(), "i", "j"))
    assert_same(scaled_matrix(), knl, n=3, m=5)


def test_a_distribution_and_a_fusion() -> None:
    plain = kernel("{[i]: 1<=i<n}", """
        a[i] = 2*x[i] {id=first}
        b[i] = a[i-1] + 1 {id=second}
        """)
    apart = step(plain, lk.apply_schedule, {"first": "[0, i]", "second": "[1, i]"})
    assert outline(apart) == outline(lk.distribute_loop(plain, "i", before="second"))
    assert outline(lk.apply_schedule(apart, {"first": "[i, 0]", "second": "[i, 1]"})) == outline(plain)
    same(plain, apart)


def test_constants_only_have_an_order() -> None:
    knl = lk.apply_schedule(jacobi(), {"half": "[t, -7, i]", "back": "[t, 100, i]"})
    assert outline(knl) == outline(jacobi())


def test_statements_change_places() -> None:
    plain = kernel("{[i]: 0<=i<n}", """
        a[i] = 2*x[i] {id=first}
        b[i] = x[i] {id=second}
        """)
    knl = lk.apply_schedule(plain, {"first": "[i, 1]", "second": "[i, 0]"})
    assert list(knl.paths) == ["second", "first"]
    same(plain, knl)


def test_another_name_in_one_loop() -> None:
    knl = step(producer_consumer(), lk.apply_schedule, {"first": "[i, 0]", "second": "[j, 1]"})
    assert outline(knl) == outline(lk.fuse_loops(producer_consumer(), ["i", "j"]))
    same(producer_consumer(), knl)


def test_names_that_are_crossed() -> None:
    plain = kernel("{[i, j]: 0<=i<n and 0<=j<m}", """
        for i, j
            a[i, j] = x[i, j] {id=first}
        end
        for i, j
            b[j, i] = x[i, j] {id=second}
        end
        """)
    knl = step(plain, lk.apply_schedule, {"first": "[i, j, 0]", "second": "[j, i, 1]"})
    assert outline(knl).count("for") == 2
    for n, m in ((1, 3), (4, 2), (5, 5)):
        assert_same(plain, knl, n=n, m=m)


@pytest.mark.deep
def test_a_wavefront() -> None:
    knl = step(jacobi(), lk.apply_schedule, {"half": "[2*t + i, t, 0]", "back": "[2*t + i + 1, t, 1]"})
    assert outline(knl) == text("""
        for t_i
          for t
            half: b[t_i + (-2)*t] = a[t_i + (-2)*t + -1] + a[t_i + (-2)*t + 1]
            back: a[t_i + (-2)*t + -1] = b[t_i + (-2)*t + -1]
        """)
    same_jacobi(knl)


@pytest.mark.deep
def test_a_skewed_inner_loop() -> None:
    same_jacobi(lk.apply_schedule(jacobi(), {"half": "[t, 2*t + i, 0]", "back": "[t, 2*t + i + 1, 1]"}))


@pytest.mark.deep
def test_tiles_of_a_skewed_time_loop() -> None:
    knl = lk.apply_schedule(jacobi(), {"half": "[t, 2*t + i, 0]", "back": "[t, 2*t + i + 1, 1]"})
    knl = lk.tile(knl, {"t": 2, "t_i": 3})
    assert knl.history[-1].verdict == "proven"
    same_jacobi(knl)


def test_tiles_by_division() -> None:
    knl = step(scaled_matrix(), lk.apply_schedule, {"insn": "[i//4, j//8, i%4, j%8]"})
    assert_domain(knl, "[n, m] -> {[i_0, j_0, i_1, j_1]: 0<=i_1<4 and 0<=j_1<8 and 0<=4i_0+i_1<n and 0<=8j_0+j_1<m}")
    assert outline(knl).splitlines()[:4] == ["for i_0", "  for j_0", "    for i_1", "      for j_1"]
    for n, m in ((0, 1), (1, 1), (4, 8), (9, 17)):
        assert_same(scaled_matrix(), knl, n=n, m=m)


def test_backwards() -> None:
    knl = step(stencil(), lk.apply_schedule, {"insn": "[n - 1 - i]"})
    assert knl.inames != ("i",)
    for n in (2, 3, 8):
        assert_same(stencil(), knl, n=n)


def test_with_holes() -> None:
    knl = step(twice(), lk.apply_schedule, {"insn": "[3*i + 1]"})
    for n in (0, 1, 5):
        assert_same(twice(), knl, n=n)


@pytest.mark.deep
def test_a_triangle() -> None:
    for schedule in ("[j, i]", "[i + j, i]", "[i - j, j]", "[i//2, j, i%2]"):
        knl = lk.apply_schedule(triangle(), {"insn": schedule})
        for n in (0, 1, 2, 7):
            assert_same(triangle(), knl, n=n)


def test_an_iname_twice() -> None:
    knl = lk.apply_schedule(twice(), {"insn": "[i, i]"})
    assert knl.inames == ("i", "i_0")
    same(twice(), knl)


def test_a_statement_in_one_iteration() -> None:
    plain = kernel("{[i]: 0<=i<n}", """
        a[0] = x[0] {id=start}
        for i
            b[i] = 2*x[i] {id=sweep}
        end
        """)
    knl = step(plain, lk.apply_schedule, {"start": "[0, 1]", "sweep": "[i, 0]"})
    assert outline(knl) == text("""
        for i
          sweep: b[i] = 2*x[i]
          start: a[0] = x[0]
        """)
    same(plain, knl, 1, 2, 5)
    last = lk.apply_schedule(plain, {"start": "[n-1, 1]", "sweep": "[i, 0]"})
    same(plain, last, 1, 2, 5)
    inner = kernel("{[i, j]: 0<=i,j<n}", """
        for i
            a[i] = x[i] {id=start}
            for j
                b[i, j] = a[i] + j {id=sweep}
            end
        end
        """)
    knl = lk.apply_schedule(inner, {"start": "[i, 0, 0]", "sweep": "[i, j, 1]"})
    assert outline(knl).count("for") == 2
    same(inner, knl)


def test_vectors_of_several_lengths() -> None:
    plain = kernel("{[i, j]: 0<=i,j<n}", """
        for i
            a[i] = x[i] {id=start}
            for j
                b[i, j] = a[i] + j {id=sweep}
            end
        end
        """)
    assert outline(lk.apply_schedule(plain, {"start": "[i, 0]", "sweep": "[i, 1, j]"})) == outline(plain)
    knl = lk.apply_schedule(plain, {"start": "[0, i]", "sweep": "[1, j, i]"})
    same(plain, knl)


# Reductions

@pytest.mark.deep
def test_a_reduction_runs_where_its_statement_does() -> None:
    knl = step(matmul(), lk.apply_schedule, {"insn": "[j, i]"})
    assert outline(knl) == outline(lk.prioritize_loops(matmul(), "j, i, k"))
    for n, m, l in ((1, 1, 1), (3, 4, 5), (2, 3, 0)):                               # noqa: E741
        assert_same(matmul(), knl, n=n, m=m, l=l)
        skewed = lk.apply_schedule(matmul(), {"insn": "[i + j, j]"})
        assert_same(matmul(), skewed, n=n, m=m, l=l)
        tiled = lk.split_iname(lk.apply_schedule(matmul(), {"insn": "[i//2, j//2, i%2, j%2]"}), "k", 4)
        assert_same(matmul(), tiled, n=n, m=m, l=l)


def test_the_parts_of_a_reduction() -> None:
    knl = step(matvec(), lk.apply_schedule,
               {"insn.k.init": "[0, i]", "insn.k.update": "[1, k, i]", "insn": "[2, i]"})
    assert outline(knl) == outline(lk.prioritize_loops(matvec(), "k, i"))
    for n, m in ((1, 1), (5, 7), (3, 0)):
        assert_same(matvec(), knl, n=n, m=m)
    back = lk.apply_schedule(knl, {"insn.k.init": "[i, 0]", "insn.k.update": "[i, 1, k]", "insn": "[i, 2]"})
    assert outline(back) == outline(matvec())


def test_two_reductions_in_one_loop() -> None:
    plain = kernel("{[i, k, l]: 0<=i<n and 0<=k,l<m}", """
        b[i] = sum(k, a[i, k]) {id=first}
        c[i] = sum(l, a[i, l]*a[i, l]) {id=second}
        """)
    knl = lk.apply_schedule(plain, {
        "first.k.init": "[i, 0]", "second.l.init": "[i, 1]", "first.k.update": "[i, 2, k, 0]",
        "second.l.update": "[i, 2, l, 1]", "first": "[i, 3]", "second": "[i, 4]"})
    assert outline(knl) == outline(lk.fuse_loops(plain, ["k", "l"]))
    for n, m in ((0, 0), (3, 5)):
        assert_same(plain, knl, n=n, m=m)


def test_an_update_before_its_init_is_refused() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.apply_schedule(matvec(), {"insn.k.init": "[i, 1]", "insn.k.update": "[i, 0, k]", "insn": "[i, 2]"})
    assert (caught.value.witness.source[0], caught.value.witness.sink[0]) == ("insn.k.init", "insn.k.update")


# With tags

def test_an_iname_with_a_tag_is_kept() -> None:
    tagged = lk.tag_inames(scaled_matrix(), "i:g.0")
    knl = lk.apply_schedule(tagged, {"insn": "[j, i]"})
    assert {x: str(t) for x, t in knl.tags.items()} == {"i": "g.0"}
    assert_same(scaled_matrix(), knl, n=3, m=5)
    with pytest.raises(lk.PreconditionError, match=r"'i' has the tag 'g\.0'") as caught:
        lk.apply_schedule(tagged, {"insn": "[j, i + j]"})
    assert caught.value.subject == "i"


@pytest.mark.deep
def test_mapped_after_it() -> None:
    knl = lk.apply_schedule(jacobi(), {"half": "[2*t + i, t, 0]", "back": "[2*t + i + 1, t, 1]"})
    with pytest.raises(lk.IllegalTransformError):
        lk.split_iname(knl, "t", 4, inner_tag="l.0")            # back and the next half share a wave
    knl = lk.apply_schedule(jacobi(), {"half": "[3*t + i, t, 0]", "back": "[3*t + i + 1, t, 1]"})
    same_jacobi(lk.split_iname(knl, "t", 4, inner_tag="l.0"))


def test_a_prefetch_after_it() -> None:
    knl = lk.apply_schedule(scaled_matrix(), {"insn": "[i//4, j//4, i%4, j%4]"})
    knl = lk.add_prefetch(knl, "x", ["i_1", "j_1"])
    assert_same(scaled_matrix(), knl, n=6, m=9)


# Illegal

def test_a_reversed_sweep_is_refused() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + 1"), {"a": F32})
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.apply_schedule(plain, {"insn": "[-i]"})
    w = caught.value.witness
    assert (w.array, w.kind, w.parameters) == ("a", "flow", {"n": 3})
    assert w.element == (1,)


def test_a_rectangular_wavefront_is_refused() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.apply_schedule(jacobi(), {"half": "[i, t, 0]", "back": "[i, t, 1]"})
    w = caught.value.witness
    assert (w.source, w.sink) == (("half", {"t": 0, "i": 2}), ("back", {"t": 0, "i": 1}))
    assert (w.array, w.element, w.kind) == ("a", (1,), "anti")


def test_a_fusion_over_a_forward_read_is_refused() -> None:
    plain = producer_consumer("j+1", "{[i, j]: 0<=i<n and 0<=j<n-1}")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.apply_schedule(plain, {"first": "[i, 0]", "second": "[j, 1]"})
    w = caught.value.witness
    assert (w.parameters, w.source, w.sink) == ({"n": 2}, ("first", {"i": 1}), ("second", {"i": 0}))
    late = lk.apply_schedule(plain, {"first": "[i, 0]", "second": "[j + 1, 1]"})        # shifted by one it is legal
    same(plain, late)
    knl = lk.apply_schedule(plain, {"first": "[i, 0]", "second": "[j, 1]"}, unsafe=True)
    assert [o.step for o in knl.obligations] == ["apply_schedule"]


def test_an_indirect_read_is_undecided() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", """
        a[i] = 2*x[i] {id=first}
        b[j] = a[idx[j]] {id=second}
        """)
    with pytest.raises(lk.UndecidedError):
        lk.apply_schedule(plain, {"first": "[i, 0]", "second": "[j, 1]"})
    knl = lk.apply_schedule(plain, {"first": "[i, 0]", "second": "[j, 1]"}, assume="idx points backwards")
    assert [o.verdict for o in knl.obligations] == ["assumed"]


# What is no schedule

J = {"half": "[t, 0, i]", "back": "[t, 1, i]"}


@pytest.mark.parametrize(("schedules", "error", "field", "value"), [
    ({}, lk.PreconditionError, "subject", "schedules"),
    ({"half": "[t, 0, i]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "bock": "[t, 1, i]"}, lk.UnknownNameError, "name", "bock"),
    ({**J, "*": "[t, 1, i]"}, lk.PreconditionError, "subject", "half"),
    ({**J, "back": "[t, 1, q]"}, lk.UnknownNameError, "name", "q"),
    ({**J, "back": "[t, 1, a[i]]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "back": "[t, 1, i*t]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "back": "[t, 1, i/2]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "back": "[t, 1, min(i, t)]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "back": "[t, 1, i//n]"}, lk.PreconditionError, "subject", "back"),
    ({**J, "back": ["t", 1.0, "i"]}, lk.PreconditionError, "subject", "schedules"),
    ({**J, "back": ["t", True, "i"]}, lk.PreconditionError, "subject", "schedules"),
    ({**J, "back": 3}, lk.PreconditionError, "subject", "schedules"),
    ({**J, "back": "[t, 0, i]"}, lk.ScheduleError, "subject", "half"),
    ({"half": "[t, i]", "back": "[t, i, 1]"}, lk.ScheduleError, "subject", "half"),
    ({"half": "[]", "back": "[]"}, lk.ScheduleError, "subject", "half"),
    ({**J, "back": "[t, 1]"}, lk.ScheduleError, "subject", "back"),
    ({**J, "back": "[1, t + i]"}, lk.ScheduleError, "subject", "back"),
    ({**J, "back": "[t, 1, i//2]"}, lk.ScheduleError, "subject", "back"),
    ({**J, "back": "t, 1, i"}, lk.ParseError, "column", 1),
    ({**J, "back": "[t, 1, i"}, lk.ParseError, "column", 1),
    ({**J, "back": "[t, 1, i] 2"}, lk.ParseError, "column", 11),
    ({**J, "back": "[t, , i]"}, lk.ParseError, "column", 5),
    ({**J, "back": "[t 1, i]"}, lk.ParseError, "column", 4),
])
def test_refused(schedules: dict[str, str], error: type[lk.LoopkitError], field: str, value: object) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        lk.apply_schedule(jacobi(), schedules)
    assert type(caught.value) is error, caught.value
    assert getattr(caught.value, field) == value


def test_two_instances_at_one_time() -> None:
    with pytest.raises(lk.ScheduleError) as caught:
        lk.apply_schedule(scaled_matrix(), {"insn": "[i]"})
    assert caught.value.message.startswith(
        "The schedule of 'insn' runs insn[i=0, j=0] and insn[i=0, j=1] at the same time, with ")
    assert "m = 2" in caught.value.message
    assert caught.value.hint == "add a dimension that differs for the two, such as j"


@pytest.mark.parametrize(("schedules", "error", "subject"), [
    ({"insn.k.init": "[0, i]", "insn": "[2, i]"}, lk.PreconditionError, "insn.k.update"),
    ({"insn.k.init": "[i, 0]", "insn.k.update": "[i, 1, i + k]", "insn": "[i, 2]"}, lk.ScheduleError, "insn.k.update"),
    ({"insn": "[k, i]"}, lk.UnknownNameError, None),
])
def test_parts_refused(schedules: dict[str, str], error: type[lk.LoopkitError], subject: str | None) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        lk.apply_schedule(matvec(), schedules)
    assert type(caught.value) is error
    assert subject is None or getattr(caught.value, "subject", None) == subject


def test_parts_in_loops_of_their_own_must_be_named() -> None:
    with pytest.raises(lk.ScheduleError, match="The parts of 'insn' are in separate loops") as caught:
        lk.apply_schedule(lk.prioritize_loops(matvec(), "k, i"), {"insn": "[i]"})
    assert caught.value.hint == "give each part a schedule: insn.k.init, insn.k.update, insn"


def test_parts_of_a_reduction_share_their_inames() -> None:
    """The init would move into a loop over another iname than the update's."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j,k<n}", "z[j] = 2*x[j, 0] {id=T}\ny[i] = sum(k, x[k, i]) {id=S}")
    apart = {"S.k.update": "[2, i, k]", "S": "[3, i]"}
    with pytest.raises(lk.ScheduleError, match=r"different inames: 'S[.]k[.]init' has 'j'") as caught:
        lk.apply_schedule(knl, {"T": "[0, j, 0]", "S.k.init": "[0, i, 1]", **apart})
    assert caught.value.subject == "S.k"
    beside = lk.apply_schedule(knl, {"T": "[0, j]", "S.k.init": "[1, i]", **apart})
    with pytest.raises(lk.ScheduleError, match=r"fuse_loops\(j, i\) would give the parts of the reduction"):
        lk.fuse_loops(beside, ["j", "i"], within="T or S.k.init")
