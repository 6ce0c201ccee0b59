"""The data of :func:`loopkit.check_equivalent`: random, or of a kind that finds special faults."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from loopkit.analysis.data_constraints import divisors, index_names
from loopkit.errors import CallError, PreconditionError, UnknownNameError
from loopkit.expr.kinds import epsilon, is_tuple, kind_of, largest_real, smallest_normal
from loopkit.expr.tuples import field_dtypes
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.arguments import ArrayPlan
from loopkit.runtime.views import NumpyArray, laid_out

#: A number of primes that is a prime itself, so that no tile length is a period of the data; all fit into an int8.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103,
          107, 109, 113, 127)

#: Most elements of an array that are NaN or infinite: with more of them, every sum would be.
_FEW = 3

Shape = tuple[int, ...]
Random = np.random.Generator


def random_array(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    """Random data: of moderate magnitude and without zeros."""
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape), dtype)
    data = random.integers(1, 8, shape) if dtype.kind in "iu" else random.uniform(0.5, 1.5, shape)
    if dtype.kind == "i":
        data = data * random.choice([-1, 1], shape)
    if dtype.kind == "c":
        data = data + 1j * random.uniform(0.5, 1.5, shape)
    return np.asarray(data, dtype)


def _all_zeros(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    return np.zeros(shape, dtype)


def _all_ones(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    return np.ones(shape, dtype)


def _primes(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    if dtype.kind == "b":
        return random_array(shape, dtype, random)
    start, count = int(random.integers(len(PRIMES))), int(np.prod(shape, dtype=np.int64))
    return np.resize(np.roll(PRIMES, start), count).reshape(shape).astype(dtype)


def _nan(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    return _with_few(shape, dtype, random, [np.nan])


def _infinities(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    return _with_few(shape, dtype, random, [np.inf, -np.inf])


def _with_few(shape: Shape, dtype: np.dtype[Any], random: Random, values: Sequence[float]) -> NumpyArray:
    """Random data with *values* at a few places of an array; scalars would decide every element of the result."""
    data = random_array(shape, dtype, random)
    if kind_of(dtype) in "fc" and shape and data.size:
        places = random.choice(data.size, min(_FEW, data.size), replace=False)
        data.ravel()[places] = np.asarray([values[k % len(values)] for k in range(len(places))]).astype(dtype)
    return data


def _denormals(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    if kind_of(dtype) not in "fc":
        return random_array(shape, dtype, random)
    smallest = smallest_normal(dtype)*epsilon(dtype)
    return np.asarray(smallest*random.integers(1, round(1/epsilon(dtype)), shape)).astype(dtype)


def _large(shape: Shape, dtype: np.dtype[Any], random: Random) -> NumpyArray:
    if dtype.kind == "b":
        return random_array(shape, dtype, random)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return np.asarray(random_array(shape, np.dtype(np.float64), random)*sqrt(largest_real(dtype))/16).astype(dtype)


#: The kinds of data by name.
KINDS: Mapping[str, Callable[[Shape, np.dtype[Any], Random], NumpyArray]] = {
    "random": random_array, "zeros": _all_zeros, "ones": _all_ones, "primes": _primes, "nan": _nan,
    "infinities": _infinities, "denormals": _denormals, "large": _large}

#: Integers that divide are never of these kinds: C has no quotient by 0, and none of the least integer by -1.
_NO_DIVISORS = ("zeros", "large")


def kinds_of_data(data: str | Sequence[str]) -> tuple[str, ...]:
    """The kinds that *data* names; ``"adversarial"`` names all.

    :raises UnknownNameError: there is no such kind.
    :raises PreconditionError: *data* names none.
    """
    names = (data,) if isinstance(data, str) else tuple(dict.fromkeys(data))
    if not names:
        raise PreconditionError("check_equivalent: data= names at least one kind of data.", subject="data",
                                hint=f"the kinds are {', '.join(KINDS)}")
    for name in names:
        if name not in (*KINDS, "adversarial"):
            raise UnknownNameError("kind of data", name, (*KINDS, "adversarial"), where="check_equivalent",
                                   hint=f"the kinds are {', '.join(KINDS)}, and adversarial for all of them")
    return tuple(dict.fromkeys(kind for name in names for kind in (KINDS if name == "adversarial" else (name,))))


def sample_data(knl: LoopKernel, shapes: Mapping[str, tuple[int | None, ...]], parameters: Mapping[str, Any],
                kind: str, random: Random) -> dict[str, Any]:
    """A value for every argument: as given, else of this *kind*.

    :raises CallError: an array cannot have values of our choice.
    """
    data = dict(parameters)
    subscripting = index_names(knl)
    integer_divisors = divisors(knl)
    for arg in knl.arguments:
        name, dtype = arg.name, np.dtype(arg.dtype)
        if name in data:
            continue
        divides = name in integer_divisors and dtype.kind in "iuV"
        make = random_array if kind in _NO_DIVISORS and divides else KINDS[kind]
        if isinstance(arg, ValueArg):
            # the call may solve for an integer, or reports it missing
            if arg.dtype is not None and kind_of(dtype) in "bfc":
                data[name] = make((), dtype, random)[()]
        elif name in shapes:                           # an array without accesses need not be passed
            extents = tuple(e for e in shapes[name] if e is not None)
            if name in subscripting or len(extents) < len(shapes[name]):
                why = "subscripts or bounds are read from it" if name in subscripting else "its shape depends on data"
                raise CallError(f"'{name}' cannot be random: {why}.", argument=name, hint=f"add '{name}' to parameters")
            data[name] = make(extents, dtype, random) if not is_tuple(dtype) else _tuples(make, extents, dtype, random)
            if arg.order is not None or arg.strides is not None:
                wanted = ArrayPlan.of(arg, extents, read=True, written=False, like=None).declared(extents, parameters)
                data[name] = laid_out(data[name], _complete(wanted, extents))
    return data


def _complete(strides: Sequence[int | None], shape: Shape) -> list[int]:
    """*strides* with known ones in the place of ``None``: without gaps after the next axis."""
    found: list[int] = []
    for axis in reversed(range(len(shape))):
        known = strides[axis]
        found.insert(0, known if known is not None else found[0]*max(shape[axis + 1], 1) if found else 1)
    return found


def _tuples(make: Callable[[Shape, np.dtype[Any], Random], NumpyArray], shape: Shape, dtype: np.dtype[Any],
            random: Random) -> NumpyArray:
    """An array of tuples, with each field as *make* fills an array."""
    data = np.zeros(shape, dtype)
    for field, own in field_dtypes(dtype).items():
        data[field] = make(shape, own, random)
    return data
