"""The compilers that some tests need beside those of the test extra."""
from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def c_compiler() -> str:
    """The machine's C compiler; without one the test is skipped, in CI it fails."""
    return _first("C", "cc", "gcc", "clang")


def cpp_compiler() -> str:
    """The machine's C++ compiler; without one the test is skipped, in CI it fails."""
    return _first("C++", "c++", "g++", "clang++")


def _first(language: str, *names: str) -> str:
    found = next((path for path in map(shutil.which, names) if path is not None), None)
    return found if found is not None else without(f"there is no {language} compiler")


def without(reason: str) -> NoReturn:
    """Skip a test for want of a tool that CI must have: there a skip would hide what is not tested."""
    if "CI" in os.environ:
        pytest.fail(f"{reason}, and CI needs it", pytrace=False)
    pytest.skip(reason)
