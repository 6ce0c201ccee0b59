"""Unexpected behaviour of isl, and the code of loopkit that handles it."""
from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import islpy as isl
import pymbolic.primitives as p
import pytest

from loopkit.errors import UndecidedError
from loopkit.poly import codegen, limits
from loopkit.poly.affine import (
    NotAffineError,
    TruncatedQuotient,
    TruncatedRemainder,
    add,
    affine_difference,
    from_pw_aff,
    multiply,
    to_aff,
)
from loopkit.poly.codegen import CodeLoop
from loopkit.poly.domains import full_box_condition
from loopkit.poly.elements import reached_within
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import (
    at_one_point,
    carry,
    element_at,
    in_time_order,
    injective_given,
    out_of_time_order,
    same_element,
    smallest_pair,
    subscript_relation,
)
from loopkit.poly.sets import (
    InstanceSet,
    fix_params,
    lexmin_point,
    parse_assumptions,
    range_condition,
    rename_param,
    to_param,
    universe_params,
)
from tests.loop_programs import generated, run

i, j, k, n = (p.Variable(x) for x in "ijkn")
LINE = InstanceSet.parse("[n] -> { [i] : 0 <= i < n }")
SQUARE = InstanceSet.parse("[n] -> { [i, j] : 0 <= i < n and 0 <= j < n }")


# Sets

def test_names_of_dimensions_do_not_count_in_isl_so_they_stand_beside_the_set() -> None:
    other = InstanceSet.parse("[n] -> { [q] : 0 <= q < n }")
    assert LINE.set.is_equal(other.set)             # isl sees one set
    assert not LINE.is_equal(other)                 # we see two


def test_a_set_and_its_inames_must_fit() -> None:
    with pytest.raises(ValueError, match="has not the dimensions"):
        InstanceSet(("i", "j"), LINE.set)


def test_an_empty_set_is_false_in_isl_and_asked_by_name_here() -> None:
    empty = LINE.where((">=", add(i, multiply(-1, n))))
    assert empty.is_empty()
    assert not LINE.is_empty()


@pytest.mark.parametrize("text", ["{ [i] : 0 <= i < }", "{ [i] : i <= n }", "[n] -> { [i", "{ [i] : i*i <= 3 }", "foo"])
def test_an_isl_error_becomes_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        InstanceSet.parse(text)


@pytest.mark.parametrize("text", ["{ S[i] : 0 <= i < 4 }", "{ [3] : }"])
def test_a_set_without_names_for_its_dimensions_is_none_of_ours(text: str) -> None:
    with pytest.raises(ValueError, match="one name for each dimension"):
        InstanceSet.parse(text)


def test_assumptions_that_isl_refuses_are_value_errors() -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_assumptions("n >=", ["n"])
    with pytest.raises(ValueError, match=r".+"):
        parse_assumptions("m >= 1", ["n"])


def test_projection_keeps_the_order_that_is_asked_for() -> None:
    points = InstanceSet.parse("{ [i, j, k] : i = 1 and j = 2 and k = 3 }")
    turned = points.onto(("k", "i"))
    assert turned.inames == ("k", "i")
    assert turned.is_equal(InstanceSet.parse("{ [k, i] : k = 3 and i = 1 }"))


def test_a_parameter_becomes_the_dimension_of_its_name() -> None:
    inner = InstanceSet.parse("[i, n] -> { [j] : 0 <= j <= i }")
    assert inner.onto(("i", "j")).is_equal(InstanceSet.parse("{ [i, j] : 0 <= j <= i }"))


def test_bound_dimensions_become_parameters_and_one_of_that_name_is_met() -> None:
    assert SQUARE.bound(["i"]).is_equal(InstanceSet.parse("[n, i] -> { [j] : 0 <= i < n and 0 <= j < n }"))
    both = InstanceSet(("a", "j"), InstanceSet.parse("[a, n] -> { [b, j] : b = a and 0 <= j < n and 0 <= a < n }").set)
    assert both.bound(["a"]).is_equal(InstanceSet.parse("[a, n] -> { [j] : 0 <= j < n and 0 <= a < n }"))


