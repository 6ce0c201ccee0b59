"""loopy's steps for arguments, temporaries and copies."""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array, expand_rules
from loopkit.analysis.ranges import iname_span
from loopkit.compat.loopy.diagnostic import LoopyWarning
from loopkit.compat.loopy.dtypes import dtype_of, with_inferred, with_loopy_dtypes
from loopkit.compat.loopy.index_of import places_in
from loopkit.compat.loopy.kernel.data import AddressSpace, ArrayArg, GlobalArg, as_address_space, tags_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within, ordered_names
from loopkit.compat.loopy.tagged import rules_matching
from loopkit.compat.loopy.translation_unit import TranslationUnit, entered, for_each_kernel, kernels_of, same_step
from loopkit.compat.loopy.types import as_numpy
from loopkit.compat.loopy.typing import auto
from loopkit.errors import PreconditionError, ScheduleError, TypeInferenceError
from loopkit.expr.mappers import has_reduction, subexpressions, substitute, variables
from loopkit.kernel.folding import uses_of_rule
from loopkit.kernel.tags import GroupTag
from loopkit.language.names import fresh, name_list

#: loopy gives no order of loops, so steps may choose one.
_FREE: Mapping[str, Any] = {"allow_reordering": True, "allow_launches": True}


#: ``a[:, :]``: all accesses of ``a``.
_WHOLE = re.compile(r"\[[\s:,]*\]\s*$")


@for_each_kernel
def add_prefetch(kernel: LoopKernel, var_name: str, sweep_inames: Any = None, dim_arg_names: Any = None,
                 default_tag: Any = None, rule_name: str | None = None, temporary_name: str | None = None,
                 temporary_address_space: Any = None, temporary_scope: Any = None, footprint_subscripts: Any = None,
                 fetch_bounding_box: bool = False, fetch_outer_inames: Any = None,
                 prefetch_insn_id: str | None = None, within: Any = None) -> LoopKernel:
    """:func:`loopkit.add_prefetch`, which may reorder loops if the dependences allow it.

    If *temporary_name* is a temporary already, the copy gets one of its own: several copies share none.
    """
    if footprint_subscripts is not None:
        raise PreconditionError("add_prefetch: loopkit has nothing for footprint_subscripts=.",
                                subject="footprint_subscripts", hint="sweep_inames= describes what is copied")
    if temporary_name in kernel.core.temporaries:
        temporary_name = kernel.core.fresh_name(str(temporary_name))
    if "$" in var_name:
        return kernel.with_core(_prefetch_of_tag(
            kernel, var_name, _listed(sweep_inames) or (), default_tag=default_tag,
            precompute_inames=_listed(dim_arg_names), precompute_outer_inames=_listed(fetch_outer_inames),
            temporary_name=temporary_name, temporary_address_space=_space(temporary_address_space),
            fetch_bounding_box=fetch_bounding_box, compute_insn_id=prefetch_insn_id, within=as_within(within), **_FREE))
    name, sweep, outer = _WHOLE.sub("", var_name), _listed(sweep_inames), _listed(fetch_outer_inames)
    if sweep is None:
        sweep = () if name == var_name or outer is None else _inames_within(kernel.core, name, outer)
    options: dict[str, Any] = {
        "dim_arg_names": _listed(dim_arg_names), "default_tag": default_tag,
        "fetch_outer_inames": outer, "temporary_name": temporary_name,
        "temporary_address_space": _space(temporary_address_space if temporary_scope is None else temporary_scope),
        "fetch_bounding_box": fetch_bounding_box, "prefetch_insn_id": prefetch_insn_id, "within": as_within(within),
        **_FREE}
    reads = [a.subscripts for a in accesses_by_array(kernel.core).get(name, ()) if not a.is_write]
    return kernel.with_core(_for_all_uses(lk.add_prefetch, kernel.core, name, sweep, reads, options))


