"""OpenCL for tests: PoCL of the test extra, or any other device."""
from __future__ import annotations

from functools import cache

from loopkit.runtime.opencl.devices import OpenCLDevice, find_opencl, why_no_opencl
from tests.compilers import without


@cache
def _missing() -> str:
    missing = why_no_opencl()
    return "" if missing is None else missing.message


def opencl() -> OpenCLDevice:
    """The device of this machine; without one the test is skipped, in CI it fails."""
    if _missing():
        without(_missing())
    return find_opencl()


