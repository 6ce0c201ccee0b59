"""A must-write hides its element from reads and writes of unknown elements, and no other element."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences

#: A certain write of one element, a read of unknown ones, and after it, but in earlier iterations too, what it reads.
CARRIED = {
    "a size times an iname": "t[g] = a[p*g + h]\n c[p*g + h] = t[p*g + h]\n t[2*p*g + h] = a[p*g + h]",
    "one certain element": "t[0] = a[g]\n c[g, h] = t[p*g]\n t[p*g] = a[h]",
    "gathered": "t[0] = a[g]\n c[g, h] = t[i[g]]\n t[i[g + h]] = a[h]"}


def kernel(text: str) -> lk.LoopKernel:
    t = lk.TemporaryVariable("t", float, shape=400)
    return lk.make_kernel("{[g, h]: 0<=g<n and 0<=h<p}", text, [t, "..."], assumptions="n>=1 and p>=1")


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED)
def test_a_write_of_one_element_hides_no_others(text: str) -> None:
    knl = kernel(text)
    first, reader, last = (s.id for s in knl.statements)
    assert {(first, reader), (last, reader)} <= {(d.source, d.sink) for d in dependences(knl) if d.kind == "flow"}
    with pytest.raises(lk.UndecidedError):
        lk.tag_inames(knl, "g: g.0")


FIXED: dict[str, Callable[[lk.LoopKernel], lk.LoopKernel]] = {
    "fixed": lambda knl: lk.fix_parameters(knl, p=2),
    "assumed": lambda knl: lk.assume(knl, "p = 2"),
    "reordered, then fixed": lambda knl: lk.fix_parameters(lk.prioritize_loops(knl, "g, h"), p=2),
    "reordered, then assumed": lambda knl: lk.assume(lk.prioritize_loops(knl, "g, h"), "p = 2")}


@pytest.mark.parametrize("known", FIXED.values(), ids=FIXED)
def test_a_flow_is_not_missed_until_sizes_are_known(known: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    """With 2 for p, t[4] goes from the iteration 1 of g to the iteration 2."""
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(known(kernel(CARRIED["a size times an iname"])), "g: g.0")


def test_each_of_several_reads_is_hidden_for_itself() -> None:
    """Refined dependences do not say by which of its reads a statement reads a value."""
    knl = kernel("t[p*g + h] = a[h] {id=unknown}\n t[0] = 1 {id=known}\n c[g, h] = t[0] + t[p*g + h]")
    for size in (1, 2, 3):
        fixed = lk.fix_parameters(knl, p=size)
        text = kernel(f"t[{size}*g + h] = a[h] {{id=unknown}}\n t[0] = 1 {{id=known}}\n"
                      f"c[g, h] = t[0] + t[{size}*g + h]".replace("p", str(size)))
        again = lk.fix_parameters(text, p=size)
        found, wanted = ({(d.source, d.sink) for d in dependences(k) if d.kind == "flow"} for k in (fixed, again))
        assert wanted <= found
