"""Comparison of two kernels, or a kernel and a numpy function, on the same random data."""
from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from loopkit.analysis.accesses import accesses_by_array, accesses_of, accesses_to, analysis_domain, data_params, reached
from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import CallError, EquivalenceError, PreconditionError, TypeInferenceError, cell_text
from loopkit.expr.evaluate import evaluate
from loopkit.expr.kinds import epsilon, is_half, kind_of
from loopkit.expr.mappers import variables
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.target import Target
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.poly.limits import bounded
from loopkit.poly.sets import fix_params
from loopkit.runtime import compiled
from loopkit.runtime.views import NumpyArray
from loopkit.shown import Shown

Reference = LoopKernel | Callable[..., Any]


@dataclass(frozen=True, repr=False)
class OutputComparison(Shown):
    """One output of the two runs.

    :ivar error: the largest distance between two elements; 0 if all are equal.
    """

    name: str
    error: float
    bound: float
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: largest error {self.error:.3g}, allowed {self.bound:.3g}"


@dataclass(frozen=True, repr=False)
class EquivalenceReport(Shown):
    """The result of :func:`check_equivalent`; it prints one line for each output.

    :ivar length: the number of operations in the error bound.
    """

    outputs: tuple[OutputComparison, ...]
    length: int
    seed: int

    @property
    def error(self) -> float:
        """The largest error of all outputs."""
        return max((o.error for o in self.outputs), default=0.0)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))


@checked
def check_equivalent(ref: Reference, knl: LoopKernel, parameters: Mapping[str, Any],
                     target: Target | str | None = None, *, seed: int = 0, rtol: float | None = None
                     ) -> EquivalenceReport:
    """Run *ref* and *knl* on the same random data and compare every element of every output.

    Floating-point data are uniform in [0.5, 1.5): roots, logarithms and quotients exist and long products stay finite.
    Integers are from -7 to 7 without 0. Arrays in subscripts of other arrays must be given.

    The error bound is ``eps * (8 + 2*length) * max|ref|`` for each output. *eps* is that of the coarsest floating-point
    dtype among the arguments and temporaries. *length* bounds the number of operations
    (:func:`accumulation_length`). Integers and truth values must be equal, and so must the places of NaN and of the
    infinities.

    :arg ref: a kernel with the same arrays, or a function whose parameters are named like arguments of *knl*. The
        function receives these arguments (all, by ``**``), and returns the outputs: an array, a tuple in *knl*'s order,
        or a dict.
    :arg parameters: values for the sizes; for other scalars and for arrays, if random values do not fit.
    :arg rtol: allow ``rtol * max|ref|`` instead.
    :raises EquivalenceError: with the worst element.
    :raises CallError: *ref* and *knl* differ in the names of arguments, or an argument cannot be random.
    :raises PreconditionError: *seed* is negative, or *rtol* is not a number of at least 0.
    """
    if seed < 0:
        raise PreconditionError(f"check_equivalent: seed= is an integer of at least 0, not {seed}.", subject="seed")
    if rtol is not None and not 0 <= rtol < inf:
        raise PreconditionError(f"check_equivalent: rtol= is a finite number of at least 0, not {rtol}.",
                                subject="rtol")
    sizes = {k: int(v) for k, v in parameters.items() if np.ndim(v) == 0 and isinstance(v, int | np.integer)}
    with bounded(f"checking kernel '{knl.name}' (equivalence)"):
        unknown = tuple(unknown_dtypes(knl))
        if unknown:
            raise TypeInferenceError(
                f"the dtypes of {', '.join(map(repr, unknown))} are open, so there is no telling what data to make.",
                subject=unknown[0], hint="declare them with add_dtypes(knl, {...})")
        typed = infer_types(knl)
        shapes = _shapes(typed, ref, sizes)
        reads = needed_inputs(typed)
        length = accumulation_length(typed, sizes)
    given = _data(typed, shapes, parameters, np.random.default_rng(seed))
    written = typed.written_names & typed.array_args.keys()
    _require_known_names(ref, knl, parameters)
    if isinstance(ref, LoopKernel):
        # both start from the same contents, so that an element written by only one of them is found
        expected: Mapping[str, NumpyArray] = compiled.compile(ref, target)(**_arguments(ref, given, written)).asdict()
    else:
        given = {k: v for k, v in given.items() if k in reads or k not in written}
        expected = _results(ref, given, typed)
    got = compiled.compile(typed, target)(**_arguments(typed, given, written)).asdict()
    dtypes = [np.dtype(a.dtype) for data in (typed.array_args, typed.temporaries) for a in data.values()
              if a.dtype is not None]
    coarsest = max((epsilon(d) for d in dtypes if kind_of(d) in "fc"), default=0.0)
    relative = coarsest * (8 + 2 * length) if rtol is None else rtol
    compared = tuple(_compare(name, np.asarray(got[name]), np.asarray(expected[name]), relative) for name in got)
    return EquivalenceReport(compared, length, seed)


