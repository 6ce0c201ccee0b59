"""Executors with loopy's calling convention: ``(event, outputs)``."""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.bounds import as_compiled, without_divisibility
from loopkit.compat.loopy.diagnostic import NoExecutable, StridesMismatchError
from loopkit.compat.loopy.kernel.data import ArrayArg
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.typing import auto
from loopkit.errors import CallError, CompilerError
from loopkit.expr.evaluate import known_value, parameter_plus_constant
from loopkit.kernel.printing import integer_arguments
from loopkit.poly.limits import bounded
from loopkit.verification.checks import generate_code


class ExecutorBase:
    """A kernel, compiled for each combination of the dtypes of its arguments.

    :ivar t_unit: the program, and *entrypoint*: the kernel of it that a call enters.
    """

    t_unit: Any = None
    entrypoint: str = ""

    def __init__(self, kernel: LoopKernel, target: Any, *context: Any) -> None:
        self.kernel = kernel = separated(kernel, finally_=True)
        self.context = context
        self._target = target
        self._core_target = target.core_target(kernel.options.build_options or ())
        self._compiled: dict[tuple[tuple[tuple[str, np.dtype[Any]], ...], Any], lk.CompiledKernel] = {}
        self._undefined = [name for name, d in kernel.declared.items() if isinstance(d, ArrayArg) and _is_undefined(
            d, kernel) and name in kernel.core.array_args]

    def require_entrypoint(self, name: str | None) -> None:
        """:raises CallError: *name* is another kernel than the one that this executor runs."""
        if name not in (None, self.kernel.name):
            raise CallError(f"This executor runs '{self.kernel.name}', and not '{name}'.", argument="entrypoint",
                            hint=f"program.executor(..., entrypoint={name!r})")

    def outputs_of(self, arguments: Mapping[str, Any], device: Any = None, new: Callable[..., Any] | None = None
                   ) -> Mapping[str, Any]:
        """Run the kernel with arrays, on *device* if it is given; the outputs by name.

        :arg new: makes an array of zeros for an output from its shape and its dtype; ``None``: the runtime does.
        """
        arguments = self.separated(arguments)
        self._require_order(arguments)
        core = self.kernel.core
        sizes = integer_arguments(core)
        known = tuple((name, np.dtype(np.int32) if isinstance(value, int) else _dtype_of(value))
                      for name, value in arguments.items() if name in core.argument_by_name and name not in sizes
                      and core.argument_by_name[name].dtype is None)
        key = known, device
        if key not in self._compiled:
            typed = as_compiled(lk.add_dtypes(core, dict(known)) if known else core)
            try:
                self._compiled[key] = lk.compile(typed, target=self._core_target, device=device)
            except CompilerError as err:
                raise NoExecutable(err.message, log=err.log, hint=err.hint) from err
            if self.kernel.options.write_code or self.kernel.options.write_wrapper:
                sys.stdout.write(f"{generate_code(typed, target=self._core_target)}\n")
        run = self._compiled[key]
        made = self._made(run.kernel, arguments, new)
        try:
            found = run(**arguments, **made).asdict()
        except CallError:
            if self._general is None:
                raise
            return self._general.outputs_of(arguments, device, new)
        if made.keys() <= found.keys():
            return found
        return {a.name: found.get(a.name, made.get(a.name)) for a in core.arguments if a.name in {*found, *made}}

    @cached_property
    def _general(self) -> ExecutorBase | None:
        """The executor of the kernel for sizes without the divisibility that it assumes."""
        core = without_divisibility(self.kernel.core)
        return None if core is None else type(self)(self.kernel.with_core(core), self._target, *self.context)

    def _require_order(self, given: Mapping[str, Any]) -> None:
        """:raises StridesMismatchError: an array does not have the order of axes that loopy expects: C if none is
        declared.
        """
        if self.kernel.options.skip_arg_checks:
            return
        for name, a in self.kernel.core.array_args.items():
            array: Any = given.get(name)
            order = "C" if a.order is None and a.strides is None else a.order
            declared = self.kernel.declared.get(name)
            strides = None if getattr(declared, "order", None) is auto else getattr(array, "strides", None)
            if order in ("C", "F") and strides is not None:
                expected, axes = np.dtype(array.dtype).itemsize, range(len(array.shape))
                for axis in axes if order == "F" else reversed(axes):
                    if strides[axis] != expected and array.shape[axis] > 1 and 0 not in array.shape:
                        way = "ascontiguousarray" if order == "C" else "asfortranarray"
                        raise StridesMismatchError(
                            f"strides mismatch: '{name}' has the strides {strides}, and is declared in order {order}.",
                            argument=name, hint=f"pass np.{way}({name}), or declare order= or strides=")
                    expected *= array.shape[axis]

    def _made(self, core: lk.LoopKernel, given: Mapping[str, Any], new: Callable[..., Any] | None) -> dict[str, Any]:
        """New arrays of zeros for missing arguments whose first values have no meaning, and for outputs by *new*.

        :raises CallError: the sizes of one are not known.
        """
        made, values = dict[str, Any](), _sizes(core, given)
        only_written = self.kernel.get_written_variables() - self.kernel.get_read_variables()
        with bounded(f"inferring shapes of kernel '{core.name}'"):
            shapes = array_shapes(core)
        for name, a in core.array_args.items():
            undefined = name in self._undefined
            plain = a.order in (None, "C") and a.strides is None and a.shape_like is None
            if given.get(name) is None and (undefined or (new is not None and plain and name in only_written)):
                shape = [None if e is None else known_value(e, values) for e in shapes.get(name, (None,))]
                if None not in shape and a.dtype is not None:
                    made[name] = (np.zeros if new is None else new)(tuple(shape), a.dtype)
                elif undefined:
                    raise CallError(f"'{name}' is missing, and its shape is not known.", argument=name,
                                    hint=f"pass {name}=..., or its sizes")
        return made

    def separated(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """*given* with the parts of each array whose first axis the kernel separates into arguments."""
        known, found = self.kernel.core.argument_by_name, dict(given)
        for name, parts in given.items():
            if name not in known and f"{name}_s0" in known:
                del found[name]
                # parts that the kernel does not have are left over, as in loopy
                found |= {own: part for k, part in enumerate(parts) if (own := f"{name}_s{k}") in known}
        return found

    def results(self, outputs: Mapping[str, Any]) -> Any:
        """The *outputs* in the form that the options of the kernel ask for."""
        return dict(outputs) if self.kernel.options.return_dict else tuple(outputs.values())


class HostExecutor(ExecutorBase):
    """Runs a kernel on the host: ``executor(a=..., n=...)``; :raises CallError: a value has no name."""

    def __call__(self, *args: Any, entrypoint: str | None = None, **kwargs: Any) -> tuple[Any, Any]:
        self.require_entrypoint(entrypoint)
        if args:
            raise CallError("A call on the host takes its arguments by their names.", argument="args", hint=
                            f"pass {', '.join(f'{x.name}=...' for x in self.kernel.core.arguments)}")
        given = {name: value for name, value in kwargs.items() if value is not None}
        return None, self.results(self.outputs_of(given))


class OpenCLExecutor(ExecutorBase):
    """Runs a kernel on the device of a queue, with arrays of pyopencl or numpy: ``executor(queue, a=..., n=...)``."""

    def __call__(self, queue: Any = None, *, allocator: Any = None, wait_for: Any = (), out_host: bool | None = None,
                 entrypoint: str | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Launch the kernel, after the events *wait_for*.

        :arg allocator: the allocator of outputs on the device that are not passed, if no array on the device is passed.
        :arg out_host: return arrays of numpy; default: if arrays of numpy are passed, and none on the device.
        :returns: an event after the launch, and the outputs.
        :raises CallError: the first argument is not a queue of pyopencl.
        """
        self.require_entrypoint(entrypoint)
        if queue is None:
            raise CallError("A call with PyOpenCLTarget has a queue as its first argument.", argument="queue", hint=
                            "pass a pyopencl.CommandQueue; with target=lp.ExecutableCTarget() a call has no queue")
        import pyopencl as cl
        from pyopencl import array
        if not isinstance(queue, cl.CommandQueue):
            raise CallError(f"{queue!r} is not a queue of OpenCL.", argument="queue",
                            hint="pass a pyopencl.CommandQueue before the other arguments")
        if wait_for:
            cl.enqueue_barrier(queue, wait_for=list(wait_for))
        given = self.separated({name: value for name, value in kwargs.items() if value is not None})
        host = {name for name, value in given.items() if isinstance(value, np.ndarray)}
        on_device = any(isinstance(value, array.Array) for value in given.values())
        on_host = bool(host) and not on_device if out_host is None else out_host
        new = None if host or on_device or on_host else partial(array.zeros, queue, allocator=allocator)
        outputs = dict(self.outputs_of(given, queue, new))
        for name, value in outputs.items():
            if on_host and isinstance(value, array.Array):
                outputs[name] = value.get(queue)
            elif not on_host and isinstance(value, np.ndarray) and not (name in host and out_host is None):
                # pyopencl copies contiguous arrays: the axes in the order of memory
                axes = [axis for _, axis in sorted((-stride, axis) for axis, stride in enumerate(value.strides))]
                copied: Any = array.to_device(queue, value.transpose(axes), allocator=allocator)
                outputs[name] = copied.transpose([axes.index(axis) for axis in range(value.ndim)])
        return cl.enqueue_marker(queue), self.results(outputs)


def _is_undefined(declared: ArrayArg, kernel: LoopKernel) -> bool:
    """Does the program declare that the kernel reads no value of the call from an array?

    A kernel that writes to an output without reading it allocates it anyway.
    """
    name = declared.name
    if declared.is_input is None or declared.is_input or not declared.is_output:
        return False
    return name in kernel.get_read_variables() or name not in kernel.get_written_variables()


def _sizes(core: lk.LoopKernel, given: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of a call: passed ones, and those that are extents of passed arrays, up to a constant."""
    found = {name: int(given[name]) for name in integer_arguments(core) if given.get(name) is not None}
    for name, a in core.array_args.items():
        extents = zip(a.shape or a.inferred or (), getattr(given.get(name), "shape", ()), strict=False)
        for extent, length in extents:
            size, constant = (None if extent is None else parameter_plus_constant(extent)) or ("", 0)
            found.setdefault(size, length - constant)
    return found


def _dtype_of(value: Any) -> np.dtype[Any]:
    """The dtype of an array or a number."""
    dtype = getattr(value, "dtype", None)
    return np.asarray(value).dtype if dtype is None else np.dtype(dtype)
