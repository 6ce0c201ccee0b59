"""Kept facts of a call affect no other: calls that differ in one property from earlier calls.

Each call is made twice: on fake GPUs with arrays of all kinds, where it may be recognised, and on the host with numpy's
arrays of the same shapes, strides, overlaps and alignment, where every call is checked anew. Both must do the same to
every byte, or refuse for the same argument's sake.
"""
from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as drawn

import loopkit as lk
from tests.deep import amount
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Block, CupyArray, Exporter, Interface, OnGpu, Tensor
from tests.runtime.cuda.work import KINDS, F, read

ON_HOST = ("numpy", "torch_cpu")
_SIZE = 4096
_ROOM = {"x": 0, "b": 1024, "y": 2048}
#: Numbers of another sort, or that do not fit, are refused.
SCALARS: list[Any] = [2, 2.5, np.float32(1.5), np.int32(3), True, np.array(0.5, F), 2**40, 1e300, 1j, "2", np.ones(2)]
_WRONG = 7


@dataclass(frozen=True)
class Place:
    """An array within the bytes of a call.

    :ivar layout: how it lies: ``"c"``, ``"transposed"``, ``"steps"``, ``"reversed"``, ``"odd"`` (not aligned),
        ``"broadcast"``.
    :ivar at: where: a place of its own, or relative to ``x``: ``"x"``, ``"within x"``, ``"between x"``, ``"after x"``.
    """

    kind: str = "torch"
    dtype: str = "float32"
    layout: str = "c"
    at: str = "own"
    ordinal: int = 0
    longer: int = 0
    writeable: bool = True
    flaw: bool = False

    def view(self, name: str, shape: tuple[int, ...], memory: np.ndarray, x_start: int) -> np.ndarray:
        dtype = np.dtype(self.dtype)
        size = dtype.itemsize
        shape = tuple(n + self.longer for n in shape)
        strides = list(np.empty(shape, dtype).strides)
        start = {"own": _ROOM[name], "x": x_start, "within x": x_start + size, "between x": x_start + size,
                 "after x": x_start + 512}[self.at]
        match self.layout:
            case "transposed":
                strides = list(np.empty(shape[::-1], dtype).strides)[::-1]
            case "steps":
                strides = [2*s for s in strides]
            case "reversed":
                start += sum((n - 1)*s for n, s in zip(shape, strides, strict=True))
                strides = [-s for s in strides]
            case "odd":
                start += 1
            case "broadcast":
                strides[0] = 0
        view: np.ndarray = np.ndarray(shape, dtype, memory.data, start, strides)
        view.flags.writeable = self.writeable
        return view


@dataclass(frozen=True)
class Call:
    """One call of ``y[i,j] = s*x[i,j] + b[j]``."""

    x: Place = field(default_factory=Place)
    b: Place = field(default_factory=Place)
    y: Place | None = None
    shape: tuple[int, int] = (3, 4)
    s: int = 0
    n: int | str | None = "solved"
    m: int | str | None = "solved"
    order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    context: str = "none"
    stream: bool = False


#: What can be changed of a place, and of a call, and to what.
PLACES: dict[str, list[Any]] = {
    "kind": [*KINDS], "dtype": ["float32", "int32"], "ordinal": [0, 1], "longer": [0, 1], "writeable": [True, False],
    "flaw": [False, True], "layout": ["c", "transposed", "steps", "reversed", "odd", "broadcast"]}
ORDERS = [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (1, 0, 2, 3, 4, 5), (1, 2, 0, 3, 4, 5), (1, 2, 3, 0, 5, 4)]
CHANGES: dict[tuple[str, str], list[Any]] = {
    **{(x, name): values for x in "xby" for name, values in PLACES.items()},
    ("y", "at"): ["own", "x", "within x", "between x", "after x"], ("y", "there"): [True, False],
    ("all", "kind"): [*KINDS], ("all", "ordinal"): [0, 1],
    ("call", "shape"): [(3, 4), (4, 3), (1, 4), (0, 4), (6, 2)], ("call", "s"): [*range(len(SCALARS) + 1)],
    ("call", "n"): ["solved", None, 1, 2, 3, 40, -1, 2.0], ("call", "m"): ["solved", None, 1, 2, 3, 40, -1, 2.0],
    ("call", "order"): ORDERS, ("call", "context"): ["none", "first", "second", "foreign"],
    ("call", "stream"): [False, True]}
_changes = st.sampled_from(sorted(CHANGES)).flatmap(lambda at: st.sampled_from(CHANGES[at]).map(lambda v: (*at, v)))


def changed(call: Call, change: tuple[str, str, Any]) -> Call:
    what, name, value = change
    if what == "call":
        return replace(call, **{name: value})
    if what == "all":
        return replace(call, **{x: replace(p, **{name: value}) for x in "xby" if (p := getattr(call, x)) is not None})
    if name == "there":
        return replace(call, y=replace(call.x, layout="c", at="own", writeable=True, flaw=False) if value else None)
    place = getattr(call, what)
    return call if place is None else replace(call, **{what: replace(place, **{name: value})})