def _prefetch_of_tag(kernel: LoopKernel, text: str, sweep: Sequence[str], **options: Any) -> lk.LoopKernel:
    """The core of *kernel* with a copy of the elements that ``"a$t[i, :]"`` reads, which a rule names."""
    core, (name, _, subscripts) = kernel.core, text.partition("[")
    array, _, tag = map(str.strip, name.partition("$"))
    [rule] = rules_matching(core, kernel.origin.tagged, f"id:{array} and tag:{tag}")
    whole = [k for k, x in enumerate(subscripts.rpartition("]")[0].split(",")) if x.strip() == ":"]
    inames = (x for args in _arguments_of_uses(core, rule) for k in whole for x in core.inames
              if x in variables(args[k]) and not isinstance(core.tags.get(x), GroupTag))
    names = [core.fresh_name(f"{array}_dim_{k}") for k in range(len(core.substitutions[rule].arguments))]
    own = options["temporary_name"] or core.fresh_name(f"{array}_fetch")
    return lk.precompute(core, rule, tuple(dict.fromkeys((*sweep, *inames))), **{
        **options, "temporary_name": own, "precompute_inames": options["precompute_inames"] or names,
        "compute_insn_id": options["compute_insn_id"] or fresh(f"{own}_rule", {*core.statement_by_id})})


def _inames_within(core: lk.LoopKernel, name: str, outer: Sequence[str]) -> tuple[str, ...]:
    """The inames in subscripts of *name*, without those of the loops *outer*: the copy is of all that these read."""
    found = {x for a in accesses_by_array(core).get(name, ()) for e in a.subscripts for x in variables(e)}
    return tuple(x for x in core.inames if x in found and x not in outer)


def _for_all_uses(step: Callable[..., lk.LoopKernel], core: lk.LoopKernel, name: str, sweep: Sequence[str],
                  uses: Sequence[Sequence[Expression]], options: Mapping[str, Any]) -> lk.LoopKernel:
    """*step* of *name*, with a wider sweep if its *uses* need it: one copy serves all of them."""
    # the history then has no defaults; None is not the default of the tag
    options = {x: value for x, value in options.items()
               if (value is not None and value is not False) or x == "default_tag"}
    try:
        return step(core, name, sweep, **options)
    except ScheduleError:
        if (wider := _with_inames_of_all_uses(core, uses, sweep)) == tuple(sweep):
            raise
    return step(core, name, wider, **options)


def _with_inames_of_all_uses(core: lk.LoopKernel, reads: Sequence[Sequence[Expression]], sweep: Sequence[str]
                             ) -> tuple[str, ...]:
    """*sweep* with the inames that others of *reads* have in its place."""
    swept = {axis for subscripts in reads for axis, i in enumerate(subscripts) if not variables(i).isdisjoint(sweep)}
    others = {x for subscripts in reads for axis, i in enumerate(subscripts) if axis in swept for x in variables(i)}
    return (*sweep, *(x for x in core.inames if x in others and x not in sweep))


@for_each_kernel
def precompute(kernel: LoopKernel, /, subst_use: Any, sweep_inames: Any = None, within: Any = None, *,
               storage_axes: Any = None, temporary_name: str | None = None, precompute_inames: Any = None,
               precompute_outer_inames: Any = None, storage_axis_to_tag: Any = None, default_tag: Any = None,
               dtype: Any = None, fetch_bounding_box: bool = False, temporary_address_space: Any = None,
               compute_insn_id: str | None = None, _enable_mirgecom_workaround: bool = False, **others: Any
               ) -> LoopKernel:
    """:func:`loopkit.precompute`, which may reorder loops if the dependences allow it.

    :arg subst_use: the rule; ``"f(i, j)"`` makes one copy of the values that all of its uses need.
    """
    for name, value in {"storage_axes": storage_axes, "storage_axis_to_tag": storage_axis_to_tag, **others}.items():
        if value:
            raise PreconditionError(f"precompute: loopkit has nothing for {name}={value!r}.", subject=name)
    use, given, _ = (subst_use if isinstance(subst_use, str) else ", ".join(map(str, subst_use))).partition("(")
    core, use, sweep = kernel.core, use.strip(), tuple(_listed(sweep_inames) or ())
    uses = _arguments_of_uses(core, use)
    if given:                                                       # one copy of all that the uses need
        sweep = _with_inames_of_all_uses(core, uses, sweep)
    names = _axis_names(core, use, sweep, _listed(precompute_inames) or ())
    known = {core.fresh_name(x, *names): x for x in names if x in core.inames}
    separate = {x: own for own, x in known.items()}
    options: dict[str, Any] = {
        "precompute_inames": [separate.get(x, x) for x in names] or None,
        "default_tag": default_tag, "precompute_outer_inames": _listed(precompute_outer_inames),
        "temporary_name": temporary_name, "temporary_address_space": _space(temporary_address_space),
        "fetch_bounding_box": fetch_bounding_box,
        "compute_insn_id": compute_insn_id or fresh(use, {*core.statement_by_id}),
        "dtype": value_dtype(core, use) if dtype is None or dtype is auto else as_numpy(dtype),
        "within": as_within(within), **_FREE}
    # an accumulator of the rule may also need a cell for each value
    is_global = options["temporary_address_space"] == "global"
    options |= {"allow_global_storage": True} if is_global else {}
    result = _for_all_uses(lk.precompute, core, use, sweep, uses, options)
    for own, x in known.items():
        result = _in_loop_over(result, own, x) if own in result.inames else result
    new, copy = kernel.with_core(result), options["compute_insn_id"]
    if not is_global:
        return new
    readers = new.reader_map().get(result.statement_by_id[copy].written, ())
    return replace(new, origin=replace(new.origin, order=new.origin.order.with_barrier(
        f"{copy}_barrier", copy, readers)))


