"""``pycuda.driver`` and the runtime's own driver over a :class:`Machine`."""
from __future__ import annotations

import ctypes
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from loopkit.runtime.cuda.driver import DriverError, LaunchConfig
from tests.runtime.cuda import fake_gpu
from tests.runtime.cuda.fake_code import Codes
from tests.runtime.cuda.fake_gpu import Allocation, FailedCallError, Machine, Op, Stream, name_of
from tests.tensor_maps import Encoder


class FakeDriver:
    """:class:`loopkit.runtime.cuda.driver.Driver`."""

    def __init__(self, machine: Machine, codes: Codes) -> None:
        self.machine = machine
        self._codes = codes
        self._numbers = iter(range(0x9000, 1 << 40, 16))
        self.encoder = Encoder()

    def failure(self, code: int) -> DriverError:
        return DriverError(code, f"{name_of(code)}: as was asked for")

    def _tried(self, run: Any) -> Any:
        with self.machine.lock:
            try:
                return run()
            except FailedCallError as failure:
                raise self.failure(failure.code) from None

    def load_module(self, cubin: bytes) -> int:
        context = self._tried(self.machine.require_context)
        number = next(self._numbers)
        self._codes.load(cubin, number, context, self.machine)
        self.machine.modules.add(number)
        return number

    def unload_module(self, module: int) -> None:
        self._tried(self.machine.require_context)
        self.machine.run_all()
        self.machine.modules.remove(module)

    def function(self, module: int, name: str) -> int:
        number = next(self._numbers)
        self.machine.functions[number] = self._codes.function(module, name)
        return number

    def allow_shared_bytes(self, function: int, count: int) -> None:
        self.machine.functions[function].shared_allowed = count

    def tensor_map_encoder(self) -> Any:
        return self.encoder

    def launcher(self, config: LaunchConfig, function: int, parameters: ctypes.Array[ctypes.c_void_p]) -> Any:
        # addresses only, as the driver: whoever launches keeps alive what they point to
        config_at, table = ctypes.addressof(config), ctypes.addressof(parameters)
        return lambda: self.machine.launch(function, LaunchConfig.from_address(config_at), table)

    def current_context(self) -> int:
        return self.machine.current

    def current_device(self) -> int | None:
        return self.machine.ordinal_of(self.machine.current) if self.machine.current else None

    def place(self, pointer: int) -> tuple[int, int] | None:
        found = self.machine.find(pointer)
        return None if found is None else (found.ordinal, found.context)

    def stream_context(self, stream: int) -> int:
        return self.machine.streams[stream].context

    def synchronize(self, stream: int) -> None:
        self._tried(lambda: self.machine.synchronize(stream))

    def clear(self, pointer: int, count: int, stream: int) -> int:
        try:
            context = self.machine.require_context()
        except FailedCallError as failure:
            return failure.code
        self.machine.enqueue("clear", stream, lambda: ctypes.memset(pointer, 0, count), context)
        return 0

    def order(self, first: int, then: int) -> None:
        def run() -> None:
            context = self.machine.require_context()
            last = self.machine.enqueue("record", first, lambda: None, context)
            self.machine.enqueue("wait", then, lambda: None, context, last)
        self._tried(run)


def fake_pycuda(machine: Machine) -> dict[str, ModuleType]:
    """The modules of pycuda that the runtime imports, by name."""
    modules = {name: ModuleType(name) for name in ("pycuda", "pycuda.driver", "pycuda.tools", "pycuda.gpuarray")}
    for name in ("driver", "tools", "gpuarray"):
        setattr(modules["pycuda"], name, modules[f"pycuda.{name}"])
    _fill_driver(modules["pycuda.driver"], machine)
    modules["pycuda.tools"].DeviceMemoryPool = _pool_class(machine, modules["pycuda.driver"])   # type: ignore[attr-defined]
    return modules


