"""loopy's steps for substitution rules, expressions, parameters and assumptions."""
from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.definition import condition_names, condition_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.spelling import names_in
from loopkit.compat.loopy.tagged import rules_matching, rules_of_tags
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.translation_unit import core_of, for_each_kernel, kernels_of, same_step
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.nodes import to_text


@for_each_kernel
def extract_subst(kernel: LoopKernel, subst_name: str, template: Any, parameters: Any = (), within: Any = None
                  ) -> LoopKernel:
    """:func:`loopkit.extract_subst`."""
    text = with_parentheses(template) if isinstance(template, str) else to_text(template)
    return kernel.with_core(lk.extract_subst(kernel.core, subst_name, text, parameters, within=as_within(within)))


@for_each_kernel
def expand_subst(kernel: LoopKernel, within: Any = None) -> LoopKernel:
    """:func:`loopkit.expand_subst`.

    :arg within: ``"... > id:f"`` selects the rule ``f``, ``"id:one > id:f"`` its uses in the statement ``one``,
        ``"... > id:f > id:g"`` the uses of ``g`` in the rule ``f``, and ``"... > id:f and tag:t"`` those written
        ``f$t``.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "f(k) := 2*x[k]\\n y[i] = f$t(i) + f(0)")
    >>> print(lp.expand_subst(knl, "... > id:f and tag:t")["loopy_kernel"].core.statements_text)
    for i
      y[i] = 2*x[i] + f(0)  {id=insn}
    end

    :raises PreconditionError: no rule is selected.
    """
    first, *stack = (part.strip() for part in str(within).split(">"))
    if not stack:
        return kernel.with_core(lk.expand_subst(kernel.core, within=as_within(within)))
    core, tagged = kernel.core, kernel.origin.tagged
    *around, chosen = (rules_matching(core, tagged, part) for part in stack)
    if around and (first != "..." or len(around) > 1):
        raise PreconditionError(f"expand_subst: loopkit has nothing for within='{within}'.", subject="within",
                                hint="name the rule around the use only: '... > id:f > id:g'")
    for rule in dict.fromkeys((*chosen, *(x for rules in around for x in rules))):
        # the uses with a tag get a body of their own
        if rule in rules_of_tags(core, tagged) and tagged[rule][0] in core.substitutions:
            core = lk.expand_subst(core, tagged[rule][0], in_rules=rule)
    if not around:
        return kernel.with_core(lk.expand_subst(core, chosen, within=None if first == "..." else first))
    for rule in around[0]:
        core = lk.expand_subst(core, chosen, in_rules=rule)
    return kernel.with_core(core)


@for_each_kernel
def _assumed(kernel: LoopKernel, assumptions: Any) -> LoopKernel:
    own = about_arguments(assumptions, kernel.core.written_names)
    if own is None or condition_names(own).isdisjoint(kernel.core.value_params):
        return kernel
    return kernel.with_core(lk.assume(kernel.core, own))


#: The words and signs of a condition that is not a list of others.
_NO_LIST = re.compile(r"\b(?:or|not|exists|implies)\b|[|!;(]")


def about_arguments(given: Any, written: AbstractSet[str]) -> Any:
    """The conditions *given* on other names than those *written*, which are weaker; ``None``: there are none.

    >>> about_arguments("[n, t] -> { : n > 3 and t >= 0 }", {"t"})
    'n > 3'
    """
    text = condition_of(given)
    if given is None or written.isdisjoint(names_in(text)):
        return given
    parts = [] if _NO_LIST.search(text) else re.split(r"\band\b|&&", text)
    return " and ".join(x.strip() for x in parts if written.isdisjoint(names_in(x))) or None


def assume(program: Any, assumptions: Any) -> Any:
    """:func:`loopkit.assume`, in the kernels that have the parameters.

    :raises UnknownNameError: no kernel has one of them.
    """
    kernels = kernels_of(program)
    if all(k.made is not None for k in kernels):
        known = {x for k in kernels for x in (*k.core.value_params, *k.core.written_names)}
        if known.isdisjoint(names := condition_names(assumptions)):
            require_known("parameter", sorted(names), sorted({x for k in kernels for x in k.core.value_params}))
    return _assumed(program, assumptions)


@for_each_kernel
def fix_parameters(kernel: LoopKernel, /, *, within: Any = None, **value_dict: Any) -> LoopKernel:
    """:func:`loopkit.fix_parameters` of the arguments that the kernel has.

    :raises PreconditionError: *within* selects statements; a parameter has one value in the whole kernel.
    """
    if as_within(within) not in (None, "*"):
        raise PreconditionError("fix_parameters: loopkit has nothing for within=.", subject="within",
                                hint="a parameter has one value in the whole kernel")
    own = {name: value for name, value in value_dict.items() if name in kernel.core.argument_by_name}
    return separated(kernel.with_core(lk.fix_parameters(kernel.core, **own))) if own else kernel


@for_each_kernel
def add_barrier(kernel: LoopKernel, insn_before: Any = "", insn_after: Any = "", id_based_on: str | None = None,
                tags: Any = None, synchronization_kind: str = "global", mem_kind: str | None = None,
                within_inames: Any = None) -> LoopKernel:
    """:func:`loopkit.add_barrier`, which also orders the two statements."""
    first, second = _id(insn_before), _id(insn_after)
    core = lk.add_barrier(kernel.core, first, second, synchronization_kind=synchronization_kind)
    before = kernel.origin.order.after.get(second)
    return kernel.with_core(core) if before is None else kernel.with_core(core).with_order(
        after={second: before | {first}})


@for_each_kernel
def set_options(kernel: LoopKernel, /, *args: Any, **options: Any) -> LoopKernel:
    """loopy's options; loopkit's own are set by :func:`loopkit.set_options`."""
    words = {} if not args else {k.strip(): True for k in args[0].split(",")} if isinstance(args[0], str) else dict(
        args[0])
    return kernel.copy(options=kernel.options.changed({**words, **options}))


def _id(match: Any) -> str:
    return str(match).removeprefix("id:")


@for_each_kernel
def assignment_to_subst(kernel: LoopKernel, lhs_name: str, extra_arguments: Any = (), within: Any = None,
                        force_retain_argument: bool = False) -> LoopKernel:
    """:func:`loopkit.assignment_to_subst`; an argument keeps its assignment, because a call returns its values."""
    return kernel.with_core(lk.assignment_to_subst(kernel.core, lhs_name, extra_arguments, as_within(within)))


def find_rules_matching(kernel: Any, pattern: str) -> list[str]:
    """:func:`loopkit.find_rules_matching`."""
    return lk.find_rules_matching(core_of(kernel), pattern)


def find_one_rule_matching(program: Any, pattern: str) -> str:
    """:func:`loopkit.find_one_rule_matching`."""
    return lk.find_one_rule_matching(core_of(program), pattern)


collect_common_factors_on_increment = same_step(lk.collect_common_factors_on_increment)
fold_constants = same_step(lk.fold_constants)
simplify_indices = same_step(lk.simplify_indices)
