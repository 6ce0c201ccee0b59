"""Compilation of OpenCL C by the driver of a device; drivers and pyopencl keep the binaries."""
from __future__ import annotations

import warnings
from typing import Any

from loopkit.runtime.compiler import COMPILED, LOG, KeptInMemory, dump, rejected
from loopkit.runtime.opencl.devices import OpenCLDevice

#: The first error in the log of a compiler that is made of clang, as nearly all are.
_ERROR = r"(?::|line )(\d+)(?::\d+)?: (?:fatal )?error"


@KeptInMemory
def build_program(source: str, kernel: str, device: OpenCLDevice, options: tuple[str, ...]) -> Any:
    """The program of *source* for *device*, kept in memory; :raises CompilerError: the driver rejects it."""
    cl = device.cl
    dump(source, kernel, ".cl")
    program = cl.Program(device.context, source)
    try:
        with warnings.catch_warnings():
            # a log is a warning of pyopencl's
            warnings.simplefilter("ignore")
            program.build([*device.options, *options], [device.device])
    except cl.RuntimeError as err:
        raise rejected(f"The compiler of {device}", kernel, source, str(err), _ERROR,
                       hint="generate_code(knl, target='opencl') shows the whole text") from None
    LOG.debug(COMPILED, kernel)
    return program
