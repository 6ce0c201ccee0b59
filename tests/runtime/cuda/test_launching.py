"""Parameters of a launch as the driver reads them, in any order and mixture of dtypes."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
from hypothesis import given

from loopkit.runtime.cuda.driver import LaunchConfig
from loopkit.runtime.cuda.launching import PreparedLaunch
from loopkit.runtime.views import ArrayView
from loopkit.target.code import GeneratedKernel, Parameter, Pointer, ScratchPointer, Stride, Value

ML_DTYPES = [np.dtype(x) for x in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
DTYPES = [np.dtype(x) for x in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                "float16", "float32", "float64", "complex64", "complex128")] + ML_DTYPES


class Reader:
    """A driver that copies the parameters when it launches, as ``cuLaunchKernelEx`` does."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.read: list[bytes] = []
        self.grid: tuple[int, ...] = ()
        self.stream: int | None = None

    def launcher(self, config: LaunchConfig, function: int, parameters: Any) -> Callable[[], int]:
        def launch() -> int:
            self.read = [ctypes.string_at(parameters[i], size) for i, size in enumerate(self.sizes)]
            self.grid = (config.grid_x, config.grid_y, config.grid_z, config.block_x, config.block_y, config.block_z,
                         config.shared_bytes)
            self.stream = config.stream
            return 0
        return launch


def number(dtype: np.dtype) -> st.SearchStrategy[Any]:
    match dtype.kind:
        case "b":
            return st.booleans()
        case "i" | "u":
            info = np.iinfo(dtype)
            return st.integers(int(info.min), int(info.max))
        case "c":
            return st.complex_numbers(max_magnitude=1e6, allow_nan=False)
        case _:
            return st.floats(-1000, 1000)


@st.composite
def launches(draw: st.DrawFn) -> tuple[list[Parameter], dict[str, Any], set[str]]:
    """Parameters in any order, a value for each, and which of them differ from call to call."""
    kinds = draw(st.lists(st.sampled_from([Pointer, ScratchPointer, Value, Value, Stride]), max_size=9))
    parameters, values, varying = list[Parameter](), {}, set()
    for i, kind in enumerate(kinds):
        dtype = draw(st.sampled_from(DTYPES)) if kind is Value else np.dtype(np.int64)
        name = f"p{i}"
        parameters.append(Stride(name, dtype, "strided", 0) if kind is Stride else kind(name, dtype))
        if kind is Value:
            values[name] = draw(number(dtype))
            if draw(st.booleans()):
                varying.add(name)
        elif kind is not Stride:
            values[name] = draw(st.integers(0, 2**63 - 1))
    return parameters, values, varying


@given(launches(), st.randoms(use_true_random=False), st.data())
def test_every_parameter_arrives(made: tuple[list[Parameter], dict[str, Any], set[str]], random: Any,
                                 data: st.DataObject) -> None:
    parameters, values, varying = made
    driver = Reader()
    driver.sizes = [8 if isinstance(p, Pointer) else p.dtype.itemsize for p in parameters]
    # a call has other arrays and scalars, too, and in an order of its own
    pointers = [p.name for p in parameters if isinstance(p, Pointer)]
    others = data.draw(st.sampled_from([[], ["elsewhere"]]))
    places = [*pointers, *others]
    order = sorted(varying)
    if data.draw(st.booleans()):
        random.shuffle(places)
        random.shuffle(order)
    constants = {k: v for k, v in values.items() if k not in varying and k not in pointers}
    strided = ArrayView(np.dtype(np.int16), (3, 5), (6, 2), 0, 0)
    function = GeneratedKernel("f", tuple(parameters), block=(32, 2, 1), dynamic_shared_bytes=77)
    launch = PreparedLaunch(driver, 1, function, (5, 4, 3, *function.block),
                            {x: i for i, x in enumerate((*places, *order))},
                            {"strided": strided}, {**constants, **dict.fromkeys(varying, 0)})
    again = {x: data.draw(number(p.dtype)) for p in parameters for x in [p.name] if x in varying}
    for stream, scalars in ((0, values), (7, {**values, **again})):
        assert launch.enter([*(scalars.get(x, 99) for x in places), *(scalars[x] for x in order)], stream) == 0
        assert driver.grid == (5, 4, 3, 32, 2, 1, 77)
        assert (driver.stream or 0) == stream
        for p, found in zip(parameters, driver.read, strict=True):
            expected = 3 if isinstance(p, Stride) else scalars[p.name]
            assert found == np.array(expected, np.uint64 if p.name in pointers else p.dtype).tobytes(), p.name
    launch.fixed([*(values.get(x, 99) for x in places), *(values[x] for x in order)])(3)
    assert driver.stream == 3
    assert [f for f, p in zip(driver.read, parameters, strict=True) if p.name in values] == [
        np.array(values[p.name], np.uint64 if p.name in pointers else p.dtype).tobytes()
        for p in parameters if p.name in values]
