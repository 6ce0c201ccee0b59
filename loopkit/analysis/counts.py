"""Counts of operations, memory accesses and synchronization: the keys, and mappings from keys to numbers."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import MisspelledNameWarning, PreconditionError, require_known
from loopkit.expr.kinds import DTYPES, dtype_of
from loopkit.poly.affine import add
from loopkit.poly.quasi_polynomials import PiecewiseQuasiPolynomial, whole
from loopkit.shown import Declared, Shown


class CountGranularity(StrEnum):
    """The unit that makes an operation or an access once: a thread, a warp (a sub-group), or a block (a work-group).

    >>> lk.CountGranularity.SUBGROUP == "subgroup"
    True
    """

    WORKITEM = "workitem"
    SUBGROUP = "subgroup"
    WORKGROUP = "workgroup"


class _CountKey(Declared):
    """Base of the keys: a frozen dataclass in which ``None`` differs from float64. (numpy takes ``None`` for it.)"""

    __slots__ = ()

    def _identity(self) -> tuple[object, ...]:
        own: tuple[Any, ...] = fields(self)  # type: ignore[arg-type]  # a dataclass
        return tuple(_comparable_field(getattr(self, f.name)) for f in own)

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, _CountKey) and type(other) is type(self) \
            else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    @property
    def headline(self) -> str:
        """The arguments of the call."""
        own: tuple[Any, ...] = fields(self)  # type: ignore[arg-type]  # a dataclass
        values = ((f.name, getattr(self, f.name)) for f in own)
        return ", ".join(f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
                         for name, value in values if value is not None)


def _comparable_field(value: object) -> object:
    return value.name if isinstance(value, np.dtype) else tuple(value.items()) if isinstance(value, Mapping) else value


@dataclass(frozen=True, repr=False, eq=False)
class Op(_CountKey):
    """A kind of arithmetic operation. A field that is ``None`` does not distinguish kinds.

    >>> lk.Op(np.float32, "mul", lk.CountGranularity.SUBGROUP)
    Op(dtype=float32, name='mul', count_granularity='subgroup')

    :ivar dtype: the dtype of the result.
    :ivar name: ``add`` (subtractions too), ``mul``, ``div`` (remainders too), ``pow``, ``shift``, ``bw`` (of bits),
        ``maxmin``, or ``func:exp`` for the function ``exp``.
    """

    dtype: npt.DTypeLike | None = None
    name: str | None = None
    count_granularity: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, repr=False, eq=False)
class MemAccess(_CountKey):
    """A kind of memory access. A field that is ``None`` does not distinguish kinds.

    >>> lk.MemAccess("global", np.float32, direction="load", variable="a")
    MemAccess(mtype='global', dtype=float32, direction='load', variable='a')

    :ivar mtype: ``"global"`` or ``"local"`` (shared memory).
    :ivar lid_strides: by the number of each axis of threads on which the address depends, the distance in elements
        from one thread to the next; ``None`` if it is not constant.
    :ivar gid_strides: likewise for axes of blocks.
    :ivar direction: ``"load"`` or ``"store"``.
    """

    mtype: str | None = None
    dtype: npt.DTypeLike | None = None
    lid_strides: Mapping[int, Expression | None] | None = None
    gid_strides: Mapping[int, Expression | None] | None = None
    direction: str | None = None
    variable: str | None = None
    count_granularity: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        _read_fields(self)


@dataclass(frozen=True, repr=False, eq=False)
class Synchronization(_CountKey):
    """A kind of synchronization.

    :ivar kind: ``"kernel_launch"``, ``"barrier_cluster"``, ``"barrier_local"`` (of a block) or
        ``"barrier_warp"``.
    """

    kind: str | None = None
    kernel_name: str | None = None


Key = Op | MemAccess | Synchronization


def _read_fields(key: Op | MemAccess) -> None:
    """Check the fields of *key*, and give equal ones equal forms.

    :raises PreconditionError: there is no such dtype, or no such granularity.
    """
    what = type(key).__name__
    if key.dtype is not None:
        object.__setattr__(key, "dtype", _read_dtype(key.dtype, what))
    if key.count_granularity is not None:
        if key.count_granularity not in [*CountGranularity]:
            raise PreconditionError(
                f"{what}: count_granularity= cannot be {key.count_granularity!r}.", subject=str(key.count_granularity),
                hint=f"it is one of {', '.join(map(repr, map(str, CountGranularity)))}")
        object.__setattr__(key, "count_granularity", str(key.count_granularity))
    for name in ("lid_strides", "gid_strides") if isinstance(key, MemAccess) else ():
        given: Mapping[int, Expression | None] | None = getattr(key, name)
        if given is not None:
            object.__setattr__(key, name, {axis: _sorted_stride(given[axis]) for axis in sorted(given)})


def _read_dtype(given: npt.DTypeLike, what: str) -> np.dtype[Any]:
    dtype = dtype_of(given)
    if dtype is None:
        raise PreconditionError(f"{what}: {given!r} is not a dtype.", subject=str(given), hint=DTYPES)
    return dtype


def _sorted_stride(stride: Expression | None) -> Expression | None:
    """*stride* with its terms and factors in one order, so that ``m*16`` equals ``16*m``."""
    if stride is None:
        return None
    terms = []
    for term in stride.children if isinstance(stride, p.Sum) else (stride,):
        number, factors = 1, []
        stack = [term]
        while stack:
            part = stack.pop()
            if isinstance(part, p.Product):
                stack += part.children
            elif isinstance(part, int | np.integer):
                number *= int(part)
            else:
                factors.append(part)
        product: tuple[Any, ...] = (*([number] if number != 1 or not factors else []), *sorted(factors, key=str))
        terms.append(product[0] if len(product) == 1 else p.Product(product))
    return add(*sorted(terms, key=str))


@dataclass(frozen=True, eq=False, repr=False)
class ToCountMap(Mapping[Key, PiecewiseQuasiPolynomial], Shown):
    """Numbers by the kinds of what is counted: a mapping from keys to quasi-polynomials in the sizes.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] + z[i]", assumptions="n>=1")
    >>> accesses = lk.get_mem_access_map(lk.add_dtypes(knl, {"x,z": np.float32}))
    >>> print(accesses.group_by("direction"))
    MemAccess(direction='load'): 2*n
    MemAccess(direction='store'): n
    >>> accesses.filter_by(direction="load", variable=["z"]).to_bytes().eval_and_sum({"n": 100})
    400

    :ivar counts: the number of each kind.
    """

    counts: Mapping[Key, PiecewiseQuasiPolynomial]

    @classmethod
    def of(cls, items: Iterable[tuple[Key, PiecewiseQuasiPolynomial]]) -> ToCountMap:
        """The mapping of *items*, with the numbers of equal keys added."""
        counts: dict[Key, PiecewiseQuasiPolynomial] = {}
        for key, number in items:
            counts[key] = counts[key] + number if key in counts else number
        return cls(counts)

    def __getitem__(self, key: Key) -> PiecewiseQuasiPolynomial:
        return self.counts[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def __add__(self, other: ToCountMap) -> ToCountMap:
        return ToCountMap.of([*self.items(), *other.items()])

    def __str__(self) -> str:
        return "\n".join(sorted(f"{key!r}: {number}" for key, number in self.items())) or "nothing"

    def filter_by(self, **kwargs: object) -> ToCountMap:
        """The numbers of those keys whose fields have the given values: ``filter_by(direction="load", dtype=[...])``.

        :arg kwargs: for each field a value, or several of which any may be the key's. Keys without the field are left
            out; if no key has it, a :class:`MisspelledNameWarning` names it.
        """
        wanted = {name: _allowed_field_values(name, value) for name, value in kwargs.items()}
        known = {f.name for key in self for f in fields(key)}
        for name in wanted.keys() - known if self.counts else ():
            warnings.warn(MisspelledNameWarning(f"filter_by: no key has the field '{name}'; the fields are "
                                                f"{', '.join(sorted(known))}."), stacklevel=2)
        return self.filter_by_func(lambda key: all(
            hasattr(key, name) and _comparable_field(getattr(key, name)) in values for name, values in wanted.items()))

    def filter_by_func(self, func: Callable[[Key], bool]) -> ToCountMap:
        """The numbers of those keys for which *func* is true."""
        return ToCountMap({key: number for key, number in self.items() if func(key)})

    def group_by(self, *args: str) -> ToCountMap:
        """The numbers added over all fields of the keys but those named: ``group_by("mtype", "direction")``.

        :raises UnknownNameError: a key does not have such a field.
        """
        return ToCountMap.of((self._key_with(key, args), number) for key, number in self.items())

    def _key_with(self, key: Key, names: Collection[str]) -> Key:
        own = [f.name for f in fields(key)]
        require_known("field", names, own, where=type(key).__name__)
        return type(key)(**{name: getattr(key, name) for name in names})

    def with_set_attributes(self, **kwargs: object) -> ToCountMap:
        """The numbers by keys with these values of fields; those of keys that become equal are added.

        :raises UnknownNameError: a key does not have such a field.
        """
        for key in self:
            require_known("field", kwargs, [f.name for f in fields(key)], where=type(key).__name__)
        return ToCountMap.of((replace(key, **kwargs), number) for key, number in self.items())  # type: ignore[arg-type]

    def to_bytes(self) -> ToCountMap:
        """The numbers of bytes: each number times the bytes of its key's dtype.

        :raises PreconditionError: a key has no dtype.
        """
        return ToCountMap({key: _bytes_of(key)*number for key, number in self.items()})

    def sum(self) -> PiecewiseQuasiPolynomial:
        """The sum of all numbers."""
        return sum(self.values(), whole(0))

    def eval_and_sum(self, params: Mapping[str, int] | None = None) -> int:
        """The sum of all numbers for these sizes.

        :raises CallError: a size is missing, or the kernel's assumptions exclude the sizes.
        """
        return self.sum().eval_with_dict(params or {})


def _allowed_field_values(name: str, value: object) -> Collection[object]:
    """The values of a field that *value* allows."""
    several = [value] if value is None or isinstance(value, str | Mapping | type | np.dtype) \
        or not isinstance(value, Iterable) else list(value)
    if name == "dtype":
        several = [one if one is None else _read_dtype(one, "filter_by") for one in several]  # type: ignore[arg-type]
    return [*map(_comparable_field, several)]


def _bytes_of(key: Key) -> int:
    dtype = None if isinstance(key, Synchronization) else key.dtype
    if dtype is None:
        raise PreconditionError(f"{key!r} has no dtype, so that its bytes are unknown.", subject=repr(key),
                                hint="group_by('dtype', ...) keeps the dtype")
    return np.dtype(dtype).itemsize
