"""Arguments whose values a kernel constrains: index arrays, and divisors of integers."""
from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p

from loopkit.analysis.accesses import (
    accesses_by_array,
    accesses_of,
    data_params,
    expand_rules,
    expanded_expression,
    reached,
)
from loopkit.expr.mappers import subexpressions, variables
from loopkit.kernel.kernel import LoopKernel


def index_names(knl: LoopKernel) -> frozenset[str]:
    """The arrays whose values decide the elements or the number of other accesses (index arrays)."""
    found = {name for accesses in accesses_by_array(knl).values() for a in accesses for s in a.subscripts
             for name in variables(s) & knl.data.keys()}
    found.update(name for s in knl.statements for name in data_params(knl, s.domain))
    sources = names_read(knl)
    through = reached(found, lambda name: sources.get(name, ()) if name in knl.temporaries else ())
    return frozenset(through & knl.array_args.keys())


def divisors(knl: LoopKernel) -> frozenset[str]:
    """The arguments from which a divisor of integers is computed: a call with zeros there has no meaning."""
    names: set[str] = set()
    sources: dict[str, set[str]] = {}
    for s in knl.statements:
        parts = (expanded_expression(knl, s), s.assignee, *(expand_rules(e, knl.substitutions) for e in s.predicates))
        divisions = (e for part in parts for e in subexpressions(part) if isinstance(e, p.FloorDiv | p.Remainder))
        names.update(name for e in divisions for name in variables(e.denominator))
        sources.setdefault(s.written, set()).update(variables(parts[0]))
    behind = reached(names, lambda name: sources.get(name, ()) if name in knl.temporaries else ())
    return frozenset(behind & knl.argument_by_name.keys())


def names_read(knl: LoopKernel) -> Mapping[str, set[str]]:
    """For each written name, the names that its statements read."""
    found: dict[str, set[str]] = {}
    for statement in knl.statements:
        reads = {a.array for a in accesses_of(knl, statement) if not a.is_write}
        if statement.id in knl.reduction_of:
            reads.discard(statement.written)          # the accumulation of a reduction counts as the reduction
        found.setdefault(statement.written, set()).update(reads)
    return found
