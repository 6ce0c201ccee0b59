"""The base of loopy's targets."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

from loopkit.target.code import TextTarget, resolve_text_target


class ASTBuilderBase:
    """loopy's generators of syntax trees; loopkit's targets generate texts in another way."""


@dataclass(frozen=True)
class TargetBase:
    """A target: the text of a program, and the function that runs it.

    Its fields are those of loopy's targets; loopkit decides by itself what most of them choose.

    :ivar compiler: the command and the options of the host's compiler.
    :cvar core: loopkit's target, which generates the text.
    :cvar make_executor: makes the function that runs a kernel; ``None``: nothing runs it.
    """

    _: KW_ONLY
    device: Any = field(default=None, compare=False)
    pyopencl_module_name: str = "_lpy_cl"
    atomics_flavor: str | None = None
    limit_arg_size_nbytes: int | None = None
    pointer_size_nbytes: int | None = None
    extended_c: bool = True
    compiler: Any = field(default=None, compare=False)
    core: ClassVar[str] = "c"
    make_executor: ClassVar[Callable[..., Any] | None] = None

    def core_target(self, options: Sequence[str] = ()) -> TextTarget:
        """loopkit's target, with more *options* for its compiler."""
        own = {} if self.compiler is None else self.compiler.core_fields
        every = (*own.get("options", ()), *options)
        found = resolve_text_target(self.core)
        return replace(found, **{**own, "options": every}) if every or own else found  # type: ignore[type-var]

    def executor(self, kernel: Any, *context: Any) -> Any:
        """A function that runs *kernel*."""
        make = type(self).make_executor
        if make is None:
            raise NotImplementedError(f"{type(self).__name__} makes texts and runs no program. A program runs with "
                                      "target=lp.ExecutableCTarget() or lp.PyOpenCLTarget().")
        return make(kernel, self, *context)