def _arguments_of_uses(core: lk.LoopKernel, name: str) -> list[Sequence[Expression]]:
    """The arguments of each use of the rule *name* in the statements."""
    rule = core.substitutions.get(name)
    if rule is None:
        return []
    if has_reduction(rule.expr):
        return [args for s in core.statements for _, args in uses_of_rule(core, rule, s)]
    others = {x: r for x, r in core.substitutions.items() if x != name}
    return [e.parameters for s in core.statements for e in subexpressions(expand_rules(s.expression, others))
            if isinstance(e, p.Call) and e.function == p.Variable(name)]


def _axis_names(core: lk.LoopKernel, rule_name: str, sweep: Sequence[str], given: Sequence[str]) -> list[str]:
    """Names for the axes of a copy of a rule's values: those *given*, then loopy's.

    loopy has the axes of swept inames that the rule mentions first, and loopkit those of its arguments.
    """
    if rule_name not in core.substitutions:
        return []
    rule = core.substitutions[rule_name]
    free = [x for x in sweep if x in variables(expand_rules(rule.expr, core.substitutions))
            and x not in rule.arguments]
    taken = {*core.names_outside_rules, *given}
    likes = [*(f"{rule_name}_{x}" for x in free), *rule.arguments]
    names = [*given, *(fresh(like, taken) for like in likes[len(given):])]
    return names[len(free):] + names[:len(free)]


def value_dtype(core: lk.LoopKernel, rule_name: str) -> Any:
    """The dtype of a rule of inames, sizes and literals in loopy; ``None``: loopkit infers it."""
    rule = core.substitutions.get(rule_name)
    if rule is None:
        return None
    expr = expand_rules(rule.expr, core.substitutions)
    known = has_reduction(expr) or not variables(expr) <= {*rule.arguments, *core.inames, *core.value_params}
    return None if known else dtype_of(substitute(expr, dict.fromkeys(rule.arguments, 1)), core)


def _in_loop_over(core: lk.LoopKernel, own: str, known: str) -> lk.LoopKernel:
    """*core* with the loop over *own* fused into the one over *known*; :raises PreconditionError: its values differ."""
    a, b = (iname_span(core, x).set for x in (own, known))
    if not a.is_equal(b):
        raise PreconditionError(f"The iname '{known}' exists, and has other values than the copy.", subject=known,
                                hint="give another name in precompute_inames=")
    return lk.rename_inames(core, [own], known, existing_ok=True)


@for_each_kernel
def buffer_array(kernel: LoopKernel, var_name: str, buffer_inames: Any, init_expression: Any = None,
                 store_expression: Any = None, within: Any = None, default_tag: Any = "l.auto",
                 temporary_scope: Any = None, temporary_is_local: bool | None = None,
                 fetch_bounding_box: bool = False, temporary_address_space: Any = None) -> LoopKernel:
    """:func:`loopkit.buffer_array`."""
    space = temporary_address_space if temporary_scope is None else temporary_scope
    space = AddressSpace.LOCAL if temporary_is_local else space
    return kernel.with_core(lk.buffer_array(
        with_inferred(kernel.core), var_name, _listed(buffer_inames) or (), _text(init_expression),
        _text(store_expression),
        within=as_within(within), default_tag=default_tag, temporary_address_space=_space(space),
        fetch_bounding_box=fetch_bounding_box, **_FREE))


