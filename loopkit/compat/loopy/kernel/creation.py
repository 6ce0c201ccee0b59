"""make_kernel and make_function with loopy's arguments."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.compat.loopy.kernel.data import ArrayArg, GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.compat.loopy.kernel.definition import Again, Definition
from loopkit.compat.loopy.kernel.instruction import InstructionBase, line_of, text_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.options import make_options
from loopkit.compat.loopy.program import LoopyProgram, read_program
from loopkit.compat.loopy.target.pyopencl import PyOpenCLTarget
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.translation_unit import TranslationUnit, make_program
from loopkit.compat.loopy.typing import auto, unless_auto
from loopkit.errors import PreconditionError, UnknownNameError
from loopkit.expr.functions import FUNCTIONS
from loopkit.kernel.statement import owner
from loopkit.language.arguments import read_declarations
from loopkit.language.calls import signature_of
from loopkit.language.domains import read_domains
from loopkit.poly.limits import bounded

#: Arguments of loopy's make_kernel that change no value here.
_UNUSED = frozenset({"lang_version", "silenced_warnings", "flags", "index_dtype",
                     "seq_dependencies", "loop_priority", "iname_slab_increments", "cache_manager", "state"})


def make_kernel(domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel",
                assumptions: Any = None, target: Any = None, options: Any = None,
                temporary_variables: Mapping[str, TemporaryVariable] | None = None,
                substitutions: Mapping[str, SubstitutionRule] | None = None,
                fixed_parameters: Mapping[str, Any] | None = None, seq_dependencies: bool = False, tags: Any = None,
                default_order: Any = "C", **others: Any) -> TranslationUnit:
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
    if unless_auto(default_order) not in (None, "C", "c", "F", "f"):
        raise PreconditionError(f"make_kernel: loopkit has nothing for default_order={default_order!r}.",
                                subject="default_order", hint="pass 'C', 'F' or lp.auto")
    data = list(_data(kernel_data)) + list(_temporaries(temporary_variables or {}))
    declared = {d.name: d for d in data if not isinstance(d, str)}
    core_data = tuple(d if isinstance(d, str) else d.core() if not isinstance(d, ValueArg) else _value(d) for d in data)
    rules = list(map(_rule_text, (substitutions or {}).values()))
    silenced = others.get("silenced_warnings") or ()
    empty = LoopKernel(None, PyOpenCLTarget() if target is None else target, make_options(options), declared, frozenset(
        silenced.split(";") if isinstance(silenced, str) else silenced))
    text = _Text(name, tuple(_domains(domains)), (*rules, *_texts(instructions)), core_data, assumptions or None,
                 seq_dependencies, tuple((fixed_parameters or {}).items()), empty)
    made = text.made()
    if default_order not in ("C", "c", None):
        step = Again(_in_order, (default_order,), {})
        made = made.after(step, step)
    return make_program(made.tagged(tags) if tags else made)


def _in_order(kernel: LoopKernel, order: Any) -> LoopKernel:
    """*kernel* with *order* of the arguments that declare none; ``auto``: arrays of any strides."""
    own = {a.name: kernel.declared.get(a.name, GlobalArg(a.name)) for a in kernel.core.array_args.values()
           if a.order is None and a.strides is None and a.shape != ()}
    chosen = [name for name, d in own.items() if isinstance(d, ArrayArg) and d.order is None]
    if unless_auto(order) and chosen:
        return kernel.with_core(lk.tag_array_axes(kernel.core, chosen, "F"))
    return replace(kernel, declared={**kernel.declared, **{name: own[name].copy(order=auto) for name in chosen}})


@dataclass(frozen=True)
class _Text:
    """The arguments of make_kernel.

    :ivar empty: the kernel of the layer, without one of loopkit.
    """

    name: str
    domains: tuple[str, ...]
    instructions: tuple[str, ...]
    data: tuple[Any, ...]
    assumptions: Any
    in_sequence: bool
    fixed: tuple[tuple[str, Any], ...]
    empty: LoopKernel

    def made(self, functions: Sequence[lk.ScalarFunction | lk.LoopKernel] = ()) -> LoopKernel:
        """The kernel; without one of loopkit if *functions* lacks one that the text calls."""
        calls = {found[1]: _count(line, found.end()) for line in self.instructions for found in _CALL.finditer(line)}
        definition = Definition(self.name, self.made, calls)
        try:
            core = self._core(functions)
        except UnknownNameError as err:
            if err.kind != "function":
                raise
            return replace(self.empty, definition=replace(definition, fault=err))
        return separated(replace(self.empty, made=core, definition=definition, functions=tuple(functions)))

    def _core(self, functions: Sequence[lk.ScalarFunction | lk.LoopKernel]) -> lk.LoopKernel:
        scalars = {f.name: f for f in functions if isinstance(f, lk.ScalarFunction)}
        # the user's function has another name than one of the language
        shadowed = {x: x + "_of_user" for x in scalars if x in FUNCTIONS}
        scalars = {shadowed.get(x, x): replace(f, name=shadowed.get(x, x)) for x, f in scalars.items()}
        instructions = [_CALL.sub(lambda call: f"{shadowed.get(call[1], call[1])}(", line) for line in self.instructions
                        ] if shadowed else self.instructions
        kernels = {f.name: f for f in functions if isinstance(f, lk.LoopKernel)}
        if any("clamp(" in line for line in instructions) and not {"clamp"} & (scalars.keys() | kernels.keys()):
            instructions = [_CLAMP, *instructions]
        with bounded(f"making kernel '{self.name}'"):
            program = read_program(instructions, read_domains(self.domains), read_declarations(self.data, ()),
                                   scalars, {name: signature_of(f) for name, f in kernels.items()})
            text = program.text({}, in_sequence=self.in_sequence)
        functions = (*scalars.values(), *kernels.values())
        core = self._core_of(program, text, functions)
        if program.queries:
            selected = {query: frozenset(map(owner, matching(core, query))) for query in program.queries}
            core = self._core_of(program, program.text(selected, in_sequence=self.in_sequence), functions)
        return lk.fix_parameters(core, **dict(self.fixed)) if self.fixed else core

    def _core_of(self, program: LoopyProgram, text: str, functions: Sequence[lk.ScalarFunction | lk.LoopKernel]
                 ) -> lk.LoopKernel:
        # the copies of inames are in the domains of the program only
        has_copies = len(program.domains.domains) > len(self.domains)
        return lk.make_kernel(program.domains.domains if has_copies else self.domains, text if text.strip() else [],
                              self.data, name=self.name,
                              assumptions=_assumptions(self.assumptions, program.written), functions=functions)


#: The function of OpenCL that loopy's language has for all targets.
_CLAMP = "clamp(x_, least_, most_) := min(max(x_, least_), most_)"


def _assumptions(given: Any, written: AbstractSet[str]) -> Any:
    """*given* without the conditions on what the kernel computes itself, which are weaker."""
    if not isinstance(given, str) or written.isdisjoint(re.findall(r"[A-Za-z_]\w*", given)):
        return given
    parts = [part for part in re.split(r"\band\b", given) if written.isdisjoint(re.findall(r"[A-Za-z_]\w*", part))]
    return " and ".join(parts) or None


#: A name and the parenthesis after it.
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(", re.ASCII)


def _count(text: str, start: int) -> int:
    """The number of values between the parenthesis before *start* and its end."""
    depth, commas = 1, 0
    for end in range(start, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        commas += depth == 1 and text[end] == ","
        if not depth:
            return commas + bool(text[start:end].strip())
    return 0


def make_function(*args: Any, **kwargs: Any) -> TranslationUnit:
    """A program of one kernel that no call enters, but other kernels may call."""
    return replace(make_kernel(*args, **kwargs), entrypoints=frozenset())


def apply_single_writer_dependency_heuristic(program: Any, warn_if_used: bool = True, error_if_used: bool = False
                                             ) -> Any:
    """Nothing changes: a kernel runs its statements in this order from the start."""
    return program


def _require_known_arguments(others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        neutral: tuple[Any, ...] = (None, auto) if name == "default_offset" else (None, (), [], False, frozenset())
        if name not in _UNUSED and value not in neutral:
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
    if isinstance(item, InstructionBase):
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


def _value(argument: ValueArg) -> lk.ValueArg | lk.GlobalArg:
    dtype = None if argument.dtype is None else argument.dtype.numpy_dtype
    # a call passes a vector by its place
    return lk.GlobalArg(argument.name, dtype, ()) if dtype is not None and dtype.names else lk.ValueArg(
        argument.name, dtype)
