"""Extents and first values: isl's, in forms that a reader would write, right wherever a launch may ask for them."""
from __future__ import annotations

import bisect
import ctypes
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, Define, Program
from loopkit.ast.value_ranges import largest_magnitude
from loopkit.expr.dtypes import INT32, weak
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import map_children
from loopkit.expr.nodes import to_text
from loopkit.poly.affine import TruncatedQuotient, add, from_pw_aff
from loopkit.poly.extents import extent_from, first_value
from loopkit.poly.sets import (
    InstanceSet,
    Set,
    constant_range,
    fix_params,
    parse_assumptions,
    universe_params,
)
from loopkit.poly.unions import in_plain_bounds
from loopkit.target.c.target import C
from tests.compilers import c_compiler
from tests.expr.typed import to_c

TILE = "exists j: {low}<=j<{high} and 256*i{base}<=j<256*i{base}+256"


def points(condition: str) -> InstanceSet:
    return InstanceSet.parse(f"[n, m, k] -> {{ [i] : {condition} }}")


@pytest.mark.parametrize("condition", [
    "(0 <= i < n or 2*n <= i < 2*n + m) and i mod 3 = 1",
    "exists j: (0 <= j < n or 2*n <= j < 2*n + m) and 0 <= j - 4*i < 4 and (j + k) mod 3 = 1",
    "exists j, e: 0 <= j < m and (0 <= e < n or 2*n <= e < 2*n + m) and (e + 2*j) mod 3 = 1 and 0 <= e + j - 16*i < 16",
])
def test_unions_with_strides_end_at_one_form(condition: str) -> None:
    union, context = points(condition), assuming("n >= 1 and m >= 1 and k >= 0")
    around = union.named(in_plain_bounds(union.set, context))
    assert union.set.intersect_params(context).is_subset(around.set)
    low, extent = first_value(around, context), extent_from(around, first_value(around, context), context)
    assert "if" not in f"{to_text(low)} {to_text(extent)}"
    for n, m, k in ((1, 1, 0), (2, 7, 1), (9, 4, 2)):
        sizes = {"n": n, "m": m, "k": k}
        values = fix_params(union.set, sizes)
        if not values.is_empty():
            at = evaluate(low, sizes)
            least, most = constant_range(values, 0)
            assert at <= least
            assert most < at + evaluate(extent, sizes)


def test_ends_of_one_piece_and_of_plain_unions_stay_exact() -> None:
    for condition in ("0 <= i < n and i mod 3 = 1", "0 <= i < n or 0 <= i < m"):
        assert in_plain_bounds(points(condition).set, universe_params()).is_equal(points(condition).set)


def assuming(text: str) -> Set:
    return parse_assumptions(text, ("n", "m", "k")) if text else universe_params()


@pytest.mark.parametrize(("condition", "assumed", "first", "extent"), [
    ("0<=i<n", "", "0", "n"),
    ("m<=i<n", "", "m", "n - m"),
    (TILE.format(low="0", high="n", base=""), "", "0", "(n + 255) / 256"),
    # from m on, in tiles that begin there: isl writes -m + (255*m + n + 255)/256
    (TILE.format(low="m", high="n", base="+m"), "", "0", "(n - m + 255) / 256"),
    (TILE.format(low="2*m", high="n-3*k", base="+2*m"), "", "0", "(n - 2*m - 3*k + 255) / 256"),
    # in tiles of the whole line; isl writes m - (255*m + 255)/256 for the first
    (TILE.format(low="m", high="n", base=""), "m>=0 and n>=0", "m / 256", "(n + 255) / 256 - m / 256"),
    (TILE.format(low="m", high="n", base=""), "", "m // 256", "(n + 255) // 256 - m // 256"),
    # a constant goes inside: C's division rounds -1/2 up to the 0 that n/2 + 1 would make a block of
    ("0<=2*i<=n", "", "0", "(n + 2) / 2"),
    ("-5<=i and 2*i<=n", "", "-5", "(n + 12) / 2"),
    ("0<=i<n and i<m", "", "0", "min(n, m)"),
    ("0<=i<n or 0<=i<m-1", "n>=1", "0", "max(m - 1, n)"),
    ("exists j: 0<=j<n and j<m and 16*i<=j<16*i+16", "", "0", "min((n + 15) / 16, (m + 15) / 16)"),
    ("0<=i<n and i<2*m and i<k", "k>=2*m", "0", "min(n, 2*m)"),
    ("0<=2*i<=5-n", "", "0", "(-n + 7) / 2"),
    # more than one term of its own: rounded down, where nothing says that it is not negative
    ("m<=i and 2*i<=n+6*m", "", "m", "n // 2 + 2*m + 1"),
    ("m<=i and 4*i<=n+m", "", "m", "(n + m) // 4 - m + 1"),
    # nothing, whatever is assumed
    ("m<=i<0", "m>=0", "0", "0")])
def test_forms(condition: str, assumed: str, first: str, extent: str) -> None:
    context = assuming(assumed)
    low = first_value(points(condition), context)
    assert shown(low) == first
    assert shown(extent_from(points(condition), low, context)) == extent


def shown(expr: Expression) -> str:
    """*expr* with ``/`` where it is C's."""
    slashes = {}

    def marked(e: Expression) -> Expression:
        e = map_children(e, marked)
        if isinstance(e, TruncatedQuotient):
            slashes[f"slash_{len(slashes)}_"] = f"{paren(e.numerator)} / {e.denominator}"
            return p.Variable([*slashes][-1])
        return e

    def paren(e: Expression) -> str:
        return to_text(e) if isinstance(e, p.Variable) else f"({to_text(e)})"
    text = to_text(marked(expr))
    for name, slash in slashes.items():
        text = text.replace(name, slash)
    return text


