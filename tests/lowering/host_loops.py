"""Kernels whose mapping puts a loop on the host."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import loopkit as lk
from tests.deep import shared
from tests.lowering.kernels import F32, make, time_loop


@dataclass(frozen=True, eq=False)
class Hosted:
    """A kernel, its mapping, sizes to run it at, and the schedule that it gets."""

    kernel: Callable[[], lk.LoopKernel]
    mapping: Callable[[lk.LoopKernel], lk.LoopKernel]
    sizes: tuple[dict[str, int], ...]
    schedule: str

    def fresh(self) -> lk.LoopKernel:
        return self.mapping(self.kernel())

    @shared
    def mapped(self) -> lk.LoopKernel:
        return self.fresh()


def over_blocks(*inames: str, length: int = 4) -> Callable[[lk.LoopKernel], lk.LoopKernel]:
    """Blocks and threads for each of *inames*."""
    def mapping(knl: lk.LoopKernel) -> lk.LoopKernel:
        for x in inames:
            knl = lk.split_iname(knl, x, length, outer_tag="g.0", inner_tag="l.0")
        return knl
    return mapping


STEPS = ({"T": 0, "n": 6}, {"T": 1, "n": 1}, {"T": 3, "n": 2}, {"T": 5, "n": 13})


def one_statement() -> lk.LoopKernel:
    return make("{[t,i]: 0<=t<T and 1<=i<n-1}", "u[t+1,i] = u[t,i-1] - u[t,i] + u[t,i+1] {id=step}", u=F32)


def triangles() -> lk.LoopKernel:
    """Bounds that depend on the loops around, and launches after the inner loop."""
    return make("{[s,t,i,j]: 0<=s<S and 0<=t<=s and 0<=i<n-t and 0<=j<n}", """
        for s
            for t, i
                u[t+1,i] = u[t,n-1-i] - s {id=inner}
            end
            for j
                w[s+1,j] = u[s,n-1-j] + w[s,j] {id=outer}
            end
        end
        """, u=F32, w=F32)


def elimination() -> lk.LoopKernel:
    """LU factorisation, but for the division, which would round."""
    return make("{[k,r,i,j]: 0<=k<n and k<r,i,j<n}", """
        for k
            for r
                a[r,k] = a[r,k] - a[k,k] {id=scale}
            end
            for i, j
                a[i,j] = (a[i,j] - a[i,k]*a[k,j]) % 7 {id=update}
            end
        end
        """, a="int64")


def before_and_behind() -> lk.LoopKernel:
    """A temporary that lives through the loop and beyond it."""
    return make("{[t,i,j,k]: 0<=t<T and 0<=i,j,k<n}", """
        for i
            acc[i] = x[i] {id=begin}
        end
        for t, j
            acc[j] = acc[j] + u[t,n-1-j] {id=add}
            u[t+1,j] = acc[j] {id=step}
        end
        for k
            y[k] = acc[n-1-k] {id=result}
        end
        """, [lk.TemporaryVariable("acc", F32), "..."], u=F32, x=F32)


def in_each_step() -> lk.LoopKernel:
    """Temporaries within a step: one from launch to launch, and one for all threads of its launch."""
    return make("{[t,i,j]: 0<=t<T and 0<=i,j<n}", """
        for t
            <> f = c[t] {id=factor}
            for i
                <> s[i] = f*u[i] - t {id=read}
            end
            for j
                u[j] = s[n-1-j] {id=write}
            end
        end
        """, u=F32, c=F32)


def with_a_fetch(knl: lk.LoopKernel) -> lk.LoopKernel:
    """Shared memory, barriers and a tile of the block's in each launch."""
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lk.add_prefetch(knl, "u", ["i_inner"], default_tag="l.auto")


def two_inames() -> lk.LoopKernel:
    """A read that no step of the outer loop writes anew, and one that it does."""
    return make("{[t,i,j]: 1<=t<T and 0<=i<n and 0<=j<i}", """
        a[t,i,j] = a[t-1,n-1-i,j] + a[t,i,j] {id=step}
        """, a=F32)


