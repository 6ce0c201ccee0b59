"""The base of loopy's targets."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


class ASTBuilderBase:
    """loopy's generators of syntax trees; loopkit's targets generate texts in another way."""


@dataclass(frozen=True)
class TargetBase:
    """A target: the text of a program, and the function that runs it.

    The fields other than *device* and *compiler* are those of loopy's targets; loopkit decides by itself what they
    choose.

    :cvar core: loopkit's target, which generates the text.
    :cvar make_executor: makes the function that runs a kernel; ``None``: nothing runs it.
    """

    device: Any = field(default=None, compare=False)
    pyopencl_module_name: str = "_lpy_cl"
    atomics_flavor: str | None = None
    limit_arg_size_nbytes: int | None = None
    pointer_size_nbytes: int | None = None
    extended_c: bool = True
    compiler: Any = field(default=None, compare=False)
    core: ClassVar[str] = "c"
    make_executor: ClassVar[Callable[..., Any] | None] = None

    @property
    def command(self) -> str | None:
        """The command of the C compiler that the user chose; ``None``: the one that loopkit finds."""
        return None if self.compiler is None else self.compiler.command

    def executor(self, kernel: Any, *context: Any) -> Any:
        """A function that runs *kernel*."""
        make = type(self).make_executor
        if make is None:
            raise NotImplementedError(f"nothing runs programs for {type(self).__name__}")
        return make(kernel, self, *context)
