"""What the runtime asks of the floors below, gathered in one place."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes, output_shape_like
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.generate import generate_code

__all__ = [
    "array_shapes",
    "generate",
    "infer_types",
    "needed_inputs",
    "output_shape_like",
    "unknown_dtypes",
    "with_dtypes",
]


def with_dtypes(knl: LoopKernel, dtypes: Mapping[str, np.dtype[Any]]) -> LoopKernel:
    """*knl* with the dtypes of the arguments in *dtypes* set."""
    return knl.copy(arguments=tuple(replace(a, dtype=dtypes[a.name]) if a.name in dtypes else a
                                    for a in knl.arguments))


def generate(knl: LoopKernel, target: str, layout: Layout) -> GeneratedCode:
    """The text of *knl*, all of whose dtypes are known."""
    return generate_code(knl, target=target, layout=layout)
