"""Strides: how far apart the elements lie that neighbouring iterations load."""
from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import add, affine_difference


def fastest_last(knl: LoopKernel, loaded: Expression, inames: Sequence[str]) -> tuple[str, ...]:
    """*inames* with the one of the smallest stride in global memory last, over the subscripts that *loaded* reads.

    The order stays if *loaded* has no such subscript, or if subscripts disagree. Strides of several elements count
    too: vectors have them.
    """
    arrays = {p.Variable(name) for name in knl.array_args}
    rows = {e.index_tuple[-1] for e in subexpressions(expand_rules(loaded, knl.substitutions))
            if isinstance(e, p.Subscript) and e.aggregate in arrays}
    found = {_fastest(subscript, inames) for subscript in rows} - {None}
    return tuple(sorted(inames, key=found.__contains__)) if len(found) == 1 else tuple(inames)


def _fastest(subscript: Expression, inames: Sequence[str]) -> str | None:
    """The one of *inames* with the smallest stride in *subscript*, if one has a stride."""
    steps = {x: affine_difference(substitute(subscript, {x: add(p.Variable(x), 1)}), subscript)
             for x in inames if x in variables(subscript)}
    lengths = {x: abs(step) for x, step in steps.items() if step}
    return min(lengths, key=lengths.__getitem__, default=None)