class _Errors:
    """pycuda's exceptions, new ones for each machine."""

    def __init__(self) -> None:
        self.error: Any = type("Error", (Exception,), {})
        self.logic = type("LogicError", (self.error,), {})
        self.memory = type("MemoryError", (self.error,), {})

    def tried(self, machine: Machine, run: Any) -> Any:
        with machine.lock:
            try:
                return run()
            except FailedCallError as failure:
                kind = self.memory if failure.code == fake_gpu.OUT_OF_MEMORY else self.logic
                raise kind(f"failed: {name_of(failure.code)}") from None


class DeviceAllocation:
    """``pycuda.driver.DeviceAllocation``."""

    def __init__(self, machine: Machine, errors: _Errors, size: int) -> None:
        self._machine, self._errors = machine, errors
        self._memory: Allocation | None = errors.tried(machine, lambda: machine.allocate(size))

    def __int__(self) -> int:
        assert self._memory is not None
        return self._memory.start

    def free(self) -> None:
        memory, self._memory = self._memory, None
        assert memory is not None, "freed twice"
        if self._machine.sticky:
            raise self._errors.logic("the context is lost")
        self._machine.free(memory)

    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None and not self._machine.sticky and not self._machine.closed:
            self.free()


def _fill_driver(module: Any, machine: Machine) -> None:
    errors = _Errors()
    module.errors = errors
    module.Error, module.LogicError, module.MemoryError = errors.error, errors.logic, errors.memory
    module.init = lambda: None
    module.Device = _device_class(machine, errors)
    module.Context = SimpleNamespace(
        pop=lambda: machine.stack.pop(), synchronize=lambda: errors.tried(machine, machine.synchronize_context))
    module.device_attribute = SimpleNamespace(L2_CACHE_SIZE="L2", MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="shared")
    module.event_flags = SimpleNamespace(DISABLE_TIMING=2)
    module.Stream, module.Event = _stream_class(machine, errors), _event_class(machine, errors)
    module.mem_alloc = lambda size: DeviceAllocation(machine, errors, size)
    module.mem_get_info = lambda: (machine.free_bytes(machine.ordinal_of(machine.require_context())),
                                   machine.total_memory)
    _fill_copies(module, machine, errors)


def _fill_copies(module: Any, machine: Machine, errors: _Errors) -> None:

    def enqueue(what: str, stream: Any, run: Any, *ranges: tuple[int, int]) -> Op:
        def attempt() -> Op:
            context = machine.require_context()
            for pointer, size in ranges:
                machine.require_range(pointer, size)
            return machine.enqueue(what, 0 if stream is None else stream.handle, run, context)
        found: Op = errors.tried(machine, attempt)
        return found

    def htod_async(target: int, source: np.ndarray, stream: Any = None) -> Op:
        assert source.flags.c_contiguous
        size = source.nbytes
        # ordinary memory was read when the driver returns; locked memory is read when its turn comes
        kept = source if machine.is_pinned(source.ctypes.data) else source.copy()
        return enqueue("copy", stream, lambda: fake_gpu.copy(target, kept.ctypes.data, size), (target, size))

    def dtoh_async(target: np.ndarray, source: int, stream: Any = None) -> Op:
        assert target.flags.c_contiguous
        assert target.flags.writeable
        return enqueue("copy", stream, lambda: fake_gpu.copy(target.ctypes.data, source, target.nbytes),
                       (source, target.nbytes))

    def memset(pointer: int, value: int, count: int, stream: Any = None) -> None:
        enqueue("memset", stream, lambda: _set(ctypes.memset, pointer, value, count), (pointer, count))

    def dtod(target: int, source: int, size: int) -> None:
        enqueue("copy", None, lambda: fake_gpu.copy(target, source, size), (target, size), (source, size))

    def pagelocked_empty(shape: Any, dtype: Any) -> np.ndarray:
        if machine.faults.pinned:
            raise errors.memory("failed: CUDA_ERROR_OUT_OF_MEMORY")
        made = np.full(shape, 0x5A, dtype)
        machine.pinned.append(made)
        return made
    module.memcpy_htod_async, module.memcpy_dtoh_async = htod_async, dtoh_async
    module.memset_d8, module.memset_d8_async, module.memcpy_dtod = memset, memset, dtod
    module.memcpy_htod = lambda target, source: machine.finish(htod_async(target, source))
    module.memcpy_dtoh = lambda target, source: machine.finish(dtoh_async(target, source))
    module.pagelocked_empty = pagelocked_empty


