"""The effect of a missing compiler on the tests that need it."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compilers import c_compiler, cpp_compiler

TESTS = Path(__file__).parent


@pytest.mark.parametrize("find", [c_compiler, cpp_compiler])
def test_a_skip_here_is_a_failure_in_ci(find: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                        ) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=re.escape("compiler")):
        find()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI needs it"):
        find()


def test_no_test_looks_for_a_compiler_by_itself() -> None:
    own = {"compilers.py", "test_compilers.py"}
    found = [f.relative_to(TESTS).as_posix() for f in sorted(TESTS.rglob("*.py")) if f.name not in own
             and re.search(r"skip\([^)]*\bcompiler\"", f.read_text())]
    assert found == []
