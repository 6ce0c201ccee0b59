"""A program of loopy: kernels by name, those that a call may enter, and the target."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.errors import PreconditionError, require_known

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class CallableKernel:
    """A kernel that other kernels may call."""

    subkernel: LoopKernel

    @property
    def name(self) -> str:
        return self.subkernel.name


@dataclass(frozen=True)
class TranslationUnit:
    """Kernels, and the names of those that a call may enter.

    :ivar executors: the made executors, by their context; a cache.
    """

    kernels: Mapping[str, LoopKernel] = field(hash=False)
    entrypoints: frozenset[str] = frozenset()
    target: Any = None
    executors: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def callables_table(self) -> Mapping[str, CallableKernel]:
        return {name: CallableKernel(kernel) for name, kernel in self.kernels.items()}

    def __getitem__(self, name: str) -> LoopKernel:
        """The kernel called *name*; :raises UnknownNameError: there is none."""
        require_known("kernel", [name], self.kernels)
        return self.kernels[name]

    @property
    def default_entrypoint(self) -> LoopKernel:
        """The kernel that a call enters; :raises PreconditionError: several may be entered."""
        if len(self.entrypoints) != 1:
            raise PreconditionError(f"The program has {len(self.entrypoints)} kernels that a call may enter.",
                                    subject="entrypoint", hint="entrypoint='name' chooses one")
        return self.kernels[next(iter(self.entrypoints))]

    def with_entrypoints(self, entrypoints: str | Iterable[str]) -> TranslationUnit:
        """This program with other kernels that a call may enter."""
        names = frozenset(map(str.strip, entrypoints.split(","))) if isinstance(entrypoints, str) else frozenset(
            entrypoints)
        require_known("kernel", sorted(names), self.kernels)
        return replace(self, entrypoints=names, executors={})

    def with_kernel(self, kernel: LoopKernel) -> TranslationUnit:
        """This program with *kernel* in place of the one of its name."""
        return replace(self, kernels={**self.kernels, kernel.name: kernel}, executors={})

    def mapped(self, step: Callable[[LoopKernel], LoopKernel]) -> TranslationUnit:
        """This program with *step* applied to each kernel."""
        new = {name: step(kernel) for name, kernel in self.kernels.items()}
        return replace(self, kernels={kernel.name: kernel for kernel in new.values()}, executors={},
                       entrypoints=frozenset(new[name].name for name in self.entrypoints))

    def copy(self, **changes: Any) -> TranslationUnit:
        """This program with other fields; the kernels get another *target*, too."""
        if "target" in changes:
            target = changes["target"]
            return replace(self, executors={}, **changes).mapped(lambda kernel: replace(kernel, target=target))
        return replace(self, executors={}, **changes)

    def executor(self, *context: Any, entrypoint: str | None = None, **options: Any) -> Any:
        """A function that runs the program, for a context or queue of pyopencl, or for the host."""
        key = (entrypoint, *map(id, context))
        if key not in self.executors:
            kernel = self.default_entrypoint if entrypoint is None else self[entrypoint]
            self.executors[key] = self.target.executor(kernel, *context)
        return self.executors[key]

    def __call__(self, *args: Any, entrypoint: str | None = None, **kwargs: Any) -> Any:
        """Run the program: ``(event, outputs)``."""
        return self.executor(*args[:1], entrypoint=entrypoint)(*args, **kwargs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.kernels.values()))


Transformed = TypeVar("Transformed", TranslationUnit, LoopKernel)


def for_each_kernel(step: Callable[Concatenate[LoopKernel, P], LoopKernel]) -> Callable[..., Any]:
    """*step* of a kernel as a step of a program, which applies to all of its kernels."""
    @functools.wraps(step)
    def apply(program: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        if isinstance(program, TranslationUnit):
            return program.mapped(lambda kernel: step(kernel, *args, **kwargs))
        return step(program, *args, **kwargs)
    return apply


def single_kernel(program: Any) -> LoopKernel:
    """The kernel that *program* is, or that a call of it enters."""
    return program.default_entrypoint if isinstance(program, TranslationUnit) else program


def make_program(kernel: LoopKernel) -> TranslationUnit:
    """The program of one kernel."""
    return TranslationUnit({kernel.name: kernel}, frozenset([kernel.name]), kernel.target)


def core_of(program: Any) -> lk.LoopKernel:
    """loopkit's kernel in *program*."""
    return single_kernel(program).core
