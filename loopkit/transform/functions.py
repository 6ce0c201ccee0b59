"""Inlining: a call of a function is no longer a function in the generated code."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.constructors import rewritten
from loopkit.kernel.kernel import LoopKernel
from loopkit.transform.step import known_list, matching_statements, transform


@transform
def inline_callable_kernel(kernel: LoopKernel, function_name: str | Iterable[str], *, within: str | None = None
                           ) -> LoopKernel:
    """Inline the calls of functions: the generated code has their statements in the place of the calls.

    The statements, their order and all dependences stay as they are.

    >>> twice = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="twice")
    >>> knl = lk.make_kernel("{[i]: 0<=i<m}", "y[i,:] = twice(x[i,:], 4)", functions=[twice])
    >>> print(lk.inline_callable_kernel(knl, "twice").statements_text)
    for i, j
      y[i, j] = 2*x[i, j]  {id=twice_insn}
    end

    :arg function_name: one or several names of functions.
    :arg within: selects calls by the statements that they embed; default: all.
    :raises UnknownNameError: *kernel* calls no function of this name.
    """
    names = known_list("function", function_name, {region.function for region in kernel.calls.values()})
    chosen = matching_statements(kernel, within)
    gone = {call for s in kernel.statements if s.id in chosen for call in s.options.calls
            if kernel.calls[call].function in names}
    return rewritten(kernel, calls={call: region for call, region in kernel.calls.items() if call not in gone},
                     statements=tuple(replace(s, options=replace(
                         s.options, calls=tuple(call for call in s.options.calls if call not in gone)))
                         for s in kernel.statements))


def with_calls_inlined(kernel: LoopKernel) -> LoopKernel:
    """*kernel* with all of its calls inlined."""
    functions = {region.function for region in kernel.calls.values()}
    return inline_callable_kernel(kernel, sorted(functions)) if functions else kernel
