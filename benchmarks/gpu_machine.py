"""Where things run: a GPU through torch, or the host with numpy, which takes the GPU's place in a dry run."""
from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

Run = Callable[[], Any]

#: Cycles of a GPU in which the host surely starts one launch.
CYCLES_A_LAUNCH = 60_000
MOST_CYCLES = 40_000_000


class Machine(Protocol):
    """Arrays, a clock and comparisons.

    :ivar xp: numpy, or torch where it agrees with numpy.
    :ivar target: of loopkit.
    :ivar cache: bytes that a run may find in a cache from the run before.
    :ivar peak: operations of float32 a second, if known.
    """

    name: str
    xp: Any
    target: str
    cache: int
    peak: float | None

    def random(self, shape: Sequence[int], dtype: str, low: float = -1.0) -> Any:
        """Random numbers between *low* and 1."""

    def normal(self, shape: Sequence[int], dtype: str, deviation: float = 1.0) -> Any:
        """Normally distributed random numbers around 0."""

    def integers(self, values: np.ndarray, dtype: str = "int32") -> Any:
        """An array of integers with these *values*."""

    def nothing(self, shape: Sequence[int], dtype: str) -> Any:
        """An array of NaN, or of -1."""

    def poison(self, array: Any) -> None:
        """Fill *array* with NaN, or with -1."""

    def own(self, array: Any) -> Any:
        """*array*, of whatever library, as one of this machine's."""

    def copied(self, array: Any) -> Any:
        """Another array of the same numbers."""

    def wide(self, array: Any) -> Any:
        """*array* in float64; integers stay."""

    def narrow(self, array: Any, dtype: str) -> Any:
        """*array* in *dtype*."""

    def error(self, found: Any, expected: Any) -> float:
        """The norm of the difference over that of *expected*; NaN if there is one in *found*."""

    def copy(self, source: Any, target: Any) -> None:
        """The copy whose rate is measured."""

    def wait(self) -> None:
        """Return when everything is done."""

    def sample(self, runs: Sequence[Run], launches: int) -> float:
        """Seconds of one of *launches* runs in a row, which take turns among *runs*."""

    def sustained(self, runs: Sequence[Run], launches: int, first: int, samples: int) -> list[float]:
        """Seconds of a run in *samples* samples without a pause between them, after *first* other runs."""

    def forget(self) -> None:
        """Give back the memory of arrays that are gone."""


def _host_dtype(name: str) -> np.dtype[Any]:
    """Also of ml_dtypes, if that is installed."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


class Host:
    """The host, in place of a GPU."""

    name = "dry run on the host"
    xp = np
    target = "c"
    cache = 0
    peak = None

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def random(self, shape: Sequence[int], dtype: str, low: float = -1.0) -> Any:
        return self._rng.uniform(low, 1, shape).astype(dtype)

    def normal(self, shape: Sequence[int], dtype: str, deviation: float = 1.0) -> Any:
        return self._rng.normal(0, deviation, shape).astype(_host_dtype(dtype))

    def integers(self, values: np.ndarray, dtype: str = "int32") -> Any:
        return values.astype(dtype)

    def nothing(self, shape: Sequence[int], dtype: str) -> Any:
        return np.full(shape, -1 if "int" in dtype else np.nan, _host_dtype(dtype))

    def poison(self, array: Any) -> None:
        array.fill(-1 if array.dtype.kind in "iu" else np.nan)

    def own(self, array: Any) -> Any:
        return np.asarray(array)

    def copied(self, array: Any) -> Any:
        return array.copy()

    def wide(self, array: Any) -> Any:
        return array if array.dtype.kind in "iu" else array.astype(np.float64)

    def narrow(self, array: Any, dtype: str) -> Any:
        return array.astype(_host_dtype(dtype))

    def error(self, found: Any, expected: Any) -> float:
        found = found.astype(np.float64)
        return float(np.linalg.norm((found - expected).ravel())/max(np.linalg.norm(expected.ravel()), 1e-300))

    def copy(self, source: Any, target: Any) -> None:
        np.copyto(target, source)

    def wait(self) -> None:
        pass

    def sample(self, runs: Sequence[Run], launches: int) -> float:
        start = time.perf_counter()
        for k in range(launches):
            runs[k % len(runs)]()
        return (time.perf_counter() - start)/launches

    def sustained(self, runs: Sequence[Run], launches: int, first: int, samples: int) -> list[float]:
        return [self.sample(runs, launches) for _ in range(samples)]

    def forget(self) -> None:
        pass


def _highest_clock() -> float | None:
    """Of the first GPU, in Hz, as the driver's tool says it."""
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return float(subprocess.run(query, check=True, text=True, capture_output=True).stdout)*1e6
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


