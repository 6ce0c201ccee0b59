"""Declarations of pointers as not aliased in the CUDA text, and the code of NVIDIA's compiler for them.

A load without coherence (``ld.global.nc``) may only be of what no thread writes meanwhile. The compiler believes that
of an address in an array that is only read *or* in one that is written, if the first says ``__restrict__``.
"""
from __future__ import annotations

import re

import numpy as np
import pytest

import loopkit as lk
from loopkit.target.code import Pointer
from tests.cases import CASES, Case
from tests.nvrtc import nvrtc

F64 = np.dtype("float64")


def incoherent(code: lk.GeneratedCode) -> list[tuple[str, set[str], set[str]]]:
    """The loads without coherence: the line, the arrays in which each may lie, and those that its function writes."""
    ptx = nvrtc().ptx(code.source, "text", lk.CudaTarget("sm_90"))
    found = []
    for function in code.kernels:
        body = ptx[ptx.index(f".entry {function.name}("):]
        body = body[:body.index("\n}")]
        roots: dict[str, set[str]] = {}
        changed = True
        while changed:                                 # loops carry addresses round
            changed = False
            for line in body.splitlines():
                words = re.findall(r"%\w+", line)
                parameter = re.search(r"ld\.param\.[us]64\s+(%rd\d+), \[\w+_param_(\d+)\]", line)
                if parameter is not None:
                    new, target = {function.parameters[int(parameter[2])].name}, parameter[1]
                elif words and words[0].startswith("%rd") and "ld." not in line:
                    new, target = set().union(*(roots.get(w, set()) for w in words[1:])), words[0]
                else:
                    continue
                if not new <= roots.setdefault(target, set()):
                    roots[target] |= new
                    changed = True
        written = {x.name for x in function.parameters if isinstance(x, Pointer) and x.written}
        for line in body.splitlines():
            if "ld.global.nc" in line:
                address = re.search(r"\[(%rd\d+)", line)
                assert address is not None, line
                found.append((line.strip(), roots.get(address[1], set()), written))
    return found


def require_coherent(code: lk.GeneratedCode) -> None:
    for line, arrays, written in incoherent(code):
        assert arrays, f"where does {line} read?"
        assert not arrays & written, f"{line} may read {sorted(arrays & written)}"


def kernel(*lines: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "for i, j\n" + "\n".join(lines) + "\nend",
                         [lk.GlobalArg("x,a", F64, shape="n"), "..."])
    return lk.split_iname(knl, "i", 32, inner_tag="l.0")


CHOICES = {
    "one or the other": kernel("a[i] = if(i < 2, x[i], a[i]) + x[i]"),
    "the written one first": kernel("a[i] = if(i < 2, a[i], x[i]) + 1"),
    "by data": kernel("a[i] = if(x[i] < 0, x[i], a[i]) + x[i]"),
    "by two statements": kernel("<> t = x[i]  {id=first, if=(i < 2)}", "t = a[i]  {id=second, if=(i >= 2)}",
                                "a[i] = t + 3"),
    "of two products": kernel("a[i] = if(i < j, 2*x[i], 2*a[i])"),
}


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("name", CHOICES)
def test_what_is_written_is_read_anew(name: str) -> None:
    require_coherent(lk.generate_code(CHOICES[name], verify=False))


def test_the_check_sees_what_the_compiler_does_of_the_plain_text() -> None:
    """If this fails, the compiler was mended, and the rule for pointers can go."""
    code = lk.generate_code(CHOICES["one or the other"], verify=False)
    assert "const double *x" in code.source
    hopeful = lk.GeneratedCode(**{**vars(code), "source": code.source.replace("const double *x",
                                                                              "const double *__restrict__ x")})
    with pytest.raises(AssertionError, match="may read"):
        require_coherent(hopeful)


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_real_cases(case: Case) -> None:
    require_coherent(lk.generate_code(case.make(), verify=False))


def test_the_host_only_hands_pointers_on() -> None:
    """It reads nothing, so that no compiler takes a load for another."""
    code = lk.generate_code(CHOICES["one or the other"], verify=False)
    assert "const double *x" in code.source
    assert code.host.split(")")[0].count("__restrict__") == 2


def test_arrays_that_are_not_read_where_they_are_written_stay_as_fast() -> None:
    code = lk.generate_code(lk.split_iname(lk.add_dtypes(lk.make_kernel(
        "{[i]: 0<=i<n}", "y[i] = if(i < 2, x[i], z[i])"), {"x,z": F64}), "i", 32, inner_tag="l.0"))
    assert code.source.count("__restrict__") == 3
    assert {"x", "z"} in [arrays for _, arrays, _ in incoherent(code)]
