"""The results of kernel calls: the outputs, a tuple with names, and the measured time."""
from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, ClassVar, Self

from loopkit.errors import CallError
from loopkit.shown import Shown


class Outputs(tuple[Any, ...], Shown):
    """The written arguments of a call, in argument order, by position, by name and as attributes.

    >>> out = Outputs(("x", "count"), (1, 2))
    >>> x, count = out
    >>> out.x, out.count, out["count"], out[0]
    (1, 2, 2, 1)
    >>> out
    Outputs(x=1, count=2)
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, fields: Iterable[str], values: Iterable[Any]) -> Self:
        return tuple.__new__(_outputs_named(tuple(fields)), values)      # type: ignore[return-value]

    @staticmethod
    def maker(fields: tuple[str, ...]) -> Callable[[Iterable[Any]], Outputs]:
        """The constructor for given *fields*, for callers where a fraction of a microsecond matters."""
        return partial(tuple.__new__, _outputs_named(fields))

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            return self[name]
        raise AttributeError(f"no output is called '{name}'; there is {', '.join(self._fields) or 'none'}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key not in self._fields:
            raise KeyError(f"no output is called '{key}'; there is {', '.join(self._fields) or 'none'}")
        return tuple.__getitem__(self, self._fields.index(key) if isinstance(key, str) else key)

    def asdict(self) -> Mapping[str, Any]:
        """The outputs by name."""
        return dict(zip(self._fields, self, strict=True))

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return f"Outputs({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self, strict=True))})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Outputs], tuple[tuple[str, ...], tuple[Any, ...]]]:
        return Outputs, (self._fields, tuple(self))


@lru_cache(maxsize=1024)
def _outputs_named(fields: tuple[str, ...]) -> type[Outputs]:
    """The type of outputs with these names: the class holds the names, so a call only makes a tuple."""
    # a tuple's own methods give way to outputs of their names, as in a named tuple
    own = {name: property(itemgetter(i)) for i, name in enumerate(fields) if name in ("count", "index")}
    return type("Outputs", (Outputs,), {"__slots__": (), "_fields": fields, **own})


# Timing

#: Size of rotated arguments, in caches: a set is evicted before its next use.
_CACHES = 3
_MOST_SETS = 4096


@dataclass(frozen=True)
class TimingRequest:
    """The options of :meth:`CompiledKernel.time`."""

    duration: float = 0.2
    warmup: int = 3
    rotate: bool = False
    bytes: float | None = None
    flops: float | None = None
    #: Least number of runs, however long one takes, and largest number.
    fewest: ClassVar[int] = 5
    most: ClassVar[int] = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.duration < float("inf") or self.warmup < 0:
            raise CallError("duration= and warmup= must be finite and not negative.", argument="",
                            hint="time(duration=0.2, warmup=3, ...)")

    def number_of_sets(self, size: int, cache: int) -> int:
        """The number of copies of arguments of *size* bytes to rotate among, so that they exceed *cache* bytes.

        :raises CallError: the arguments are so small that it would take too many copies.
        """
        if not self.rotate:
            return 1
        number = max(-(-_CACHES * cache // max(size, 1)), 2)
        if number > _MOST_SETS:
            raise CallError(f"arguments of {size} bytes are too small to be rotated past a cache of {cache} bytes: it "
                            f"would take {number} copies.", argument="",
                            hint=f"time larger arrays, of {-(-_CACHES * cache // _MOST_SETS)} bytes together or more")
        return number


@dataclass(frozen=True, repr=False)
class Timing(Shown):
    """The measured time of calls.

    :ivar seconds: the median.
    :ivar spread: half the distance between the quartiles, in seconds.
    :ivar bytes: bytes moved by one call, as given by the caller; *flops*: its floating-point operations.
    """

    seconds: float
    spread: float
    runs: int
    bytes: float | None = None
    flops: float | None = None

    @classmethod
    def of(cls, times: Sequence[float], request: TimingRequest) -> Timing:
        """The median and the spread of *times*, in seconds."""
        low, median, high = statistics.quantiles(times, n=4)
        return cls(median, (high - low) / 2, len(times), request.bytes, request.flops)

    @property
    def gigabytes_per_second(self) -> float | None:
        """``bytes`` over the median, in 1e9 bytes per second; ``None`` if ``bytes`` was not given."""
        return None if self.bytes is None or self.seconds <= 0 else self.bytes / self.seconds / 1e9

    @property
    def teraflops(self) -> float | None:
        """``flops`` over the median, in 1e12 operations per second; ``None`` if ``flops`` was not given."""
        return None if self.flops is None or self.seconds <= 0 else self.flops / self.seconds / 1e12

    def __str__(self) -> str:
        scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms"), (1e6, "us"))
                            if self.seconds * s >= 1), (1e6, "us"))
        parts = [f"{self.seconds * scale:.3g} {unit} +- {self.spread * scale:.2g} {unit} ({self.runs} runs)"]
        if self.gigabytes_per_second is not None:
            parts.append(f"{self.gigabytes_per_second:.4g} GB/s")
        if self.teraflops is not None:
            parts.append(f"{self.teraflops:.4g} TFLOP/s")
        return ", ".join(parts)
