"""GPUs: their discovery, their primary contexts, the reason if none is usable; handles of streams."""
from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np

from loopkit.errors import CallError, DeviceError
from loopkit.runtime.cuda.driver import Driver, load_driver
from loopkit.target.cuda.limits import DEVICE_LIMITS

#: The oldest compute capability with known limits (:data:`loopkit.target.cuda.limits.DEVICE_LIMITS`).
OLDEST = (7, 0)

#: The hint for a process that was forked after CUDA was used.
FORKED = "CUDA does not survive a fork: start worker processes with multiprocessing's 'spawn'"

_INSTALL = "pip install 'loopkit[cuda]'; the host target, compile(knl, target='c'), needs no GPU"


class Gpu:
    """One device, through its primary context, which torch, CuPy and numba use as well.

    ``with gpu:`` makes the context current. It is kept for the life of the process; :func:`release` releases it.

    :ivar ordinal: its number in the driver's order.
    :ivar staging: the copies between the host and the GPU, after the first; for the holder of *lock*.
    """

    def __init__(self, ordinal: int, pycuda: Any, driver: Driver) -> None:
        device = pycuda.Device(ordinal)
        self.ordinal = ordinal
        self.name = str(device.name())
        self.capability: tuple[int, int] = tuple(device.compute_capability())
        if self.capability < OLDEST:
            raise DeviceError(f"The GPU {ordinal} ({self.name}) is too old: its compute capability is "
                              "{}.{}, and kernels need {}.{} or newer.".format(*self.capability, *OLDEST),
                              hint="compile(knl, target='c') runs the kernel on the host")
        self.arch = "sm_{}{}".format(*self.capability)
        self.memory = int(device.total_memory())
        self.driver = driver
        self.pycuda = pycuda
        self.process = os.getpid()
        self.lock = threading.RLock()
        self.staging: Any = None
        self.l2_bytes = int(device.get_attribute(pycuda.device_attribute.L2_CACHE_SIZE))
        self.context = device.retain_primary_context()
        self.context_handle = int(self.context.handle)

    def __enter__(self) -> Self:
        try:
            self.context.push()
        except self.pycuda.Error as err:
            why, hint = (err, "an earlier error has broken its context: the process must be started anew") \
                if self.process == os.getpid() else ("CUDA was used before this process was forked", FORKED)
            raise DeviceError(f"{self} cannot be used any more: {why}.", hint=hint) from None
        return self

    def __exit__(self, *exception: object) -> None:
        self.pycuda.Context.pop()

    @cached_property
    def known_arch(self) -> str:
        """The architecture to compile for: its own, else the newest it runs; :raises DeviceError: there is none."""
        major, minor = self.capability
        # its own with the instructions that no other architecture has
        older = (f"sm_{major}{minor}a", *(f"sm_{major}{number}" for number in range(minor, -1, -1)))
        found = next((arch for arch in older if arch in DEVICE_LIMITS), None)
        if found is not None:
            return found
        raise DeviceError(f"{self} has an architecture that loopkit does not support.",
                          hint=f"it supports {', '.join(DEVICE_LIMITS)}; a newer version may support this one")

    def free_bytes(self) -> int:
        """Bytes of free memory."""
        with self:
            return int(self.pycuda.mem_get_info()[0])

    def __str__(self) -> str:
        return f"GPU {self.ordinal} ({self.name}, {self.arch})"


_gpus: dict[int, Gpu] = {}
_lock = threading.Lock()


def find_gpu(device: object = None) -> Gpu:
    """The GPU for *device*: a number, another library's device object, or ``None`` for the GPU of the current context,
    else the first.

    :raises DeviceError: there is no such GPU, or a library for it is missing.
    """
    pycuda = _initialised()
    ordinal = _device_ordinal(device)
    if ordinal is None:
        ordinal = load_driver().current_device() or 0
    with _lock:
        found = _gpus.get(ordinal)
        if found is None:
            count = pycuda.Device.count()
            if not 0 <= ordinal < count:
                raise DeviceError(f"There is no GPU {ordinal}: this machine has {count}, counted from 0.",
                                  hint="CUDA_VISIBLE_DEVICES hides devices from a process")
            try:
                found = _gpus[ordinal] = Gpu(ordinal, pycuda, load_driver())
            except pycuda.Error as err:
                raise DeviceError(f"The GPU {ordinal} cannot be used: {err}.",
                                  hint="nvidia-smi shows whether another process keeps it, or all of its memory"
                                  ) from None
        return found


