"""Memory layout of arrays: the order of the axes, swizzled columns, and padded strides."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from loopkit.analysis.constructors import annotated
from loopkit.analysis.match import matching_names
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.arrays import Swizzle
from loopkit.errors import PreconditionError, StorageError
from loopkit.expr.mappers import variables
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.arguments import with_strides
from loopkit.transform.array_axes import with_separate_axes
from loopkit.transform.step import known_list, require_dtype, require_positive, transform


@transform
def tag_array_axes(kernel: LoopKernel, ary_names: str | Sequence[str], dim_tags: str) -> LoopKernel:
    """Set the order in memory of the axes of arrays.

    Subscripts stay the same, and so do value flows: no proof is needed. Elements along the fastest axis are adjacent.
    Vectors are loaded along that axis, and neighbouring threads along it access different banks of shared memory. Each
    call checks the layout of an argument, and allocates outputs with it.

    The tag ``sep`` separates an axis of an argument into several arguments: ``a[k, i]`` becomes ``a_s0[i]``,
    ``a_s1[i]``, ... The interface of the kernel changes.

    :arg ary_names: an array, or several: a sequence, or a text with commas between.
    :arg dim_tags: ``"C"`` or ``"C,C"``: the last axis is the fastest; ``"F"``: the first is; or a tag for each axis,
        ``"N0,N1"``, with ``N0`` for the fastest. One axis of constant extent may have the tag ``vec``: it is the
        fastest, and its elements are a vector. The axes of an argument may also have the tags ``stride:8``,
        ``stride:auto`` and ``sep``; beside ``vec`` and ``sep``, ``C`` and ``F`` are tags of single axes.
    :raises UnknownNameError: there is no such array.
    :raises PreconditionError: *dim_tags* has another form, or lacks a tag for an axis; an axis of a temporary has a tag
        for arguments; the extent of an axis with ``vec`` or ``sep`` is not constant, or an access is outside of
        the axis with ``sep``.
    :raises UndecidedError: a subscript of an axis with ``sep`` is not affine.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<8 and 0<=j<32}", "b[j, i] = a[i, j]", name="transpose")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), {"i": "l.1", "j": "l.0"})
    >>> knl = lk.add_prefetch(knl, "a", ["i", "j"])
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 a_fetch[8][32]
    >>> print(lk.lower(lk.tag_array_axes(knl, "a_fetch", "F"), stop="storage"))
    shared float32 a_fetch[32][8] axes 1, 0
    """
    temporaries = dict(kernel.temporaries)
    shapes = array_shapes(kernel)
    chosen = known_list("array", ary_names, kernel.data)
    for name in (x for x in chosen if x in kernel.array_args):
        kernel = _with_argument_layout(kernel, name, dim_tags, len(shapes.get(name, ())))
    for name in (x for x in chosen if x in kernel.temporaries):
        temporary = _temporary(kernel, name)
        order = _axis_order(kernel, name, dim_tags)
        plain = order == tuple(range(len(order)))
        temporaries[name] = replace(temporary, layout=replace(temporary.layout, order=() if plain else order))
    return annotated(kernel, temporaries=temporaries)


def _with_argument_layout(kernel: LoopKernel, name: str, dim_tags: str, axes: int) -> LoopKernel:
    tags = [tag.strip() for tag in dim_tags.split(",")]
    separate = [axis for axis, tag in enumerate(tags) if tag == "sep"]
    if separate and len(tags) == axes:
        result, others = with_separate_axes(kernel, name, separate), [tag for tag in tags if tag != "sep"]
        rest = others[0] if len({*others}) == 1 and others[0] in ("C", "F") else ",".join(others)
        for new in (a.name for a in result.arguments if others and a.name not in kernel.argument_by_name):
            result = _with_argument_layout(result, new, rest, len(others))
        return result
    if len(tags) == axes and any(tag.startswith("stride:") for tag in tags):
        declared = with_strides(kernel.array_args[name], [tag.removeprefix("stride:") for tag in tags])
        if not {x for e in declared.strides or () if e is not None for x in variables(e)} <= kernel.value_params:
            raise PreconditionError(f"A stride of '{name}' is not an expression of the kernel's sizes.", subject=name,
                                    hint="declare it in make_kernel: GlobalArg(..., strides=...)")
    else:
        order = _axis_order(kernel, name, dim_tags)
        whole = {tuple(range(axes))[::-1]: "F", tuple(range(axes)): "C"}.get(order)
        declared = replace(kernel.array_args[name], order=whole or order, strides=None)
    return annotated(kernel, arguments=tuple(declared if a.name == name else a for a in kernel.arguments))


def _axis_order(kernel: LoopKernel, name: str, dim_tags: str) -> tuple[int, ...]:
    """The axes of *name* in memory, the slowest first."""
    shape = array_shapes(kernel).get(name, ())
    axes = len(shape)
    levels = [f"N{level}" for level in range(axes)]
    tags = [tag.strip() for tag in dim_tags.split(",")]
    if len({*tags}) == 1 and len(tags) in (1, axes):
        tags = {"C": levels[::-1], "F": levels}.get(tags[0], tags)
    if tags.count("vec") == 1 and len(tags) == axes:
        place = tags.index("vec")
        if not isinstance(shape[place], int):
            raise PreconditionError(f"An axis of '{name}' cannot have the tag 'vec': its extent is not constant.",
                                    subject=name, hint="split_array_axis, or fix_parameters")
        others = [tag for tag in tags if tag != "vec"]
        levels = [f"N{level}" for level in range(axes - 1)]
        # one tag for all other axes, or one for each of them
        others = {"C": levels[::-1], "F": levels}.get(others[0] if len({*others}) == 1 else "", others)
        if sorted(others) == sorted(levels):
            raised = [f"N{int(tag[1:]) + 1}" for tag in others]
            tags = levels = [*raised[:place], "N0", *raised[place:]]
    if sorted(tags) != sorted(levels):
        raise PreconditionError(f"{dim_tags!r} is not an order of the {axes} axes of '{name}'.", subject=name,
                                hint=f"pass 'C', which means '{','.join(levels[::-1])}', 'F', or another order")
    return tuple(sorted(range(axes), key=lambda axis: -int(tags[axis][1:])))


@transform
def swizzle(kernel: LoopKernel, variable: str | Iterable[str], axis: int | None = None, *, chunk: int = 1,
            period: int | None = None, row_axes: int = 1, every: int = 1) -> LoopKernel:
    """Permute the columns of a shared array differently in each row, so that a column is spread over many banks.

    The element of row *r* and column *c* is stored in column ``c ^ chunk*(r // every mod period)``. Threads that
    access a column then use different banks, as with :func:`add_padding`, but no cell is unused, and vectors of *chunk*
    elements stay contiguous. Subscripts stay the same, and the columns of a row keep different cells: no proof is
    needed.

    :arg variable: a temporary in shared memory, with constant extents; or several.
    :arg axis: the number of the axis of rows; negative numbers count from the end. The default is the axis before the
        columns, which are the fastest axis in memory.
    :arg chunk: how many neighbouring elements stay contiguous; a power of two.
    :arg period: how many rows have different permutations; a power of two; default: the number of chunks in 128 bytes,
        after which the banks repeat, or fewer if the number of columns requires it.
    :arg row_axes: how many axes count the rows together: the axis of rows, and others before it in memory.
    :arg every: how many neighbouring rows have the same permutation; a power of two. For rows of fewer than 128 bytes:
        those in 128 bytes, which lie in different banks.
    :raises UnknownNameError: there is no such temporary.
    :raises PreconditionError: it has fewer than two axes, or than *row_axes* before the columns; *axis* is the
        columns' axis or does not exist; its shape is not constant; *chunk*, *period* or *every* is not a power of two,
        or the number of columns is not a multiple of *chunk* times *period*; the dtype is unknown and no *period* is
        given.
    :raises StorageError: (when code is generated) the temporary is not in shared memory.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<32}", "b[j, i] = a[i, j]", name="transpose")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), {"i": "l.0", "j": "l.1"})
    >>> knl = lk.swizzle(lk.add_prefetch(knl, "a", ["i", "j"]), "a_fetch")
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 a_fetch[32][32], columns ^ (axis 0 mod 32)
    """
    for name in matching_names(variable, kernel.temporaries):
        kernel = _swizzled_one(kernel, name, axis, chunk, period, row_axes, _power_of_two(every, "every"))
    return kernel


def _swizzled_one(kernel: LoopKernel, variable: str, axis: int | None, chunk: int, period: int | None, row_axes: int,
                  every: int) -> LoopKernel:
    temporary = _temporary(kernel, variable)
    shape, axes = _shape(kernel, temporary, "swizzled")
    if len(shape) < 2:
        raise PreconditionError(f"'{variable}' has {len(shape)} axes, but a swizzle needs rows and columns.",
                                subject=variable, hint="swizzle an array with two or more axes")
    number = axes[-2] if axis is None else _axis_number(temporary, shape, axis)
    if number == axes[-1]:
        raise PreconditionError(f"Axis {axis} of '{variable}' is the fastest in memory: it counts columns, not rows.",
                                subject=variable, hint="name another axis, or tag_array_axes first")
    if require_positive(row_axes, "row_axes") > (most := axes.index(number) + 1):
        raise PreconditionError(f"'{variable}' has {most} axes up to axis {number} in memory, and not {row_axes} that "
                                "count rows.", subject=variable, hint=f"row_axes={most}")
    columns = shape[axes[-1]]
    chunk = _power_of_two(chunk, "chunk")
    whole = columns & -columns                  # the largest power of two that divides it
    if period is None:
        if temporary.dtype is None:
            raise PreconditionError(f"The dtype of '{variable}' is unknown, and period= depends on it.",
                                    subject=variable, hint=f"add_dtypes(knl, {{'{variable}': ...}}), or period=")
        period = max(min(128//temporary.dtype.itemsize, whole)//chunk, 1)   # the banks repeat after 128 bytes
    period = _power_of_two(period, "period")
    if columns % (chunk*period):
        raise PreconditionError(f"The {columns} columns of '{variable}' are not a multiple of {chunk*period}, the "
                                f"columns that {period} rows permute.", subject=variable,
                                hint=f"choose chunk and period with the product {whole}, or add_padding")
    layout = replace(temporary.layout, swizzle=Swizzle(number, chunk, period, row_axes, every))
    return annotated(kernel, temporaries={**kernel.temporaries, variable: replace(temporary, layout=layout)})


@transform
def add_padding(kernel: LoopKernel, variable: str, axis: int, align_bytes: int | None = None, *,
                by: int | None = None) -> LoopKernel:
    """Make the stride of *axis* of a temporary longer: add unused cells to the axis after it.

    The padded stride spreads the elements of a column over more banks, which ``knl.plot("access")`` draws. No value
    flow changes, so no proof is needed.

    :arg variable: a temporary with a constant shape.
    :arg axis: the number of an axis; negative numbers count from the end. It must not be the axis that is fastest in
        memory (the last, unless :func:`tag_array_axes` set another).
    :arg align_bytes: round the stride up to a multiple of this many bytes.
    :arg by: add this many cells to the stride instead. One cell puts the elements of a column of a tile into different
        banks.
    :raises UnknownNameError: there is no such temporary.
    :raises PreconditionError: there is no such axis, or none after it; the shape is not constant; both or neither of
        *align_bytes* and *by* are given; *align_bytes* is not a multiple of the bytes in one step of the next axis, or
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
    known_list("temporary", [variable], kernel.temporaries)
    temporary = kernel.temporaries[variable]
    shape, axes = _shape(kernel, temporary, "padded")
    number = _axis_number(temporary, shape, axis)
    if number == axes[-1]:
        raise PreconditionError(f"Axis {axis} of '{variable}' is its last axis: its elements are adjacent.",
                                subject=variable,
                                hint="choose the axis whose stride grows: axis 0 of a matrix for its rows")
    place = axes.index(number) + 1
    behind = axes[place]
    if (align_bytes is None) == (by is None):
        raise PreconditionError("add_padding needs exactly one of align_bytes= and by=.", subject=variable,
                                hint="by=1 adds one cell to the stride")
    if by is not None:
        cells = require_positive(by, "by")
    else:
        stride = require_positive(align_bytes, "align_bytes")
        step = require_dtype(variable, temporary.dtype).itemsize * prod(shape[k] for k in axes[place + 1:])
        if stride % step:
            raise PreconditionError(f"align_bytes={stride} is not a multiple of {step}, the bytes from one element "
                                    f"to the next along axis {behind} of '{variable}'.", subject="align_bytes",
                                    hint=f"align_bytes={stride + -stride % step}")
        cells = -shape[behind] % (stride // step)
    if temporary.fixed:
        raise StorageError(f"The shape and the address space of '{variable}' were declared, so they cannot change.",
                           subject=variable, hint="declare the padded shape, or no address space")
    padded = (*shape[:behind], shape[behind] + cells, *shape[behind + 1:])
    return annotated(kernel, temporaries={**kernel.temporaries, variable: replace(temporary, shape=padded)})


def _power_of_two(value: int, name: str) -> int:
    number = require_positive(value, name)
    if number & (number - 1):
        raise PreconditionError(f"{name}={number} is not a power of two.", subject=name,
                                hint=f"{name}={1 << (number.bit_length() - 1)}")
    return number


def _temporary(kernel: LoopKernel, name: str) -> TemporaryVariable:
    if name in kernel.array_args:
        raise PreconditionError(f"'{name}' is an argument: the arrays of a call determine its layout.", subject=name,
                                hint="copy it by add_prefetch and change the copy, or pass arrays in that order")
    known_list("temporary", [name], kernel.temporaries)
    return kernel.temporaries[name]


def _shape(kernel: LoopKernel, temporary: TemporaryVariable, done: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of *temporary*, which must be constant to be *done*, and its axes in memory, the slowest first."""
    shape = array_shapes(kernel).get(temporary.name, ())
    extents = tuple(e for e in shape if isinstance(e, int))
    if len(extents) != len(shape):
        raise PreconditionError(f"The shape of '{temporary.name}' is not constant, so it cannot be {done}.",
                                subject=temporary.name, hint="choose a temporary in shared memory or in registers")
    order = temporary.layout.order
    return extents, order if len(order) == len(shape) else tuple(range(len(shape)))


def _axis_number(temporary: TemporaryVariable, shape: Sequence[int], axis: int) -> int:
    if not -len(shape) <= axis < len(shape):
        raise PreconditionError(f"'{temporary.name}' has {len(shape)} axes, but no axis {axis!r}.",
                                subject=temporary.name)
    return axis % len(shape)
