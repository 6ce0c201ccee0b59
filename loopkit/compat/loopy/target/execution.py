"""Executors with loopy's calling convention: ``(event, outputs)``."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.dtypes import with_loopy_dtypes
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.kernel.printing import integer_arguments

#: loopkit's target that runs programs for OpenCL, on copies of their arrays: loopkit has no target for OpenCL yet.
OPENCL_RUNS_ON = "c"


class ExecutorBase:
    """A kernel, compiled for each combination of the dtypes of its arguments."""

    def __init__(self, kernel: LoopKernel, target: Any, *context: Any) -> None:
        self.kernel = kernel
        self.context = context
        self._core_target = target.core
        self._compiled: dict[tuple[tuple[str, np.dtype[Any]], ...], lk.CompiledKernel] = {}

    def outputs_of(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run the kernel with arrays of numpy; the outputs by name."""
        core = self.kernel.core
        sizes = integer_arguments(core)
        known = tuple((name, np.asarray(value).dtype if not isinstance(value, int) else np.dtype(np.int32))
                      for name, value in arguments.items() if name in core.argument_by_name and name not in sizes
                      and core.argument_by_name[name].dtype is None)
        if known not in self._compiled:
            typed = with_loopy_dtypes(lk.add_dtypes(core, dict(known)) if known else core)
            self._compiled[known] = lk.compile(typed, target=self._core_target)
        return self._compiled[known](**arguments).asdict()

    def results(self, outputs: Mapping[str, Any]) -> Any:
        """The *outputs* in the form that the options of the kernel ask for."""
        return dict(outputs) if self.kernel.options.return_dict else tuple(outputs.values())


class HostExecutor(ExecutorBase):
    """Runs a kernel on the host: ``executor(a=..., n=...)``."""

    def __call__(self, *args: Any, entrypoint: str | None = None, **kwargs: Any) -> tuple[Any, Any]:
        given = {name: value for name, value in kwargs.items() if value is not None}
        return None, self.results(self.outputs_of(given))


class OpenCLExecutor(ExecutorBase):
    """Runs a kernel with arrays of pyopencl or numpy: ``executor(queue, a=..., n=...)``."""

    def __call__(self, queue: Any, *, allocator: Any = None, wait_for: Any = (), out_host: bool | None = None,
                 entrypoint: str | None = None, **kwargs: Any) -> tuple[Any, Any]:
        import pyopencl as cl
        from pyopencl import array
        device = {name: value for name, value in kwargs.items() if isinstance(value, array.Array)}
        host = {name: value.get(queue) if name in device else value for name, value in kwargs.items()
                if value is not None}
        outputs = dict(self.outputs_of(host))
        given = {name for name, value in kwargs.items() if isinstance(value, np.ndarray)}
        on_host = bool(given) and not device if out_host is None else out_host
        for name, value in outputs.items():
            if name in device:
                device[name].set(value, queue)
                outputs[name] = value if on_host else device[name]
            elif not on_host and not (name in given and out_host is None):
                outputs[name] = array.to_device(queue, value)
        return cl.enqueue_marker(queue), self.results(outputs)
