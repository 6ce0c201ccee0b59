"""Flags with which a compiler miscompiles are not used, whether they are its own, fast ones or the user's."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.__main__ import main
from loopkit.errors import CompilerError, PreconditionError
from loopkit.runtime import compiler as compiler_module
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import (
    NATIVE,
    Dropped,
    HostCompiler,
    available_compilers,
    faults_in,
    find_compiler,
    trial_program,
)


def wrapped(place: Path, *, miscompiles: str) -> str:
    """A compiler that forgets what a NaN is where the flags match the shell's pattern *miscompiles*."""
    wrapper = place / "strange-cc"
    wrapper.write_text(f"#!/bin/sh\ncase \"$*\" in {miscompiles}) set -- \"$@\" -ffast-math;; esac\n"
                       f"exec {find_compiler().command[0]} \"$@\"\n")
    wrapper.chmod(0o755)
    return str(wrapper)


def test_a_flag_that_fails_is_dropped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CC", wrapped(tmp_path, miscompiles="*-march=native*"))
    monkeypatch.setenv("LOOPKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler_module, "_compiler_commands", lambda chosen: [(chosen,)])
    monkeypatch.setattr(compiler_module, "SAFE", (("-O1", NATIVE), ("-O1",)))
    monkeypatch.setattr(compiler_module, "FAST", ())
    cache = DiskCache(tmp_path / "cache")
    found = find_compiler(None, cache)
    assert not found.native
    assert "-O1" in found.flags
    failed, = found.dropped
    assert "-march=native" in failed.flags
    assert "special_values" in failed.faults
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"strange-cc: .*, generic processor\)\n *flags: -O1 ", said)
    assert re.search(r"\n *dropped: -O1 -march=native .* miscompiles special_values", said)
    # nothing is tried again, and the compiler without that fault is another one
    monkeypatch.setattr(compiler_module, "tried", None)
    monkeypatch.setattr(compiler_module, "_trials", {})
    compiler_module._find.cache_clear()
    assert find_compiler(None, cache) == found


def test_a_compiler_that_always_miscompiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    command = wrapped(tmp_path, miscompiles="*")
    monkeypatch.setattr(compiler_module, "SAFE", compiler_module.SAFE[-1:])
    said = r"strange-cc' \(.*\) cannot be used: -O0.* miscompiles special_values"
    with pytest.raises(CompilerError, match=said) as err:
        find_compiler(lk.CTarget(command))
    assert err.value.hint is not None
    monkeypatch.setenv("CC", command)
    assert find_compiler().command != (command,)       # the next one is taken
    assert not available_compilers()[0].fit
    monkeypatch.setattr(compiler_module, "FAST", ())
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"strange-cc: .* \(not used\)\n *dropped: -O0.* miscompiles special_values", shown)
    monkeypatch.setattr(compiler_module, "_compiler_commands", lambda chosen: [(chosen,)])
    with pytest.raises(CompilerError, match="cannot be used"):
        find_compiler()


@pytest.mark.parametrize(("options", "said"), [
    (("-ffast-math",), "with '-ffast-math' miscompiles special_values"),
    (("-fno-wrapv",), "with '-fno-wrapv' miscompiles integers"),
    (("-g", "-fnope", "-mnever"), "cannot build a program with '-fnope', '-mnever'"),
])
def test_options_that_fail_are_refused(options: tuple[str, ...], said: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    with pytest.raises(CompilerError, match=said) as err:
        lk.compile(knl, target=lk.CTarget(options=options))
    assert "CTarget(options=...)" in (err.value.hint or "")


def test_options_that_serve() -> None:
    target = lk.CTarget(options=("-funroll-loops",))
    found = find_compiler(target)
    assert found.flags == (*find_compiler().flags, "-funroll-loops")
    assert found.identity != find_compiler().identity
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    np.testing.assert_array_equal(lk.compile(knl, target=target)(x=np.arange(9.0)).y, 2*np.arange(9.0))


@pytest.mark.parametrize("wrong", [{"compiler": " "}, {"compiler": 3}, {"fast": 1}, {"options": "-g"},
                                   {"options": ["-g"]}, {"options": (1,)}])
def test_values_of_a_target(wrong: dict[str, object]) -> None:
    with pytest.raises(PreconditionError, match=f"'{next(iter(wrong))}' of a CTarget cannot be"):
        lk.CTarget(**wrong)                            # type: ignore[arg-type]


# The program

def test_faults_by_what_is_printed() -> None:
    names = re.findall(r"^LOOP\((\w+), ", trial_program(), re.MULTILINE)
    assert len(names) == len(set(names)) > 20
    done = compiler_module._run(find_compiler().command, trial_program(), ("-O0",))
    assert done.stdout == "".join(f"{name} right\n" for name in names)
    right = "".join(f"{name} right\n" for name in names)
    assert faults_in(right) == ()
    assert faults_in("a right\nb wrong\nc right\nd wrong\n") == ("b", "d")
    assert faults_in("a right\nb") == ("b",)      # it died there


_BEGIN = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf("a"); fflush(stdout); %s }'


@pytest.mark.parametrize(("text", "faults"), [
    ("int main(void) { return 1; }", None),
    (_BEGIN % 'puts(" right"); return 0;', ()),
    (_BEGIN % 'puts(" wrong"); return 0;', ("a",)),
    (_BEGIN % 'puts(" right"); return 1;', None),
    (_BEGIN % "abort();", ("a",)),
    (_BEGIN % "for (;;) ;", ("a",)),
    ("nonsense", None),
])
def test_programs_that_end_badly(text: str, faults: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    command = find_compiler().command
    monkeypatch.setattr(compiler_module, "trial_program", lambda: text)
    monkeypatch.setattr(compiler_module, "_TIMEOUT", 1)
    assert compiler_module.faults_of(command, ("-O0",)) == faults


def test_a_trial_that_another_would_not_repeat_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not cost the fast flags for ever."""
    cache = DiskCache(tmp_path)
    ways = iter([None, ()])
    monkeypatch.setattr(compiler_module, "SAFE", (("-O1", NATIVE), ("-O1",)))
    monkeypatch.setattr(compiler_module, "faults_of", lambda command, rung: next(ways))
    monkeypatch.setattr(compiler_module, "_trials", {})
    compiler_module._find.cache_clear()
    found = find_compiler(None, cache)
    compiler_module._find.cache_clear()
    assert isinstance(found, HostCompiler)
    assert [d.faults for d in found.dropped] == [()]
    assert str(found.dropped[0]).endswith("gives no program that runs")
    assert not list(tmp_path.iterdir())


def test_what_is_dropped_prints() -> None:
    assert str(Dropped(("-O3", "-x"), ("a", "b"))) == "-O3 -x miscompiles a, b"
