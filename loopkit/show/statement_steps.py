"""The steps that made or changed each statement of a kernel, found by making the steps once more."""
from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence

from loopkit.errors import LoopkitWarning, PreconditionError, ReplayError, UndecidedError
from loopkit.expr.mappers import variables
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.language.make import make_kernel
from loopkit.poly.limits import affordable

#: Operations of isl for steps that are made once more; the steps of the largest cases of the tests need a tenth.
_BUDGET = 3_000_000


def kernels_of(history: History) -> tuple[LoopKernel, ...]:
    """The kernel as it was made, and after each step of *history*, which is made once more.

    :raises PreconditionError: the kernel was not made by ``make_kernel``.
    :raises ReplayError: a step cannot be made once more.
    """
    if history.made is None:
        raise PreconditionError("The kernel was not made by make_kernel, so that no step can be shown.",
                                subject="history", hint="print(history) lists the steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopkitWarning)     # its author has seen them
        kernels: list[LoopKernel] = [make_kernel(*history.made.args, **dict(history.made.kwargs))]  # type: ignore[arg-type]
    for number in range(len(history)):
        kernels.append(history[number:number + 1].replay(kernels[-1]))
    return tuple(kernels)


def steps_of_statements(history: History, kernels: Sequence[LoopKernel] = ()) -> Mapping[str, tuple[int, ...]]:
    """For each statement the numbers of the steps of *history* that made or changed it: 0 is ``make_kernel``.

    A statement counts as changed if its text, its domain, its loops, their tags, or the memory of a temporary in it
    changed. Nothing is known if the steps cannot be made once more at a small cost.

    :arg kernels: the results of the steps, if they are known.
    """
    def found() -> Mapping[str, tuple[int, ...]]:
        try:
            return _steps_by_statement(kernels or kernels_of(history))
        except (PreconditionError, ReplayError, UndecidedError):
            return {}
    return affordable(found, otherwise={}, budget=_BUDGET)


def _steps_by_statement(kernels: Sequence[LoopKernel]) -> Mapping[str, tuple[int, ...]]:
    steps: dict[str, tuple[int, ...]] = {}
    before: Mapping[str, Hashable] = {}
    for number, knl in enumerate(kernels):
        now = {s.id: _facts(knl, s) for s in knl.statements}
        for name, facts in now.items():
            if before.get(name) != facts:
                # a statement that a step makes again under an old name is a new one
                steps[name] = (*(steps[name] if name in before else ()), number)
        before = now
    return steps


def _facts(knl: LoopKernel, s: Statement) -> Hashable:
    """The properties of a statement that are compared."""
    names = frozenset().union(*map(variables, (s.assignee, s.expression, *s.predicates)))
    loops = tuple(step.iname for step in knl.paths[s.id] if step.iname is not None)
    return (str(s), s.domain.text, loops, tuple(str(knl.tags.get(x)) for x in s.inames),
            tuple(title for i in s.instructions for title in i.titles),
            tuple(str(knl.temporaries[x]) for x in sorted(names) if x in knl.temporaries))
