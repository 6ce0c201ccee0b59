"""add_padding: unused cells between the rows of a temporary, against bank conflicts in shared memory."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from loopkit.analysis.constructors import annotated
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, StorageError
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.transform.step import require_positive, transform


@transform
def add_padding(kernel: LoopKernel, variable: str, axis: int, align_bytes: int | None = None, *,
                by: int | None = None) -> LoopKernel:
    """Make the stride of *axis* of a temporary longer: add unused cells to the axis behind it.

    This step changes no value flow, so no proof is needed.

    :arg variable: a temporary with a constant shape.
    :arg axis: the number of an axis, not of the one that is fastest in memory (the last, unless :func:`tag_array_axes`
        set another); negative numbers count from behind.
    :arg align_bytes: round the stride up to a multiple of this many bytes.
    :arg by: add this many cells instead. One cell puts the elements of a column of a tile into different banks.
    :raises UnknownNameError: there is no such temporary.
    :raises PreconditionError: there is no such axis, or none behind it; the shape is not constant; both or neither of
        *align_bytes* and *by* are given; *align_bytes* is no multiple of the bytes in one step of the axis behind, or
        the temporary's dtype is unknown.
    :raises StorageError: the temporary's shape and address space were declared, so they cannot change.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<32}", "b[j, i] = a[i, j]", name="transpose")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), {"i": "l.0", "j": "l.1"})
    >>> knl = lk.add_prefetch(knl, "a", ["i", "j"])
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 a_fetch[32][32]
    >>> print(lk.lower(lk.add_padding(knl, "a_fetch", 0, by=1), stop="storage"))
    shared float32 a_fetch[32][33]
    """
    if variable not in kernel.temporaries:
        raise unknown("temporary", variable, kernel.temporaries)
    temporary = kernel.temporaries[variable]
    shape = constant_shape(kernel, temporary, "padded")
    behind = _behind(temporary, shape, axis_number(temporary, shape, axis), axis)
    if (align_bytes is None) == (by is None):
        raise PreconditionError("add_padding takes one of align_bytes= and by=.", subject=variable,
                                hint="by=1 is one cell more for each step")
    if by is not None:
        cells = require_positive(by, "by")
    else:
        cells = _cells_up_to(temporary, shape, behind, require_positive(align_bytes, "align_bytes"))
    if temporary.fixed:
        raise StorageError(f"The shape and the address space of '{variable}' were declared, and are kept as they are.",
                           subject=variable, hint="declare the padded shape, or no address space")
    padded = (*shape[:behind], shape[behind] + cells, *shape[behind + 1:])
    return annotated(kernel, temporaries={**kernel.temporaries, variable: replace(temporary, shape=padded)})


def constant_shape(kernel: LoopKernel, temporary: TemporaryVariable, done: str) -> tuple[int, ...]:
    """The extents of *temporary*; *done* names the operation that needs constant extents.

    :raises PreconditionError: one extent is not constant.
    """
    shape = array_shapes(kernel).get(temporary.name, ())
    extents = tuple(e for e in shape if isinstance(e, int))
    if len(extents) != len(shape):
        raise PreconditionError(f"The shape of '{temporary.name}' is no constant, and it cannot be {done}.",
                                subject=temporary.name, hint="do it to what lies in shared memory or in registers")
    return extents


def axis_number(temporary: TemporaryVariable, shape: Sequence[int], axis: int) -> int:
    """The number of *axis*, counted from the front; :raises PreconditionError: there is none."""
    if not -len(shape) <= axis < len(shape):
        raise PreconditionError(f"'{temporary.name}' has {len(shape)} axes and none that is {axis!r}.",
                                subject=temporary.name)
    return axis % len(shape)


def axes_in_memory(temporary: TemporaryVariable, shape: Sequence[object]) -> tuple[int, ...]:
    """The axes of *temporary* in their order in memory, the slowest first."""
    return temporary.order if len(temporary.order) == len(shape) else tuple(range(len(shape)))


def _behind(temporary: TemporaryVariable, shape: Sequence[int], number: int, axis: int) -> int:
    """The axis behind axis *number* in memory; the caller gave that number as *axis*."""
    axes = axes_in_memory(temporary, shape)
    if axes[-1] == number:
        raise PreconditionError(f"Axis {axis} of '{temporary.name}' is its last: its elements lie side by side.",
                                subject=temporary.name,
                                hint="name the axis whose steps become longer, such as 0 of a matrix for its rows")
    return axes[axes.index(number) + 1]


def _cells_up_to(temporary: TemporaryVariable, shape: Sequence[int], behind: int, align_bytes: int) -> int:
    """The number of cells to add to the axis *behind*, up to a multiple of *align_bytes*."""
    if temporary.dtype is None:
        raise PreconditionError(f"The dtype of '{temporary.name}' is not known yet.", subject=temporary.name,
                                hint=f"declare it first: add_dtypes(knl, {{'{temporary.name}': ...}})")
    axes = axes_in_memory(temporary, shape)
    step = temporary.dtype.itemsize * prod(shape[axis] for axis in axes[axes.index(behind) + 1:])
    if align_bytes % step:
        raise PreconditionError(f"{align_bytes} bytes are no multiple of {step}, which a step along axis {behind} of "
                                f"'{temporary.name}' takes.", subject="align_bytes", hint="by= counts in such steps")
    return -shape[behind] % (align_bytes // step)