def test_unused_parameters_are_no_parameters() -> None:
    assert InstanceSet.parse("[n, m] -> { [i] : 0 <= i < n }").params == ("n",)
    assert "m" not in InstanceSet.parse("[n, m] -> { [i] : 0 <= i < n }").text


def test_an_unbounded_dimension_has_no_constant_range() -> None:
    """isl counts through unbounded sets for ever; ranges are asked for first."""
    assert LINE.constant_range("i") == (0, None)
    assert InstanceSet.parse("{ [i] : i >= 3 }").constant_range("i") == (3, None)
    assert InstanceSet.parse("{ [i] : 2 <= i < 9 }").constant_range("i") == (2, 8)
    assert InstanceSet.parse("{ [i] : 1 = 0 }").constant_range("i") == (None, None)


def test_the_smallest_point_tries_sizes_from_zero_up() -> None:
    assert smallest("[n] -> { [i] : 0 <= i < n }") == ({"n": 1}, {"i": 0})
    assert smallest("[n] -> { [i] : i >= n }") == ({"n": 0}, {"i": 0})
    assert smallest("[n] -> { [i] : n <= i <= -3 }") == ({"n": -3}, {"i": -3})
    assert smallest("[n] -> { [i] : -2 <= n and -5 <= i <= n }") == ({"n": -2}, {"i": -5})
    assert smallest("{ [i] : 1 = 0 }") is None


def test_the_smallest_point_goes_by_the_order_of_the_parameters() -> None:
    points = InstanceSet.parse("[n, m] -> { [i] : i >= 0 and n >= 1 and m >= 1 and n + m >= 7 }")
    assert lexmin_point(points.set, points.inames, ("n", "m")) == ({"n": 1, "m": 6}, {"i": 0})
    assert lexmin_point(points.set, points.inames) == ({"m": 1, "n": 6}, {"i": 0})
    assert list(lexmin_point(points.set, points.inames, ("n",))[0]) == ["n", "m"]         # type: ignore[index]


def test_an_empty_piece_has_no_minimum() -> None:
    """isl takes a piece that is empty, but not known to be, for a minimum of 0."""
    points = isl.Set("{ [n, i, a, j] : 0 <= a <= 9 and ((8i <= -2 + n and a <= n - 8i and j < i and 8j >= -15 + a and "
                     "8j > -a) or (-8i < a <= 15 + 8i and j > i and 8j <= n - a and 8j <= -2 + n)) }")
    for dim, value in enumerate((10, 0)):
        points = points.fix_val(isl.dim_type.set, dim, isl.Val(value))
    found = InstanceSet(("n", "i", "a", "j"), points)
    assert found.set.n_basic_set() == 2
    assert lexmin_point(found.set, found.inames) == ({}, {"n": 10, "i": 0, "a": 1, "j": 1})
    assert found.constant_range("a") == (1, 2)
    assert found.constant_range("j") == (1, 1)


def smallest(text: str) -> tuple[dict[str, int], dict[str, int]] | None:
    points = InstanceSet.parse(text)
    return lexmin_point(points.set, points.inames)


def test_parameters_are_fixed_and_renamed_by_name() -> None:
    assert fix_params(LINE.set, {"n": 4, "unknown": 1}).is_equal(InstanceSet.parse("{ [i] : 0 <= i < 4 }").set)
    assert InstanceSet(("i",), rename_param(LINE.set, "n", "m")).params == ("m",)


# Affine forms

@pytest.mark.parametrize("expr", [i*j, i*n, p.Quotient(i, 2), p.FloorDiv(i, n), p.FloorDiv(i, -2), p.Remainder(i, 0),
                                  p.Power(i, 2), p.Call(p.Variable("f"), (i,)), p.Subscript(p.Variable("a"), (i,)),
                                  1.5*i, True])
