"""What is known about the parameters, from text."""
from __future__ import annotations

import re
from collections.abc import Collection

from loopkit.errors import PreconditionError
from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import unknown
from loopkit.language.domain_check import KEYWORDS, find_condition_fault
from loopkit.poly.sets import Set, parse_assumptions

_NAME = re.compile(r"\d+|([A-Za-z_]\w*)", re.ASCII)


def read_assumptions(text: str, values: Collection[str]) -> Set:
    """``"n>=1 and m>=1"`` as a parameter set.

    :arg values: the names of the value arguments.
    :raises ParseError: *text* is no condition.
    :raises UnknownNameError: it names something else.
    :raises PreconditionError: it contradicts itself.
    """
    names = [match for match in _NAME.findall(text) if match and match not in KEYWORDS]
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
