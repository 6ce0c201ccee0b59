"""Schedules given by the user: a vector of affine forms for each statement."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.parsing import ExpressionParser, parse_expression
from loopkit.expr.tokens import Source, tokenize
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.poly.affine import NotAffineError, add, names_in, to_aff
from loopkit.transform.match import owner

#: The times of a statement's instances: constants, and affine forms of its inames and of value arguments.
Vector = tuple[Expression, ...]

Given = Mapping[str, str | Sequence[str | int]]


def read_schedules(kernel: LoopKernel, given: Given) -> dict[str, Vector]:
    """The schedule of each statement that *given* names.

    :raises ParseError: a text is no list of expressions.
    :raises UnknownNameError: a pattern matches no statement, or a form has a name that its statement lacks.
    :raises PreconditionError: a statement is named twice, or a form is not affine.
    """
    if not given:
        raise PreconditionError("apply_schedule needs the schedule of at least one statement.", subject="schedules",
                                hint='for example {"S1": "[t, 0, i]", "S2": "[t, 1, i]"}')
    result: dict[str, Vector] = {}
    named: dict[str, str] = {}
    for pattern, entry in given.items():
        vector = tuple(_entries(pattern, entry))
        for s in _matching(kernel, pattern):
            if s in result:
                raise PreconditionError(f"'{s}' has two schedules, of '{named[s]}' and of '{pattern}'.", subject=s,
                                        hint="let each statement be named by one pattern")
            result[s] = tuple(_affine(kernel, s, form) for form in vector)
            named[s] = pattern
    return result


def _matching(kernel: LoopKernel, pattern: str) -> list[str]:
    """The statements that *pattern* names; parts of reductions only where it has a dot."""
    if pattern in kernel.statement_by_id:
        return [pattern]
    found = [s for s in kernel.statement_by_id if fnmatchcase(s, pattern) and (owner(s) == s or "." in pattern)]
    if not found:
        raise unknown("statement", pattern, kernel.statement_by_id)
    return found


def _entries(pattern: str, entry: str | Sequence[str | int]) -> Iterator[Expression]:
    what = f"the schedule of '{pattern}'"
    if isinstance(entry, str):
        yield from _read(entry, what)
        return
    for item in entry:
        yield parse_expression(item, what=what) if isinstance(item, str) else int(item)


def _read(text: str, what: str) -> Iterator[Expression]:
    parser = ExpressionParser(tokenize(Source(text, what)))
    parser.take("[", "'[', as in \"[t, 0, i]\"")
    if not parser.accept("]"):
        yield parser.expression()
        while parser.accept(","):
            yield parser.expression()
        parser.take("]", "',', ']' or an operator")
    parser.end()


def _affine(kernel: LoopKernel, statement: str, form: Expression) -> Expression:
    """*form* with like terms collected: an ``int`` where it is constant."""
    inames = kernel.statement_by_id[statement].inames
    try:
        for name in sorted(names_in(form)):
            if name not in inames and name not in kernel.value_params:
                raise unknown("iname", name, inames, where=f"statement '{statement}'")
        to_aff(form, inames)
    except NotAffineError:
        raise PreconditionError(f"'{form}' in the schedule of '{statement}' is no affine form of its inames.",
                                subject=statement,
                                hint="sums, multiples, // and % by numbers of inames and sizes are") from None
    return add(form)
