"""make_einsum and make_copy_kernel."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopkit.compat.loopy.kernel.creation import make_kernel
from loopkit.compat.loopy.transform.data import tag_array_axes
from loopkit.compat.loopy.translation_unit import TranslationUnit


def make_einsum(spec: str, arg_names: Sequence[str], **knl_creation_kwargs: Any) -> TranslationUnit:
    """The kernel of an Einstein sum, ``"ij,j->i"``, of the arrays *arg_names*.

    >>> import loopkit.compat.loopy as lp
    >>> print(lp.make_einsum("ij,j->i", ["a", "x"], name="matvec")["matvec"].core.statements_text)
    for i
      out[i] = sum(j, a[i, j]*x[j])  {id=insn}
    end

    :raises ValueError: *spec* has another number of operands, or names an output axis twice.
    """
    left, _, out = spec.partition("->")
    operands, out = [part.strip() for part in left.split(",")], out.strip()
    if len(operands) != len(arg_names):
        raise ValueError(f"{spec} has {len(operands)} operands, and there are {len(arg_names)} names")
    if len(set(out)) != len(out):
        raise ValueError(f"{spec} names an axis of the output twice")
    every = sorted({*out, *"".join(operands)})
    product = "*".join(f"{name}[{', '.join(own)}]" if own else name
                       for name, own in zip(arg_names, operands, strict=True))
    summed = [x for x in every if x not in out]
    value = f"sum([{', '.join(summed)}], {product})" if summed else product
    knl_creation_kwargs.setdefault("name", f"einsum{len(every)}to{len(out)}_kernel")
    domain = f"{{[{', '.join(every)}]: {' and '.join(f'0 <= {x} < N{x}' for x in every)}}}"
    return make_kernel(domain, f"out[{', '.join(out) or '0'}] = {value}", **knl_creation_kwargs)


def make_copy_kernel(new_dim_tags: Any, old_dim_tags: Any = None) -> TranslationUnit:
    """The kernel that copies ``input`` to ``output``, which have the layouts of the arrays of a call.

    :raises PreconditionError: the tags are not the order of axes.
    """
    tags = new_dim_tags.split(",") if isinstance(new_dim_tags, str) else list(new_dim_tags)
    inames = [f"i{k}" for k in range(len(tags))]
    place = ", ".join(inames)
    bounds = " and ".join(f"0 <= i{k} < n{k}" for k in range(len(tags)))
    made = make_kernel(f"{{[{place}]: {bounds}}}", f"output[{place}] = input[{place}]")
    made = tag_array_axes(made, "output", new_dim_tags)
    result: TranslationUnit = made if old_dim_tags is None else tag_array_axes(made, "input", old_dim_tags)
    return result
