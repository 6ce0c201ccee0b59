"""The calling contract: what a call gives back, and every refusal."""
from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.errors import CallError, DeviceError, PreconditionError, TypeInferenceError
from loopkit.runtime.arguments import COMPILE_OPTIONS
from loopkit.runtime.compiled import CompiledKernel
from loopkit.runtime.results import Outputs
from tests.runtime.conftest import Workshop, array, c_code, m, n, value

ADD = "  for (long i = 0; i < n; ++i) y[i * y_s0] = a[i * a_s0] + b[i * b_s0];"
F = np.float32


@pytest.fixture
def add(workshop: Workshop) -> CompiledKernel:
    """``y[i] = a[i] + b[i]`` for ``0 <= i < n``, ``n >= 1``."""
    return workshop.compiled((array("a"), array("b"), array("y"), value("n")), ("y",), reads=("a", "b"),
                             shapes={"a": (n,), "b": (n,), "y": (n,)}, body=ADD, assumptions="n >= 1", name="add")


@pytest.fixture
def scale(workshop: Workshop) -> CompiledKernel:
    """``y[i, j] = s*a[i, j]``, of arrays with two axes."""
    return workshop.compiled(
        (array("a"), array("y"), value("s", np.float32), value("n"), value("m")), ("y",), reads=("a",),
        shapes={"a": (n, m), "y": (n, m)}, name="scale",
        body="  for (long i = 0; i < n; ++i) for (long j = 0; j < m; ++j)\n"
             "    y[i * y_s0 + j * y_s1] = s * a[i * a_s0 + j * a_s1];")


A, B = np.arange(5, dtype=F), np.ones(5, F)


# What comes back

def test_output_is_allocated(add: CompiledKernel) -> None:
    out = add(a=A, b=B)
    y, = out
    np.testing.assert_array_equal(y, A + B)
    assert out.y is y
    assert out["y"] is y
    assert out._fields == ("y",)


def test_passed_output_is_written_in_place_and_returned(add: CompiledKernel) -> None:
    y = np.full(5, 7, F)
    out, = add(a=A, b=B, y=y, n=3)
    assert out is y
    np.testing.assert_array_equal(y, [1, 2, 3, 7, 7])


def test_allocated_output_is_zero_where_nothing_is_written(add: CompiledKernel, workshop: Workshop) -> None:
    some = workshop.compiled((array("y"), value("n")), ("y",), shapes={"y": (n,)}, body="  y[0] = 1;")
    np.testing.assert_array_equal(some(n=3).y, [1, 0, 0])


def test_read_and_written_array_must_be_passed(workshop: Workshop) -> None:
    knl = workshop.compiled((array("y"), value("n")), ("y",), reads=("y",), shapes={"y": (n,)},
                            body="  for (int i = 0; i < n; ++i) y[i] += 1;")
    y = A.copy()
    assert knl(y=y).y is y
    np.testing.assert_array_equal(y, A + 1)
    with pytest.raises(CallError, match="reads it as well") as err:
        knl(n=5)
    assert err.value.argument == "y"


def test_array_subclass_is_returned_as_it_was_passed(add: CompiledKernel) -> None:
    class Mine(np.ndarray[Any, Any]):
        pass
    y = np.zeros(5, F).view(Mine)
    assert add(a=A, b=B, y=y).y is y


def test_output_takes_the_shape_of_its_model(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a"), array("y"), value("n")), ("y",), reads=("a",), like={"y": "a"},
                            shapes={"a": (n,), "y": (n - 1,)},
                            body="  for (int i = 1; i < n - 1; ++i) y[i] = a[i - 1] + a[i + 1];")
    np.testing.assert_array_equal(knl(a=A).y, [0, 2, 4, 6, 0])
    # a stencil's output as long as its input does not contradict it
    np.testing.assert_array_equal(knl(a=A, y=np.zeros(5, F)).y, [0, 2, 4, 6, 0])


