"""Domains and reductions without inames, and rules without arguments."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk

_Y = lk.GlobalArg("y", np.int32, shape=())


@pytest.mark.parametrize("domains", ["{:}", "{ : }", "{[]}", "{[]: }", [], "[n] -> { : }"])
def test_a_statement_without_inames_runs_once(domains: str) -> None:
    knl = lk.make_kernel(domains, "y = y + n", [_Y, "n"])
    assert knl(n=3, y=np.array(4, np.int32)).y == 7
    assert lk.make_kernel(knl.domains_text.splitlines(), knl.statements_text).domains_text == knl.domains_text


@pytest.mark.parametrize("domain", ["{ : n > 3 or n < 1 }", "{[]: n > 3; [] : n < 1}", "{ : n > 3; : n < 1 }"])
def test_a_domain_without_inames_restricts_all_statements(domain: str) -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<4}", domain], "y = sum(i, i)\nz[i] = 1", [_Y, lk.GlobalArg("z", np.int32), "n"])
    for n in (0, 1, 3, 4):
        out = knl(n=n, y=np.array(-1, np.int32), z=np.zeros(4, np.int32))
        runs = n > 3 or n < 1
        assert (int(out.y), out.z.tolist()) == (6 if runs else -1, [int(runs)]*4)


def test_an_empty_domain() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<0}", "y[0] = i", [lk.GlobalArg("y", np.int32, shape=1)])
    assert knl(y=np.array([5], np.int32)).y.tolist() == [5]


@pytest.mark.parametrize(("domains", "text", "message"), [
    ("{}", "y = 1", "cannot be read at '}'"),
    ("{ n > 0 }", "y = 1", "cannot be read at 'n'"),
    ("{ : n >+ }", "y = 1", "cannot be read at '+'"),
    ("{ : n > 0; [i] : 0 <= i < n }", "y = 1", "The pieces of a union have different inames"),
    (["{[i]: 0<=i<n}", "{ : i > 0 }"], "y = 1", "restricts all statements, and 'i' is an iname"),
    ("{ : t > 0 }", "<int32> t = m\ny = t", "restricts all statements, and 't' is a temporary"),
])
def test_refused(domains: str, text: str, message: str) -> None:
    with pytest.raises(lk.LoopkitError) as refusal:
        lk.make_kernel(domains, text)
    assert message in str(refusal.value)


def test_a_reduction_over_no_inames_is_its_operand() -> None:
    """As in loopy, where ``any`` of one number is this number."""
    assert lk.make_kernel("{:}", "y = reduce(any, [], 5) + sum((), n)", [_Y, "n"])(n=2).y == 7


def test_a_rule_without_arguments() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "three := 3\nz[i] = three*i + three()", [lk.GlobalArg("z", np.int32), "n"])
    assert knl(n=3).z.tolist() == [3, 6, 9]
    assert "3*i + 3" in lk.expand_subst(knl).statements_text
    found = lk.extract_subst(lk.expand_subst(knl), "more", "3*i")
    assert "more() + 3" in found.statements_text
    assert lk.expand_subst(found)(n=3).z.tolist() == [3, 6, 9]
