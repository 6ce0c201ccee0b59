"""Assumptions about the parameters, from text."""
from __future__ import annotations

import re
from collections.abc import Collection

from loopkit.errors import PreconditionError
from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import unknown
from loopkit.language.domain_check import find_condition_fault, free_names
from loopkit.poly.domains import AnySet
from loopkit.poly.sets import Set, parse_assumptions, universe_params

_PARAMETERS = re.compile(r"\s*(?:\[[^\]]*\]\s*->\s*)?\{\s*(?:\[\s*\])?\s*:?(?P<condition>[^{}]*)\}\s*", re.DOTALL)


def read_assumptions(given: str | AnySet, values: Collection[str]) -> Set:
    """The parameter set of an assumption: ``"n>=1 and m>=1"`` or a set in isl's notation.

    :arg values: the names of the value arguments.
    :raises ParseError: *text* is not a condition.
    :raises UnknownNameError: it names something other than a value argument.
    :raises PreconditionError: it is a contradiction.
    """
    text = str(given)                                      # sets print in isl's notation
    if (whole := _PARAMETERS.fullmatch(text)) is not None:
        text = whole["condition"]
    if not text.strip():
        return universe_params()
    names = sorted(free_names(text))
    try:
        result = parse_assumptions(text, names)
    except ValueError:
        raise find_condition_fault(Source(text, "the assumptions")) from None
    for parameter in names:
        if parameter not in values:
            raise unknown("parameter", parameter, values)
    if result.is_empty():
        raise PreconditionError("The assumptions contradict each other.", subject=text)
    return result
