"""make_einsum: the kernel of a sum of products in numpy's einsum notation."""
from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import pymbolic.primitives as p

from loopkit.errors import PreconditionError, require_known
from loopkit.expr.nodes import Reduction, product_of
from loopkit.expr.tokens import Source
from loopkit.kernel.annotations import checked
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.language.names import name_list


@checked
def make_einsum(spec: str, arg_names: str | Iterable[str], **knl_creation_kwargs: Any) -> LoopKernel:
    """Make the kernel of a sum of products, in the notation of :func:`numpy.einsum`.

    The result is ``out``. The size of the iname ``i`` is ``Ni``, and the domain has the inames in the order of the
    alphabet.

    :arg spec: the subscripts of each array, an arrow, and the subscripts of the result: ``"ik,kj->ij"``.
    :arg arg_names: the names of the arrays.
    :arg knl_creation_kwargs: further arguments of :func:`make_kernel`.
    :raises ParseError: *spec* has another form, or a subscript of the result is twice or in no array.
    :raises UnknownNameError: make_kernel has no such argument.
    :raises PreconditionError: the number of names is not that of arrays.

    >>> knl = lk.make_einsum("ik,kj->ij", ["a", "b"])
    >>> print(knl.domains_text, knl.statements_text, sep="\\n")
    [Ni, Nj] -> { [i, j] : 0 <= i < Ni and 0 <= j < Nj }
    [Ni, Nj, Nk] -> { [i, j, k] : 0 <= i < Ni and 0 <= j < Nj and 0 <= k < Nk }
    for i, j
      out[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}
    end
    """
    require_known("argument", knl_creation_kwargs, [*inspect.signature(make_kernel).parameters][2:],
                  where="make_kernel")
    source = Source(spec, "the specification")
    text = re.sub(r"\s", " ", spec)
    if (form := re.fullmatch(r"([A-Za-z, ]*)->([A-Za-z ]*)", text)) is None:
        wrong = re.search(r"[^A-Za-z, ]", re.sub("->", "  ", text, count=1))
        raise source.error(len(spec) if wrong is None else wrong.start(), "The specification has another form.",
                           "letters, commas and one arrow, as in 'ik,kj->ij'")
    operands, result = [x.replace(" ", "") for x in form[1].split(",")], form[2].replace(" ", "")
    for k, x in enumerate(form[2]):
        if x != " " and (result.count(x) > 1 or not any(x in own for own in operands)):
            raise source.error(form.start(2) + k, f"The subscript '{x}' of the result is "
                               f"{'there twice' if result.count(x) > 1 else 'in no array'}.",
                               "different subscripts of the arrays")
    names = name_list(arg_names)
    if len(names) != len(operands):
        raise PreconditionError(f"The specification '{spec}' has {len(operands)} arrays, and there are {len(names)} "
                                "names.", subject=spec, hint="give one name for each array")

    def element_of(name: str, subscripts: str) -> p.ExpressionNode:
        index = tuple(map(p.Variable, subscripts))
        return p.Subscript(p.Variable(name), index) if index else p.Variable(name)
    factors = [element_of(name, own) for name, own in zip(names, operands, strict=True)]
    value: p.ExpressionNode = factors[0] if len(factors) == 1 else product_of(*factors)
    inames = sorted(set("".join(operands)))
    summed = tuple(x for x in inames if x not in result)
    value = Reduction("sum", summed, value) if summed else value
    domain = f"{{[{', '.join(inames)}]: {' and '.join(f'0<={x}<N{x}' for x in inames)}}}"
    knl_creation_kwargs.setdefault("name", f"einsum{len(inames)}to{len(result)}_kernel")
    return make_kernel(domain if inames else [], [Assignment(element_of("out", result), value)], **knl_creation_kwargs)
