"""Pieces of unions are joined in one place, which no union on which isl fails gets through."""
from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import islpy as isl
import pytest

import loopkit as lk
from loopkit.poly import limits

#: What the bounds of tiles of skewed loops ask for: ``[t, i, j]`` in a tile ``[p, q, r]``, the elements that it writes,
#: and pieces of the conditions that the greater of several lower bounds and the lesser of several upper ones hold.
ELEMENTS = "[p, q, r] -> { [t, i, j] -> [8q - 8p - 2t + i, 8r - 8p - 2t + j] }"
BOUNDS = (
    ("n >= 0 and r >= q and 8r >= n + 8p and 2t > 8r - n - 8p",
     "n < 0 and 8p >= 2 - n + 8q and 8r <= n + 8p - 2 and t >= 0",
     "n < 0 and r < q and 8r >= n + 8p - 1 and 2t >= 2 - n + 8q - 8p",
     "n < 0 and r >= q and 8r >= n + 8p - 1 and 2t >= 2 - n - 8p + 8r",
     "n < 0 and 8p <= 1 - n + 8q and 8r <= n + 8p - 2 and 2t >= 2 - n + 8q - 8p",
     "n >= 0 and r < q and 8r >= n + 8p and 2t > 8q - n - 8p", "n >= 0 and 8p > 8q - n and 8r < n + 8p and t >= 0",
     "n >= 0 and 8p <= 8q - n and 8r < n + 8p and 2t > 8q - n - 8p"),
    ("T >= 4 + 4p and t <= 3", "T <= 3 + 4p and t < T - 4p"),
    ("t < 4r - 4p and i <= 8r - 8q + n - 3 and j >= 0",
     "t < 4r - 4p and i >= 8r - 8q + n - 2 and j >= 3 - 8r + 8q - n + i",
     "t >= 4r - 4p and i <= n - 8q + 8p + 2t - 2 and j > 8p - 8r + 2t",
     "t >= 4r - 4p and i >= n - 8q + 8p + 2t - 1 and j >= 3 - 8r + 8q - n + i"),
    ("2t >= 8 + 8r - n - 8p and i >= 10 + 8r - 8q - n and j <= 7",
     "2t >= 8 + 8r - n - 8p and i <= 9 + 8r - 8q - n and j <= 8q - 8r + n + i - 3",
     "2t <= 7 + 8r - n - 8p and i >= 2 - 8q + 8p + 2t and j < n - 8r + 8p + 2t",
     "2t <= 7 + 8r - n - 8p and i <= 1 - 8q + 8p + 2t and j <= 8q - 8r + n + i - 3"),
)


def touched(pieces: tuple[tuple[str, ...], ...] = BOUNDS) -> isl.Map:
    """Elements by instance, under one of the *pieces* of each condition."""
    result = isl.Map(ELEMENTS)
    for condition in pieces:
        result = result.intersect_domain(isl.Set(f"[n, T, p, q, r] -> {{ [t, i, j] : {' or '.join(condition)} }}"))
    return result.compute_divs()


def like(seed: int) -> isl.Map:
    """As :func:`touched`, with some of the pieces, and their numbers one off: isl itself fails on one in ten."""
    draw = random.Random(seed)

    def changed(piece: str) -> str:
        return re.sub(r"(?<= )\d+(?= |$)", lambda m: str(max(0, int(m[0]) + draw.choice((0, 0, 0, 1, -1)))), piece)
    return touched(tuple(tuple(changed(x) for x in condition if draw.random() < 0.8) or condition[:1]
                         for condition in BOUNDS))


def join_all() -> None:
    """In a process of its own, which isl may end."""
    unions = [touched(), *map(like, range(40))]
    for points in unions:
        joined = limits.coalesced(points)
        assert joined.n_basic_map() <= points.n_basic_map()
        if points.n_basic_map() < 64:
            assert joined.is_equal(points)
    sys.stdout.write(f"{len(unions)} joined\n")


def test_no_union_ends_the_process() -> None:
    ended = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stdout) == (0, "41 joined\n"), ended.stderr


def test_isl_joins_no_piece_that_is_empty_unknown_to_it() -> None:
    """What it does with one is the fault: of the pieces that are given to it, those without points are marked."""
    points = touched()
    known = [piece.plain_is_empty() for piece in points.get_basic_maps()]
    limits.empty_pieces_marked(points)
    pieces = points.get_basic_maps()
    assert [piece.plain_is_empty() for piece in pieces] == [piece.is_empty() for piece in pieces] != known


def test_what_loops_are_made_of_has_no_empty_pieces() -> None:
    domain = touched().domain()
    kept = limits.without_empty_pieces(domain)
    assert 1 < kept.n_basic_set() < domain.n_basic_set()
    assert not any(piece.is_empty() for piece in kept.get_basic_sets())
    assert kept.is_equal(domain)


def test_a_function_is_marked_by_its_domain() -> None:
    function = isl.PwMultiAff("{ [t, i, j] -> [t, i] }").intersect_domain(touched().domain())
    limits.coalesced(function)
    pieces = function.domain().get_basic_sets()
    assert all(piece.plain_is_empty() for piece in pieces if piece.is_empty())


def stumble(_: isl.Set) -> isl.Set:
    raise isl.Error("original tableau does not correspond to original basic map in isl_coalesce.c:3157")


def test_what_isl_cannot_coalesce_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    two = isl.Set("{ [i] : 0 <= i < 4; [i] : 4 <= i < 8 }")
    assert limits.coalesced(two).n_basic_set() == 1
    monkeypatch.setattr(limits, "IMPORTANT", 3)
    assert limits.coalesced(two).n_basic_set() == 2
    monkeypatch.undo()
    monkeypatch.setattr(isl.Set, "coalesce", stumble)
    assert limits.coalesced(two) is two


def test_only_one_place_coalesces() -> None:
    """So that no union on which isl stumbles ends a step."""
    package = Path(lk.__file__).parent
    assert [f.name for f in package.rglob("*.py") if re.search(r"\.coalesce\b", f.read_text())] == ["limits.py"]


if __name__ == "__main__":
    join_all()