@for_each_kernel
def add_padding_to_avoid_bank_conflicts(kernel: LoopKernel, device: Any) -> LoopKernel:
    """:func:`loopkit.add_padding` of arrays in shared memory: each row gets an odd number of elements.

    The elements of a column are then in different banks. Memory of other kinds, of the declared shapes, and of vectors
    stays as it is.
    """
    core = kernel.core
    for x in lk.lower(with_loopy_dtypes(core), stop="storage").storages.values():
        own = core.temporaries.get(x.name)
        if own is not None and x.space is lk.AddressSpace.SHARED and len(x.in_memory) > 1 and not (
                own.fixed or x.dtype.itemsize < 4) and isinstance(columns := x.in_memory[-1], int) and columns % 2 == 0:
            order = own.layout.order or range(len(x.in_memory))
            core = lk.add_padding(core, x.name, order[-2], by=1)
    return kernel.with_core(core)


@for_each_kernel
def rename_argument(kernel: LoopKernel, old_name: str, new_name: str, existing_ok: bool = False) -> LoopKernel:
    """:func:`loopkit.rename_argument`."""
    if old_name in {x.array for x in places_in(kernel.core)}:
        raise PreconditionError(f"'{old_name}' is the array of indexof, which has its name.", subject=old_name,
                                hint="rename it in the text")
    own = {new_name if name == old_name else name: d for name, d in kernel.declared.items()}
    return replace(kernel.with_core(lk.rename_argument(kernel.core, old_name, new_name)), declared=own)


@for_each_kernel
def set_temporary_address_space(kernel: LoopKernel, temp_var_names: Any, address_space: Any) -> LoopKernel:
    """:func:`loopkit.set_temporary_address_space`."""
    space = _space(address_space)
    return kernel if space is None else kernel.with_core(
        lk.set_temporary_address_space(kernel.core, temp_var_names, space))


set_temporary_scope = set_temporary_address_space


def tag_array_axes(program: Any, ary_names: Any, dim_tags: Any) -> Any:
    """:func:`loopkit.tag_array_axes`; an axis with ``sep`` is separated when its extent is constant.

    ``sep`` separates axes of the kernels that a call may enter. Their calls of functions pass the array as a whole.
    """
    if not isinstance(program, TranslationUnit) or "sep" not in str(dim_tags):
        return _axes_tagged(program, ary_names, dim_tags)
    for name in sorted(program.entrypoints):
        program = program.with_kernel(_axes_tagged(program[name], ary_names, dim_tags))
    return program


@for_each_kernel
def _axes_tagged(kernel: LoopKernel, ary_names: Any, dim_tags: Any) -> LoopKernel:
    tags = tags_of(dim_tags)
    counted = {x.array for x in places_in(kernel.core) if x.function == "indexof" and "vec" in tags}
    for name in counted.intersection(name_list(ary_names)):
        raise PreconditionError(f"'{name}' has elements of vectors, and 'indexof' is the number of a vector then.",
                                subject=name, hint=f"indexof_vec({name}[...]) is the number of an element")
    if "sep" not in tags:
        return kernel.with_core(_with_axis_tags(kernel.core, name_list(ary_names), tags))
    own = {name: given.copy(dim_tags=tags) if isinstance(given := kernel.declared.get(name), ArrayArg) else
           GlobalArg(name, dim_tags=tags) for name in name_list(ary_names)}
    return separated(replace(kernel.with_core(kernel.core), declared={**kernel.declared, **own}))


def _with_axis_tags(core: lk.LoopKernel, names: Sequence[str], tags: Sequence[str]) -> lk.LoopKernel:
    own = [tag.upper() if tag in ("c", "f") else tag for tag in tags]
    if len(own) > 1 and len({*own}) == 1 and own[0] in ("C", "F"):
        own = own[:1]
    return lk.tag_array_axes(core, names, ",".join(own))


def separated(kernel: LoopKernel, *, finally_: bool = False) -> LoopKernel:
    """*kernel* with the axes that are declared ``sep`` as arguments, if their extents are constant.

    :arg finally_: no later step makes an extent constant.
    :raises PreconditionError: *finally_*, and an extent is not constant.
    """
    core = kernel.core
    for name, d in kernel.declared.items():
        if isinstance(d, ArrayArg) and d.separates and name in core.array_args:
            shown, tags = kernel.arg_dict[name], tags_of(d.dim_tags)
            shape: Any = shown.shape if isinstance(shown, ArrayArg) else auto
            if finally_ or shape is auto or len(shape) != len(tags) or all(
                    isinstance(extent, int) for extent, tag in zip(shape, tags, strict=True) if tag == "sep"):
                core = _with_axis_tags(core, [name], tags)
    return kernel if core is kernel.core else replace(kernel, made=core)


tag_data_axes = tag_array_axes


@for_each_kernel
def set_array_axis_names(kernel: LoopKernel, ary_names: Any, dim_names: Any) -> LoopKernel:
    """loopkit names the axes of an array by their numbers, so nothing changes."""
    return kernel


