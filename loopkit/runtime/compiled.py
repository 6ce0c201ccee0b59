"""Compiled kernels: called with arrays, compiled for each dtype and layout at the first call that needs it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

from loopkit.analysis.constructors import annotated
from loopkit.errors import CallError, DeviceError, PreconditionError, TypeInferenceError
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import extent_of_checks
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import of_host
from loopkit.kernel.target import Target, target_of_arrays
from loopkit.runtime.calls import BoundCall, MakeRunner
from loopkit.runtime.cuda.compiler import disassembly, has_cuda_compiler
from loopkit.runtime.cuda.devices import why_not
from loopkit.runtime.cuda.resources import Resources, kernel_resources
from loopkit.runtime.results import Outputs, Timing, TimingRequest
from loopkit.runtime.typed import Text
from loopkit.shown import Shown
from loopkit.target.code import Layout, resolve_text_target


class CompiledKernel(Shown):
    """A kernel with its compiled texts; call it with arrays and scalars by name.

    The arrays of each call determine the dtypes that the kernel leaves open. A text is generated and compiled at the
    first call that needs it.

    :ivar target: the name of the target, such as ``"c"`` or ``"cuda"``.
    """

    def __init__(self, kernel: LoopKernel, target: object, device: object = None, *, debug: bool = False,
                 verify: bool | str | None = None) -> None:
        self.kernel = kernel
        self._given = (target, device, debug, verify)
        checked = kernel if verify is None else annotated(
            kernel, options=replace(kernel.options, verify=extent_of_checks(verify)))
        self._has_stream = False
        resolved = resolve_text_target(target)
        self.target = resolved.name
        if resolved.runner is None:
            raise PreconditionError(f"Nothing runs kernels for the target '{self.target}'.", subject=self.target,
                                    hint=f"generate_code(knl, target={self.target!r}) gives their text")
        make: MakeRunner = resolve_name(resolved.runner)
        self._runner = make(checked, resolved, device, debug)
        self._call = self._runner.call

    def __call__(self, /, *args: object, **kwargs: object) -> Outputs:
        """Run the kernel.

        :returns: one entry for each written argument. An array that was passed is written in place and is the entry.
        :raises CallError: an argument does not fit.
        :raises LaunchError: the GPU reports an error.
        """
        if args:
            raise self._by_name(args)
        return self._call(kwargs)

    def bind(self, /, *args: object, **kwargs: object) -> BoundCall:
        """The kernel with all arguments fixed: a function without arguments that runs it and gives the outputs.

        All checks run here, once. The arrays are kept, and read again at each run. Outputs that are not passed are
        allocated and zeroed once, and written by each run.

        :raises CallError: an argument does not fit.
        """
        if args:
            raise self._by_name(args)
        return self._runner.bind(kwargs)

    def on(self, stream: object) -> CompiledKernel:
        """The same kernel, launching on *stream*; the caller then orders other uses of the arrays with the launches.

        :arg stream: a stream of torch, CuPy, pycuda, numba or cuda.core, or the number that is its handle; for OpenCL a
            queue of pyopencl. Without this call, launches go to the current stream of the arrays' library, or to the
            queue of the first array.
        :raises DeviceError: the target has no streams.
        """
        other: CompiledKernel = object.__new__(type(self))
        runner = self._runner.on(stream)
        other.__dict__.update(self.__dict__, _has_stream=True, _runner=runner, _call=runner.call)
        return other

    @checked
    def time(self, arguments: Mapping[str, Any] | None = None, /, *, duration: float = 0.2, warmup: int = 3,
             rotate: bool = False, bytes: float | None = None, flops: float | None = None,  # noqa: A002
             **kwargs: Any) -> Timing:
        """Measure the kernel's run time; arrays that it writes are copied first and stay unchanged.

        On a GPU, events before and after the launches are measured, with the arrays already on the GPU: copies and the
        host's work do not count. On the host its clock is used.

        :arg arguments: arguments whose names are taken by the options here.
        :arg duration: approximate length of the measurement, in seconds.
        :arg warmup: number of runs before the measurement.
        :arg rotate: rotate among copies of the arrays that together exceed the caches, so that each run reads its
            arguments from memory.
        :arg bytes: bytes moved by one run, *flops*: its floating-point operations; the result then has rates.
        :raises PreconditionError: an option has another type than its annotation.

        >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
        >>> timing = lk.compile(knl, target="c").time(x=np.ones(1000), bytes=16000, duration=0.01)
        >>> timing.seconds > 0, timing.gigabytes_per_second > 0
        (True, True)
        """
        given = {**(arguments or {}), **kwargs}
        return self._runner.time(given, TimingRequest(duration, warmup, rotate, bytes, flops))

    @property
    def source(self) -> str:
        """The text for arrays in C order with exactly their shapes and 32-bit indices.

        :raises TypeInferenceError: the kernel leaves dtypes open.
        """
        return self._text.code.source

    @property
    def ptx(self) -> str:
        """NVIDIA's portable assembly of :attr:`source`; needs a CUDA compiler and no GPU.

        :raises DeviceError: the target has none.
        """
        return self._runner.ptx(self._text)

    @property
    def cubin(self) -> bytes:
        """The machine code of :attr:`source`, an ELF file; needs a CUDA compiler and no GPU.

        :raises DeviceError: the target has none.
        """
        return self._runner.machine_code(self._text)[0].cubin

    @property
    def sass(self) -> str:
        """The disassembled machine code of :attr:`source`; also needs nvdisasm.

        :raises DeviceError: the target has none.
        :raises CompilerError: there is no disassembler.
        """
        return disassembly(self.cubin, self.kernel.name)

    @property
    def resources(self) -> Resources:
        """The resources of the kernels of :attr:`source`: registers, spills, shared memory, theoretical occupancy.

        :raises DeviceError: the target has none.

        >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
        >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 256, outer_tag="g.0", inner_tag="l.0")
        >>> taken = lk.compile(knl, target=lk.CudaTarget(arch="sm_90")).resources
        >>> taken["twice"].threads, taken["twice"].spill_stores, taken["twice"].occupancy
        (256, 0, 1.0)
        """
        text = self._text
        return kernel_resources(text.code.kernels, *self._runner.machine_code(text))

    @property
    def _text(self) -> Text:
        kernels = self._runner.kernels
        if kernels.unknown:
            raise TypeInferenceError(
                f"the dtypes of {', '.join(map(repr, kernels.unknown))} are open until kernel '{self.kernel.name}' is "
                "called.", subject=kernels.unknown[0], hint="declare them with add_dtypes(knl, {...})")
        return kernels.of({}).text(self._runner.text_target, Layout.declared(self.kernel))

    def _by_name(self, args: tuple[object, ...]) -> CallError:
        shown = [f"{a.name}={a.name}" for a in self.kernel.arguments[:len(args)]]
        shown += ["..."] if len(args) < len(self.kernel.arguments) else []
        return CallError(f"kernel '{self.kernel.name}' takes its arguments by name.", argument="",
                         hint=f"call it as {self.kernel.name}({', '.join(shown)})")

    def __copy__(self) -> CompiledKernel:
        return self                                    # it is immutable

    def __deepcopy__(self, memo: object) -> CompiledKernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._has_stream:
            raise DeviceError(f"A stream was chosen for kernel '{self.kernel.name}', and streams cannot be pickled.",
                              hint="pickle the kernel that on(...) was called of")
        target, device, debug, verify = self._given
        return partial(CompiledKernel, debug=debug, verify=verify), (self.kernel, target, device)

    @property
    def headline(self) -> str:
        return f"{self.kernel.name!r} for target '{self.target}'"


@checked
def compile(knl: LoopKernel, target: Target | str | None = None,                    # noqa: A001 (the public name)
            device: object = None, *, debug: bool = False, verify: bool | str | None = None,
            check_bounds: bool = False) -> CompiledKernel:
    """Return a callable for *knl*. Its first call with arguments of a kind generates and compiles the code.

    :arg target: ``"cuda"``, ``"c"``, ``"opencl"``, or a target object with options (``lk.CudaTarget(arch="sm_90a")``,
        ``lk.CTarget(fast=True)``); ``None``: a GPU with CUDA if one is usable, else the host. Kernels with
        the tags ``cpu.threads`` and ``cpu.simd`` run on the host.
    :arg device: the GPU, as a number or a device of torch or CuPy; for OpenCL a number, or a device, context or queue
        of pyopencl; ``None``: the device of the arrays of each call, and for arrays of the host the current GPU, or
        the first device of OpenCL.
    :arg debug: wait for each launch on a GPU and report its errors with the launch and its arguments.
    :arg verify: the checks before code generation, as for :func:`loopkit.generate_code`; ``None``: the kernel's options
        decide.
    :arg check_bounds: on the host, check each access that is not proven to be inside its array. An access outside is
        not made, and the call raises a :class:`~loopkit.BoundsError`.
    :raises PreconditionError: *target* or *verify* does not exist, or the target has no bounds checks.
    :raises CompilerError: there is no compiler, or the host's compiler miscompiles the trial loops with the options
        of the target.
    :raises DeviceError: there is no such GPU.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[at[i]]")
    >>> gather = lk.compile(knl, target="c", check_bounds=True)
    >>> gather(x=np.ones(3), at=np.array([2, 3, 0]))
    Traceback (most recent call last):
        ...
    loopkit.errors.BoundsError: 'insn' reads 'x' outside its shape (3,).
      with n = 3: insn[i=1] reads x[3]
      hint: correct the data behind x[at[i]], make 'x' larger, or guard the statement with if=
    """
    if target is None:
        # a GPU is usable only with a CUDA compiler
        on_host = check_bounds or any(of_host(tag) is not None for tag in knl.tags.values())
        on_gpu = device is not None or (not on_host and why_not() is None and has_cuda_compiler())
        target = "cuda" if on_gpu else "c"
    if check_bounds:
        target = resolve_text_target(target).with_bounds_checks()
    return CompiledKernel(knl, target, device, debug=debug, verify=verify)


def call(knl: LoopKernel, /, *args: object, **kwargs: object) -> Outputs:
    """Run *knl* like ``knl(...)``: compiled once for each target that arrays choose, and kept with the kernel."""
    target = target_of_arrays(kwargs.values())
    name = "compiled" if target is None else f"compiled for {target}"
    compiled: CompiledKernel | None = knl.memo.get(name)
    if compiled is None:
        compiled = knl.memo[name] = compile(knl, target)
    return compiled(*args, **kwargs)