# Random ranges

@dataclass(frozen=True)
class Range:
    """``low_divisor*i >= low`` and ``divisor*i <= top`` for each of *tops*."""

    low: tuple[int, int, int]
    low_divisor: int
    tops: tuple[tuple[int, int, int], ...]
    divisor: int

    @property
    def points(self) -> InstanceSet:
        def form(c: Sequence[int]) -> str:
            return f"{c[0]}*n + {c[1]}*m + {c[2]}"
        return points(" and ".join([f"{self.low_divisor}*i >= {form(self.low)}",
                                    *(f"{self.divisor}*i <= {form(top)}" for top in self.tops)]))

    def ends(self, n: int, m: int) -> tuple[int, int]:
        def at(c: Sequence[int]) -> int:
            return c[0]*n + c[1]*m + c[2]
        return -(-at(self.low) // self.low_divisor), min(at(top) // self.divisor for top in self.tops)


COEFFICIENTS = st.sampled_from((0, 0, 1, 1, -1, 2, -3, 5))
FORMS = st.tuples(COEFFICIENTS, COEFFICIENTS, st.integers(-40, 40))
DIVISORS = st.sampled_from((1, 1, 2, 3, 16, 256))
RANGES = st.builds(Range, st.one_of(st.just((0, 0, 0)), FORMS), DIVISORS,
                   st.lists(FORMS, min_size=1, max_size=2).map(tuple), DIVISORS)
ASSUMED = ("", "n>=0", "n>=1 and m>=0", "m<=n")
SIZES = st.tuples(st.integers(-60, 600), st.integers(-60, 600))


def expressions(drawn: Range, context: Set) -> tuple[Expression, Expression]:
    low = first_value(drawn.points, context)
    return low, extent_from(drawn.points, low, context)


@given(RANGES, st.sampled_from(ASSUMED), st.lists(SIZES, min_size=5, max_size=20))
def test_the_first_value_and_the_number_of_values(drawn: Range, assumed: str, sizes: list[tuple[int, int]]) -> None:
    if drawn.points.is_empty():
        return
    context = assuming(assumed)
    low, extent = expressions(drawn, context)
    for n, m in sizes:
        values, (first, last) = {"n": n, "m": m}, drawn.ends(n, m)
        holds = {"": True, "n>=0": n >= 0, "n>=1 and m>=0": n >= 1 and m >= 0, "m<=n": m <= n}[assumed]
        if holds and first <= last:
            assert evaluate(low, values) == first
            assert evaluate(extent, values) == last - first + 1
        if holds and not isinstance(extent, p.If):
            # what decides on sizes without values reads every division as one that rounds down
            number, plain = evaluate(extent, values), evaluate(rounding_down(extent), values)
            assert number == plain or max(number, plain) <= 0


def rounding_down(expr: Expression) -> Expression:
    inner = map_children(expr, rounding_down)
    return p.FloorDiv(inner.numerator, inner.denominator) if isinstance(inner, TruncatedQuotient) else inner


@given(RANGES)
def test_parts_are_no_larger_than_those_that_isl_writes(drawn: Range) -> None:
    if drawn.points.is_empty():
        return
    context = universe_params()
    low, _ = expressions(drawn, context)
    top, bottom = (from_pw_aff(end.coalesce(), context) for end in (
        drawn.points.set.dim_max(0), drawn.points.set.dim_min(0)))
    extent = extent_from(drawn.points, first_value(drawn.points, context), context)
    constants = 100*drawn.divisor*drawn.low_divisor
    assert reach(low) <= reach(bottom) + constants
    assert reach(extent) <= reach(add(top, p.Product((-1, bottom)))) + constants


def reach(expr: Expression) -> int:
    """How large something on the way to *expr* may be for large sizes."""
    return reach_at(expr, 10**9)


def reach_at(expr: Expression, size: int) -> int:
    return largest_magnitude(Program((), Block((Define("x", expr),))), {"n": size, "m": size})


@pytest.mark.deep
def test_the_text_in_c_at_the_largest_sizes(tmp_path: Path) -> None:
    """32 bits are enough for every size that the reach of an expression lets pass, and C's numbers are ours."""
    chance = random.Random(3)

    def form() -> tuple[int, int, int]:
        return chance.choice((0, 1, 1, -1, 2, -3)), chance.choice((0, 1, -1, 2)), chance.randint(-40, 40)
    ranges = [Range(form(), chance.choice((1, 2, 16, 256)), (form(),), chance.choice((1, 2, 3, 256)))
              for _ in range(200)]
    all_of_them = [e for r in ranges if not r.points.is_empty() for e in expressions(r, universe_params())]
    lines = [f"int f{i}(int n, int m) {{ return {text}; }}" for i, text in enumerate(
        to_c(e, C, lambda _name: weak(INT32)) for e in all_of_them)]
    (tmp_path / "f.c").write_text("\n".join([C.preamble("\n".join(lines)), *lines]))
    subprocess.run([c_compiler(), "-O1", "-fwrapv", "-shared", "-fPIC", "-o", str(tmp_path / "f.so"),
                    str(tmp_path / "f.c")], check=True)
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    for i, e in enumerate(all_of_them):
        # the largest sizes that fit
        most = bisect.bisect_left(range(2**31 - 1), 2**31, key=lambda size: reach_at(e, size)) - 1
        assert most > 10**6
        for n, m in [*np.random.default_rng(i).integers(-most, most, (20, 2), endpoint=True).tolist(),
                     (most, most), (-most, most), (most, -most), (0, 0), (-1, -1)]:
            assert getattr(library, f"f{i}")(n, m) == evaluate(e, {"n": n, "m": m}), (to_text(e), n, m)
