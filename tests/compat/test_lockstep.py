"""loopy's order over parallel inames: each statement runs for all threads before the next one that needs it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit.compat.loopy as lp
from loopkit.errors import IllegalTransformError
from loopkit.interpreter.instances import reference_order
from loopkit.interpreter.interpreter import InitialData, Interpreter
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.types import infer_types

WIDTH = 4
X = np.arange(3.*WIDTH).reshape(3, WIDTH)**2

#: Subscripts that thread i may read, and the threads whose elements they are.
OTHERS = {"i": np.arange(WIDTH), "3 - i": WIDTH - 1 - np.arange(WIDTH), "(i + 1) % 4": (np.arange(WIDTH) + 1) % WIDTH}

#: Statements by the subscript that they read: in each, s and q are local arrays, and p is private.
STATEMENTS: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "s[i] = 2*p + s[i]": lambda v, _: v.update(s=2*v["p"] + v["s"]),
    "p = s[OTHER] + p": lambda v, other: v.update(p=v["s"][other] + v["p"]),
    "q[i] = s[OTHER] - p": lambda v, other: v.update(q=v["s"][other] - v["p"]),
    "p = q[OTHER]": lambda v, other: v.update(p=v["q"][other]),
}


def elements_of(core: LoopKernel, name: str) -> Any:
    core = infer_types(core)
    machine = Interpreter(core, {}, InitialData(0, {"x": X}, frozenset()))
    machine.run(reference_order(core, machine.instances()))
    return np.array([[machine.cell(name, (t, i)) for i in range(WIDTH)] for t in range(3)])


@settings(max_examples=10)
@given(st.lists(st.tuples(st.sampled_from(sorted(STATEMENTS)), st.sampled_from(sorted(OTHERS))), max_size=4),
       st.sampled_from(["t, i", "i, t"]))
def test_threads_run_in_lockstep(chosen: list[tuple[str, str]], loops: str) -> None:
    lines = ["<> s[i] = x[t, i]", "<> q[i] = 1.0*i", "<> p = x[t, i] + 1",
             *(text.replace("OTHER", other) for text, other in chosen), "y[t, i] = p + s[3 - i]"]
    unit = lp.make_kernel("{[t, i]: 0<=t<3 and 0<=i<4}", f"for {loops}\n" + "\n".join(lines) + "\nend",
                          seq_dependencies=True)
    unit = lp.tag_inames(lp.add_dtypes(unit, {"x": np.float64}), {"i": "l.0"})
    expected = []
    for row in X:
        values = {"s": row, "q": 1.*np.arange(WIDTH), "p": row + 1}
        for text, other in chosen:
            STATEMENTS[text](values, OTHERS[other])
        expected.append(values["p"] + values["s"][::-1])
    assert elements_of(unit.default_entrypoint.core, "y").tolist() == np.array(expected).tolist()


@pytest.mark.parametrize("text", ["y[t, 0] = s[t] + 1", "y[t, 0] = p", "y[t, 0] = y[t, 0] + s[t]", "y[t, 0] = u + t",
                                  "u = p\ny[t, 0] = u"])
def test_threads_that_store_in_one_element(text: str) -> None:
    """If all of them store one value, one of them does it; else the tag is refused."""
    lines = ["<> s[i] = x[t, i]", "<> p = 2*i", "<> v = t", "<> u = 3*v", text, "z[t, i] = s[3 - i] + p"]
    unit = lp.make_kernel("{[t, i]: 0<=t<3 and 0<=i<4}", "for t, i\n" + "\n".join(lines) + "\nend",
                          seq_dependencies=True)
    unit = lp.add_dtypes(unit, {"x": np.float64, "y": np.float64})
    if text not in ("y[t, 0] = s[t] + 1", "y[t, 0] = u + t"):
        with pytest.raises(IllegalTransformError):
            lp.tag_inames(unit, {"i": "l.0"})
        return
    core = lp.tag_inames(unit, {"i": "l.0"}).default_entrypoint.core
    assert elements_of(core, "z").tolist() == [[X[t, 3 - i] + 2*i for i in range(WIDTH)] for t in range(3)]
    assert core.statement_by_id["insn_3"].inames == ("t",)
    if "u" in text:
        assert elements_of(core, "y")[:, 0].tolist() == [0, 4, 8]


@pytest.mark.parametrize("tag", ["l.0", "g.0"])
def test_an_iname_whose_threads_all_store_one_value_is_gone(tag: str) -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "for i\n    c = 3 {id=a}\nend", target=lp.ExecutableCTarget())
    run = lp.tag_inames(unit, {"i": tag})
    assert not run["loopy_kernel"].all_inames()
    assert [int(run(c=np.zeros((), np.int32), n=n)[1][0]) for n in (0, 1, 2)] == [0, 3, 3]
