"""loopy's target for pyopencl."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from loopkit.compat.loopy.target.execution import OpenCLExecutor
from loopkit.compat.loopy.target.opencl import OpenCLTarget


@dataclass(frozen=True)
class PyOpenCLTarget(OpenCLTarget):
    """OpenCL, run by pyopencl.

    :cvar complex_prefixes: prefixes of pyopencl's types and functions of complex numbers, which the user's code has.
    """

    device: Any = field(default=None, compare=False)
    make_executor = OpenCLExecutor
    complex_prefixes: ClassVar[Mapping[str, str]] = {"complex64": "cfloat", "complex128": "cdouble"}
    complex_includes: ClassVar[str] = "#define PYOPENCL_DEFINE_CDOUBLE\n#include <pyopencl-complex.h>"
