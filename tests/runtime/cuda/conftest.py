"""The fake GPUs, installed for one test and gone after it."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from loopkit.runtime import host, typed
from loopkit.runtime.cuda import devices, launching, runner
from tests.runtime.cuda.fake_arrays import fake_cupy, fake_torch, fill_gpuarray
from tests.runtime.cuda.fake_code import Codes, single_threaded
from tests.runtime.cuda.fake_driver import FakeDriver, fake_pycuda
from tests.runtime.cuda.fake_gpu import Faults, Machine


@dataclass
class Lab:
    """A machine with its libraries.

    :ivar at_exit: what was to be done when the process ends.
    """

    machine: Machine
    codes: Codes
    modules: dict[str, ModuleType]
    torch: Any
    cupy: Any
    at_exit: list[Callable[[], object]]

    @property
    def gpuarray(self) -> Any:
        return self.modules["pycuda.gpuarray"]

    @property
    def pycuda(self) -> Any:
        return self.modules["pycuda.driver"]


def _forget() -> None:
    devices._initialised.cache_clear()
    runner.array_kinds.cache_clear()
    launching.load_module.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Lab:
    """Put *machine* where the runtime looks for GPUs; monkeypatch and :func:`_forget` take it away."""
    codes = Codes(typed.generate_code)
    driver = FakeDriver(machine, codes)
    modules = fake_pycuda(machine)
    fill_gpuarray(modules["pycuda.gpuarray"], modules["pycuda.driver"], machine)
    torch, cupy = fake_torch(machine), fake_cupy(machine)
    for name, module in {**modules, "torch": torch, "cupy": cupy}.items():
        monkeypatch.setitem(sys.modules, name, module)
    at_exit: list[Callable[[], object]] = []
    register = SimpleNamespace(register=at_exit.append)
    monkeypatch.setattr(devices, "load_driver", lambda: driver)
    monkeypatch.setattr(devices, "_gpus", {})
    monkeypatch.setattr(devices, "atexit", register)
    monkeypatch.setattr(typed, "generate_code", codes.generate)
    monkeypatch.setattr(host, "find_compiler", single_threaded)
    monkeypatch.setattr(runner, "load_binary", codes.load_binary)
    _forget()
    return Lab(machine, codes, modules, torch, cupy, at_exit)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two GPUs, sm_90 and sm_80, whose operations run as late as they may."""
    found = install(monkeypatch, Machine())
    yield found
    _forget()
    found.machine.faults = Faults()
    try:
        # what a failed test holds is still alive
        if not found.machine.sticky and not request.node.stash.get(_FAILED, False):
            _require_clean(found.machine)
    finally:
        found.machine.closed = True


@pytest.fixture(autouse=True, scope="module")
def _young_objects() -> None:
    """Tests here look for garbage: among what they make, not among what is kept of a thousand tests before them."""
    gc.freeze()


def _require_clean(machine: Machine) -> None:
    """Nothing was written beside what was allocated, no context is left behind, and all memory is free again."""
    machine.require_sound()
    if machine.alive():
        gc.collect()
    assert not machine.alive(), f"never freed: {[(a.what, a.size) for a in machine.alive()]}"
