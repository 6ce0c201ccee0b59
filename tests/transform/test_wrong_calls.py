"""Wrong calls beyond the transformations' own: each is refused with its class, its fields and the way out."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.transform.kernels import F32, matvec, scaled_matrix, twice

Fields = dict[str, object]
LINE = "{[i]: 0<=i<n}"


def kernel(text: str, domain: str = LINE, data: list[Any] | None = None, **dtypes: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(domain, text, data), dtypes)


def untyped() -> lk.LoopKernel:
    return lk.make_kernel(LINE, "y[i] = 2*x[i]")


def scaled() -> lk.LoopKernel:
    return lk.make_kernel(LINE, "y[i] = s*x[i]", [lk.GlobalArg("x", F32), lk.ValueArg("s", F32), "..."])


def declared() -> lk.LoopKernel:
    return lk.make_kernel(LINE, "y[i] = 2*x[i]", [lk.GlobalArg("x", F32, shape="n"), lk.GlobalArg("y", F32, shape="n"),
                                                 lk.ValueArg("n")])


def zeros(*shape: int, dtype: object = F32) -> np.ndarray:
    return np.zeros(shape, dtype)                                              # type: ignore[call-overload]


def read_only() -> np.ndarray:
    array = zeros(5)
    array.flags.writeable = False
    return array


def unaligned() -> np.ndarray:
    return np.frombuffer(bytearray(21), np.uint8)[1:].view(F32)


def mapped(length: int, **tags: str) -> lk.LoopKernel:
    return lk.split_iname(twice(), "i", length, **tags)                        # type: ignore[arg-type]


def boxed(text: str, tags: str, **dtypes: Any) -> lk.LoopKernel:
    return lk.tag_inames(kernel(text, "{[i,j]: 0<=i<4 and 0<=j<8}", **dtypes), tags)


CALLS: Mapping[str, tuple[Callable[[], object], type[lk.LoopkitError], Fields]] = {
    # calling a kernel
    "arguments by position": (lambda: twice()(zeros(3)), lk.CallError, {"argument": ""}),
    "nothing given": (lambda: twice()(), lk.CallError, {"argument": "x"}),
    "one array missing": (lambda: matvec()(a=zeros(3, 4)), lk.CallError, {"argument": "x"}),
    "unknown argument": (lambda: twice()(x=zeros(3), q=3), lk.CallError, {"argument": "q"}),
    "wider dtype": (lambda: twice()(x=zeros(3, dtype=np.float64)), lk.CallError, {"argument": "x"}),
    "integers for floats": (lambda: twice()(x=zeros(3, dtype=np.int32)), lk.CallError, {"argument": "x"}),
    "wrong output dtype": (lambda: twice()(x=zeros(3), y=zeros(3, dtype=np.float64)), lk.CallError, {"argument": "y"}),
    "byte order": (lambda: twice()(x=zeros(3, dtype=">f4")), lk.CallError, {"argument": "x"}),
    "a list": (lambda: twice()(x=[1.0, 2.0]), lk.CallError, {"argument": "x"}),
    "an object": (lambda: twice()(x=object()), lk.CallError, {"argument": "x"}),
    "too many dimensions": (lambda: twice()(x=zeros(3, 3)), lk.CallError, {"argument": "x"}),
    "too few dimensions": (lambda: matvec()(a=zeros(12), x=zeros(4)), lk.CallError, {"argument": "a"}),
    "shapes that contradict": (lambda: matvec()(a=zeros(3, 4), x=zeros(5)), lk.CallError, {"argument": "x"}),
    "larger than the array": (lambda: twice()(x=zeros(3), n=5), lk.CallError, {"argument": "x"}),
    "output too small": (lambda: twice()(x=zeros(5), y=zeros(3), n=5), lk.CallError, {"argument": "y"}),
    "not of the declared shape": (lambda: declared()(x=zeros(5), y=zeros(5), n=4), lk.CallError, {"argument": "x"}),
    "negative size": (lambda: twice()(x=zeros(3), n=-1), lk.CallError, {"argument": "n"}),
    "size of a fraction": (lambda: twice()(x=zeros(3), n=2.5), lk.CallError, {"argument": "n"}),
    "size as text": (lambda: twice()(x=zeros(3), n="3"), lk.CallError, {"argument": "n"}),
    "size that nothing determines": (lambda: kernel("y[2*i] = x[2*i]", x=F32)(x=zeros(9)), lk.CallError,
                                     {"argument": "n"}),
    "value missing": (lambda: scaled()(x=zeros(3)), lk.CallError, {"argument": "s"}),
    "array for a value": (lambda: scaled()(x=zeros(3), s=zeros(3)), lk.CallError, {"argument": "s"}),
    "complex for a real value": (lambda: scaled()(x=zeros(3), s=1j), lk.CallError, {"argument": "s"}),
    "assumption broken": (lambda: lk.assume(twice(), "n >= 8")(x=zeros(3)), lk.CallError, {"argument": "n"}),
    "read and written, but missing": (lambda: kernel("y[i] = y[i] + x[i]", x=F32, y=F32)(x=zeros(3)), lk.CallError,
                                      {"argument": "y"}),
    "read-only output": (lambda: twice()(x=zeros(5), y=read_only()), lk.CallError, {"argument": "y"}),
    "not aligned": (lambda: twice()(x=unaligned()), lk.CallError, {"argument": "x"}),
    "one array twice": (lambda: (lambda a: twice()(x=a, y=a))(zeros(5)), lk.CallError, {"argument": "y"}),
    "arrays that overlap": (lambda: (lambda a: twice()(x=a[1:], y=a[:-1]))(zeros(5)), lk.CallError, {"argument": "y"}),
    "dtypes left open by what is given": (lambda: untyped()(n=3), lk.CallError, {"argument": "x"}),
    # targets
    "unknown target": (lambda: lk.generate_code(twice(), target="metal"), lk.PreconditionError, {"subject": "metal"}),
    "not a target": (lambda: lk.generate_code(twice(), target=None), lk.PreconditionError,        # type: ignore[arg-type]
                  {"subject": "target"}),
    "unknown architecture": (lambda: lk.generate_code(twice(), target=lk.CudaTarget(arch="sm_13")),
                             lk.PreconditionError, {"subject": "sm_13"}),
    "no such target": (lambda: lk.compile(twice(), target="metal"), lk.PreconditionError, {"subject": "metal"}),
    "no kernel to print": (lambda: lk.generate_code("y[i] = 1"), lk.PreconditionError,         # type: ignore[arg-type]
                           {"subject": "knl"}),
    "no kernel to lower": (lambda: lk.lower("y[i] = 1"), lk.PreconditionError,                 # type: ignore[arg-type]
                           {"subject": "knl"}),
    "no kernel to compile": (lambda: lk.compile("y[i] = 1"), lk.PreconditionError,             # type: ignore[arg-type]
                             {"subject": "knl"}),
    "unknown stage": (lambda: lk.lower(twice(), stop="x"), lk.PreconditionError, {"subject": "x"}),
    # what code generation refuses
    "half of an integer as a subscript": (lambda: lk.generate_code(kernel("y[i] = x[i / 2]", x=F32)),
                                          lk.TypeInferenceError, {"subject": "x"}),
    "real numbers as subscripts": (lambda: lk.generate_code(kernel("y[at[i]] = x[i]", x=F32, at=F32)),
                                   lk.TypeInferenceError, {"subject": "y"}),
    "open dtype": (lambda: lk.generate_code(untyped()), lk.TypeInferenceError, {"subject": "x"}),
    "open dtype in the first stage": (lambda: lk.lower(untyped(), stop="types"), lk.TypeInferenceError,
                                      {"subject": "x"}),
    "fraction lost": (lambda: lk.generate_code(kernel("y[i] = x[i]", x=F32, y=np.int32)), lk.TypeInferenceError,
                      {"subject": "y"}),
    "imaginary part lost": (lambda: lk.generate_code(kernel("y[i] = x[i]", x=np.complex64, y=F32)),
                            lk.TypeInferenceError, {"subject": "y"}),
    "read after the end": (lambda: lk.generate_code(lk.make_kernel(
        LINE, "y[i] = x[i+1]", [lk.GlobalArg("x", F32, shape="n"), "..."])), lk.BoundsError,
        {"witness": lk.AccessWitness({"n": 1}, ("insn", {"i": 0}), "x", (1,), "accesses")}),
    "read before the start": (lambda: lk.generate_code(kernel("y[i] = x[i-1]", x=F32)), lk.BoundsError,
                              {"witness": lk.AccessWitness({"n": 1}, ("insn", {"i": 0}), "x", (-1,), "accesses")}),
    "write before the start": (lambda: lk.generate_code(kernel("y[i-3] = x[i]", x=F32)), lk.BoundsError,
                               {"witness": lk.AccessWitness({"n": 1}, ("insn", {"i": 0}), "y", (-3,), "accesses")}),
    "read after a temporary's end": (lambda: lk.generate_code(kernel(
        "<> t[i] = x[i]\ny[i] = t[i+1]", "{[i]: 0<=i<4}",
        [lk.TemporaryVariable("t", F32, (4,)), "..."], x=F32)), lk.BoundsError,
        {"witness": lk.AccessWitness({}, ("insn_0", {"i": 3}), "t", (4,), "accesses")}),
    "too many threads": (lambda: lk.generate_code(mapped(2048, outer_tag="g.0", inner_tag="l.0")), lk.LimitError,
                         {"what": "threads per block", "limit": 1024, "required": 2048}),
    "too many threads along z": (lambda: lk.generate_code(mapped(128, outer_tag="g.0", inner_tag="l.2")),
                                 lk.LimitError, {"what": "threads along z", "limit": 64, "required": 128}),
    "too many blocks along y": (lambda: lk.generate_code(lk.tag_inames(lk.fix_parameters(twice(), n=70000), "i:g.1")),
                                lk.LimitError, {"what": "blocks along y", "limit": 65535, "required": 70000}),
    "reduction over l.auto": (lambda: lk.lower(lk.tag_inames(lk.fix_parameters(matvec(), n=4, m=8),
                                                             "i:l.0, k:l.auto")), lk.PreconditionError, {}),
    "an axis packed in two ways": (
        lambda: lk.lower(boxed("y[i,j] = x[j]\nz[j] = x[j]", "i:l.0, j:l.0", x=F32)), lk.PreconditionError, {}),
    # making a kernel
    "domains of no kind": (lambda: lk.make_kernel(3, "y[i] = 1"), lk.PreconditionError,         # type: ignore[arg-type]
                           {"subject": "domains"}),
    "instructions of no kind": (lambda: lk.make_kernel(LINE, 3), lk.PreconditionError,          # type: ignore[arg-type]
                                {"subject": "instructions"}),
    "data of no kind": (lambda: lk.make_kernel(LINE, "y[i] = 1", 3), lk.PreconditionError,      # type: ignore[arg-type]
                        {"subject": "kernel_data"}),
    "a name of no kind": (lambda: lk.make_kernel(LINE, "y[i] = 1", name=3), lk.PreconditionError,  # type: ignore[arg-type]
                          {"subject": "name"}),
    "options of no kind": (lambda: lk.make_kernel(LINE, "y[i] = 1", options=3), lk.PreconditionError,  # type: ignore[arg-type]
                           {"subject": "options"}),
    "nothing at all": (lambda: lk.make_kernel("", "y[i] = 1"), lk.ParseError, {"line": 1, "column": 1}),
    # comparing
    "results that differ": (lambda: lk.check_equivalent(twice(), kernel("y[i] = 3*x[i]", x=F32), {"n": 4}),
                            lk.EquivalenceError, {"output": "y", "index": (0,)}),
    "size not allowed": (lambda: lk.check_equivalent(twice(), twice(), {"n": -1}), lk.CallError, {"argument": "n"}),
}


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str) -> None:
    call, error, fields = CALLS[name]
    with pytest.raises(lk.LoopkitError) as caught:
        call()
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields
    assert caught.value.message.endswith(".")
    assert "%s" not in str(caught.value)
    subject = fields.get("argument") or fields.get("witness") or fields.get("subject")
    if subject:
        assert str(subject) in str(caught.value)


def test_a_refused_call_leaves_its_arrays_alone() -> None:
    y = np.full(3, 7, F32)
    with pytest.raises(lk.CallError):
        scaled()(x=zeros(3), y=y)
    assert np.all(y == 7)


def test_sizes_of_zero_are_no_mistake() -> None:
    assert twice()(x=zeros(0)).y.shape == (0,)
    assert scaled_matrix()(x=zeros(0, 4)).y.shape == (0, 4)
    assert np.all(matvec()(a=zeros(3, 0), x=zeros(0)).y == 0)


@pytest.mark.parametrize("call", [
    lambda knl, x: lk.distribute_loop(knl, "i", x), lambda knl, x: lk.buffer_array(knl, x, "i"),
    lambda knl, x: lk.add_prefetch(knl, x, "i"), lambda knl, x: lk.precompute(knl, x, "i"),
    lambda knl, x: lk.expand(knl, x, "i"), lambda knl, x: lk.contract(knl, x, "i"),
    lambda knl, x: lk.rename_argument(knl, x, "u"), lambda knl, x: lk.rename_iname(knl, x, "u"),
    lambda knl, x: lk.affine_map_inames(knl, "i", "u", [x])])
@pytest.mark.parametrize("name", [None, 3])
def test_what_is_no_name_is_no_name_of_the_kernel(call: Callable[[lk.LoopKernel, Any], object], name: object) -> None:
    with pytest.raises((lk.UnknownNameError, lk.PreconditionError), match=str(name)):
        call(twice(), name)
