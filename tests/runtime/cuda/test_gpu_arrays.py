"""Arrays of every library, in and out, on GPUs that are not there: the whole way of a call."""
from __future__ import annotations

from itertools import permutations
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.memory import DeviceArray
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Exporter, Interface, Tensor, on_gpu
from tests.runtime.cuda.work import (
    GPU_KINDS,
    HOST_KINDS,
    KINDS,
    F,
    increment,
    make,
    read,
    rows,
    saxpy,
    spread,
    through_memory,
)

each_kind = pytest.mark.parametrize("kind", KINDS)
X, Y = np.arange(100, dtype=F), np.linspace(-1, 1, 100, dtype=F)


# Kinds

@pytest.mark.deep(every=7)
@each_kind
def test_results_come_in_the_kind_that_went_in(lab: Lab, kind: str) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    for n in (1, 31, 32, 100, 31):
        x, y = make(lab, kind, X[:n]), make(lab, kind, Y[:n])
        z, = knl(x=x, y=y, alpha=2.0)
        assert type(z) is (DeviceArray if kind in ("interface", "dlpack") else type(x))
        np.testing.assert_array_equal(read(lab, z), F(2)*X[:n] + Y[:n])


@pytest.mark.deep(every=7)
@each_kind
def test_outputs_in_place(lab: Lab, kind: str) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    for alpha in (0.5, 3):
        z = make(lab, kind, np.zeros(100, F))
        out = knl(x=make(lab, kind, X), y=make(lab, kind, Y), z=z, alpha=alpha)
        assert out.z is z
        np.testing.assert_array_equal(read(lab, z), F(alpha)*X + Y)


@pytest.mark.deep(every=7)
@each_kind
def test_read_and_written(lab: Lab, kind: str) -> None:
    knl = lk.compile(increment(), target="cuda")
    y = make(lab, kind, X)
    for times in (1, 2, 3):
        assert knl(y=y).y is y
        np.testing.assert_array_equal(read(lab, y), X + times)


@pytest.mark.deep(every=7)
@each_kind
def test_what_a_kernel_does_not_write_is_kept(lab: Lab, kind: str) -> None:
    knl = lk.compile(spread(), target="cuda")
    x = np.arange(1, 51, dtype=F)
    for _ in range(2):
        kept = make(lab, kind, np.full(100, 7, F))
        knl(x=make(lab, kind, x), z=kept)
        np.testing.assert_array_equal(read(lab, kept), np.where(np.arange(100) % 2, 7, np.repeat(x, 2)))
        fresh, = knl(x=make(lab, kind, x))
        np.testing.assert_array_equal(read(lab, fresh), np.where(np.arange(99) % 2, 0, np.repeat(x, 2)[:99]))


@pytest.mark.deep(every=42)
@pytest.mark.parametrize(("a", "b"), list(permutations(KINDS, 2)))
def test_kinds_may_be_mixed(lab: Lab, a: str, b: str) -> None:
    """The result is of the first array's kind that lies on a GPU, else of torch's if there is one."""
    knl = lk.compile(saxpy(), target="cuda")
    for n in (100, 40):
        x, y = make(lab, a, X[:n]), make(lab, b, Y[:n])
        out = knl(x=x, y=y, alpha=3)
        first = next((k for k in (a, b) if k in GPU_KINDS), None)
        model = {a: x, b: y}[first or next((k for k in (a, b) if k == "torch_cpu"), a)]
        wanted = DeviceArray if first in ("interface", "dlpack") else type(model)
        assert type(out.z) is wanted
        np.testing.assert_array_equal(read(lab, out.z), F(3)*X[:n] + Y[:n])
        z = make(lab, b, np.zeros(n, F))
        knl(x=x, y=make(lab, a, Y[:n]), z=z, alpha=2)
        np.testing.assert_array_equal(read(lab, z), F(2)*X[:n] + Y[:n])


@pytest.mark.deep(every=7)
@each_kind
def test_temporaries_in_global_memory(lab: Lab, kind: str) -> None:
    knl = lk.compile(through_memory(), target="cuda")
    for n in (1, 33, 100, 33):
        x = make(lab, kind, X[:n])
        np.testing.assert_array_equal(read(lab, knl(x=x).z), 2*(X[:n] + 1)[::-1])
        z = make(lab, kind, np.zeros(n, F))
        knl(x=x, z=z)
        np.testing.assert_array_equal(read(lab, z), 2*(X[:n] + 1)[::-1])
    assert {x.name for x in lab.machine.launched} == {x.name for x in lab.machine.launched[:2]}
    assert len(lab.machine.launched) == 16


