"""tensorize: computes small matrix products by matrix multiply-accumulate instructions of a warp."""
from __future__ import annotations

from collections.abc import Collection

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.ranges import constant_range
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import InameTag, LocalTag, MmaTag, VecTag
from loopkit.transform.iname import split_iname
from loopkit.transform.step import require_untagged, transform
from loopkit.transform.tags import tagged


@transform
def tensorize(kernel: LoopKernel, i_iname: str, j_iname: str, k_iname: str, *, assume: str | None = None,
            unsafe: bool = False) -> LoopKernel:
    """Let the threads of a warp compute ``sum(k, a[i, k]*b[k, j])`` together, by matrix instructions where available.

    The three inames start at 0 and have 8 or 16 rows, 8 columns, and 4, 8 or 16 reduction steps. They are usually the
    inner inames of splits. The fragment layout gives each thread two neighbouring columns of one row out of eight:
    ``l.0`` distributes rows and pairs of columns, the tag ``mma`` covers the rows of a thread and the steps, and
    ``vec`` covers its columns.

    The matrix multiply-accumulate instructions compute the same sums as the loops, with two differences: they add the
    terms of a box in another order, and do not round each product. The C target runs the loops. A partial tile also
    runs the loops if some threads have no element in it; :func:`pad_domain` gives partial tiles the code of full tiles.
    On sm_80 an 8x8x4 box in float64 is one instruction, a larger box several. From sm_90 on a 16-row box is one
    instruction, at twice the throughput of two 8-row ones. Before sm_80 threads exchange elements by warp shuffles,
    which is slow.

    Lowering requires float64 operands. They are elements of arrays that all threads can read; :func:`precompute` puts
    other operands into shared memory. The last inames on ``l.0`` must be the rows and the pairs of columns. This holds
    if the loops over *i_iname* and *j_iname* are adjacent in the nest.

    :arg i_iname: the iname of the rows of the left operand; *j_iname*: that of the columns of the right operand;
        *k_iname*: that of the sum.
    :raises UnknownNameError: a name is not an iname.
    :raises PreconditionError: an iname has a tag or another number of values, or there is no sum of such products over
        *k_iname*.
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
        require_untagged(kernel, x, "computed by matrix instructions")
    sums = [node for node in kernel.reductions.values() if k_iname in node.inames and node.operation == "sum"]
    if not sums:
        raise PreconditionError(f"There is no sum over '{k_iname}'.", subject=k_iname,
                                hint="matrix instructions compute c[i, j] = sum(k, a[i, k]*b[k, j])")
    for node in sums:
        operand = expanded_expression(kernel, kernel.statement_by_id[node.update])
        factors = operand.children if isinstance(operand, p.Product) else ()
        if [variables(e) & {i_iname, j_iname} for e in factors] not in ([{i_iname}, {j_iname}], [{j_iname}, {i_iname}]):
            raise PreconditionError(
                f"The operand of the sum of '{node.final}' is not an element for each '{i_iname}' times one for each "
                f"'{j_iname}'.", subject=node.name, hint="compute such elements first: precompute(knl, rule, ...)")
    rows = _require_extent(kernel, i_iname, (8, 16), "rows")
    _require_extent(kernel, j_iname, (8,), "columns")
    _require_extent(kernel, k_iname, (4, 8, 16), "steps")
    tags: dict[str, InameTag] = {k_iname: MmaTag()}
    if rows == 8:
        tags[i_iname] = LocalTag(0)
    else:
        row, lane = (kernel.fresh_name(f"{i_iname}_{part}") for part in ("row", "lane"))
        kernel = split_iname(kernel, i_iname, 8, outer_iname=row, inner_iname=lane)
        tags |= {row: MmaTag(), lane: LocalTag(0)}
    lane, item = (kernel.fresh_name(f"{j_iname}_{part}") for part in ("lane", "item"))
    kernel = split_iname(kernel, j_iname, 2, outer_iname=lane, inner_iname=item)
    tags |= {lane: LocalTag(0), item: VecTag()}
    return tagged(kernel, tags, "tensorize", assume=assume, unsafe=unsafe)


def _require_extent(kernel: LoopKernel, iname: str, extents: Collection[int], what: str) -> int:
    """The extent of *iname*, which starts at 0; :raises PreconditionError: it is not among *extents*."""
    ranges = {constant_range(kernel, s.domain, iname) for s in kernel.statements if iname in s.inames}
    found = next((n for n in extents if ranges == {(0, n - 1)}), None)
    if found is None:
        raise PreconditionError(
            f"'{iname}' must run from 0 to {' or '.join(str(n - 1) for n in extents)}, over the {what}.",
            subject=iname, hint=f"split_iname(knl, '{iname}', {max(extents)}) and give the inner iname")
    return found
