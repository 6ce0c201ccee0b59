"""The launch sequence as C++: it compiles, and launches what the runtime would, on grids of the same sizes."""
from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path

import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, Call
from loopkit.ast.walk import calls
from loopkit.expr.evaluate import evaluate
from loopkit.instructions.block_flag import BlockFlag
from loopkit.poly.sets import holds
from loopkit.target.code import GeneratedCode, Layout, ScratchPointer
from loopkit.target.cuda.dialect import CUDA
from tests.cases import CASES
from tests.compilers import cpp_compiler
from tests.lowering.host_loops import HOSTED
from tests.lowering.kernels import F32, make

#: As much of CUDA's runtime as the texts use; launches and allocations are noted.
RUNTIME = """\
#include <stddef.h>
struct dim3 { long long x, y, z; dim3(long long x, long long y, long long z) : x(x), y(y), z(z) {} };
struct __half;
struct __nv_bfloat16;
extern "C" { long long log_[4000]; int length_ = 0; }
static void note(long long what, long long x, long long y, long long z)
{
    if (length_ < 4000)
        log_[length_++] = what, log_[length_++] = x, log_[length_++] = y, log_[length_++] = z;
}
template <typename... Parameters> struct Launch {
    int number;
    dim3 grid;
    void operator()(Parameters...) const { note(number, grid.x, grid.y, grid.z); }
};
template <typename... Parameters>
Launch<Parameters...> launched(int number, void (*)(Parameters...), dim3 grid, dim3, size_t = 0)
{
    return {number, grid};
}
enum Error { cudaSuccess, cudaErrorMemoryAllocation };
extern "C" { int memories_ = 4000; }
template <typename T> Error cudaMalloc(T **, size_t bytes)
{
    note(-1, bytes, 0, 0);
    return memories_-- > 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <typename T> void cudaFree(T *) { note(-2, 0, 0, 0); }
void cudaMemset(void *, int value, size_t bytes) { note(-3, bytes, value, 0); }
enum Attribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <typename F> void cudaFuncSetAttribute(F *, Attribute, int) {}
"""

TYPES = {"int": ctypes.c_int, "long long": ctypes.c_longlong, "float": ctypes.c_float}


def as_plain_cpp(code: GeneratedCode) -> str:
    """The host's text with kernels that do nothing, and with calls where CUDA has brackets."""
    text = code.host
    includes = "".join(re.findall(r"^#include .*\n", text, re.MULTILINE))
    kernels = re.findall(r"__launch_bounds__\(.*\)\n(\w+)\(([^)]*)\)\n\{", code.source)
    assert [name for name, _ in kernels] == [k.name for k in code.kernels]
    for number, (name, _) in enumerate(kernels):
        text = text.replace(f"{name}<<<", f"launched({number}, {name}, ")
    text = text.replace(">>>(", ")(").replace(includes, "")
    declarations = "".join(f"static void {name}({parameters}) {{}}\n" for name, parameters in kernels)
    handed = CUDA.instructions[BlockFlag].helpers["flagged"] if "flagged<" in text else ""
    return f'{includes}{RUNTIME}{handed}{declarations}extern "C"\n{text}'


def built(code: GeneratedCode, place: Path) -> Callable[..., list[tuple[int, ...]]]:
    """A function from sizes to what the host did: ``-1`` and bytes, ``-3`` and bytes that are cleared, ``-2``, or a
    launch's number and its grid.

    It takes besides how many allocations succeed.
    """
    (place / "host.cc").write_text(as_plain_cpp(code))
    subprocess.run([cpp_compiler(), "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(place / "host.so"),
                    str(place / "host.cc")], check=True)
    library = ctypes.CDLL(str(place / "host.so"))
    found = re.search(r"^void (launch_\w+)\(([^)]*)\)", code.host, re.MULTILINE)
    assert found is not None
    parameters = [x.split() for x in found[2].split(",") if x]

    def run(values: Mapping[str, int], memories: int = 4000) -> list[tuple[int, ...]]:
        ctypes.c_int.in_dll(library, "length_").value = 0
        ctypes.c_int.in_dll(library, "memories_").value = memories
        getattr(library, found[1])(*(ctypes.c_void_p(None) if "*" in "".join(words) else
                                     TYPES[" ".join(words[1:-1])](values.get(words[-1], 0)) for words in parameters))
        log = (ctypes.c_longlong*4000).in_dll(library, "log_")[:ctypes.c_int.in_dll(library, "length_").value]
        return [tuple(log[i:i + 4]) for i in range(0, len(log), 4)]
    return run