@each_kind
def test_nothing_to_do(lab: Lab, kind: str) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    empty = np.zeros(0, F)
    for _ in range(2):
        z, = knl(x=make(lab, kind, empty), y=make(lab, kind, empty), alpha=1)
        assert tuple(z.shape) == (0,)
    assert not lab.machine.launched


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_on_both_sides_keeps_the_dtype(lab: Lab, name: str) -> None:
    dtype = getattr(ml_dtypes, name)
    knl = lk.compile(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s*x[i]"), {"x,s": dtype}), target="cuda")
    x = np.arange(8).astype(dtype)
    on_host = Tensor(lab.torch, x, dtype=getattr(lab.torch, name))
    for given in (on_host, on_host.cuda()):
        y = knl(x=given, s=1.5).y
        assert y.dtype is getattr(lab.torch, name)
        np.testing.assert_array_equal(y.cpu()._array, (x * dtype(1.5)).astype(x.dtype))


def test_subclasses_of_numpys_arrays(lab: Lab) -> None:
    class Mine(np.ndarray[Any, Any]):
        pass
    knl = lk.compile(rows(), target="cuda")
    x = np.arange(12, dtype=F).reshape(3, 4)
    y = np.zeros((3, 4), F).view(Mine)
    assert knl(x=x, y=y).y is y
    np.testing.assert_array_equal(y, 2*x)
    plain = lk.compile(saxpy(), target="cuda")
    plain(x=X, y=Y, alpha=1)
    for _ in range(2):                                 # one whose type is known by now
        with pytest.raises(lk.CallError, match="masked"):
            plain(x=np.ma.masked_array(X), y=Y, alpha=1)


# Strides and shapes

VIEWS = {"as it is": lambda a: a, "transposed": lambda a: a.T, "sliced": lambda a: a[:, 3:9],
         "steps": lambda a: a[::2, ::3], "one column": lambda a: a[:, :1], "one row": lambda a: a[3:4]}
NEGATIVE = {"reversed": lambda a: a[::-1, ::-1], "reversed rows": lambda a: a[::-1]}
BASE = np.arange(120, dtype=F).reshape(10, 12)


def views(lab: Lab, kind: str, how: Any, base: np.ndarray) -> Any:
    """A view of a copy of *base* as that kind."""
    if kind == "numpy":
        return how(base.copy())
    if kind == "torch_cpu":
        return lab.torch.from_numpy(base.copy()).seen(how)
    if kind in ("torch", "cupy"):
        return make(lab, kind, base).seen(how)
    whole = on_gpu(lab.machine, base)
    whole.array = how(whole.array)
    return Interface(whole) if kind == "interface" else Exporter(whole)


@pytest.mark.deep(every=48)
@pytest.mark.parametrize("how", [*VIEWS, *NEGATIVE])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "pycuda"])
def test_strides(lab: Lab, kind: str, how: str) -> None:
    if how in NEGATIVE and kind.startswith("torch"):
        pytest.skip("torch has no negative strides")
    view = {**VIEWS, **NEGATIVE}[how]
    knl = lk.compile(rows(), target="cuda")
    expected = 2*view(BASE)
    x = views(lab, kind, view, BASE)
    np.testing.assert_array_equal(read(lab, knl(x=x).y), expected)
    into = views(lab, kind, view, np.zeros_like(BASE))
    assert knl(x=x, y=into).y is into
    np.testing.assert_array_equal(read(lab, into), expected)
    same = make(lab, kind, expected)
    knl(x=x, y=same)
    np.testing.assert_array_equal(read(lab, same), expected)


