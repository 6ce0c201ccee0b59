"""make_einsum: the kernel of a sum of products in numpy's einsum notation."""
from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as p

from loopkit.errors import PreconditionError, require_known
from loopkit.expr.nodes import Reduction, product_of
from loopkit.expr.tokens import Source
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.language.names import name_list


@checked
def make_einsum(spec: str, arg_names: str | Iterable[str], **knl_creation_kwargs: Any) -> LoopKernel:
    """Make the kernel of a sum of products, in the notation of :func:`numpy.einsum`.

    The result is ``out``. The size of the iname ``i`` is ``Ni``, and the domain has the inames in the order of the
    alphabet. ``...`` stands for the axes of an array that have no letter, if *kernel_data* declares their number; their
    inames are ``e0``, ``e1``, and so on. Axes of length 1 are not repeated.

    :arg spec: the subscripts of each array, an arrow, and the subscripts of the result: ``"ik,kj->ij"``. Without the
        arrow, the result has the letters that occur once, in the order of the alphabet.
    :arg arg_names: the names of the arrays.
    :arg knl_creation_kwargs: further arguments of :func:`make_kernel`.
    :raises ParseError: *spec* has another form, or a subscript of the result is twice or in no array.
    :raises UnknownNameError: make_kernel has no such argument.
    :raises PreconditionError: the number of names is not that of arrays, or that of the axes of ``...`` is unknown.

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
    names = name_list(arg_names)
    operands, result = _subscripts(spec, names, _declared_ranks(knl_creation_kwargs.get("kernel_data")))

    def element_of(name: str, subscripts: Iterable[str]) -> p.ExpressionNode:
        index = tuple(map(p.Variable, subscripts))
        return p.Subscript(p.Variable(name), index) if index else p.Variable(name)
    factors = [element_of(name, own) for name, own in zip(names, operands, strict=True)]
    value: p.ExpressionNode = factors[0] if len(factors) == 1 else product_of(*factors)
    inames = sorted(set().union(*operands))
    summed = tuple(x for x in inames if x not in result)
    value = Reduction("sum", summed, value) if summed else value
    domain = f"{{[{', '.join(inames)}]: {' and '.join(f'0<={x}<N{x}' for x in inames)}}}"
    knl_creation_kwargs.setdefault("name", f"einsum{len(inames)}to{len(result)}_kernel")
    return make_kernel(domain if inames else [], [Assignment(element_of("out", result), value)], **knl_creation_kwargs)


def _declared_ranks(kernel_data: Any) -> dict[str, int]:
    """The numbers of axes of the arrays that *kernel_data* declares."""
    return {name: len(name_list(a.shape)) if isinstance(a.shape, str) else len(a.shape) if isinstance(a.shape, tuple)
            else 1 for a in ([] if kernel_data is None or isinstance(kernel_data, str) else kernel_data)
            if isinstance(a, GlobalArg) and a.shape is not None for name in name_list(a.name)}


def _subscripts(spec: str, names: Sequence[str], ranks: Mapping[str, int]
                ) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The inames of the axes of each array and of the result."""
    source, text = Source(spec, "the specification"), re.sub(r"\s", " ", spec)
    one = r" *(?:[A-Za-z] *)*(?:\.\.\. *)?(?:[A-Za-z] *)*"
    if (form := re.fullmatch(rf"({one}(?:,{one})*)(?:->({one}))?", text)) is None:
        wrong = re.search(r"[^A-Za-z,. ]", re.sub("->", "  ", text, count=1))
        raise source.error(len(spec) if wrong is None else wrong.start(), "The specification has another form.",
                           "letters, commas, one '...' for each array, and one arrow, as in 'ik,kj->ij'")
    operands = [x.replace(" ", "") for x in form[1].split(",")]
    if len(names) != len(operands):
        raise PreconditionError(f"The specification '{spec}' has {len(operands)} arrays, and there are {len(names)} "
                                "names.", subject=spec, hint="give one name for each array")
    letters = "".join(operands)
    result = ("..." if "." in letters else "") + "".join(
        x for x in sorted({*letters} - {"."}) if letters.count(x) == 1) if form[2] is None else form[2].replace(" ", "")
    for k, x in enumerate(form[2] or ""):
        if x not in " ." and (result.count(x) > 1 or x not in letters):
            raise source.error(form.start(2) + k, f"The subscript '{x}' of the result is "
                               f"{'there twice' if result.count(x) > 1 else 'in no array'}.",
                               "different subscripts of the arrays")
    if ("." in letters) != ("." in result):
        raise source.error(form.start(2), "Only one side of the arrow has '...'.", "'...' on both sides")
    own = [_number_of_axes(spec, name, x, ranks) for name, x in zip(names, operands, strict=True)]
    every = tuple(f"e{k}" for k in range(max(own)))

    def expanded(subscripts: str, count: int) -> tuple[str, ...]:
        before, _, after = subscripts.partition("...")
        return (*before, *every[len(every) - count:], *after)
    return [*map(expanded, operands, own)], expanded(result, max(own))


def _number_of_axes(spec: str, name: str, subscripts: str, ranks: Mapping[str, int]) -> int:
    """The number of axes of the array *name* for which ``...`` stands."""
    letters = len(subscripts.replace(".", ""))
    if letters == len(subscripts):
        return 0
    if ranks.get(name, -1) < letters:
        why = "is unknown" if name not in ranks else f"is unknown: {ranks[name]} axes have {letters} letters"
        shape = tuple(f"N{x}" for x in ("e0" if x == "." else x for x in subscripts.replace("...", ".")))
        raise PreconditionError(
            f"The number of axes for which '...' stands in '{name}' {why}.", subject=spec,
            hint=f"declare the axes in kernel_data, GlobalArg('{name}', shape={shape}), or give each a letter")
    return ranks[name] - letters
