"""to_batched: a kernel that computes the same for many batches of its data."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import in_own_order, with_other_axes
from loopkit.analysis.legality import require_legal
from loopkit.analysis.shapes import with_inferred_shapes, with_shapes_like_inputs, with_sizes_nonnegative
from loopkit.errors import PreconditionError
from loopkit.kernel.data import Argument, GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import ForTag
from loopkit.kernel.tree import Loop
from loopkit.poly.sets import InstanceSet, bounded_by
from loopkit.transform.definition import require_own_order
from loopkit.transform.functions import with_calls_inlined
from loopkit.transform.reindex import with_domains
from loopkit.transform.step import definition, known_list, require_fresh


@definition
def to_batched(kernel: LoopKernel, nbatches: int | str, batch_varying_args: str | Iterable[str],
               batch_iname_prefix: str = "ibatch", sequential: bool = False) -> LoopKernel:
    """Define the kernel that does the work of *kernel* for each of *nbatches* batches, in a loop around it.

    Arrays that vary from batch to batch get a leading axis, and numbers become arrays. Temporaries need no axis: each
    batch has values of its own, and storage allocation gives them cells. Calls of functions are inlined.

    :arg nbatches: the number of batches, or the name of a size, which may be new.
    :arg batch_varying_args: the arguments, and temporaries, that get the axis.
    :arg batch_iname_prefix: the iname of the batches; a number follows if the name is taken.
    :arg sequential: give the iname the tag ``for``, so that the batches run one after the other.
    :raises UnknownNameError: a name is neither an argument nor a temporary.
    :raises PreconditionError: *nbatches* is negative; a varying argument is a size; the current order of *kernel*
        cannot be that of a definition (:func:`with_statements`); a varying argument has declared strides.
    :raises NameConflictError: *nbatches* is the name of something else than a size.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "y[i] = sum(j, a[i, j]*x[j])")
    >>> print(lk.to_batched(knl, "m", "x, y").statements_text)
    for ibatch, i
      y[ibatch, i] = sum(j, a[i, j]*x[ibatch, j])  {id=insn}
    end
    """
    require_own_order(kernel)
    kernel = with_calls_inlined(kernel)
    varying = known_list("argument or temporary", batch_varying_args, [*kernel.argument_by_name, *kernel.temporaries])
    sizes = {x for d in kernel.domains for x in d.params}.union(InstanceSet((), kernel.assumptions).params)
    if bound := [x for x in varying if x in sizes]:
        raise PreconditionError(f"'{bound[0]}' bounds loops or is in the assumptions, so that all batches share it.",
                                subject=bound[0], hint="choose other arguments, or read the bound from an array")
    for a in kernel.arguments:
        if a.name in varying and isinstance(a, GlobalArg) and a.strides is not None:
            raise PreconditionError(f"'{a.name}' has declared strides, and none for an axis of batches.",
                                    subject=a.name, hint=f"declare '{a.name}' without strides=; a call accepts arrays "
                                                         "with any strides")
    count, arguments = _batch_count(kernel, nbatches)
    iname = kernel.fresh_name(batch_iname_prefix)
    require_fresh(kernel, iname)
    batch = p.Variable(iname)
    result = with_other_axes(kernel, varying, lambda _, own: (batch, *own), lambda _, own: (count, *own))
    bounds = bounded_by(iname, 0, count)
    result = in_own_order(
        result, tree=Loop(iname, result.tree), tags={**result.tags, iname: ForTag()} if sequential else result.tags,
        statements=with_domains(result.statements, lambda d: d.onto((iname, *d.inames)).where(*bounds)),
        arguments=(*arguments, *(_batched(a, count) if a.name in varying else _forgotten(a)
                                 for a in kernel.arguments)))
    result = with_inferred_shapes(with_sizes_nonnegative(with_shapes_like_inputs(result)))
    return require_legal(result, "to_batched")


def _batch_count(kernel: LoopKernel, nbatches: int | str) -> tuple[Expression, tuple[Argument, ...]]:
    """The number of batches, and the new argument for it, if any."""
    if isinstance(nbatches, str):
        if nbatches in kernel.value_params:
            return p.Variable(nbatches), ()
        require_fresh(kernel, nbatches)
        return p.Variable(nbatches), (ValueArg(nbatches),)
    if isinstance(nbatches, bool) or nbatches < 0:
        raise PreconditionError(f"The number of batches cannot be {nbatches}.", subject="nbatches",
                                hint="pass an integer of at least 0, or the name of a size")
    return int(nbatches), ()


def _batched(argument: Argument, count: Expression) -> GlobalArg:
    """*argument* with an axis for the batches."""
    if isinstance(argument, ValueArg):
        return GlobalArg(argument.name, argument.dtype, (count,), tags=argument.tags)
    shape = None if argument.shape is None else (count, *argument.shape)
    return replace(argument, shape=shape, inferred=None, shape_like=None)


def _forgotten(argument: Argument) -> Argument:
    """*argument* without what was inferred about it."""
    return replace(argument, inferred=None, shape_like=None) if isinstance(argument, GlobalArg) else argument
