"""Illegal steps and their legal twins: atomic updates, and other accesses to the updated elements."""
from __future__ import annotations

from collections.abc import Mapping

from tests.legality.pairs import N, Nest, Twins, nest, step

OVER_BLOCKS = step("split_iname", "i", 4, outer_tag="g.0", inner_tag="l.0")
OVER_THREADS = step("split_iname", "i", 4, inner_tag="l.0")


def updates(text: str, domain: str = "{[i]: 0<=i<n}") -> Nest:
    return nest(domain, text, *N, assumptions="n>=1")


ADD = "h[i//3] = h[i//3] + w[i] {id=add, atomic}"

UPDATED: Mapping[str, Twins] = {
    "an update that is not atomic": Twins(
        updates("h[i//3] = h[i//3] + w[i]"), OVER_BLOCKS, (step("make_atomic"), OVER_BLOCKS)),
    "one of two updates that is not atomic": Twins(
        updates(f"{ADD}\nh[i//2] = w[i] + h[i//2] {{id=more}}"), OVER_BLOCKS,
        (step("make_atomic", "more"), OVER_BLOCKS)),
    "updates by two operations": Twins(
        updates(f"{ADD}\nh[i//3] = max(h[i//3], w[i]) {{id=most, atomic}}"), OVER_BLOCKS, (OVER_BLOCKS,),
        legal_nest=updates(f"{ADD}\nh[i//3] = h[i//3] + 2*w[i] {{id=most, atomic}}")),
    "a read beside the updates": Twins(
        updates(f"{ADD}\ny[i] = h[i//3] {{id=out}}"), OVER_BLOCKS, (OVER_BLOCKS,),
        legal_nest=updates(f"{ADD}\ny[i] = w[i//3] {{id=out}}")),
    "an update of what its operands are": Twins(
        updates("h[i//3] = h[i//3] + h[i+n] + h[i+1] {id=add, atomic}"), OVER_BLOCKS, (OVER_BLOCKS,),
        legal_nest=updates("h[i//3] = h[i//3] + h[i+n] {id=add, atomic}")),
    "a write among updates": Twins(
        updates("h[i] = h[i] + w[i] {id=add, atomic}\nh[n-1-i] = 0 {id=set}"), OVER_BLOCKS, (OVER_BLOCKS,),
        legal_nest=updates("h[i] = h[i] + w[i] {id=add, atomic}\nh[i] = 0 {id=set}")),
    "a temporary that is read among its updates": Twins(
        updates("<> t = 0 {id=zero}\nfor i\nt = t + w[i] {id=add, atomic}\ny[i] = t {id=out}\nend"), OVER_THREADS,
        (OVER_THREADS,),
        legal_nest=updates("<> t = 0 {id=zero}\nfor i\nt = t + w[i] {id=add, atomic}\nend\ny[0] = t {id=out}")),
    "a loop of updates after their reader": Twins(
        updates("for i\nh[i] = h[i] + w[i] {id=add, atomic}\nend\nfor j\ny[j] = h[j+1] {id=out}\nend",
                "{[i,j]: 0<=i,j<n}"), step("fuse_loops", ["i", "j"]), (step("fuse_loops", ["i", "j"]),),
        legal_nest=updates("for i\nh[i] = h[i] + w[i] {id=add, atomic}\nend\nfor j\ny[j] = h[j] {id=out}\nend",
                           "{[i,j]: 0<=i,j<n}")),
}