def _require_known_names(ref: Reference, knl: LoopKernel, parameters: Mapping[str, Any]) -> None:
    """:raises CallError: a reference kernel lacks an array of *knl*, or no kernel has a parameter's name."""
    known = dict.fromkeys(knl.argument_by_name)
    if isinstance(ref, LoopKernel):
        missing = [x for x in knl.array_args if x not in ref.array_args] or [
            x for x in knl.array_args if x in knl.written_names - ref.written_names]
        if missing:
            what = "no array" if missing[0] not in ref.array_args else "no output"
            others = [x for x in ref.array_args if x not in knl.array_args]
            raise CallError(f"the reference kernel has {what} '{missing[0]}', as kernel '{knl.name}' has.",
                            argument=missing[0], hint=f"rename_argument(ref, '{others[0]}', '{missing[0]}')" if others
                            else f"compare kernels with the same arrays: {', '.join(knl.array_args)}")
        known |= dict.fromkeys(ref.argument_by_name)
    else:
        known |= dict.fromkeys(_signature(ref).parameters)
    unknown = next((x for x in parameters if x not in known), None)
    if unknown is not None:
        raise CallError(f"'{unknown}' is an argument neither of kernel '{knl.name}' nor of the reference.",
                        argument=unknown, hint=f"the arguments are {', '.join(known)}")


def _signature(ref: Callable[..., Any]) -> inspect.Signature:
    """The parameters of *ref*; any names for a function in C without a signature."""
    try:
        return inspect.signature(ref)
    except ValueError:
        return inspect.Signature([inspect.Parameter("given", inspect.Parameter.VAR_KEYWORD)])


def _arguments(knl: LoopKernel, given: Mapping[str, Any], written: frozenset[str]) -> dict[str, Any]:
    """The arguments of *knl* among *given*, copied if *written*; a size that one of the kernels has fixed is none."""
    return {k: v.copy() if k in written else v for k, v in given.items() if k in knl.argument_by_name}


def _shapes(knl: LoopKernel, ref: Reference, sizes: Mapping[str, int]) -> dict[str, tuple[int | None, ...]]:
    """The extents that both kernels need; ``None``: it depends on data."""
    shapes = {name: _evaluated(shape, sizes, name) for name, shape in array_shapes(knl).items()
              if name in knl.array_args}
    if isinstance(ref, LoopKernel):
        needed = array_shapes(ref)
        for name in [x for x in shapes if x in needed and x in ref.array_args]:
            own, other = shapes[name], _evaluated(needed[name], sizes, name)
            if len(own) == len(other):
                shapes[name] = tuple(None if a is None and b is None else max(a or 0, b or 0)
                                     for a, b in zip(own, other, strict=True))
    return shapes


def _evaluated(shape: tuple[Any, ...], sizes: Mapping[str, int], array: str) -> tuple[int | None, ...]:
    missing = sorted(frozenset().union(*(variables(e) for e in shape if e is not None)) - sizes.keys())
    if missing:
        raise CallError(f"the shape of '{array}' depends on '{missing[0]}', which has no value.", argument=missing[0],
                        hint=f"add '{missing[0]}' to parameters")
    return tuple(None if e is None else max(evaluate(e, sizes), 0) for e in shape)


