"""peel: makes separate loops of the first and the last iterations of a loop."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, product

import pymbolic.primitives as p

from loopkit.analysis.accesses import analysis_domain, data_params, origin
from loopkit.analysis.constructors import Image, between_images, with_dependences
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement, owner
from loopkit.kernel.tree import Loop, Tree, in_order_of, leaves, loops_in, seq, with_ids
from loopkit.poly.domains import parted
from loopkit.poly.limits import IMPORTANT, affordable
from loopkit.poly.sets import InstanceSet
from loopkit.poly.unions import in_plain_bounds
from loopkit.transform.iname import renamed
from loopkit.transform.reindex import rewrite_loops, substituted
from loopkit.transform.step import matching_statements, require_owners, require_untagged, transform


@transform
def peel(kernel: LoopKernel, iname: str, first: int = 0, last: int = 0, *,
         within: Within = None, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split off the first and the last iterations of the loops over *iname* into loops of their own.

    If *iname* runs from ``low`` to ``high`` in a loop, the first part has the iterations up to ``low + first - 1``, and
    the last part those from ``high - last + 1`` on. If a loop has too few iterations, the first part takes precedence
    over the last. The copies of a statement ``S`` are ``S_first`` and ``S_last``, in loops
    over ``i_first`` and ``i_last`` for an iname ``i``. A statement that runs in only one of the parts keeps its id.

    For a reduction iname ``k``, separate statements (``S.k.update_first``, ``S.k.update_last``) add the first and the
    last terms to the same accumulator, in the same order as before.

    :arg first: the number of values of *iname* in the first part; *last*: the number in the last part.
    :arg within: the statements whose loops are peeled; default: all.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: *iname* has a tag, both counts are 0, or a loop has no first or last iteration, because
        data bounds it.
    :raises ScheduleError: *within* names some of the statements of a loop only, or the parts of an enclosed reduction
        are in different loops.
    :raises IllegalTransformError: a dependence between iterations of a parallel outer loop would be broken.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n>=2")
    >>> knl = lk.peel(knl, "i", first=1, last=1)
    >>> print(knl.statements_text)
    for i_first
      y[i_first] = 2*x[i_first]  {id=insn_first}
    end
    for i
      y[i] = 2*x[i]  {id=insn}
    end
    for i_last
      y[i_last] = 2*x[i_last]  {id=insn_last}
    end
    >>> print(knl.statement("insn").domain.text)
    [n] -> { [i] : 0 < i <= -2 + n }
    """
    require_untagged(kernel, iname, "peeled")
    for count, what in ((first, "first"), (last, "last")):
        if count < 0:
            raise PreconditionError(f"peel: {what} must be a number of iterations, not {count!r}.", subject=what)
    if not first and not last:
        raise PreconditionError("peel needs a number of first or last iterations.", subject=iname,
                                hint=f"peel(knl, '{iname}', first=1)")
    chosen = matching_statements(kernel, within)
    require_owners(kernel, (iname,), chosen, "peel")
    parts = dict(_peeled_parts(kernel, iname, chosen, int(first), int(last)))
    result = _with_copies(kernel, iname, chosen, parts)
    for end in ("first", "last"):
        own = frozenset(part.id for found in parts.values() for part in found if part.end == end)
        result = renamed(result, iname, kernel.fresh_name(f"{iname}_{end}"), own) if own else result
    return require_legal(result, f"peel({iname}, first={first}, last={last})", assume=assume, unsafe=unsafe)


@dataclass(frozen=True)
class _Part:
    """A statement *where* it runs in the part *end* (``"first"``, ``"last"``, or ``""`` between them) of its loop."""

    end: str
    id: str
    where: InstanceSet


_ENDS = ("first", "", "last")


def _peeled_parts(kernel: LoopKernel, iname: str, chosen: frozenset[str], first: int, last: int
                  ) -> Iterator[tuple[str, list[_Part]]]:
    """The parts of each statement in a loop over *iname*, in the order in which they run."""
    names: dict[tuple[str, str], str] = {}
    for ids in (tuple(leaves(loop)) for loop in loops_in(kernel.tree) if loop.iname == iname):
        if chosen.isdisjoint(ids):
            continue
        for node in kernel.reductions.values():
            if iname not in node.inames and not node.parts.isdisjoint(ids) and not node.parts.issubset(ids):
                raise ScheduleError(f"The statements of the reduction of '{node.final}' are in different loops over "
                                    f"'{iname}'.", subject=iname, hint="peel before the loops are distributed")
        regions = dict(zip(_ENDS, _peeled_regions(kernel, iname, ids, first, last), strict=True))
        groups: dict[str, list[str]] = {}
        for s in ids:
            groups.setdefault(_whole_statement(kernel, s, ids), []).append(s)
        for whole, members in groups.items():
            # the statements of a reduction stay together: without terms, the neutral element is stored
            running = [end for end, where in regions.items() if any(
                not analysis_domain(kernel, kernel.statement(s)).intersect(where).is_empty() for s in members)] or [""]
            # parts of a reduction are named after the new id of their statement
            olds = {s: whole if owner(s) == whole else s for s in members}
            for end, old in product(running, olds.values()):
                if (old, end) not in names:
                    names[old, end] = old if not end or len(running) == 1 else \
                        kernel.fresh_name(f"{old}_{end}", *names.values())
            for s, old in olds.items():
                yield s, [_Part(end, names[old, end] + s[len(old):], regions[end]) for end in running]