def test_outputs_by_name() -> None:
    out = Outputs(("count", "y"), (1, 2))
    assert out.count == out["count"] == 1
    assert out.index(2) == 1
    assert out.y == 2
    assert out[-1] == 2
    assert out[:1] == (1,)
    assert repr(out) == "Outputs(count=1, y=2)"
    assert out.asdict() == {"count": 1, "y": 2}
    assert pickle.loads(pickle.dumps(out)) == out
    assert pickle.loads(pickle.dumps(out)).y == 2
    with pytest.raises(AttributeError, match="no output is called 'z'; there is count, y"):
        _ = out.z
    with pytest.raises(KeyError):
        _ = out["z"]


# Strides and layouts

def test_c_order_needs_no_strides(scale: CompiledKernel, workshop: Workshop) -> None:
    a = np.arange(12, dtype=F).reshape(3, 4)
    np.testing.assert_array_equal(scale(a=a, s=2).y, 2 * a)
    scale(a=a + 1, s=2)
    assert [sorted(x.strided) for x in workshop.layouts] == [[]]


@pytest.mark.parametrize("view", [
    lambda a: a.T, lambda a: a[::2, 1::3], lambda a: a[::-1, ::-1], lambda a: np.asfortranarray(a),
    lambda a: np.broadcast_to(a[:1], a.shape), lambda a: a[:, 3:4]])
def test_strided_inputs_and_outputs(scale: CompiledKernel, view: Any) -> None:
    a = view(np.arange(80, dtype=F).reshape(8, 10))
    np.testing.assert_array_equal(scale(a=a, s=3).y, 3 * a)
    if a.flags.writeable:
        y = view(np.zeros((8, 10), F))
        scale(a=a, s=3, y=y)
        np.testing.assert_array_equal(y, 3 * a)


def test_larger_arrays_are_accepted(scale: CompiledKernel, workshop: Workshop) -> None:
    a = np.arange(20, dtype=F).reshape(4, 5)
    y = np.zeros((4, 5), F)
    scale(a=a, y=y, s=1, n=2, m=3)
    expected = np.zeros((4, 5), F)
    expected[:2, :3] = a[:2, :3]
    np.testing.assert_array_equal(y, expected)
    assert workshop.layouts[-1].strided == {"a", "y"}
    # longer along the first axis only: the addresses are those of the exact shape
    scale(a=a, s=1, n=2)
    assert workshop.layouts[-1].strided == frozenset()


def test_empty_arrays(scale: CompiledKernel) -> None:
    assert scale(a=np.zeros((0, 3), F), s=1).y.shape == (0, 3)


def test_wide_index_where_an_array_is_large(scale: CompiledKernel, workshop: Workshop) -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, F), (1, 2), (2**34, 4), writeable=False)
    scale(a=huge[:, :1], s=1)
    assert workshop.layouts[-1].index_bits == 32
    huge = np.broadcast_to(np.zeros(1, F), (2, 2**31))
    knl = workshop.compiled((array("a"), array("y")), ("y",), reads=("a",), shapes={"a": (2, 2**31), "y": (1,)},
                            body="  y[0] = 1;")
    assert knl(a=huge).y[0] == 1
    assert workshop.layouts[-1].index_bits == 32       # both strides are 0: every offset is small


def test_wide_size_takes_the_wide_text(workshop: Workshop) -> None:
    def body(knl: Any, layout: Any) -> Any:
        typed = annotated(knl, arguments=(knl.arguments[0], value("n", f"int{layout.index_bits}")))
        return c_code(typed, layout, {"y": (1,)}, "  y[0] = n > 4;")
    knl = workshop.compiled((array("y"), value("n", None)), ("y",), shapes={"y": (1,)}, body=body)
    workshop.replace("unknown_dtypes", lambda k: [])
    knl = type(knl)(knl.kernel, "c")
    assert knl(n=5).y[0] == 1
    assert workshop.layouts[-1].index_bits == 32
    assert knl(n=2**40).y[0] == 1
    assert workshop.layouts[-1].index_bits == 64


