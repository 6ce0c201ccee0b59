"""A kernel whose calls of the user's functions run their Python references in place of their texts."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import declared, expand_rules
from loopkit.analysis.constructors import rewritten
from loopkit.expr.dtypes import resolve, type_of
from loopkit.expr.functions import FunctionName, function_of
from loopkit.expr.mappers import map_children, subexpressions
from loopkit.kernel.c_instruction import OpaqueValue
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import with_expressions


def with_references(knl: LoopKernel) -> tuple[LoopKernel, tuple[str, ...]]:
    """*knl* with the references of functions that have a text, too, and the names of these functions.

    The kernel has all of its dtypes. Code of the host calls references with real operands only: functions of complex
    numbers keep their texts.
    """
    calls = list(_own_calls(knl))
    chosen = [f.name for f in knl.functions.values() if f.reference is not None and f.text
              and not isinstance(f, OpaqueValue) and (own := [e for e in calls if function_of(e) == f])
              and all(_is_real(knl, e) for e in own)]

    def called(e: Expression) -> Expression:
        if isinstance(e, p.Call) and isinstance(e.function, FunctionName) and e.function.name in chosen:
            function = replace(e.function.function, text={}, preamble={})
            return p.Call(FunctionName(function.name, function), tuple(map(called, e.parameters)))
        return map_children(e, called)
    if not chosen:
        return knl, ()
    return rewritten(knl, statements=tuple(
        with_expressions(s, lambda e: called(expand_rules(e, knl.substitutions))) for s in knl.statements)
    ), tuple(chosen)


def _own_calls(knl: LoopKernel) -> Iterator[p.Call]:
    for s in knl.statements:
        for e in (s.assignee, s.expression, *s.predicates):
            for part in subexpressions(expand_rules(e, knl.substitutions)):
                if isinstance(part, p.Call) and isinstance(part.function, FunctionName):
                    yield part


def _is_real(knl: LoopKernel, call: p.Call) -> bool:
    found = [type_of(e, partial(declared, knl)) for e in (call, *call.parameters)]
    return all(dtype is not None and resolve(dtype).kind in "biuf" for dtype in found)
