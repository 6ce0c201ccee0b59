"""Storage of temporaries by hand: cells for each iteration (privatize, expand), and fewer cells again (contract)."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, why_inexact
from loopkit.analysis.certainty import certain_write
from loopkit.analysis.dependences import Dependence, dependences, unchanged_from
from loopkit.analysis.legality import Violation, accepted, iname_extent, iname_range, require_reason
from loopkit.analysis.order import execution_paths
from loopkit.analysis.values import Misread, misreads
from loopkit.errors import (
    IllegalTransformError,
    PreconditionError,
    StorageError,
    UndecidedError,
    Witness,
    instance_text,
)
from loopkit.expr.mappers import map_children, variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_parallel
from loopkit.poly.affine import NotAffineError, names_in, subtract
from loopkit.poly.flow import TimedAccess
from loopkit.poly.relations import at_sink, cells, differing, element_at, restrict, smallest_pair
from loopkit.transform.reindex import with_expressions
from loopkit.transform.step import name_list, require_iname, transform


@transform
def privatize(kernel: LoopKernel, privatizing_inames: str | Iterable[str],
              only_var_names: str | Iterable[str] | None = None, *, assume: str | None = None, unsafe: bool = False
              ) -> LoopKernel:
    """Give each iteration of *privatizing_inames* its own cell of the temporaries used inside them.

    Each such temporary gains one leading axis an iname. Where the inames have no constant range, see :func:`expand`.

    :arg only_var_names: the temporaries; default: every one whose accesses all stand in the inames.
    :raises UnknownNameError: an unknown iname or temporary.
    :raises PreconditionError: an iname without a constant range, or an access outside the inames.
    :raises IllegalTransformError: a value is carried from one iteration to another; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<8}", "<> t = 2*x[i]\\ny[i] = t")
    >>> print(lk.privatize(knl, "i").statements_text)
    for i
      t[i] = 2*x[i]  {id=insn}
      y[i] = t[i]  {id=insn_0}
    end
    """
    inames = name_list(privatizing_inames)
    for x in inames:
        require_iname(kernel, x)
    names = _privatized_names(kernel, inames, only_var_names)
    _require_cells(kernel, names, "name the temporaries to privatize: only_var_names=")
    step = f"privatize({', '.join(inames)})"
    kernel = _require_not_carried(kernel, inames, names, step, assume, unsafe)
    for x in inames:
        if not iname_range(kernel, x)[1]:
            raise PreconditionError(f"'{x}' has no constant range, so a temporary cannot be privatized over it.",
                                    subject=x, hint="split the iname and privatize over the inner one, or expand")
    return _expanded(kernel, inames, names)


@transform
def expand(kernel: LoopKernel, temporary: str, inames: str | Iterable[str], *, assume: str | None = None,
           unsafe: bool = False) -> LoopKernel:
    """Give each iteration of *inames* its own cell of *temporary*: one leading axis an iname.

    Where an extent depends on the sizes, the temporary is a scratch array in global memory, which each call
    allocates. What this allows: the loop over an iname may end between the writer of a value and its reader.

    :raises UnknownNameError: an unknown temporary or iname.
    :raises PreconditionError: the temporary is used outside the inames, by a rule or as a bound.
    :raises StorageError: the number of cells depends on the sizes, and the temporary is declared private or local.
    :raises IllegalTransformError: a value is carried from one iteration to another; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = 2*x[i]\\ny[i] = t")
    >>> print(lk.expand(knl, "t", "i").statements_text)
    for i
      t[i] = 2*x[i]  {id=insn}
      y[i] = t[i]  {id=insn_0}
    end
    """
    own = name_list(inames)
    for x in own:
        require_iname(kernel, x)
    names = _privatized_names(kernel, own, [temporary], "expanded")
    _require_cells(kernel, names, "only what is no bound can be expanded")
    space = kernel.temporaries[temporary].address_space
    open_ended = [x for x in own if not iname_range(kernel, x)[1]]
    if open_ended and space in (AddressSpace.PRIVATE, AddressSpace.LOCAL):
        raise StorageError(
            f"'{temporary}' is declared {space}, but the number of its cells would depend on the sizes, as the range "
            f"of '{open_ended[0]}' does.", subject=temporary,
            hint=f"set_temporary_address_space(knl, '{temporary}', 'global'), or split_iname and expand over the inner")
    step = f"expand({temporary!r}, {list(own)})"
    kernel = _require_not_carried(kernel, own, names, step, assume, unsafe)
    return _expanded(kernel, own, names)


@transform
def contract(kernel: LoopKernel, temporary: str, inames: str | Iterable[str]) -> LoopKernel:
    """Let the iterations of *inames* share one cell: the axes of *temporary* that they subscript go. Undoes expand.

    In the order as it stands no value may be overwritten before its last reader; instances that run at once on
    different threads have cells of their own where no value goes from one to another.

    :raises UnknownNameError: an unknown temporary or iname.
    :raises PreconditionError: no axis is subscripted by the iname, and a constant, in every access.
    :raises UndecidedError: a subscript is not affine.
    :raises IllegalTransformError: two values would be alive at once in one cell; says who overwrites.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\\n<> t[i] = 2*x[i]\\ny[i] = t[i]\\nend")
    >>> print(lk.contract(knl, "t", "i").statements_text)
    for i
      <> t = 2*x[i]  {id=insn}
      y[i] = t  {id=insn_0}
    end
    """
    own = name_list(inames)
    if temporary not in kernel.temporaries:
        raise unknown("temporary", temporary, kernel.temporaries)
    for x in own:
        require_iname(kernel, x)
    names = frozenset([temporary])
    _require_cells(kernel, names, "only what is no bound has axes")
    axes = _axes_of(kernel, temporary, own)

    def without_axes(expr: Expression) -> Expression:
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(temporary):
            rest = tuple(without_axes(e) for k, e in enumerate(expr.index_tuple) if k not in axes)
            return p.Subscript(expr.aggregate, rest) if rest else expr.aggregate
        return map_children(expr, without_axes)
    t = kernel.temporaries[temporary]
    shape = None if t.shape is None else tuple(e for k, e in enumerate(t.shape) if k not in axes)
    result = kernel.copy(
        statements=tuple(with_expressions(s, without_axes) for s in kernel.statements),
        temporaries={**kernel.temporaries, temporary: replace(t, shape=shape)}, carried=unchanged_from(kernel))
    _require_one_value_a_cell(kernel, result, temporary, f"contract({temporary!r}, {list(own)})")
    return result


# {{{ what can have other axes

def _privatized_names(kernel: LoopKernel, inames: tuple[str, ...], only: str | Iterable[str] | None,
                      what: str = "privatized") -> frozenset[str]:
    def inside(name: str) -> bool:
        users = _users(kernel, name)
        return bool(users) and all(set(inames) <= set(s.inames) for s in users)
    if only is None:
        return frozenset(t for t in kernel.temporaries if inside(t))
    names = name_list(only)
    for name in names:
        if name not in kernel.temporaries:
            raise unknown("temporary", name, kernel.temporaries)
        if not inside(name):
            outside = next((s.id for s in _users(kernel, name) if not set(inames) <= set(s.inames)), None)
            raise PreconditionError(
                f"'{name}' cannot be {what} over {', '.join(inames)}: '{outside}' uses it outside of them.",
                subject=name, hint="name inames that every statement using the temporary has")
    return frozenset(names)


def _users(kernel: LoopKernel, name: str) -> list[Statement]:
    return [s for s in kernel.statements if s.written == name or name in s.domain.params
            or any(name in variables(e) for e in (s.assignee, s.expression, *s.predicates))]


def _require_cells(kernel: LoopKernel, names: frozenset[str], hint: str) -> None:
    """:raises PreconditionError: one of *names* stands where it cannot have subscripts."""
    for rule in kernel.substitutions.values():
        if used := variables(rule.expr) & names:
            raise PreconditionError(f"'{min(used)}' is used by the substitution rule '{rule.name}'.", subject=min(used),
                                    hint=f"expand_subst(knl, '{rule.name}') first")
    for s in kernel.statements:
        if bounding := names & set(s.domain.params):
            raise PreconditionError(f"'{min(bounding)}' bounds a loop of '{s.id}' and cannot have cells.",
                                    subject=min(bounding), hint=hint)


def _require_not_carried(kernel: LoopKernel, inames: tuple[str, ...], names: frozenset[str], step: str,
                         assume: str | None, unsafe: bool) -> LoopKernel:
    require_reason(step, assume)
    lost = []
    for d in dependences(kernel):
        if d.array not in names:
            continue
        a, b = kernel.statement_by_id[d.source], kernel.statement_by_id[d.sink]
        bad = differing(d.relation, [(a.inames.index(x), b.inames.index(x)) for x in inames])
        if bad is not None:
            lost.append(Violation(d, bad, "lost"))
    return kernel if not lost else accepted(
        kernel, step, lost,
        lambda _, v: f"{step} would lose a value of '{v.dependence.array}' that one iteration leaves for another.",
        lambda *_: [f"{step.split('(')[0]} over the inames that the value does not cross"], assume, unsafe)

# }}}


# {{{ more cells

def _expanded(kernel: LoopKernel, inames: tuple[str, ...], names: frozenset[str]) -> LoopKernel:
    """*kernel* with leading axes over *inames* for the temporaries *names*."""
    lead = [subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inames]
    extents = [iname_extent(kernel, x) for x in inames]

    def indexed(expr: Expression) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in names:
                return p.Subscript(expr.aggregate, (*lead, *map(indexed, expr.index_tuple)))
            case p.Variable(name=name) if name in names:
                return p.Subscript(expr, tuple(lead))
            case _:
                return map_children(expr, indexed)
    return kernel.copy(
        statements=tuple(with_expressions(s, indexed) for s in kernel.statements),
        temporaries={t.name: replace(t, shape=None if t.shape is None else (*extents, *t.shape))
                     if t.name in names else t for t in kernel.temporaries.values()},
        carried=unchanged_from(kernel))

# }}}


# {{{ fewer cells

def _axes_of(kernel: LoopKernel, temporary: str, inames: Sequence[str]) -> frozenset[int]:
    """The axis of *temporary* that each of *inames* subscripts, alone but for a constant, in every access."""
    accesses = accesses_by_array(kernel).get(temporary, ())
    for a in accesses:
        if not a.affine:
            raise UndecidedError(
                f"Whether '{temporary}' can be contracted over {', '.join(inames)} cannot be decided.",
                why_inexact(kernel, a) or "",
                hint="contract temporaries with affine subscripts")
    axes: list[int] = []
    for x in inames:
        found = next((k for k in range(len(accesses[0].subscripts) if accesses else 0) if k not in axes
                      and all(_is_offset(kernel, a.subscripts[k], x) for a in accesses)), None)
        if found is None:
            raise PreconditionError(
                f"'{temporary}' has no axis that '{x}', plus a constant, subscripts in every access.", subject=x,
                hint="contract over an iname that each statement using the temporary subscripts it with")
        axes.append(found)
    return frozenset(axes)


def _is_offset(kernel: LoopKernel, subscript: Expression, iname: str) -> bool:
    """Is *subscript* the iname and something that no iname is part of?"""
    try:
        rest = subtract(subscript, p.Variable(iname))
        return iname in names_in(subscript) and names_in(rest).isdisjoint(kernel.inames)
    except NotAffineError:
        return False


def _require_one_value_a_cell(before: LoopKernel, after: LoopKernel, temporary: str, step: str) -> None:
    """:raises IllegalTransformError: a value is overwritten, in the order of *after*, before it was read."""
    flows = [d for d in dependences(after) if d.array == temporary and d.kind == "flow"]
    accesses = accesses_by_array(after).get(temporary, ())
    apart = _apart(after, accesses, flows)
    found = list(misreads(after, accesses, flows, lambda a: _timed(after, a, apart)))
    lost = next((m for m in found if m.is_lost), None)
    if lost is None and not found:
        return
    wrong = lost or found[0]
    writer, reader = (after.statement_by_id[s] for s in (wrong.source, wrong.sink))
    params, at_write, at_read = smallest_pair(wrong.pairs, writer.inames, reader.inames)
    overwrites = _overwriter(after, found, reader, params, at_read)
    between = f"{instance_text(*overwrites)} overwrites" if overwrites else "another thread may overwrite"
    read = next(a for a in accesses_by_array(before)[temporary] if a.statement == writer.id and a.is_write)
    element = element_at(read.subscript_relation, params, tuple(at_write.values()))
    raise IllegalTransformError(
        f"{step} would put two values that are alive at once into one cell: what {instance_text(writer.id, at_write)} "
        f"writes, {between} before {instance_text(reader.id, at_read)} reads it.",
        Witness(params, (writer.id, at_write), (reader.id, at_read), temporary, element, "flow"),
        ["contract over inames whose loops hold both the writer and the reader, or fuse those loops first"],
        before=before, after=after)


def _overwriter(knl: LoopKernel, found: Sequence[Misread], reader: Statement, params: dict[str, int],
                at_read: dict[str, int]) -> tuple[str, dict[str, int]] | None:
    """The instance whose value that instance of *reader* finds instead of its own."""
    for wrong in found:
        if not wrong.is_lost and wrong.sink == reader.id:
            here = at_sink(wrong.pairs, params, tuple(at_read.values()))
            if not here.is_empty():
                _, at_write, _ = smallest_pair(here, knl.statement_by_id[wrong.source].inames, reader.inames)
                return wrong.source, at_write
    return None


def _apart(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence]) -> tuple[str, ...]:
    """The parallel inames whose instances have copies of their own: no value goes from one to another."""
    shared = [x for x in knl.inames if is_parallel(knl.tags.get(x)) and all(x in a.domain.inames for a in accesses)]

    def crosses(x: str, d: Dependence) -> bool:
        a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
        return differing(d.relation, [(a.index(x), b.index(x))]) is not None
    return tuple(x for x in shared if not any(crosses(x, d) for d in flows))


def _timed(knl: LoopKernel, a: Access, apart: Sequence[str]) -> TimedAccess:
    """The access to the cells of all copies, in the order that runs."""
    inames = a.domain.inames
    copies = restrict(cells(inames, [p.Variable(x) for x in apart]), a.domain)
    steps = [("at", step.position) if step.iname is None else ("loop", inames.index(step.iname))
             for step in execution_paths(knl)[a.statement]]
    return TimedAccess(a.relation.flat_range_product(copies), a.is_write, certain_write(a),
                       (*steps, ("at", 1 if a.is_write else 0)))

# }}}
