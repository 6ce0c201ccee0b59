"""The host C target: an OpenMP loop over the blocks, and in each region a loop over the threads of a block.

Private data that are alive in several regions become an array over the threads; a barrier ends a region. A kernel
mapped to a GPU thus runs on any machine.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, For, Region, Sync
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import mentioned, nodes_in, rewritten
from loopkit.expr.kinds import ML_DTYPES
from loopkit.expr.random_numbers import RANDOM_CALLS, random_texts
from loopkit.instructions.atomic_update import AtomicUpdate, has_openmp
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.table import OPENMP_TEXTS
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_simd
from loopkit.kernel.target import Machine
from loopkit.lowering.lowered import BLOCK, GRID, Lowered
from loopkit.lowering.types import index_types
from loopkit.poly.affine import add, multiply
from loopkit.poly.piecewise import at_least
from loopkit.target.c.bounds import HELPERS, BoundsChecks
from loopkit.target.c.combining import combining_functions
from loopkit.target.c.dialect import INTEGERS, REALS, Dialect, Functions, Syntax
from loopkit.target.c.narrow_reals import CONVERSIONS, NARROW_TYPES
from loopkit.target.c.work import LEAST, Work, work_of
from loopkit.target.code import (
    GeneratedCode,
    GeneratedKernel,
    Layout,
    Parameter,
    TextTarget,
    require_fields,
    split_condition,
)
from loopkit.target.emit import Emitter, Hooks, outer_bounds, wrapped
from loopkit.target.functions import FunctionTexts, LaunchCalls, function_texts
from loopkit.target.memory import Addresses, FunctionText, Nested, array_declaration, function_lines
from loopkit.target.scalar_functions import preambles, references_in

# C11 with its mathematical library, as a table

# built from its parts, because re + im*I would turn infinities and signed zeros into NaNs and plain zeros
_C_COMPLEX = """
static inline TYPE _Complex make_NAME(TYPE re, TYPE im)
{
    union { TYPE parts[2]; TYPE _Complex number; } both = {{re, im}};
    return both.number;
}
"""

# C11 itself has no Bessel functions, so its headers may not declare those of POSIX
_BESSEL = {**{f"{name}|bessel_{name}_f32": f"double {name}(int order, double x);" for name in ("jn", "yn")},
           **{f"bessel_{name}_f32": f"""
