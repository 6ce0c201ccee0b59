"""make_kernel and make_function with loopy's arguments."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.data import ArrayArg, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.compat.loopy.kernel.instruction import Assignment, line_of, text_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.options import make_options
from loopkit.compat.loopy.program import loopkit_text
from loopkit.compat.loopy.target.pyopencl import PyOpenCLTarget
from loopkit.compat.loopy.translation_unit import TranslationUnit, make_program
from loopkit.errors import PreconditionError
from loopkit.language.arguments import read_declarations
from loopkit.language.domains import read_domains
from loopkit.poly.limits import bounded

#: Arguments of loopy's make_kernel that change no value here.
_UNUSED = frozenset({"lang_version", "silenced_warnings", "flags", "index_dtype", "default_order", "default_offset",
                     "seq_dependencies", "loop_priority", "iname_slab_increments", "cache_manager", "state"})


def make_kernel(domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel",
                assumptions: Any = None, target: Any = None, options: Any = None,
                temporary_variables: Mapping[str, TemporaryVariable] | None = None,
                substitutions: Mapping[str, SubstitutionRule] | None = None,
                fixed_parameters: Mapping[str, Any] | None = None, seq_dependencies: bool = False,
                **others: Any) -> TranslationUnit:
    """A program of one kernel, from loopy's language.

    The statements get loopy's order: by ``dep=``, by the only writer of a name that they read, and by loops that are
    entered once. The kernel has this order as its text.

    >>> import loopkit.compat.loopy as lp
    >>> print(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]\\na[i] = 2*x[i]")["loopy_kernel"].core.statements_text)
    for i
      a[i] = 2*x[i]  {id=insn_0}
      y[i] = a[i]  {id=insn}
    end

    :raises PreconditionError: an argument is given for which loopkit has nothing.
    """
    _require_known_arguments(others)
    texts = _domains(domains)
    data = list(_data(kernel_data)) + list(_temporaries(temporary_variables or {}))
    declared = {d.name: d for d in data if not isinstance(d, str)}
    core_data = [d if isinstance(d, str) else d.core() if not isinstance(d, ValueArg) else _value(d) for d in data]
    rules = list(map(_rule_text, (substitutions or {}).values()))
    with bounded(f"making kernel '{name}'"):
        text = loopkit_text([*rules, *_texts(instructions)], read_domains(texts), read_declarations(core_data, ()), {},
                            in_sequence=seq_dependencies)
    core = lk.make_kernel(texts, text, core_data, name=name, assumptions=assumptions or None)
    if fixed_parameters:
        core = lk.fix_parameters(core, **fixed_parameters)
    target = PyOpenCLTarget() if target is None else target
    silenced = others.get("silenced_warnings") or ()
    return make_program(LoopKernel(core, target, make_options(options), declared, frozenset(
        silenced.split(";") if isinstance(silenced, str) else silenced)))


def make_function(*args: Any, **kwargs: Any) -> TranslationUnit:
    """A program of one kernel that no call enters, but other kernels may call."""
    return replace(make_kernel(*args, **kwargs), entrypoints=frozenset())


def _require_known_arguments(others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        if name not in _UNUSED and value not in (None, (), [], False, frozenset()):
            raise PreconditionError(f"make_kernel: loopkit has nothing for {name}={value!r}.", subject=name)


def _rule_text(rule: SubstitutionRule) -> str:
    return f"{rule.name}({', '.join(rule.arguments)}) := {text_of(rule.expression)}"


#: A domain without inames, and one brace too many at the end, which loopy overlooks.
_NO_INAMES = re.compile(r"(\[[^\]]*\]\s*->\s*)?\{\s*(\[\s*\])?\s*:?\s*\}")
_SURPLUS = re.compile(r"\}\s*\}\s*$")


def _domains(domains: Any) -> list[str]:
    given = [domains] if isinstance(domains, str) or not isinstance(domains, Iterable) else domains
    texts = [_SURPLUS.sub("}", str(d)) for d in given]
    return [text for text in texts if not _NO_INAMES.fullmatch(text.strip())]


def _texts(instructions: Any) -> list[str]:
    given = [instructions] if isinstance(instructions, str) or not isinstance(instructions, Iterable) else list(
        instructions)
    return list(map(_instruction_text, given))


def _instruction_text(item: Any) -> str:
    """The text of *item*; :raises PreconditionError: loopkit has no such instruction."""
    if isinstance(item, str):
        return item
    if isinstance(item, SubstitutionRule):
        return _rule_text(item)
    if isinstance(item, Assignment):
        return line_of(item)
    raise PreconditionError(f"make_kernel: the instruction {item} is a {type(item).__name__}, which loopkit does not "
                            "have.", subject=type(item).__name__, hint="write it in the kernel language")


def _data(kernel_data: Any) -> Iterable[Any]:
    """The items of *kernel_data*, one for each name."""
    if kernel_data is None:
        return ["..."]
    found: list[Any] = []
    for item in kernel_data.split(",") if isinstance(kernel_data, str) else kernel_data:
        if item is ...:
            found.append("...")
        elif isinstance(item, str):
            found += [word.strip() for word in item.split(",") if word.strip()]
        elif isinstance(item, ArrayArg | ValueArg | TemporaryVariable):
            found += [item.copy(name=name) for name in item.names]
        else:
            raise PreconditionError(f"make_kernel: kernel_data contains {item!r}.", subject=repr(item),
                                    hint="its items are arguments, temporaries, names, and '...'")
    return found


def _temporaries(given: Mapping[str, TemporaryVariable]) -> Iterable[TemporaryVariable]:
    return [t.copy(name=name) for name, t in given.items()]


def _value(argument: ValueArg) -> lk.ValueArg:
    return lk.ValueArg(argument.name, None if argument.dtype is None else argument.dtype.numpy_dtype)
