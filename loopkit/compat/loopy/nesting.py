"""The order of loops that the text leaves open: the first step that needs one defines it.

In loopy loops have no order until ``prioritize_loops`` gives one. loopkit nests them from the start, in the order of
the domains. A step to another order may break the dependences of this one, which the user never asked for. The layer
then defines the kernel with the new order in place of the old one, as if the text had it. Later steps are proven.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import loopkit as lk
from loopkit.errors import IllegalTransformError, PreconditionError, ScheduleError, UndecidedError
from loopkit.kernel.tree import Chain

#: Steps that give other names to the instances of statements, and steps that state facts.
_NAMES = frozenset({"split_iname", "chunk_iname", "join_inames", "rename_inames", "map_domain", "affine_map_inames"})
_FACTS = frozenset({"add_dtypes", "assume", "fix_parameters", "set_options", "tag_array_axes", "tag_instructions",
                    "tag_kernel", "untag_inames"})


@dataclass(frozen=True)
class Nesting:
    """The order of the loops of a kernel, as far as the user gave it.

    :ivar is_free: neither the text nor a step of another kind gives the order of any two loops.
    :ivar chains: the inames of each ``prioritize_loops``.
    :ivar steps: the number of steps in the history of the kernel after the last of these.
    :ivar missing: new inames, which need an order before code generation.
    """

    is_free: bool = False
    chains: tuple[Chain, ...] = ()
    steps: int = 0
    missing: frozenset[str] = frozenset()

    def leaves_open(self, core: lk.LoopKernel, inames: Sequence[str]) -> bool:
        """Whether the order of any two of *inames*, loops of *core*, is not given."""
        kept = _FACTS if self.chains else _FACTS | _NAMES
        return self.is_free and all(step.name in kept for step in core.history.steps[self.steps:]) and not any(
            len({*chain} & {*inames}) > 1 for chain in self.chains)

    def with_order(self, core: lk.LoopKernel, inames: Chain) -> Nesting:
        """The nesting of *core*, whose loops over *inames* have got this order."""
        is_free = self.is_free and {step.name for step in core.history.steps[self.steps:-1]} <= _FACTS | _NAMES
        # a step may have split a loop that needs an order
        missing = self.missing - {*inames} if {*core.inames} - {*inames} else frozenset()
        return Nesting(is_free, (*self.chains, inames), len(core.history), missing)

    def without_order(self, core: lk.LoopKernel, inames: Iterable[str]) -> Nesting:
        """The nesting of *core*, whose new loops over *inames* have no order yet."""
        return replace(self, steps=len(core.history), missing=self.missing.union(inames))

    def require_order(self) -> None:
        """:raises ScheduleError: loops need an order."""
        if self.missing:
            names = ", ".join(sorted(self.missing))
            raise ScheduleError(f"The loops over {names} have no order, and a dependence needs one.",
                                subject=min(self.missing), hint=f"lp.prioritize_loops names all of {names}")


def in_new_order(core: lk.LoopKernel, step: Callable[..., lk.LoopKernel], *, is_open: bool
                 ) -> tuple[lk.LoopKernel, bool]:
    """*core* after *step*, and whether its order is a definition: *step* breaks a dependence, and the order *is_open*.

    >>> knl = lk.make_kernel("{[i,t]: 1<=i<n-1 and 0<=t<m}", "u[t+1,i] = u[t,i-1] + u[t,i+1]")
    >>> new, _ = in_new_order(knl, lambda k, **kw: lk.prioritize_loops(k, "t,i", **kw), is_open=True)
    >>> print(new.statements_text)
    for t, i
      u[t + 1, i] = u[t, i - 1] + u[t, i + 1]  {id=insn}
    end

    :raises IllegalTransformError: *step* breaks a dependence, and its order cannot be that of a definition.
    :raises UndecidedError: it is not known whether *step* breaks one, and its order cannot be that of a definition.
    """
    try:
        return step(core), False
    except (IllegalTransformError, UndecidedError):
        if not is_open:
            raise
        new = step(core, unsafe=True)
        try:
            return lk.with_statements(core, new.instructions, new.domains), True
        except PreconditionError:
            pass
        raise
