"""Flags with which a compiler miscompiles are not used, whether they are its own, fast ones or the user's."""
from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.__main__ import main
from loopkit.errors import CompilerError, PreconditionError
from loopkit.runtime import compiler as compiler_module
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import Dropped, HostCompiler, available_compilers, faults_in, find_compiler, trial_program

pytestmark = pytest.mark.optimised

TARGETS = [lk.CTarget(), lk.CTarget(fast=True)]
F32, F64 = np.float32, np.float64


# Kernels that compilers got wrong

@pytest.mark.deep(every=2)
@pytest.mark.parametrize("target", TARGETS, ids=["default", "fast"])
@pytest.mark.parametrize("size", [(8, 8), (9, 17), (16, 5)])
def test_strided_prefetch(target: lk.CTarget, size: tuple[int, int]) -> None:
    """GCC 12 loses half of the elements that are copied under a condition."""
    n, m = size
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[2*i,3*j]", assumptions="n>=1 and m>=1")
    knl = lk.split_iname(lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 8), "j", 8)
    knl = lk.add_prefetch(knl, "x", ["i_inner", "j_inner"], default_tag="unr")
    x = np.arange(6*n*m, dtype=F32).reshape(2*n, 3*m)
    y, = lk.compile(knl, target=target)(x=x, n=n, m=m)
    np.testing.assert_array_equal(y, x[::2, ::3])


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("target", TARGETS, ids=["default", "fast"])
@pytest.mark.parametrize("value", ["x[j]", "x[j] + x[j + 1] + x[j]", "x[j]*x[i]", "if(x[j] > 3, x[i], x[j])"])
@pytest.mark.parametrize("index", [(1, 1), (1, 2), (2, 1), (1, -1), (0, 1), (1, 0)])
def test_the_last_write_stays(index: tuple[int, int], value: str, target: lk.CTarget) -> None:
    """GCC 12 and 13 mix iterations of a loop in which one statement writes elements again."""
    p, q = index
    shift = f" + {-q}*n" if q < 0 else ""
    args = [lk.GlobalArg("a", F64, "4*n"), lk.GlobalArg("x", F64, "n + 1"), "..."]
    knl = lk.make_kernel("{[j,i]: 0<=j,i<n}", f"for j, i\n a[{p}*j + {q}*i{shift}] = {value}\nend", args)
    python = value.replace("if(x[j] > 3, x[i], x[j])", "x[i] if x[j] > 3 else x[j]")
    for n in (5, 8, 33):
        x = np.arange(1.0, n + 2)
        wanted = np.zeros(4*n)
        for j, i in itertools.product(range(n), repeat=2):
            wanted[p*j + q*i + (-q*n if q < 0 else 0)] = eval(python, {"x": x, "j": j, "i": i})
        found = lk.compile(knl, target=target)(x=x, a=np.zeros(4*n)).a
        np.testing.assert_array_equal(found, wanted)


# Compilers that miscompile

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
    cache = DiskCache(tmp_path / "cache")
    found = find_compiler(None, cache)
    assert not found.native
    assert "-O3" in found.flags
    failed, = found.dropped
    assert "-march=native" in failed.flags
    assert "special_values" in failed.faults
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"strange-cc: .*, generic processor\)\n *flags: -O3 ", said)
    assert re.search(r"\n *dropped: -O3 -march=native .* miscompiles special_values", said)
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


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("options", "said"), [
    (("-ffast-math",), "with '-ffast-math' miscompiles special_values"),
    (("-g", "-ffp-contract=fast"), "with '-ffp-contract=fast' miscompiles rounding"),
    (("-fno-wrapv",), "with '-fno-wrapv' miscompiles integers"),
    (("-g", "-fnope", "-mnever"), "cannot build a program with '-fnope', '-mnever'"),
])
def test_options_that_fail_are_refused(options: tuple[str, ...], said: str) -> None:
    if not find_compiler().native and "rounding" in said:
        pytest.skip("no fused multiply-add")
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


def test_fast_flags_include_loop_vectors_or_are_dropped() -> None:
    safe, fast = find_compiler(), find_compiler(lk.CTarget(fast=True))
    assert "-fno-tree-vectorize" in safe.flags
    assert "-fno-tree-vectorize" not in fast.flags or fast.dropped
    assert not safe.dropped


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
