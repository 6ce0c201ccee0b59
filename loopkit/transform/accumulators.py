"""set_accumulator_dtype: the dtype in which reductions are computed."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import kind_of, promote
from loopkit.expr.mappers import map_children
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.data import GlobalArg, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode
from loopkit.transform.data import as_dtype
from loopkit.transform.step import matching_statements, transform


@transform
def set_accumulator_dtype(kernel: LoopKernel, dtype: npt.DTypeLike, *, within: str | Collection[str] | None = None
                  ) -> LoopKernel:
    """Compute reductions in *dtype*: each operand loaded from a narrower real dtype is converted first.

    Products, sums and the accumulator then have *dtype*, unless an operand of another kind or a wider dtype needs a
    wider result (int32 with float32 gives float64). An output with a declared dtype keeps it; its values are rounded
    once, when they are stored. The results differ from those of *kernel* by rounding.

    :arg dtype: a real dtype, for example ``np.float32`` for operands of float16 or bfloat16.
    :arg within: ids (or globs) of the statements with the reductions; default: all with such operands.
    :raises UnknownNameError: *within* names no statement.
    :raises PreconditionError: *dtype* is not real, or narrower than an operand; an operand's dtype is unknown; no
        operand needs a conversion.

    >>> knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k]*x[k])")
    >>> knl = lk.add_dtypes(knl, {"a,x,y": np.float16})
    >>> print(knl.statements_text)
    for i
      y[i] = sum(k, a[i, k]*x[k])  {id=insn}
    end
    >>> print(lk.set_accumulator_dtype(knl, np.float32).statements_text)
    for i
      y[i] = sum(k, cast(float32, a[i, k])*cast(float32, x[k]))  {id=insn}
    end
    """
    wanted = as_dtype(dtype, "an accumulator")
    if kind_of(wanted) != "f":
        raise PreconditionError(f"Accumulators of {wanted} are not real numbers.", subject=str(wanted),
                                hint="accumulate in float32 or float64")
    chosen = matching_statements(kernel, within)
    operands: dict[str, Expression] = {}
    accumulators: list[str] = []
    for node in kernel.reductions.values():
        if chosen is None or node.update in chosen:
            for update in node.updates:
                old = kernel.statement_by_id[update].expression
                new = _converted(kernel, node, old, wanted)
                if new is not old:
                    operands[update] = new
                    accumulators.append(node.accumulator)
    if not operands:
        raise PreconditionError(f"No reduction meant here loads real numbers narrower than {wanted}.",
                                subject=str(wanted), hint="their operands are not converted")
    return rewritten(
        kernel,
        statements=tuple(replace(s, expression=operands[s.id]) if s.id in operands else s for s in kernel.statements),
        temporaries={name: replace(t, dtype=wanted) if name in accumulators and t.dtype is not None else t
                     for name, t in kernel.temporaries.items()})


def _converted(kernel: LoopKernel, node: ReductionNode, operand: Expression, wanted: np.dtype) -> Expression:
    """*operand* with its loads of narrower reals converted; itself where it has none."""
    arrays: list[GlobalArg | TemporaryVariable] = [*kernel.array_args.values(), *kernel.temporaries.values()]
    known = {a.name: a.dtype for a in arrays}

    def convert(e: Expression) -> Expression:
        match e:
            case p.Call(function=p.Variable(name=name)) if name in kernel.substitutions:
                raise PreconditionError(f"The operand of '{node.name}' calls the rule '{name}', which loads for others "
                                        "too.", subject=name, hint=f"expand_subst(knl, '{name}') first")
            case TypeCast():
                return e                               # its dtype was chosen already
            case p.Variable(name=name) | p.Subscript(aggregate=p.Variable(name=name)):
                return TypeCast(wanted.name, e) if name in known and _is_narrower(name, known[name], wanted) else e
            case p.ExpressionNode():
                return map_children(e, convert)
            case _:
                return e
    return convert(operand)


def _is_narrower(name: str, dtype: np.dtype | None, wanted: np.dtype) -> bool:
    """Is *dtype* real and not yet *wanted*?

    :raises PreconditionError: *dtype* is unknown, or does not fit into *wanted*.
    """
    if dtype is None:
        raise PreconditionError(f"The dtype of '{name}' is not known yet.", subject=name,
                                hint=f"declare it first: add_dtypes(knl, {{'{name}': ...}})")
    if kind_of(dtype) != "f" or dtype == wanted:
        return False
    if promote(dtype, wanted) != wanted:
        raise PreconditionError(f"{wanted} cannot hold what is loaded from '{name}', which has the dtype {dtype}.",
                                subject=name, hint=f"accumulate in {promote(dtype, wanted)}")
    return True
