"""Subscripts in which literals come to stand for sizes: what is read beside them is an index still."""
from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.expr.dtypes import INT32, INT64, WEAK_INT, Type, type_of, weak
from loopkit.expr.indices import widened
from loopkit.expr.mappers import map_children, substitute, variables
from loopkit.kernel.kernel import LoopKernel


def with_whole_indices(kernel: LoopKernel, expr: Expression, values: Mapping[str, Expression]) -> Expression:
    """*expr* with casts in the subscripts of which *values* for sizes would change the dtype.

    Elements and literals alone are computed in the dtype of the elements: ``s[i]*m`` is any index, ``s[i]*4`` wraps.
    """
    def lookup(name: str) -> Type:
        found = kernel.array_args.get(name) or kernel.temporaries.get(name)
        if found is not None:
            return found.dtype or INT32
        argument = kernel.argument_by_name.get(name)
        return WEAK_INT if argument is None or argument.dtype is None else weak(argument.dtype)

    def typed(e: Expression) -> Type:
        return type_of(e, lookup) or INT32

    def cast(e: Expression) -> Expression:
        return p.Subscript(e.aggregate, tuple(map(index, e.index_tuple))) if isinstance(e, p.Subscript) \
            else map_children(e, cast)

    def index(e: Expression) -> Expression:
        whole = cast(expand_rules(e, kernel.substitutions))
        if values.keys().isdisjoint(variables(whole)):
            return cast(e)
        wide = widened(whole, typed, INT64)
        return cast(e) if substitute(wide, values) == widened(substitute(whole, values), typed, INT64) else wide
    return cast(expr)
