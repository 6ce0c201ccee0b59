"""A call that was checked: all that follows from dtypes, shapes, strides and sizes is settled, addresses are not.

Calls that agree in all of that share one :class:`ReadyCall`. What is left for each call: are the addresses aligned, do
written arrays overlap others, on which stream; then the launches.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from loopkit.errors import CallError, DeviceError, LaunchError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE, SUCCESS, DriverError
from loopkit.runtime.cuda.faults import describe, launch_error, reported
from loopkit.runtime.cuda.hosted import HostedLaunch, HostedLaunches
from loopkit.runtime.cuda.kinds import OwnKind
from loopkit.runtime.cuda.launching import PreparedClear, PreparedLaunch, aside
from loopkit.runtime.cuda.memory import DeviceArray, allocate
from loopkit.runtime.cuda.staging import staging_of
from loopkit.runtime.kinds import Kind, host_view
from loopkit.runtime.outputs import Outputs
from loopkit.runtime.overlap import overlapping, share_memory
from loopkit.runtime.scalars import Scalar
from loopkit.runtime.views import Array, ArrayLike, DeviceView, c_strides

_ANOTHER_CONTEXT = (INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED)


#: A call's values, the addresses of its given arrays, and its values before some were opened, to its outputs.
Run = Callable[[Sequence[Any], list[int], Sequence[Any]], Outputs]


@dataclass(frozen=True)
class Given:
    """An array argument that the caller passes.

    :ivar position: which of a call's values it is; its address has the number of its place among the arrays.
    :ivar low: from its address to its first byte, *high*: to the one behind its last.
    :ivar view: its dtype, shape and strides; the array itself is not kept.
    :ivar on_host: it lies in the host's memory.
    :ivar needed: what it holds before the call matters: it is read, or not written as a whole.
    """

    name: str
    position: int
    kind: Kind
    view: DeviceView
    low: int
    high: int
    written: bool
    on_host: bool
    needed: bool


@dataclass(frozen=True)
class Made:
    """An output that the call allocates.

    :ivar adopt: for one in the host's memory, turns numpy's array into the caller's kind; else ``None``.
    :ivar clear: the kernel does not write all of it, and what it does not is zero.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    adopt: Callable[[Array], Any] | None
    clear: bool

    def new(self, ordinal: int) -> Any:
        """It, on the GPU *ordinal*."""
        return self.kind.new(self.shape, self.dtype, ordinal, zero=self.clear)

    @property
    def of_another_library(self) -> bool:
        """Is it handed out as an array of a library that only takes complete ones?"""
        return isinstance(self.kind, OwnKind) and self.kind.makes_others