static inline float bessel_{name}_f32(int order, float x)
{{
    return (float){name}(order, x);
}}
""" for name in ("jn", "yn")}}

_LEADING_ZEROS = {f"clz_u{bits}": f"""
static inline int clz_u{bits}(unsigned {kind} x)
{{
    return x == 0 ? {bits} : __builtin_clz{end}(x);
}}
""" for bits, kind, end in ((32, "int", ""), (64, "long long", "ll"))}

_EXP2_FTZ = """
// 2**x, and 0 where that is subnormal
static inline float exp2_ftz(float x)
{
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0 : y;
}
"""

#: The functions that glibc's libmvec computes for whole vectors, with errors of up to 4 units in the last place.
_OF_VECTORS = ("exp", "log", "pow", "sin", "cos")

_DECLARED = """
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
#pragma omp declare simd notinbranch
TYPE NAME(PARAMETERS);
#endif
"""


def _declared_for_vectors() -> dict[str, str]:
    """Their declarations for float and double, for texts that have SIMD loops."""
    return {f"{name}{mark} & simd": _DECLARED.replace("PARAMETERS", "TYPE, TYPE" if name == "pow" else "TYPE")
            .replace("NAME", name + mark).replace("TYPE", kind)
            for name in _OF_VECTORS for mark, kind in (("f", "float"), ("", "double"))}


def _named_helpers(*names: str) -> dict[str, str]:
    """The helpers for real functions, by their names."""
    return {x: x for name in names for x in (f"{name}_f32", f"{name}_f64")}


#: In the place of fmin and fmax, of which compilers make no vectors.
_EXTREMA = _named_helpers("min", "max")

_TYPES = {**INTEGERS, **REALS, "bool": "_Bool", "float16": "float16", **{name: name for name in ML_DTYPES},
          "complex64": "float _Complex", "complex128": "double _Complex"}

C = Dialect(
    _TYPES,
    Functions("static inline", references=True, names=_named_helpers("rsqrt", "exp10", "sinpi", "cospi"), texts={
        **RANDOM_CALLS,
        "bessel_jn": {"int32, float64": "jn", "int32, float32": "bessel_jn_f32"},
        "bessel_yn": {"int32, float64": "yn", "int32, float32": "bessel_yn_f32"},
        "ldexp": {"float64, int32": "ldexp", "float32, int32": "ldexpf"}, "tf32": "tf32",
        "exp2_ftz": "exp2_ftz",
        "popcount": {"int32": "__builtin_popcount", "uint32": "__builtin_popcount", "int64": "__builtin_popcountll",
                     "uint64": "__builtin_popcountll"},
        "clz": {"int32": "clz_u32", "uint32": "clz_u32", "int64": "clz_u64", "uint64": "clz_u64"}}),
    Syntax("c", "#include <math.h>"),
    {**NARROW_TYPES,
     "_Complex": "#include <complex.h>\n#undef I",
     "make_complex64|float _Complex": _C_COMPLEX.replace("NAME", "complex64").replace("TYPE", "float"),
     "make_complex128|double _Complex": _C_COMPLEX.replace("NAME", "complex128").replace("TYPE", "double"),
     **_declared_for_vectors(), **CONVERSIONS, **HELPERS, **_BESSEL, **_LEADING_ZEROS, "exp2_ftz": _EXP2_FTZ,
     **random_texts("static inline", _TYPES)}, instructions=OPENMP_TEXTS)


# The text of launches

#: The line before an unrolled loop around SIMD loops. GCC unrolls it whole if it has at most this number of iterations.
_UNROLL = ("#pragma GCC unroll 64",)

_AXES = {axis: axis.replace(".", "") + "_" for axis in (*GRID, *BLOCK)}


@dataclass(frozen=True, repr=False)
class CTarget(TextTarget):
    """C11 for the machine's own compiler, with the options of its compilation. All compilers get the same text.

    :ivar compiler: the compiler's command, ``"clang"`` or ``"gcc-13 -m32"``; ``None``: the first that works.
    :ivar fast: let the compiler vectorize loops and reorder their iterations, by the fastest flags with which it
        compiles a set of trial loops correctly. By default it leaves loops as they are written.
    :ivar contract: let the compiler fuse a product and a sum into one operation with one rounding, as CUDA's compiler
        does. Results then differ by rounding errors from one mapping of a kernel to another.
    :ivar options: more options for the compiler, passed on unchanged: ``("-funroll-loops",)``. Options with which it
        compiles the trial loops wrongly are an error.
    :ivar check_bounds: check the accesses that are not proven to be inside of their arrays, as for
        :func:`loopkit.compile`.

    >>> lk.CTarget(fast=True, options=("-funroll-loops",)).name
    'c'
    """

    name: ClassVar[str] = "c"
    runner: ClassVar[str] = "loopkit.runtime.host:HostRunner"
    for_host: ClassVar[bool] = True
    dialect: ClassVar[Dialect] = C

    compiler: str | None = None
    fast: bool = False
    contract: bool = False
    options: tuple[str, ...] = ()
    check_bounds: bool = False

    def __post_init__(self) -> None:
        """:raises PreconditionError: a field has an illegal value."""
        is_command = self.compiler is None or (isinstance(self.compiler, str) and bool(self.compiler.strip()))
        require_fields(self, "compiler", is_command, "give a command, such as 'gcc-13', or None to have one found")

    @property
    def machine(self) -> Machine:
        # the loops over the threads of a block end at each barrier, so roles would run one after the other
        return Machine(roles=False)

    def with_bounds_checks(self) -> CTarget:
        return replace(self, check_bounds=True)

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        called = function_texts(lowered, "static")
        # indices of 32 bits may wrap around: compilers then take the elements of a SIMD loop for scattered ones
        if any(map(is_simd, lowered.kernel.tags.values())):
            layout = replace(layout, index_bits=64)
        functions = [_HostFunction(lowered, launch, function, layout, self.dialect, called, self.check_bounds)
                     for launch, function in zip(lowered.launches, lowered.program.functions, strict=True)]
        texts = ["\n".join(wrapped(list(x.lines()))) for x in functions]
        launches = tuple(GeneratedKernel(
            x.launch.name, x.all_parameters, x.launch.grid, x.launch.block,
            checks=tuple(x.checks.accesses)) for x in functions)
        texts = [*preambles(lowered, self.dialect.syntax.name),
                 *("\n".join(wrapped(list(lines))) for lines in called.texts()), *texts]
        source = "\n\n".join([self._preamble(lowered, texts), *texts]) + "\n"
        return GeneratedCode(self.name, source, launches, "", layout, lowered.program.host_order)

    def _preamble(self, lowered: Lowered, texts: Sequence[str]) -> str:
        return self.dialect.preamble("\n".join(texts), combining_functions(lowered.kernel, self.dialect)).rstrip()


#: The class by which ``target="c"`` finds the target of this folder.
TARGET = CTarget


@dataclass(frozen=True)
class _HostFunction(FunctionText):
    called: FunctionTexts
    check_bounds: bool = False

    @property
    def takes_all_values(self) -> bool:
        return self.check_bounds            # the inames of an instance may need them

    @cached_property
    def blocks(self) -> list[str]:
        return [axis for axis in reversed(GRID) if axis in self.launch.mapping.extents]

    @cached_property
    def threads(self) -> list[str]:
        return [axis for axis in reversed(BLOCK) if axis in self.launch.mapping.extents]

    @cached_property
    def in_order(self) -> bool:
        """Must the blocks run in order? They wait for each other, or have an update that OpenMP lacks."""
        return self.launch.ticketed or any(self._lacks_update(x.statement) for x in self.launch.statements.values())

    @cached_property
    def grid(self) -> tuple[Expression | None, list[Expression]]:
        """The condition under which there are blocks, or ``None``, and under it the extents of their axes."""
        return split_condition(self.launch.mapping.extents[axis] for axis in self.blocks)

    @cached_property
    def work(self) -> Work:
        """The work of the launch if there are blocks."""
        return work_of(self.function.body, [*self.grid[1], *self.launch.block], self.launch.kernel.value_params)

    @property
    def is_parallel(self) -> bool:
        """May the host's threads share the blocks?"""
        return bool(self.blocks) and not self.in_order and not self.work.is_small

    @property
    def has_simd(self) -> bool:
        """Does it have SIMD loops? Compilers keep their small arrays in registers if loops around are unrolled."""
        return any(isinstance(node, For) and isinstance(node.instruction, SimdLoop)
                   for node in nodes_in(self.function.body))

    def _lacks_update(self, s: Statement) -> bool:
        storage = self.lowered.storages.get(s.written)
        if not s.commutes or (storage is not None and storage.space is not AddressSpace.GLOBAL):
            return False
        dtype = self.lowered.kernel.array_args[s.written].dtype if storage is None else storage.dtype
        assert dtype is not None
        return not has_openmp(s, np.dtype(dtype))

    @cached_property
    def emitter(self) -> Emitter:
        lead = "".join(f"[{_AXES[axis]}]" for axis in self.threads)
        # each thread keeps its own value from one region to another
        places = {a.name: Nested(lead if a.across_regions else "", a) for a in self.function.arrays
                  if a.shape or a.across_regions}
        # updates are atomic if blocks run concurrently; everything else is emitted as plain code
        # bounds checks leave a loop, and none can leave a SIMD loop
        without = {*(() if self.is_parallel else (AtomicUpdate,)), *((SimdLoop,) if self.check_bounds else ())}
        texts = {own: text for own, text in self.dialect.instructions.items() if own not in without}
        dialect = replace(self.dialect, instructions=texts)
        if self.has_simd:
            functions = replace(dialect.functions, names={**dialect.functions.names, **_EXTREMA})
            dialect = replace(dialect, functions=functions, syntax=replace(dialect.syntax, unroll=_UNROLL))
        hooks = Hooks(self._thread_loops, self._sync_lines)
        return Emitter(self.lowered.kernel, dialect, Addresses({**self.places, **places}, _AXES),
                       self.layout.index, index_types(self.launch.kernel, self.layout.index),
                       replace(hooks, before=self.checks.lines) if self.check_bounds else hooks,
                       calls=None if self.check_bounds else LaunchCalls.of(self.called, self.function, barriers=False))

    @cached_property
    def checks(self) -> BoundsChecks:
        """The bounds checks, which are collected as the function is printed."""
        number: Expression = 0
        for axis, extent in zip(self.blocks, self.grid[1], strict=True):
            number = add(multiply(number, extent), p.Variable(axis))
        return BoundsChecks(self.lowered, number, self.launch.hosts)

    def lines(self) -> Iterator[str]:
        return function_lines(f"void {self.launch.name}", self.all_parameters, self.body, self.dialect)

    @cached_property
    def body(self) -> list[str]:
        lines = list(self._block_loops())
        names = set(re.findall(r"\w+", "\n".join(lines)))              # a function declares its own constants
        constants = [array_declaration(a, self.dialect) for a in self.function.arrays
                     if a.initializer and a.name in names]
        return [*constants, *([""] if constants else []), *lines]

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """The parameters, with those for Python references and, last, for bounds checks."""
        references = references_in("\n".join(self.body), self.launch.kernel)
        return (*self.parameters, *references, *self.checks.parameters)

    def _block_loops(self) -> Iterator[str]:
        """Loops over the blocks around the body of one block."""
        emitter, launch, bounds = self.emitter, self.launch, outer_bounds(self.launch)
        body: list[str] = []
        for x, value in launch.mapping.coordinates.items():
            if x not in launch.mapping.thread_inames:
                body.append(f"const {emitter.index} {x} = {emitter.text(value, bounds)};")
            bounds = bounds.defining(x, value)
        own = [launch.mapping.extents[axis] for axis in self.threads]
        threads = "".join(f"[{emitter.text(extent, bounds)}]" for extent in own)
        lasting = any(a.across_regions for a in self.function.arrays)
        body += [array_declaration(a, self.dialect, threads if a.across_regions else "")
                 for a in self.function.arrays if a.across_regions or a.shared or a.thread_axes]
        outside = rewritten(self.function.body, lambda node: Block() if isinstance(node, Region) else node)
        if any(a.across_regions and a.name in mentioned(outside) for a in self.function.arrays):
            # such loops have one bound for all threads of a block: that of the first one
            body += [f"const {emitter.index} {_AXES[axis]} = 0;" for axis in self.threads]
        lines = [*body, *([""] if body else []), *emitter.lines(self.function.body, bounds), *self.checks.end]
        condition, extents = self.grid
        # an array over threads needs at least one of them
        some = [p.Comparison(1, "<=", extent) for extent in own if lasting and not isinstance(extent, int)
                and not ((known := at_least(extent, 1)) is not None and launch.kernel.assumptions.is_subset(known))]
        for needed in (*([] if condition is None else [condition]), *some):
            yield f"if ({emitter.condition(_negated(needed), bounds)})"
            yield "    return;"
        if self.is_parallel:
            together = f" collapse({len(self.blocks)})" if len(self.blocks) > 1 else ""
            yield f"#pragma omp parallel for{together}{self._if_enough(bounds)}"
        for axis, extent in zip(reversed(self.blocks), reversed(extents), strict=True):
            lines = list(emitter.loop_over(_AXES[axis], 0, extent, lines, bounds))
        yield from lines

    def _if_enough(self, bounds: ValueRanges) -> str:
        """The clause by which one thread does a small launch; none if every launch is large."""
        texts = [self.emitter.text(e, bounds) for e in self.work.factors]
        numbers = [text if re.fullmatch(r"\w+", text) else f"({text})" for text in texts]
        return f" if({'*'.join((f'{self.work.coefficient}LL', *numbers))} >= {LEAST})" if numbers else ""

    def _thread_loops(self, lines: list[str]) -> list[str]:
        """Loops over the threads of a block around a region."""
        mentioned = set(re.findall(r"\w+", "\n".join(lines)))
        own = [array_declaration(a, self.dialect) for a in self.function.arrays
               if not (a.shared or a.thread_axes or a.across_regions or a.initializer) and a.name in mentioned]
        bounds, mapping = outer_bounds(self.launch), self.launch.mapping
        heads = [f"const {self.emitter.index} {x} = {self.emitter.text(value, bounds)};"
                 for x, value in mapping.coordinates.items() if x in mapping.thread_inames and x in mentioned]
        lines = [*heads, *own, *([""] if own else []), *lines]
        for axis in reversed(self.threads):
            lines = list(self.emitter.loop_over(_AXES[axis], 0, mapping.extents[axis], lines, bounds))
        return lines

    @staticmethod
    def _sync_lines(_sync: Sync, comments: list[str], _own: list[str]) -> list[str]:
        return ["// barrier: the threads' loops end here", *comments] if comments else []


def _negated(condition: Expression) -> Expression:
    match condition:
        case p.LogicalAnd(children=children):
            return p.LogicalOr(tuple(map(_negated, children)))
        case p.Comparison(left=a, operator="<=" | "<" as operator, right=b):
            return p.Comparison(b, "<" if operator == "<=" else "<=", a)
        case _:
            return p.LogicalNot(condition)
