"""The launches of the calls of one signature on a GPU.

Everything that follows from dtypes, shapes, strides and sizes is computed once. Each call only checks the alignment of
addresses and the overlap of written arrays, chooses the stream, and launches.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from loopkit.errors import LaunchError
from loopkit.runtime.calls import BoundCall, CheckedCall, Run
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import ANOTHER_CONTEXT, SUCCESS, DriverError
from loopkit.runtime.cuda.kinds import OwnKind
from loopkit.runtime.cuda.launching import (
    GpuLaunch,
    HostedLaunches,
    Launches,
    aside,
    launch_error,
    reported,
)
from loopkit.runtime.cuda.memory import staging_of
from loopkit.runtime.functions import describe
from loopkit.runtime.kinds import Kind, host_view
from loopkit.runtime.results import Outputs
from loopkit.runtime.scalars import Scalar
from loopkit.runtime.views import NumpyArray

#: Kinds whose arrays are always in primary contexts, and whose libraries make these current themselves.
WITH_CONTEXTS = ("torch", "cupy")


@dataclass(frozen=True)
class Scratch:
    """The temporaries in global memory of a call.

    :ivar sizes: their bytes by name; the first *cleared* ones are contiguous.
    :ivar kind: the kind of array that their memory is.
    """

    sizes: Mapping[str, int]
    cleared: int
    kind: Kind

    def memory(self, kind: Kind, ordinal: int) -> tuple[list[Any], list[int]]:
        """New memory on the GPU *ordinal*, in arrays of *kind*, and the address of each temporary."""
        counts = [*self.sizes.values()]
        cleared, blocks = counts[:self.cleared], counts[self.cleared:]
        if cleared:
            blocks.insert(0, sum(map(aside, cleared)))
        arrays = [kind.new((count,), np.dtype(np.uint8), ordinal, zero=False) for count in blocks]
        addresses = [*map(kind.address, arrays)]
        if cleared:
            addresses[:1] = accumulate(map(aside, cleared[:-1]), initial=addresses[0])
        return arrays, addresses


@dataclass(frozen=True)
class Streams:
    """The streams of a call.

    :ivar libraries: functions that give the stream of each library whose arrays take part.
    :ivar wait: the call returns when the GPU has finished, because nothing else orders later operations.
    """

    libraries: tuple[Callable[[], int], ...]
    chosen: int | None
    wait: bool

    @property
    def only(self) -> Callable[[], int] | None:
        """A function that gives the stream, if there is one and nothing waits for it."""
        if self.wait:
            return None
        if self.chosen is not None:
            return partial(int, self.chosen)
        return self.libraries[0] if len(self.libraries) == 1 else None

    def now(self, default: int, *, allocates: bool) -> tuple[int, list[int]]:
        """The stream to launch on, *default* if no library has one, and the others that must be ordered with it.

        :arg allocates: libraries allocate memory for the call.
        """
        handles = list(dict.fromkeys(f() for f in self.libraries))
        if self.chosen is not None:
            # the caller orders the arguments; a library clears and frees the call's outputs on its own stream
            return self.chosen, [h for h in handles if h != self.chosen and (allocates or self.wait)]
        return (handles[0], handles[1:]) if handles else (default, [])


@dataclass(frozen=True)
class CudaPlan:
    """The launches of the calls of one signature.

    A call's operands are the addresses of its inputs, of its allocated outputs and of temporaries, then its scalars.

    :ivar vectors: indices of the inputs that vector accesses need aligned, each with the address bits that must be
        zero.
    :ivar plain: gives the plan without vector accesses, from a call's values.
    """

    gpu: Gpu
    checked: CheckedCall
    launches: Launches
    scratch: Scratch
    streams: Streams
    debug: bool
    vectors: tuple[tuple[int, int], ...]
    plain: Callable[[Sequence[Any]], CudaPlan]

    @cached_property
    def run(self) -> Run:
        """The function that runs a call, with everything precomputed."""
        run = self._run_in_general if self._direct is None else self._run_directly(self._direct)
        return self._run_vectors(run) if self.vectors else run

    def _run_vectors(self, own: Run) -> Run:
        """*own* if the addresses are aligned for the vector accesses, else the plan without them."""
        vectors = self.vectors
        other: list[Run] = []

        def run(values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
            for place, mask in vectors:
                if addresses[place] & mask:
                    if not other:
                        other.append(self.plain(values).run)
                    return other[0](values, addresses, originals)
            return own(values, addresses, originals)
        return run

    @cached_property
    def _direct(self) -> Callable[[], int] | None:
        """A function that gives the stream, if a call only launches on it, and the outputs are allocated by libraries
        that make contexts current themselves."""
        outputs = self.checked.outputs
        if self.debug or self._copies or self.scratch.sizes or isinstance(self.launches, HostedLaunches) or (
                outputs and self.streams.chosen is not None) or any(x.kind.name not in WITH_CONTEXTS for x in outputs):
            return None
        return self.streams.only

    @cached_property
    def _copies(self) -> bool:
        """Are arrays in the host's memory?"""
        return any(x.view.on_host for x in self.checked.arrays)

    def _run_directly(self, stream: Callable[[], int]) -> Run:
        check, results, scalars = self.checked.check, self.checked.results, self.checked.scalars
        makers = [(x.new, x.kind.address) for x in self.checked.outputs]
        launches = [(launch.enter, launch) for launch in self.launches]
        known: list[int] = []

        def run(values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
            nonlocal known
            if addresses != known:
                check(addresses)
                known = addresses
            numbers = [convert(values[i]) for _, i, convert in scalars]
            made: list[Any] = []
            if makers:
                made = [make() for make, _ in makers]
                numbers = [*[address(x) for x, (_, address) in zip(made, makers, strict=True)], *numbers]
            operands = addresses + numbers
            handle = stream()
            for enter, launch in launches:
                code = enter(operands, handle)
                if code:
                    self.again(code, launch, operands, handle)
            return results(originals, made)
        return run

    def allocated(self, values: Sequence[Any]) -> Mapping[str, Any]:
        """New outputs, zeroed for any stream of the runs; none if a library only accepts complete arrays."""
        outputs = self.checked.outputs
        if not outputs or any(x.kind.makes_others for x in outputs):
            return {}
        with reported(self.gpu, self.checked.kernel), self.gpu:
            made = {x.name: x.new(zero=True) for x in outputs}
            for stream in self.streams.libraries:
                self.gpu.driver.synchronize(stream())
        return made

    def bound(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> BoundCall:
        """The call with all of its arguments fixed, on the current stream of the arrays' library."""
        if any(addresses[place] & mask for place, mask in self.vectors):
            return self.plain(values).bound(values, addresses, originals)
        self.checked.check(addresses)
        # it needs only the arrays and one stream
        stream = None if self.checked.outputs or self.debug or self._copies else self.streams.only
        if stream is None:
            return BoundCall(lambda: self.run(values, [*addresses], originals), self.launches, ())
        with reported(self.gpu, self.checked.kernel), self.gpu:
            # a library would reuse the memory in the order of its own stream, and runs may be on another one
            scratch, pointers = self.scratch.memory(OwnKind(), self.gpu.ordinal)
        operands = [*addresses, *pointers, *self.checked.numbers(values)]
        outputs = self.checked.results(originals, ())

        def fixed() -> Iterator[tuple[Callable[[int], int], GpuLaunch]]:
            return ((launch.fixed(operands), launch) for launch in self.launches)
        launches = None if isinstance(self.launches, HostedLaunches) else list(fixed())

        def run() -> Outputs:
            handle = stream()
            for enter, launch in fixed() if launches is None else launches:
                code = enter(handle)
                if code:
                    self.again(code, launch, operands, handle)
            return outputs
        return BoundCall(run, self.launches, (values, originals, scratch))

    def again(self, code: int, launch: GpuLaunch, operands: Sequence[Any], stream: int) -> None:
        """Repeat a launch in our own context: it fails if another context, or none, is current in this thread."""
        if code in ANOTHER_CONTEXT:
            with self.gpu:
                code = launch.enter(operands, stream)
        if code != SUCCESS:
            failure = self.gpu.driver.failure(code)
            raise self._error(failure, launch, operands, is_cause=False) from None

    def _error(self, failure: DriverError, launch: GpuLaunch, operands: Sequence[Any], *, is_cause: bool
               ) -> LaunchError:
        checked = self.checked
        found = {**launch.values, **dict(zip(checked.operands, operands, strict=False))}
        lines = list(describe(launch.kernel, {x.name: x.view for x in checked.arrays}, found))
        return launch_error(self.gpu, checked.kernel, launch, failure, lines, is_cause=is_cause)

    def _run_in_general(self, values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
        self.checked.check(addresses)
        scalars = self.checked.numbers(values)
        outputs = self.checked.outputs
        with reported(self.gpu, self.checked.kernel), self.gpu:
            made = [x.new() for x in outputs]
            addresses = [*addresses, *(x.kind.address(a) for x, a in zip(outputs, made, strict=True))]
            if self._copies:
                with self.gpu.lock:
                    self._staged([*(values[x.position] for x in self.checked.inputs), *made], addresses, scalars)
            else:
                self._run(addresses, scalars, 0, wait=self.streams.wait)
            return self.checked.results(originals, [x.kind.exported(a) for x, a in zip(outputs, made, strict=True)])

    def _staged(self, given: Sequence[Any], addresses: list[int], scalars: Sequence[Scalar]) -> None:
        """A call with arrays in the host's memory: they are copied to the GPU, and back if they are written."""
        staging = staging_of(self.gpu)
        with staging.buffers() as buffer:
            back: list[tuple[NumpyArray, int]] = []
            for place, x in enumerate(self.checked.arrays):
                if x.view.on_host:
                    # checked again: a tensor without memory has the signature of one on the host
                    array = host_view(x.name, given[place])
                    address = addresses[place] = buffer(array.nbytes)
                    if not x.fully_written and x.position >= 0:
                        staging.upload(address, array)
                    elif not x.fully_written:
                        staging.clear(address, array.nbytes)
                    if x.written:
                        back.append((array, address))
            if self.streams.chosen is not None or self.streams.libraries:
                staging.wait()                         # the stream of the launches is not ordered with the copies
            self._run(addresses, scalars, staging.handle, wait=True)
            for array, address in back:
                staging.download(array, address)

    def _run(self, addresses: list[int], scalars: Sequence[Scalar], default: int, *, wait: bool) -> None:
        """Allocate temporaries, order the streams, launch; on the stream *default* if no library has one."""
        driver = self.gpu.driver
        stream, others = self.streams.now(default, allocates=bool(self.checked.outputs or self.scratch.sizes))
        scratch, pointers = self.scratch.memory(self.scratch.kind, self.gpu.ordinal)
        operands = [*addresses, *pointers, *scalars]
        for other in others:
            driver.order(other, stream)
        for launch in self.launches:
            code = launch.enter(operands, stream)
            if code:
                self.again(code, launch, operands, stream)
            if self.debug:
                try:
                    driver.synchronize(stream)
                except DriverError as failure:
                    raise self._error(failure, launch, operands, is_cause=True) from None
        for other in others:
            driver.order(stream, other)
        if scratch and isinstance(self.scratch.kind, OwnKind):
            driver.synchronize(stream)                 # no library keeps the memory until the launches have finished
        if not wait:
            return
        try:
            driver.synchronize(stream)
        except DriverError as failure:
            last: deque[GpuLaunch] = deque(self.launches, maxlen=1)
            if not last:
                raise                                  # an error of something that was launched before
            raise self._error(failure, last[0], operands, is_cause=False) from None
