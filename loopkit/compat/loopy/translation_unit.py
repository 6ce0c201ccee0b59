"""A program of loopy: kernels by name, those that a call may enter, and the target."""
from __future__ import annotations

import functools
import graphlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.check import check_index_dtypes, check_kernel
from loopkit.compat.loopy.kernel.definition import Callee, StepCall
from loopkit.compat.loopy.kernel.function_interface import ScalarCallable, functions_called
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.errors import PreconditionError, require_known

P = ParamSpec("P")


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

    :ivar functions: those of numbers that the user registered, and kernels that were inlined; no statement calls a
        ``ScalarCallable`` yet.
    :ivar executors: the made executors, by their context; a cache.
    """

    kernels: Mapping[str, LoopKernel] = field(hash=False)
    entrypoints: frozenset[str] = frozenset()
    target: Any = None
    functions: Mapping[str, Callee | ScalarCallable] = field(default_factory=dict, hash=False)
    executors: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def callables_table(self) -> Mapping[str, CallableKernel | Callee | ScalarCallable]:
        """The functions that statements call, those that the user registered, and the kernels."""
        called = {name: f for k in self.kernels.values() if k.made is not None
                  for name, f in functions_called(k.made).items()}
        functions = {name: f for name, f in self.functions.items() if not isinstance(f, lk.LoopKernel)}
        return {**called, **functions, **{name: CallableKernel(kernel) for name, kernel in self.kernels.items()}}

    def __getitem__(self, name: str) -> LoopKernel:
        """The kernel called *name*; :raises UnknownNameError: there is none."""
        require_known("kernel", [name], self.kernels, where="the program")
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
        require_known("kernel", sorted(names), self.kernels, where="the program")
        return replace(self, entrypoints=names, executors={})

    def with_kernel(self, kernel: LoopKernel) -> TranslationUnit:
        """This program with *kernel* in place of the one of its name."""
        return linked(replace(self, kernels={**self.kernels, kernel.name: kernel}, executors={}))

    def mapped(self, step: Callable[[LoopKernel], LoopKernel]) -> TranslationUnit:
        """This program with *step*, which each kernel keeps, applied to each kernel."""
        new: dict[str, LoopKernel] = {}
        for name in _callees_first(self.kernels):
            kernel = self.kernels[name]
            if kernel.definition is not None and any(
                    new[x].made is not self.kernels[x].made for x in _callees(kernel, self.kernels)):
                kernel = replace(kernel, made=None)            # it is made again, with the new functions
            new[name] = step(kernel)
        return linked(replace(self, kernels={new[name].name: new[name] for name in self.kernels}, executors={},
                              entrypoints=frozenset(new[name].name for name in self.entrypoints)))

    def copy(self, **changes: Any) -> TranslationUnit:
        """This program with other fields; the kernels get another *target*, too."""
        if "target" in changes:
            target = changes["target"]
            return replace(self, executors={}, **changes).mapped(lambda kernel: kernel.copy(target=target))
        return replace(self, executors={}, **changes)

    def executor(self, *context: Any, entrypoint: str | None = None) -> Any:
        """A function that runs the program, for a context or queue of pyopencl, or for the host."""
        key = (entrypoint, *map(id, context))
        if key not in self.executors:
            kernel = runnable(self, entrypoint)
            made = self.executors[key] = self.target.executor(kernel, *context)
            made.t_unit, made.entrypoint = self, kernel.name
        return self.executors[key]

    def __call__(self, *args: Any, entrypoint: str | None = None, **kwargs: Any) -> Any:
        """Run the program: ``(event, outputs)``."""
        return self.executor(*args[:1], entrypoint=entrypoint)(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: without executors."""
        return {**self.__dict__, "executors": {}}

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """For the keys of pytools' dictionaries on disk."""
        key_builder.rec(key_hash, (tuple(self.kernels.items()), self.entrypoints, self.target,
                                   tuple(self.functions.items())))

    def __str__(self) -> str:
        return "\n".join(map(str, self.kernels.values()))

    def __repr__(self) -> str:
        return f"<TranslationUnit of {', '.join(self.kernels)} for {type(self.target).__name__}>"


def _callees(kernel: LoopKernel, known: Mapping[str, LoopKernel]) -> list[str]:
    """The kernels among *known* that the text of *kernel* calls, or may call when it is made."""
    if kernel.parts is not None:
        return [name for name, other in known.items() if other.parts is None]
    if kernel.definition is None:
        return [f.name for f in kernel.origin.functions if isinstance(f, lk.LoopKernel) and f.name in known]
    return sorted(kernel.definition.calls.keys() & known.keys() - {kernel.name})


def _callees_first(kernels: Mapping[str, LoopKernel]) -> Sequence[str]:
    """The names of *kernels*, each after those that it calls; :raises PreconditionError: one calls itself."""
    try:
        return list(graphlib.TopologicalSorter({x: _callees(k, kernels) for x, k in kernels.items()}).static_order())
    except graphlib.CycleError as err:
        *cycle, _ = err.args[1]
        raise PreconditionError(f"The function '{cycle[0]}' calls itself ({' -> '.join([*cycle, cycle[0]])}).",
                                subject=cycle[0], hint="write the recursion as a loop") from None


