"""generate_code_v2 and the objects that it returns."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loopkit.compat.loopy.bounds import ready
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.translation_unit import TranslationUnit, runnable, single_kernel
from loopkit.kernel.literals import modules_of_tags
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
    return CodeGenerationResult(generate(ready(core), target=target.core_target()))


#: The modules that the source of a program may name.
_MODULES = ("islpy as isl", "loopkit as lk", "loopkit.compat.loopy as lp", "numpy as np", "pymbolic.primitives as p")


def t_unit_to_python(t_unit: TranslationUnit, var_name: str = "t_unit",
                     return_preamble_and_body_separately: bool = False) -> str | tuple[str, str]:
    """Python source that makes the program, as *var_name*: each of loopkit's kernels with its steps.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", options="return_dict")
    >>> made = {}
    >>> exec(lp.t_unit_to_python(lp.split_iname(knl, "i", 4)), made)
    >>> print(made["t_unit"]["loopy_kernel"].core.statements_text)
    for i_outer, i_inner
      y[4*i_outer + i_inner] = 2*x[4*i_outer + i_inner]  {id=insn}
    end

    :raises PreconditionError: an argument of a step has no text form.
    """
    target, modules = f"lp.{type(t_unit.target).__name__}()", {*_MODULES}
    lines = list[str]()
    for name, kernel in t_unit.kernels.items():
        history = kernel.core.history
        for step in filter(None, (history.made, *history.steps)):
            modules |= {*modules_of_tags((step.args, dict(step.kwargs)))}
        lines.append(f"{name!r}: lp.LoopKernel({history.expression()}, {target}, lp.{kernel.options!r}),")
    preamble = "\n".join(f"import {module}" for module in sorted(modules))
    kernels = "\n".join(lines)
    body = f"{var_name} = lp.TranslationUnit({{\n{kernels}\n}}, frozenset({sorted(t_unit.entrypoints)}), {target})"
    return (preamble, body) if return_preamble_and_body_separately else f"{preamble}\n\n{body}\n"


def generate_code(kernel: Any, device: Any = None) -> tuple[str, Any]:
    """The text of a program, and ``None`` in place of loopy's data about arguments."""
    return generate_code_v2(kernel).device_code(), None


def generate_body(kernel: Any) -> str:
    """The statements of the program's only function, without its head and braces."""
    source = generate_code_v2(kernel).device_code()
    head = source.index("{", source.index(f" {single_kernel(kernel).name}("))
    return source[head + 1:source.rindex("}")].strip("\n")
