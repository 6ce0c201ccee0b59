"""Failed launches: the error with the launch, its arguments, and a way out."""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loopkit.errors import DeviceError, LaunchError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import OUT_OF_MEMORY, STICKY, DriverError
from loopkit.runtime.cuda.host_loops import HostedLaunch
from loopkit.runtime.cuda.launching import PreparedClear, PreparedLaunch
from loopkit.runtime.views import ArrayLike
from loopkit.target.code import ParameterKind

_NOT_INITIALIZED = 3
#: Codes of a version, or of a form of binary, that this driver does not support.
_NOT_FOR_THIS_DRIVER = (200, 209, 222, 803)


def launch_error(gpu: Gpu, kernel: str, launch: PreparedLaunch | PreparedClear | HostedLaunch, failure: DriverError,
                 arguments: Sequence[str], *, certain: bool) -> LaunchError:
    """The error for a launch of *kernel*.

    :arg certain: this launch is the cause, because every earlier one was waited for.
    """
    sticky = failure.code in STICKY
    if sticky and certain:
        what = f"'{launch.launch.name}' of kernel '{kernel}' failed on {gpu}: {failure}."
    elif sticky:
        what = (f"{gpu} reports an error of something that was launched before, seen when '{launch.launch.name}' of "
                f"kernel '{kernel}' was launched or waited for: {failure}.")
    else:
        what = f"'{launch.launch.name}' of kernel '{kernel}' could not be launched on {gpu}: {failure}."
    return LaunchError(what, kernel=kernel, launch=launch.launch.name, grid=launch.grid, block=launch.launch.block,
                       arguments=arguments, sticky=sticky, hint=_way_out(gpu, failure, sticky=sticky, certain=certain))


@contextmanager
def reported(gpu: Gpu, kernel: str) -> Iterator[None]:
    """Convert the driver's errors within the block.

    :raises DeviceError: a copy, an allocation or the loading of code failed.
    """
    try:
        yield
    except (DriverError, gpu.pycuda.Error) as err:
        lost = isinstance(err, DriverError) and err.code in STICKY
        hint = None
        if isinstance(err, DriverError) and err.code in _NOT_FOR_THIS_DRIVER:
            hint = ("the driver is older than the compiler: update it, or take the compiler of its version "
                    "(pip install 'loopkit[cuda12]')")
        elif lost or "memory access" in str(err) or "launch failure" in str(err):
            hint = ("an earlier launch has broken the context: start the process anew, and compile with debug=True to "
                    "find the launch")
        raise DeviceError(f"{gpu} cannot run kernel '{kernel}': {err}.", hint=hint) from None


def _way_out(gpu: Gpu, failure: DriverError, *, sticky: bool, certain: bool) -> str | None:
    if gpu.process != os.getpid() or failure.code == _NOT_INITIALIZED:
        return "CUDA does not survive a fork: start worker processes with multiprocessing's 'spawn'"
    if failure.code == OUT_OF_MEMORY:
        return "free arrays, torch's cache (torch.cuda.empty_cache()) among them"
    if sticky:
        find = "" if certain else "compile(knl, target='cuda', debug=True) waits for each launch and finds the one; "
        return (f"{find}the process must be started anew, and compute-sanitizer python ... shows the access")
    return None


def describe(launch: PreparedLaunch | PreparedClear | HostedLaunch, arrays: Mapping[str, ArrayLike],
             addresses: Mapping[str, int], values: Mapping[str, Any]) -> Iterator[str]:
    """A line for each parameter of *launch*."""
    for p in launch.launch.parameters:
        match p.kind:
            case ParameterKind.ARRAY:
                array = arrays[p.array]
                yield (f"{p.name}: {array.dtype}, shape {array.shape}, strides {array.strides} bytes, at "
                       f"{addresses[p.array]:#x}")
            case ParameterKind.SCRATCH:
                yield f"{p.name}: {p.dtype}, a temporary, at {addresses.get(p.array, 0):#x}"
            case ParameterKind.VALUE | ParameterKind.HOST:
                yield f"{p.name} = {values[p.name]}"
            case ParameterKind.STRIDE:
                pass                                   # listed with its array
