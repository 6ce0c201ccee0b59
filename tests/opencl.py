"""OpenCL for tests: PoCL of the test extra, or any other device."""
from __future__ import annotations

import platform
import sys
from functools import cache

import pytest

from loopkit.runtime.opencl.devices import OpenCLDevice, find_opencl, why_no_opencl
from tests.compilers import without


@cache
def _missing() -> str:
    missing = why_no_opencl()
    return "" if missing is None else missing.message


def opencl() -> OpenCLDevice:
    """The device of this machine; without one the test is skipped, or fails in CI where there are wheels of PoCL."""
    if _missing():
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            pytest.skip(_missing())                    # the test extra has no PoCL
        without(_missing())
    return find_opencl()