def test_what_is_not_quasi_affine(expr: object) -> None:
    with pytest.raises(NotAffineError):
        to_aff(expr, ("i", "j"))                                            # type: ignore[arg-type]


def test_names_that_are_not_allowed_make_a_form_not_affine() -> None:
    to_aff(i + 2*n, ("i",), ["n"])
    with pytest.raises(NotAffineError):
        to_aff(i + 2*n, ("i",), ["m"])


@pytest.mark.parametrize("value", range(-7, 8))
def test_floor_division_rounds_down(value: int) -> None:
    """``fdiv_q`` is floor division; only where isl proves the operand nonnegative does it say ``pdiv_q``."""
    quotient = from_pw_aff(isl.PwAff.from_aff(to_aff(p.FloorDiv(n, 4), ())))
    assert isinstance(quotient, p.FloorDiv)
    assert not isinstance(quotient, TruncatedQuotient)
    relation = subscript_relation(("i",), (p.FloorDiv(i, 4), p.Remainder(i, 4)))
    assert element_at(relation, {}, (value,)) == (value // 4, value % 4)


def test_truncated_division_is_told_apart() -> None:
    positive = parse_assumptions("n >= 0", ["n"])
    quotient = from_pw_aff(isl.PwAff.from_aff(to_aff(p.FloorDiv(n, 4), ())), positive)
    remainder = from_pw_aff(isl.PwAff.from_aff(to_aff(p.Remainder(n, 4), ())), positive)
    assert isinstance(quotient, TruncatedQuotient)
    assert isinstance(remainder, TruncatedRemainder)


def test_sums_collect_their_terms() -> None:
    assert add(i, 3, multiply(-1, i), -1) == 2
    assert add(multiply(2, i), j, multiply(3, i)) == p.Sum((multiply(5, i), j))
    assert affine_difference(add(i, n, 5), add(n, i)) == 5
    assert affine_difference(add(i, n), i) is None


# Code

def test_the_filters_of_a_sequence_partition_the_domain() -> None:
    """isl drops a statement without a word that no filter names."""
    tree = CodeLoop("i", ("A", CodeLoop("j", "B"), "C"))
    code = generated(tree, {"A": LINE, "B": SQUARE, "C": LINE}, universe_params())
    want = [c for x in range(3) for c in [("A", (x,)), *(("B", (x, y)) for y in range(3)), ("C", (x,))]]
    assert run(code, {"n": 3}) == want


def test_a_domain_of_pieces_is_visited_in_order_once() -> None:
    pieces = InstanceSet.parse("[n] -> { [i] : 0 <= i < n or 2*n <= i < 3*n or (exists e : i = 5*e and 0 <= i < 3*n) }")
    code = generated(CodeLoop("i", "A"), {"A": pieces}, parse_assumptions("n >= 1", ["n"]))
    for size in (1, 2, 4):
        wanted = sorted({*range(size), *range(2*size, 3*size), *range(0, 3*size, 5)})
        assert [v for _, (v,) in run(code, {"n": size})] == wanted


UNIONS = {
    "pieces with a stride": (CodeLoop("i", "A"), {
        "A": "0 <= i < n or 2*n <= i < 3*n or (exists e : i = 5*e and 0 <= i < 3*n)"}),
    "two strides in one loop": (CodeLoop("i", ("A", "B")), {
        "A": "0 <= i < n and i mod 2 = 0", "B": "0 <= i < n and i mod 3 = 1"}),
    "a stride below a loop": (CodeLoop("i", ("A", CodeLoop("j", "B"))), {
        "A": "0 <= i < n", "B": "(0 <= i < n or 2*n <= i < 3*n) and 0 <= j <= i and (i + 2*j) mod 3 = 1"}),
    "chunks": (CodeLoop("i", CodeLoop("j", "B")), {
        "B": "0 <= i < 3 and (0 <= j < floor(n/3) or (j = floor(n/3) and i < n mod 3))"}),
    "nothing": (CodeLoop("i", "A"), {"A": "0 <= i < n and i < 0"}),
}


@pytest.mark.parametrize("name", UNIONS)
def test_loops_over_more_than_the_points_have_conditions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where isl cannot afford loops that run exactly the points, looser ones run the same in the same order."""
    tree, conditions = UNIONS[name]
    domains = {x: InstanceSet.parse(f"[n] -> {{ [{'i, j' if 'j' in text else 'i'}] : {text} }}")
               for x, text in conditions.items()}
    context = parse_assumptions("n >= 1", ["n"])
    exact = generated(tree, domains, context)
    monkeypatch.setattr(codegen, "LOOPS", 1)
    loose = generated(tree, domains, context)
    for n in range(1, 9):
        assert run(loose, {"n": n}) == run(exact, {"n": n})


def test_loops_that_start_below_zero_and_have_strides() -> None:
    strided = InstanceSet.parse("[n] -> { [i] : -7 <= i < n and exists e : i = 3*e + 1 }")
    code = generated(CodeLoop("i", "A"), {"A": strided}, universe_params())
    for size in (-7, -5, 0, 6):
        assert [v for _, (v,) in run(code, {"n": size})] == [v for v in range(-7, size) if v % 3 == 1]


def test_strides_are_shifted_into_one_loop() -> None:
    """isl runs 2 i and 2 i + 1 in one iteration, so the loop's variable is the iname of one of them at most."""
    even, odd = (InstanceSet.parse(f"[n] -> {{ [i] : 0 <= i < n and i mod 2 = {r} }}") for r in (0, 1))
    code = generated(CodeLoop("i", ("A", "B")), {"A": even, "B": odd}, universe_params())
    assert [(node.kind, node.name) for node in code] == [("loop", "i_base_0")]
    for size in (0, 1, 4, 5):
        assert run(code, {"n": size}) == [("AB"[v % 2], (v,)) for v in range(size)]


def test_a_one_trip_loop_binds_its_iterator() -> None:
    """The iterator of a remainder tile is a value that later bounds use, not a product that may overflow."""
    tail = InstanceSet.parse("[n] -> { [o, i] : 16*o <= 16*o + i < n and 0 <= i < 16 and 16*o + 16 > n and o >= 0 }")
    code = generated(CodeLoop("o", CodeLoop("i", "A")), {"A": tail}, parse_assumptions("n >= 0", ["n"]))
    for size in (0, 1, 15, 16, 33):
        assert run(code, {"n": size}) == [("A", (size // 16, r)) for r in range(size % 16)]


def test_names_with_dots_pass_through_isl() -> None:
    both = {"S.k.init": LINE, "S.k.update": SQUARE}
    code = generated(CodeLoop("i", ("S.k.init", CodeLoop("j", "S.k.update"))), both, universe_params())
    assert {name for name, _ in run(code, {"n": 2})} == set(both)


def test_a_parameter_with_a_dot_too() -> None:
    alone = LINE.where(("==", p.Variable("l.0")))
    code = generated(CodeLoop("i", "A"), {"A": alone}, range_condition("l.0", 0, 7))
    assert run(code, {"n": 2, "l.0": 0}) == [("A", (0,)), ("A", (1,))]
    assert run(code, {"n": 2, "l.0": 3}) == []


def test_what_the_context_implies_is_not_asked_again() -> None:
    inside = parse_assumptions("n >= 8", ["n"])
    for text, kinds in (("n >= 4", ["leaf"]), ("n < 4", []), ("n >= 9", ["branch"])):
        points = InstanceSet((), parse_assumptions(text, ["n"]))
        assert [node.kind for node in generated("A", {"A": points}, inside)] == kinds


def test_full_tiles_by_the_condition_of_a_full_box() -> None:
    tile = InstanceSet.parse("[n] -> { [o, i] : 0 <= i < 16 and 0 <= 16*o + i < n }")
    full = full_box_condition(tile.set, tile.inames, {"i": (0, 15)}, involving=(), free_of=())
    assert full is not None
    assert full.is_equal(isl.Set("[n, o] -> { : 16*o + 15 < n }"))


# The budget

def test_a_question_that_is_too_large_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUDGET", 10)
    points = isl.Set("[n] -> { [i, j] : 0 <= i < n and 0 <= j <= i and exists e : i + 3j = 7e }")
    with pytest.raises(UndecidedError, match="step of kernel 'k' has a question") as caught, \
            limits.bounded("step of kernel 'k'"):
        points.lexmin()
    assert "10 operations" in caught.value.reason
    assert isl.Set("{ [i] : 0 <= i < 9 }").lexmin().is_empty() is False         # the next question has no budget


@pytest.mark.parametrize("asked", [lambda: int(isl.Val(7).to_python()), lambda: str(isl.Set("{ [i] : 0 <= i < 9 }"))])
def test_texts_that_isl_cannot_afford_are_the_end_of_the_budget(asked: Callable[[], object]) -> None:
    """islpy gives ``None`` for them, and what reads that raises what it likes."""
    def never_enough() -> None:
        while True:
            isl.Set("{ [i] : 0 <= i < 9 }").lexmin()

    def at_the_end() -> object:
        with pytest.raises(isl.Error):
            never_enough()
        return asked()
    with pytest.raises(UndecidedError, match="a step has a question"), limits.bounded("a step", 10_000):
        at_the_end()
    assert limits.affordable(at_the_end, otherwise="nothing") == "nothing"
    with pytest.raises(TypeError), limits.bounded("a step"):
        len(3)                                                              # type: ignore[arg-type]


def test_another_error_of_isl_is_one_of_ours_too() -> None:
    with pytest.raises(UndecidedError, match="a step has a question that cannot be decided") as caught, \
            limits.bounded("a step"):
        isl.Set("{ [i] : ")
    assert "isl failed" in caught.value.reason


# Relations in time

def test_time_order_is_lexicographic() -> None:
    pairs = same_element(subscript_relation(("i", "j"), (i,)), subscript_relation(("i", "j"), (i,)))
    ordered = in_time_order(pairs, ((0, 0), (1, 1)), before=False)
    assert ordered.is_equal(isl.Map("{ [i, j] -> [i, q] : q > j }"))
    assert out_of_time_order(ordered, ((0, 0), (1, 1)), before=False) is None
    assert out_of_time_order(ordered.reverse(), ((0, 0), (1, 1)), before=False) is not None


def test_the_smallest_pair_is_lexicographic_too() -> None:
    pairs = isl.Map("[n] -> { [i] -> [j] : 1 <= i < j < n }")
    assert smallest_pair(pairs, ("i",), ("j",)) == ({"n": 3}, {"i": 1}, {"j": 2})


def test_carried_along_an_instance_relation_pairs_stay_pairs() -> None:
    pairs = isl.Map("{ [i] -> [i + 5] }")
    split = isl.Map("{ [i] -> [o, r] : i = 4o + r and 0 <= r < 4 }")
    moved = carry(pairs, split, split)
    assert moved.is_equal(isl.Map("{ [o, r] -> [q, s] : 4q + s = 4o + r + 5 and 0 <= r, s < 4 }"))


def test_injectivity_within_what_is_given() -> None:
    relation, anywhere = subscript_relation(("i", "j"), (j,)), InstanceSet.universe(("i", "j"))
    assert injective_given(relation, anywhere, [0])
    assert not injective_given(relation, anywhere, [])
    assert injective_given(relation, InstanceSet.parse("[n] -> { [i, j] : i = n and 0 <= j < n }"), [])


@pytest.mark.parametrize("reached", [
    "[n, m] -> { [i] -> [i] : 0 <= i < n and m > 0 }",                        # of no element where m is not positive
    "[n, m] -> { [i] -> [i] : 0 <= i < n and i < m; [i] -> [i] : m <= i < n }",
    "[n, m] -> { [i] -> [i] : 0 <= i < n and (m = 2 or m >= 7) }",
    "[n, m] -> { [i] -> [i] : 0 <= i < n and m <= 3; [i] -> [i] : 1 <= i < n and m > 3 }",
    "[n, m] -> { [i] -> [2i] : 0 <= 2i < n; [i] -> [2i + 1] : 0 < 2i + 1 < n and m > 0 }"])
def test_elements_that_are_reached_in_many_pieces_are_the_same_elements(reached: str) -> None:
    relation, assumptions = isl.Map(reached), isl.Set("[n, m] -> { : n >= 0 and m >= 0 }")
    found = reached_within([relation], [n], assumptions)
    assert found.intersect_params(assumptions).is_equal(relation.range().intersect_params(assumptions))


def test_elements_of_all_of_an_array_or_none_are_one_piece() -> None:
    pieces = " or ".join(f"(k = {k} and {k}*l <= 5i + {k} and 5i < {k + 1}*l)" for k in range(5))
    relation = isl.Map(f"[l, m] -> {{ [i, k, j] -> [i] : 0 <= i < l and 0 <= j < m and ({pieces}) }}")
    assumptions = isl.Set("[l, m] -> { : l >= 0 and m >= 0 }")
    assert relation.range().n_basic_set() > 1
    found = reached_within([relation], [p.Variable("l")], assumptions)
    assert found.is_equal(isl.Set("[l, m] -> { [i] : 0 <= i < l and m > 0 }"))
    assert found.n_basic_set() == 1


def write(relation: str, *time: tuple[str, int], must: bool = True) -> TimedAccess:
    return TimedAccess(isl.Map(relation), True, must, time)


def read(relation: str, *time: tuple[str, int]) -> TimedAccess:
    return TimedAccess(isl.Map(relation), False, True, time)


def test_a_must_write_hides_earlier_ones_a_may_write_does_not() -> None:
    accesses = [write("{ [] -> [0] }", ("at", 0)), write("{ [] -> [0] }", ("at", 1)), read("{ [] -> [0] }", ("at", 2))]
    assert [(a, b) for a, b, _ in value_flow(accesses)] == [(1, 2)]
    accesses[1] = write("{ [] -> [0] }", ("at", 1), must=False)
    assert [(a, b) for a, b, _ in value_flow(accesses)] == [(0, 2), (1, 2)]


def random_accesses(random: Random) -> list[TimedAccess]:
    """Accesses of a nest of two loops to some cells, with their positions in it."""
    cells = ["[0]", "[i]", "[j]", "[i + j]", "[i + 1]", "[2*i]", "[i - j]", "[e]", "[e]"]
    conditions = ["", " and i mod 2 = 0", " and j <= i", " and (i + j) mod 3 = 1", " and exists (q: j = 2*q + 1)"]
    result = []
    for position in range(random.randint(2, 5)):
        points = f"0 <= i < n and 0 <= j < 4{random.choice(conditions)}"
        cell = random.choice(cells)
        several = random.choice([" and 0 <= e < 5", " and i <= e < i + 3", " and j - 1 <= e <= j"])
        relation = f"[n] -> {{ [i, j] -> {cell} : {points}{several if cell == '[e]' else ''} }}"
        if position == 0 or random.random() < 0.5:
            result.append(write(relation, ("loop", 0), ("loop", 1), ("at", position), must=random.random() < 0.6))
        else:
            result.append(read(relation, ("loop", 0), ("loop", 1), ("at", position)))
    return result


Pairs = set[tuple[tuple[int, ...], ...]]


def pairs_of(relation: isl.Map, n: int) -> Pairs:
    """The pairs of *relation* at the size *n*."""
    found: Pairs = set()
    inner = relation.dim(isl.dim_type.in_)

    def add(point: isl.Point) -> None:
        values = [int(point.get_coordinate_val(isl.dim_type.set, i).to_python())
                  for i in range(inner + relation.dim(isl.dim_type.out))]
        found.add((tuple(values[:inner]), tuple(values[inner:])))
    fix_params(relation, {"n": n}).wrap().foreach_point(add)
    return found


def flow_by_running(accesses: list[TimedAccess], n: int) -> dict[tuple[int, int], Pairs]:
    """The last certain write before each read, and what may have come after it."""
    touched = [pairs_of(access.relation, n) for access in accesses]
    last: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
    result: dict[tuple[int, int], Pairs] = {}
    for point in product(range(n), range(4)):
        for number, access in enumerate(accesses):
            for cell in {c for at, c in touched[number] if at == point}:
                if not access.is_write:
                    for source, at in last.get(cell, []):
                        result.setdefault((source, number), set()).add((at, point))
                elif access.must:
                    last[cell] = [(number, point)]
                else:
                    last.setdefault(cell, []).append((number, point))
    return result


@pytest.mark.parametrize("seed", range(60))
def test_flow_is_what_running_shows(seed: int) -> None:
    accesses = random_accesses(Random(seed))
    found = {(source, sink): pairs_of(relation, 3) for source, sink, relation in value_flow(accesses)}
    assert {pair: points for pair, points in found.items() if points} == flow_by_running(accesses, 3)


def test_flow_between_iterations() -> None:
    accesses = [read("{ [i] -> [i - 1] : 0 <= i < 9 }", ("loop", 0), ("at", 0)),
                write("{ [i] -> [i] : 0 <= i < 9 }", ("loop", 0), ("at", 1))]
    [(source, sink, relation)] = value_flow(accesses)
    assert (source, sink) == (1, 0)
    assert relation.is_equal(isl.Map("{ [i] -> [i + 1] : 0 <= i < 8 }"))
    assert not relation.has_tuple_name(isl.dim_type.in_)                # anonymous, as all of ours


def test_flow_under_integer_divisions_is_cheap() -> None:
    """isl subtracts pairs that are not there, too: of a staged row that starts at any address, it came to no end."""
    chunk = "0 <= b < n and r >= 0 and 0 <= i <= 31 and 0 <= z <= 7 and 8*floor((-3b)/8) < m - 3b - 256r"
    inside = "-3b - 256r - 8i - z <= 8*floor((-3b)/8) < m - 3b - 256r - 8i - z"

    def staged(position: int, where: str) -> tuple[str, *tuple[tuple[str, int], ...]]:
        return (f"[n, m] -> {{ [b, r, i, z] -> [i, z] : {where} }}", ("loop", 0), ("loop", 1), ("at", position),
                ("loop", 2), ("loop", 3), ("at", 0))
    accesses = [write(*staged(0, chunk)), write(*staged(1, f"{chunk} and {inside}")), read(*staged(2, chunk))]
    with limits.bounded("the flow", budget=400_000):
        flow = {(source, sink): relation for source, sink, relation in value_flow(accesses)}
    same = f"[n, m] -> {{ [b, r, i, z] -> [b, r, i, z] : {chunk} and {inside} }}"
    assert flow.keys() == {(0, 2), (1, 2)}
    assert flow[1, 2].is_equal(isl.Map(same))
    assert flow[0, 2].is_equal(isl.Map(same.replace(f" and {inside}", "")).subtract(isl.Map(same)))


def test_dimensions_that_only_some_pieces_have_names_for_become_parameters() -> None:
    """In a union of a map with names and one without, isl could not name what had become a parameter."""
    named = isl.Map("{ [p, a] -> [b, c] : 0 <= p <= 2 and b = p and c = a }")
    bare = isl.Map("{ [i0, i1] -> [o0, o1] : o0 = i0 and o1 = i1 and 5 <= i0 <= 6 }")
    expected = isl.Map("[p] -> { [a] -> [a] : 0 <= p <= 2 or 5 <= p <= 6 }")
    for pairs in (named.union(bare), bare.union(named)):
        assert at_one_point(pairs, [(0, 0)], ["p"]).is_equal(expected)
        assert to_param(pairs.domain(), 0, "p").is_equal(expected.domain())
