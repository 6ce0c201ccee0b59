"""Programs that came out wrong once, each the smallest of its kind; a random search found them."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

import loopkit as lk
from tests.property.machine import execute

Kernel = lk.LoopKernel


@dataclass(frozen=True)
class Program:
    """A kernel, what is done to it, and shapes of its float64 arrays.

    :ivar refused: the error that the pipeline or its lowering ends in, where it must.
    """

    domains: list[str]
    text: str
    arrays: Mapping[str, tuple[int, ...]]
    transformed: Callable[[Kernel], Kernel]
    sizes: Mapping[str, int] = field(default_factory=dict)
    refused: type[lk.LoopkitError] | None = None

    def kernel(self) -> Kernel:
        data = [lk.GlobalArg(name, np.float64) for name in self.arrays]
        return lk.make_kernel(self.domains, self.text, [*data, "..."])


def _renamed(knl: Kernel) -> Kernel:
    return lk.tag_inames(lk.rename_argument(knl, "a", "q"), "i:l.0, j:l.0")


def _halves(knl: Kernel, iname: str) -> Kernel:
    return lk.split_iname(knl, iname, 2, outer_tag="g.0", inner_tag="l.0")


def _copied_by_one_block(knl: Kernel) -> Kernel:
    knl = lk.split_iname(knl, "i", 2, outer_tag="g.1", inner_tag="l.1")
    return lk.add_prefetch(knl, "z", [], default_tag="for", fetch_outer_inames=[], allow_launches=True)


def _copy_of_a_copy(tag: str) -> Callable[[Kernel], Kernel]:
    def transformed(knl: Kernel) -> Kernel:
        knl = lk.split_iname(knl, "i", 4, inner_tag=tag)
        return lk.add_prefetch(lk.add_prefetch(knl, "x", ["i_inner"]), "x", [])
    return transformed


def _expanded_and_split(knl: Kernel) -> Kernel:
    knl = lk.set_temporary_address_space(knl, "acc_s", "global")
    return lk.tag_inames(lk.split_iname(knl, "k", 2), {"k_outer": "l.0"})


def _summed_by_lanes(knl: Kernel) -> Kernel:
    knl = lk.split_iname(lk.split_iname(knl, "k", 3, inner_tag="l.0"), "i", 2, inner_tag="unr")
    knl = lk.add_prefetch(knl, "x", ["k_inner", "i_inner"], default_tag=None, temporary_address_space="local",
                          allow_global_storage=True)
    return lk.buffer_array(knl, "a", [])


PROGRAMS = {
    "statements outside of a mapped loop without iterations": Program(
        ["{[j]: 0<=j<n}"], "b[2] = 7\nfor j\n a[j] = x[j]\nend", {"a": (3,), "b": (3,), "x": (3,)},
        lambda k: _halves(k, "j"), {"n": 0}),
    "l.auto beside an l iname": Program(
        ["{[i]: 0<=i<4}", "{[k]: 0<=k<4}"], "for i, k\n c[i, k] = x[k]\nend", {"c": (4, 4), "x": (4,)},
        lambda k: lk.tag_inames(k, {"i": "l.auto", "k": "l.0"})),
    "whole iterations after others": Program(
        ["{[i]: 0<=i<3}", "[i] -> {[j]: 0<=j<i}", "{[k]: 0<=k<n}"],
        "for i\n for k\n  for j\n   c[k, j] = x[i]\n  end\n end\nend", {"c": (2, 2), "x": (3,)},
        lambda k: lk.tag_inames(k, {"j": "l.1"}), {"n": 2}),
    "a reduction lane beside a row on one axis": Program(
        ["{[i]: 0<=i<n}", "{[s]: 0<=s<4}"], "for i\n c[i] = c[i] + max(s, x[s])\nend", {"c": (5,), "x": (4,)},
        lambda k: lk.split_iname(lk.tag_inames(k, {"s": "l.0"}), "i", 3, inner_tag="l.0"), {"n": 5}),
    "a barrier for a renamed array": Program(
        ["{[i]: 0<=i<8}", "{[j]: 0<=j<8}"], "a[i] = x[i]\ny[j] = a[7-j]", {"x": (8,), "a": (8,), "y": (8,)}, _renamed),
    "a value from one block to all": Program(
        ["{[i]: 0<=i<n}"], "<> t0 = z[2] + z[0]\nc[i] = t0\nc[2] = z[1]", {"c": (5,), "z": (3,)},
        _copied_by_one_block, {"n": 5}),
    "a loop that is written out, in an expansion": Program(
        ["{[k]: 0<=k<5}", "{[s]: 0<=s<4}"], "c[k] = sum(s, x[s])", {"c": (5,), "x": (4,)}, _expanded_and_split),
    "a replicated read of what one block overwrites": Program(
        ["{[i]: 0<=i<8}"], "<> t = c[0]\na[i] = t\nc[0] = 5", {"c": (1,), "a": (8,)},
        lambda k: lk.tag_inames(k, "i:g.0")),
    "two inames on one empty axis": Program(
        ["{[i,j]: 0<=i,j<n}"], "for i, j\n c[j, i] = x[i]\nend\na[0] = x[0]", {"c": (1, 1), "x": (1,), "a": (1,)},
        lambda k: lk.split_iname(_halves(k, "i"), "j", 2, outer_tag="g.0", inner_tag="l.0"), {"n": 0}),
    "blocks that write one cell of a temporary": Program(
        ["{[i]: 0<=i<n}", "{[k]: 0<=k<2}"], "for k, i\n <> w[i] = x[k]\nend\na[0] = w[0] {if=x[0] > 0, inames=}",
        {"x": (2,), "a": (1,)}, lambda k: lk.tag_inames(k, {"k": "g.0"}), {"n": 3}, lk.StorageError),
    "guards of a domain with holes on blocks": Program(
        ["{[i]: 0<=i<n and exists k: i=2*k}"], "a[i] = x[i]", {"a": (9,), "x": (9,)},
        lambda k: lk.tag_inames(k, "i:g.0"), {"n": 9}),
    "equal conditions around a change of what they read": Program(
        ["{[i]: 0<=i<4}"], "for i\n y[i] = -y[i] {if=y[i] > 0}\n z[i] = 1 {if=y[i] > 0}\nend",
        {"y": (4,), "z": (4,)}, lambda k: lk.tag_inames(k, "i:l.0")),
    "a copy of what its reader overwrites": Program(
        ["{[i]: 0<=i<4}"], "c[i] = c[i] + 1", {"c": (4,)},
        lambda k: lk.add_prefetch(lk.tag_inames(k, "i:l.0"), "c", ["i"], default_tag="unr")),
    "a grid of constant size with fewer iterations": Program(
        ["{[i]: 0<=i<n}"], "for i\n a[i] = x[i] {if=i < 4}\nend\nb[1] = x[0]", {"a": (4,), "x": (4,), "b": (2,)},
        lambda k: lk.tag_inames(k, "i:g.0"), {"n": 1}),
    "two lengths on one axis of the grid": Program(
        ["{[i]: 0<=i<3}", "{[j]: 0<=j<5}"], "a[i] = x[i]\nb[j] = x[j]", {"a": (5,), "b": (5,), "x": (5,)},
        lambda k: lk.tag_inames(k, "i:g.0, j:g.0")),
    "a temporary under a condition that is read from memory": Program(
        ["{[i]: 0<=i<n}"], "for i\n if x[i] > 2\n  <> t = x[i]\n  y[i] = t*t\n end\nend", {"x": (5,), "y": (5,)},
        lambda k: lk.split_iname(k, "i", 2, outer_tag="g.0", inner_tag="l.0"), {"n": 5}),
    "a value that a condition lets through to later iterations": Program(
        ["{[i]: 0<=i<n}"], "<> t = 0\nfor i\n if x[i] > 2\n  t = x[i]\n end\n y[i] = t*t\nend",
        {"x": (5,), "y": (5,)}, lambda k: lk.split_iname(k, "i", 2, inner_tag="l.0"), {"n": 5}, lk.LoopkitError),
    "a flag that changes between a write and its reader": Program(
        ["{[i]: 0<=i<n}"], """
        <> t = 0
        <> flag = x[0] > 0
        for i
            t = x[i] {if=flag}
            flag = x[i] > 2
            y[i] = t*t {if=flag}
        end
        """, {"x": (5,), "y": (5,)}, lambda k: lk.split_iname(k, "i", 2, inner_tag="l.0"), {"n": 5},
        lk.LoopkitError),
    "a temporary copied across threads": Program(
        ["{[i,k]: 0<=i<n and 0<=k<3}"], "for i\n for k\n  <> t[i,k] = x[i,k]*2\n end\n y[i] = sum(k, t[i,k])\nend",
        {"x": (5, 3), "y": (5,)}, lambda k: lk.add_prefetch(
            lk.split_iname(k, "i", 2, outer_tag="g.0", inner_tag="l.0"), "t", ["i_inner", "k"],
            allow_global_storage=True), {"n": 5}),
    "a copy for two references of one statement": Program(
        ["{[i,k,q]: 0<=i<n and 0<=k,q<4}"],
        "for i\n for q\n  <> t[q] = x[i,q]*2\n end\n for k\n  y[i,k] = t[3-k] + t[k]\n end\nend",
        {"x": (2, 4), "y": (2, 4)}, lambda k: lk.add_prefetch(k, "t", ["k"], default_tag=None), {"n": 2}),
    "a copy in a block of one thread": Program(
        ["{[i]: 0<=i<1}", "{[q]: 0<=q<5}"], "for i\n c[i] = sum(q, x[q + i])\nend", {"c": (1,), "x": (5,)},
        lambda k: lk.add_prefetch(lk.tag_inames(k, "i:l.0"), "x", ["q"])),
    "a copy of a copy, by the threads of a block": Program(
        ["{[i]: 0<=i<n}"], "c[i] = x[i] + x[i + 1]", {"c": (7,), "x": (8,)}, _copy_of_a_copy("l.0"), {"n": 7}),
    "a copy of a copy, without threads": Program(
        ["{[i]: 0<=i<n}"], "c[i] = x[i] + x[i + 1]", {"c": (7,), "x": (8,)}, _copy_of_a_copy("for"), {"n": 7}),
    "two loops of one iname, one of them over tiles": Program(
        ["{[i]: 0<=i<n}", "[i] -> {[j]: i<=j<n}"], "for i\n for j\n  c[i, j] = x[j]\n end\n b[i] = c[i, i]\nend",
        {"b": (5,), "c": (5, 5), "x": (5,)}, lambda k: lk.split_iname(
            lk.interchange(lk.split_iname(k, "j", 3, inner_tag="l.0"), "i", "j_outer"), "j_outer", 3, inner_tag="l.0"),
        {"n": 5}),
    "a box of one point beside an axis that nobody uses": Program(
        ["{[i,j]: 0<=i<1 and 0<=j<3}"], "c[i,j] = x[j] + i", {"c": (1, 3), "x": (3,)},
        lambda k: lk.tag_inames(k, "i:l.auto, j:l.1")),
    "l.auto where a loop may not be": Program(
        ["{[i,j]: 1<=i<6 and 0<=j<5}"], "a[i,j] = a[i-1,j+1] + 1", {"a": (6, 6)},
        lambda k: lk.interchange(lk.tag_inames(k, "j:l.auto"), "i", "j")),
    "a flag that an old one says nothing of": Program(
        ["{[i]: 0<=i<n}"], """
        <> t = 0
        for i
            <> f = x[i] > 3
            if i % 2 == 0
                <> g = f and x[i] > 0
            end
            t = x[i] {if=f}
            c[i] = t {if=g}
        end
        """, {"c": (8,), "x": (8,)}, lambda k: lk.split_iname(k, "i", 2, inner_tag="l.0"), {"n": 8}, lk.LoopkitError),
    "constants of one name in two regions": Program(
        ["{[i]: 0<=i<8}", "{[j]: 0<=j<8}", "{[q]: 0<=q<8}"], """
        for i, q
            b[i] = x[q] {if=q==7-i}
        end
        for j, q
            c[j] = b[q] {if=q==7-j}
        end
        """, {"b": (8,), "c": (8,), "x": (8,)}, lambda k: lk.tag_inames(k, "i:l.0, j:l.0")),
    "rounds of one name in two regions": Program(
        ["{[i]: 0<=i<8}", "{[j]: 0<=j<8}"],
        "for j\n a[j] = x[j]\nend\nfor i\n b[i] = x[i]\nend\nfor i\n c[i] = b[7-i]\nend",
        {"a": (8,), "b": (8,), "c": (8,), "x": (8,)}, lambda k: lk.tag_inames(k, "i:l.auto, j:l.0")),
    "writes under conditions and strides": Program(
        ["{[i]: 0<=i<8}", "{[j]: 0<=j<8}", "[i] -> {[k]: 0<=k<i mod 4}"], """
        for j
            <> t[j] = 7
        end
        for i
            for k
                t[i] = x[i] + 1 {if=x[i] > 3}
            end
            b[i] = t[i]
            if i % 4 == 3
                t[i] = x[i] + 3 {if=x[i] > 3}
            end
            c[i] = t[i]
        end
        """, {"b": (8,), "c": (8,), "x": (8,)}, lambda k: lk.split_iname(k, "i", 2, outer_tag="l.0")),
    "a flow that isl's algorithm fails on": Program(
        ["{[i]: 0<=i<n and i mod 2 = 0}", "[i] -> {[j]: 0<=j<=i}", "[i] -> {[k]: 0<=k<=i}"], """
        <> t = x[1]
        for i
            for k
                t = t + x[i]
                c[k, j] = 2 {inames=j}
            end
            t = x[i + 1]
        end
        c[0, 0] = t
        """, {"c": (5, 5), "x": (6,)}, lambda k: lk.split_iname(k, "j", 2, inner_tag="l.0"), {"n": 5}),
    "loops that count by twos": Program(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<n and j mod 2 = 0}"], """
        for i
            if i % 2 == 0
                a[i] = x[1]
            else
                for j
                    c[i + 1, 1] = 2*x[j]
                end
                a[i] = 3
            end
        end
        """, {"a": (5,), "c": (6, 2), "x": (5,)}, lambda k: lk.split_iname(k, "j", 2, inner_tag="l.1"), {"n": 5}),
    "an empty statement in an unrolled loop": Program(
        ["{[i,j]: 0<=i,j<n}"], "for i, j\n c[j, i] = x[i]\n c[j, i] = 2 {if=i != i}\nend", {"c": (3, 3), "x": (3,)},
        lambda k: lk.split_iname(k, "i", 2, inner_tag="unr"), {"n": 3}),
    "a constant of a region, and one of the skeleton after it": Program(
        ["{[i]: 0<=i<5}", "{[k]: 0<=k<n}"], "for i\n <> t = z[i]\n a[i] = t + sum(k, x[k])\nend",
        {"a": (5,), "x": (6,), "z": (5,)}, _summed_by_lanes, {"n": 6}),
}


def run(knl: Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> Mapping[str, np.ndarray]:
    lowered = lk.lower(knl)
    str(lk.generate_code(knl, target="cuda"))
    return execute(lowered, arrays, sizes, random.Random(1))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_was_wrong_is_right(program: Program) -> None:
    arrays = {name: np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for name, shape in program.arrays.items()}
    reference = program.kernel()
    if program.refused is not None:
        with pytest.raises(program.refused):
            lk.lower(program.transformed(reference))
        return                  # by the transformation, or by the lowering of what it made
    transformed = program.transformed(reference)
    expected = run(reference, arrays, program.sizes)
    names = dict(zip((a.name for a in reference.arguments), (a.name for a in transformed.arguments), strict=True))
    found = run(transformed, {names[k]: v for k, v in arrays.items()}, program.sizes)
    for name in program.arrays:
        np.testing.assert_array_equal(found[names[name]], expected[name])
