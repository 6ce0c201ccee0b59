"""Calls of one kernel on GPUs: each checked in full once, and then recognised."""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from loopkit.errors import CallError, DeviceError
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.data import GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime import stages
from loopkit.runtime.alignment import address_masks
from loopkit.runtime.arguments import BoundArguments, require_known
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.cuda.bound import BoundCudaCall
from loopkit.runtime.cuda.compiler import Binary, load_binary
from loopkit.runtime.cuda.devices import Gpu, driver_in_use, find_gpu, why_not
from loopkit.runtime.cuda.faults import reported
from loopkit.runtime.cuda.hosted import HostedLaunches, host_inames
from loopkit.runtime.cuda.kinds import InterfaceKind, Opener, OwnKind, cannot_tell
from loopkit.runtime.cuda.launching import PreparedClear, PreparedLaunch, aside
from loopkit.runtime.cuda.program import GpuProgram, require_grid
from loopkit.runtime.cuda.ready import Given, Made, ReadyCall
from loopkit.runtime.kinds import NUMPY, Kind, Tell, TorchKind
from loopkit.runtime.outputs import Outputs
from loopkit.runtime.scalars import Scalar, converter
from loopkit.runtime.typed import Text, TypedKernels
from loopkit.runtime.views import ArrayLike, DeviceView, c_strides, span
from loopkit.target.cuda import CudaTarget

#: How many different calls are remembered; beyond it all are forgotten, and learnt again.
_MOST_CALLS = 4096
_MOST_STREAMS = 64
#: Arrays with as many elements need 64-bit indices.
_LARGE = 2**31


@dataclass
class Form:
    """Calls that pass the same names in the same order.

    :ivar arrays: positions of the array arguments; *sizes*: of the scalars that decide about shapes, launches or text.
    :ivar open: positions of the scalars whose types decide about dtypes; *scalars*: there are some of either sort.
    :ivar tell: what arrays tell, by the shortest way for the kinds that came so far.
    :ivar calls: by all that a check looks at; *recent*: the last one.
    """

    names: tuple[str, ...]
    arrays: tuple[int, ...]
    sizes: tuple[tuple[int, Callable[[object], Scalar]], ...]
    open: tuple[int, ...]
    tell: Tell = cannot_tell
    calls: dict[tuple[Hashable, ...], ReadyCall] = field(default_factory=dict)
    recent: tuple[list[Hashable] | None, Any] = (None, None)
    scalars: bool = field(init=False)

    def __post_init__(self) -> None:
        self.scalars = bool(self.sizes or self.open)

    def tell_scalars(self, values: Sequence[Any], key: list[Hashable]) -> None:
        """Add to *key* what a check looks at of the scalars among *values*; :raises CallError: one does not fit."""
        for i, convert in self.sizes:
            x = values[i]
            key.append(x if type(x) is int else convert(x))
        for i in self.open:
            key.append((type(values[i]), getattr(values[i], "dtype", None)))


