"""Calls of one kernel: the fast path by their signature, and the full check.

A call's signature is everything that a check depends on except addresses: the names passed, the dtypes, shapes and
strides of arrays, and the scalars that shapes, launches or texts depend on. Calls of one signature share a launch plan.
The general path opens the inputs, whatever arrays they are, checks them and makes the plan. The fast path looks up the
plan by the signature. The plan checks the addresses of each call, and launches.
"""
from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self

from loopkit.errors import CallError, DeviceError
from loopkit.kernel.data import GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.arguments import BoundArguments, require_known
from loopkit.runtime.cuda.resources import Binary
from loopkit.runtime.kinds import NUMPY, ArrayKinds, Kind, Reader, TorchKind
from loopkit.runtime.results import Outputs, Timing, TimingRequest
from loopkit.runtime.scalars import Scalar, converter
from loopkit.runtime.typed import Text, TypedKernels
from loopkit.runtime.views import ArrayView, share_memory
from loopkit.target.code import TextTarget
from loopkit.target.cuda.target import CudaTarget

#: Most signatures that are kept; then all are dropped and collected again.
_MOST_SIGNATURES = 4096


# A checked call

@dataclass(frozen=True)
class CallArray:
    """An array argument of the caller, or an output that the call allocates.

    :ivar position: the index of an argument among a call's values; negative for an output, among the allocated ones.
    :ivar fully_written: the kernel writes all of it, and does not read it before.
    """

    name: str
    position: int
    kind: Kind
    view: ArrayView
    written: bool = True
    fully_written: bool = False

    def new(self, *, zero: bool = False) -> Any:
        """A new array, zeroed if the kernel does not write all of it."""
        zero = zero or not self.fully_written
        return self.kind.new(self.view.shape, self.view.dtype, self.view.ordinal, zero=zero) if self.view.in_c_order \
            else self.kind.strided(self.name, self.view, zero=zero)


@dataclass(frozen=True)
class CheckedCall:
    """Everything that follows from a call's signature, for host and GPU.

    :ivar scalars: name, index among a call's values and conversion, of the scalars outside the signature.
    :ivar bound: the arrays as the launches get them, and the scalars of the signature.
    """

    kernel: str
    inputs: tuple[CallArray, ...]
    outputs: tuple[CallArray, ...]
    scalars: tuple[tuple[str, int, Callable[[Any], Scalar]], ...]
    fields: tuple[str, ...]
    text: Text
    bound: BoundArguments

    @property
    def arrays(self) -> tuple[CallArray, ...]:
        """All arrays, in the order of their addresses."""
        return (*self.inputs, *self.outputs)

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of a call's operands: its arrays, temporaries, and scalars."""
        return (*(x.name for x in self.arrays), *(p.name for p in self.text.scratch), *(x for x, _, _ in self.scalars))

    @cached_property
    def check(self) -> Callable[[Sequence[int]], None]:
        """A function that raises ``CallError`` if an input has no memory, its address is not aligned, or a written
        input overlaps another one."""
        # the kernel may not access some of the inputs
        masks = [(k, x.view.alignment - 1) for k, x in enumerate(self.inputs)
                 if x.name in self.bound.arrays and x.view.alignment > 1]
        # pairs of inputs that must not share memory, the first of which is written, with the range of the difference of
        # their addresses at which they may overlap
        apart = []
        for (a, x), (b, y) in itertools.permutations(enumerate(self.inputs), 2):
            (low, high), (other_low, other_high) = x.view.span, y.view.span
            if x.written and (a < b or not y.written) and low < high and other_low < other_high:
                apart.append((a, b, other_low - high, other_high - low))

        def check(addresses: Sequence[int]) -> None:
            if 0 in addresses:                         # a torch meta tensor has the signature of a tensor of the host
                for x, address in zip(self.inputs, addresses, strict=False):
                    if address == 0 and 0 not in x.view.shape:
                        raise CallError(f"'{x.name}' has a shape and no memory.", argument=x.name,
                                        hint="pass an array that holds data")
            for k, mask in masks:
                if addresses[k] & mask:
                    x = self.inputs[k]
                    raise CallError(f"'{x.name}' is not aligned to the size of {x.view.dtype}.", argument=x.name,
                                    hint=f"pass {x.name}.copy()")
            for a, b, low, high in apart:
                if low < addresses[a] - addresses[b] < high:
                    x, y = self.inputs[a], self.inputs[b]
                    if share_memory(replace(x.view, pointer=addresses[a]), replace(y.view, pointer=addresses[b])):
                        raise CallError(f"'{x.name}' is written and overlaps '{y.name}' in memory.", argument=x.name,
                                        hint=f"pass {y.name}.copy(), or another array for '{x.name}'")
        return check

    def numbers(self, values: Sequence[Any]) -> list[Scalar]:
        """The scalars outside the signature; :raises CallError: one does not fit."""
        return [convert(values[i]) for _, i, convert in self.scalars]

    @cached_property
    def results(self) -> Callable[[Sequence[Any], Sequence[Any]], Outputs]:
        """A function from a call's values and the allocated outputs to the call's result."""
        make = Outputs.maker(self.fields)
        places = {x.name: x.position for x in self.arrays}
        returned = [places[x] for x in self.fields]
        if len(returned) == 1 and not self.outputs:
            first, = returned
            return lambda originals, made: make((originals[first],))
        return lambda originals, made: make([originals[i] if i >= 0 else made[i] for i in returned])


