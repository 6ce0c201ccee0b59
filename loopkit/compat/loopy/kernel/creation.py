"""make_kernel, make_function, make_einsum and make_copy_kernel with loopy's arguments."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.codegen import generated
from loopkit.compat.loopy.kernel.data import ArrayArg, GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.compat.loopy.kernel.definition import Parts
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.kernel.text import Extras, KernelText
from loopkit.compat.loopy.options import make_options, require_neutral
from loopkit.compat.loopy.target.base import TargetBase
from loopkit.compat.loopy.target.pyopencl import PyOpenCLTarget
from loopkit.compat.loopy.transform.data import tag_array_axes
from loopkit.compat.loopy.transform.iname import prioritize_loops
from loopkit.compat.loopy.translation_unit import TranslationUnit, for_each_kernel, make_program
from loopkit.compat.loopy.typing import auto, unless_auto
from loopkit.errors import PreconditionError


def make_kernel(domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel",
                assumptions: Any = None, target: Any = None, options: Any = None,
                temporary_variables: Mapping[str, TemporaryVariable] | None = None,
                substitutions: Mapping[str, SubstitutionRule] | None = None,
                fixed_parameters: Mapping[str, Any] | None = None, seq_dependencies: bool = False, tags: Any = None,
                default_order: Any = "C", loop_priority: Iterable[Sequence[str]] | None = None, index_dtype: Any = None,
                **others: Any) -> TranslationUnit:
    """A program of one kernel, from loopy's language.

    The statements get loopy's order: by ``dep=``, by the only writer of a name that they read, and by loops that are
    entered once. The kernel has this order as its text.

    :arg default_order: the order of the axes of arguments that declare none, ``"C"`` or ``"F"``.
    :arg loop_priority: for each group of loops their inames, the outermost first.

    >>> import loopkit.compat.loopy as lp
    >>> print(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]\\na[i] = 2*x[i]")["loopy_kernel"].core.statements_text)
    for i
      a[i] = 2*x[i]  {id=insn_0}
      y[i] = a[i]  {id=insn}
    end

    :raises PreconditionError: an argument is given for which loopkit has nothing.
    """
    preambles = _preambles(others.pop("preambles", ()), others.pop("preamble_generators", ()))
    require_neutral(others, signature(make_kernel).parameters)
    if unless_auto(default_order) not in (None, "C", "c", "F", "f"):
        raise PreconditionError(f"make_kernel: loopkit has nothing for default_order={default_order!r}.",
                                subject="default_order", hint="pass 'C', 'F' or lp.auto")
    silenced = others.get("silenced_warnings") or ()
    if not isinstance(target, TargetBase | None):
        raise PreconditionError(f"{target!r} is not a target.", subject="target",
                                hint="target=lp.ExecutableCTarget(), lp.PyOpenCLTarget() or lp.CudaTarget()")
    empty = LoopKernel(None, PyOpenCLTarget() if target is None else target, make_options(options), {}, frozenset(
        silenced.split(";") if isinstance(silenced, str) else silenced))
    text = KernelText(name, (), (), (), assumptions or None, seq_dependencies,
                      Extras(tuple((fixed_parameters or {}).items()), preambles), empty)
    parts = Parts(name, domains, instructions, list(_data(kernel_data)), temporary_variables or {}, substitutions or {})
    made = text.of(parts, empty).made()
    if index_dtype is not None:
        made = made.copy(index_dtype=index_dtype)
    if default_order not in ("C", "c", None):
        made = _in_order(made, default_order)
    for inames in loop_priority or ():
        made = prioritize_loops(made, inames)
    return make_program(made.tagged(tags) if tags else made)


@for_each_kernel
def _in_order(kernel: LoopKernel, order: Any) -> LoopKernel:
    """*kernel* with *order* of the arguments that declare none; ``auto``: arrays of any strides."""
    own = {a.name: kernel.declared.get(a.name, GlobalArg(a.name)) for a in kernel.core.array_args.values()
           if a.order is None and a.strides is None and a.shape != ()}
    chosen = [name for name, d in own.items() if isinstance(d, ArrayArg) and d.order is None]
    if unless_auto(order) and chosen:
        return kernel.with_core(lk.tag_array_axes(kernel.core, chosen, "F"))
    return replace(kernel, declared={**kernel.declared, **{name: own[name].copy(order=auto) for name in chosen}})


def make_function(*args: Any, **kwargs: Any) -> TranslationUnit:
    """A program of one kernel that no call enters, but other kernels may call."""
    return replace(make_kernel(*args, **kwargs), entrypoints=frozenset())


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


def apply_single_writer_dependency_heuristic(program: Any, warn_if_used: bool = True, error_if_used: bool = False
                                             ) -> Any:
    """Nothing changes: a kernel runs its statements in this order from the start."""
    return program


def _preambles(given: Any, generators: Any) -> tuple[tuple[str, str], ...]:
    """Definitions of C code, by their keys."""
    return (*map(tuple, given or ()), *generated(generators or ()))


def _data(kernel_data: Any) -> Iterable[Any]:
    """The items of *kernel_data*, one for each name."""
    if kernel_data is None:
        return ["..."]
    found: list[Any] = []
    for item in kernel_data.split(",") if isinstance(kernel_data, str) else kernel_data:
        if item is ...:
            found.append("...")
        elif isinstance(item, str):
            found += [word.strip() for word in item.split(",") if word.strip()]
        elif isinstance(item, ArrayArg | ValueArg | TemporaryVariable):
            found += [item.copy(name=name) for name in item.names]
        else:
            raise PreconditionError(f"make_kernel: kernel_data contains {item!r}.", subject=repr(item),
                                    hint="its items are arguments, temporaries, names, and '...'")
    return found