class CudaRunner:
    """Runs one kernel on GPUs.

    :arg target: how texts are compiled; without an architecture, for whatever GPU they run on.
    :arg device: the only GPU to run on; ``None``: the one that the arrays of a call lie on.
    :arg stream: the handle of the stream to launch on; ``None``: the one that the arrays' libraries work on.
    :arg debug: wait for each launch and look for its errors.
    """

    def __init__(self, knl: LoopKernel, target: CudaTarget, device: object = None, *, debug: bool = False,
                 stream: int | None = None) -> None:
        self.kernels = TypedKernels(knl, target.machine)
        self._target = target
        self._gpu = None if device is None else find_gpu(device)
        self._debug = debug
        self._stream = stream
        self._arguments = knl.argument_by_name
        self._structural = stages.structural_values(knl)
        self._forms: dict[tuple[str, ...], Form] = {}
        self._programs: dict[tuple[Text, Gpu], GpuProgram] = {}
        self._others: dict[int, CudaRunner] = {}
        self._lock = threading.RLock()

    def on(self, stream: int) -> CudaRunner:
        """The same, with the launches on *stream*."""
        found = self._others.get(stream)
        if found is None:
            found = object.__new__(CudaRunner)
            found.__dict__.update(self.__dict__, _stream=stream, _forms={})
            if len(self._others) >= _MOST_STREAMS:
                self._others.clear()
            self._others[stream] = found
        return found

    @property
    def text_target(self) -> CudaTarget:
        """The target, for the GPU at hand where it leaves the architecture open."""
        if self._target.arch is not None or (self._gpu is None and why_not() is not None):
            return self._target
        return self._target.on((self._gpu or find_gpu(None)).known_arch)

    # {{{ calls

    def call(self, given: Mapping[str, Any]) -> Outputs:
        """Check and run; what was seen before is recognised with as few steps as there can be."""
        form = self._forms.get(tuple(given))
        if form is None:
            form = self._form(given)
        values = [*given.values()]
        try:
            key, addresses = form.tell(values, form.arrays)
            if form.scalars:
                form.tell_scalars(values, key)
            recent, ready = form.recent
            if key != recent:
                ready = form.calls[tuple(key)]
                form.recent = key, ready
        except (KeyError, CallError, RuntimeError, AttributeError, TypeError):
            return self._first_call(form, given)
        outputs: Outputs = ready.run(values, addresses, values)
        return outputs

    def _first_call(self, form: Form, given: Mapping[str, Any]) -> Outputs:
        """A call of a sort that was not seen before, or one that is refused."""
        if any(x is None for x in given.values()):
            return self.call(_something(given))
        originals = [*given.values()]
        key, values, addresses = self._look(form, originals)
        form.tell = opener().teller([values[i] for i in form.arrays], form.tell)
        ready = form.calls.get(key)
        if ready is None:
            ready = self._prepare(form, values)
            with self._lock:
                if len(form.calls) >= _MOST_CALLS:
                    form.calls.clear()
                form.calls[key] = ready
        return ready(values, addresses, originals)

    def bind(self, given: Mapping[str, Any]) -> BoundCudaCall:
        """The call with all of its arguments fixed; outputs on the GPU that are not there are made once."""
        given = _something(given)
        form = self._form(given)
        originals = [*given.values()]
        _, values, addresses = self._look(form, originals)
        ready = self._prepare(form, values).serving(values, addresses)
        if ready.made and not any(m.of_another_library for m in ready.made):
            with reported(ready.gpu, ready.kernel), ready.gpu:
                made = {m.name: m.kind.new(m.shape, m.dtype, ready.gpu.ordinal, zero=True) if m.adopt is None
                        else m.adopt(np.zeros(m.shape, m.dtype)) for m in ready.made}
                for stream in ready.streams:           # zeroed, whatever stream the runs will be on
                    ready.gpu.driver.synchronize(stream())
            return self.bind({**given, **made})
        return BoundCudaCall(ready, values, addresses, originals)

    def _form(self, given: Mapping[str, Any]) -> Form:
        names = tuple(given)
        require_known(self.kernels.kernel.name, self._arguments.keys(), given)
        arrays = [i for i, x in enumerate(names) if isinstance(self._arguments[x], GlobalArg)]
        sizes = [(i, converter(x, self._arguments[x].dtype)) for i, x in enumerate(names) if x in self._structural]
        unknown = [i for i, x in enumerate(names)
                   if x in self.kernels.unknown and isinstance(self._arguments[x], ValueArg)]
        with self._lock:
            return self._forms.setdefault(names, Form(names, tuple(arrays), tuple(sizes), tuple(unknown)))

    def _look(self, form: Form, originals: list[Any]) -> tuple[tuple[Hashable, ...], list[Any], list[int]]:
        """All that a check of these values looks at, the values, and the addresses of the arrays among them."""
        values = originals
        key: list[Hashable] = []
        addresses = []
        known = opener()
        for i in form.arrays:
            x = values[i]
            probe = known.probes.get(type(x))
            if probe is None:
                values = [*values]
                x = values[i] = known.open(form.names[i], x)
                probe = known.probes[type(x)]
            try:
                told, address = probe(x)
            except (RuntimeError, AttributeError, TypeError, KeyError, ValueError) as err:
                raise _unreadable(known, form.names[i], x, err) from None
            key += told
            addresses.append(address)
        form.tell_scalars(values, key)
        if self._gpu is None and all(_on_host(values[i]) for i in form.arrays):
            # no array says where to go: the GPU that is current now
            key.append(find_gpu().ordinal)
        return tuple(key), values, addresses

    # }}}

    # {{{ checking a call for the first time

    def _prepare(self, form: Form, values: Sequence[Any], *, vectors: bool = True) -> ReadyCall:
        """The call, checked; with vector accesses if they are wanted, and shapes and strides let them."""
        given = {name: values[i] for i, name in enumerate(form.names)}
        kinds = {form.names[i]: opener().kinds[type(values[i])] for i in form.arrays}
        views = {name: kind.view(name, given[name]) for name, kind in kinds.items()}
        gpu = self._place(kinds, views)
        typed = self.kernels.of({**given, **views})
        bound = typed.plan.bind({**given, **views}, allocate=lambda shape, dtype: DeviceView(
            dtype, tuple(shape), c_strides(tuple(shape), dtype.itemsize), 0, gpu.ordinal))
        # what is copied to the GPU lies there in C order
        strided = frozenset(x for x in bound.strided if x in bound.longer or isinstance(views.get(x), DeviceView))
        if any(isinstance(v, np.ndarray) and v.size >= _LARGE for v in views.values()):
            bound = replace(bound, wide=True)          # however close together its elements lie on the host
        text = typed.fitting(self.target_on(gpu), bound, strided, vectors=vectors)
        kind, adopt = _maker(given, kinds, views)
        made = tuple(Made(x, kind, bound.arrays[x].shape, bound.arrays[x].dtype, adopt, x not in bound.filled)
                     for x in typed.plan.outputs if x not in views)
        program = self._program(text, gpu)
        varying = tuple((i, x) for i, x in enumerate(form.names) if x not in kinds and x not in self._structural)
        written = self.kernels.kernel.written_names
        entries = tuple(_given(x, i, kinds[x], views[x], written=x in written, needed=x not in bound.filled)
                        for i, x in enumerate(form.names) if x in kinds)
        scratch = text.scratch.byte_counts(bound.values)
        launches = self._launches(program, text, bound, [*kinds, *(m.name for m in made)], scratch,
                                  {x: k for k, (_, x) in enumerate(varying)})
        libraries = [k for x, k in kinds.items() if isinstance(views[x], DeviceView)]
        dtypes = {a.name: a.dtype for a in typed.kernel.arguments}
        places = {g.name: k for k, g in enumerate(entries)}
        return ReadyCall(
            gpu, self.kernels.kernel.name, launches, entries, made, tuple(scratch.items()),
            len(text.scratch.cleared),
            next((k for k in libraries if not isinstance(k, InterfaceKind | OwnKind)), None),
            _streams(given, kinds, views, gpu), tuple((i, converter(x, dtypes[x])) for i, x in varying),
            tuple(x for _, x in varying),
            tuple((k, g.view.itemsize - 1) for k, g in enumerate(entries) if not g.on_host and g.view.itemsize > 1),
            _apart(entries), typed.plan.outputs,
            tuple((True, form.names.index(x)) if x in places else (False, [m.name for m in made].index(x))
                  for x in typed.plan.outputs),
            _must_wait(entries, made, given, chosen=self._stream is not None), bound.values, self._stream, self._debug,
            address_masks(text.code.assumed, ["" if g.on_host else g.name for g in entries],
                          {g.name: g.view.itemsize for g in entries}),
            partial(self._prepare, form, vectors=False))

    def place(self, given: Mapping[str, Any]) -> Gpu:
        """The GPU that a call with these arguments runs on."""
        opened = {x: opener().open(x, a) for x, a in given.items()
                  if a is not None and isinstance(self._arguments.get(x), GlobalArg)}
        kinds = {x: opener().kinds[type(a)] for x, a in opened.items()}
        return self._place(kinds, {x: kinds[x].view(x, a) for x, a in opened.items()})

    def _place(self, kinds: Mapping[str, Kind], views: Mapping[str, ArrayLike]) -> Gpu:
        """The GPU to run on; :raises CallError: arrays lie on another one."""
        found: dict[int, str] = {}
        for name, view in views.items():
            if isinstance(view, DeviceView) and view.ordinal >= 0:
                found.setdefault(view.ordinal, name)
        if len(found) > 1:
            (one, first), (two, second) = list(found.items())[:2]
            raise CallError(f"'{first}' lies on GPU {one} and '{second}' on GPU {two}.", argument=second,
                            hint="copy one of them to the other's GPU")
        if self._gpu is not None and found and self._gpu.ordinal not in found:
            ordinal, name = next(iter(found.items()))
            raise CallError(f"'{name}' lies on GPU {ordinal}, and the kernel was compiled for {self._gpu}.",
                            argument=name, hint="compile(knl, device=None) takes the GPU of the arrays")
        gpu = self._gpu if self._gpu is not None else find_gpu(next(iter(found), None))
        for name, view in views.items():
            if isinstance(view, DeviceView) and view.pointer and kinds[name].name not in _OF_PRIMARY_CONTEXTS:
                place = gpu.driver.place(view.pointer)
                if place is not None and place[1] not in (0, gpu.context_handle):
                    raise CallError(f"'{name}' lies in a CUDA context of its own, which kernels cannot reach: they run "
                                    f"in the primary context of the device, as torch, CuPy and numba do.",
                                    argument=name, hint="import pycuda.autoprimaryctx instead of pycuda.autoinit")
        return gpu

    def target_on(self, gpu: Gpu) -> CudaTarget:
        """What texts are compiled for on *gpu*; :raises DeviceError: it cannot run what was asked for."""
        if self._target.arch is None:
            return self._target.on(gpu.known_arch)
        asked = self._target.arch.removeprefix("sm_")
        major, minor = divmod(int(asked.rstrip("af")), 10)
        exact = asked[-1] == "a"
        if gpu.capability[0] != major or gpu.capability[1] < minor or (exact and gpu.capability[1] != minor):
            raise DeviceError(f"Code for {self._target.arch} does not run on {gpu}.",
                              hint=f"compile(knl, target=lk.CudaTarget(arch='{gpu.arch}')), or target='cuda' for "
                                   f"whatever GPU there is")
        return self._target

    def _program(self, text: Text, gpu: Gpu) -> GpuProgram:
        with self._lock:
            found = self._programs.get((text, gpu))
            if found is None:
                binary = self.binary(text, self.target_on(gpu))
                with reported(gpu, self.kernels.kernel.name):
                    found = self._programs[text, gpu] = GpuProgram(gpu, binary.cubin, text.code.kernels)
            return found

    def binary(self, text: Text, target: CudaTarget) -> Binary:
        """The machine code of *text*."""
        return load_binary(text.code.source, self.kernels.kernel.name, target, DiskCache(cache_directory()))

    def _launches(self, program: GpuProgram, text: Text, bound: BoundArguments, arrays_of_call: Sequence[str],
                  scratch: Mapping[str, int], varying: Mapping[str, int]
                  ) -> tuple[PreparedLaunch | PreparedClear, ...] | HostedLaunches:
        arrays = {name: DeviceView(x.dtype, x.shape, c_strides(x.shape, x.itemsize), 0, program.gpu.ordinal)
                  if isinstance(x, np.ndarray) else x for name, x in bound.arrays.items()}
        code = text.code
        numbers = {x: k for k, x in enumerate((*arrays_of_call, *scratch))}
        cleared = text.scratch.cleared
        first = [PreparedClear(program.gpu.driver, code.kernels[0], numbers[cleared[0]],
                               sum(aside(scratch[x]) for x in cleared))] if cleared else []
        if code.order is not None:
            hosts = host_inames(code.kernels)
            scalars = {**varying, **{x: len(varying) + k for k, x in enumerate(hosts)}}
            prepared = {launch.name: PreparedLaunch(program.gpu.driver, program.functions[launch.name], launch,
                                                    (1, 1, 1), numbers, arrays, bound.values, scalars)
                        for launch in code.kernels}
            return HostedLaunches(program.gpu, prepared, code.order, hosts, bound.values, first)
        result: list[PreparedLaunch | PreparedClear] = [*first]
        for launch in code.kernels:
            grid = tuple(int(evaluate(e, bound.values)) for e in launch.grid)
            if min(grid) > 0:
                require_grid(program.gpu, launch, grid)
                result.append(PreparedLaunch(program.gpu.driver, program.functions[launch.name], launch, grid,
                                             numbers, arrays, bound.values, varying))
        return tuple(result)

    # }}}