def _data(knl: LoopKernel, shapes: Mapping[str, tuple[int | None, ...]], parameters: Mapping[str, Any],
          random: np.random.Generator) -> dict[str, Any]:
    """A value for every argument: as given, else random."""
    data = dict(parameters)
    subscripting = index_names(knl)
    for arg in knl.arguments:
        name, dtype = arg.name, np.dtype(arg.dtype)
        if name in data:
            continue
        if isinstance(arg, ValueArg):
            # the call may solve for an integer, or reports it missing
            if arg.dtype is not None and kind_of(dtype) in "fc":
                data[name] = random_array((), dtype, random)[()]
        elif name in shapes:                           # an array without accesses need not be passed
            extents = tuple(e for e in shapes[name] if e is not None)
            if name in subscripting or len(extents) < len(shapes[name]):
                why = "subscripts or bounds are read from it" if name in subscripting else "its shape depends on data"
                raise CallError(f"'{name}' cannot be random: {why}.", argument=name, hint=f"add '{name}' to parameters")
            data[name] = random_array(extents, dtype, random)
    return data


def random_array(shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> NumpyArray:
    """Random data of :func:`check_equivalent`."""
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape), dtype)
    data = random.integers(1, 8, shape) if dtype.kind in "iu" else random.uniform(0.5, 1.5, shape)
    if dtype.kind == "i":
        data = data * random.choice([-1, 1], shape)
    if dtype.kind == "c":
        data = data + 1j * random.uniform(0.5, 1.5, shape)
    return np.asarray(data, dtype)


def _results(ref: Callable[..., Any], given: Mapping[str, Any], knl: LoopKernel) -> Mapping[str, NumpyArray]:
    """*ref*'s outputs by name; :raises CallError: no argument of *knl* has the name of one of its parameters."""
    # copies, because the reference may work in place
    copied = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()}
    bound = _bound(ref, copied, knl)
    result = ref(*bound.args, **bound.kwargs)
    names = [a.name for a in knl.array_args.values() if a.name in knl.written_names]
    if isinstance(result, Mapping):
        found = dict(result)
    else:
        values = result if isinstance(result, tuple | list) else (result,)
        found = dict(zip(names, values, strict=False)) if len(values) == len(names) else {}
    missing = [x for x in names if x not in found]
    if missing:
        raise CallError(f"the reference function gives no '{missing[0]}'.", argument=missing[0],
                        hint=f"return {', '.join(names)} as a tuple in this order, or a dict")
    return found


def _bound(ref: Callable[..., Any], given: Mapping[str, Any], knl: LoopKernel) -> inspect.BoundArguments:
    """The arguments of *ref*."""
    signature = _signature(ref)
    bound = inspect.BoundArguments(signature, OrderedDict())
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound.arguments[name] = {k: v for k, v in given.items() if k not in signature.parameters}
        elif name in given:
            bound.arguments[name] = given[name]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            is_input = name in knl.argument_by_name and name not in knl.written_names
            raise CallError(f"the reference function takes '{name}', which check_equivalent has no value for.",
                            argument=name, hint=f"add '{name}' to parameters" if is_input else
                            f"call its parameters like the kernel's arguments, which are {', '.join(given)}, or wrap "
                            f"it: lambda {', '.join(x for x in given if x in knl.array_args)}: ...")
    return bound


def _compare(name: str, got: NumpyArray, expected: NumpyArray, relative: float) -> OutputComparison:
    if got.shape != expected.shape:
        raise EquivalenceError(f"'{name}' has the shape {got.shape}, and the reference's is {expected.shape}.",
                               output=name, index=(), got=got.shape, expected=expected.shape, error=float("inf"),
                               bound=0.0)
    if got.size == 0:
        return OutputComparison(name, 0.0, 0.0, ())
    # halves as float32: ml_dtypes warns about each NaN
    got, expected = (x.astype(np.float32) if is_half(x.dtype) else x for x in (got, expected))
    finite = np.isfinite(expected)
    bound = relative * float(np.max(np.abs(expected[finite]), initial=0)) if got.dtype.kind in "fc" else 0.0
    distance = _distance(got, expected)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))
    error = float(distance[index])
    if error > bound:
        wrong = int(np.count_nonzero(distance > bound))
        raise EquivalenceError(
            f"{cell_text(name, index)} is {got[index]} and should be {expected[index]}: the error {error:.3g} is above "
            f"the bound {bound:.3g} ({wrong} of {got.size} elements are).", output=name, index=index, got=got[index],
            expected=expected[index], error=error, bound=bound)
    return OutputComparison(name, error, bound, index)