def gpu_count() -> int:
    """The number of GPUs; :raises DeviceError: a library for them is missing."""
    return int(_initialised().Device.count())


def driver_in_use() -> Driver:
    """The driver; :raises DeviceError: a library for it is missing."""
    _initialised()
    return load_driver()


def why_not(device: object = None) -> DeviceError | None:
    """The reason why kernels cannot run on a GPU here; ``None``: they can."""
    try:
        find_gpu(device)
    except DeviceError as err:
        return err
    return None


@lru_cache(maxsize=1)
def _initialised() -> Any:
    """The module ``pycuda.driver`` with the driver initialised."""
    try:
        import pycuda.driver
    except ModuleNotFoundError as err:
        raise DeviceError(f"Running on a GPU needs the package '{(err.name or 'pycuda').split('.')[0]}', which is not "
                          f"installed.", hint=_INSTALL) from None
    except ImportError as err:
        if "libcuda" in str(err) or "nvcuda" in str(err):
            raise DeviceError("Running on a GPU needs NVIDIA's driver, and its library (libcuda) is not on this "
                              "machine.", hint="install the driver; compile(knl, target='c') runs on the host"
                              ) from None
        raise DeviceError(f"pycuda is installed and cannot be loaded: {err}.",
                          hint="pip install --force-reinstall --no-binary pycuda pycuda") from None
    try:
        pycuda.driver.init()
        count = pycuda.driver.Device.count()
    except pycuda.driver.Error as err:
        raise DeviceError(f"NVIDIA's driver does not start: {err}.",
                          hint="nvidia-smi lists the GPUs of the driver; compile(knl, target='c') runs on the host"
                          ) from None
    if count == 0:
        raise DeviceError("There is no NVIDIA GPU on this machine.",
                          hint="compile(knl, target='c') runs on the host")
    atexit.register(release)
    return pycuda.driver


def _device_ordinal(device: object) -> int | None:
    """The number of the device *device*: an int, or a device object of torch, CuPy, JAX or cuda.core."""
    if device is None:
        return None
    if isinstance(device, int | np.integer) and not isinstance(device, bool):
        return int(device)
    if isinstance(device, str):
        name, _, number = device.partition(":")
        if name == "cuda" and (number.isdigit() or not number):
            return int(number) if number else None
    kind = getattr(device, "type", getattr(device, "platform", None))         # torch's, JAX'
    if isinstance(kind, str) and kind not in ("cuda", "gpu"):
        raise DeviceError(f"'{device}' is not an NVIDIA GPU.", hint="pass its number, device=0")
    if kind == "cuda" and getattr(device, "index", 0) is None:
        return None                                    # torch.device("cuda"): the current one
    for attribute in ("index", "id", "device_id", "ordinal"):
        value = getattr(device, attribute, None)
        if isinstance(value, int):
            return value
    raise DeviceError(f"{device!r} is not a device.", hint="pass its number, device=0, or torch.device('cuda', 0)")


def release() -> None:
    """Release the primary contexts; a context ends when the last library has released it."""
    while _gpus:
        _, gpu = _gpus.popitem()
        if gpu.process == os.getpid():
            with suppress(DeviceError), gpu:           # the context may be lost already, with its memory
                gpu.staging = None
            gpu.context.detach()


def stream_handle(stream: Any) -> int:
    """The handle of a number, or of another library's stream; :raises CallError: *stream* is neither."""
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:                           # a version and the handle
        handle = (protocol() if callable(protocol) else protocol)[1]
    else:
        own = [getattr(stream, name) for name in ("cuda_stream", "ptr", "handle") if hasattr(stream, name)]
        # numba's handles are ctypes pointers, None for the default
        handle = (getattr(own[0], "value", own[0]) or 0) if own else stream
    if not isinstance(handle, int) or isinstance(handle, bool):
        raise CallError(f"{stream!r} is not a CUDA stream.", argument="stream",
                        hint="pass torch.cuda.current_stream(), or a stream of CuPy, pycuda or numba")
    return 0 if handle == 1 else handle                # both are handles of the legacy stream
