"""Tensor maps in CUDA: the driver's numbers for their properties, and the C++ by which a host makes them."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from pymbolic.typing import Expression

from loopkit.target.code import MapParameter
from loopkit.target.cuda.dialect import CUDA
from loopkit.target.memory import MAP_TYPE, Flat

#: The types of elements as ``CUtensorMapDataType`` numbers them from 0. Reductions by TMA compute in the type.
DATA_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16")

#: The first compute capability with TMA.
CAPABILITY = 90

#: ``CU_TENSOR_MAP_L2_PROMOTION_L2_256B``: a load brings 256 bytes into the L2 cache.
PROMOTION = 3


def data_type(dtype: np.dtype) -> str:
    """The one of :data:`DATA_TYPES` for elements of *dtype*: an integer of as many bits, if there is no better one."""
    return dtype.name if dtype.name in DATA_TYPES else f"uint{8*dtype.itemsize}"


def encoding_lines(parameter: MapParameter, memory: Flat, names: Sequence[str], text: Callable[[Expression], str]
                   ) -> Iterator[str]:
    """The C++ that makes the tensor map of an array in *memory*; the driver counts axes from the last.

    :arg names: variables for the extents, the strides in bytes, the box, and its steps.
    :arg text: prints an expression in the sizes.
    """
    m, name, element = parameter.tensor_map, parameter.name, CUDA.type_name(parameter.dtype)
    extents, strides, box, steps = names
    shape = [e for e in memory.shape if e is not None]
    assert len(shape) == len(m.box)
    factors = [[memory.strides[axis]] if memory.strides else shape[axis + 1:] for axis in range(len(shape) - 1)]
    pitches = ["*".join([f"sizeof({element})", *map(_factor, map(text, own))]) for own in factors]
    k, counts, first, lengths, apart = m.open_axis, [*map(text, shape)], m.array, [*m.traversed], [*m.all_steps]
    if k is not None:
        first = f"{m.array} - {'*'.join([str(lengths[k]), *map(_factor, map(text, factors[k]))])}"
        counts = m.axes(counts, f"{counts[k]} + 1", str(lengths[k]))
        pitches = m.axes(pitches, pitches[k], pitches[k])
        lengths, apart = m.axes(lengths, 1, lengths[k]), m.axes(apart, 1, apart[k])
    kind = "NONE" if not m.swizzle else f"{m.swizzle}B"
    yield f"{MAP_TYPE} {name};  // boxes of {m.array}"
    yield f"const cuuint64_t {extents}[] = {{{', '.join(f'cuuint64_t({e})' for e in reversed(counts))}}};"
    # a vector has no stride that the driver reads, and C++ has no empty arrays
    yield f"const cuuint64_t {strides}[] = {{{', '.join(reversed(pitches)) or '0'}}};{'  // bytes' if pitches else ''}"
    yield f"const cuuint32_t {box}[] = {{{', '.join(map(str, reversed(lengths)))}}};"
    yield f"const cuuint32_t {steps}[] = {{{', '.join(map(str, reversed(apart)))}}};"
    yield (f"if (cuTensorMapEncodeTiled(&{name}, CU_TENSOR_MAP_DATA_TYPE_{data_type(parameter.dtype).upper()}, "
           f"{len(counts)}, const_cast<{element} *>({first}), {extents}, {strides}, {box}, {steps}, "
           f"CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{kind}, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, "
           "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)")
    yield f"    std::abort();  // the address or the strides of {m.array} do not fit"


def _factor(text: str) -> str:
    """*text* as a factor of a product."""
    return text if text.isidentifier() or text.isdecimal() else f"({text})"
