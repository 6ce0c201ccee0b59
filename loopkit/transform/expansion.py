"""Expansion and contraction of temporaries: a cell for each iteration (privatize, expand), or fewer (contract)."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pymbolic.primitives as p

from loopkit.analysis.accesses import Access, accesses_by_array, why_inexact
from loopkit.analysis.constructors import with_axes, without_axes
from loopkit.analysis.dependences import between_iterations, dependences
from loopkit.analysis.legality import accepted, proven, require_reason
from loopkit.analysis.ranges import iname_range
from loopkit.analysis.values_preserved import clobbered_values, copied_over, in_cells
from loopkit.analysis.witnesses import BrokenPairs, Refusal, Violation, element_of, refuse_smallest
from loopkit.errors import PreconditionError, StorageError, UndecidedError, instance_text
from loopkit.expr.mappers import variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import subtract
from loopkit.poly.flow import earlier_accesses
from loopkit.poly.relations import at_sink
from loopkit.poly.sets import lexmin_point
from loopkit.shown import ENTRY_POINTS
from loopkit.transform.reindex import mentioned
from loopkit.transform.step import known_list, require_no_rule, transform


@transform
def privatize(kernel: LoopKernel, privatizing_inames: str | Iterable[str],
              only_var_names: str | Iterable[str] | None = None, *, assume: str | None = None, unsafe: bool = False
              ) -> LoopKernel:
    """Give each iteration of *privatizing_inames* a separate cell of the temporaries used inside them.

    Each such temporary gains one leading axis per iname. If an extent still depends on the sizes when the kernel is
    lowered, the temporary is a scratch array in global memory, as for :func:`expand`.

    :arg privatizing_inames: ``"i, j"`` or a sequence of inames.
    :arg only_var_names: the temporaries; default: every temporary with all accesses inside the inames.
    :raises UnknownNameError: an unknown iname or temporary.
    :raises PreconditionError: an access is outside the loops over the inames.
    :raises IllegalTransformError: a value is carried from one iteration to another; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<8}", "<> t = 2*x[i]\\ny[i] = t")
    >>> print(lk.privatize(knl, "i").statements_text)
    for i
      t[i] = 2*x[i]  {id=insn}
      y[i] = t[i]  {id=insn_0}
    end
    """
    inames = known_list("iname", privatizing_inames, kernel.inames)
    names = _privatized_names(kernel, inames, only_var_names)
    require_cells(kernel, names, "name the temporaries to privatize: only_var_names=")
    step = f"privatize({', '.join(inames)})"
    kernel = require_not_carried(kernel, inames, names, step, assume, unsafe)
    return with_axes(kernel, names, inames)


@transform
def expand(kernel: LoopKernel, temporary: str, inames: str | Iterable[str], *, trailing: bool = False,
           assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Give each iteration of *inames* a separate cell of *temporary*: one new axis per iname.

    If an extent depends on the sizes, the temporary is a scratch array in global memory, allocated by each call.
    Expansion allows the loop over an iname to be distributed between the writer of a value and its reader.

    :arg trailing: append the new axes instead of prepending them. Cells of one element are then adjacent, so that the
        threads of a warp access different banks.
    :raises UnknownNameError: an unknown temporary or iname.
    :raises PreconditionError: the temporary is used outside the loops over the inames, by a rule, or as a bound.
    :raises StorageError: the number of cells depends on the sizes, and the temporary is declared private or shared.
    :raises IllegalTransformError: a value is carried from one iteration to another; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = 2*x[i]\\ny[i] = t")
    >>> print(lk.expand(knl, "t", "i").statements_text)
    for i
      t[i] = 2*x[i]  {id=insn}
      y[i] = t[i]  {id=insn_0}
    end
    """
    own = known_list("iname", inames, kernel.inames)
    names = _privatized_names(kernel, own, [temporary], "expanded")
    require_cells(kernel, names, "expand temporaries that do not bound loops")
    space = kernel.temporaries[temporary].address_space
    open_ended = [x for x in own if not iname_range(kernel, x)[1]]
    if open_ended and space in (AddressSpace.PRIVATE, AddressSpace.LOCAL):
        refusal = StorageError(
            f"'{temporary}' is declared {space}, but the number of its cells would depend on the sizes, as the range "
            f"of '{open_ended[0]}' does.", subject=temporary, hint="split_iname, and expand over the inner iname")
        refusal.try_hints(partial(ENTRY_POINTS["storage_hints"], kernel, temporary,
                                  lambda other: expand(other, temporary, own)))
        raise refusal
    step = f"expand({temporary!r}, {list(own)})"
    kernel = require_not_carried(kernel, own, names, step, assume, unsafe)
    return with_axes(kernel, names, own, trailing=bool(trailing))


