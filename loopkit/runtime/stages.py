"""What the runtime asks of the floors below, gathered in one place."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes, output_shape_like
from loopkit.expr.mappers import variables
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.poly.sets import InstanceSet
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.cuda import CudaTarget
from loopkit.target.generate import generate_code
from loopkit.target.host import CTarget

__all__ = [
    "array_shapes",
    "generate",
    "infer_types",
    "needed_inputs",
    "output_shape_like",
    "structural_values",
    "unknown_dtypes",
    "with_dtypes",
]


def with_dtypes(knl: LoopKernel, dtypes: Mapping[str, np.dtype[Any]]) -> LoopKernel:
    """*knl* with the dtypes of the arguments in *dtypes* set."""
    return knl.copy(arguments=tuple(replace(a, dtype=dtypes[a.name]) if a.name in dtypes else a
                                    for a in knl.arguments))


def structural_values(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that shapes, launches and the choice of a text may depend on."""
    found = set(InstanceSet((), knl.assumptions).params)
    for s in knl.statements:
        found.update(s.domain.params)
    for shape in array_shapes(knl).values():
        found.update(name for extent in shape if extent is not None for name in variables(extent))
    # a size that nobody declared is as wide as the text's indices
    found.update(a.name for a in knl.arguments if a.dtype is None)
    return frozenset(a.name for a in knl.arguments
                     if isinstance(a, ValueArg) and a.name in found.difference(unknown_dtypes(knl)))


def generate(knl: LoopKernel, target: CudaTarget | CTarget, layout: Layout) -> GeneratedCode:
    """The text of *knl*, all of whose dtypes are known."""
    return generate_code(knl, target=target, layout=layout)
