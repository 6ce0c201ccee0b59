"""Properties of every transformation: its input stays unchanged, its result computes the same."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.evaluate import evaluate
from loopkit.poly.sets import InstanceSet
from tests.language.outline import outline


def step(knl: lk.LoopKernel, transformation: Callable[..., lk.LoopKernel], *args: Any, **kwargs: Any
         ) -> lk.LoopKernel:
    """*transformation* of *knl*, which must stay as it was and be found in the result's history."""
    before, seen = annotated(knl), _seen(knl)
    result = transformation(knl, *args, **kwargs)
    assert _seen(knl) == seen
    assert knl == before
    assert result is not knl
    assert result.history[:-1] == knl.history
    last = result.history[-1]
    assert (last.name, last.args, dict(last.kwargs)) == (transformation.__name__, args, kwargs)
    assert_bounded(result)
    return result


def assert_bounded(knl: lk.LoopKernel) -> None:
    """Every statement has finitely many instances at any sizes."""
    for s in knl.statements:
        assert s.domain.set.is_bounded(), f"{s.id} runs for ever: {s.domain.text}"


def _seen(knl: lk.LoopKernel) -> tuple[object, ...]:
    return (outline(knl), knl.domains_text, dict(knl.tags), knl.arguments, dict(knl.temporaries), knl.history,
            dict(knl.substitutions), knl.options, str(knl.assumptions))


def assert_domain(knl: lk.LoopKernel, *texts: str) -> None:
    """The kernel's distinct instance sets are those of *texts* (isl writes one set in many ways)."""
    found = list({s.domain.text: s.domain for s in knl.statements}.values())
    wanted = [InstanceSet.parse(t) for t in texts]
    assert len(found) == len(wanted), knl.domains_text
    for own, want in zip(found, wanted, strict=True):
        assert own.is_equal(want), own.text


def assert_same(reference: lk.LoopKernel, knl: lk.LoopKernel, /, *, called: Mapping[str, str] = {},
                **given: Any) -> None:
    """Both kernels leave the same in every array, bit for bit.

    Arrays hold small integers, so that no order of a sum rounds; outputs are passed in with random contents, so that
    an element which only one of them writes is found.

    :arg called: names of *knl* by those of *reference*.
    :arg given: sizes, and arrays that cannot be random.
    """
    sizes = {k: v for k, v in given.items() if isinstance(v, int)}
    rng = np.random.default_rng([abs(v) for v in sizes.values()])
    arrays = dict(given)
    for name, shape in array_shapes(reference).items():
        if name in reference.array_args and name not in arrays:
            extents = [max(evaluate(e, sizes), 0) for e in shape]
            arrays[name] = _integers(rng, extents, _dtype(reference, name))
    ours = {called.get(k, k): _copied(v) for k, v in arrays.items()}
    ours = {k: v for k, v in ours.items() if k in knl.argument_by_name}
    theirs = {k: _copied(v) for k, v in arrays.items()}
    want = lk.compile(reference, "c")(**theirs).asdict()
    got = lk.compile(knl, "c")(**ours).asdict()
    assert {called.get(k, k) for k in want} == set(got)
    for name, value in want.items():
        np.testing.assert_array_equal(got[called.get(name, name)], value, err_msg=name)


def _dtype(knl: lk.LoopKernel, name: str) -> np.dtype[Any]:
    inferred = lk.lower(knl, stop="types").kernel
    dtype = inferred.array_args[name].dtype
    assert dtype is not None
    return dtype


def _integers(rng: np.random.Generator, shape: list[int], dtype: np.dtype[Any]) -> np.ndarray:
    low = 0 if dtype.kind in "ub" else -4
    return rng.integers(low, 5, shape).astype(dtype)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
