"""A standalone CUDA program of a kernel: it fills arrays, launches, checks against plain loops, and times."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from loopkit.analysis.data_constraints import index_names
from loopkit.analysis.sizes import sizes_at_least
from loopkit.errors import PreconditionError, ReplayError, require_known
from loopkit.expr.evaluate import evaluate
from loopkit.expr.kinds import kind_of
from loopkit.expr.nodes import to_text
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.runtime.rounding import error_bound
from loopkit.runtime.typed import require_mapped, serves
from loopkit.runtime.views import ArrayView
from loopkit.target.code import GeneratedCode, Layout, Parameter, Pointer, ScratchPointer
from loopkit.target.cuda.dialect import CUDA
from loopkit.target.cuda.host_text import host_parameters
from loopkit.target.cuda.tensor_maps import CAPABILITY
from loopkit.verification.checks import generate_code

#: Steps that define what a kernel computes; all others change how.
_MEANING = ("add_dtypes", "assume", "fix_parameters", "rename_argument", "set_accumulator_dtype",
            "set_operand_precision")

#: The values of sizes to choose from, the best first, and the most bytes of all arrays. Odd multiples of 8 have full
#: and partial tiles, and rows at which vector accesses can begin.
SIZES = (504, 264, 200, 136, 104, 72, 40, 24, 8, 1)
MOST_BYTES = 2**26

_HEAD = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace program {

void require(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\\n", what, cudaGetErrorString(status));
        std::exit(2);
    }
}

template <typename T>
void show(const char *name, T value)
{
    std::printf("%s = %.15g\\n", name, static_cast<double>(value));
}

// The wrong elements of all arrays.
size_t wrong = 0;

// An array on the host and on the GPU; both results start from the same data.
template <typename T>
struct Array {
    size_t size;
    std::vector<T> expected, got;
    T *device = nullptr;

    // floating-point data are in [0.5, 1.5), integers from 1 to 7, truth values 0 and 1
    Array(size_t size, bool real, unsigned int seed) : size(size), expected(size), got(size)
    {
        for (T &x : expected) {
            seed = 1664525u*seed + 1013904223u;
            x = static_cast<T>(real ? 0.5 + (seed >> 8)/16777216.0 : 1 + (seed >> 8) % 7);
        }
        require(cudaMalloc(&device, sizeof(T)*(size > 0 ? size : 1)), "cudaMalloc");
        require(cudaMemcpy(device, expected.data(), sizeof(T)*size, cudaMemcpyHostToDevice), "cudaMemcpy");
    }

    // counts the wrong elements: an error may be relative times the largest value; negative: elements must be equal
    void check(const char *name, double relative)
    {
        require(cudaMemcpy(got.data(), device, sizeof(T)*size, cudaMemcpyDeviceToHost), "cudaMemcpy");
        double largest = 0;
        for (const T &x : expected)
            if (std::isfinite(static_cast<double>(x)))
                largest = std::fmax(largest, std::fabs(static_cast<double>(x)));
        size_t found = 0;
        for (size_t i = 0; i < size; ++i) {
            const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
            const bool is_close = a == b || (a != a && b != b) || std::fabs(a - b) <= relative*largest;
            if (std::memcmp(&got[i], &expected[i], sizeof(T)) == 0 || (relative >= 0 && is_close))
                continue;
            if (found++ == 0)
                std::printf("%s: element %zu is %.9g and should be %.9g\\n", name, i, a, b);
        }
        std::printf("%s: %zu of %zu elements are wrong\\n", name, found, size);
        wrong += found;
    }
};

// the exit status
int result()
{
    if (wrong)
        std::printf("if rounding errors grow in this kernel: nvcc -fmad=false rounds as the host does\\n");
    return wrong != 0;
}

void time(const std::function<void()> &run)
{
    const int runs = 20;
    cudaEvent_t start, stop;
    require(cudaEventCreate(&start), "cudaEventCreate");
    require(cudaEventCreate(&stop), "cudaEventCreate");
    require(cudaEventRecord(start), "cudaEventRecord");
    for (int i = 0; i < runs; ++i)
        run();
    require(cudaEventRecord(stop), "cudaEventRecord");
    require(cudaEventSynchronize(stop), "cudaEventSynchronize");
    float milliseconds;
    require(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
    std::printf("%.4f ms a call, the mean of %d\\n", milliseconds/runs, runs);
}

}  // namespace program
"""