def _whole_statement(kernel: LoopKernel, statement: str, ids: Sequence[str]) -> str:
    """The one of *ids* that *statement* is a part of: a copied statement, or the update of a reduction."""
    if owner(statement) in ids:
        return owner(statement)
    node = kernel.reduction_of.get(statement)
    return statement if node is None or node.final not in ids else _whole_statement(kernel, node.final, ids)


def _peeled_regions(kernel: LoopKernel, iname: str, ids: Sequence[str], first: int, last: int
                    ) -> tuple[InstanceSet, InstanceSet, InstanceSet]:
    """The first iterations of a loop, the iterations between, and the last."""
    loops = loops_of(kernel.paths[ids[0]])
    inames = (*loops[:loops.index(iname)], iname)
    points = reduce(InstanceSet.union, (analysis_domain(kernel, kernel.statement(s)).onto(inames) for s in ids))
    # the start of a union may need a form for each remainder of its strides; that of a polyhedron is one form
    found = affordable(lambda: (parted(points, first, last),), otherwise=None, budget=IMPORTANT)
    regions = found[0] if found is not None else parted(
        points.named(in_plain_bounds(points.set, kernel.assumptions)), first, last)
    if regions is None:
        data = [x for s in ids for x in data_params(kernel, kernel.statement(s).domain)]
        raise PreconditionError(f"The loop over '{iname}' around '{ids[0]}' cannot be peeled at this end: its bound is "
                                f"{origin(kernel, data)}.", subject=iname, hint="peel the other end")
    return regions


def _with_copies(kernel: LoopKernel, iname: str, chosen: frozenset[str], parts: Mapping[str, Sequence[_Part]]
                 ) -> LoopKernel:
    accumulators, nodes = _reductions(kernel, parts)

    def ids(old: frozenset[str]) -> frozenset[str]:
        return frozenset(new for s in old for new in ([part.id for part in parts[s]] if s in parts else [s]))

    def copies(s: Statement) -> Iterator[Statement]:
        ordered = replace(s, options=replace(s.options, depends_on=ids(s.options.depends_on),
                                             no_sync_with=ids(s.options.no_sync_with)))
        if s.id not in parts:
            yield ordered
        for part in parts.get(s.id, ()):
            yield substituted(replace(ordered, id=part.id, domain=s.domain.intersect(part.where)),
                              {acc: p.Variable(new) for acc, new in accumulators[part.end].items()})

    def part_of(loop: Loop, end: str) -> Tree:
        return with_ids(loop, {s: part.id for s in leaves(loop) for part in parts[s] if part.end == end})
    tree = rewrite_loops(kernel, (iname,), chosen, lambda loop: seq(*(part_of(loop, end) for end in _ENDS)))
    cells = {new: replace(kernel.temporaries[acc], name=new) for own in accumulators.values()
             for acc, new in own.items()}
    old = {acc for own in accumulators.values() for acc in own} - cells.keys()
    images = {s: [Image(part.id, within=part.where.onto(kernel.statement_by_id[s].inames).set) for part in found]
              for s, found in parts.items()}
    end_of = {part.id: part.end for found in parts.values() for part in found}

    def divided(found: Sequence[Dependence], _: LoopKernel) -> Iterator[Dependence]:
        for d in between_images(found, images):
            yield replace(d, array=accumulators[end_of.get(d.source, "")].get(d.array, d.array))
    return with_dependences(
        kernel, divided, statements=in_order_of(tree, (copy for s in kernel.statements for copy in copies(s))),
        tree=tree, reductions=nodes,
        temporaries={**{name: t for name, t in kernel.temporaries.items() if name not in old}, **cells})


def _reductions(kernel: LoopKernel, parts: Mapping[str, Sequence[_Part]]
                ) -> tuple[dict[str, dict[str, str]], dict[str, ReductionNode]]:
    """Reductions in peeled loops: for each part the new accumulators by their old names, and the nodes."""
    accumulators: dict[str, dict[str, str]] = {end: {} for end in _ENDS}
    nodes: dict[str, ReductionNode] = {}
    for name, node in kernel.reductions.items():
        if node.final not in parts:
            found = [x for s in node.updates for x in (
                [(part.end, part.id) for part in parts[s]] if s in parts else [("", s)])]
            middle = next((s for end, s in found if not end), found[0][1])      # it keeps the old update
            nodes[name] = replace(node, updates=(middle, *(s for _, s in found if s != middle)))
            continue
        for i, part in enumerate(parts[node.final]):
            acc, new = node.accumulator, name
            if part.end and len(parts[node.final]) > 1:
                acc = kernel.fresh_name(f"{acc}_{part.end}", *chain(*map(dict.values, accumulators.values())))
                whole = node.final == owner(node.final)
                new = kernel.fresh_name(part.id + name[len(node.final):] if whole else f"{name}_{part.end}",
                                        *kernel.reductions, *nodes)
            accumulators[part.end][node.accumulator] = acc
            init, *updates, final = (parts[s][i].id for s in (node.init, *node.updates, node.final))
            nodes[new] = replace(node, name=new, accumulator=acc, init=init, final=final, updates=tuple(updates))
    return accumulators, nodes
