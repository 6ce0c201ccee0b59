"""Deep tests: the cases that run by default."""
from __future__ import annotations

from collections import Counter

from tests.deep import SHARES, commit, share

FAMILIES = {f"test_{k}": [f"test_{k}[{case}]" for case in range(1 + k % 3)] for k in range(100)}


def test_each_test_without_a_number_has_its_turn_and_then_each_of_its_cases() -> None:
    runs = Counter(case for number in range(SHARES) for case in share(FAMILIES, number))
    assert runs == Counter(f"{name}[0]" for name in FAMILIES)
    runs = Counter(case for number in range(6*SHARES) for case in share(FAMILIES, number))
    assert runs == {case: 6//len(cases) for cases in FAMILIES.values() for case in cases}


def test_a_share_is_small_and_the_same_at_one_commit() -> None:
    assert all(share(FAMILIES, number) for number in range(SHARES))
    assert max(len(share(FAMILIES, number)) for number in range(SHARES)) < 4*len(FAMILIES)/SHARES
    assert commit() == commit() >= 0