@transform
def contract(kernel: LoopKernel, temporary: str, inames: str | Iterable[str]) -> LoopKernel:
    """Remove the axes of *temporary* that *inames* subscript: their iterations share one cell. Undoes :func:`expand`.

    No value may be clobbered before its last reader in the current order. Instances that run concurrently on different
    threads keep separate cells if no value flows between threads.

    :raises UnknownNameError: an unknown temporary or iname.
    :raises PreconditionError: no axis has the iname, alone or plus a constant, as its subscript in every access.
    :raises UndecidedError: a subscript is not affine.
    :raises IllegalTransformError: a cell would hold two live values; the message names the clobbering write.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\\n<> t[i] = 2*x[i]\\ny[i] = t[i]\\nend")
    >>> print(lk.contract(knl, "t", "i").statements_text)
    for i
      <> t = 2*x[i]  {id=insn}
      y[i] = t  {id=insn_0}
    end
    """
    known_list("temporary", [temporary], kernel.temporaries)
    own = known_list("iname", inames, kernel.inames)
    require_cells(kernel, frozenset([temporary]), "contract temporaries that do not bound loops")
    return contracted(kernel, temporary, own, f"contract({temporary!r}, {list(own)})")


def contracted(kernel: LoopKernel, temporary: str, own: Sequence[str], step: str) -> LoopKernel:
    """:func:`contract` without the precondition of names."""
    result = without_axes(kernel, {temporary: _axes_of(kernel, temporary, own)})
    _require_one_value_a_cell(kernel, result, temporary, step)
    return proven(result)


def _privatized_names(kernel: LoopKernel, inames: tuple[str, ...], only: str | Iterable[str] | None,
                      what: str = "privatized") -> frozenset[str]:
    names = [x for x, t in kernel.temporaries.items() if not t.read_only] if only is None else \
        known_list("temporary", only, kernel.temporaries)
    users = {t: [s for s in kernel.statements if t in mentioned(s) or t in s.domain.params] for t in names}
    outside = {t: next((s.id for s in own if not set(inames) <= set(s.inames)), None) for t, own in users.items()}
    for t in names if only is not None else ():
        if not users[t] or outside[t] is not None:
            raise PreconditionError(
                f"'{t}' cannot be {what} over {', '.join(inames)}: '{outside[t]}' uses it outside of these loops.",
                subject=t, hint="choose inames of all statements that use the temporary")
    return frozenset(t for t in names if users[t] and outside[t] is None)


def require_cells(kernel: LoopKernel, names: frozenset[str], hint: str) -> None:
    """:raises PreconditionError: one of *names* is used in a place without subscripts, or is constant."""
    require_no_rule(kernel, names)
    for name in sorted(names):
        if name in kernel.temporaries and kernel.temporaries[name].read_only:
            raise PreconditionError(f"'{name}' is constant, so its axes cannot change.", subject=name,
                                    hint="give its initializer other axes")
    for s in kernel.statements:
        if bounding := names & set(s.domain.params):
            raise PreconditionError(f"'{min(bounding)}' bounds a loop of '{s.id}' and cannot have cells.",
                                    subject=min(bounding), hint=hint)