def _distance(got: NumpyArray, expected: NumpyArray) -> NumpyArray:
    """Elementwise ``|got - expected|``; infinite if only one is NaN, or if infinities differ."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if got.dtype.kind in "fc" or expected.dtype.kind in "fc":
        wide = np.result_type(got.dtype, expected.dtype, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(got.astype(wide) - expected.astype(wide))
    else:
        # Python's integers: no difference of two int64 or uint64 wraps around to a small one
        difference = np.abs(got.astype(object) - expected.astype(object)).astype(np.float64)
    return np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))


# The accumulation length: a bound on the roundings in an output, from all reductions and recurrences

def accumulation_length(knl: LoopKernel, sizes: Mapping[str, int]) -> int:
    """The greatest number of operations on the way to an output element, up to a constant.

    The sum of two kinds of products. For each reduction: the extents of its inames. For each statement that reads
    values it contributes to: the extents of the inames that its element does not depend on (an accumulation), or of
    all its inames (a recurrence). An extent that depends on data counts as the largest of *sizes*.
    """
    total = 0
    for node in knl.reductions.values():
        for update in map(knl.statement, node.updates):
            total += prod(_extents(knl, update, [x for x in node.inames if x in update.inames], sizes))
    sources = _names_read(knl)
    for statement in knl.statements:
        if statement.id not in knl.reduction_of and statement.written in reached(
                sources[statement.written], lambda name: sources.get(name, ())):
            kept = _kept_inames(knl, statement)
            lengths = _extents(knl, statement, [x for x in statement.inames if x not in (kept or ())], sizes)
            total += sum(lengths) if kept is None else prod(lengths)
    return max(total, 1)


def index_names(knl: LoopKernel) -> frozenset[str]:
    """The arrays whose values decide the elements or the number of other accesses (index arrays)."""
    found = {name for accesses in accesses_by_array(knl).values() for a in accesses for s in a.subscripts
             for name in variables(s) & knl.data.keys()}
    found.update(name for s in knl.statements for name in data_params(knl, s.domain))
    sources = _names_read(knl)
    through = reached(found, lambda name: sources.get(name, ()) if name in knl.temporaries else ())
    return frozenset(through & knl.array_args.keys())


def _extents(knl: LoopKernel, statement: Statement, inames: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    domain = analysis_domain(knl, statement)
    fixed = domain.named(fix_params(domain.set, sizes))
    return [0 if fixed.is_empty() else max(sizes.values(), default=1) if low is None or high is None else high - low + 1
            for low, high in map(fixed.constant_range, inames)]


def _kept_inames(knl: LoopKernel, statement: Statement) -> frozenset[str] | None:
    """The inames of the element that *statement* accumulates into; ``None`` where it reads another element."""
    reads, [written] = (accesses_to(knl, statement.id, statement.written, is_write=kind) for kind in (False, True))
    if not reads or any(a.subscripts != written.subscripts for a in reads):
        return None
    return frozenset(name for s in written.subscripts for name in variables(s))


def _names_read(knl: LoopKernel) -> Mapping[str, set[str]]:
    """For each written name, the names that its statements read."""
    found: dict[str, set[str]] = {}
    for statement in knl.statements:
        reads = {a.array for a in accesses_of(knl, statement) if not a.is_write}
        if statement.id in knl.reduction_of:
            reads.discard(statement.written)          # the accumulation of a reduction counts as the reduction
        found.setdefault(statement.written, set()).update(reads)
    return found