# Refusals

def refuse(knl: CompiledKernel, argument: str, match: str, **given: object) -> CallError:
    with pytest.raises(CallError, match=match) as err:
        knl(**given)
    assert err.value.argument == argument
    return err.value


def test_positional_arguments(add: CompiledKernel) -> None:
    with pytest.raises(CallError, match="by name") as err:
        add(A, B)
    assert err.value.hint == "call it as add(a=a, b=b, ...)"


def test_unknown_name(add: CompiledKernel) -> None:
    assert "'b'" in str(refuse(add, "bb", "not an argument", a=A, bb=B).hint)
    assert "it takes a, b, y, n" in str(refuse(add, "zzz", "not an argument", a=A, b=B, zzz=1).hint)
    assert tuple(inspect.signature(lk.compile).parameters)[1:] == COMPILE_OPTIONS
    for option in COMPILE_OPTIONS:
        assert f"lk.compile(knl, {option}=...)" in str(refuse(add, option, "not an arg", a=A, b=B, **{option: 1}).hint)


@pytest.mark.deep(every=18)
@pytest.mark.parametrize(("given", "argument", "match"), [
    ({"a": A}, "b", "missing"),
    ({"a": A, "b": [1.0] * 5}, "b", "an array, not list"),
    ({"a": A, "b": 1.0}, "b", "an array, not float"),
    ({"a": A, "b": np.ma.masked_array(B)}, "b", "masked"),
    ({"a": A, "b": B.astype(np.float64)}, "b", "dtype float32, not float64"),
    ({"a": A, "b": B.astype(">f4")}, "b", "byte order"),
    ({"a": A, "b": B.reshape(5, 1)}, "b", "1 dimension, not 2"),
    ({"a": A, "b": np.frombuffer(bytes(21), np.uint8)[1:].view(F)}, "b", "not aligned"),
    ({"a": A, "b": B, "y": np.broadcast_to(B, (5,))}, "y", "read-only"),
    ({"a": A, "b": B[:4]}, "a", "contradict"),
    ({"a": A, "b": B[:4], "n": 5}, "b", r"axis 0 has 4 elements and must have at least 5 \(n, with n = 5\)"),
    ({"a": A, "b": B, "y": np.zeros(4, F), "n": 5}, "y", "too small"),
    ({"a": A, "b": B, "n": 5.0}, "n", "an integer, not 5.0"),
    ({"a": A, "b": B, "n": "5"}, "n", "an integer"),
    ({"a": A, "b": B, "n": 2**31}, "n", "int32 cannot hold"),
    ({"a": A, "b": B, "n": 2**70}, "n", "int32 cannot hold"),
    ({"a": A, "b": B, "n": -1}, "n", "assumes n > 0, and this call has n = -1"),
    ({"a": A[:0], "b": B[:0]}, "n", "assumes n > 0, and this call has n = 0"),
])
def test_refusal(add: CompiledKernel, given: dict[str, object], argument: str, match: str) -> None:
    refuse(add, argument, match, **given)


def test_contradiction_names_both(add: CompiledKernel) -> None:
    text = str(refuse(add, "a", "contradict", a=A, b=B[:4]))
    assert "'b' has 4 elements, so n = 4" in text
    assert "'a' has 5, so n = 5" in text
    assert "pass n=" in text


def test_stride_within_an_element(add: CompiledKernel) -> None:
    records = np.zeros(5, [("a", F), ("flag", "i1"), ("pad", "V1")])
    odd = np.lib.stride_tricks.as_strided(np.zeros(8, F), (5,), (6,))
    assert records["a"].strides == odd.strides == (6,)
    refuse(add, "a", "not aligned|not a multiple", a=odd, b=B)