def _set(memset: Any, pointer: int, value: int, count: int) -> None:
    memset(pointer, value, count)


def _device_class(machine: Machine, errors: _Errors) -> type:

    class Device:
        def __init__(self, ordinal: int) -> None:
            self._ordinal = ordinal

        @staticmethod
        def count() -> int:
            return len(machine.capabilities)

        def name(self) -> str:
            return f"Fake {self._ordinal}"

        def compute_capability(self) -> tuple[int, int]:
            return machine.capabilities[self._ordinal]

        def total_memory(self) -> int:
            return machine.total_memory

        def get_attribute(self, attribute: str) -> int:
            return {"L2": 1 << 16, "shared": 99 << 10}[attribute]

        def retain_primary_context(self) -> Context:
            if machine.faults.retain:
                raise errors.logic("cuDevicePrimaryCtxRetain failed: out of memory")
            machine.retained[self._ordinal] = machine.retained.get(self._ordinal, 0) + 1
            return Context(self._ordinal)

    class Context:
        def __init__(self, ordinal: int) -> None:
            self._ordinal = ordinal
            self.handle = machine.primary(ordinal)

        def push(self) -> None:
            if not machine.retained.get(self._ordinal):
                raise errors.logic("cuCtxPushCurrent failed: context is destroyed")
            machine.stack.append(self.handle)

        def detach(self) -> None:
            machine.retained[self._ordinal] -= 1
    return Device


def _stream_class(machine: Machine, errors: _Errors) -> type:

    class PycudaStream:
        def __init__(self, flags: int = 0) -> None:
            self._stream: Stream = errors.tried(machine, lambda: machine.new_stream(blocking=not flags))
            self.handle = self._stream.handle

        def synchronize(self) -> None:
            errors.tried(machine, lambda: machine.synchronize(self.handle))

        def __del__(self) -> None:
            if not machine.closed:
                machine.finish(self._stream.last)
            machine.streams.pop(self.handle, None)
    return PycudaStream


def _event_class(machine: Machine, errors: _Errors) -> type:

    class Event:
        def __init__(self, flags: int = 0) -> None:
            self._timed = flags == 0
            self._op: Op | None = None
            self._at = 0.0

        def record(self, stream: Any = None) -> None:
            def stamp() -> None:
                self._at = machine.clock
            self._op = errors.tried(machine, lambda: machine.enqueue(
                "event", 0 if stream is None else stream.handle, stamp, machine.require_context()))

        def synchronize(self) -> None:
            machine.finish(self._op)

        def time_till(self, other: Event) -> float:
            assert self._timed
            assert other._timed
            assert self._op is not None
            assert self._op.done
            return (other._at - self._at) * 1e3
    return Event


def _pool_class(machine: Machine, driver: Any) -> type:
    """``pycuda.tools.DeviceMemoryPool``: what was given back is handed out again as it is."""

    class Pooled:
        def __init__(self, pool: Pool, memory: Allocation, size: int) -> None:
            self._pool, self._memory, self.size = pool, memory, size

        def __int__(self) -> int:
            return self._memory.start

        def free(self) -> None:
            self._pool.active_bytes -= self._memory.size
            self._pool.held.append(self._memory)

    class Pool:
        def __init__(self) -> None:
            driver.errors.tried(machine, machine.require_context)
            self.held: list[Allocation] = []
            self.active_bytes = self.managed_bytes = 0

        def allocate(self, size: int) -> Pooled:
            found = next((m for m in self.held if m.size == size), None)
            if found is None:
                found = driver.errors.tried(machine, lambda: machine.allocate(size, "pool"))
                self.managed_bytes += size
            else:
                self.held.remove(found)
            self.active_bytes += size
            return Pooled(self, found, size)

        def free_held(self) -> None:
            while self.held:
                memory = self.held.pop()
                self.managed_bytes -= memory.size
                machine.free(memory)
    return Pool
