"""Atomic accesses without an operation: stores, and updates by any other expression, such as compare-and-swap.

Instances of such a statement run in any order. The result does not depend on the order if all instances that store into
one element store equal values. This is a question about the expression: numbers and sizes are equal in all instances,
inames and affine expressions are compared by isl, and an element of an array that the kernel does not write is equal if
its subscripts are. Otherwise it is a claim of the user that any of the values may remain.
"""
from __future__ import annotations

from collections.abc import Iterable

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_of, expanded_expression, why_inexact
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.mappers import children, subexpressions, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Obligation, Statement
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import other_instance, same_element
from loopkit.poly.sets import Map


def claims_of_stores(knl: LoopKernel, statements: Iterable[Statement], step: str, assume: str | None = None, *,
                     unsafe: bool = False) -> tuple[Obligation, ...]:
    """The claims under which the atomic stores among *statements* may run in any order.

    :arg assume: the reason why any of the stored values may remain; *unsafe*: no reason is needed.
    :raises PreconditionError: an atomic update of a temporary has no operation.
    :raises UndecidedError: the values of a store may differ, and the caller makes no claim.
    """
    found = list[Obligation]()
    for s in statements:
        if not s.commutes or s.combine is not None:
            continue
        reads_itself = s.assignee in subexpressions(expanded_expression(knl, s))
        if reads_itself and s.written in knl.temporaries:
            raise PreconditionError(
                f"The atomic update '{s.id}' of the temporary '{s.written}' has no operation.", subject=s.id,
                hint="combine the old value by +, *, min, max, and, or, &, |, ^ or a reduction operation")
        pairs = _unequal(knl, s, reads_itself)
        if pairs is None:
            continue
        if assume is None and not unsafe:
            raise _undecided(knl, s, step, pairs, reads_itself)
        found.append(Obligation(step, _claim(s, reads_itself), assume))
    return tuple(found)


def is_claimed(knl: LoopKernel, s: Statement) -> bool:
    """Did the caller claim that the atomic stores of *s* may run in any order?"""
    return s.commutes and any(o.claim in (_claim(s, True), _claim(s, False)) for o in knl.obligations)


def _claim(s: Statement, reads_itself: bool) -> str:
    return f"the atomic {_access_noun(reads_itself)} of '{s.id}' to '{s.written}' may run in any order"


def _access_noun(reads_itself: bool) -> str:
    return "updates" if reads_itself else "stores"


def _unequal(knl: LoopKernel, s: Statement, reads_itself: bool) -> Map | None:
    """Pairs of instances that may store different values in one element; ``None``: there are none."""
    write = _write_of(knl, s)
    pairs = other_instance(same_element(write.relation, write.relation))
    equal = pairs.is_empty() or (not reads_itself and _is_equal(knl, expanded_expression(knl, s), s.inames, pairs))
    return None if equal else pairs


def _write_of(knl: LoopKernel, s: Statement) -> Access:
    return next(a for a in accesses_of(knl, s) if a.is_write)


def _is_equal(knl: LoopKernel, expr: Expression, inames: tuple[str, ...], pairs: Map) -> bool:
    """Has *expr* equal values in the two instances of each of *pairs*?"""
    names = variables(expr)
    if names.isdisjoint(inames) and names <= knl.value_params:
        return True
    if names <= {*inames, *knl.value_params} and is_quasi_affine(expr, inames, knl.value_params):
        return pairs.is_subset(equal_coordinates(inames, (expr,), inames, (expr,)))
    if isinstance(expr, p.Variable):
        return expr.name in knl.argument_by_name and expr.name not in knl.written_names
    return bool(children(expr)) and all(_is_equal(knl, part, inames, pairs) for part in children(expr))


def _undecided(knl: LoopKernel, s: Statement, step: str, pairs: Map, reads_itself: bool) -> UndecidedError:
    doubt = why_inexact(knl, _write_of(knl, s))
    reason = f"two instances may access one element, because {doubt}" if doubt is not None else \
        str(BrokenPairs.on_one_element(knl, s.written, "output", s.id, s.id, pairs).witness())
    if not reads_itself and s.written in knl.temporaries and isinstance(s.expression, p.Subscript):
        read = to_text(s.expression)
        return UndecidedError(
            f"{step}: the atomic stores of '{s.id}' to '{s.written}' may leave any of their values.", reason,
            hint=f"a read needs no option; an update keeps the old value by {to_text(s.assignee)}, {read} = {read}, "
                 f"{read} + 1 {{atomic}}")
    first = "" if step.startswith("make_atomic") else "write the statement without {atomic}, and "
    what = _access_noun(reads_itself)
    return UndecidedError(
        f"{step}: the order of the atomic {what} of '{s.id}' may decide which value '{s.written}' keeps.", reason,
        hint=f"{first}state why each of the values will do: make_atomic(knl, '{s.id}', assume=\"...\")")