def require_not_carried(kernel: LoopKernel, inames: tuple[str, ...], names: frozenset[str], step: str,
                        assume: str | None, unsafe: bool) -> LoopKernel:
    """Refuse separate cells of *names* for the iterations of *inames*, if a value flows between iterations.

    The found flow is the part of the wanted one within iterations, so that the rest of it is lost.
    """
    require_reason(step, assume)
    lost = [Violation(d, pairs, "lost") for d in dependences(kernel)
            if d.array in names and (pairs := between_iterations(kernel, d, inames)) is not None]
    return kernel if not lost else accepted(
        kernel, step, lost,
        lambda _, v: f"{step} would lose a value of '{v.dependence.array}' that one iteration leaves for another.",
        lambda *_: [f"{step.split('(')[0]} over the inames that the value does not cross"], assume, unsafe)


def _axes_of(kernel: LoopKernel, temporary: str, inames: Sequence[str]) -> frozenset[int]:
    """The axis of *temporary* that each of *inames* subscripts, alone or plus a constant, in every access."""
    accesses = accesses_by_array(kernel).get(temporary, ())
    for a in accesses:
        if not a.affine:
            raise UndecidedError(f"Whether '{temporary}' can be contracted over {', '.join(inames)} cannot be decided.",
                                 why_inexact(kernel, a) or "", hint="contract temporaries with affine subscripts")
    axes: list[int] = []
    for x in inames:
        columns = enumerate(zip(*(a.subscripts for a in accesses), strict=True))
        found = next((k for k, subscripts in columns if k not in axes and all(
            x in variables(e) and variables(subtract(e, p.Variable(x))).isdisjoint(kernel.inames)
            for e in subscripts)), None)
        if found is None:
            raise PreconditionError(
                f"No axis of '{temporary}' has '{x}', alone or plus a constant, as its subscript in every access.",
                subject=x,
                hint="contract over an iname that is a subscript of the temporary in each statement")
        axes.append(found)
    return frozenset(axes)


def _require_one_value_a_cell(before: LoopKernel, after: LoopKernel, temporary: str, step: str) -> None:
    flows = [d for d in dependences(after) if d.array == temporary and d.kind == "flow"]
    accesses = accesses_by_array(after).get(temporary, ())
    apart = copied_over(after, accesses, flows)
    found = list(clobbered_values(after, accesses, flows, lambda a: in_cells(after, a, apart)))
    if not found:
        return
    written = {a.statement: element_of(a.subscript_relation, source=True)
               for a in reversed(accesses_by_array(before)[temporary]) if a.is_write}
    wrong = min((BrokenPairs(after, w.source, w.sink, w.pairs, temporary, "flow", written[w.source])
                 for w in [w for w in found if w.is_lost] or found), key=lambda broken: broken.size())
    params, at_write, at_read = wrong.smallest
    first, last = (in_cells(after, next(a for a in accesses if (a.statement, a.is_write) == end), apart)
                   for end in ((wrong.source, True), (wrong.sink, False)))

    def overwriting(a: Access) -> str | None:
        own = in_cells(after, a, apart)
        behind = at_sink(earlier_accesses(first, own).reverse(), params, tuple(at_write.values()))
        ahead = at_sink(earlier_accesses(own, last), params, tuple(at_read.values()))
        point = lexmin_point(behind.domain().intersect(ahead.domain()), a.domain.inames, tuple(params))
        return None if point is None else f"{instance_text(a.statement, point[1])} overwrites"
    between = next(filter(None, (overwriting(a) for a in accesses if a.is_write)), "another thread may overwrite")
    writer, reader = instance_text(wrong.source, at_write), instance_text(wrong.sink, at_read)
    hint = "contract over inames whose loops enclose both the writer and the reader, or fuse those loops first"
    refuse_smallest([Refusal(wrong, f"{step} would put two values that are alive at once into one cell: what {writer} "
                             f"writes, {between} before {reader} reads it.", [hint], after)], step)