class Stage:
    """The memory of one call, on the host as it should become and wherever the arrays lie."""

    def __init__(self, lab: Lab, call: Call) -> None:
        self.lab, self.call = lab, call
        numbers = np.arange(_SIZE // 4)
        x = call.x
        self.start = numbers.astype(x.dtype if x.dtype == "int32" else F).view(np.uint8)
        self.host = self._memory()
        self.numpy = self._memory()
        self.gpus: dict[int, tuple[Any, np.ndarray]] = {}
        self.flawed = False

    def _memory(self) -> np.ndarray:
        room = np.empty(_SIZE + 256, np.uint8)
        offset = -room.ctypes.data % 256
        room[offset:offset + _SIZE] = self.start
        return room[offset:offset + _SIZE]

    def on_gpu(self, ordinal: int) -> tuple[Any, np.ndarray]:
        if ordinal not in self.gpus:
            block = Block(self.lab.machine, ordinal, _SIZE, 0)
            memory = block.array((_SIZE,), np.dtype(np.uint8))
            memory[:] = self.start
            self.gpus[ordinal] = block, memory
        return self.gpus[ordinal]

    def views(self, memory: np.ndarray) -> dict[str, np.ndarray]:
        call = self.call
        shapes = {"x": call.shape, "b": call.shape[1:], "y": call.shape}
        return {name: place.view(name, shapes[name], memory, _ROOM["x"])
                for name in "xby" if (place := getattr(call, name)) is not None}

    def array(self, name: str) -> Any:
        """The argument as its kind; a flaw is one that the kind can have."""
        place, torch = getattr(self.call, name), self.lab.torch
        if place.kind in ON_HOST:
            view = self.views(self.numpy)[name]
            return view if place.kind == "numpy" else Tensor(torch, view, requires_grad=self._flaw(place))
        owner, memory = self.on_gpu(place.ordinal)
        view = self.views(memory)[name]
        data = OnGpu(self.lab.machine, place.ordinal, owner, view)
        match place.kind:
            case "torch":
                return Tensor(torch, data, **{"requires_grad" if name == "x" else "neg": self._flaw(place)})
            case "cupy":
                return CupyArray(self.lab.cupy, place.ordinal, owner, view)
            case "pycuda":
                return self.lab.gpuarray.GPUArray(view.shape, view.dtype, view.ctypes.data, view.strides)
            case "interface":
                return Interface(data, data=(data.pointer, not place.writeable), mask=1 if self._flaw(place) else None)
        return Exporter(data)

    def _flaw(self, place: Place) -> bool:
        self.flawed = self.flawed or place.flaw
        return place.flaw

    def arguments(self, arrays: dict[str, Any]) -> dict[str, Any]:
        call = self.call
        named = [*arrays.items()]
        if call.s < len(SCALARS):
            named.append(("s", SCALARS[call.s]))
        named += [(x, value) for x in "nm" if (value := getattr(call, x)) != "solved"]
        return dict(sorted(named, key=lambda item: call.order["xbysnm".index(item[0])]))

    def result(self, out: Any) -> np.ndarray:
        """The output, waiting for no more than its library would."""
        if self.call.y is None:
            return read(self.lab, out)
        y = self.call.y
        if y.kind in ON_HOST:
            return self.views(self.numpy)["y"]
        library = {"torch": self.lab.torch, "cupy": self.lab.cupy}.get(y.kind)
        with self.lab.machine.context(self.lab.machine.primary(y.ordinal)):
            self.lab.machine.synchronize(0 if library is None else library.streams.of(y.ordinal))
        return self.views(self.gpus[y.ordinal][1])["y"].copy()

    def require_bytes(self) -> None:
        """What the host did to its memory was done where the output lies, and elsewhere nothing."""
        y = self.call.y
        for ordinal, (_, memory) in self.gpus.items():
            mine = y is not None and y.kind not in ON_HOST and y.ordinal == ordinal
            np.testing.assert_array_equal(memory, self.host if mine else self.start)
        mine = y is not None and y.kind in ON_HOST
        np.testing.assert_array_equal(self.numpy, self.host if mine else self.start)


def representable(call: Call) -> Call:
    """The nearest call that the libraries can express; overlaps are of arrays in one memory."""
    x = call.x
    for name in "xby":
        place = getattr(call, name)
        if place is None:
            continue
        if place.kind.startswith("torch") and place.layout in ("reversed", "odd"):
            place = replace(place, layout="c")
        if place.kind not in ("numpy", "interface"):
            place = replace(place, writeable=True)
        if place.kind not in ("torch", "torch_cpu", "interface"):
            place = replace(place, flaw=False)
        if name == "y" and place.at != "own":
            on_host = {place.kind in ON_HOST, x.kind in ON_HOST}
            if len(on_host) == 2 or (False in on_host and place.ordinal != x.ordinal):
                place = replace(place, at="own")
        call = replace(call, **{name: place})
    return call


def run(lab: Lab, on_gpu: lk.CompiledKernel, on_host: lk.CompiledKernel, call: Call, streams: tuple[int, int]) -> str:
    """Make one call both ways; gives what came of it."""
    stage, machine = Stage(lab, call), lab.machine
    arrays = {x: stage.array(x) for x in stage.views(stage.host)}
    wanted, problem = None, ""
    try:
        on_host._runner._signatures.clear()            # each call of the host is checked in full
        wanted = on_host(**stage.arguments(stage.views(stage.host))).y
    except lk.CallError as err:
        problem = err.argument
    contexts = {"none": None, "first": machine.primary(0), "second": machine.primary(1),
                "foreign": machine.foreign_context(0)}
    with ExitStack() as around:
        current = contexts[call.context]
        if current is not None:
            around.enter_context(machine.context(current))
        if call.stream:
            for ordinal in (0, 1):
                around.enter_context(lab.torch.streams.using(ordinal, streams[ordinal]))
        if wanted is None or stage.flawed or len(_gpus(call, arrays)) > 1:
            with pytest.raises(lk.CallError) as refused:
                on_gpu(**stage.arguments(arrays))
            if problem and _one_fault(call, stage, arrays) and "not aligned" not in str(refused.value):
                assert refused.value.argument == problem, str(refused.value)
            stage.host[:] = stage.start
            wanted = None
        else:
            out = on_gpu(**stage.arguments(arrays)).y
            assert call.y is None or out is arrays["y"]
            found = stage.result(out)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    machine.run_all()
    stage.require_bytes()
    return "refused" if wanted is None else "run"


def _gpus(call: Call, arrays: dict[str, Any]) -> set[int]:
    """The GPUs that the arrays say they lie on; some do not say where an empty array lies."""
    silent = (Interface, type(None))
    return {getattr(call, x).ordinal for x, a in arrays.items() if getattr(call, x).kind not in ON_HOST
            and not (call.shape[0] == 0 and x != "b" and (isinstance(a, silent) or type(a).__name__ == "GPUArray"))}


def _one_fault(call: Call, stage: Stage, arrays: dict[str, Any]) -> bool:
    """Is the order of the checks of no importance?"""
    return call.s < _WRONG and 2.0 not in (call.n, call.m) and not stage.flawed and len(_gpus(call, arrays)) < 2


COUNTS = {"run": 0, "refused": 0}


def kernel() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = s*x[i,j] + b[j]", name="affine")
    knl = lk.add_dtypes(knl, {"s": F, "b": F})
    return lk.tag_inames(lk.split_iname(knl, "j", 2, inner_tag="l.0"), {"i": "g.0", "j_outer": "g.1"})


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [True, False], ids=["in place", "allocated"])
def test_calls_that_differ_in_one_thing(lab: Lab, kind: str, given: bool) -> None:
    on_gpu, on_host = lk.compile(kernel(), target="cuda"), lk.compile(kernel(), target="c")
    machine = lab.machine
    first, second = (machine.new_stream(blocking=False, context=machine.primary(i)).handle for i in (0, 1))
    base = changed(Call(), ("all", "kind", kind))
    if given:
        base = changed(base, ("y", "there", True))
    for (what, name), values in CHANGES.items():
        for value in values:
            for one in (base, changed(base, (what, name, value)), base):
                came_of_it = run(lab, on_gpu, on_host, representable(one), (first, second))
                assert one is not base or came_of_it == "run"


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("kind", ON_HOST)
@pytest.mark.parametrize("given", [True, False], ids=["in place", "allocated"])
def test_calls_of_the_host_that_differ_in_one_thing(lab: Lab, kind: str, given: bool) -> None:
    remembering, on_host = (lk.compile(kernel(), target="c") for _ in range(2))
    base = changed(Call(), ("all", "kind", kind))
    if given:
        base = changed(base, ("y", "there", True))
    for (what, name), values in CHANGES.items():
        for value in values:
            if name != "kind" or value in ON_HOST:
                for one in (base, changed(base, (what, name, value)), base):
                    came_of_it = run(lab, remembering, on_host, representable(one), (0, 0))
                    assert one is not base or came_of_it == "run"


def test_no_call_is_taken_for_another(lab: Lab) -> None:
    on_gpu, on_host = lk.compile(kernel(), target="cuda"), lk.compile(kernel(), target="c")
    machine = lab.machine
    first, second = (machine.new_stream(blocking=False, context=machine.primary(i)).handle for i in (0, 1))

    made: list[Call] = []

    # what is remembered outlives an example, so that none can be made smaller
    @settings(max_examples=amount(300), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @drawn(st.lists(_changes, min_size=4, max_size=12))
    def calls(changes: list[tuple[str, str, Any]]) -> None:
        call = Call()
        for change in [("call", "s", 0), *changes]:
            before, call = call, changed(call, change)
            for one in (call, before):                 # and what was right before still is
                made.append(representable(one))
                COUNTS[run(lab, on_gpu, on_host, made[-1], (first, second))] += 1
            if COUNTS["run"] % 3 == 0:
                call = replace(before)                 # most changes are of a call that is right
    try:
        calls()
    except AssertionError:
        print(*made[-8:], sep="\n")                    # noqa: T201
        raise
    assert min(COUNTS.values()) > 100, COUNTS