def test_overlaps(add: CompiledKernel) -> None:
    room = np.zeros(10, F)
    refuse(add, "y", "overlaps 'a'", a=room[:5], b=B, y=room[4:9])
    refuse(add, "y", "overlaps 'a'", a=A, b=B, y=A)
    add(a=room[:5], b=B, y=room[5:])
    add(a=room[::2], b=B, y=room[1::2])               # interleaved, and yet disjoint
    add(a=A, b=A)                                     # inputs may be one array
    refuse(add, "y", "share one address", a=A, b=B, y=np.lib.stride_tricks.as_strided(room, (5,), (0,)))


def test_unsolvable_size(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a"), array("y"), value("n")), ("y",), reads=("a",),
                            shapes={"a": (2 * n,), "y": (n,)}, body="  y[0] = a[0];")
    refuse(knl, "n", "cannot be found from the shapes", a=A)
    assert knl(a=A, n=2).y.shape == (2,)
    refuse(knl, "a", r"at least 6 \(2\*n, with n = 3\)", a=A, n=3)
    assert knl(a=A, y=np.zeros(2, F)).y.shape == (2,)       # solved from the output that was passed


def test_sizes_that_need_other_arguments() -> None:
    """An offset that the call has, and the least sizes for which an extent is a size."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", [lk.GlobalArg("x", F, offset="off"), "..."],
                         assumptions="off >= 0")
    np.testing.assert_array_equal(knl(x=A, off=2).y, 2*A[2:])
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, x[i, j + 1])\nz[i] = x[i, 2]")
    with pytest.raises(CallError, match=r"'m' is missing") as caught:
        knl(x=np.ones((3, 4)))
    assert caught.value.hint == 'pass m=..., or declare it: assumptions="m >= 2 and n >= 1"'


def test_a_key_of_64_bits() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "w[i] = philox(key, i, 0, 0)")
    assert knl(key=2**63 + 5, n=2).w.tolist() == knl(key=np.uint64(2**63 + 5), n=2).w.tolist()


def test_missing_scalar(scale: CompiledKernel) -> None:
    refuse(scale, "s", "missing: no shape determines it", a=np.zeros((2, 2), F))


def test_too_small_for_any_size(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a"), array("y"), value("n")), ("y",), reads=("a",),
                            shapes={"a": (n + 2,), "y": (n,)}, body="")
    refuse(knl, "a", "'a' is too small: 1 elements along axis 0 make n = -1", a=A[:1])


def test_declared_shape_is_exact(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a", shape=(n,)), array("y"), value("n")), ("y",), reads=("a",),
                            shapes={"a": (n,), "y": (n,)}, body="  y[0] = a[0];")
    refuse(knl, "a", "not of its declared shape: axis 0 has 5 elements and must have 4", a=A, n=4)
    knl(a=A, n=5)


def test_extent_that_depends_on_data(workshop: Workshop) -> None:
    knl = workshop.compiled((array("a"), array("y"), value("n")), ("y",), reads=("a",),
                            shapes={"a": (n,), "y": (None, None)}, body="  y[y_s0] = a[0];")
    refuse(knl, "y", "how long its axis 0 must be depends on data", a=A)
    y = np.zeros((2, 3), F)
    assert knl(a=B, y=y).y[1, 0] == 1
    assert workshop.layouts[-1].strided == {"y"}


# Scalars

@pytest.mark.deep(every=17)
@pytest.mark.parametrize(("dtype", "given", "expected"), [
    (np.float32, 2, 2.0), (np.float32, np.float64(0.5), 0.5), (np.float32, np.int8(3), 3.0),
    (np.float32, np.array(2.5), 2.5),
    (np.float64, 1e300, 1e300), (np.float32, float("inf"), np.inf), (np.float64, True, 1.0),
    (np.int8, -128, -128), (np.uint64, 2**64 - 1, 2**64 - 1), (np.int16, np.uint8(200), 200),
    (np.int32, np.array(7), 7),
    (np.int32, np.True_, 1), (np.bool_, True, True), (np.bool_, np.False_, False),
    (np.complex64, 1 + 2j, 1 + 2j), (np.complex128, np.complex64(3j), 3j), (np.complex128, 2, 2 + 0j)])
def test_scalars(workshop: Workshop, dtype: Any, given: object, expected: object) -> None:
    knl = workshop.compiled((array("y", dtype), value("s", dtype)), ("y",), shapes={"y": (1,)}, body="  y[0] = s;")
    assert knl(s=given).y[0] == expected


@pytest.mark.parametrize(("dtype", "given", "match"), [
    (np.float32, 1e39, "overflows float32"), (np.float64, 10**400, "overflows float64"),
    (np.float32, 1j, "a real number"),
    (np.float32, "1", "a real number"), (np.float32, np.ones(2, F), "a real number"), (np.uint8, -1, "from 0 to 255"),
    (np.int8, 128, "int8 cannot hold"), (np.int64, 2**63, "int64 cannot hold"), (np.int32, np.float32(2), "an integer"),
    (np.bool_, 1, "a truth value"), (np.complex64, 1e39j, "overflows complex64"), (np.complex64, None, "missing")])
def test_scalar_refusals(workshop: Workshop, dtype: Any, given: object, match: str) -> None:
    knl = workshop.compiled((array("y", dtype), value("s", dtype)), ("y",), shapes={"y": (1,)}, body="  y[0] = s;")
    refuse(knl, "s", match, s=given)


# Open dtypes, targets, timing

def test_open_dtypes_come_from_the_arrays(workshop: Workshop) -> None:
    def body(knl: Any, layout: Any) -> Any:
        return c_code(knl, layout, {"a": (n,), "y": (n,)}, "  for (int i = 0; i < n; ++i) y[i] = s * a[i];")
    knl = workshop.compiled((array("a", None), array("y", None), value("s", None), value("n")), ("y",), reads=("a",),
                            shapes={"a": (n,), "y": (n,)}, body=body)
    for dtype in (np.float64, np.int16):
        out = knl(a=np.arange(3, dtype=dtype), y=np.zeros(3, dtype), s=2).y
        np.testing.assert_array_equal(out, [0, 2, 4])
    assert len(workshop.layouts) == 2
    refuse(knl, "y", "'y' is missing, and its dtype is not known", a=A, s=2)
    refuse(knl, "a", "which kernels do not support", a=A.astype(np.longdouble), s=2, y=A)
    refuse(knl, "a", "which kernels do not support", a=np.array(["x"]), s=2, y=A)
    refuse(knl, "a", "byte order", a=A.astype(">f4"), s=2, y=A)
    refuse(knl, "s", "a number", a=A, s="x", y=A)
    refuse(knl, "a", "an array", a=[1], s=2, y=A)
    with pytest.raises(TypeInferenceError, match="'a', 'y', 's'"):
        _ = knl.source


def test_source_and_time(add: CompiledKernel) -> None:
    assert add.source.startswith("#include")
    assert "void add(" in add.source
    y = np.zeros(5, F)
    timing = add.time(a=A, b=B, y=y, duration=0.01)
    assert timing.seconds > 0
    assert timing.runs >= 5
    assert "runs" in str(timing)
    assert not y.any()


def test_targets(add: CompiledKernel) -> None:
    assert lk.compile(add.kernel, target="c").target == "c"
    assert lk.compile(add.kernel, target=lk.CTarget()).target == "c"
    assert lk.compile(add.kernel, target="cuda").target == "cuda"
    with pytest.raises(PreconditionError, match="'metal' is not a target"):
        lk.compile(add.kernel, target="metal")
    with pytest.raises(DeviceError, match="host target has no device"):
        lk.compile(add.kernel, target="c", device=0)
