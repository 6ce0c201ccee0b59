"""Comparison of two kernels, or a kernel and a numpy function, on the same data at several sizes."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.sizes import ragged_sizes, tile_lengths
from loopkit.errors import CallError, PreconditionError, TypeInferenceError
from loopkit.expr.evaluate import evaluate, parameter_plus_constant
from loopkit.expr.mappers import variables
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Target
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.poly.limits import bounded
from loopkit.runtime import compiled
from loopkit.runtime.comparison import EquivalenceReport, EquivalenceRun, compared, parts, run_text
from loopkit.runtime.compiled import CompiledKernel
from loopkit.runtime.function_references import with_references
from loopkit.runtime.references import (
    ReferenceCall,
    named_results,
    parameters_of,
    positional_inputs,
    reference_call,
)
from loopkit.runtime.rounding import ErrorBound, error_bound
from loopkit.runtime.sample_data import kinds_of_data, sample_data
from loopkit.runtime.scalars import converter
from loopkit.runtime.typed import closed
from loopkit.runtime.views import NumpyArray, laid_out

Reference = LoopKernel | Callable[..., Any]

Lengths = tuple[int | None, ...]


@checked
def check_equivalent(ref: Reference, knl: LoopKernel, parameters: Mapping[str, Any] | None = None,
                     target: Target | str | None = None, *, seed: int = 0, rtol: float | None = None,
                     data: str | Sequence[str] = "random", names: Mapping[str, str] | None = None
                     ) -> EquivalenceReport:
    """Run *ref* and *knl* on the same data and compare every element of every output.

    Integer arguments that *parameters* leaves out get several sizes, one run after the other: 0 and 1, primes, sizes
    around the tile lengths of *knl*. All respect the assumptions. Arrays in *parameters* determine sizes, too.

    The error bound is ``eps * (8 + 2*length) * max|ref|`` for each output. *eps* is that of the coarsest floating-point
    dtype to which the kernels round: those of operations and of the elements that they write. *length* is the number of
    operations on the way to an element, from all reductions and recurrences. Those that round to a finer dtype add
    ``2*length`` times the eps of that dtype instead. For example, a sum in float32 of products of float16, stored as
    float16, has the bound ``(8 + 2)*eps(float16) + 2*length*eps(float32)``. Loads and sums of integers are exact.
    Matrix units drop bits in place of rounding, and are within this bound (:doc:`checking`). A function must compute in
    the kernel's dtypes, too: ``a.astype(np.float32) @ b``.

    Integers and truth values must be equal. NaN must be in the same places, and so must infinities of the same sign;
    complex numbers that are not finite must be in the same places.

    A function's parameters get the arguments of their own name, else the remaining inputs of *knl* by position: the
    arrays that it reads, and numbers other than sizes. The function returns the outputs: an array or a scalar, a tuple
    or list in *knl*'s order, or a dict. Its own exceptions go to the caller. The results are also compared with those
    of *knl* with the Python references of its functions in place of texts.

    :arg ref: a kernel with the same arrays, or a function of numpy arrays.
    :arg parameters: values for sizes, and for scalars and arrays for which generated values do not fit. Arrays in
        subscripts of other arrays must be given.
    :arg rtol: allow ``rtol * max|ref|`` instead.
    :arg data: the kinds of data, each of which gets its own runs. ``"random"``: floating-point numbers are uniform in
        [0.5, 1.5), so that roots, logarithms and quotients exist and long products stay finite; integers are from -7
        to 7 without 0. ``"zeros"``, ``"ones"``, ``"primes"``, ``"large"`` and ``"denormals"``: all numbers are of this
        kind. ``"nan"`` and ``"infinities"``: a few numbers are. ``"adversarial"``: all kinds.
    :arg names: by parameter of the function, the argument of *knl* that it gets: ``{"A": "a"}``.
    :raises EquivalenceError: with the worst element, and the place of other wrong ones.
    :raises CallError: *ref* and *knl* have different arguments, or an argument cannot be generated.
    :raises UnknownNameError: *data* or *names* has an unknown name.
    :raises PreconditionError: *seed* is negative, *rtol* is not a number of at least 0, or *names* is for a kernel.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 16)
    >>> lk.check_equivalent(lambda x: 2*x, knl, target="c")
    <EquivalenceReport y: largest error 0, allowed 3.57e-06 (worst of 7 runs)>
    >>> lk.check_equivalent(lambda x: np.where(np.arange(len(x)) < 16, 2*x, 0), knl, target="c")
    Traceback (most recent call last):
        ...
    loopkit.errors.EquivalenceError: y[16] is 2.726357936859131 and should be 0.0: the error 2.73 is above the bound ...
      with n = 17, data: random, seed 0
      the error is 1.14e+07 ulps of float32
      the bound is eps of float32 (1.19e-07, the dtype of 'x'), times 8 + 2*1 roundings ...
      axis 0: the last, partial tile of 16 (16..16)
    """
    given = dict(parameters or {})
    _require_numbers(seed, rtol)
    kinds = kinds_of_data(data)
    if names and isinstance(ref, LoopKernel):
        raise PreconditionError("check_equivalent: names= is for a reference function, and the reference is a kernel.",
                                subject="names", hint="rename_argument(ref, ...) renames the arguments of a kernel")
    with bounded(f"checking kernel '{knl.name}' (equivalence)"):
        typed = _with_all_dtypes(knl)
        _require_known_names(ref, knl, given)
        cases = _cases(typed, ref, given, rtol)
        reads, tiles = needed_inputs(typed), tile_lengths(typed)
        if not isinstance(ref, LoopKernel):
            available = _available(typed, cases[0], reads, given)
            call = reference_call(ref, typed, available, positional_inputs(typed, reads, available), names or {})
    right = compiled.compile(ref, target) if isinstance(ref, LoopKernel) else call
    pair = _Pair(typed, compiled.compile(typed, target), right, reads, tiles, seed)
    runs = [each.run(case, given, kind) for each in (pair, *pair.by_python()) for kind in kinds for case in cases]
    return EquivalenceReport(knl.name, pair.reference, tuple(runs[:len(kinds)*len(cases)]), seed)


def _with_all_dtypes(knl: LoopKernel) -> LoopKernel:
    """*knl* with all dtypes; :raises TypeInferenceError: one is open."""
    unknown = tuple(unknown_dtypes(knl))
    if unknown:
        raise TypeInferenceError(
            f"the dtypes of {', '.join(map(repr, unknown))} are open, so no data can be made for them.",
            subject=unknown[0], hint="declare them with add_dtypes(knl, {...})")
    return infer_types(knl)


def _typed_reference(typed: LoopKernel, ref: Reference) -> Iterator[LoopKernel]:
    """The reference, if it is a kernel whose dtypes are known, or follow from those of *typed*."""
    if isinstance(ref, LoopKernel):
        known = closed(ref, lambda name: typed.argument_by_name[name].dtype if name in typed.argument_by_name else None)
        if not any(True for _ in unknown_dtypes(known)):
            yield infer_types(known)


def _require_numbers(seed: int, rtol: float | None) -> None:
    """:raises PreconditionError: *seed* or *rtol* is out of range."""
    if seed < 0:
        raise PreconditionError(f"check_equivalent: seed= is an integer of at least 0, not {seed}.", subject="seed")
    if rtol is not None and not 0 <= rtol < inf:
        raise PreconditionError(f"check_equivalent: rtol= is a finite number of at least 0, not {rtol}.",
                                subject="rtol")


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
        known |= dict.fromkeys(parameters_of(ref))
    unknown = next((x for x in parameters if x not in known), None)
    if unknown is not None:
        raise CallError(f"'{unknown}' is an argument neither of kernel '{knl.name}' nor of the reference.",
                        argument=unknown, hint=f"the arguments are {', '.join(known)}")


# Sizes and shapes

@dataclass(frozen=True)
class _Case:
    """Sizes, and what follows from them.

    :ivar shapes: the extents of the arrays that both kernels need; ``None``: an extent depends on data.
    """

    sizes: Mapping[str, int]
    shapes: Mapping[str, Lengths]
    bound: ErrorBound


def _cases(typed: LoopKernel, ref: Reference, given: Mapping[str, Any], rtol: float | None) -> list[_Case]:
    """The cases of all runs; the bound is that of the coarser kernel."""
    kernels = (typed, *_typed_reference(typed, ref))
    return [_Case(sizes, _shapes(typed, ref, sizes), max(
        (error_bound(k, sizes, rtol) for k in kernels), key=lambda bound: bound.relative))
            for sizes in _run_sizes(typed, ref, given)]


def _run_sizes(knl: LoopKernel, ref: Reference, given: Mapping[str, Any]) -> list[dict[str, int]]:
    """The sizes of each run: as *given*, or as the arrays among *given* have them; the others are ragged.

    :raises CallError: the assumptions do not allow the given ones.
    """
    lengths = {name: getattr(value, "shape", ()) for name, value in given.items() if name in knl.array_args}
    kernels = (knl, ref) if isinstance(ref, LoopKernel) else (knl,)
    dtypes = {a.name: a.dtype for k in kernels for a in k.arguments if a.name in k.value_params}
    numbers = {name: converter(name, dtypes[name])(value) for name, value in given.items()
               if name in dtypes and value is not None}
    sizes = {name: value for name, value in numbers.items() if isinstance(value, int)}       # all of them
    known = {**_sizes_solved(knl, lengths), **sizes}
    chosen = [a.name for a in knl.arguments if a.name in knl.value_params and a.name not in known]
    if not chosen:
        return [known]
    assumptions = knl.assumptions.intersect(ref.assumptions) if isinstance(ref, LoopKernel) else knl.assumptions
    return ragged_sizes(knl, assumptions, known, chosen)


def _sizes_solved(knl: LoopKernel, lengths: Mapping[str, Lengths]) -> dict[str, int]:
    """The sizes of *knl* that are, plus a constant, extents of arrays with these *lengths*: the least of each."""
    found: dict[str, int] = {}
    for name, shape in array_shapes(knl).items():
        for extent, length in zip(shape, lengths.get(name, ()), strict=False):
            size, constant = (extent is not None and parameter_plus_constant(extent)) or ("", 0)
            if size in knl.value_params and length is not None:
                found[size] = min(length - constant, found.get(size, length - constant))
    return found


def _shapes(knl: LoopKernel, ref: Reference, sizes: Mapping[str, int]) -> dict[str, Lengths]:
    """The extents that both kernels need."""
    shapes = {name: _evaluated(shape, sizes, name) for name, shape in array_shapes(knl).items()
              if name in knl.array_args}
    if isinstance(ref, LoopKernel):
        needed = array_shapes(ref)
        known = {**_sizes_solved(ref, shapes), **sizes}
        for name in [x for x in shapes if x in needed and x in ref.array_args]:
            own, other = shapes[name], _evaluated(needed[name], known, name)
            if len(own) == len(other):
                shapes[name] = tuple(None if a is None and b is None else max(a or 0, b or 0)
                                     for a, b in zip(own, other, strict=True))
    return shapes


def _evaluated(shape: tuple[Any, ...], sizes: Mapping[str, int], array: str) -> Lengths:
    missing = sorted(frozenset().union(*(variables(e) for e in shape if e is not None)) - sizes.keys())
    if missing:
        raise CallError(f"the shape of '{array}' depends on '{missing[0]}', which has no value.", argument=missing[0],
                        hint=f"add '{missing[0]}' to parameters")
    return tuple(None if e is None else max(evaluate(e, sizes), 0) for e in shape)


# The runs

def _available(knl: LoopKernel, case: _Case, reads: Collection[str], given: Mapping[str, Any]) -> list[str]:
    """The arguments that a reference function can have: those with a value before the call."""
    own = [a.name for a in knl.arguments if (a.name in reads or a.name not in knl.written_names)
           and (a.name in case.shapes or a.name in given or a.name not in knl.array_args)]
    return [*own, *(name for name in given if name not in knl.argument_by_name)]


@dataclass(frozen=True)
class _Pair:
    """The kernel *knl*, compiled as *own*, and its reference *right*.

    :ivar reads: the arrays that the kernel reads before it writes them.
    :ivar tiles: the lengths of tiles along the axes of each array.
    :ivar note: lines about the reference, for the error.
    """

    knl: LoopKernel
    own: CompiledKernel
    right: CompiledKernel | ReferenceCall
    reads: Collection[str]
    tiles: Mapping[str, Sequence[Collection[int]]]
    seed: int
    note: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """The reference in words."""
        return f"kernel '{self.right.kernel.name}'" if isinstance(self.right, CompiledKernel) else self.right.shown

    def by_python(self) -> Iterator[_Pair]:
        """The pair with the kernel by Python references as its reference, if the texts of functions have references."""
        changed, functions = with_references(self.knl)
        if functions:
            names = ", ".join(map(repr, functions))
            yield replace(self, right=compiled.compile(changed, "c"), note=(
                f"the reference is the kernel with the Python references of {names} in place of the texts",))

    def run(self, case: _Case, parameters: Mapping[str, Any], kind: str) -> EquivalenceRun:
        """:raises EquivalenceError: the outputs differ."""
        given, random = {**case.sizes, **parameters}, np.random.default_rng(self.seed)
        with bounded(f"making data for kernel '{self.knl.name}'"):
            data = sample_data(self.knl, case.shapes, given, kind, random)
        shown = {name: size for name, size in case.sizes.items() if name in self.knl.value_params}
        written = self.knl.written_names & self.knl.array_args.keys()
        context = [f"with {run_text(shown, kind)}, seed {self.seed}", *self.note]
        # zeros and infinities make NaN on purpose
        with np.errstate(all=None if kind == "random" else "ignore"):
            if isinstance(self.right, CompiledKernel):
                # both start from the same contents, so that an element written by only one of them is found
                got = self._got(data, written)
                expected: Mapping[str, NumpyArray] = self.right(
                    **_arguments(self.right.kernel, data, written)).asdict()
            else:
                got = self._got({k: v for k, v in data.items() if k in self.reads or k not in written}, written)
                expected = named_results(self.right(data, shown), got, self.knl)
                context += [] if self.right.by_name else [f"the reference was called as {self.right.shown}"]
            given_before = data if isinstance(self.right, CompiledKernel) else {}
            found = tuple(
                compared(part, own, other, case.bound, self.tiles.get(name, ()), context, before) for name in got
                for part, own, other, before in parts(name, got[name], np.asarray(expected[name]),
                                                      given_before.get(name)))
        return EquivalenceRun(shown, kind, found, case.bound.length)

    def _got(self, data: Mapping[str, Any], written: Collection[str]) -> dict[str, NumpyArray]:
        """The outputs of the kernel for copies of *data*."""
        found = self.own(**_arguments(self.knl, data, written)).asdict()
        return {name: np.asarray(value) for name, value in found.items()}


def _arguments(knl: LoopKernel, given: Mapping[str, Any], written: Collection[str]) -> dict[str, Any]:
    """The arguments of *knl* among *given*, copied if *written*; a size that one of the kernels has fixed is none."""
    def copied(x: Any) -> Any:
        return laid_out(x) if isinstance(x, np.ndarray) else x.copy()
    return {k: copied(v) if k in written else v for k, v in given.items() if k in knl.argument_by_name}
