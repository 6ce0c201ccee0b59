"""Counts of what a kernel does: operations, memory accesses, synchronization, and the elements that it accesses.

Operations and accesses are those of the kernel after the stage ``launches``: with its temporaries in their memories and
its statements on their axes. All numbers are exact. Bounds and conditions that depend on data leave them undecided.
"""
from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from loopkit.analysis.accesses import accesses_by_array, doubt_of
from loopkit.analysis.counts import CountGranularity, Key, Op, Synchronization, ToCountMap
from loopkit.analysis.counts_of_statements import operations_in, references_of
from loopkit.analysis.match import Within, matching
from loopkit.ast.nodes import Scope
from loopkit.errors import UndecidedError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tree import Barrier, Loop, Seq, Tree, leaves
from loopkit.lowering.executions import Executions, SubgroupSize, countable_domain, executions_of
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import lower_fully
from loopkit.lowering.types import infer_types
from loopkit.poly.counting import number_of_points
from loopkit.poly.limits import bounded, coalesced
from loopkit.poly.quasi_polynomials import PiecewiseQuasiPolynomial, whole
from loopkit.poly.sets import InstanceSet, Set


@checked
def get_op_map(knl: LoopKernel, count_redundant_work: bool = False, count_within_subscripts: bool = True,
               subgroup_size: SubgroupSize = None, *, within: Within = None) -> ToCountMap:
    """The number of operations of *knl* by :class:`~loopkit.Op`, as quasi-polynomials in its sizes.

    An operation counts once for each warp that executes it (``subgroup``). Additions and subtractions are ``add``. A
    choice ``a if c else b`` counts with both branches. Comparisons, logical operations and conversions do not count. A
    reduction has one operation for each operand that it combines. Each call of a function is one ``func:NAME``.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k]*exp(x[k]))",
    ...                      assumptions="n>=1 and m>=1", name="rows")
    >>> knl = lk.add_dtypes(knl, {"a,x": np.float32})
    >>> print(lk.get_op_map(knl))
    Op(dtype=float32, name='add', count_granularity='subgroup', kernel_name='rows'): m*n
    Op(dtype=float32, name='func:exp', count_granularity='subgroup', kernel_name='rows'): m*n
    Op(dtype=float32, name='mul', count_granularity='subgroup', kernel_name='rows'): m*n
    >>> mapped = lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> lk.get_op_map(mapped).filter_by(name="mul", dtype=np.float32).eval_and_sum({"n": 1000, "m": 50})
    1600

    :arg count_redundant_work: count the copies of a statement that run along an axis without an iname of its own.
    :arg count_within_subscripts: count the operations in subscripts.
    :arg subgroup_size: the threads of a warp; ``None`` and ``"guess"`` mean 32.
    :arg within: only of these statements (:doc:`transformations`).
    :raises UndecidedError: a bound or condition depends on data.
    """
    def of(x: Executions, s: Statement) -> Iterator[tuple[Key, int]]:
        for name, dtype, times in operations_in(x.knl, s, x.types.get, in_subscripts=count_within_subscripts):
            yield Op(dtype, name, CountGranularity.SUBGROUP, knl.name), times
    with bounded(f"counting operations of kernel '{knl.name}'"):
        found = executions_of(knl, subgroup_size, redundant=count_redundant_work)
        return ToCountMap.of(found.counts(_selected_statements(knl, found.knl, within), of))


@checked
def get_mem_access_map(knl: LoopKernel, count_redundant_work: bool = False, subgroup_size: SubgroupSize = None, *,
                       within: Within = None) -> ToCountMap:
    """The number of accesses of *knl* to global and shared memory by :class:`~loopkit.MemAccess`.

    Each occurrence in the text is an access, in both branches of a choice. An access to global memory counts once for
    each thread (``workitem``), or once for each warp (``subgroup``) if the threads along ``l.0`` access one element.
    Accesses to shared memory count once for each warp. Arrays that a call passes are taken to be without gaps.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = a[i, j]*x[i]", assumptions="n>=1 and m>=1",
    ...                      name="scale")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"a,x": np.float32}), {"i": "g.0"})
    >>> knl = lk.split_iname(knl, "j", 64, inner_tag="l.0")
    >>> counts = lk.get_mem_access_map(knl)
    >>> for access in counts.filter_by(direction="load"):
    ...     print(access.variable, access.lid_strides, access.gid_strides, access.count_granularity, counts[access])
    a {0: 1} {0: Variable('m')} workitem m*n
    x {} {0: 1} subgroup 2*((m + 63) // 64)*n

    :arg count_redundant_work, subgroup_size, within: as for :func:`~loopkit.get_op_map`.
    :raises UndecidedError: a bound or condition depends on data.
    """
    def of(x: Executions, s: Statement) -> Iterator[tuple[Key, int]]:
        return ((key, 1) for reference in references_of(x.knl, s) if (key := x.access(s, reference)) is not None)
    with bounded(f"counting memory accesses of kernel '{knl.name}'"):
        found = executions_of(knl, subgroup_size, redundant=count_redundant_work)
        return ToCountMap.of(found.counts(_selected_statements(knl, found.knl, within), of))


@checked
def get_synchronization_map(knl: LoopKernel, subgroup_size: SubgroupSize = None) -> ToCountMap:
    """The number of launches of *knl*, and of barriers that a thread meets, by :class:`~loopkit.Synchronization`.

    If blocks have different numbers of iterations, the barriers of all iterations of any block count.

    >>> text = "for t\\n <> s[i] = x[t, i]\\n y[t, j] = s[127 - j]\\nend"
    >>> knl = lk.make_kernel("{[t, i, j]: 0<=t<m and 0<=i,j<128}", text, assumptions="m>=1", name="turn")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), {"i": "l.0", "j": "l.0"})
    >>> print(lk.get_synchronization_map(knl))
    Synchronization(kind='barrier_local', kernel_name='turn'): 2*m - 1
    Synchronization(kind='kernel_launch', kernel_name='turn'): 1

    :arg subgroup_size: not used.
    :raises UndecidedError: the bounds of a loop around a barrier or a launch depend on data.
    """
    with bounded(f"counting barriers of kernel '{knl.name}'"):
        low = lower_fully(knl, stop="barriers")
        return ToCountMap.of((Synchronization(kind, knl.name), number) for launch in low.launches
                             for kind, number in _events(low, launch))