@pytest.mark.parametrize("kind", ["numpy", "torch", "cupy"])
def test_broadcast_inputs_and_no_broadcast_outputs(lab: Lab, kind: str) -> None:
    def wide(a: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(a, (6, 12), (0, 4))
    knl = lk.compile(rows(), target="cuda")
    x = views(lab, kind, wide, BASE)
    np.testing.assert_array_equal(read(lab, knl(x=x).y), 2*np.broadcast_to(BASE[0], (6, 12)))
    for _ in range(2):
        with pytest.raises(lk.CallError, match="share one address"):
            knl(x=make(lab, kind, BASE[:6]), y=views(lab, kind, wide, BASE))


@pytest.mark.deep(every=7)
@each_kind
def test_arrays_longer_than_needed(lab: Lab, kind: str) -> None:
    knl = lk.compile(rows(), target="cuda")
    for n, m in ((4, 5), (10, 12), (4, 12), (10, 5), (4, 5)):
        x, y = make(lab, kind, BASE), make(lab, kind, -BASE)
        knl(x=x, y=y, n=n, m=m)
        expected = -BASE
        expected[:n, :m] = 2*BASE[:n, :m]
        np.testing.assert_array_equal(read(lab, y), expected)


@pytest.mark.parametrize("kind", HOST_KINDS)
def test_packed_copies_decide_about_the_width_of_indices(lab: Lab, kind: str) -> None:
    """A view of one byte, of which three gigabytes would lie on the GPU; nothing is copied here."""
    knl = lk.compile(rows(np.uint8), target="cuda")
    huge = np.broadcast_to(np.zeros(1, np.uint8), (3, 2**30))
    given = {"x": huge if kind == "numpy" else lab.torch.from_numpy(huge), "y": np.zeros((3, 64), np.uint8),
             "n": 3, "m": 64}
    runner = knl._runner
    known = runner._known(given)
    _, values, _ = runner._opened(known, [*given.values()])
    runner._plan(known, values)
    assert lab.codes.layouts[-1].index_bits == 64


# The protocols

def test_interfaces_are_read_as_they_say(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    data = on_gpu(lab.machine, X)
    z, = knl(x=Interface(data, strides=None, version=3), y=Interface(on_gpu(lab.machine, Y)), alpha=1)
    np.testing.assert_array_equal(read(lab, z), X + Y)
    with pytest.raises(lk.CallError, match="has a mask"):
        knl(x=Interface(data, mask=data), y=Interface(data), alpha=1)
    knl(x=Interface(data), y=Interface(data), alpha=1)
    with pytest.raises(lk.CallError, match="has a mask"):
        knl(x=Interface(data, mask=data), y=Interface(data), alpha=1)
    with pytest.raises(lk.CallError, match="byte order"):
        knl(x=Interface(data, typestr=">f4"), y=Interface(data), alpha=1)
    read_only = Interface(data, data=(data.pointer, True))
    knl(x=read_only, y=Interface(data), alpha=1)
    out = on_gpu(lab.machine, Y)
    knl(x=Interface(data), y=Interface(data), z=Interface(out), alpha=1)
    for _ in range(2):
        with pytest.raises(lk.CallError, match="read-only"):
            knl(x=Interface(data), y=Interface(data), z=Interface(out, data=(out.pointer, True)), alpha=1)
    with pytest.raises(lk.CallError, match="no GPU has its address"):
        knl(x=Interface(data, data=(X.ctypes.data, False)), y=Interface(data), alpha=1)


def test_interfaces_with_lists_for_tuples(lab: Lab) -> None:
    knl = lk.compile(rows(), target="cuda")
    data = on_gpu(lab.machine, BASE)
    for strides in (None, [48, 4]):
        for _ in range(2):
            y = knl(x=Interface(data, shape=[10, 12], strides=strides)).y
            np.testing.assert_array_equal(read(lab, y), 2*BASE)


def test_interfaces_whose_dtype_is_more_than_their_typestr(lab: Lab) -> None:
    """Two bytes without a meaning to numpy's codes: the object's own dtype says what they are, each time."""
    knl = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + x[i]"), target="cuda")
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    x = Interface(on_gpu(lab.machine, values), typestr="<V2")
    x.dtype = values.dtype                             # type: ignore[attr-defined]
    np.testing.assert_array_equal(read(lab, knl(x=x).y), values + values)
    plain = Interface(x.on_gpu, typestr="<V2")
    with pytest.raises(lk.CallError, match="kernels do not support"):
        knl(x=plain)


def test_empty_interfaces(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    empty = Interface(on_gpu(lab.machine, X[:0]), data=(0, False))
    assert knl(x=empty, y=empty, alpha=2).z.shape == (0,)
    none = Interface(on_gpu(lab.machine, X[:0]), data=(None, False))
    assert knl(x=none, y=none, alpha=2).z.shape == (0,)


def test_dlpack_asks_for_the_legacy_stream(lab: Lab) -> None:
    """Even if the array is made on a stream that nobody waits for otherwise."""
    knl = lk.compile(saxpy(), target="cuda")
    own = lab.machine.new_stream(blocking=False, context=lab.machine.primary(0)).handle
    x = Exporter(on_gpu(lab.machine, X, stream=own), own)
    z, = knl(x=x, y=x, alpha=1)
    assert x.asked == [1, 1]
    np.testing.assert_array_equal(read(lab, z), 2*X)


def test_results_go_back_to_the_library_of_the_capsule(lab: Lab) -> None:
    taken = []

    def from_dlpack(array: Any) -> Any:
        capsule = array.__dlpack__(stream=None)
        taken.append(read(lab, array))
        return capsule
    space = ModuleType("space")
    space.from_dlpack = from_dlpack                    # type: ignore[attr-defined]
    knl = lk.compile(saxpy(), target="cuda")
    x = Exporter(on_gpu(lab.machine, X), namespace=space)
    for _ in range(2):
        z, = knl(x=x, y=x, alpha=2)
        assert type(z).__name__ == "PyCapsule"
        np.testing.assert_array_equal(taken.pop(), 3*X)


def test_own_arrays_are_arrays(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = make(lab, "dlpack", X)
    z, = knl(x=x, y=x, alpha=1)
    w, = knl(x=z, y=z, alpha=1)
    np.testing.assert_array_equal(read(lab, w), 4*X)
    assert "shape (100,), dtype float32, on GPU 0" in repr(w)
    assert w.nbytes == 400
    other = Interface(SimpleNamespace(array=X, pointer=w.pointer))
    other.told = w.__cuda_array_interface__            # type: ignore[assignment]
    np.testing.assert_array_equal(read(lab, knl(x=other, y=other, alpha=0).z), 4*X)


def test_arrays_of_a_context_of_their_own_are_refused(lab: Lab) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = make(lab, "pycuda", X)
    knl(x=x, y=x, alpha=1)
    with lab.machine.context(lab.machine.foreign_context(0)):
        foreign = lab.gpuarray.to_gpu(X)
        for _ in range(2):
            with pytest.raises(lk.CallError, match="context of its own"):
                knl(x=foreign, y=foreign, alpha=1)
        np.testing.assert_array_equal(read(lab, knl(x=x, y=x, alpha=1).z), 2*X)
