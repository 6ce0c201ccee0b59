"""loopy's expressions: nodes of pymbolic and of loopkit, texts as expressions, and the names in them."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymbolic.mapper import CombineMapper, IdentityMapper, WalkMapper
from pymbolic.primitives import Variable
from pymbolic.typing import Expression

from loopkit.compat.loopy.types import as_numpy
from loopkit.errors import TypeInferenceError
from loopkit.expr import nodes
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import parse_expression
from loopkit.language.names import name_list

__all__ = ["CombineMapper", "IdentityMapper", "Reduction", "TypeCast", "WalkMapper", "get_dependencies", "parse"]

def parse(expr_str: str) -> Expression:
    """*expr_str* as an expression.

    >>> print(parse("2*x[i] + 1"))
    2*x[i] + 1
    """
    return parse_expression(expr_str, what="an expression")

def get_dependencies(expr: Any) -> frozenset[str]:
    """The names in *expr*, or in each of several expressions."""
    several = expr if isinstance(expr, Iterable) and not hasattr(expr, "mapper_method") else [expr]
    return frozenset(x for e in several for x in variables(e))

def Reduction(operation: Any, inames: Any, expr: Expression, allow_simultaneous: bool = False  # noqa: N802
              ) -> nodes.Reduction:
    """``sum([i, j], expr)``: *operation* over *inames* of *expr*; one iname may stand alone."""
    listed = [inames] if isinstance(inames, Variable) else name_list(inames) if isinstance(inames, str) else inames
    names = [x.name if isinstance(x, Variable) else x for x in listed]
    return nodes.Reduction(str(operation), tuple(names), expr)

def TypeCast(typename: Any, child: Expression) -> nodes.TypeCast:  # noqa: N802
    """*child* converted to a dtype; :raises TypeInferenceError: a number has no such dtype."""
    dtype = as_numpy(typename)
    if dtype.kind not in "biufc":
        raise TypeInferenceError(f"A number cannot be converted to the dtype {dtype}.", subject=str(dtype),
                                 hint="cast each field of a structured value")
    return nodes.TypeCast(dtype.name, child)
