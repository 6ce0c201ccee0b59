"""A target that loopkit does not have: a folder's worth of definitions, and nothing else is edited."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.target import TARGETS, Machine
from loopkit.lowering.lowered import Lowered
from loopkit.runtime.host import HostRunner
from loopkit.runtime.typed import TypedKernels
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


class NarrowRunner(HostRunner):
    def __init__(self, knl: lk.LoopKernel, target: Narrow, device: object, debug: bool) -> None:
        assert (device, debug) == (None, False)
        super().__init__(knl, lk.CTarget())
        self._target: Any = target
        self.kernels = TypedKernels(knl, target.machine)


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

    monkeypatch.setattr(Narrow, "runner", f"{__name__}:NarrowRunner")
    compiled = lk.compile(row_sums(), Narrow())
    a = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(compiled(a=a).y, a.sum(1))
    assert compiled.target == "narrow"
    assert compiled.source == lk.generate_code(row_sums(), target=Narrow()).source
    assert compiled.time(a=a, duration=0.001).seconds > 0


def test_a_folder_is_a_target(tmp_path: Path) -> None:
    """The folder is all that a copy of loopkit gets."""
    package = shutil.copytree(Path(lk.__file__).parent, tmp_path / "loopkit",
                              ignore=shutil.ignore_patterns("__pycache__"))
    folder = package / "target" / "narrow"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "target.py").write_text(f"""from {__name__} import Narrow
class NarrowTarget(Narrow):
    runner = "{__name__}:NarrowRunner"
TARGET = NarrowTarget
""")
    code = f"""import numpy as np, loopkit as lk
from {__name__} import row_sums
assert lk.__file__ == {str(package / "__init__.py")!r}
print(*lk.TARGETS, lk.compile(row_sums(), "narrow").source == str(lk.generate_code(row_sums(), target="narrow")))
print(lk.compile(row_sums(), "narrow")(a=np.ones((2, 8), np.float32)).y)"""
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **path}, check=True,
                          capture_output=True, text=True)
    assert done.stdout.splitlines() == ["c cuda narrow opencl True", "[8. 8.]"]