@dataclass(frozen=True)
class ReadyCall:
    """See the module.

    Addresses stand in the order: given arrays, made ones, temporaries in global memory.

    :ivar scratch: the temporaries and their bytes; the first *cleared* ones lie side by side.
    :ivar streams: gives the stream of each library whose arrays take part.
    :ivar scalars: position among a call's values and conversion, of the scalars that differ from call to call.
    :ivar apart: pairs of places among the arrays that must not share memory, the first is written.
    :ivar wait: the call returns when the GPU is through, as nothing else would order what follows.
    :ivar fixed_stream: the stream that the caller chose, or ``None``.
    :ivar values: the scalars that are settled, for messages.
    :ivar vectors: places among the given arrays whose addresses vector accesses need aligned, each with the bits that
        one must not have.
    :ivar plain: gives the same call without vector accesses, from a call's values.
    """

    gpu: Gpu
    kernel: str
    launches: tuple[PreparedLaunch | PreparedClear, ...] | HostedLaunches
    given: tuple[Given, ...]
    made: tuple[Made, ...]
    scratch: tuple[tuple[str, int], ...]
    cleared: int
    scratch_kind: Kind | None
    streams: tuple[Callable[[], int], ...]
    scalars: tuple[tuple[int, Callable[[Any], Scalar]], ...]
    scalar_names: tuple[str, ...]
    masks: tuple[tuple[int, int], ...]
    apart: tuple[tuple[int, int], ...]
    fields: tuple[str, ...]
    returned: tuple[tuple[bool, int], ...]
    wait: bool
    values: Mapping[str, Any]
    fixed_stream: int | None
    debug: bool
    vectors: tuple[tuple[int, int], ...]
    plain: Callable[[Sequence[Any]], ReadyCall]

    def serving(self, values: Sequence[Any], addresses: Sequence[int]) -> ReadyCall:
        """It, or where an address does not let vector accesses, the same without them."""
        return self.plain(values) if any(addresses[place] & mask for place, mask in self.vectors) else self

    @cached_property
    def stream_if_fixed(self) -> Callable[[], int] | None:
        """Gives the stream, if the arrays and one stream are all that a call with fixed arguments needs."""
        if self.made or self.debug or self.wait or any(g.on_host for g in self.given):
            return None
        if self.fixed_stream is not None:
            return partial(int, self.fixed_stream)
        return self.streams[0] if len(self.streams) == 1 else None

    @cached_property
    def direct(self) -> Callable[[], int] | None:
        """The same for calls that need no temporaries either."""
        return None if self.scratch else self.stream_if_fixed

    @cached_property
    def distances(self) -> tuple[tuple[int, int, int, int], ...]:
        """*apart* with the range in which the difference of two addresses means that their bytes meet."""
        return tuple((a, b, self.given[b].low - self.given[a].high, self.given[b].high - self.given[a].low)
                     for a, b in self.apart)

    def __call__(self, values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
        """Run.

        :arg values: of the arguments, in the order of the caller; *originals*: the same before arrays of sorts that
            hand out capsules only were opened.
        :arg addresses: of the given arrays.
        """
        return self.run(values, addresses, originals)

    @cached_property
    def run(self) -> Run:
        """What a call does, as a function for which everything is at hand."""
        own, vectors = self._own_run, self.vectors
        if not vectors:
            return own
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
    def _own_run(self) -> Run:
        """The same for addresses that serve its vector accesses."""
        if isinstance(self.launches, HostedLaunches):
            return self._run_in_general
        if self.direct is None:
            return self._run_in_general if self.made_stream is None else self._run_with_made(self.made_stream)
        direct, distances, scalars = self.direct, self.distances, self.scalars
        launches = [(launch.enter, launch) for launch in self.launches]
        outputs = Outputs.maker(self.fields)
        positions = tuple(i for _, i in self.returned)
        # no address may have one of these bits, by the largest of the elements; the exact check tells smaller ones
        mask = max((mask for _, mask in self.masks), default=0)
        checked: list[int] = []
        first, alone = positions[0] if positions else 0, len(positions) == 1

        def run(values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
            nonlocal checked
            if addresses != checked:
                for address in addresses:
                    if address & mask:
                        self._require_aligned(addresses)
                for a, b, low, high in distances:
                    if low < addresses[a] - addresses[b] < high:
                        self._require_apart(a, b, addresses)
                checked = addresses
            numbers = [convert(values[i]) for i, convert in scalars]
            stream = direct()
            for enter, launch in launches:
                code = enter(addresses, numbers, stream)
                if code:
                    self.again(code, launch, addresses, numbers, stream)
            return outputs((originals[first],) if alone else [originals[i] for i in positions])
        return run

    @cached_property
    def made_stream(self) -> Callable[[], int] | None:
        """Gives the stream, if new outputs of a library that sees to its contexts are all that a call needs besides."""
        if self.scratch or self.debug or self.wait or self.fixed_stream is not None or len(self.streams) != 1 or any(
                g.on_host for g in self.given):
            return None
        return self.streams[0] if self.libraries_only else None

    def _run_with_made(self, current: Callable[[], int]) -> Run:
        """:attr:`run` for a call that allocates outputs and nothing else."""
        outputs = Outputs.maker(self.fields)
        makers = [(partial(m.new, self.gpu.ordinal), m.kind.probe) for m in self.made]

        def run(values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
            self.check(addresses)
            made = [make() for make, _ in makers]
            everything = [*addresses, *(probe(x)[1] for x, (_, probe) in zip(made, makers, strict=True))]
            self.launch(everything, [convert(values[i]) for i, convert in self.scalars], current())
            return outputs([originals[i] if given else made[i] for given, i in self.returned])
        return run

    def _run_in_general(self, values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
        self.check(addresses)
        return self._indirect(values, addresses, [convert(values[i]) for i, convert in self.scalars], originals)

    def check(self, addresses: Sequence[int]) -> None:
        """:raises CallError: an address is not aligned, or a written array overlaps another one."""
        self._require_aligned(addresses)
        for a, b, low, high in self.distances:
            if low < addresses[a] - addresses[b] < high:
                self._require_apart(a, b, addresses)

    def _require_aligned(self, addresses: Sequence[int]) -> None:
        for place, mask in self.masks:
            if addresses[place] & mask:
                name = self.given[place].name
                raise CallError(f"'{name}' is not aligned to the size of {self.given[place].view.dtype}.",
                                argument=name, hint="pass a copy of it")

    def _require_apart(self, a: int, b: int, addresses: Sequence[int]) -> None:
        """The exact question, for two arrays whose ranges meet."""
        views = [DeviceView(g.view.dtype, g.view.shape, g.view.strides, address, 0)
                 for g, address in ((self.given[a], addresses[a]), (self.given[b], addresses[b]))]
        if share_memory(*views):
            raise overlapping(self.given[a].name, self.given[b].name)

    # {{{ launches

    def launch(self, addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> None:
        """All launches, on *stream*; :raises LaunchError: one fails."""
        for launch in self.launches:
            code = launch.enter(addresses, scalars, stream)
            if code:
                self.again(code, launch, addresses, scalars, stream)
            if self.debug:
                try:
                    self.gpu.driver.synchronize(stream)
                except DriverError as failure:
                    raise self._error(failure, launch, addresses, scalars, certain=True) from None

    def again(self, code: int, launch: PreparedLaunch | PreparedClear | HostedLaunch, addresses: Sequence[int],
              scalars: Sequence[Scalar], stream: int) -> None:
        """Another context may be current in this thread, or none: a launch then fails, and works in our own."""
        if code in _ANOTHER_CONTEXT:
            with self.gpu:
                code = launch.enter(addresses, scalars, stream)
        if code != SUCCESS:
            failure = self.gpu.driver.failure("cuLaunchKernelEx", code)
            raise self._error(failure, launch, addresses, scalars, certain=False) from None

    def _error(self, failure: DriverError, launch: PreparedLaunch | PreparedClear | HostedLaunch,
               addresses: Sequence[int], scalars: Sequence[Scalar], *, certain: bool) -> LaunchError:
        names = [*(g.name for g in self.given), *(m.name for m in self.made), *(name for name, _ in self.scratch)]
        arrays: dict[str, ArrayLike] = {g.name: g.view for g in self.given}
        arrays |= {m.name: DeviceView(m.dtype, m.shape, c_strides(m.shape, m.dtype.itemsize), 0, self.gpu.ordinal)
                   for m in self.made}
        sizes = launch.values if isinstance(launch, HostedLaunch) else self.values
        values = {**sizes, **dict(zip(self.scalar_names, scalars, strict=True))}
        lines = list(describe(launch, arrays, dict(zip(names, addresses, strict=False)), values))
        return launch_error(self.gpu, self.kernel, launch, failure, lines, certain=certain)

    # }}}

    # {{{ calls that allocate, copy, or order streams

    def stream(self) -> tuple[int | None, list[int]]:
        """The stream to launch on, ``None`` where no library has one, and the others that must be ordered with it."""
        handles = list(dict.fromkeys(f() for f in self.streams))
        if self.fixed_stream is not None:
            # who chose it orders the arguments; what the call allocates, a library clears, and takes back, on its own
            return self.fixed_stream, [h for h in handles if h != self.fixed_stream
                                       and (self.made or self.scratch or self.wait)]
        return (handles[0], handles[1:]) if handles else (None, [])

    def _indirect(self, values: Sequence[Any], addresses: list[int], scalars: Sequence[Scalar],
                  originals: Sequence[Any]) -> Outputs:
        with reported(self.gpu, self.kernel):
            if any(g.on_host for g in self.given) or any(m.adopt is not None for m in self.made):
                with self.gpu.lock, self.gpu:
                    return self._staged(values, addresses, scalars, originals)
            return self._allocating(addresses, scalars, originals)

    def _allocating(self, addresses: list[int], scalars: Sequence[Scalar], originals: Sequence[Any]) -> Outputs:
        with nullcontext() if self.libraries_only else self.gpu:
            made = [m.new(self.gpu.ordinal) for m in self.made]
            addresses = [*addresses, *(m.kind.probe(x)[1] for m, x in zip(self.made, made, strict=True))]
            if self.wait:
                self._launch_and_wait(addresses, scalars, 0)
            else:
                self._run(addresses, scalars, 0)
            return self.outputs(originals, made)

    @cached_property
    def libraries_only(self) -> bool:
        """Do libraries that see to contexts themselves allocate all that this call needs?"""
        kinds = [*(m.kind.name for m in self.made), *([self.scratch_kind.name if self.scratch_kind else ""]
                                                      if self.scratch else [])]
        # to wait for a stream, or for an event on one, takes the context
        waits = self.wait or self.debug or self.fixed_stream is not None
        return not waits and len(self.streams) == 1 and all(name in ("torch", "cupy") for name in kinds)

    def outputs(self, originals: Sequence[Any], made: Sequence[Any]) -> Outputs:
        return Outputs(self.fields, [originals[i] if given else self._handed_out(self.made[i], made[i])
                                     for given, i in self.returned])

    def _handed_out(self, m: Made, x: Any) -> Any:
        return m.kind.handed_out(x) if isinstance(m.kind, OwnKind) else x

    def _run(self, addresses: list[int], scalars: Sequence[Scalar], default: int) -> int:
        """Temporaries, the order of streams, the launches; gives the stream."""
        driver = self.gpu.driver
        chosen, others = self.stream()
        stream = default if chosen is None else chosen
        scratch = list(self.make_scratch())
        addresses = [*addresses, *(pointer for _, pointer in scratch)]
        for other in others:
            driver.order(other, stream)
        self.launch(addresses, scalars, stream)
        for other in others:
            driver.order(stream, other)
        if any(isinstance(memory, DeviceArray) for memory, _ in scratch):
            driver.synchronize(stream)                 # no library keeps it until the launches are through
        return stream

    def make_scratch(self, *, own: bool = False) -> Iterator[tuple[Any, int]]:
        """The temporaries; *own* ones are of no library, and no other work on the GPU gets their memory before this
        one is through."""
        counts = [count for _, count in self.scratch]
        first = counts[:self.cleared]
        if first:
            memory, pointer = self._memory(sum(map(aside, first)), own=own)
            for count in first:
                yield memory, pointer
                pointer += aside(count)
        for count in counts[self.cleared:]:
            yield self._memory(count, own=own)

    def _memory(self, count: int, *, own: bool) -> tuple[Any, int]:
        if own or self.scratch_kind is None:
            array = allocate(self.gpu, (count,), np.dtype(np.uint8))
            return array, array.pointer
        memory = self.scratch_kind.new((count,), np.dtype(np.uint8), self.gpu.ordinal, zero=False)
        return memory, self.scratch_kind.probe(memory)[1]

    def _staged(self, values: Sequence[Any], addresses: list[int], scalars: Sequence[Scalar],
                originals: Sequence[Any]) -> Outputs:
        """A call in which arrays lie in the host's memory: they are copied to the GPU, and back if they are written."""
        staging = staging_of(self.gpu)
        made = [m.new(self.gpu.ordinal) if m.adopt is None
                else m.adopt(np.empty(m.shape, m.dtype)) for m in self.made]
        with staging.buffers() as buffer:
            back: list[tuple[Array, int]] = []
            addresses = list(addresses)
            for place, g in enumerate(self.given):
                if g.on_host:
                    array = host_view(g.name, values[g.position])
                    addresses[place] = buffer(array.nbytes)
                    if g.needed:
                        staging.upload(addresses[place], array)
                    if g.written:
                        back.append((array, addresses[place]))
            for m, x in zip(self.made, made, strict=True):
                if m.adopt is not None:
                    array = host_view(m.name, x)
                    addresses.append(buffer(array.nbytes))
                    if m.clear:
                        staging.clear(addresses[-1], array.nbytes)
                    back.append((array, addresses[-1]))
                else:
                    addresses.append(m.kind.probe(x)[1])
            if self.fixed_stream is not None or self.streams:
                staging.wait()                         # the launches go to a stream that knows nothing of the copies
            self._launch_and_wait(addresses, scalars, staging.handle)
            for array, address in back:
                staging.download(array, address)
        return self.outputs(originals, made)

    def _launch_and_wait(self, addresses: list[int], scalars: Sequence[Scalar], default: int) -> None:
        stream = self._run(addresses, scalars, default)
        try:
            self.gpu.driver.synchronize(stream)
        except DriverError as failure:
            last: deque[PreparedLaunch | PreparedClear | HostedLaunch] = deque(self.launches, maxlen=1)
            if not last:
                raise DeviceError(f"{self.gpu} reports an error of something that was launched before: {failure}."
                                  ) from None
            raise self._error(failure, last[0], addresses, scalars, certain=False) from None

    # }}}
