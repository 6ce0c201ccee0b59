"""tensorize: small products of matrices by the lanes of a warp together."""
from __future__ import annotations

from collections.abc import Collection, Mapping

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.ranges import constant_range
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode
from loopkit.kernel.tags import InameTag, LocalTag, MmaTag, VecTag
from loopkit.transform.iname import split_iname
from loopkit.transform.step import require_iname, require_untagged, transform
from loopkit.transform.tags import tagged


@transform
def tensorize(kernel: LoopKernel, i_iname: str, j_iname: str, k_iname: str, *, assume: str | None = None,
            unsafe: bool = False) -> LoopKernel:
    """Let the lanes of a warp compute ``sum(k, a[i, k]*b[k, j])`` together, by matrix instructions where there are any.

    The three inames are a box of 8 or 16 rows, 8 columns and 4, 8 or 16 steps, parts of larger ones. A lane has one
    row of the eight, or two, and in it two columns next to each other: ``l.0`` goes over rows and pairs of columns,
    the tag ``mma`` over the rows of a lane and the steps, ``vec`` over its columns. So far that is a mapping like any
    other. It is what tensor cores ask for: they take a few elements of both matrices from each lane for all of them.

    What they compute is what the loops do, but for the order in which the steps of one box are added up, and for the
    rounding of each product, which is left out. The host runs the loops, and so does a tile at the edge in which some
    lanes have no part; see :func:`pad_domain`. On sm_80 a box of 8x8x4 is one instruction in float64, a larger one
    several. From sm_90 on those of 16 rows are one, at twice the pace of two of eight. Before sm_80 lanes hand each
    other elements by shuffles, which is slow.

    When the kernel is lowered, both operands must be elements in float64 of arrays that all threads see (a
    :func:`precompute` of them in shared memory will do), and the last inames on ``l.0`` the rows and the pairs of
    columns, as they are where the loops over *i_iname* and *j_iname* are next to each other.

    :arg i_iname: of the rows of the left operand; *j_iname*: of the columns of the right one; *k_iname*: of the sum.
    :raises UnknownNameError: one of them is no iname.
    :raises PreconditionError: one has a tag or another number of values, or no sum over *k_iname* is such a product.
    :raises IllegalTransformError: a dependence would be broken; with its witness.

    >>> knl = lk.make_kernel("{[i, j, k]: 0<=i<8 and 0<=j<8 and 0<=k<4}", "c[i, j] = sum(k, a[i, k]*b[k, j])")
    >>> print(knl.statements_text)
    for i, j
      c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}
    end
    >>> print(lk.tensorize(knl, "i", "j", "k").statements_text)
    for i [l.0], j_lane [l.0], j_item [vec]
      c[i, 2*j_lane + j_item] = sum(k, a[i, k]*b[k, 2*j_lane + j_item])  {id=insn}
    end
    >>> knl = lk.tensorize(lk.add_dtypes(knl, {"a,b,c": np.float64}), "i", "j", "k")
    >>> text = str(lk.generate_code(knl, target="cuda"))
    >>> print(*(line for line in text.splitlines() if "mma_m8n8k4_f64(acc_k" in line))
        mma_m8n8k4_f64(acc_k[0], acc_k[1], a[4*i + j_lane], b[8*j_lane + i]);
    """
    for x in (i_iname, j_iname, k_iname):
        require_iname(kernel, x)
        require_untagged(kernel, x, "computed by matrix instructions")
    for node in _sums(kernel, k_iname):
        _require_product(kernel, node, i_iname, j_iname)
    rows = _require_extent(kernel, i_iname, (8, 16), "rows")
    _require_extent(kernel, j_iname, (8,), "columns")
    _require_extent(kernel, k_iname, (4, 8, 16), "steps")
    tags: dict[str, InameTag] = {k_iname: MmaTag()}
    if rows == 8:
        tags[i_iname] = LocalTag(0)
    else:
        row, lane = _parts(kernel, i_iname, ("row", "lane"))
        kernel = split_iname(kernel, i_iname, 8, outer_iname=row, inner_iname=lane)
        tags |= {row: MmaTag(), lane: LocalTag(0)}
    lane, item = _parts(kernel, j_iname, ("lane", "item"))
    kernel = split_iname(kernel, j_iname, 2, outer_iname=lane, inner_iname=item)
    tags |= {lane: LocalTag(0), item: VecTag()}
    return tagged(kernel, tags, "tensorize", assume=assume, unsafe=unsafe)


def _sums(kernel: LoopKernel, iname: str) -> list[ReductionNode]:
    """The sums over *iname*; :raises PreconditionError: there are none."""
    found = [node for node in kernel.reductions.values() if iname in node.inames and node.operation == "sum"]
    if not found:
        raise PreconditionError(f"There is no sum over '{iname}'.", subject=iname,
                                hint="matrix instructions add up products: c[i, j] = sum(k, a[i, k]*b[k, j])")
    return found


def _require_product(kernel: LoopKernel, node: ReductionNode, i: str, j: str) -> None:
    """:raises PreconditionError: *node* does not add up products of what has a row *i* with what has a column *j*."""
    operand = expanded_expression(kernel, kernel.statement_by_id[node.update])
    match operand:
        case p.Product(children=(one, other)):
            depend = [variables(e) & {i, j} for e in (one, other)]
            if depend in ([{i}, {j}], [{j}, {i}]):
                return
        case _:
            pass
    raise PreconditionError(
        f"The sum of '{node.final}' is none of products of an element for each '{i}' with one for each '{j}'.",
        subject=node.name, hint="compute such elements first: precompute(knl, rule, ...)")


def _require_extent(kernel: LoopKernel, iname: str, extents: Collection[int], what: str) -> int:
    """How many values *iname* has, which count from 0; :raises PreconditionError: none of *extents*."""
    ranges = {constant_range(kernel, s.domain, iname) for s in kernel.statements if iname in s.inames}
    known = {(0, n - 1): n for n in extents}
    if len(ranges) != 1 or not ranges <= known.keys():
        raise PreconditionError(
            f"'{iname}' has not the values 0 to {' or '.join(str(n - 1) for n in extents)}, of as many {what}.",
            subject=iname, hint=f"split_iname(knl, '{iname}', {max(extents)}) and give the inner iname")
    return _only(known, ranges.pop())


def _only(known: Mapping[tuple[int, int], int], found: tuple[int | None, int | None]) -> int:
    low, high = found
    assert low is not None
    assert high is not None
    return known[low, high]


def _parts(kernel: LoopKernel, iname: str, names: tuple[str, str]) -> tuple[str, str]:
    """Fresh names for the two parts of *iname*."""
    return kernel.fresh_name(f"{iname}_{names[0]}"), kernel.fresh_name(f"{iname}_{names[1]}")
