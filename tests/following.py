"""The hints of refusals, followed to the letter."""
from __future__ import annotations

import re

import loopkit as lk

#: A step of a hint: a call, or a tag.
_CALL = re.compile(r"(prioritize_loops|distribute_loop)\(knl, ([^)]*)\) first")
_TAG = re.compile(r"a parallel tag for ((?:'\w+'(?:, )?)+)")


def followed(knl: lk.LoopKernel, hint: str) -> list[lk.LoopKernel]:
    """*knl* after each of the ways that *hint* names to ask for an order of loops first, or to give it up."""
    ways = [getattr(lk, name)(knl, *re.findall(r"'([^']*)'", args)) for name, args in _CALL.findall(hint)]
    free = (f"l.{axis}" for axis in range(3) if all(str(tag) != f"l.{axis}" for tag in knl.tags.values()))
    for names in _TAG.findall(hint):
        ways.append(lk.tag_inames(knl, dict(zip(re.findall(r"\w+", names), free, strict=False))))
    return ways
