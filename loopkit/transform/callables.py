"""register_callable: a function that later steps may call."""
from __future__ import annotations

from loopkit.analysis.constructors import annotated
from loopkit.errors import PreconditionError
from loopkit.expr.functions import ScalarFunction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Obligation
from loopkit.transform.step import require_fresh, transform


@transform
def register_callable(kernel: LoopKernel, function_identifier: str, callable_: ScalarFunction) -> LoopKernel:
    """Add a function of the user to the language of *kernel*, for the texts of later steps.

    The ``functions=`` of :func:`make_kernel` adds functions that the statements call.

    :arg function_identifier: the name of *callable_*.
    :raises NameConflictError: the kernel has another use for the name.
    :raises PreconditionError: the function has another name.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> cube = lk.ScalarFunction("cube", 1, text={"c": "{0}*{0}*{0}"}, reference=lambda x: x**3)
    >>> list(lk.register_callable(knl, "cube", cube).functions)
    ['cube']
    """
    if function_identifier != callable_.name:
        raise PreconditionError(f"The function '{callable_.name}' cannot be called '{function_identifier}'.",
                                subject=function_identifier,
                                hint=f"register_callable(knl, '{callable_.name}', ...)")
    require_fresh(kernel, function_identifier, called=True)
    claim = Obligation("register_callable", callable_.claim, callable_.ground)
    return annotated(kernel, functions={**kernel.functions, callable_.name: callable_},
                     obligations=(*kernel.obligations, claim))
