"""DLPack capsules in and out: ownership and release of memory."""
from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.compiler import find_compiler
from loopkit.runtime.cuda import memory as dlpack
from loopkit.runtime.cuda.memory import _DELETER, DeviceArray, Imported, _Managed, _Versioned
from loopkit.runtime.views import ArrayView
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import on_gpu
from tests.runtime.cuda.work import F, read, saxpy

X = np.arange(12, dtype=F).reshape(3, 4)

_new = dlpack._api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Capsule:
    """Made by hand: a structure whose fields a test sets, and the capsule over it.

    :ivar deleted: how often its deleter was called.
    """

    def __init__(self, *, versioned: bool = False, array: np.ndarray = X, strides: bool = True, **fields: Any) -> None:
        self.deleted = 0
        self.array = array
        self._shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        self._strides = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
        self.managed = _Versioned() if versioned else _Managed()
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = array.ctypes.data, 2, 0, array.ndim
        tensor.code, tensor.bits, tensor.lanes = 2, 8*array.itemsize, 1
        tensor.shape = self._shape
        if strides:
            tensor.strides = self._strides
        if versioned:
            self.managed.major = fields.pop("major", 1)
            self.managed.flags = fields.pop("flags", 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        self._deleter = _DELETER(self._delete)
        self.managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        self.made = _new(ctypes.addressof(self.managed), dlpack._VERSIONED if versioned else dlpack._PLAIN, None)

    def _delete(self, address: int) -> None:
        assert address == ctypes.addressof(self.managed)
        self.deleted += 1


# In

@pytest.mark.parametrize("versioned", [False, True])
def test_what_a_capsule_says(versioned: bool) -> None:
    capsule = Capsule(versioned=versioned, array=X[:, ::2], byte_offset=16)
    found = Imported(capsule.made)
    assert found.view == ArrayView(np.dtype(F), (3, 2), (16, 8), X.ctypes.data + 16, 0, writeable=True)
    assert found.device_type == 2
    assert Imported(Capsule(versioned=versioned, strides=False).made).view.strides == (16, 4)


def test_read_only_is_said_by_versioned_capsules_only() -> None:
    assert not Imported(Capsule(versioned=True, flags=1).made).view.writeable
    assert Imported(Capsule(versioned=True, flags=2).made).view.writeable


@pytest.mark.parametrize("versioned", [False, True])
def test_the_deleter_is_called_once(versioned: bool) -> None:
    capsule = Capsule(versioned=versioned)
    found = Imported(capsule.made)
    with pytest.raises(ValueError, match="used before"):
        Imported(capsule.made)
    assert capsule.deleted == 0
    del found
    assert capsule.deleted == 1
    del capsule.made
    gc.collect()
    assert capsule.deleted == 1


def test_capsules_without_a_deleter() -> None:
    capsule = Capsule()
    capsule.managed.deleter = None
    assert Imported(capsule.made).view.shape == (3, 4)


@pytest.mark.parametrize(("fields", "match"), [
    ({"lanes": 4}, "numpy does not support"), ({"code": 3}, "numpy does not support"),
    ({"bits": 4}, "numpy does not support"), ({"code": 4, "bits": 8}, "a bfloat16 of 8 bits")])
def test_elements_that_are_refused_are_given_back(fields: dict[str, int], match: str) -> None:
    capsule = Capsule(**fields)
    with pytest.raises(ValueError, match=match):
        Imported(capsule.made)
    gc.collect()
    assert capsule.deleted == 1


def test_versions_that_are_not_known_are_not_touched() -> None:
    capsule = Capsule(versioned=True, major=2)
    with pytest.raises(ValueError, match="DLPack 2"):
        Imported(capsule.made)
    assert capsule.deleted == 0                        # the capsule's maker still has it
    with pytest.raises(ValueError, match="PyCapsule"):
        Imported(object())


@pytest.mark.parametrize(("code", "bits", "wanted"), [
    (0, 16, "int16"), (1, 64, "uint64"), (2, 16, "float16"), (4, 16, "bfloat16"), (5, 128, "complex128"),
    (6, 8, "bool"), (10, 8, "float8_e4m3fn"), (12, 8, "float8_e5m2")])
def test_elements(code: int, bits: int, wanted: str) -> None:
    assert Imported(Capsule(code=code, bits=bits).made).view.dtype.name == wanted


# Out

def exported(array: np.ndarray = X) -> Any:
    return DeviceArray(ArrayView(array.dtype, array.shape, array.strides, array.ctypes.data, 0), array)


@pytest.mark.parametrize("array", [X, X.T, X[::2, 1:], X[0, 0:0], np.array(3.0), X.astype(ml_dtypes.bfloat16),
                                   X.astype(ml_dtypes.float8_e5m2), X.astype(np.complex64), X > 3],
                         ids=lambda a: f"{a.dtype}{a.shape}{a.strides}")
def test_there_and_back(array: np.ndarray) -> None:
    found = Imported(exported(array).__dlpack__())
    assert found.view == exported(array).view
    assert found.device_type == 2


def test_a_capsule_holds_its_array_until_it_is_done_with() -> None:
    array = exported()
    watched = weakref.ref(array)
    capsule = array.__dlpack__()
    taken = Imported(capsule)
    del array, capsule
    gc.collect()
    assert watched() is not None
    del taken
    gc.collect()
    assert watched() is None


def test_a_capsule_that_nobody_takes_goes_with_its_array() -> None:
    array = exported()
    watched = weakref.ref(array)
    capsules = [array.__dlpack__(stream=None) for _ in range(3)]
    assert len({id(capsule) for capsule in capsules}) == 3
    del capsules, array
    gc.collect()
    assert watched() is None


def test_copies_and_other_devices_are_refused() -> None:
    array = exported()
    array.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(2, 0), copy=False)
    for wrong in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="without a copy"):
            array.__dlpack__(**wrong)
    assert array.__dlpack_device__() == (2, 0)


