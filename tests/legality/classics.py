"""The parts of every classic loop nest: its text, numpy's answer, and the mappings that are legal."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.evaluate import evaluate
from tests.legality.pairs import Step, step

Arrays = dict[str, Any]
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Classic:
    """A loop nest.

    :ivar answer: does in place, on arrays and sizes, what the nest does.
    :ivar mappings: legal steps, by what they are called.
    :ivar dominant: matrices that get a large diagonal, square ones symmetric: all quotients and roots exist.
    :ivar temporaries: temporaries that are declared, with their shapes left open.
    """

    domains: str | tuple[str, ...]
    text: str
    sizes: tuple[Mapping[str, int], ...]
    answer: Callable[..., None]
    mappings: Mapping[str, Steps]
    dominant: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    assumptions: str | None = None

    def kernel(self, name: str) -> lk.LoopKernel:
        domains = [self.domains] if isinstance(self.domains, str) else list(self.domains)
        data = [lk.TemporaryVariable(t, np.float64) for t in self.temporaries]
        knl = lk.make_kernel(domains, self.text, [*data, "..."], name=name, assumptions=self.assumptions)
        return lk.add_dtypes(knl, dict.fromkeys(knl.array_args, np.float64))

    def data(self, knl: lk.LoopKernel, sizes: Mapping[str, int]) -> Arrays:
        """Small integers in every array, outputs too."""
        rng = np.random.default_rng(list(sizes.values()))
        arrays: Arrays = {}
        for name, shape in array_shapes(knl).items():
            if name in knl.array_args:
                extents = [max(evaluate(e, sizes), 0) for e in shape if e is not None]
                arrays[name] = rng.integers(-3, 4, extents).astype(np.float64)
        for name in self.dominant:
            a = arrays[name] / 8
            i = np.arange(min(a.shape))
            a[i, i] = 4 + i % 3
            arrays[name] = (a + a.T) / 2 if a.shape[0] == a.shape[1] else a
        return arrays


def split(iname: str, length: int, outer: str | None = None, inner: str | None = None) -> Step:
    """A split whose halves get the tags *outer* and *inner*."""
    tags = {k: v for k, v in (("outer_tag", outer), ("inner_tag", inner)) if v is not None}
    return step("split_iname", iname, length, **tags)


def threads(*inames: str, length: int = 4) -> Steps:
    """Blocks of threads along *inames*, the last on axis 0."""
    axes = range(len(inames))
    return tuple(split(x, length, f"g.{a}", f"l.{a}") for x, a in zip(reversed(inames), axes, strict=True))


def blocks(*inames: str) -> Steps:
    """One block for each point of *inames*, the last on axis 0."""
    return (step("tag_inames", {x: f"g.{a}" for a, x in enumerate(reversed(inames))}),)


def tile(**sizes: int) -> Steps:
    return (step("tile", sizes),)


def order(text: str) -> Steps:
    return (step("prioritize_loops", text),)


def swap(outer: str, inner: str) -> Steps:
    return (step("interchange", outer, inner),)


def fetch(array: str, *sweep: str, **more: Any) -> Steps:
    return (step("add_prefetch", array, list(sweep), **more),)