def one_block_only() -> lk.LoopKernel:
    """What one block writes and all of them read in the next step."""
    return make("{[t,i]: 0<=t<T and 0<=i<n}", """
        for t
            c[0] = c[0] + t {id=count}
            for i
                y[i] = y[i] + c[0] {id=use}
            end
        end
        """, y=F32, c=F32)


def in_lanes() -> lk.LoopKernel:
    """A loop inside the host's whose order each thread keeps."""
    return make("{[t,i,j]: 0<=t<T and 0<=i<n and 0<=j<3}", """
        for t, i, j
            u[t+1,i,j] = u[t,n-1-i,2-j] + t {id=step}
        end
        """, u=F32)


def two_corners() -> lk.LoopKernel:
    """Two inames on one axis of the grid, which shrink by different steps."""
    return make("{[k,i,j]: 0<=k<n and k<i<n and 2k+1<j<n}", """
        for k
            for i
                u[k+1,i] = u[k,n-i] + 1 {id=first}
            end
            for j
                w[k+1,j] = w[k,n-j] + 2 {id=second}
            end
        end
        """, u=F32, w=F32)


HOSTED = {
    "Jacobi in two loops": Hosted(time_loop, over_blocks("i", "j"), STEPS, """\
on the host, for t:
  launch 0:
    compute
  launch 1:
    copy"""),
    "Jacobi in one statement": Hosted(one_statement, over_blocks("i"), STEPS, """\
on the host, for t:
  launch 0:
    step"""),
    "steps of two": Hosted(one_statement, lambda k: lk.split_iname(over_blocks("i")(k), "t", 2), STEPS, """\
on the host, for t_outer:
  on the host, for t_inner:
    launch 0:
      step"""),
    "triangles": Hosted(
        triangles, over_blocks("i", "j"), ({"S": 0, "n": 5}, {"S": 1, "n": 1}, {"S": 4, "n": 9}, {"S": 9, "n": 3}), """\
on the host, for s:
  on the host, for t:
    launch 0:
      inner
  launch 1:
    outer"""),
    "elimination": Hosted(
        elimination,
        lambda k: lk.split_iname(over_blocks("r", "j")(k), "i", 2, outer_tag="g.1", inner_tag="l.1"),
        ({"n": 0}, {"n": 1}, {"n": 2}, {"n": 7}, {"n": 11}), """\
on the host, for k:
  launch 0:
    scale
  launch 1:
    update"""),
    "two corners": Hosted(two_corners, over_blocks("i", "j"), ({"n": 1}, {"n": 2}, {"n": 5}, {"n": 13}), """\
on the host, for k:
  launch 0:
    first
    second"""),
    "launches before and after": Hosted(before_and_behind, over_blocks("i", "j", "k"), STEPS, """\
launch 0:
  begin
on the host, for t:
  launch 1:
    add
    step
launch 2:
  result"""),
    "temporaries in each step": Hosted(in_each_step, over_blocks("i", "j"), STEPS, """\
on the host, for t:
  launch 0:
    factor
    read
  launch 1:
    write"""),
    "a fetch in each launch": Hosted(one_statement, with_a_fetch, STEPS, """\
on the host, for t:
  launch 0:
    u_fetch_rule
    step"""),
    "a loop in each launch": Hosted(two_inames, over_blocks("i"), STEPS, """\
on the host, for t:
  launch 0:
    for j
      step"""),
    "one block and all": Hosted(one_block_only, over_blocks("i"), STEPS, """\
on the host, for t:
  launch 0:
    count
  launch 1:
    use"""),
    "ilp in each launch": Hosted(in_lanes, lambda k: lk.tag_inames(over_blocks("i")(k), "j:ilp"), STEPS, """\
on the host, for t:
  launch 0:
    for j
      step"""),
    "an unrolled loop in each launch": Hosted(
        in_lanes, lambda k: lk.tag_inames(lk.prioritize_loops(over_blocks("i")(k), "t, j"), "j:unr"), STEPS, """\
on the host, for t:
  launch 0:
    for j
      step"""),
}
