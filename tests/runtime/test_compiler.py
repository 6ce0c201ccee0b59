"""Finding a C compiler, and what it says about bad text."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from loopkit.errors import CompilerError
from loopkit.runtime import compiler as compiler_module
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import HostCompiler, available_compilers, find_compiler
from loopkit.target.c.target import CTarget


def test_found() -> None:
    found = find_compiler()
    assert found.version
    assert Path(found.command[0]).is_absolute()
    assert "-ffp-contract=off" in found.flags
    assert ("-fopenmp" in found.flags) == found.openmp
    assert found in available_compilers()
    assert find_compiler() is found


def test_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CompilerError, match="No C compiler was found") as err:
        find_compiler()
    assert err.value.hint is not None
    assert "pip install 'loopkit[host]'" in err.value.hint
    assert available_compilers() == ()


def test_explicit_that_does_not_work() -> None:
    with pytest.raises(CompilerError, match="'no-such-cc' does not compile"):
        find_compiler(CTarget("no-such-cc"))
    with pytest.raises(CompilerError, match="does not compile"):
        find_compiler(CTarget(f"{sys.executable} -c pass"))


def test_cc_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = find_compiler().command[0]
    wrapper = tmp_path / "mycc"
    wrapper.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrapper} -DX=1")
    assert find_compiler().command == (str(wrapper), "-DX=1")
    monkeypatch.setenv("CC", "no-such-cc")             # not there: the next one is taken
    assert find_compiler().command[0] != "no-such-cc"


def test_compiler_without_openmp(tmp_path: Path) -> None:
    wrapper = tmp_path / "plain-cc"
    wrapper.write_text("#!/bin/sh\ncase \"$*\" in *-fopenmp*|*-march*) exit 1;; esac\n"
                       f"exec {find_compiler().command[0]} \"$@\"\n")
    wrapper.chmod(0o755)
    found = find_compiler(CTarget(str(wrapper)))
    assert not found.openmp
    assert not found.native
    assert "-fopenmp" not in found.flags


def test_what_was_found_out_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path)
    first = find_compiler(None, cache)
    file, = tmp_path.glob("compiler-*.loopkit")

    def fail(*args: object) -> NoReturn:
        raise AssertionError("tried again")
    monkeypatch.setattr(compiler_module, "tried", fail)

    def forget() -> None:
        compiler_module._find.cache_clear()
        monkeypatch.setattr(compiler_module, "_trials", {})
    forget()
    assert find_compiler(None, cache) == first
    file.write_text('{"flags": []}')                   # found out again
    forget()
    with pytest.raises(AssertionError, match="tried again"):
        find_compiler(None, cache)


def test_rejected_text() -> None:
    with pytest.raises(CompilerError, match="rejects the code of kernel 'matmul' at line 3") as err:
        find_compiler().compile("void f(void)\n{\n  return wrong;\n}\n", "matmul")
    assert ">    3 |   return wrong;" in err.value.log
    assert "     2 | {" in err.value.log
    assert "'wrong' undeclared" in err.value.log.replace("identifier 'wrong'", "'wrong'")
    assert "loopkit-" not in str(err.value)            # no path of a temporary file


def test_compiler_that_vanished() -> None:
    gone = HostCompiler(("/nowhere/cc",), "", ())
    with pytest.raises(CompilerError, match="kernel 'k'"):
        gone.compile("", "k")
