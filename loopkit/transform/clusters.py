"""cluster: blocks of a launch that run at once and share copies of tiles."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pymbolic.primitives as p

from loopkit.analysis.accesses import accesses_by_array, data_params, expanded_expression
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.legality import axis_inames
from loopkit.analysis.ranges import iname_range
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.instructions.tma import TmaLoad
from loopkit.instructions.tma_multicast import TmaMulticast
from loopkit.instructions.vector_access import copied_element
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.sets import lexmin_point
from loopkit.transform.step import require_iname, transform

#: The numbers of blocks of a cluster.
SIZES = (2, 4, 8)


@transform
def cluster(kernel: LoopKernel, iname: str, blocks: int) -> LoopKernel:
    """Let *blocks* blocks that follow each other along *iname* run at once, and share the copies of equal tiles.

    TMA copies a tile that is the same for all of these blocks once: each block starts a share of the copy, which goes
    to the shared memory of all of them (multicast). The producer of a block waits until the consumers of all blocks
    have read the tile that it overwrites. The blocks of a cluster must copy, and read, such tiles in the same
    iterations: pad the domain to whole clusters (:func:`pad_domain`). Blocks that run several places of the grid have
    those of one cluster in each round: their number is a multiple of *blocks* (:func:`persistent`).

    :arg iname: the fastest iname on ``g.0``, with a constant number of values that *blocks* divides.
    :arg blocks: 2, 4 or 8.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: *iname* or *blocks* cannot be those of a cluster; no statement runs in a producer thread,
        or it copies no tile that is the same for all blocks; the number of persistent blocks is not a multiple of
        *blocks*; blocks wait for earlier ones; bounds depend on data; some blocks of a cluster copy or read tiles that
        others do not, with the smallest case.

    >>> knl = lk.make_kernel("{[b, j, k]: 0<=b<2*m and 0<=j<64 and 0<=k<32}", "y[b, j] = sum(k, w[b, k]*x[j, k])", [
    ...     lk.GlobalArg("x", np.float32, (64, 32)), lk.GlobalArg("w", np.float32, "2*m, 32"), "..."])
    >>> knl = lk.split_iname(lk.tag_inames(knl, "j:l.0"), "b", 2, outer_tag="g.0", inner_tag="g.0")
    >>> knl = lk.specialize_warps(lk.add_prefetch(knl, "x", "j, k", engine="tma"), "x_fetch_rule")
    >>> def copy(knl):
    ...     print(*(x.strip() for x in str(lk.generate_code(knl, target="cuda")).splitlines() if "(&x_fetch[" in x))
    >>> copy(knl)
    load_box_2d(&x_fetch[0][0], x_map_64x32, 8192, &x_fetch_full[0], 0, 0);
    >>> copy(lk.cluster(knl, "b_inner", 2))
    load_share_2d<2>(&x_fetch[32*b_inner][0], x_map_32x32, 8192, &x_fetch_full[0], 32*b_inner, 0);
    """
    require_iname(kernel, iname)
    if blocks not in SIZES:
        raise PreconditionError(f"A cluster has 2, 4 or 8 blocks, and not {blocks}.", subject="blocks", hint="blocks=2")
    producers = [s for s in kernel.statements if s.options.producer]
    shared = {s.id for s in producers if iname in s.inames and not _differs_along(kernel, s, iname)}
    if not shared:
        what = "copies no tile that is the same for all values of" if producers else "is missing, for"
        raise PreconditionError(f"A producer {what} '{iname}'.", subject=iname,
                                hint="specialize_warps(knl, copies), of which one does not depend on the iname")
    found = rewritten(kernel, statements=tuple(replace(s, instructions=tuple(
        TmaMulticast(i.name, i.row, blocks=blocks) if isinstance(i, TmaLoad) else i for i in s.instructions))
        if s.id in shared else s for s in kernel.statements))
    blocks_of_cluster(found, [*kernel.statement_by_id], iname)
    return found


def blocks_of_cluster(kernel: LoopKernel, statements: Iterable[str], iname: str | None = None) -> int:
    """The blocks of a cluster that share copies of *statements*; 1: each block is on its own.

    :arg iname: it must be the one that tells the blocks of a cluster apart.
    :raises PreconditionError: these blocks do not run the copies and the readers of their tiles alike.
    """
    own = [kernel.statement_by_id[s] for s in statements]
    shared = {s.id: i.blocks for s in own for i in s.instructions if isinstance(i, TmaMulticast)}
    if not shared:
        return 1
    axes = {axis_inames(kernel, s.inames, GroupTag).get(0, ())[-1:] for s in own if s.options.producer}
    fastest = next(iter(axes))[0] if len(axes) == 1 and () not in axes else None
    low, extent = (0, 0) if fastest is None else iname_range(kernel, fastest)
    blocks = max(shared.values())
    if fastest is None or iname not in {None, fastest} or low != 0 or not isinstance(extent, int) or not extent \
            or extent % blocks or len({*shared.values()}) > 1:
        subject = iname or fastest or "cluster"
        raise PreconditionError(f"'{subject}' is not the fastest iname on g.0 with a multiple of {blocks} values.",
                                subject=subject, hint=f"split_iname(knl, ..., {blocks}), and tag the inner iname last")
    for what, count in (("persistent blocks", kernel.options.persistent),
                        ("places of a group", kernel.options.persistent_group)):
        if count % blocks:
            raise PreconditionError(f"{count} {what} are not whole clusters of {blocks}.", subject="persistent",
                                    hint=f"persistent(knl, ...) with a multiple of {blocks}")
    if between := sorted(t.name for t in kernel.temporaries.values() if t.between_blocks):
        raise PreconditionError(f"Blocks that read '{between[0]}' of earlier blocks have no clusters.",
                                subject=between[0], hint="leave out add_block_flags")
    tiles = {s.written for s in own if s.options.producer}
    for s in own:
        if data := data_params(kernel, s.domain):
            raise PreconditionError(f"'{s.id}' is bounded by '{data[0]}', which may differ between the blocks of a "
                                    "cluster.", subject=s.id, hint="bound it by a size parameter, or leave out cluster")
        if s.id in shared and _differs_along(kernel, s, fastest):
            raise PreconditionError(f"'{s.id}' copies another tile for each value of '{fastest}'.", subject=s.id,
                                    hint="cluster(knl, iname, blocks) is for copies that do not depend on the iname")
        if s.written in tiles and not s.options.producer:
            raise PreconditionError(f"'{s.id}' writes to '{s.written}' too, to which other blocks of a cluster copy.",
                                    subject=s.id, hint="give it another temporary")
        if any(a.statement == s.id for t in tiles for a in accesses_by_array(kernel)[t]):
            _require_same(kernel, s, fastest, blocks)
    for t in sorted(tiles):
        if kernel.temporary_variables[t].base_storage is not None:
            raise PreconditionError(f"'{t}' shares its memory with other temporaries, and other blocks copy to it.",
                                    subject=t, hint="leave out alias_temporaries")
    return blocks


def _differs_along(kernel: LoopKernel, s: Statement, iname: str) -> bool:
    """May *s* copy another tile for each value of *iname*? Temporaries may have other values in each block."""
    copied = copied_element(expanded_expression(kernel, s))
    if copied is None:
        return True
    element, condition = copied
    places = (*s.subscripts, *element.index_tuple, *s.predicates, *(() if condition is None else (condition,)))
    return any(variables(e) & {iname, *kernel.temporaries} for e in places)


def _require_same(kernel: LoopKernel, s: Statement, iname: str, blocks: int) -> None:
    """:raises PreconditionError: blocks of a cluster have other instances of *s*; with the smallest case."""
    own = s.domain.inames
    coordinates = [floor_div(p.Variable(x), blocks) if x == iname else p.Variable(x) for x in own]
    others = s.domain.apply(equal_coordinates(own, coordinates, own, coordinates), own)
    missing = others.subtract(s.domain).intersect_params(kernel.assumptions)
    if not missing.is_empty():
        found = lexmin_point(missing.set, own)
        assert found is not None
        sizes, point = (", ".join(f"{x} = {value}" for x, value in part.items()) for part in found)
        raise PreconditionError(
            f"'{s.id}' runs in one block of a cluster and not in another one, for {point}, with {sizes}.", subject=s.id,
            hint=f"pad_domain(knl, ...) to whole clusters of {blocks} blocks along '{iname}' before the splits, or "
                 "assume such sizes")
