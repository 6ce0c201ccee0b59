"""OpenCL devices: their discovery, their queues, the reason if none is usable."""
from __future__ import annotations

import os
import threading
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from loopkit.errors import DeviceError
from loopkit.target.opencl.limits import OpenCLLimits

_INSTALL = ("pip install 'loopkit[opencl]', and the OpenCL driver of a device: for processors, pip install "
            "pocl-binary-distribution")

#: pyopencl's variable for the choice of a device.
_CHOICE = "PYOPENCL_CTX"


class OpenCLDevice:
    """One device in one context.

    :ivar cl: the module ``pyopencl``.
    :ivar ordinal: its number among the devices that this process has used.
    """

    def __init__(self, cl: Any, context: Any, device: Any, ordinal: int) -> None:
        self.cl = cl
        self.context = context
        self.device = device
        self.ordinal = ordinal
        self.name = str(device.name).strip()
        #: Sub-buffers start at multiples of this many bytes.
        self.alignment = max(int(device.mem_base_addr_align) // 8, 1)
        self.cache_bytes = int(device.global_mem_cache_size)

    @cached_property
    def queue(self) -> Any:
        """The queue of arrays without one, in order."""
        return self.cl.CommandQueue(self.context, self.device)

    @cached_property
    def limits(self) -> OpenCLLimits:
        x = self.device
        extensions, block = str(x.extensions).split(), [*map(int, x.max_work_item_sizes), 1, 1][:3]
        has_atomics = {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= {*extensions}
        return OpenCLLimits(str(self), int(x.max_work_group_size), (block[0], block[1], block[2]),
                            int(x.local_mem_size), bool(x.double_fp_config), has_atomics)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The options of every compilation: divisions and square roots of float32 as exact as on other targets."""
        exact = self.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT & self.device.single_fp_config
        return ("-cl-std=CL1.2", *(("-cl-fp32-correctly-rounded-divide-sqrt",) if exact else ()))

    def __str__(self) -> str:
        return f"the OpenCL device {self.name}"


_devices: dict[tuple[int, int], OpenCLDevice] = {}
_lock = threading.Lock()


def find_opencl(device: object = None) -> OpenCLDevice:
    """The device of *device*: a number, an object of pyopencl, or ``None`` for the first GPU, else the first device.

    pyopencl's variable ``PYOPENCL_CTX`` chooses another one.

    :raises DeviceError: there is no such device, or pyopencl is missing.
    """
    cl = import_pyopencl()
    if isinstance(device, cl.CommandQueue):
        return known_device(device.context, device.device)
    if isinstance(device, cl.Context):
        return known_device(device, device.devices[0])
    if device is None:
        context = default_context()
        return known_device(context, context.devices[0])
    every = opencl_devices()
    if isinstance(device, int | np.integer) and not isinstance(device, bool):
        if not 0 <= device < len(every):
            raise DeviceError(f"There is no OpenCL device {device}: this machine has {len(every)}, counted from 0.",
                              hint="python -m loopkit info lists them")
        device = every[int(device)]
    if not isinstance(device, cl.Device):
        raise DeviceError(f"{device!r} is not an OpenCL device.",
                          hint="pass its number, device=0, or a device, context or queue of pyopencl")
    context = _context_of(device)
    return known_device(context, device)


def known_device(context: Any, device: Any) -> OpenCLDevice:
    """*device* in *context*, always the same object."""
    key = int(context.int_ptr), int(device.int_ptr)
    with _lock:
        found = _devices.get(key)
        if found is None:
            found = _devices[key] = OpenCLDevice(import_pyopencl(), context, device, len(_devices))
        return found


def opencl_devices() -> list[Any]:
    """Every device of this machine; :raises DeviceError: there is none, or pyopencl is missing."""
    cl = import_pyopencl()
    try:
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:                                   # the loader finds no platform
        found = []
    if not found:
        raise DeviceError("There is no OpenCL device on this machine.", hint=_INSTALL)
    return found


def why_no_opencl() -> DeviceError | None:
    """The reason why OpenCL kernels cannot run here; ``None``: they can."""
    try:
        find_opencl()
    except DeviceError as err:
        return err
    return None


@lru_cache(maxsize=1)
def default_context() -> Any:
    """The context for arrays of the host; :raises DeviceError: there is no device."""
    cl = import_pyopencl()
    if os.environ.get(_CHOICE):
        try:
            return cl.create_some_context(interactive=False)
        except (cl.Error, RuntimeError) as err:
            raise DeviceError(f"The device that {_CHOICE} names cannot be used: {err}.",
                              hint="python -m loopkit info lists the devices") from None
    every = opencl_devices()
    return _context_of(next((x for x in every if x.type & cl.device_type.GPU), every[0]))


@lru_cache(maxsize=64)
def _context_of(device: Any) -> Any:
    cl = import_pyopencl()
    try:
        return cl.Context([device])
    except cl.Error as err:
        raise DeviceError(f"The OpenCL device {device.name} cannot be used: {err}.",
                          hint="python -m loopkit info lists the devices") from None


@lru_cache(maxsize=1)
def import_pyopencl() -> Any:
    """The module ``pyopencl``; :raises DeviceError: it is missing."""
    try:
        import pyopencl
        import pyopencl.array
    except ImportError as err:
        what = "which is not installed" if isinstance(err, ModuleNotFoundError) else f"which cannot be loaded: {err}"
        raise DeviceError(f"Running OpenCL kernels needs the package pyopencl, {what}.", hint=_INSTALL) from None
    return pyopencl
