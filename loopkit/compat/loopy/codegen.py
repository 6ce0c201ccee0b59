"""generate_code_v2 and the objects that it returns."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loopkit.compat.loopy.bounds import as_compiled
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.translation_unit import TranslationUnit, runnable, single_kernel
from loopkit.target.code import GeneratedCode
from loopkit.verification.checks import generate_code as generate


@dataclass(frozen=True)
class PreambleInfo:
    """The facts that loopy gives to generators of preambles."""

    kernel: Any = None
    seen_dtypes: Any = frozenset()
    seen_functions: Any = frozenset()
    seen_atomic_dtypes: Any = frozenset()


def generated(generators: Iterable[Callable[[PreambleInfo], Iterable[tuple[str, str]]]]) -> Iterator[tuple[str, str]]:
    """The keys and texts of *generators* of preambles."""
    return ((str(key), str(text)) for generator in generators for key, text in generator(PreambleInfo()))


@dataclass(frozen=True)
class GeneratedProgram:
    """One function of the text."""

    name: str
    is_device_program: bool = True


@dataclass(frozen=True)
class CodeGenerationResult:
    """The generated text, from :class:`loopkit.GeneratedCode`."""

    generated: GeneratedCode

    def device_code(self) -> str:
        """The text of the kernels."""
        return self.generated.source

    def host_code(self) -> str:
        """The text that launches the kernels; ``""`` where one function does both."""
        return self.generated.host

    def all_code(self) -> str:
        """All of the text."""
        return "\n".join(filter(None, (self.device_code(), self.host_code())))

    @property
    def device_programs(self) -> Sequence[GeneratedProgram]:
        return [GeneratedProgram(kernel.name) for kernel in self.generated.kernels]


def generate_code_v2(t_unit: Any) -> CodeGenerationResult:
    """Generate the text of a program for its target.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", target=lp.CTarget())
    >>> code = lp.generate_code_v2(lp.add_dtypes(knl, {"x": "float32"})).device_code()
    >>> "y[i] = 2.0f*x[i];" in code
    True
    """
    kernel = runnable(t_unit)
    target = t_unit.target if isinstance(t_unit, TranslationUnit) else kernel.target
    core = separated(kernel, finally_=True).core
    return CodeGenerationResult(generate(as_compiled(core), target=target.core_target()))


def generate_code(kernel: Any, device: Any = None) -> tuple[str, Any]:
    """The text of a program, and ``None`` in place of loopy's data about arguments."""
    return generate_code_v2(kernel).device_code(), None


def generate_body(kernel: Any) -> str:
    """The statements of the program's only function, without its head and braces."""
    source = generate_code_v2(kernel).device_code()
    head = source.index("{", source.index(f" {single_kernel(kernel).name}("))
    return source[head + 1:source.rindex("}")].strip("\n")
