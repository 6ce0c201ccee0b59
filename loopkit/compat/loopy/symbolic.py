"""loopy's expressions: nodes of pymbolic and of loopkit, texts as expressions, and the names in them."""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pymbolic.mapper import CombineMapper, IdentityMapper, WalkMapper
from pymbolic.primitives import Variable
from pymbolic.typing import Expression

from loopkit.compat.loopy.spelling import counted_calls
from loopkit.compat.loopy.types import as_numpy
from loopkit.expr import nodes
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import DTYPE_NAMES
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.language.names import name_list

__all__ = ["CombineMapper", "IdentityMapper", "Reduction", "TypeCast", "WalkMapper", "get_dependencies", "parse"]

def parse(expr_str: str) -> Expression:
    """*expr_str* as an expression, whose functions may be any.

    >>> print(parse("2*x[i] + f(1, i)"))
    2*x[i] + f(1, i)
    """
    unknown = {name: count for name, count in counted_calls(expr_str).items()
               if name not in FUNCTIONS and name not in DTYPE_NAMES and name not in BUILT_IN}
    inames = {name for found in _REDUCTION.finditer(expr_str) for name in found["inames"].split(",")}
    return parse_expression(expr_str, "an expression", KnownNames({x.strip() for x in inames}, unknown))

#: The inames of a reduction.
_REDUCTION = re.compile(r"\b(?:(?:sum|product|any|all|argmin|argmax)\(|reduce\(\s*\w+\s*,)\s*\[?"
                        r"(?P<inames>\w+(?:\s*,\s*\w+(?=[^\[]*\]))*)")

def get_dependencies(expr: Any) -> frozenset[str]:
    """The names in *expr*, or in each of several expressions."""
    several = expr if isinstance(expr, Iterable) and not hasattr(expr, "mapper_method") else [expr]
    return frozenset(x for e in several for x in variables(e))

class _OfNodes(type):
    """A class whose instances are nodes of loopkit."""

    node: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

class Reduction(metaclass=_OfNodes):
    """``sum([i, j], expr)``: *operation* over *inames* of *expr*; a node of loopkit."""

    node = nodes.Reduction

    def __new__(cls, operation: Any, inames: Any, expr: Expression,                             # type: ignore[misc]
                allow_simultaneous: bool = False) -> nodes.Reduction:
        names = [x.name if isinstance(x, Variable) else x
                 for x in (name_list(inames) if isinstance(inames, str) else inames)]
        return nodes.Reduction(str(operation), tuple(names), expr)

class TypeCast(metaclass=_OfNodes):
    """*child* converted to a dtype; a node of loopkit."""

    node = nodes.TypeCast

    def __new__(cls, typename: Any, child: Expression) -> nodes.TypeCast:                       # type: ignore[misc]
        return nodes.TypeCast(as_numpy(typename).name, child)