#: Kinds whose arrays lie in primary contexts for sure.
_OF_PRIMARY_CONTEXTS = ("torch", "cupy")


def _on_host(x: Any) -> bool:
    return isinstance(x, np.ndarray) or bool(getattr(x, "is_cpu", False))


def _something(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in given.items() if x is not None}


@lru_cache(maxsize=1)
def opener() -> Opener:
    """What knows the kinds of arrays in this process."""
    return Opener(driver_in_use())


def _unreadable(known: Opener, name: str, x: Any, err: Exception) -> CallError:
    """The error for an array that does not say where it lies: its kind's own words where it has some."""
    try:
        known.kinds[type(x)].view(name, x)
    except CallError as found:
        return found
    except (RuntimeError, AttributeError, TypeError, KeyError, ValueError):
        pass
    return CallError(f"'{name}' does not say where it lies: {err}.", argument=name)


def _given(name: str, position: int, kind: Kind, view: ArrayLike, *, written: bool, needed: bool) -> Given:
    low, high = span(view.shape, view.strides, view.itemsize)
    on_gpu = isinstance(view, DeviceView)
    kept = view if isinstance(view, DeviceView) else DeviceView(view.dtype, view.shape, view.strides, 0, -1)
    return Given(name, position, kind, kept, low, high, written, not on_gpu, needed)


