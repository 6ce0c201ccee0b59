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
    for names in _TAG.findall(hint):
        tagged = knl
        for x in re.findall(r"\w+", names):
            tagged = _in_parallel(tagged, x)
        ways.append(tagged)
    return ways


def _in_parallel(knl: lk.LoopKernel, iname: str) -> lk.LoopKernel:
    """*knl* with *iname* over threads, or over blocks where it has no constant range."""
    taken = set(map(str, knl.tags.values()))
    for kind in "lg":
        axis = next(f"{kind}.{axis}" for axis in range(3) if f"{kind}.{axis}" not in taken)
        try:
            return lk.tag_inames(knl, {iname: axis})
        except lk.PreconditionError as error:
            refusal = error
    raise AssertionError(f"'{iname}' takes no parallel tag: {refusal}")
