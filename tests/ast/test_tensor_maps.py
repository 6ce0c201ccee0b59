"""Tensor maps as data: what TMA cannot do, what it needs of an array, and where it puts the bytes of a box."""
from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.check import require_well_formed
from loopkit.ast.nodes import Assign, Block, Call, Function, Program
from loopkit.ast.tensor_maps import MappedArray, TensorMap, requirements
from loopkit.ast.text import program_text
from loopkit.errors import InternalError
from tests.tensor_maps import MapUse

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)


@pytest.mark.parametrize(("box", "swizzle", "dtype", "rank", "why", "way_out"), [
    ((512, 64), 128, F16, 2, r"'a_map' has 512 elements along axis 0, and TMA copies 1 to 256", "at most 256"),
    ((0, 8), 0, F16, 2, "has 0 elements along axis 0", "several boxes"),
    ((64, 3), 0, F32, 2, r"'a_map' has 12 bytes, which is not a multiple of 16", "multiple of 4 elements"),
    ((64, 128), 128, F16, 2, "has 256 bytes, and its swizzle has 128", "64 elements, or use swizzle=0"),
    ((64, 16), 64, F16, 2, "has 32 bytes, and its swizzle has 64", "32 elements"),
    ((64, 24), 48, F16, 2, "no swizzle of 48 bytes", "32, 64 or 128 bytes, or 0"),
    ((1,)*6, 0, F16, 6, "'a' has 6 axes, and a tensor map describes 1 to 5", "fewer axes"),
    ((), 0, F16, 0, "'a' has 0 axes", "fewer axes"),
    ((64, 64), 0, F16, 3, "has 2 axes, and 'a' has 3", "an extent for each axis of 'a'"),
    ((8, 2), 0, np.dtype(complex), 2, r"elements of 1, 2, 4 or 8 bytes, and those of 'a' \(complex128\) have 16",
     "one more axis")])
def test_what_tma_cannot_do(box: tuple[int, ...], swizzle: int, dtype: Any, rank: int, why: str, way_out: str) -> None:
    with pytest.raises(lk.PreconditionError, match=why) as caught:
        requirements(TensorMap("a_map", "a", box, swizzle), dtype, rank)
    assert way_out in caught.value.hints[0]
    assert caught.value.subject == "a_map"


@pytest.mark.parametrize(("box", "steps", "why", "way_out"), [
    ((8, 8), (2, 2), "'a_map' are 2 apart along axis 1, and TMA copies neighbours along the last axis", "let threads"),
    ((8, 8), (9, 1), "'a_map' are 9 apart along axis 0, and TMA copies steps of 1 to 8", "let threads"),
    ((8, 8), (0, 1), "'a_map' are 0 apart along axis 0, and TMA copies steps of 1 to 8", "let threads"),
    ((100, 8), (3, 1), "has 100 elements, 3 apart, along axis 0, and TMA copies 1 to 256", "at most 85"),
    ((8, 8), (2,), "has 2 axes, and steps along 1", "a step for each axis")])
def test_steps_that_tma_cannot_make(box: tuple[int, ...], steps: tuple[int, ...], why: str, way_out: str) -> None:
    with pytest.raises(lk.PreconditionError, match=why) as caught:
        requirements(TensorMap("a_map", "a", box, steps=steps), F32, 2)
    assert way_out in caught.value.hints[0]


def test_steps() -> None:
    """The driver takes the elements that a box goes over; a copy has the others only."""
    made = TensorMap("a_map", "a", (32, 4, 8), steps=(8, 1, 1))
    assert requirements(made, F32, 3) == MappedArray("a")
    assert (made.traversed, made.bytes_of_box(4)) == ((256, 4, 8), 4096)
    assert str(made) == "tensor map a_map: a, box 32 x 4 x 8, steps 8 x 1 x 1"


@pytest.mark.parametrize(("box", "swizzle", "dtype"), [
    ((256, 64), 128, F16), ((16,), 64, F32), ((1, 2, 3, 4, 4), 32, F64), ((256, 256), 0, F64),
    ((8, 32), 32, np.dtype(np.int8)), ((2, 2), 0, np.dtype(np.complex64))])
def test_what_tma_can_do(box: tuple[int, ...], swizzle: int, dtype: Any) -> None:
    assert requirements(TensorMap("a_map", "a", box, swizzle), dtype, len(box)) == MappedArray("a")


@pytest.mark.parametrize(("shape", "strides", "why", "way_out"), [
    ((4, 8), (16, 2), None, ""), ((4, 8), (32, 2), None, ""), ((3, 4, 8), (16, 48, 2), None, ""),
    ((5,), (2,), None, ""), ((2, 2**31), (2**33, 2), None, ""),
    ((1, 8), (2, 2), None, ""), ((4, 1), (16, 6), None, ""), ((0, 7), (14, 2), None, ""),
    ((4, 7), (14, 2), "stride along axis 0 is 14 bytes, which is not a positive multiple of 16", "a multiple of 8"),
    ((4, 8), (-16, 2), "stride along axis 0 is -16 bytes", "pass a.copy()"),
    ((4, 8), (0, 2), "stride along axis 0 is 0 bytes", "pass a.copy()"),
    ((2, 2, 8), (32, 2**40, 2), "stride along axis 1 is 1099511627776", "pass a.copy()"),
    ((8, 8), (16, 16), "stride along axis 1, the last, is 16 bytes, and an element has 2", "pass a.copy()"),
    ((2**31 + 1,), (2,), "extent along axis 0 is 2147483649, more than 2^31", "split this axis")])
def test_arrays_that_a_map_describes(shape: tuple[int, ...], strides: tuple[int, ...], why: str | None, way_out: str
                                     ) -> None:
    found = MappedArray("a").obstacle(shape, strides, 2)
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert why in found[0]
        assert way_out in found[1]


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_the_places_of_a_box(swizzle: int) -> None:
    """Bits 4 and up are combined with those of the line of 128 bytes, and each place is taken once."""
    made = TensorMap("a_map", "a", (64, max(swizzle, 16)), swizzle)
    places = [made.place(byte) for byte in range(made.bytes_of_box(1))]
    assert sorted(places) == list(range(len(places)))
    assert all(place >> 4 == byte >> 4 ^ (byte >> 7 & {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]) and place % 16 == byte % 16
               for byte, place in enumerate(places))
    # the pattern repeats after as many bytes as its start must be aligned to
    assert all(made.place(byte + made.alignment) == made.place(byte) + made.alignment for byte in (0, 130, 500))
    assert made.alignment == {0: 128, 32: 256, 64: 512, 128: 1024}[swizzle]


def function(*maps: TensorMap, uses: str = "a_map") -> Function:
    body = Block((Assign(p.Variable("s"), p.Subscript(p.Variable("a"), (0, 0)), None, "S", (), (MapUse(uses),)),))
    return Function("f", {}, {}, (), body, tensor_maps=maps)


def test_the_loop_program_has_its_maps() -> None:
    made = function(TensorMap("a_map", "a", (64, 32), 64))
    require_well_formed(made, {"a", "s"}, ())
    assert program_text(Program((made,), Block((Call("f"),)))) == """\
launch f
  tensor map a_map: a, box 64 x 32, swizzle 64 bytes
  s = a[0, 0]  {id=S, a use of a map}"""
    for wrong, name in ((function(uses="b_map"), "b_map"), (function(TensorMap("a_map", "t", (8, 8))), "a_map")):
        with pytest.raises(InternalError, match=f"the tensor map '{name}' describes no array"):
            require_well_formed(wrong, {"a", "s"}, ())
