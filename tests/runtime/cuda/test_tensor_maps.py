"""Tensor maps of launches: what the driver is asked to encode, how often, and which text a call takes."""
from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.tensor_maps import TensorMap
from loopkit.runtime.cuda import devices
from loopkit.runtime.cuda.driver import Driver
from loopkit.runtime.cuda.launching import PreparedLaunch
from loopkit.runtime.cuda.tensor_maps import EncodedMap, described_part
from loopkit.runtime.views import ArrayView
from loopkit.target.code import GeneratedKernel, MapParameter, Pointer, Value
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.test_launching import Reader
from tests.runtime.cuda.work import F, make, read, rows, through_memory
from tests.tensor_maps import INVALID_VALUE, Encoder, MapUse, OptionalMapUse, allow, encoded, generating

X_MAP = TensorMap("x_map", "x", (16, 32), 128)
BF16 = np.dtype(ml_dtypes.bfloat16)


# The driver's arguments

@pytest.mark.parametrize(("dtype", "number"), [
    (np.uint8, 0), (np.uint16, 1), (np.uint32, 2), (np.int32, 3), (np.uint64, 4), (np.int64, 5), (np.float16, 6),
    (np.float32, 7), (np.float64, 8), (BF16, 9), (np.bool_, 0), (np.int8, 0), (ml_dtypes.float8_e4m3fn, 0),
    (np.int16, 1), (np.complex64, 4)])
def test_types_of_elements(dtype: Any, number: int) -> None:
    encoder = Encoder()
    EncodedMap(encoder, TensorMap("m", "x", (16,)), ArrayView.packed((64,), np.dtype(dtype))).describe(0x1000)
    assert encoder.calls[0]["dtype"] == number


@pytest.mark.parametrize(("shape", "strides", "extents", "expected"), [
    ((70,), (4,), [70], []), ((3, 40), (176, 4), [40, 3], [176]), ((2, 3, 5, 40), (9600, 640, 176, 4), [40, 5, 3, 2],
                                                                   [176, 640, 9600]),
    # strides of axes of one element are open
    ((1, 39), (156, 4), [39, 1], [160]), ((2, 1, 1, 39), (640, 7, 1, 4), [39, 1, 1, 2], [160, 160, 640]),
    ((4, 1), (32, 12), [1, 4], [32])])
def test_extents_and_strides(shape: tuple[int, ...], strides: tuple[int, ...], extents: list[int], expected: list[int]
                             ) -> None:
    """The driver counts axes from the last."""
    encoder, box = Encoder(), (*range(1, len(shape)), 8)
    made = EncodedMap(encoder, TensorMap("m", "x", box, 32), ArrayView(np.dtype(F), shape, strides))
    assert made.describe(0x1230) == 0
    assert encoder.calls == [{
        "dtype": 7, "address": 0x1230, "extents": extents, "strides": expected, "box": [*reversed(box)],
        "steps": [1]*len(shape), "interleave": 0, "swizzle": 1, "promotion": 3, "fill": 0}]