def standalone_program(knl: LoopKernel, sizes: Mapping[str, int] | None = None, *, name: str | None = None) -> str:
    """The text of a CUDA program that runs *knl* on fixed data and checks every output element.

    The reference is the C text of the kernel as it was made, before its transformations.

    :arg sizes: values of the kernel's integer parameters; others get a value that the assumptions allow.
    :arg name: the file's name without ``.cu``; ``None``: the kernel's name.
    :raises UnknownNameError: a name in *sizes* is not an integer parameter.
    :raises CallError: the assumptions, or the tensor maps of the kernel, do not allow *sizes*.
    :raises PreconditionError: the data, the sizes or the reference cannot be made; the message has the reason.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> text = standalone_program(knl, {"n": 1000})
    >>> "const int n = 1000;" in text, "void twice_reference(" in text, "int main()" in text
    (True, True, True)
    """
    own = lowered_once(knl)
    _require_fillable(own)
    values = _chosen_sizes(own, dict(sizes or {}))
    reference = _reference(knl)
    code, arrays = generate_code(knl, "cuda"), _views(own, values)
    if not serves(code.assumed, arrays, values):
        code = generate_code(knl, "cuda", layout=Layout.declared(knl, vectors=False))
        require_mapped(code.assumed, arrays)
    program = _Program(own, code, reference, generate_code(reference, "c"), values)
    return "\n".join(program.lines(name or knl.name)) + "\n"


def build_line(low: Lowered, name: str) -> str:
    """The command that builds and runs the program in the file ``NAME.cu``."""
    instructions = [i for launch in low.launches for bound in launch.statements.values()
                    for i in bound.statement.instructions]
    with_maps = any(f.tensor_maps for f in low.program.functions)
    capability = max([*(i.capability for i in instructions), CAPABILITY*with_maps])
    options = [*([f"-arch=sm_{capability}"] if capability else []), f"-o {name} {name}.cu", *["-lcuda"]*with_maps]
    return f"nvcc {' '.join(options)} && ./{name}"


# Data and sizes

def _require_fillable(low: Lowered) -> None:
    """:raises PreconditionError: an array has no meaningful fixed data, or no shape."""
    indices = index_names(low.kernel)
    for name, array in low.kernel.array_args.items():
        shape = low.shapes.get(name)
        dtype = np.dtype(array.dtype)
        is_number_of_c = kind_of(dtype) in "iuf" and (dtype.itemsize > 1 or kind_of(dtype) != "f")
        why = "subscripts or bounds are read from it" if name in indices else \
            f"its dtype is {dtype_text(dtype)}" if not is_number_of_c else \
            "its shape depends on data" if shape is not None and None in shape else ""
        if why:
            raise PreconditionError(f"A standalone program cannot fill the array '{name}': {why}.", subject=name,
                                    hint="call the kernel from Python with data of your own")
    for a in low.kernel.arguments:
        known = None if a.name in low.kernel.array_args or a.dtype is None else np.dtype(a.dtype)
        if known is not None and not (known.kind in "iu" or known.name in ("float32", "float64")):
            raise PreconditionError(f"A standalone program has no number of dtype {known} for '{a.name}'.",
                                    subject=a.name, hint="call the kernel from Python")


