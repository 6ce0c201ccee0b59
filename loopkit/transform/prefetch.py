"""Staging: copies of what a tile reads (add_prefetch), and of what it computes (precompute)."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import declared, expand_rules
from loopkit.analysis.constructors import rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import Type, Weak, type_of
from loopkit.expr.indices import Typed, index_value, is_of_values
from loopkit.expr.mappers import children, subexpressions, substitute, variables
from loopkit.kernel.data import AddressSpace, SubstitutionRule
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.tags import InameTag
from loopkit.language.names import name_list
from loopkit.transform.side_effects import Allowed
from loopkit.transform.staging import Request, staged, uses_in
from loopkit.transform.step import as_address_space, as_tag, given_or_fresh, matching_statements, transform


@transform
def add_prefetch(kernel: LoopKernel, var_name: str, sweep_inames: str | Iterable[str] = (), *,
                 dim_arg_names: str | Iterable[str] | None = None, default_tag: str | InameTag | None = "l.auto",
                 fetch_outer_inames: str | Iterable[str] | None = None, temporary_name: str | None = None,
                 temporary_address_space: str | AddressSpace | None = None,
                 fetch_bounding_box: bool = False, box_multiples: int | Sequence[int] = 1,
                 prefetch_insn_id: str | None = None, within: str | Collection[str] | None = None,
                 allow_reordering: bool = False, allow_global_storage: bool = False, allow_launches: bool = False,
                 assume: str | None = None, unsafe: bool = False
                 ) -> LoopKernel:
    """Copy what *sweep_inames* read of an array into a temporary first, and read that instead.

    The copy stands in the innermost loop of *fetch_outer_inames*, right before the part that reads it. Its box is
    the least one that holds what is read; only elements that are read are copied (for a stencil: those of the box).
    Who writes and who reads the copy settles its address space: shared memory where threads read each other's
    elements.

    :arg var_name: an array argument or a temporary.
    :arg sweep_inames: the inames over which the copy spans; none copies one element.
    :arg dim_arg_names: names for the inames of the copy; default ``a_dim_0``, ...
    :arg default_tag: tag for them; ``"l.auto"`` spreads them over the threads of the block.
    :arg fetch_outer_inames: the loops around the copy; default: the reader's inames but those that sweep and those
        on which what is read does not depend (parallel inames of the grid, and loops in which the array is
        written, stay; so do all where moving them would break an order that was given or enlarge storage).
    :arg fetch_bounding_box: copy all of the box, as far as it lies inside the array, so that the loops of the copy are
        as plain as can be.
    :arg box_multiples: of which the lengths of a whole box become multiples, a number for each axis of more than one
        element, or one for all: split by as many, the loops of the copy have no remainder, and no condition.
    :arg allow_reordering: loops may change places, or be distributed, whose order was given: by ``for`` blocks,
        ``prioritize_loops``, ``interchange``, ``tile``, ...
    :arg allow_global_storage: existing temporaries may get more cells, or cells in a larger address space, and the copy
        may come to lie in global memory.
    :arg allow_launches: there may be more launches, or loops of the host.
    :raises UnknownNameError: no such array, or an iname that no reader has.
    :raises PreconditionError: nothing reads the array, a subscript is not affine (nor is for each value of an iname),
        or the box has no constant size; or a whole box is asked for, of an array that the kernel writes, or whose
        ends are not known; or multiples are no positive integers, one for each axis, or of no whole box.
    :raises ScheduleError: the readers do not share a place for the copy, or it needs one of these changes.
    :raises StorageError: it needs more storage for an existing temporary.
    :raises IllegalTransformError: the copy would miss a write, or moving a loop to make room breaks a dependence.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<16}", "y[i] = sum(j, a[j]*x[i, j])")
    >>> print(lk.add_prefetch(knl, "a", "j").statements_text)
    for a_dim_0 [l.auto]
      a_fetch[a_dim_0] = a[a_dim_0]  {id=a_fetch_rule}
    end
    for i
      y[i] = sum(j, a_fetch[j]*x[i, j])  {id=insn}
    end
    """
    if var_name not in kernel.array_args and var_name not in kernel.temporaries:
        raise unknown("array", var_name, [*kernel.array_args, *kernel.temporaries])
    through = {name: rule for name, rule in kernel.substitutions.items() if _reaches(kernel, name, var_name)}
    if through:
        kernel = _with_rules_written_out(kernel, through)

    def is_use(expr: Expression) -> tuple[Expression, ...] | None:
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(var_name):
            return expr.index_tuple
        return () if expr == p.Variable(var_name) else None
    source = kernel.array_args.get(var_name) or kernel.temporaries[var_name]
    return staged(kernel, Request(
        f"add_prefetch({var_name!r}, {list(name_list(sweep_inames))})", var_name, is_use,
        lambda args: p.Subscript(p.Variable(var_name), args) if args else p.Variable(var_name),
        name_list(sweep_inames), given_or_fresh(kernel, temporary_name, f"{var_name}_fetch"),
        None if dim_arg_names is None else name_list(dim_arg_names),
        None if default_tag is None else as_tag(default_tag),
        None if fetch_outer_inames is None else name_list(fetch_outer_inames),
        None if temporary_address_space is None else as_address_space(temporary_address_space),
        prefetch_insn_id, within, source, moves_only=var_name, whole_box=fetch_bounding_box, multiples=box_multiples,
        allowed=Allowed(allow_reordering, allow_global_storage, allow_launches), assume=assume, unsafe=unsafe))


@transform
def precompute(kernel: LoopKernel, subst_use: str, sweep_inames: str | Iterable[str] = (), *,
               precompute_inames: str | Iterable[str] | None = None,
               default_tag: str | InameTag | None = "l.auto",
               precompute_outer_inames: str | Iterable[str] | None = None, temporary_name: str | None = None,
               temporary_address_space: str | AddressSpace | None = None, fetch_bounding_box: bool = False,
               box_multiples: int | Sequence[int] = 1, compute_insn_id: str | None = None,
               within: str | Collection[str] | None = None, allow_reordering: bool = False,
               allow_global_storage: bool = False, allow_launches: bool = False, assume: str | None = None,
               unsafe: bool = False
               ) -> LoopKernel:
    """Compute the values of a substitution rule over *sweep_inames* into a temporary first, and read that instead.

    :arg subst_use: the name of the rule.
    :arg sweep_inames: the inames over which the temporary spans.
    :arg precompute_inames: names for the inames of the computation; default ``f_dim_0``, ...
    :arg precompute_outer_inames: the loops around the computation, as for :func:`add_prefetch`.
    :arg fetch_bounding_box: compute all of the box around what is read, as far as that reads inside of its arrays: of
        a stencil's cross the corners too. The loops of the computation are as plain as can be.
    :arg box_multiples: of which the lengths of a whole box become multiples, as for :func:`add_prefetch`.
    :arg allow_reordering: as for :func:`add_prefetch`; so are *allow_global_storage* and *allow_launches*.
    :raises UnknownNameError: no such rule, or an iname that no use has.
    :raises PreconditionError: nothing uses the rule, an argument is not affine, the box has no constant size, or the
        rule's values have no dtype of their own; or a whole box is asked for, of values made of what the kernel
        writes, or of an array whose ends are not known.
    :raises IllegalTransformError: the computation would miss a write, or moving a loop breaks a dependence.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<m}", "f(s) := sin(x[s])\\n y[i, j] = f(i)*z[j]")
    >>> print(lk.precompute(knl, "f", "i", default_tag=None).statements_text)
    for f_dim_0
      f_0[f_dim_0] = sin(x[f_dim_0])  {id=f_0_rule}
    end
    for i, j
      y[i, j] = f_0[i]*z[j]  {id=insn}
    end
    """
    if subst_use not in kernel.substitutions:
        raise unknown("substitution rule", subst_use, kernel.substitutions)
    rule = kernel.substitutions[subst_use]
    through = {name: r for name, r in kernel.substitutions.items()
               if name != subst_use and _reaches(kernel, name, subst_use)}
    if through:
        kernel = _with_rules_written_out(kernel, through)

    value = _own_value(kernel, rule, within)

    # inames that the rule mentions freely are arguments of it where they sweep
    free = tuple(x for x in name_list(sweep_inames) if x in variables(rule.expr) and x not in rule.arguments)

    def is_use(expr: Expression) -> tuple[Expression, ...] | None:
        own = tuple(p.Variable(x) for x in free)
        if isinstance(expr, p.Call) and expr.function == p.Variable(subst_use):
            return (*expr.parameters, *own)
        return own if not rule.arguments and expr == p.Variable(subst_use) else None
    result = staged(kernel, Request(
        f"precompute({subst_use!r}, {list(name_list(sweep_inames))})", subst_use, is_use,
        lambda args: substitute(value, dict(zip((*rule.arguments, *free), args, strict=True))),
        name_list(sweep_inames), given_or_fresh(kernel, temporary_name, subst_use),
        None if precompute_inames is None else name_list(precompute_inames),
        None if default_tag is None else as_tag(default_tag),
        None if precompute_outer_inames is None else name_list(precompute_outer_inames),
        None if temporary_address_space is None else as_address_space(temporary_address_space),
        compute_insn_id, within, None, whole_box=fetch_bounding_box, multiples=box_multiples,
        allowed=Allowed(allow_reordering, allow_global_storage, allow_launches), assume=assume, unsafe=unsafe))
    if any(uses_in(s, is_use) for s in result.statements):
        return result
    return rewritten(result, substitutions={k: r for k, r in result.substitutions.items() if k != subst_use})


def _own_value(kernel: LoopKernel, rule: SubstitutionRule, within: str | Collection[str] | None) -> Expression:
    """The body of *rule* as its cells hold it: an index where the rule is part of a subscript.

    :raises PreconditionError: its value is one in subscripts and another one elsewhere; or it takes the dtype of what
        is around it, and a cell cannot.
    """
    def typed(e: Expression) -> Type | None:
        return type_of(e, partial(declared, kernel))
    expr = expand_rules(rule.expr, kernel.substitutions)
    given = typed(expr)
    index = index_value(expr, typed)
    places = _places(kernel, rule, within, typed) if index != expr else {False}
    if True not in places:
        if isinstance(given, Weak):
            raise PreconditionError(
                f"The values of the rule '{rule.name}' have no dtype of their own: inames, sizes and literals take "
                "that of what is around them.", subject=rule.name,
                hint="give them one with cast(int64, ...) in the rule")
        return rule.expr
    if False in places:
        raise PreconditionError(
            f"'{rule.name}' is part of a subscript, in which integers are as wide as an index, and of a value, which "
            "has the dtype of what it reads: one temporary cannot hold both.", subject=rule.name,
            hint="name the statements of one kind with within=, or write cast(int64, ...) in the rule around what it "
                 "reads")
    compared = (e for e in subexpressions(expr) if isinstance(e, p.Comparison | p.Call))
    if any(typed(e) is None for c in compared for e in children(c)):
        raise PreconditionError(f"The dtypes of what '{rule.name}' compares in a subscript are not known.",
                                subject=rule.name, hint="declare them with add_dtypes")
    return index


def _places(kernel: LoopKernel, rule: SubstitutionRule, within: str | Collection[str] | None, typed: Typed
            ) -> set[bool]:
    """Where the statements use *rule*: as part of a subscript, elsewhere, or both."""
    others = {name: r for name, r in kernel.substitutions.items() if name != rule.name}
    chosen = matching_statements(kernel, within)
    found: set[bool] = set()

    def walk(e: Expression, *, inside: bool) -> None:
        if e == p.Variable(rule.name) or (isinstance(e, p.Call) and e.function == p.Variable(rule.name)):
            found.add(inside)
        inside = isinstance(e, p.Subscript) or (inside and not is_of_values(e, typed))
        for child in e.index_tuple if isinstance(e, p.Subscript) else children(e):
            walk(child, inside=inside)
    for s in kernel.statements:
        if chosen is None or s.id in chosen:
            walk(expand_rules(s.assignee, others), inside=False)
            walk(expand_rules(s.expression, others), inside=False)
    return found


# {{{ substitution rules in the way

def _reaches(kernel: LoopKernel, rule: str, name: str) -> bool:
    """Does the rule's body use *name*, itself or through other rules?"""
    body = expand_rules(kernel.substitutions[rule].expr,
                        {k: r for k, r in kernel.substitutions.items() if k not in (rule, name)})
    return name in variables(body) or any(
        isinstance(e, p.Call) and e.function == p.Variable(name) for e in subexpressions(body))


def _with_rules_written_out(kernel: LoopKernel, rules: Mapping[str, SubstitutionRule]) -> LoopKernel:
    return rewritten(
        kernel, statements=tuple(replace(s, expression=expand_rules(s.expression, rules)) for s in kernel.statements),
        substitutions={k: r for k, r in kernel.substitutions.items() if k not in rules})

# }}}