def test_a_map_ends_where_the_sizes_do() -> None:
    """Its strides are those of the array."""
    encoder, n = Encoder(), p.Variable("n")
    made = TensorMap("m", "x", (2, 8), extents=(n, n//2))
    array = described_part(made, ArrayView.packed((9, 40), np.dtype(F)), {"n": 6})
    assert EncodedMap(encoder, made, array).describe(0x1230) == 0
    assert (encoder.calls[0]["extents"], encoder.calls[0]["strides"]) == ([3, 6], [160])
    assert described_part(TensorMap("m", "x", (2, 8)), array, {}) == array


def test_elements_at_a_distance() -> None:
    encoder = Encoder()
    made = TensorMap("m", "x", (2, 3, 8), steps=(1, 4, 1))
    assert EncodedMap(encoder, made, ArrayView.packed((9, 20, 8), np.dtype(F))).describe(0x1230) == 0
    assert (encoder.calls[0]["box"], encoder.calls[0]["steps"]) == ([8, 12, 2], [1, 4, 1])


def test_maps_are_kept_by_address() -> None:
    encoder = Encoder()
    made = EncodedMap(encoder, X_MAP, ArrayView.packed((8, 64), np.dtype(F)))

    def now() -> tuple[int, int]:
        return encoded(ctypes.string_at(made.place, 128))
    for address, number in ((0x100, 1), (0x100, 1), (0x200, 2), (0x100, 1), (0x200, 2)):
        assert made.describe(address) == 0
        assert now() == (address, number)
    # a failure leaves no map that a later call would take for its own
    assert made.describe(0x208) == made.describe(0x208) == INVALID_VALUE
    made.describe(0x200)
    assert now() == (0x200, 2)
    for address in range(0x1000, 0x1000 + 16*300, 16):
        made.describe(address)
    made.describe(0x100)
    assert now() == (0x100, 305)
    empty = EncodedMap(encoder, X_MAP, ArrayView.packed((8, 0), np.dtype(F)))
    with pytest.raises(lk.CallError, match="No tensor map can describe 'x': it is empty, and the kernel copies boxes"):
        empty.describe(0x100)


def test_parameters_of_a_launch() -> None:
    """The driver reads 128 bytes for a map, at a multiple of 64, among other parameters."""
    driver = cast("Any", Reader())
    driver.sizes, encoder = [8, 128, 4, 128], Encoder()
    driver.tensor_map_encoder = lambda: encoder
    parameters = (Pointer("y", np.dtype(F)), MapParameter("x_map", np.dtype(F), X_MAP), Value("n", np.dtype(np.int32)),
                  MapParameter("y_map", np.dtype(F), TensorMap("y_map", "y", (8, 8))))
    view = ArrayView.packed((8, 64), np.dtype(F))
    launch = PreparedLaunch(driver, 1, GeneratedKernel("f", parameters), (1,)*6, {"x": 0, "y": 1, "n": 2},
                            {"x": view, "y": view}, {})
    for x, y, n, stream in ((0x100, 0x200, 5, 0), (0x300, 0x200, 6, 7)):
        assert launch.enter([x, y, n], stream) == 0
        assert [int.from_bytes(driver.read[i], "little") for i in (0, 2)] == [y, n]
        assert [encoded(driver.read[i])[0] for i in (1, 3)] == [x, y]
    assert len(encoder.calls) == 3
    driver.read = []
    assert launch.enter([0x308, 0x200, 5], 0) == launch.fixed([0x308, 0x200, 5])(0) == INVALID_VALUE
    assert not driver.read
    assert launch.fixed([0x100, 0x200, 9])(3) == 0
    assert encoded(driver.read[1])[0] == 0x100


def test_an_old_driver() -> None:
    with pytest.raises(lk.DeviceError, match=r"has no tensor maps \(cuTensorMapEncodeTiled\)") as caught:
        Driver(cast("Any", SimpleNamespace())).tensor_map_encoder()
    assert "update the driver" in caught.value.hints[0]


# Calls

def compiled(lab: Lab, monkeypatch: pytest.MonkeyPatch, use: type[MapUse], knl: lk.LoopKernel, *maps: TensorMap
             ) -> lk.CompiledKernel:
    allow(monkeypatch)
    monkeypatch.setattr(lab.codes, "_generate", generating(lab.codes._generate, *maps, use=use))
    return lk.compile(knl, target="cuda")


def encodings() -> list[dict[str, Any]]:
    """What the driver has encoded so far."""
    found: list[dict[str, Any]] = cast("Any", devices.load_driver()).encoder.calls
    return found


def test_calls_encode_a_map_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = compiled(lab, monkeypatch, MapUse, rows(), X_MAP)
    data = np.arange(5*68, dtype=F).reshape(5, 68)
    first, second = (make(lab, "torch", data) for _ in range(2))
    for x, count in ((first, 1), (first, 1), (second, 2), (first, 2), (first[:, 4:], 3), (first[:, 4:], 3)):
        np.testing.assert_array_equal(read(lab, knl(x=x).y), 2*read(lab, x))
        found = lab.machine.launched[-1].arguments
        assert encoded(found["x_map"]) == (found["x"], [c["address"] for c in encodings()].index(found["x"]) + 1)
        assert len(encodings()) == count
    assert [c["strides"] for c in encodings()] == [[272]]*3
    np.testing.assert_array_equal(knl(x=data).y, 2*data)                     # a copy on the GPU
    bound = knl.bind(x=first, y=make(lab, "torch", 0*data))
    for _ in range(2):
        np.testing.assert_array_equal(read(lab, bound().y), 2*data)


@pytest.mark.parametrize("use", [MapUse, OptionalMapUse])
def test_arrays_that_no_map_describes(lab: Lab, monkeypatch: pytest.MonkeyPatch, use: type[MapUse]) -> None:
    """Another text serves them if it does without the map; else the call is refused."""
    knl = compiled(lab, monkeypatch, use, rows(), X_MAP)
    wide, odd = (make(lab, "torch", np.arange(5*m, dtype=F).reshape(5, m)) for m in (68, 65))
    for x, why, way_out in (
            (odd, "its stride along axis 0 is 260 bytes", "give its rows a multiple of 4 elements"),
            (wide[:, 1:65], "its address is 4 bytes past a multiple of 16", "pass x.copy()"),
            (wide[:, ::2], "its stride along axis 1, the last, is 8 bytes, and an element has 4", "pass x.copy()"),
            (np.ones((5, 65), F), "its stride along axis 0 is 260 bytes", "give its rows a multiple of 4 elements")):
        for _ in range(2):
            if use is OptionalMapUse:
                np.testing.assert_array_equal(read(lab, knl(x=x).y), 2*read(lab, x))
                assert "x_map" not in lab.machine.launched[-1].arguments
            else:
                for call in (knl, knl.bind):
                    with pytest.raises(lk.CallError, match=f"No tensor map can describe 'x': {why}") as caught:
                        call(x=x)
                    assert way_out in caught.value.hints[0]
                    assert caught.value.argument == "x"
            np.testing.assert_array_equal(read(lab, knl(x=wide[:, 4:]).y), 2*read(lab, wide)[:, 4:])
            assert "x_map" in lab.machine.launched[-1].arguments


@pytest.mark.parametrize("use", [MapUse, OptionalMapUse])
def test_empty_arrays(lab: Lab, monkeypatch: pytest.MonkeyPatch, use: type[MapUse]) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, x[i, j])", name="sums")
    call = compiled(lab, monkeypatch, use, lk.tag_inames(lk.add_dtypes(knl, {"x": F}), "i:g.0"), X_MAP)
    assert call(x=make(lab, "torch", np.ones((0, 8), F))).y.shape == (0,)    # nothing is launched
    empty = make(lab, "torch", np.ones((3, 0), F))
    if use is OptionalMapUse:
        np.testing.assert_array_equal(read(lab, call(x=empty).y), 0)
    else:
        with pytest.raises(lk.CallError, match="No tensor map can describe 'x': it is empty"):
            call(x=empty)


def test_a_map_that_the_driver_refuses(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the maps of the launch; a refusal for want of a context is tried again in the runtime's own."""
    knl = compiled(lab, monkeypatch, MapUse, rows(), X_MAP)
    x, codes, encoder = make(lab, "torch", np.ones((4, 64), F)), [INVALID_VALUE, 201], Encoder()
    monkeypatch.setattr(devices.load_driver(), "encoder", lambda *given: codes.pop(0) if codes else encoder(*given))
    with pytest.raises(lk.LaunchError, match="could not be launched") as caught:
        knl(x=x)
    assert "tensor map x_map: x, box 16 x 32, swizzle 128 bytes" in caught.value.arguments
    np.testing.assert_array_equal(read(lab, knl(x=x).y), 2)
    assert (len(encoder.calls), codes) == (1, [])


def test_a_temporary_has_a_map(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = compiled(lab, monkeypatch, MapUse, through_memory(), TensorMap("t_map", "t", (64,)))
    x = np.arange(50, dtype=F)
    np.testing.assert_array_equal(read(lab, knl(x=make(lab, "torch", x)).z), 2*(x + 1)[::-1])
    for launched in lab.machine.launched:
        assert encoded(launched.arguments["t_map"])[0] == launched.arguments["t"]
    assert {(c["address"], *c["extents"]) for c in encodings()} == {(lab.machine.launched[0].arguments["t"], 50)}
