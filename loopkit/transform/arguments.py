"""The list of a kernel's arguments: its order, and the arguments that nothing uses."""
from __future__ import annotations

from collections.abc import Iterable

from loopkit.analysis.constructors import annotated
from loopkit.analysis.match import matching_names
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.mappers import variables
from loopkit.kernel.data import GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.sets import InstanceSet
from loopkit.transform.reindex import mentioned
from loopkit.transform.step import transform


@transform
def set_argument_order(kernel: LoopKernel, arg_names: str | Iterable[str]) -> LoopKernel:
    """Set the order of the arguments, in calls and in the generated function.

    :arg arg_names: all arguments in their new order, a list or a text with commas.
    :raises UnknownNameError: a name is not an argument.
    :raises PreconditionError: an argument is left out, or named twice.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> [a.name for a in lk.set_argument_order(knl, "y, x, n").arguments]
    ['y', 'x', 'n']
    """
    names = matching_names(arg_names, kernel.argument_by_name)
    require_known("argument", names, kernel.argument_by_name)
    if missing := [x for x in kernel.argument_by_name if x not in names]:
        raise PreconditionError(f"The order leaves out the argument '{missing[0]}'.", subject=missing[0],
                                hint="name each argument once")
    if twice := [x for k, x in enumerate(names) if x in names[:k]]:
        raise PreconditionError(f"The order has the argument '{twice[0]}' twice.", subject=twice[0],
                                hint="name each argument once")
    return annotated(kernel, arguments=tuple(kernel.argument_by_name[x] for x in names))


@transform
def remove_unused_arguments(kernel: LoopKernel) -> LoopKernel:
    """Remove the arguments that no statement, domain, rule or shape uses, and the assumptions about them.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", [lk.ValueArg("alpha"), "..."])
    >>> [a.name for a in lk.remove_unused_arguments(knl).arguments]
    ['n', 'x', 'y']
    """
    sets = {id(d): d for d in (*(s.domain for s in kernel.statements), *kernel.declared_domains)}
    used = {x for d in sets.values() for x in d.params}
    used.update(*map(mentioned, kernel.statements), *(variables(rule.expr) for rule in kernel.substitutions.values()))
    left = [a for a in kernel.arguments if a.name in used or not isinstance(a, GlobalArg)]
    for shape in (d.shape for d in (*left, *kernel.temporaries.values()) if not isinstance(d, ValueArg)):
        used.update(*map(variables, shape or ()))
    gone = kernel.argument_by_name.keys() - used
    return annotated(kernel, arguments=tuple(a for a in left if a.name in used),
                     assumptions=InstanceSet((), kernel.assumptions).without_params(gone).set)
