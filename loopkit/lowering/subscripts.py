"""Subscripts of which an iname becomes a literal: what is read beside it is an index still."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.dependences import unchanged_from
from loopkit.analysis.subscripts import with_whole_indices
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_unrolled


def with_lasting_indices(knl: LoopKernel) -> LoopKernel:
    """*knl* with casts in subscripts beside inames that no loop of the text has: those of one value, or written out."""
    dtypes = [*(a.dtype for a in knl.array_args.values()), *(t.dtype for t in knl.temporaries.values())]
    if not any(map(_is_narrow, dtypes)):
        return knl

    def lasting(s: Statement) -> Statement:
        values = _literals(knl, s)
        if not values:
            return s
        assignee = with_whole_indices(knl, s.assignee, values)
        assert isinstance(assignee, p.Variable | p.Subscript)
        return replace(s, assignee=assignee, expression=with_whole_indices(knl, s.expression, values),
                       predicates=tuple(with_whole_indices(knl, e, values) for e in s.predicates))
    statements = tuple(map(lasting, knl.statements))
    return knl if statements == knl.statements else knl.copy(statements=statements, carried=unchanged_from(knl))


def _literals(knl: LoopKernel, s: Statement) -> dict[str, Expression]:
    domain = s.domain.intersect_params(knl.assumptions)
    found: dict[str, Expression] = {}
    for x in s.inames:
        low, high = domain.constant_range(x)
        if low is not None and (low == high or (knl.options.textual_unroll and is_unrolled(knl.tags.get(x)))):
            found[x] = low
    return found


def _is_narrow(dtype: np.dtype | None) -> bool:
    """Are there values of an index that it does not have? Of those of 32 bits there are few, in large arrays."""
    return dtype is not None and dtype.kind in "iu" and (dtype.itemsize < 4 or dtype == np.dtype(np.uint32))
