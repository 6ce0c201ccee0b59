"""The steps of kernels that loopy has in its package of schedules; their modules import this package."""
from __future__ import annotations

from typing import Any

from loopkit.lazy import LazyTable

_STEPS = LazyTable[Any]({name: f"loopkit.compat.loopy.transform.instruction:{name}" for name in (
    "get_one_linearized_kernel", "get_one_scheduled_kernel", "linearize")})


def __getattr__(name: str) -> Any:
    if name in _STEPS.addresses:
        return _STEPS[name]
    raise AttributeError(f"loopkit.compat.loopy.schedule has no attribute '{name}'.", name=name)
