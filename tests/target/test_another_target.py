"""A target that loopkit does not have: a folder's worth of definitions, and nothing else is edited."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.target import TARGETS, Machine
from loopkit.lowering.lowered import Lowered
from loopkit.runtime.calls import RUNNERS
from loopkit.runtime.host import HostRunner
from loopkit.target.code import GeneratedCode, Layout, TextTarget


@dataclass(frozen=True)
class Narrow(TextTarget):
    """The host's C, with warps of four and pointers that promise nothing."""

    name: ClassVar[str] = "narrow"
    reserved: ClassVar[frozenset[str]] = frozenset({"narrow_word"})

    @property
    def machine(self) -> Machine:
        return Machine(warp=4)

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        code = lk.CTarget().emit(lowered, layout, head)
        return replace(code, target=self.name, source=code.source.replace("restrict ", ""))


def row_sums() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<8}", "y[i] = sum(k, a[i, k])", name="row_sums")
    return lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0, k:l.0")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "narrow", Narrow)


@pytest.mark.usefixtures("narrow")
def test_it_has_a_text_by_name_and_as_an_object() -> None:
    code = lk.generate_code(row_sums(), target="narrow")
    assert code.target == "narrow"
    assert "restrict" not in code.source
    assert code.source == lk.generate_code(row_sums(), target=Narrow()).source
    assert "restrict" in lk.generate_code(row_sums(), target="c").source
    # two warps of four combine by shared memory, where one of 32 would not
    assert "[2]" in str(lk.lower(row_sums(), "narrow", "storage"))


@pytest.mark.usefixtures("narrow")
def test_its_words_are_reserved() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "narrow_word[i] = x[i]"), {"x": np.float32})
    assert lk.generate_code(knl, target="c")
    with pytest.raises(lk.NameConflictError, match="'narrow_word' is a reserved word of the target 'narrow'"):
        lk.generate_code(knl, target="narrow")


def test_it_runs_where_somebody_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lk.PreconditionError, match="Nothing runs kernels for the target 'narrow'"):
        lk.compile(row_sums(), Narrow())

    class Runner(HostRunner):
        def __init__(self, knl: lk.LoopKernel, target: Narrow, device: object, debug: bool) -> None:
            assert (device, debug) == (None, False)
            super().__init__(knl, lk.CTarget())
            self.target: Any = target

    monkeypatch.setitem(RUNNERS, "narrow", Runner)
    compiled = lk.compile(row_sums(), Narrow())
    a = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(compiled(a=a).y, a.sum(1))
    assert compiled.target == "narrow"
    assert compiled.source == lk.generate_code(row_sums(), target=Narrow()).source
    assert compiled.time(a=a, duration=0.001).seconds > 0
