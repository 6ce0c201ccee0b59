"""loopy's steps for axes of arrays and for memory that temporaries share."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.dtypes import with_inferred
from loopkit.compat.loopy.index_of import strides_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.live_ranges import with_uses_apart
from loopkit.compat.loopy.match import ordered_names
from loopkit.compat.loopy.transform.iname import split_iname
from loopkit.compat.loopy.translation_unit import core_of, for_each_kernel, same_step
from loopkit.errors import IllegalTransformError, PreconditionError, require_known
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.data import GlobalArg

concatenate_arrays = same_step(lk.concatenate_arrays)
to_batched = same_step(lk.to_batched)


@for_each_kernel
def split_array_axis(kernel: LoopKernel, array_names: Any, axis_nr: int, count: int, order: str = "C") -> LoopKernel:
    """:func:`loopkit.split_array_axis`; elements that were neighbours in memory stay neighbours."""
    core = lk.split_array_axis(kernel.core, ordered_names(array_names), axis_nr, count, order)
    for name in ordered_names(array_names) if order == "F" else ():
        rank = len(_strides(core, name))
        axes, first = list(range(rank)), axis_nr if axis_nr >= 0 else rank - 1 + axis_nr
        axes[first:first + 2] = axes[first:first + 2][::-1]
        core = lk.tag_array_axes(core, name, ",".join(f"N{rank - 1 - k}" for k in axes))
    return kernel.with_core(core)


@for_each_kernel
def split_array_dim(kernel: LoopKernel, arrays_and_axes: Any, count: int, auto_split_inames: bool = True,
                    split_kwargs: Mapping[str, Any] | None = None) -> LoopKernel:
    """:func:`loopkit.split_array_axis`, and :func:`loopkit.split_iname` of the inames that are subscripts there.

    :arg arrays_and_axes: ``(array, axis)`` or ``(array, axis, order)``, or several of these.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.split_array_dim(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), [("x", 0), ("y", 0)], 4)
    >>> print(knl.default_entrypoint.core.statements_text)
    for i_outer, i_inner
      y[i_outer, i_inner] = 2*x[i_outer, i_inner]  {id=insn}
    end
    """
    given = [arrays_and_axes] if isinstance(arrays_and_axes[:1], tuple) and isinstance(
        arrays_and_axes[0], str) else arrays_and_axes
    chosen = [(name, int(axis), *(order or ["C"])) for name, axis, *order in given]
    require_known("array", [name for name, *_ in chosen], kernel.core.data)
    if auto_split_inames:
        found = (access.subscripts[axis] for name, axis, _ in chosen
                 for access in accesses_by_array(kernel.core).get(name, ()))
        for iname in dict.fromkeys(e.name for e in found if isinstance(e, p.Variable) and e.name in kernel.core.inames):
            kernel = split_iname(kernel, iname, count, **(split_kwargs or {}))
    for name, axis, order in chosen:
        kernel = split_array_axis(kernel, [name], axis, count, order)
    return kernel


split_arg_axis = split_array_dim


@for_each_kernel
def alias_temporaries(kernel: LoopKernel, names: Any, base_name_prefix: str | None = None,
                      synchronize_for_exclusive_use: bool = True) -> LoopKernel:
    """:func:`loopkit.alias_temporaries`.

    With *synchronize_for_exclusive_use* it may reorder statements and split loops, if the dependences allow it. Without
    it, temporaries whose uses are not apart become one array: a statement then reads the value that the last write
    left there, also one under another name.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<8}", "<> a[i] = 1\\n<> b[i] = 2*i\\ny[i] = a[i]", seq_dependencies=True)
    >>> knl = lp.alias_temporaries(knl, ["a", "b"], synchronize_for_exclusive_use=False)
    >>> print(knl["loopy_kernel"].core.statements_text)
    for i
      <> a[i] = 1  {id=insn}
      a[i] = 2*i  {id=insn_0}
      y[i] = a[i]  {id=insn_1}
    end

    :raises IllegalTransformError: the uses are not apart, and no order of the statements is found, or the temporaries
        cannot become one array.
    """
    own = ordered_names(names)
    try:
        return kernel.with_core(lk.alias_temporaries(kernel.core, own, base_name_prefix))
    except IllegalTransformError:
        if synchronize_for_exclusive_use:
            core = with_uses_apart(kernel.core, own)
        elif _are_alike(with_inferred(kernel.core), own):
            return kernel.with_core(_as_one_array(kernel.core, own))
        else:
            raise
    return kernel.with_core(lk.alias_temporaries(core, own, base_name_prefix))


def _are_alike(core: lk.LoopKernel, names: Sequence[str]) -> bool:
    """Have the temporaries one shape and one kind of memory, and do only statements access them?"""
    others = frozenset(x for s in core.statements for x in s.domain.params).union(
        *(variables(rule.expr) for rule in core.substitutions.values()))
    kinds = {(t.dtype, t.address_space, t.layout, array_shapes(core).get(name))
             for name in names for t in [core.temporaries[name]]}
    return len(kinds) == 1 and others.isdisjoint(names)


def _as_one_array(core: lk.LoopKernel, names: Sequence[str]) -> lk.LoopKernel:
    """*core* with the first of *names* in place of the others."""
    new = {name: p.Variable(names[0]) for name in names[1:]}

    def renamed(expr: Any) -> Expression:
        return substitute(expr, new)
    return lk.with_statements(core, [i.copy(
        assignee=renamed(i.assignee), expression=renamed(i.expression), predicates=tuple(map(renamed, i.predicates)))
        for i in core.instructions])


@for_each_kernel
def allocate_temporaries_for_base_storage(kernel: LoopKernel, only_address_space: Any = None, aliased: bool = True,
                                          max_nbytes: int | None = None) -> LoopKernel:
    """:func:`loopkit.allocate_temporaries_for_base_storage` of all temporaries.

    :raises PreconditionError: the step should leave some of them out.
    """
    for name, value in (("only_address_space", only_address_space), ("max_nbytes", max_nbytes)):
        if value is not None:
            raise PreconditionError(f"allocate_temporaries_for_base_storage: loopkit has nothing for {name}=.",
                                    subject=name, hint="the step takes all temporaries with a base storage")
    return kernel.with_core(lk.allocate_temporaries_for_base_storage(kernel.core))


@for_each_kernel
def add_padding(kernel: LoopKernel, variable: str, axis: int, align_bytes: int) -> LoopKernel:
    """:func:`loopkit.add_padding` of a temporary; an argument gets the next aligned stride, and calls check it.

    :raises PreconditionError: the dtype of an argument or its stride is not known.
    """
    core = kernel.core
    require_known("array", [variable], core.data)
    data = core.data[variable]
    if not isinstance(data, GlobalArg):
        return kernel.with_core(lk.add_padding(core, variable, axis, align_bytes))
    if data.dtype is None:
        raise PreconditionError(f"The dtype of '{variable}' is not known.", subject=variable,
                                hint="lp.add_dtypes declares it")
    stride, cells = _constant_stride(core, variable, axis), max(1, align_bytes // data.dtype.itemsize)
    rank = len(_strides(core, variable))
    tags = [f"stride:{-(-stride // cells)*cells}" if k == axis % rank else "stride:auto" for k in range(rank)]
    return kernel.with_core(lk.tag_array_axes(core, variable, ",".join(tags)))


def find_padding_multiple(kernel: Any, variable: str, axis: int, align_bytes: int, allowed_waste: float = 0.1) -> int:
    """The smallest multiple of the stride of *axis* that padding to *align_bytes* enlarges by a small part only.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i,j]: 0<=i<n and 0<=j<10}", "y[i,j] = 2*x[i,j]")
    >>> lp.find_padding_multiple(knl, "x", 0, 16)
    3

    :arg allowed_waste: this part.
    :raises UnknownNameError: there is no such array.
    :raises PreconditionError: there is no such axis, or its stride is not a constant.
    """
    stride, multiple = _constant_stride(core_of(kernel), variable, axis), 1
    while -multiple*stride % align_bytes > allowed_waste*multiple*stride:
        multiple += 1
    return multiple


def _constant_stride(core: lk.LoopKernel, variable: str, axis: int) -> int:
    require_known("array", [variable], core.data)
    strides = _strides(core, variable)
    if not -len(strides) <= axis < len(strides):
        raise PreconditionError(f"'{variable}' has {len(strides)} axes, but no axis {axis}.", subject=variable)
    stride = strides[axis]
    if not isinstance(stride, int | np.integer) or stride < 1:
        raise PreconditionError(f"The stride of axis {axis} of '{variable}' is not a constant.", subject=variable,
                                hint="lp.fix_parameters makes a size a constant")
    return int(stride)


def _strides(core: lk.LoopKernel, name: str) -> Sequence[Expression | None]:
    return strides_of(core.data[name], array_shapes(core).get(name, ()))