class Gpu:
    """The first GPU, by torch, whose stream all libraries here launch on."""

    target = "cuda"

    def __init__(self, seed: int) -> None:
        import torch
        self.xp = torch
        torch.manual_seed(seed)
        torch.set_float32_matmul_precision("highest")
        torch.cuda.init()
        properties = torch.cuda.get_device_properties(0)
        self.name = torch.cuda.get_device_name(0)
        self.cache = int(getattr(properties, "L2_cache_size", 0)) or 64 << 20
        # four parts of 32 multiplications with an addition each
        rate = _highest_clock()
        self.peak = properties.multi_processor_count*128*2*rate if rate else None

    def random(self, shape: Sequence[int], dtype: str, low: float = -1.0) -> Any:
        return self.xp.empty(tuple(shape), dtype=getattr(self.xp, dtype), device="cuda").uniform_(low, 1)

    def normal(self, shape: Sequence[int], dtype: str, deviation: float = 1.0) -> Any:
        wanted = getattr(self.xp, dtype)
        drawn = wanted if wanted.itemsize > 1 else self.xp.float16
        return self.xp.empty(tuple(shape), dtype=drawn, device="cuda").normal_(0, deviation).to(wanted)

    def integers(self, values: np.ndarray, dtype: str = "int32") -> Any:
        return self.xp.from_numpy(values.astype(dtype)).cuda()

    def nothing(self, shape: Sequence[int], dtype: str) -> Any:
        return self.xp.full(tuple(shape), -1 if "int" in dtype else float("nan"), dtype=getattr(self.xp, dtype),
                            device="cuda")

    def poison(self, array: Any) -> None:
        array.fill_(float("nan") if array.is_floating_point() else -1)

    def own(self, array: Any) -> Any:
        return self.xp.as_tensor(array, device="cuda")

    def copied(self, array: Any) -> Any:
        return array.clone()

    def wide(self, array: Any) -> Any:
        if not array.is_floating_point():
            return array
        return array.double() if array.element_size() > 1 else array.float().double()

    def narrow(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self.xp, dtype))

    def error(self, found: Any, expected: Any) -> float:
        # piece by piece: the whole in float64 may be larger than what is left of the memory
        above = below = 0.0
        for a, b in zip(found.reshape(-1).split(1 << 27), expected.reshape(-1).split(1 << 27), strict=True):
            above += float((a.double() - b).square().sum())
            below += float(b.double().square().sum())
        return (above/max(below, 1e-300))**0.5

    def copy(self, source: Any, target: Any) -> None:
        target.copy_(source)

    def wait(self) -> None:
        self.xp.cuda.synchronize()

    def sample(self, runs: Sequence[Run], launches: int) -> float:
        cuda = self.xp.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        # the GPU sleeps while the host gets ahead, so that what is timed is never the host's pace
        cuda._sleep(min(CYCLES_A_LAUNCH*(launches + 2), MOST_CYCLES))  # noqa: SLF001
        start.record()
        for k in range(launches):
            runs[k % len(runs)]()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))*1e-3/launches

    def sustained(self, runs: Sequence[Run], launches: int, first: int, samples: int) -> list[float]:
        events = [self.xp.cuda.Event(enable_timing=True) for _ in range(samples + 1)]
        self.xp.cuda.synchronize()
        for k in range(first):
            runs[k % len(runs)]()
        events[0].record()
        for event in events[1:]:
            for k in range(launches):
                runs[k % len(runs)]()
            event.record()
        events[-1].synchronize()
        return [float(a.elapsed_time(b))*1e-3/launches for a, b in pairwise(events)]

    def forget(self) -> None:
        self.xp.cuda.empty_cache()