# As arguments

class Producer(SimpleNamespace):
    """Gives *capsule* once; *device* is what it says before."""

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.device
        return device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self.old and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.capsule.made


def producer(lab: Lab, *, device: tuple[int, int] = (2, 0), old: bool = False, **fields: Any) -> Producer:
    data = on_gpu(lab.machine, np.arange(12, dtype=F))
    return Producer(capsule=Capsule(array=data.array, **fields), device=device, old=old, data=data)


@pytest.mark.parametrize("old", [False, True])
def test_arguments(lab: Lab, old: bool) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, y = producer(lab, old=old), producer(lab, old=old, versioned=not old)
    np.testing.assert_array_equal(read(lab, compiled(x=x, y=y, alpha=1).z), 2*np.arange(12))
    gc.collect()
    assert (x.capsule.deleted, y.capsule.deleted) == (1, 1)


def test_arguments_that_are_refused(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    y = on_gpu(lab.machine, np.arange(12, dtype=F))
    good = DeviceArray(ArrayView.packed((12,), np.dtype(F), 0, y.pointer), y)
    with pytest.raises(lk.CallError, match="its memory is not on a GPU"):
        compiled(x=producer(lab, device_type=1), y=good, alpha=1)
    with pytest.raises(lk.CallError, match="must be an array"):
        compiled(x=producer(lab, device=(10, 0)), y=good, alpha=1)
    with pytest.raises(lk.CallError, match="cannot be read through DLPack: elements that numpy"):
        compiled(x=producer(lab, lanes=2), y=good, alpha=1)
    used = producer(lab)
    compiled(x=used, y=good, alpha=1)
    with pytest.raises(lk.CallError, match="used before"):
        compiled(x=used, y=good, alpha=1)
    with pytest.raises(lk.CallError, match="read-only"):
        compiled(x=good, y=good, z=producer(lab, versioned=True, flags=1), alpha=1)
    with pytest.raises(lk.CallError, match="lies on GPU 1"):
        compiled(x=producer(lab, device_id=1), y=good, alpha=1)
    with pytest.raises(lk.CallError, match="not aligned"):
        compiled(x=producer(lab, byte_offset=2), y=good, alpha=1)


@pytest.mark.parametrize("device", [1, 3])
def test_arrays_on_the_host(lab: Lab, device: int) -> None:
    """Nothing but the standard, in the host's memory: they come and go as numpy's."""
    class OnHost:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return device, 0
    compiled = lk.compile(saxpy(), target="cuda")
    x = OnHost(np.arange(5, dtype=F))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x=x, y=x, alpha=2).z, 3*np.arange(5))


#: A library in C that took a capsule, and lets go of it when its own object dies.
_CONSUMER = """\
extern void *PyCapsule_GetPointer(void *, const char *);
void let_go(void *capsule)
{
    char *managed = PyCapsule_GetPointer(capsule, "taken");
    (*(void (**)(void *))(managed + %d))(managed);
}
"""
_PROGRAM = """\
import ctypes, sys
import numpy as np
from loopkit.runtime.cuda.memory import export_capsule
from loopkit.runtime.views import ArrayView
library, api = ctypes.CDLL(sys.argv[1]), ctypes.pythonapi
def call(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, api))
sys.names = ctypes.create_string_buffer(b"used_dltensor"), ctypes.create_string_buffer(b"taken")
used, taken = (ctypes.cast(name, ctypes.c_char_p) for name in sys.names)
a = np.ones(4)
capsule = export_capsule(ArrayView.packed((4,), a.dtype, 0, a.ctypes.data), a)
address = call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(capsule, b"dltensor")
call("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(capsule, used)
sys.kept = call("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    address, taken, ctypes.cast(library.let_go, ctypes.c_void_p))
"""


def test_a_consumer_that_outlives_the_module(tmp_path: Path) -> None:
    """When the process ends, modules go before what ``sys`` holds."""
    library = tmp_path / "consumer.so"
    library.write_bytes(find_compiler().compile(_CONSUMER % _Managed.deleter.offset, "consumer"))
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(library)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "")
