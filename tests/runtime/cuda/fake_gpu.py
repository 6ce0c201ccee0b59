"""GPUs that are not there: memory, streams, contexts and launches of a machine with several of them, in this process.

Device memory is ordinary memory between guards, full of garbage. A stream is a queue of operations, each of which knows
what it must wait for by CUDA's rules. Nothing runs before somebody waits for it, and then no more than is asked for:
what is not ordered happens as late as it can, so that a forgotten order shows as a wrong number.
"""
from __future__ import annotations

import bisect
import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_HANDLE = 0, 1, 2, 201, 400
ILLEGAL_ADDRESS = 700
_NAMES = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 201: "CUDA_ERROR_INVALID_CONTEXT",
          400: "CUDA_ERROR_INVALID_HANDLE", 700: "CUDA_ERROR_ILLEGAL_ADDRESS", 3: "CUDA_ERROR_NOT_INITIALIZED"}
LEGACY, LEGACY_TOO = 0, 1

_GUARD, _UNIT = 64, 256
_GARBAGE, _FREED, _FENCE = 0xA5, 0xDB, 0x77
_PRIMARY = 0xC0000


class FailedCallError(Exception):
    """A driver call that does not succeed, by its ``CUresult``."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(_NAMES.get(code, f"CUDA error {code}"))


def name_of(code: int) -> str:
    return _NAMES.get(code, f"CUDA_ERROR_{code}")


@dataclass(eq=False)
class Op:
    """Something on a stream.

    :ivar after: what must have run before it.
    """

    what: str
    run: Callable[[], None]
    after: tuple[Op, ...]
    done: bool = False


@dataclass(eq=False)
class Stream:
    """A queue.

    :ivar blocking: it waits for the legacy stream, which waits for it.
    """

    handle: int
    context: int
    blocking: bool
    last: Op | None = None


@dataclass(eq=False)
class Allocation:
    """Memory of a context.

    :ivar alive: it is somebody's.
    :ivar mapped: it can be reached, as it is somebody's, or an allocator keeps it for its next customer.
    :ivar reused: that customer has it now.
    """

    start: int
    size: int
    context: int
    ordinal: int
    memory: np.ndarray
    what: str
    alive: bool = True
    mapped: bool = True
    reused: bool = False

    def bytes(self) -> np.ndarray:
        offset = self.start - self.memory.ctypes.data
        return self.memory[offset:offset + self.size]

    def guards_hold(self) -> bool:
        offset = self.start - self.memory.ctypes.data
        return bool((self.memory[offset - _GUARD:offset] == _FENCE).all()
                    and (self.memory[offset + self.size:offset + self.size + _GUARD] == _FENCE).all())


@dataclass(frozen=True)
class Launched:
    """A launch as it was asked for."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stream: int
    context: int
    arguments: dict[str, Any]


@dataclass
class Function:
    """A function of a loaded module.

    :ivar run: does what the launch does, given the grid, the block and the address of the table of parameters; it reads
        the parameters at once and gives a name, their values, and what is left to do.
    """

    context: int
    module: int
    name: str
    read: Callable[[tuple[int, ...], tuple[int, ...], int, int], tuple[dict[str, Any], list[int], Callable[[], None]]]
    shared_allowed: int = 48 << 10


@dataclass
class Faults:
    """What is to go wrong.

    :ivar launch: codes that the next launches give.
    :ivar in_kernel: the code at which the next kernel breaks the context.
    :ivar allocation: how many allocations succeed before one does not.
    :ivar pinned: no memory can be locked.
    :ivar retain: no primary context can be had.
    """

    launch: list[int] = field(default_factory=list)
    in_kernel: int | None = None
    allocation: int | None = None
    pinned: bool = False
    retain: bool = False