def _chosen_sizes(low: Lowered, given: Mapping[str, int]) -> dict[str, int]:
    """A value for each integer parameter: the *given* one, or one near the first of ``SIZES`` that fits.

    Values differ where they can, because equal ones would hide that two are confused. They fit if all arrays have at
    most ``MOST_BYTES`` bytes.

    :raises UnknownNameError: a name in *given* is not an integer parameter.
    :raises CallError: the assumptions do not allow the given values.
    :raises PreconditionError: no value fits.
    """
    knl = low.kernel
    names = sorted(knl.value_params)
    require_known("size", given, names, where=f"kernel '{knl.name}'")
    free = [name for name in names if name not in given]
    for value in SIZES:
        found = sizes_at_least(knl.assumptions, given, {name: max(value - 16*i, 1) for i, name in enumerate(free)})
        if not free or _array_bytes(low, found) <= MOST_BYTES:
            return found
    raise PreconditionError(f"At all sizes that were tried, the arrays of kernel '{knl.name}' have more than "
                            f"{MOST_BYTES} bytes.", subject=knl.name,
                            hint=f"sizes={{...}} gives values of {', '.join(names)}")


def _extents_at(low: Lowered, name: str, sizes: Mapping[str, int]) -> list[int]:
    return [max(evaluate(e, sizes), 0) for e in low.shapes.get(name, ()) if e is not None]


def _array_bytes(low: Lowered, sizes: Mapping[str, int]) -> int:
    return sum(np.dtype(a.dtype).itemsize*prod(_extents_at(low, x, sizes)) for x, a in low.kernel.array_args.items())


def _views(low: Lowered, sizes: Mapping[str, int]) -> dict[str, ArrayView]:
    """The arrays and the temporaries in global memory at these *sizes*: each is contiguous, from cudaMalloc."""
    arrays = {x: ArrayView.packed(tuple(_extents_at(low, x, sizes)), np.dtype(a.dtype))
              for x, a in low.kernel.array_args.items()}
    return {**arrays, **{s.name: ArrayView.packed(tuple(max(evaluate(e, sizes), 0) for e in s.in_memory), s.dtype)
                         for s in low.storages.values() if s.space is AddressSpace.GLOBAL}}


def _reference(knl: LoopKernel) -> LoopKernel:
    """*knl* as it was made, under another name, with the steps that change its meaning or its dtypes.

    :raises PreconditionError: it cannot be made, or has other arrays.
    """
    made = knl.history.made
    hint = "make the kernel by lk.make_kernel, and compare with lk.check_equivalent"
    if made is None:
        raise PreconditionError(f"Kernel '{knl.name}' was not made by make_kernel: it has no plain loop nest.",
                                subject=knl.name, hint=hint)
    name = {"name": f"{knl.name}_reference"}
    steps = tuple(step for step in knl.history if step.name in _MEANING)
    try:
        plain = make_kernel(*made.args, **{**dict(made.kwargs), **name})  # type: ignore[arg-type]
        plain = replace(knl.history, steps=steps).replay(plain)
        low = lowered_once(plain)
    except ReplayError as err:
        raise PreconditionError(f"The plain loop nest of kernel '{knl.name}' cannot be made: {err.message}",
                                subject=knl.name, hint=hint) from err
    own = lowered_once(knl)
    for array in own.kernel.array_args:
        if low.shapes.get(array) != own.shapes.get(array):
            raise PreconditionError(f"'{array}' has another shape in the plain loop nest of kernel '{knl.name}'.",
                                    subject=array, hint=hint)
    return plain


# The text