def _apart(given: Sequence[Given]) -> tuple[tuple[int, int], ...]:
    """Pairs of places that must not share memory, the first of which is written."""
    pairs = []
    for a, x in enumerate(given):
        for b, y in enumerate(given):
            both = x.written and y.written
            if x.written and a != b and not (both and b < a) and x.low < x.high and y.low < y.high:
                pairs.append((a, b))
    return tuple(pairs)


def _maker(given: Mapping[str, Any], kinds: Mapping[str, Kind], views: Mapping[str, ArrayLike]
           ) -> tuple[Kind, Callable[[Any], Any] | None]:
    """The kind of the outputs that a call allocates: that of the first array on a GPU, else of the first of all.

    The second is for arrays in the host's memory: it makes one out of numpy's.
    """
    for name, kind in kinds.items():
        if isinstance(views[name], DeviceView):
            if isinstance(kind, OwnKind):
                return OwnKind(given[name].namespace), None
            return kind, None
    for kind in kinds.values():
        if isinstance(kind, TorchKind):
            return kind, kind.adopt
    return NUMPY, NUMPY.adopt


def _streams(given: Mapping[str, Any], kinds: Mapping[str, Kind], views: Mapping[str, ArrayLike], gpu: Gpu
             ) -> tuple[Callable[[], int], ...]:
    """What gives the streams of the libraries whose arrays lie on the GPU, those with a current stream first."""
    found: dict[object, Callable[[], int]] = {}
    for name, kind in sorted(kinds.items(), key=lambda item: item[1].name not in _OF_PRIMARY_CONTEXTS):
        if isinstance(views[name], DeviceView):
            if isinstance(kind, InterfaceKind):
                stream = kind.own_stream(given[name])
                found[kind, stream] = partial(int, stream)
            else:
                found[kind.name] = kind.stream(gpu.ordinal)
    return tuple(found.values())


def _must_wait(given: Sequence[Given], made: Sequence[Made], values: Mapping[str, Any], *, chosen: bool) -> bool:
    """Is there an array whose library cannot know of the launches, and might read it too early or take it back?

    :arg chosen: the caller chose the stream, and orders with it what it can; not what came through DLPack.
    """
    if chosen:
        return any(m.of_another_library for m in made) or any(
            isinstance(g.kind, OwnKind) and values[g.name].imported for g in given)
    return any(isinstance(m.kind, OwnKind | InterfaceKind) and m.adopt is None for m in made) or any(
        isinstance(g.kind, OwnKind) for g in given)