@checked
def gather_access_footprints(knl: LoopKernel, ignore_uncountable: bool = False) -> dict[tuple[str, str], Set]:
    """The elements of each array that *knl* reads or writes: isl's sets by ``(name, "read")`` and ``(name, "write")``.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[2*i] = x[i] + x[i+1]")
    >>> for key, elements in lk.gather_access_footprints(knl).items():
    ...     print(key, elements)
    ('x', 'read') [n] -> { [i0] : n > 0 and 0 <= i0 <= n }
    ('y', 'write') [n] -> { [i0] : (i0) mod 2 = 0 and 0 <= i0 <= -2 + 2n }

    :arg ignore_uncountable: leave out accesses whose elements depend on data or are not affine.
    :raises UndecidedError: there are such accesses.
    """
    with bounded(f"gathering the footprints of kernel '{knl.name}'"):
        return _footprints(knl, ignore_uncountable)


@checked
def gather_access_footprint_bytes(knl: LoopKernel, ignore_uncountable: bool = False
                                  ) -> dict[tuple[str, str], PiecewiseQuasiPolynomial]:
    """The bytes of the elements that *knl* reads or writes, each element once, by array and direction.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[2*i] = x[i] + x[i+1]", assumptions="n>=1")
    >>> for key, count in lk.gather_access_footprint_bytes(lk.add_dtypes(knl, {"x": np.float32})).items():
    ...     print(key, count)
    ('x', 'read') 4*n + 4
    ('y', 'write') 4*n

    :arg ignore_uncountable: leave out accesses whose elements depend on data or are not affine.
    :raises UndecidedError: there are such accesses.
    """
    with bounded(f"counting the footprints of kernel '{knl.name}'"):
        data = infer_types(knl).data
        return {key: np.dtype(data[key[0]].dtype).itemsize*count(knl, elements)
                for key, elements in _footprints(knl, ignore_uncountable).items()}


@checked
def count(knl: LoopKernel, set: Set) -> PiecewiseQuasiPolynomial:    # noqa: A002  # loopy's name
    """The number of elements of a *set* of isl under the assumptions of *knl*.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[2*i] = x[i]", assumptions="n>=1")
    >>> print(count(knl, lk.gather_access_footprints(knl)["y", "write"]))
    n
    """
    with bounded(f"counting elements for kernel '{knl.name}'"):
        return number_of_points(set, knl.assumptions)


def _footprints(knl: LoopKernel, ignore_uncountable: bool) -> dict[tuple[str, str], Set]:
    found: dict[tuple[str, str], Set] = {}
    for name, accesses in accesses_by_array(knl).items():
        for access in accesses:
            if not access.subscripts and name in knl.temporaries:
                continue
            doubt = doubt_of(knl, access)
            if doubt is not None:
                if ignore_uncountable:
                    continue
                raise UndecidedError(f"The elements of '{name}' that '{access.statement}' accesses are unknown.", doubt,
                                     hint="ignore_uncountable=True leaves such accesses out")
            key, elements = (name, "write" if access.is_write else "read"), access.relation.range()
            found[key] = found[key].union(elements) if key in found else elements
    return {key: coalesced(elements) for key, elements in found.items()}


def _selected_statements(knl: LoopKernel, lowered: LoopKernel, within: Within) -> Iterator[Statement]:
    """The statements of the *lowered* kernel that *within* selects in *knl*."""
    chosen = None if within is None else matching(knl, within)
    return (s for s in lowered.statements if chosen is None or s.id in chosen or owner(s.id) in chosen)


# Synchronization

#: The names of barriers by the threads that wait for each other.
_BARRIERS = {Scope.CLUSTER: "barrier_cluster", Scope.BLOCK: "barrier_local", Scope.WARP: "barrier_warp"}


def _events(low: Lowered, launch: Launch) -> Iterator[tuple[str, PiecewiseQuasiPolynomial]]:
    """The launch and its barriers, with their numbers."""
    knl = low.scheduled.kernel

    def iterations(tree: Tree, inames: tuple[str, ...]) -> PiecewiseQuasiPolynomial:
        """The number of iterations of these loops, the innermost one around *tree*."""
        if not inames:
            return whole(1)
        domains = [countable_domain(knl, knl.statement_by_id[s]).onto(inames) for s in leaves(tree)]
        return number_of_points(reduce(InstanceSet.union, domains).set, knl.assumptions)

    def barriers(tree: Tree, around: Tree, loops: tuple[str, ...]) -> Iterator[tuple[str, PiecewiseQuasiPolynomial]]:
        match tree:
            case Barrier(scope=scope) if scope in _BARRIERS:
                number = iterations(around, loops)
                # a barrier between iterations is left out after the last one
                yield _BARRIERS[scope], number + -1*iterations(around, loops[:-1]) if tree.left_out_last else number
            case Loop(iname=iname, body=body):
                yield from barriers(body, tree, (*loops, iname))
            case Seq(children=children):
                for child in children:
                    yield from barriers(child, around, loops)
            case _:
                pass
    yield "kernel_launch", iterations(launch.tree, launch.hosts)
    yield from barriers(launch.tree, launch.tree, launch.hosts)
