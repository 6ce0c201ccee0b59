"""Scalars, sizes and refusals: the behaviour of the host's calls, on fake GPUs."""
from __future__ import annotations

from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Tensor
from tests.runtime.cuda.work import GPU_KINDS, KINDS, F, make, read, rows, saxpy

BF16, E4M3 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
X, Y = np.arange(50, dtype=F), np.ones(50, F)


# Scalars

@pytest.mark.deep
@pytest.mark.parametrize(("dtype", "given"), [
    (np.float32, [2, np.float64(0.5), np.int8(3), np.array(2.5), True, float("inf"), -0.0]),
    (np.float64, [1e300, 10**20, np.float16(0.1)]), (np.float16, [0.1, 65504, np.float16(3), 65510.0]),
    (BF16, [0.1, 3, BF16.type(1.5), np.array(2, BF16), 3e38]),
    (np.int8, [-128, 127, np.uint8(100), np.True_, np.array(7)]), (np.uint64, [2**64 - 1, 0]),
    (np.int64, [-2**63, 2**63 - 1]), (np.uint8, [255]), (np.int16, [-2**15]), (np.uint16, [2**16 - 1]),
    (np.uint32, [2**32 - 1]), (np.int32, [-2**31]), (np.bool_, [True, np.False_]),
    (np.complex64, [1 + 2j, 3, np.complex128(0.1j)]), (np.complex128, [1e300 - 1e-300j, 0.1])],
    ids=lambda value: getattr(value, "__name__", str(value)) if not isinstance(value, list) else "")
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_scalars_arrive(lab: Lab, dtype: Any, given: list[Any], kind: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s", name="fill")
    compiled = lk.compile(lk.add_dtypes(knl, {"y": dtype, "s": dtype}), target="cuda")
    y = make(lab, kind, np.zeros(3, dtype))
    for s in [*given, *given]:
        compiled(y=y, s=s)
        value = s[()] if isinstance(s, np.ndarray) else s
        np.testing.assert_array_equal(read(lab, y), np.full(3, value, dtype))
        assert compiled.bind(y=y, s=s)().y is y


@pytest.mark.deep(every=14)
@pytest.mark.parametrize(("dtype", "given", "match"), [
    (np.float32, 1e39, "overflows float32"), (np.float16, 65520.0, "overflows float16"),
    (BF16, 3.4e38, "overflows bfloat16"), (E4M3, 465.0, "overflows float8_e4m3fn"),
    (np.float32, 1j, "a real number"), (np.float32, "1", "a real number"),
    (np.float32, np.ones(2, F), "a real number"), (np.uint8, -1, "from 0 to 255"), (np.int8, 128, "int8 cannot hold"),
    (np.int64, 2**63, "int64 cannot hold"), (np.int32, np.float32(2), "an integer"), (np.int32, 2.0, "an integer"),
    (np.bool_, 1, "a truth value"), (np.complex64, 1e39j, "overflows complex64"), (np.float64, 10**400, "overflows"),
    (np.float32, None, r"missing|must be a real number")])
def test_scalars_are_refused(lab: Lab, dtype: Any, given: object, match: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s", name="fill")
    compiled = lk.compile(lk.add_dtypes(knl, {"y": dtype, "s": dtype}), target="cuda")
    y = make(lab, "torch", np.zeros(3, dtype))
    for good in (np.True_, np.True_):
        with pytest.raises(lk.CallError, match=match) as caught:
            compiled(y=y, s=given)
        assert caught.value.argument == "s"
        compiled(y=y, s=good)                          # what is remembered of it does not help the other one


@pytest.mark.deep
def test_scalars_between_sizes(lab: Lab) -> None:
    """What is written for each call leaves alone what is the same in all, wherever it is among the parameters."""
    for s, u in (("a", "z"), ("o", "p"), ("z", "a"), ("l", "z")):
        knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", f"y[i,j] = {s}*x[i,j] + {u}", name="between")
        knl = lk.add_dtypes(knl, {"x": F, s: np.float64, u: np.int8})
        knl = lk.tag_inames(lk.split_iname(knl, "j", 4, inner_tag="l.0"), {"i": "g.0", "j_outer": "g.1"})
        compiled = lk.compile(knl, target="cuda")
        x = np.arange(30, dtype=F).reshape(5, 6)
        for order in permutations(["x", "y", s, u]):
            y = make(lab, "torch", np.zeros((5, 6), F))
            values = {"x": make(lab, "torch", x), "y": y, s: 2.5, u: -3}
            for _ in range(2):
                compiled(**{name: values[name] for name in order})
            np.testing.assert_array_equal(read(lab, y), 2.5*x - 3)
            compiled(**{name: values[name] for name in order}, n=2, m=6)
            assert lab.machine.launched[-1].arguments["n"] == 2


@pytest.mark.deep
def test_open_dtypes(lab: Lab) -> None:
    """Arrays and scalars may have any dtype at each call; the dtypes of earlier calls have no effect."""
    compiled = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s*x[i]"), target="cuda")
    host = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s*x[i]"), target="c")
    cases = [(x, s) for x in (X, X.astype(np.float64), X.astype(np.int16))
             for s in (2, 2.5, np.float32(2.5), np.int8(2), np.array(3, F))]
    for x, s in [*cases, *cases[::-1]]:
        wanted = host(x=x, s=s).y
        for kind in ("numpy", "torch"):
            found = read(lab, compiled(x=make(lab, kind, x), s=s).y)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(lk.CallError, match="be a number"):
        compiled(x=X, s="x")


# Sizes

@pytest.mark.deep(every=7)
@pytest.mark.parametrize("kind", KINDS)
def test_sizes(lab: Lab, kind: str) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, y, short = make(lab, kind, X), make(lab, kind, Y), make(lab, kind, Y[:20])
    for _ in range(2):
        with pytest.raises(lk.CallError, match="contradict each other"):
            compiled(x=x, y=short, alpha=1)
        with pytest.raises(lk.CallError, match="is too small"):
            compiled(x=x, y=y, alpha=1, n=51)
        with pytest.raises(lk.CallError, match=r"'z' is too small|contradict"):
            compiled(x=x, y=y, z=short, alpha=1)
        out = compiled(x=x, y=short, alpha=1, n=20)
        np.testing.assert_array_equal(read(lab, out.z)[:20], X[:20] + 1)
        for n in (7, np.int64(7), np.array(7)):
            out = compiled(x=x, y=y, alpha=1, n=n)
            np.testing.assert_array_equal(read(lab, out.z)[:7], X[:7] + 1)
        with pytest.raises(lk.CallError, match="an integer"):
            compiled(x=x, y=y, alpha=1, n=7.0)
        with pytest.raises(lk.CallError, match=r"n = -1|cannot be negative|n >= 0|too small"):
            compiled(x=x, y=y, alpha=1, n=-1)
        np.testing.assert_array_equal(read(lab, compiled(x=x, y=y, alpha=1, n=None, z=None).z), X + 1)


def test_assumptions(lab: Lab) -> None:
    knl = lk.compile(saxpy(assumptions="n>=10"), target="cuda")
    x = make(lab, "torch", X)
    for _ in range(2):
        np.testing.assert_array_equal(read(lab, knl(x=x, y=x, alpha=1).z), 2*X)
        with pytest.raises(lk.CallError, match="assumes"):
            knl(x=x[:9], y=x[:9], alpha=1)
        with pytest.raises(lk.CallError, match="assumes"):
            knl(x=x, y=x, alpha=1, n=3)


def test_a_size_decides_about_the_width_of_indices(lab: Lab) -> None:
    compiled = lk.compile(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[0] = m"), {"y": np.int64}), target="cuda")
    y = make(lab, "torch", np.zeros(1, np.int64))
    for m in (5, 2**31 - 1, 2**31, 5, 2**40, -2**31 - 1):
        compiled(y=y, n=1, m=m)
        assert read(lab, y)[0] == m
    assert {x.index_bits for x in lab.codes.layouts} <= {32, 64}


# What is refused

@pytest.mark.deep(every=5)
@pytest.mark.parametrize("kind", GPU_KINDS)
def test_refusals(lab: Lab, kind: str) -> None:
    """What was refused once is refused again, and what was right before still is; nothing is written."""
    compiled = lk.compile(saxpy(), target="cuda")
    x, y, z = (make(lab, kind, a) for a in (X, Y, np.zeros(50, F)))
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("x", "'x' must be of dtype float32, not float64", {"x": make(lab, kind, X.astype(np.float64))}),
        ("x", "'x' must have 1 dimension, not 2", {"x": make(lab, kind, X[:, None])}),
        ("z", "'z' is written and overlaps 'x'", {"z": x}),
        ("x", "must be an array, not list", {"x": [1.0, 2.0]}),
        ("x", "must be an array, not float", {"x": 2.0}),
        ("beta", "'beta' is not an argument", {"beta": 1}),
        ("alpha", "'alpha' must be a real number", {"alpha": "2"}),
        ("alpha", "overflows float32", {"alpha": 1e300}),
    ]
    launched = 0
    for argument, match, changes in cases:
        for _ in range(2):
            with pytest.raises(lk.CallError, match=match) as caught:
                compiled(**{"x": x, "y": y, "z": z, "alpha": 2.0, **changes})
            assert caught.value.argument == argument
            assert len(lab.machine.launched) == launched
            compiled(x=x, y=y, z=z, alpha=2.0)
            launched += 1
    np.testing.assert_array_equal(read(lab, z), 2*X + 1)
    with pytest.raises(lk.CallError, match="'x' is missing"):
        compiled(y=y, alpha=1)
    with pytest.raises(lk.CallError, match="'alpha' is missing"):
        compiled(x=x, y=y)


def test_tensors_that_are_not_what_they_hold(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    for good in (make(lab, "torch", X), make(lab, "torch_cpu", X)):
        for flags, match in (({"requires_grad": True}, "requires a gradient"), ({"neg": True}, "negated or conjugated"),
                             ({"sparse": True}, "layout torch.sparse_coo")):
            np.testing.assert_array_equal(read(lab, compiled(x=good, y=good, alpha=1).z), 2*X)
            for _ in range(2):
                with pytest.raises(lk.CallError, match=match):
                    compiled(x=good.flagged(**flags), y=good, alpha=1)
    meta = Tensor(lab.torch, X, meta=True)             # which says of itself what one on the host does
    for _ in range(2):
        with pytest.raises(lk.CallError, match="'x' has a shape and no memory"):
            compiled(x=meta, y=good, alpha=1)
    with pytest.raises(lk.CallError, match="is on the device 'meta'"):
        lk.compile(saxpy(), target="cuda")(x=meta, y=good, alpha=1)


def test_tensors_without_memory_do_not_reach_the_host(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="c")
    x = make(lab, "torch_cpu", X)
    for _ in range(2):
        np.testing.assert_array_equal(read(lab, compiled(x=x, y=x, alpha=1).z), 2*X)
    for _ in range(2):
        with pytest.raises(lk.CallError, match="'x' has a shape and no memory"):
            compiled(x=Tensor(lab.torch, X, meta=True), y=x, alpha=1)


def test_conjugated_tensors(lab: Lab) -> None:
    compiled = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), target="cuda")
    values = (X + 1j).astype(np.complex64)
    x = make(lab, "torch", values)
    for _ in range(2):
        np.testing.assert_array_equal(read(lab, compiled(x=x).y), 2*values)
        with pytest.raises(lk.CallError, match="negated or conjugated"):
            compiled(x=x.flagged(conj=True))


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("kind", ["numpy", "torch", "cupy"])
def test_overlaps_are_looked_for_at_each_call(lab: Lab, kind: str) -> None:
    compiled = lk.compile(rows(), target="cuda")
    memory = make(lab, kind, np.arange(400, dtype=F).reshape(20, 20))

    def part(how: Any) -> Any:
        return how(memory) if kind == "numpy" else memory.seen(how)
    compiled(x=part(lambda a: a[:10]), y=part(lambda a: a[10:]))
    for _ in range(2):
        with pytest.raises(lk.CallError, match="'y' is written and overlaps 'x'"):
            compiled(x=part(lambda a: a[:10]), y=part(lambda a: a[9:19]))
        before = read(lab, memory).copy()
        compiled(x=part(lambda a: a[:, ::2]), y=part(lambda a: a[:, 1::2]))      # interleaved, not an element shared
        np.testing.assert_array_equal(read(lab, memory)[:, 1::2], 2*before[:, ::2])
        with pytest.raises(lk.CallError, match="'y' is written and overlaps 'x'"):
            compiled(x=part(lambda a: a[:, ::2]), y=part(lambda a: a[:, ::2]))


@pytest.mark.deep(every=12)
@pytest.mark.parametrize("names", list(permutations(("unused", "x", "y"))), ids="-".join)
@pytest.mark.parametrize("target", ["cuda", "c"])
def test_an_array_that_the_kernel_never_touches(lab: Lab, target: str, names: tuple[str, ...]) -> None:
    """Wherever it is among the arguments, the others arrive at their own parameters."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", [
        *(lk.GlobalArg(name, F) for name in ("x", "y")), lk.GlobalArg("unused", F, shape="n"), ...])
    compiled = lk.compile(knl, target=target)
    arrays = {"unused": np.full(9, 7, F), "x": np.arange(9, dtype=F), "y": np.zeros(9, F)}
    for _ in range(2):
        out = compiled(**{k: arrays[k] for k in names}).y
        np.testing.assert_array_equal(out, 2*arrays["x"])
    np.testing.assert_array_equal(compiled.bind(**{k: arrays[k] for k in names})().y, 2*arrays["x"])