#: From a call's values, the addresses of its inputs, and its values before conversion, to its outputs.
Run = Callable[[Sequence[Any], list[int], Sequence[Any]], Outputs]


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call with all arguments fixed, made by :meth:`CompiledKernel.bind`; keeps the memory *kept* alive."""

    run: Callable[[], Outputs]
    launches: Sized
    kept: object

    @property
    def number_of_launches(self) -> int:
        return len(self.launches)

    def __call__(self) -> Outputs:
        return self.run()


class LaunchPlan(Protocol):
    """The launches of the calls of one signature."""

    @property
    def run(self) -> Run: ...

    def allocated(self, values: Sequence[Any]) -> Mapping[str, Any]:
        """New outputs, zeroed, for a call with *values* that keeps them."""

    def bound(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> BoundCall:
        """The call with all of its arguments fixed."""


# The two paths

@dataclass
class CallSignatures:
    """The signatures of calls that pass the same names in the same order.

    :ivar arrays: indices of the array arguments; *sizes*: of the scalars that shapes, launches or texts depend on.
    :ivar open: indices of the scalars whose types determine dtypes; *scalars*: there are some of either sort.
    :ivar read: the fastest reader of the kinds of arrays that were passed last.
    :ivar plans: by signature; *recent*: the last one.
    """

    names: tuple[str, ...]
    arrays: tuple[int, ...]
    sizes: tuple[tuple[int, Callable[[object], Scalar]], ...]
    open: tuple[int, ...]
    read: Reader
    plans: dict[tuple[Hashable, ...], LaunchPlan] = field(default_factory=dict)
    recent: tuple[list[Hashable] | None, LaunchPlan | None] = (None, None)

    @cached_property
    def scalars(self) -> bool:
        return bool(self.sizes or self.open)

    def add_scalars(self, values: Sequence[Any], signature: list[Hashable]) -> None:
        """Add the scalars that a check depends on to *signature*; :raises CallError: one does not fit.

        ``None`` stands for an argument that is not passed, and is in no signature.
        """
        for i, convert in self.sizes:
            x = values[i]
            signature.append(x if type(x) is int or x is None else convert(x))
        for i in self.open:
            signature.append((type(values[i]), getattr(values[i], "dtype", None)))


class Runner(ABC):
    """Runs one kernel."""

    def __init__(self, knl: LoopKernel, target: TextTarget) -> None:
        self._target = target
        self.kernels = TypedKernels(knl, target.machine)
        self._arguments = knl.argument_by_name
        self._signatures: dict[tuple[str, ...], CallSignatures] = {}
        self._lock = threading.RLock()

    def call(self, given: Mapping[str, Any]) -> Outputs:
        """Run the kernel: a call with a known signature goes to its plan in as few steps as possible."""
        known = self._signatures.get(tuple(given))
        if known is not None:
            values = [*given.values()]
            read = known.read(values, known.arrays)
            if read is not None:
                signature, addresses = read
                if known.scalars:
                    known.add_scalars(values, signature)
                recent, plan = known.recent
                if signature != recent:
                    plan = known.plans.get(tuple(signature))
                if plan is not None:
                    known.recent = signature, plan
                    return plan.run(values, addresses, values)
        return self._call_in_general(_passed(given))

    def _call_in_general(self, given: Mapping[str, Any]) -> Outputs:
        """A call of any signature and any arrays; :raises CallError: an argument does not fit."""
        known = self._known(given)
        originals = [*given.values()]
        signature, values, addresses = self._opened(known, originals)
        known.read = self.kinds.reader([values[i] for i in known.arrays])
        plan = known.plans.get(signature)
        if plan is None:
            plan = self._plan(known, values)
            with self._lock:
                if len(known.plans) >= _MOST_SIGNATURES:
                    known.plans.clear()
                known.plans[signature] = plan
        return plan.run(values, addresses, originals)

    def bind(self, given: Mapping[str, Any]) -> BoundCall:
        """The call with all of its arguments fixed; outputs that are not passed are allocated once, if possible."""
        given = _passed(given)
        known = self._known(given)
        originals = [*given.values()]
        _, values, addresses = self._opened(known, originals)
        plan = self._plan(known, values)               # a plan of its own, because its launches keep their parameters
        made = plan.allocated(values)
        return self.bind({**given, **made}) if made else plan.bound(values, addresses, originals)

    def _known(self, given: Mapping[str, Any]) -> CallSignatures:
        names = tuple(given)
        with self._lock:
            found = self._signatures.get(names)
            if found is None:
                require_known(self.kernels.kernel.name, self._arguments.keys(), given)
                arguments = [*enumerate(self._arguments[x] for x in names)]
                sizes, unknown = self.kernels.structural, self.kernels.unknown
                found = self._signatures[names] = CallSignatures(
                    names, tuple(i for i, a in arguments if isinstance(a, GlobalArg)),
                    tuple((i, converter(a.name, a.dtype)) for i, a in arguments if a.name in sizes),
                    tuple(i for i, a in arguments if a.name in unknown and isinstance(a, ValueArg)), self.kinds.read)
            return found

    def _opened(self, known: CallSignatures, originals: list[Any]
                ) -> tuple[tuple[Hashable, ...], list[Any], list[int]]:
        """A call's signature, its values with opened arrays, and the addresses of these arrays."""
        values = [*originals]
        signature: list[Hashable] = []
        addresses = []
        for i in known.arrays:
            values[i] = self.kinds.open(known.names[i], values[i])
            found, address = self.kinds.signature(known.names[i], values[i])
            signature += found
            addresses.append(address)
        known.add_scalars(values, signature)
        signature += self._place_signature([values[i] for i in known.arrays])
        return tuple(signature), values, addresses

    def _place_signature(self, arrays: Sequence[Any]) -> tuple[Hashable, ...]:
        """The properties of the device that a run depends on besides the arguments."""
        return ()

    @property
    @abstractmethod
    def kinds(self) -> ArrayKinds:
        """The kinds of arrays passed so far."""

    @property
    def text_target(self) -> TextTarget:
        """The target of the text that is shown without a call."""
        return self._target

    # Streams and machine code, of targets that have them

    def on(self, stream: object) -> Self:
        """The same runner, with its launches on *stream*, of a library or a number."""
        raise self._without("streams")

    def ptx(self, text: Text) -> str:
        """The portable assembly of *text*."""
        raise self._without("PTX")

    def machine_code(self, text: Text) -> tuple[Binary, CudaTarget]:
        """The machine code of *text*, and the target that it is for."""
        raise self._without("machine code for GPUs")

    def _without(self, what: str) -> DeviceError:
        return DeviceError(f"Kernel '{self.kernels.kernel.name}' is compiled for the target '{self.text_target.name}', "
                           f"which has no {what}.", hint="compile(knl, target='cuda')")

    @abstractmethod
    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        """Measure a call; arrays that the kernel writes are copied first and stay unchanged."""

    @abstractmethod
    def _plan(self, known: CallSignatures, values: Sequence[Any]) -> LaunchPlan:
        """The launch plan of a fully checked call; :raises CallError: an argument does not fit."""

    def _arrays(self, known: CallSignatures, values: Sequence[Any]) -> list[CallArray]:
        """The array arguments of a call, opened."""
        written = self.kernels.kernel.written_names
        passed = ((known.names[i], i, self.kinds.of(values[i])) for i in known.arrays)
        return [CallArray(x, i, kind, kind.view(x, values[i]), x in written) for x, i, kind in passed]

    def _checked(self, known: CallSignatures, values: Sequence[Any], arrays: Sequence[CallArray], target: TextTarget,
                 ordinal: int | None = None, *, vectors: bool = True) -> CheckedCall:
        """The checked call of a text for *target* on the GPU *ordinal*; :raises CallError: an argument does not fit."""
        given = {**dict(zip(known.names, values, strict=True)), **{a.name: a.view for a in arrays}}
        typed = self.kernels.of(given)
        bound, fields = typed.plan.bind(given, copies=ordinal is not None), typed.plan.outputs
        text = typed.fitting(target, bound, vectors=vectors)
        inputs = tuple(replace(a, fully_written=a.name in bound.fully_written) for a in arrays)
        model = next((a for a in arrays if not a.view.on_host), None)
        of_host: Kind = next((a.kind for a in arrays if isinstance(a.kind, TorchKind)), NUMPY)
        maker, ordinal = (of_host, None) if model is None else (model.kind.of_outputs(values[model.position]), ordinal)
        passed = {a.name for a in arrays}
        made = [x for x in fields if x not in passed]
        outputs = tuple(CallArray(x, i - len(made), maker, replace(
            typed.plan.output_strides(x, bound.arrays[x], bound.values), ordinal=ordinal),
                                  fully_written=x in bound.fully_written) for i, x in enumerate(made))
        # a text's parameter may be narrower than the argument
        dtypes = {**{a.name: a.dtype for a in typed.kernel.arguments}, **text.integers}
        scalars = tuple((x, i, converter(x, dtypes[x])) for i, x in enumerate(known.names)
                        if x not in passed and x not in self.kernels.structural)
        return CheckedCall(self.kernels.kernel.name, inputs, outputs, scalars, fields, text, bound)


def _passed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call without those that are ``None``."""
    return {name: x for name, x in given.items() if x is not None}


#: Makes the runner of a kernel: from the kernel, its target, the user's device, and whether to wait for each launch.
MakeRunner = Callable[[LoopKernel, Any, object, bool], Runner]