def expected(code: GeneratedCode, values: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    """What the runtime does."""
    scratch = {x.name: x for k in code.kernels for x in k.parameters if isinstance(x, ScratchPointer)}
    for x in scratch.values():
        size = 8*-(-x.dtype.itemsize//4) if x.element is not None else x.dtype.itemsize
        size *= prod(max(0, evaluate(e, values)) for e in x.shape)
        yield -1, size, 0, 0
        if x.cleared:
            yield -3, size, 0, 0
    numbers = {k.name: i for i, k in enumerate(code.kernels)}
    for name, seen in calls(code.order or Block(tuple(Call(k.name) for k in code.kernels)), values):
        grid = tuple(evaluate(e, seen) for e in code.kernels[numbers[name]].grid)
        if min(grid) > 0:
            yield numbers[name], *grid
    yield from ((-2, 0, 0, 0) for _ in scratch)


def require_same(knl: lk.LoopKernel, place: Path, layout: Layout | None = None) -> None:
    code = lk.generate_code(knl, layout=layout, verify=False)
    run = built(code, place)
    sizes = [dict(zip(sorted(knl.value_params), values, strict=True)) for values in itertools.product(
        (-300, -17, -1, 0, 1, 2, 5, 100, 257), repeat=len(knl.value_params))]
    met = [values for values in sizes if holds(knl.assumptions, values)
           and ("T" not in values or max(values.values()) <= 5) and ("S" not in values or max(values.values()) <= 5)]
    assert met
    for values in met[::max(1, len(met)//200)]:
        assert run(values) == list(expected(code, values))[:1000], values


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_real_cases(case: object, tmp_path: Path) -> None:
    require_same(case.make(), tmp_path)                                      # type: ignore[attr-defined]


@pytest.mark.deep(every=26)
@pytest.mark.parametrize("name", HOSTED)
@pytest.mark.parametrize("bits", [32, 64])
def test_loops_of_the_host(name: str, bits: int, tmp_path: Path) -> None:
    require_same(HOSTED[name].mapped(), tmp_path, Layout(bits))


def test_without_memory_nothing_is_launched(tmp_path: Path) -> None:
    knl = lk.make_kernel("{[i,j,k]: 0<=i,j,k<n}", "s[i] = x[i]\nt[j] = s[n-1-j]\ny[k] = t[n-1-k]", [
        lk.TemporaryVariable("s"), lk.TemporaryVariable("t"), "..."])
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), "i:g.0, j:g.0, k:g.0")
    run = built(lk.generate_code(knl), tmp_path)
    first, second = (-1, 36, 0, 0), (-1, 36, 0, 0)
    assert run({"n": 9}, 0) == [first]
    assert run({"n": 9}, 1) == [first, second, (-2, 0, 0, 0)]
    assert len(run({"n": 9}, 2)) == 2 + 3 + 2


def tiles(domain: str, length: int = 256, assumptions: str | None = None) -> lk.LoopKernel:
    knl = lk.make_kernel(f"{{[i]: {domain}}}", "y[i] = 2*x[i]", assumptions=assumptions)
    return lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", length, outer_tag="g.0", inner_tag="l.0")


def two_bounds() -> lk.LoopKernel:
    """The larger of two extents, and a choice."""
    knl = make(["{[i]: 0<=i<n and i<2*m}", "{[j]: -m<=j<k}"], "y[i] = x[i]\nz[j+m] = x[j+m]", x=F32)
    return lk.tag_inames(knl, "i:g.0, j:g.0")


def packed() -> lk.LoopKernel:
    return lk.tag_inames(make("{[i,j]: 0<=i<n and 0<=2*j<=m-3}", "y[i,j] = x[i,j]", x=F32), "i:g.0, j:g.0")


def backwards() -> lk.LoopKernel:
    """A loop of the host from below zero, whose launches have blocks in some of its iterations only."""
    knl = make("{[t,i]: -T<=t<T and 3*t<=i<n}", "u[t+T+1,i+3*T] = u[t+T,i+3*T-1] {id=step}", u=F32)
    return lk.split_iname(lk.set_options(knl, verify="off"), "i", 4, outer_tag="g.0", inner_tag="l.0")


def scratch() -> lk.LoopKernel:
    knl = make("{[i]: 0<=i<n and i<m}", """
        for i
            <> t[i] = 2*x[i]
        end
        for i
            y[i] = t[i] + t[0]
        end
        """, x=F32)
    return lk.tag_inames(knl, "i:g.0")


@pytest.mark.parametrize("knl", [
    tiles("m<=i<n"), tiles("m<=i<n", assumptions="m>=0 and n>m"), tiles("-5<=i and 2*i<=n", 1), tiles("0<=2*i<=n", 1),
    tiles("0<=3*i<=n+m", 2), tiles("0<=i<n", assumptions="n<0"), two_bounds(), packed(), scratch(), backwards()])
@pytest.mark.parametrize("bits", [32, 64])
def test_what_the_cases_have_not(knl: lk.LoopKernel, bits: int, tmp_path: Path) -> None:
    require_same(knl, tmp_path, Layout(bits))