class Machine:
    """GPUs with their driver's state.

    :arg capabilities: of each GPU.
    :arg lazy: operations run as late as they may; else at once.
    """

    def __init__(self, capabilities: tuple[tuple[int, int], ...] = ((9, 0), (8, 0)), *, lazy: bool = True) -> None:
        self.capabilities = capabilities
        self.lazy = lazy
        self.lock = threading.RLock()
        self.faults = Faults()
        self.sticky = 0
        self.closed = False
        self.clock = 0.0
        self.kernel_seconds = 20e-6
        self.total_memory = 4 << 30
        self.launched: list[Launched] = []
        self.synchronised: list[int] = []
        self.misused: list[str] = []
        self.retained: dict[int, int] = {}
        self.functions: dict[int, Function] = {}
        self.modules: set[int] = set()
        self.streams: dict[int, Stream] = {}
        self._legacy: dict[int, Stream] = {}
        self._allocations: dict[int, Allocation] = {}
        self._starts: list[int] = []
        self._taken: Counter[int] = Counter()
        self.pinned: list[np.ndarray] = []
        self._stacks = threading.local()
        self._handles = iter(range(0x5000, 1 << 40, 8))

    # Contexts

    def primary(self, ordinal: int) -> int:
        return _PRIMARY + 0x100 * ordinal

    def ordinal_of(self, context: int) -> int:
        return (context - _PRIMARY) // 0x100

    def foreign_context(self, ordinal: int) -> int:
        """A context of a device that is not its primary one."""
        return self.primary(ordinal) + 8

    @property
    def stack(self) -> list[int]:
        """The contexts of this thread, the current one last."""
        if not hasattr(self._stacks, "contexts"):
            self._stacks.contexts = []
        found: list[int] = self._stacks.contexts
        return found

    @property
    def current(self) -> int:
        return self.stack[-1] if self.stack else 0

    @contextmanager
    def context(self, handle: int) -> Iterator[None]:
        self.stack.append(handle)
        try:
            yield
        finally:
            assert self.stack.pop() == handle

    def require_context(self) -> int:
        if self.sticky:
            raise FailedCallError(self.sticky)
        if not self.current:
            raise FailedCallError(INVALID_CONTEXT)
        return self.current

    # Memory

    def allocate(self, size: int, what: str = "memory") -> Allocation:
        """In the current context."""
        with self.lock:
            context = self.require_context()
            if self.faults.allocation is not None:
                self.faults.allocation -= 1
                if self.faults.allocation < 0:
                    raise FailedCallError(OUT_OF_MEMORY)
            if size <= 0:
                raise FailedCallError(INVALID_VALUE)
            ordinal = self.ordinal_of(context)
            if size > self.free_bytes(ordinal):
                raise FailedCallError(OUT_OF_MEMORY)
            memory = np.full(size + 2*_GUARD + _UNIT, _FENCE, np.uint8)
            start = -(-(memory.ctypes.data + _GUARD) // _UNIT) * _UNIT
            made = Allocation(start, size, context, ordinal, memory, what)
            made.bytes()[:] = _GARBAGE
            self._allocations[start] = made
            self._taken[ordinal] += size
            bisect.insort(self._starts, start)
            return made

    def free(self, allocation: Allocation) -> None:
        """As ``cuMemFree``: all that uses it runs first."""
        with self.lock:
            self.run_all()
            self._unmap(allocation)

    def give_back(self, allocation: Allocation, stream: int) -> None:
        """As an allocator does that keeps memory for what is launched later on *stream*."""
        with self.lock:
            self._dies(allocation)
            if self.closed:
                return

            def poison() -> None:
                allocation.reused = True
                allocation.bytes()[:] = _FREED
            self.enqueue("reuse", stream, poison, allocation.context)

    def _dies(self, allocation: Allocation) -> None:
        if allocation.alive:
            allocation.alive = False
            self._taken[allocation.ordinal] -= allocation.size

    def _unmap(self, allocation: Allocation) -> None:
        assert allocation.mapped, "freed twice"
        assert allocation.guards_hold(), f"something wrote beside {allocation.what} of {allocation.size} bytes"
        self._dies(allocation)
        allocation.mapped = False
        allocation.bytes()[:] = _FREED

    def find(self, pointer: int) -> Allocation | None:
        """The memory that *pointer* lies in."""
        with self.lock:
            place = bisect.bisect_right(self._starts, pointer) - 1
            if place < 0:
                return None
            found = self._allocations[self._starts[place]]
            return found if found.mapped and pointer < found.start + found.size else None

    def require_range(self, pointer: int, size: int) -> None:
        found = self.find(pointer)
        if size and (found is None or pointer + size > found.start + found.size):
            raise FailedCallError(INVALID_VALUE)

    def alive(self, *, but: str = "pool") -> list[Allocation]:
        with self.lock:
            return [a for a in self._allocations.values() if a.alive and a.what != but]

    def free_bytes(self, ordinal: int) -> int:
        return self.total_memory - self._taken[ordinal]

    def is_pinned(self, address: int) -> bool:
        return any(a.ctypes.data <= address < a.ctypes.data + a.nbytes for a in self.pinned)

    # Streams

    def new_stream(self, *, blocking: bool = True, context: int | None = None) -> Stream:
        with self.lock:
            made = Stream(next(self._handles), self.require_context() if context is None else context, blocking)
            self.streams[made.handle] = made
            return made

    def stream(self, handle: int, context: int) -> Stream:
        """:raises FailedCallError: there is none, or it is another context's."""
        if handle in (LEGACY, LEGACY_TOO):
            return self._legacy.setdefault(context, Stream(LEGACY, context, blocking=True))
        found = self.streams.get(handle)
        if found is None or found.context != context:
            raise FailedCallError(INVALID_HANDLE)
        return found

    def enqueue(self, what: str, handle: int, run: Callable[[], None], context: int, *after: Op) -> Op:
        """Put something on a stream."""
        with self.lock:
            stream = self.stream(handle, context)
            legacy = self._legacy.setdefault(context, Stream(LEGACY, context, blocking=True))
            waits = [stream.last, *after]
            if stream is legacy:
                waits += [s.last for s in self.streams.values() if s.blocking and s.context == context]
            elif stream.blocking:
                waits.append(legacy.last)
            op = stream.last = Op(what, run, tuple(w for w in waits if w is not None and not w.done))
            if not self.lazy:
                self.finish(op)
            return op

    def finish(self, op: Op | None) -> None:
        """Run *op* after all that it waits for, and nothing else."""
        with self.lock:
            todo = [op] if op is not None else []
            while todo:
                last = todo[-1]
                missing = [a for a in last.after if not a.done]
                if missing:
                    todo += missing
                    continue
                todo.pop()
                if not last.done:
                    last.done = True
                    last.after = ()
                    run, last.run = last.run, _nothing      # what it needed may go
                    run()

    def run_all(self) -> None:
        """All that was asked for, on every stream."""
        for stream in [*self.streams.values(), *self._legacy.values()]:
            self.finish(stream.last)

    def synchronize(self, handle: int) -> None:
        with self.lock:
            context = self.require_context() if handle in (LEGACY, LEGACY_TOO) else self.current
            if handle in self.streams:
                context = self.streams[handle].context
            self.synchronised.append(handle)
            self.finish(self.stream(handle, context).last)
            if self.sticky:
                raise FailedCallError(self.sticky)

    def synchronize_context(self) -> None:
        context = self.require_context()
        for stream in [*self.streams.values(), self._legacy.get(context)]:
            if stream is not None and stream.context == context:
                self.finish(stream.last)
        if self.sticky:
            raise FailedCallError(self.sticky)

    # Launches

    def launch(self, function: int, config: Any, table: int) -> int:
        """As ``cuLaunchKernelEx``; gives its code."""
        with self.lock:
            try:
                return self._launch(function, config, table)
            except FailedCallError as failure:
                return failure.code

    def _launch(self, handle: int, config: Any, table: int) -> int:
        context = self.require_context()
        if self.faults.launch:
            return self.faults.launch.pop(0)
        function = self.functions.get(handle)
        if function is None or function.context != context or function.module not in self.modules:
            return INVALID_HANDLE
        stream = self.stream(config.stream or 0, context)
        grid = config.grid_x, config.grid_y, config.grid_z
        block = config.block_x, config.block_y, config.block_z
        threads = block[0] * block[1] * block[2]
        if min(grid) < 1 or not 1 <= threads <= 1024 or config.shared_bytes > function.shared_allowed:
            return INVALID_VALUE
        values, pointers, run = function.read(grid, block, config.shared_bytes, table)
        self.launched.append(Launched(function.name, grid, block, stream.handle, context, values))
        breaks, self.faults.in_kernel = self.faults.in_kernel, None

        def execute() -> None:
            self.clock += self.kernel_seconds
            # an empty view may begin after the last element
            found = [self.find(p) or self.find(p - 1) for p in pointers if p]
            if breaks is not None:
                self.sticky = self.sticky or breaks
            elif any(a is None or a.ordinal != self.ordinal_of(context) for a in found):
                self.sticky = self.sticky or ILLEGAL_ADDRESS
            self.misused += [f"{function.name} uses {a.what} that is another's by now" for a in found if a and a.reused]
            if not self.sticky:
                run()
        self.enqueue(function.name, stream.handle, execute, context)
        return SUCCESS

    def require_sound(self) -> None:
        """Nothing was written beside what was allocated, and no context was left behind."""
        self.run_all()
        for a in self._allocations.values():
            assert a.guards_hold(), f"something wrote beside {a.what} of {a.size} bytes"
        assert not self.misused
        assert not self.stack, "a context was pushed and never popped"


def _nothing() -> None:
    pass


def copy(target: int, source: int, size: int) -> None:
    ctypes.memmove(target, source, size)