@dataclass(frozen=True)
class _Program:
    """A program of the lowered kernel *own*, of its *code*, and of the *plain* loops of *reference*."""

    own: Lowered
    code: GeneratedCode
    reference: LoopKernel
    plain: GeneratedCode
    sizes: Mapping[str, int]

    @cached_property
    def outputs(self) -> list[str]:
        return [x for x in self.own.kernel.array_args if x in self.own.kernel.written_names]

    def lines(self, name: str) -> Iterator[str]:
        yield f"// Runs kernel {self.own.kernel.name} on fixed data, checks every element of its results, and times it."
        yield f"// Build and run it: {build_line(self.own, name)}"
        yield f"// compute-sanitizer ./{name} also finds accesses outside of arrays; --tool racecheck finds races."
        yield from ("", self.code.source, self.code.host, _HEAD.strip("\n"), "")
        yield "// The kernel as it was made, before its transformations, for the host."
        includes, body = _includes(self.plain.source)
        yield from (*includes, "#define restrict __restrict__", "#define _Bool bool", "namespace reference {", "",
                    body.strip("\n"), "", "}  // namespace reference", "#undef restrict", "#undef _Bool", "",
                    "int main()", "{", *(f"    {line}".rstrip() for line in self._main()), "}")

    def _numbers(self) -> Iterator[str]:
        for a in self.own.kernel.arguments:
            if a.name in self.own.kernel.array_args:
                continue
            dtype = self.code.layout.index if a.dtype is None else np.dtype(a.dtype)
            yield f"const {CUDA.type_name(dtype)} {a.name} = {self.sizes.get(a.name, 1.25)};"

    def _main(self) -> Iterator[str]:
        name, arrays = self.own.kernel.name, self.own.kernel.array_args
        numbers = [a.name for a in self.own.kernel.arguments if a.name not in arrays]
        yield "// sizes and numbers of the call"
        yield from self._numbers()
        yield from (f'program::show("{x}", {x});' for x in numbers)
        yield ""
        for number, (x, a) in enumerate(arrays.items(), 1):
            dtype = np.dtype(a.dtype)
            real = "false" if dtype.kind in "iu" else "true"
            yield f"program::Array<{CUDA.type_name(dtype)}> {x}({self._count(x)}, {real}, {number});"
        for scratch in self._scratch():
            count = prod(max(evaluate(e, self.sizes), 0) for e in scratch.shape)
            yield f"std::vector<{CUDA.type_name(scratch.dtype)}> {scratch.name}({count});"
        yield ""
        for kernel in self.plain.kernels:
            yield f"reference::{kernel.name}({', '.join(map(self._passed, kernel.parameters))});"
        taken = [f"{x.name}.device" if x.name in arrays else x.name
                 for x in host_parameters(self.own, self.code.kernels, self.code.layout)]
        launch = f"::launch_{name}({', '.join(taken)});"
        yield from (launch, 'program::require(cudaGetLastError(), "launch");',
                    'program::require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");', "",
                    "// with the allowed error, as a part of the largest value; negative: the elements must be equal")
        yield from (f'{x}.check("{x}", {self._bound(x)});' for x in self.outputs)
        yield from ("", f"program::time([&] {{ {launch} }});", "return program::result();")

    def _scratch(self) -> dict[ScratchPointer, None]:
        return {x: None for k in self.plain.kernels for x in k.parameters if isinstance(x, ScratchPointer)}

    def _passed(self, x: Parameter) -> str:
        if not isinstance(x, Pointer):
            return x.name
        own = x.name if isinstance(x, ScratchPointer) else f"{x.name}.expected"
        short = {"float16": "float16", "bfloat16": "bfloat16"}.get(x.dtype.name)
        return f"reinterpret_cast<reference::{short} *>({own}.data())" if short else f"{own}.data()"

    def _count(self, name: str) -> str:
        """The number of elements: in the sizes if C++ has the expression too, else a number."""
        shape = [to_text(e) for e in self.own.shapes.get(name, ()) if e is not None]
        if all(re.fullmatch(r"[\w\s*+()-]+", text) and "if(" not in text for text in shape):
            return "*".join(f"size_t({text})" for text in shape) or "1"
        return str(prod(_extents_at(self.own, name, self.sizes)))

    def _bound(self, name: str) -> str:
        """The relative bound of :func:`loopkit.check_equivalent`; negative: exact."""
        knl = self.own.kernel
        if np.dtype(knl.array_args[name].dtype).kind in "iu":
            return "-1"
        return f"{error_bound(knl, self.sizes).relative:.3g}"


def _includes(source: str) -> tuple[list[str], str]:
    """The includes of *source*, and the rest."""
    lines = source.splitlines()
    return [x for x in lines if x.startswith("#include")], "\n".join(x for x in lines if not x.startswith("#include"))