set_array_dim_names = set_array_axis_names


@for_each_kernel
def privatize_temporaries_with_inames(kernel: LoopKernel, privatizing_inames: Any, only_var_names: Any = None
                                      ) -> LoopKernel:
    """:func:`loopkit.privatize`."""
    return kernel.with_core(lk.privatize(kernel.core, _listed(privatizing_inames) or (), _listed(only_var_names)))


@for_each_kernel
def unprivatize_temporaries_with_inames(kernel: LoopKernel, privatizing_inames: Any, only_var_names: Any = None
                                        ) -> LoopKernel:
    """:func:`loopkit.contract` of each temporary."""
    names = kernel.core.temporaries if only_var_names is None else ordered_names(only_var_names)
    core = kernel.core
    for name in sorted(names):
        try:
            core = lk.contract(core, name, ordered_names(privatizing_inames))
        except PreconditionError:
            if only_var_names is not None:
                raise
    return kernel.with_core(core)


def add_dtypes(program: Any, dtype_dict: Mapping[str, Any]) -> Any:
    """:func:`loopkit.add_dtypes`, whose keys may name several arrays.

    A name that no kernel of the program has gives a warning.
    """
    return _with_dtypes_of(program, dtype_dict, None)


def add_and_infer_dtypes(prog: Any, dtype_dict: Mapping[str, Any], expect_completion: bool = False,
                         kernel_name: str | None = None) -> Any:
    """:func:`loopkit.add_dtypes`, also of what loopy infers from these; see :func:`infer_unknown_types`."""
    return infer_unknown_types(_with_dtypes_of(prog, dtype_dict, kernel_name), expect_completion)


def _with_dtypes_of(program: Any, dtype_dict: Mapping[str, Any], kernel_name: str | None) -> Any:
    wanted = {name: as_numpy(dtype) for names, dtype in dtype_dict.items() for name in name_list(names)
              if dtype is not None and dtype is not auto}
    known = {name for k in kernels_of(program) if k.made is not None
             for name in (*k.core.argument_by_name, *k.core.temporaries, *k.declared)}
    for name in wanted if known else ():
        if name not in known:
            warnings.warn(f"add_dtypes: no kernel has an argument or a temporary '{name}'.", LoopyWarning, stacklevel=3)
    if isinstance(program, TranslationUnit):
        return program.mapped(lambda k: _typed(k, wanted) if kernel_name in (None, k.name) else k)
    return _typed(program, wanted)


@for_each_kernel
def _typed(kernel: LoopKernel, wanted: Mapping[str, Any]) -> LoopKernel:
    known = {name: dtype for name, dtype in wanted.items()
             if name in kernel.core.argument_by_name or name in kernel.core.temporaries}
    return kernel.with_core(lk.add_dtypes(kernel.core, known)) if known else kernel


def infer_unknown_types(program: Any, expect_completion: bool = False) -> Any:
    """Declare the dtypes that loopy infers from those that are known.

    :raises TypeInferenceError: *expect_completion* is true, and a dtype of a kernel that a call enters is not known.
    """
    done = _with_inferred(program)
    for kernel in entered(done) if expect_completion else ():
        unknown = [name for name, d in kernel.core.data.items() if d.dtype is None]
        if unknown:
            raise TypeInferenceError(f"The dtype of '{unknown[0]}' of kernel '{kernel.name}' is not known.",
                                     subject=unknown[0], hint="lp.add_dtypes declares it")
    return done


@for_each_kernel
def _with_inferred(kernel: LoopKernel) -> LoopKernel:
    return kernel.with_core(with_inferred(kernel.core))


def _listed(names: Any) -> tuple[str, ...] | None:
    return None if names is None else ordered_names(names)


def _space(space: Any) -> str | None:
    found = as_address_space(space)
    return None if found is None else found.core


def _text(expression: Any) -> str | None:
    return None if expression is None else str(expression)


@for_each_kernel
def reduction_arg_to_subst_rule(kernel: LoopKernel, inames: Any, insn_match: Any = None,
                                subst_rule_name: str | None = None) -> LoopKernel:
    """:func:`loopkit.reduction_arg_to_subst_rule`."""
    return kernel.with_core(lk.reduction_arg_to_subst_rule(kernel.core, inames, as_within(insn_match),
                                                           subst_rule_name))


remove_unused_arguments = same_step(lk.remove_unused_arguments)
set_argument_order = same_step(lk.set_argument_order)
