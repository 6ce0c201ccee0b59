"""The memo of a kernel is a cache: emptying it at any moment changes no answer."""
from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.legality import axis_inames, packing_order
from loopkit.analysis.ranges import iname_extent, iname_range
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.lowering.pipeline import cost_of, lower_fully
from tests.cases import CASES
from tests.lowering.host_loops import HOSTED

F32 = np.float32


class Forgetful(dict[str, Any]):
    """A memo that is emptied at random before it is looked at."""

    def __init__(self, rng: random.Random, often: float) -> None:
        super().__init__()
        self.rng, self.often = rng, often

    def _maybe_empty(self) -> None:
        if self and self.rng.random() < self.often:
            self.clear()

    def __contains__(self, key: object) -> bool:
        self._maybe_empty()
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._maybe_empty()
        return super().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._maybe_empty()
        return super().setdefault(key, default)


@pytest.fixture
def forgetting(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, float], None]:
    """Kernels that are made from its call on forget: by a seed, and how often."""
    checked = LoopKernel.__post_init__

    def start(seed: int, often: float) -> None:
        rng = random.Random(seed)

        def forgetful(self: LoopKernel, derived: Any) -> None:
            checked(self, derived)
            object.__setattr__(self, "memo", Forgetful(rng, often))
        monkeypatch.setattr(LoopKernel, "__post_init__", forgetful)
    return start


def answers(make: Callable[[], lk.LoopKernel]) -> Mapping[str, str]:
    """All that users are told about a kernel, and what it is lowered to."""
    knl = make()
    assert not knl.history.proven
    return {"kernel": str(knl), "obligations": str(knl.obligations), "cost": str(cost_of(knl)),
            "history": re.sub(r"[0-9.]+ ms", "", str(knl.history)), "report": str(lk.verify(knl)),
            **{target: str(lk.generate_code(knl, target=target)) for target in ("c", "cuda")}}


# Pipelines with steps on the caller's account

def scattered() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "out[index[i]] = x[i]", [
        lk.GlobalArg("index", np.int32, ("n",)), lk.GlobalArg("x,out", F32, ("n",)), "..."])
    knl = lk.tag_inames(lk.split_iname(knl, "i", 4), "i_inner:l.0", assume="index is a permutation")
    knl = lk.tag_inames(knl, "i_outer:g.0", assume="index is a permutation")
    return lk.tag_inames(lk.untag_inames(knl, "i_inner"), "i_inner:l.0")


def forced() -> lk.LoopKernel:
    """Two reads of one element: two dependences, both broken, and another that binds still."""
    knl = lk.make_kernel("{[i]: 0<=i<64}", "a[i+1] = a[i]*a[i] + b[i] {id=S}\nc[i] = a[i+1] {id=T,dep=S}")
    knl = lk.add_dtypes(knl, {"a,b": F32})
    knl = lk.tag_inames(knl, "i:l.0", unsafe=True)
    return lk.split_iname(lk.untag_inames(knl, "i"), "i", 8, inner_tag="l.0", unsafe=True)


def fused() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", "a[i] = 2*x[i] {id=first}\nb[j] = a[idx[j]] {id=second}", [
        lk.GlobalArg("idx", np.int32, ("n",)), lk.GlobalArg("x", F32, ("n",)), "..."])
    knl = lk.fuse_loops(knl, ["i", "j"], assume="idx points backwards")
    return lk.split_iname(knl, knl.inames[0], 16, inner_tag="unr", assume="idx points backwards")


def shared_cell() -> lk.LoopKernel:
    """Values of a temporary that are lost, and what follows for others."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\n<> t = x[i] {id=S}\ny[i] = t {id=T}\nz[i] = t {id=U}\nend")
    knl = lk.distribute_loop(lk.add_dtypes(knl, {"x": F32}), "i", before="U", unsafe=True)
    return lk.split_iname(knl, knl.inames[0], 4)


def staged() -> lk.LoopKernel:
    """Steps that are proven by other proofs than that of an order, and steps that take none."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<32}", "for i, j\n<> t = 2*x[i, j]\ny[i, j] = t + x[i, 31-j]\nend")
    knl = lk.add_prefetch(lk.rename_argument(knl, "x", "source"), "source", ["j"])
    knl = lk.contract(lk.expand(knl, "t", "j"), "t", "j")
    knl = lk.add_dtypes(knl, {"source": F32})
    return lk.tag_inames(lk.assume(knl, "n >= 4"), "i:g.0, j:l.0")


def buffered() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 1<=i<n}", "y[i] = y[i-1] + x[i]", [lk.GlobalArg("x,y", F32), "..."])
    knl = lk.buffer_array(lk.split_iname(knl, "i", 4), "y", "i_inner", default_tag=None)
    return lk.tag_inames(knl, "y_store_0:l.0")


def untyped() -> lk.LoopKernel:
    """A step whose cost is in elements."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\n<> t = 2*x[i] {id=S}\ny[i] = t {id=T}\nend")
    knl = lk.expand(lk.split_iname(knl, "i", 4), "t", "i_inner")
    return lk.add_dtypes(knl, {"x": np.float64})


PIPELINES = {f.__name__: f for f in (scattered, forced, fused, shared_cell, staged, buffered, untyped)}


LIBRARY = {"scan": lk.library.scan, "scan_in_launches": lk.library.scan_in_launches, "jacobi": lk.library.jacobi,
           "full_sum": lk.library.full_sum, "histogram": lk.library.histogram}

MADE = {**{c.name: c.fresh for c in CASES}, **{name: h.fresh for name, h in HOSTED.items()}, **PIPELINES, **LIBRARY}


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("name", MADE)
def test_answers_are_those_without_forgetting(forgetting: Callable[[int, float], None], name: str) -> None:
    known = answers(MADE[name])
    forgetting(1, 0.1)
    assert answers(MADE[name]) == known


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("name", PIPELINES)
def test_answers_without_any_memo(forgetting: Callable[[int, float], None], name: str) -> None:
    known = answers(MADE[name])
    forgetting(2, 1)
    assert answers(MADE[name]) == known


@pytest.mark.parametrize("name", HOSTED)
def test_launches_of_the_host_count_as_the_whole_kernel(name: str) -> None:
    for launch in lower_fully(HOSTED[name].mapped()).launches:
        knl = launch.kernel

        def counted(knl: lk.LoopKernel = knl) -> object:
            return (dict(packing_order(knl)), {x: (iname_range(knl, x), iname_extent(knl, x)) for x in knl.inames},
                    [axis_inames(knl, s.inames, GroupTag) for s in knl.statements])
        known = counted()
        knl.memo.clear()
        assert counted() == known
