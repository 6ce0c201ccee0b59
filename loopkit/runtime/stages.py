"""The functions of lower layers that the runtime uses, gathered in one module."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes, fully_written_outputs, output_shape_like
from loopkit.ast.value_ranges import largest_address, largest_magnitude
from loopkit.expr.mappers import subexpressions, variables
from loopkit.kernel.data import AddressSpace, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Machine
from loopkit.lowering.pipeline import lowered_once
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.lowering.vectors import vector_inames
from loopkit.poly.sets import InstanceSet
from loopkit.transform.data import with_dtypes
from loopkit.verification.checks import generate_code

__all__ = ["LIMIT_32", "array_shapes", "closed", "fully_written_outputs", "generate_code", "infer_types",
           "largest_literal", "needed_inputs", "output_shape_like", "requires_64", "size_values", "structural_values",
           "unknown_dtypes", "with_dtypes"]

#: The least number that needs 64-bit indices.
LIMIT_32 = 2**31


def closed(knl: LoopKernel, chosen: Callable[[str], np.dtype[Any] | None]) -> LoopKernel:
    """*knl* with the open dtypes that are *chosen*, first those of its inputs: they may determine an output's."""
    reads, writes = needed_inputs(knl), knl.written_names
    for only_inputs in (True, False):
        names = [x for x in unknown_dtypes(knl) if not only_inputs or x in reads or x not in writes]
        knl = with_dtypes(knl, {x: dtype for x in names if (dtype := chosen(x)) is not None})
    return knl


def structural_values(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that shapes, launches and the choice of a text may depend on."""
    extents = {extent for shape in array_shapes(knl).values() for extent in shape if extent is not None}
    found = {*InstanceSet((), knl.assumptions).params, *(x for s in knl.statements for x in s.domain.params),
             *(x for extent in extents for x in variables(extent))}
    if vector_inames(knl):
        found |= knl.value_params           # the first element of a vector may depend on any
    # a size without a declared dtype is as wide as the text's indices
    found.update(a.name for a in knl.arguments if a.dtype is None)
    return frozenset(a.name for a in knl.arguments
                     if isinstance(a, ValueArg) and a.name in found.difference(unknown_dtypes(knl)))


def size_values(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that are sizes, or that subscripts and comparisons use like sizes: signed integers."""
    like_sizes = (variables(node) for e in _expressions(knl) for node in subexpressions(e)
                  if isinstance(node, p.Subscript | p.Comparison))
    return knl.value_params & structural_values(knl).union(*like_sizes)


def requires_64(knl: LoopKernel, machine: Machine, values: Mapping[str, Any]) -> bool:
    """May an integer of the text need more than 32 bits: for a loop, a guard, a grid or a temporary's address?"""
    sizes = {x: int(value) for x, value in values.items() if isinstance(value, int | np.integer)}
    lowered, beyond = lowered_once(knl, machine), largest_literal(knl) + 1
    return largest_magnitude(lowered.program, sizes) >= LIMIT_32 or any(
        largest_address(s.shape, beyond, sizes) >= LIMIT_32
        for s in lowered.storages.values() if s.space is AddressSpace.GLOBAL)


def largest_literal(knl: LoopKernel) -> int:
    """The largest integer in a subscript: a text may overshoot an axis by this many steps."""
    expressions = [*_expressions(knl), *(rule.expr for rule in knl.substitutions.values())]
    return max((abs(n) for e in expressions for node in subexpressions(e) if isinstance(node, p.Subscript)
                for index in node.index_tuple for n in subexpressions(index) if isinstance(n, int)), default=0)


def _expressions(knl: LoopKernel) -> list[Expression]:
    return [e for s in knl.statements for e in (s.assignee, s.expression, *s.predicates)]