def linked(program: TranslationUnit) -> TranslationUnit:
    """*program* with each kernel made with the functions that its text calls.

    :raises PreconditionError: calls of a function have different numbers of arguments.
    :raises PreconditionError: a function changed after a step that cannot be applied to its caller again.
    """
    kernels, program = dict(program.kernels), replace(program, functions={
        name: _called(name, f, program) if isinstance(f, ScalarCallable) else f
        for name, f in program.functions.items()})
    known = {name: f for name, f in program.functions.items() if not isinstance(f, ScalarCallable)}
    for name in _callees_first(kernels):
        kernel = kernels[name]
        callees = [kernels[x] for x in _callees(kernel, kernels)]
        functions: list[Callee] = [k.core for k in callees if k.made is not None]
        if kernel.parts is not None:
            own = (*functions, *known.values())
            kernels[name] = replace(kernel, origin=replace(kernel.origin, functions=own))
            continue
        if kernel.definition is None:
            changed = [f.name for f in functions if not any(f is own for own in kernel.origin.functions)]
            if changed:
                raise PreconditionError(
                    f"The function '{changed[0]}' changed, and '{name}' has a step that cannot be applied again.",
                    subject=changed[0], hint="apply the steps of functions before those of their callers")
            continue
        functions += [f for x, f in known.items() if x in kernel.definition.calls]
        if kernel.made is None or len(functions) != len(kernel.origin.functions) or any(
                a is not b for a, b in zip(functions, kernel.origin.functions, strict=True)):
            new = kernel.definition.make(functions)
            fault = next((k.definition.fault for k in callees if k.made is None and k.definition is not None), None)
            if fault is not None:
                new = replace(new, definition=replace(new.definition, fault=fault))
            for step in kernel.definition.steps:
                new = step(new)
            kernels[name] = new
    return replace(program, kernels=kernels, executors={})


def _called(name: str, function: ScalarCallable, program: TranslationUnit) -> ScalarCallable | Callee:
    """loopkit's *function* called *name*, if a statement of *program* calls it."""
    counts = {kernel.definition.calls[name] for kernel in program.kernels.values()
              if kernel.definition is not None and name in kernel.definition.calls}
    if len(counts) > 1:
        raise PreconditionError(f"Calls of '{name}' have different numbers of arguments.", subject=name)
    return function.core(name, counts.pop(), program.target) if counts else function


#: A match expression that selects one kernel.
_IN_KERNEL = re.compile(r"\s*in_kernel:\s*(\w+)\s*")


def for_each_kernel(step: Callable[Concatenate[LoopKernel, P], LoopKernel]) -> Callable[..., Any]:
    """*step* of a kernel as a step of a program, which applies to all of its kernels."""
    @functools.wraps(step)
    def apply(program: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        call = StepCall(apply, args, kwargs)
        if isinstance(program, TranslationUnit):
            return program.mapped(call)
        only = _IN_KERNEL.fullmatch(str(kwargs.get("within")))
        if only is not None and only[1] != program.name:
            return program
        return program.after(lambda kernel: step(kernel, *args, **kwargs), call)
    return apply


def same_step(step: Callable[..., lk.LoopKernel]) -> Callable[..., Any]:
    """loopkit's *step* as a step of a program; a set of names gets the order of the alphabet."""
    @functools.wraps(step)
    def apply(kernel: LoopKernel, /, *args: Any, **kwargs: Any) -> LoopKernel:
        return kernel.with_core(step(kernel.core, *map(_plain, args), **{k: _plain(x) for k, x in kwargs.items()}))
    return for_each_kernel(apply)


def _plain(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, set | frozenset) else \
        int(value) if isinstance(value, np.integer) else value


def single_kernel(program: Any) -> LoopKernel:
    """The kernel that *program* is, or that a call of it enters."""
    return program.default_entrypoint if isinstance(program, TranslationUnit) else program


def kernels_of(program: Any) -> Sequence[LoopKernel]:
    """All kernels of *program*; *program* itself if it is a kernel."""
    return list(program.kernels.values()) if isinstance(program, TranslationUnit) else [program]


def entered(program: Any) -> Sequence[LoopKernel]:
    """The kernels of *program* that a call may enter; *program* itself if it is a kernel."""
    if isinstance(program, TranslationUnit):
        return [program[name] for name in sorted(program.entrypoints)]
    return [program]


def resolve_callables(program: Any) -> Any:
    """Nothing changes: loopkit finds the functions of calls when it makes a kernel."""
    return program


def make_program(kernel: LoopKernel) -> TranslationUnit:
    """The program of one kernel."""
    return TranslationUnit({kernel.name: kernel}, frozenset([kernel.name]), kernel.target)


def runnable(program: Any, entrypoint: str | None = None) -> LoopKernel:
    """The kernel that a call of *program* enters, after :func:`check_kernel` of all of its kernels."""
    made = [kernel for kernel in kernels_of(program) if kernel.made is not None]
    check_index_dtypes(made)
    for kernel in made:
        check_kernel(kernel)
    return program[entrypoint] if entrypoint else single_kernel(program)


def core_of(program: Any) -> lk.LoopKernel:
    """loopkit's kernel in *program*."""
    return single_kernel(program).core
