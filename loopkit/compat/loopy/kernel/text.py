"""The text of a kernel in loopy's language, from which loopkit's kernel is made: again if a function changes."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from pytools.tag import Tag

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.compat.loopy.c_code import CStatements
from loopkit.compat.loopy.fields import with_whole_structs
from loopkit.compat.loopy.index_of import with_places
from loopkit.compat.loopy.kernel.data import SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.compat.loopy.kernel.definition import Callee, Definition, Origin, Parts, condition_names, condition_of
from loopkit.compat.loopy.kernel.function_interface import SideEffect
from loopkit.compat.loopy.kernel.instruction import CInstruction, InstructionBase, line_of, text_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.kernel.results import with_tuples_of_results
from loopkit.compat.loopy.nesting import Nesting
from loopkit.compat.loopy.order import Item
from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.program import LoopyProgram, read_program
from loopkit.compat.loopy.random123 import THREEFRY, with_random_numbers
from loopkit.compat.loopy.spelling import CALL, INAMES, NAME, counted_calls, domain_texts, names_in
from loopkit.compat.loopy.tagged import with_rules_for_tags
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.transform.iname import tag_inames
from loopkit.compat.loopy.transform.subst import about_arguments
from loopkit.compat.loopy.types import as_numpy
from loopkit.errors import LoopkitError, NameConflictError, PreconditionError, UnknownNameError
from loopkit.expr.functions import FUNCTIONS
from loopkit.kernel.statement import owner
from loopkit.language.arguments import Declared, read_declarations
from loopkit.language.c_instructions import WrittenOut
from loopkit.language.domains import read_domains
from loopkit.language.names import fault, fresh
from loopkit.poly.limits import bounded

_DECLARED = re.compile(r"<\w*>\s*([A-Za-z_]\w*)", re.ASCII)

#: The function of OpenCL that loopy's language has for all targets.
_CLAMP = "clamp(x_, least_, most_) := min(max(x_, least_), most_)"


@dataclass(frozen=True)
class Extras:
    """The parts of a kernel that few have.

    :ivar fixed: the values of parameters.
    :ivar preambles: definitions for C code, by keys that order them.
    :ivar manglers: functions of a kernel and a name, whose values are a dtype and the symbol of C; ``None``: none.
    :ivar tags: the user tags of statements, by their labels in the text.
    """

    fixed: tuple[tuple[str, Any], ...] = ()
    preambles: tuple[tuple[str, str], ...] = ()
    manglers: tuple[Callable[[Any, str], Any], ...] = ()
    tags: Mapping[str, Tag] = field(default_factory=dict)

    @property
    def preamble(self) -> str:
        return "\n".join(text for _, text in sorted(self.preambles))

    def symbol(self, name: str) -> lk.ScalarFunction | None:
        """The function without arguments that stands for the symbol *name* of C; ``None``: no mangler has it."""
        for found in filter(None, (mangler(None, name) for mangler in self.manglers)):
            languages = ("c", "opencl", "cuda")
            return lk.ScalarFunction(f"symbol_{name}", 0, {(): as_numpy(found[0])}, preamble=dict.fromkeys(
                languages, self.preamble) if self.preamble else {}, text=dict.fromkeys(languages, f"({found[1]})"))
        return None


@dataclass(frozen=True)
class KernelText:
    """The arguments of make_kernel.

    :ivar empty: the kernel of the layer, without one of loopkit.
    """

    name: str
    domains: tuple[str, ...]
    instructions: tuple[str | CInstruction, ...]
    data: tuple[Any, ...]
    assumptions: Any
    in_sequence: bool
    extras: Extras
    empty: LoopKernel

    def of(self, parts: Parts, empty: LoopKernel) -> KernelText:
        """The text of other *parts*."""
        data = [*parts.args, *_temporaries(parts.temporary_variables)]
        declared = {d.name: d for d in data if not isinstance(d, str)}
        core_data = tuple(_value(d) if isinstance(d, ValueArg) else d if isinstance(d, str) else d.core() for d in data)
        rules = list(map(_rule_text, parts.substitutions.values()))
        instructions, tags = _with_labels(_listed(parts.instructions))
        lines = list(map(_instruction_text, instructions))
        domains, names = domain_texts(parts.domains, lines), {x: _own_name(x) for x, _ in self.extras.fixed}
        names |= _inames_in_c(domains, [*lines, *names.values()])
        lines = [x if isinstance(x, CInstruction) else _with_names(x, names) for x in lines]
        return replace(self, name=parts.name, domains=tuple(_with_names(d, names) for d in domains),
                       instructions=(*rules, *lines), data=core_data,
                       extras=replace(self.extras, tags=tags), empty=replace(empty, declared=declared))

    def grown(self, kernel: LoopKernel) -> LoopKernel:
        """The kernel of the parts of *kernel*."""
        assert kernel.parts is not None
        others = ["..."] if "..." in self.data else []                  # the text may have further arguments
        parts = replace(kernel.parts, args=[*kernel.parts.args, *others])
        text = self.of(parts, replace(kernel, made=None, definition=None, origin=Origin()))
        made = text.made([f for f in kernel.origin.functions if f.name in text.calls])
        for iname, tag in kernel.parts.iname_tags:
            made = tag_inames(made, {iname: tag})
        for step in kernel.definition.steps if kernel.definition is not None else ():
            made = step(made)
        return made

    @property
    def calls(self) -> Mapping[str, int]:
        """The names before parentheses, each with the number of values in them."""
        return counted_calls("\n".join(x for x in self.instructions if isinstance(x, str)))

    @property
    def fixed(self) -> Mapping[str, Any]:
        return {_own_name(name): value for name, value in self.extras.fixed}

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of make_kernel, without the target and the options.

        :raises PreconditionError: the statements have user tags, or names of C that are not those of the kernel.
        """
        if self.extras.manglers or self.extras.tags:
            raise PreconditionError(f"The statements of '{self.name}' have more than their text.", subject=self.name,
                                    hint="lp.merge it with its functions first")
        return {"domains": self.domains, "instructions": self.instructions, "name": self.name,
                "kernel_data": [d if isinstance(d, str) else self.empty.declared[d.name] for d in self.data],
                "assumptions": self.assumptions and condition_of(self.assumptions),
                "seq_dependencies": self.in_sequence, "fixed_parameters": dict(self.extras.fixed),
                "preambles": self.extras.preambles}

    def made(self, functions: Sequence[Callee] = (), facts: Iterable[str] = (),
             packed: frozenset[str] = frozenset()) -> LoopKernel:
        """The kernel; without one of loopkit if *functions* lacks one that the text calls, or cannot be called so.

        :arg facts: further assumptions; *packed*: the functions that get slices of another rank.
        """
        definition = Definition(self, packed=packed)
        try:
            core, origin = self._with_facts(facts).core_with(functions, packed)
        except LoopkitError as err:
            if facts and isinstance(err, UnknownNameError) and err.kind == "parameter":
                return self.made(functions, (), packed)             # they are about another kernel's names
            missing = err.name if isinstance(err, UnknownNameError) and err.kind == "argument" else ""
            if isinstance(err, UnknownNameError) and err.kind == "function":
                kept = slice(1 if err.close else 0)
                err.try_hints(lambda known: (*known[kept], "lp.register_callable or lp.merge adds a function"))
            if missing and (symbol := self.extras.symbol(missing)) is not None:
                lines = (re.sub(rf"\b{missing}\b", f"{symbol.name}()", x) if isinstance(x, str) else x
                         for x in self.instructions)
                made = replace(self, instructions=tuple(lines)).made([*functions, symbol], facts, packed)
                return replace(made, definition=definition, origin=replace(made.origin, functions=tuple(functions)))
            # a later step may add what a call lacks: assumptions, values of parameters
            if not any(isinstance(f, lk.LoopKernel) for f in functions) and not (
                    isinstance(err, UnknownNameError) and err.kind in ("function", "argument")):
                raise
            return replace(self.empty, definition=replace(definition, fault=err), origin=Origin(tuple(functions)))
        return separated(replace(self.empty, made=core, definition=definition, origin=origin))

    def extended(self, preambles: Iterable[tuple[str, str]], manglers: Iterable[Callable[[Any, str], Any]]
                 ) -> KernelText:
        """The text with further preambles and symbol manglers."""
        return replace(self, extras=replace(self.extras, preambles=(*self.extras.preambles, *preambles),
                                            manglers=(*self.extras.manglers, *manglers)))

    def renamed(self, old: str, new: str) -> KernelText:
        """The text with another name of a function, or of the kernel."""
        lines = (CALL.sub(lambda call: f"{new if call[1] == old else call[1]}(", x) if isinstance(x, str) else x
                 for x in self.instructions)
        return replace(self, name=new if self.name == old else self.name, instructions=tuple(lines))

    def _with_facts(self, facts: Iterable[str]) -> KernelText:
        """The text with those of *facts* as assumptions that are about its names."""
        names = names_in(" ".join((*self.domains, *map(str, self.instructions))))
        own = [x for x in facts if condition_names(x) <= names]
        if not own:
            return self
        given = [] if self.assumptions is None else [condition_of(self.assumptions)]
        return replace(self, assumptions=" and ".join(f"({x})" if " or " in x else x for x in (*given, *own)))

    def core_with(self, functions: Sequence[Callee], packed: frozenset[str]
                  ) -> tuple[lk.LoopKernel, Origin]:
        """loopkit's kernel, and the facts about its text."""
        scalars = {f.name: f for f in functions if isinstance(f, lk.ScalarFunction)}
        # the user's function has another name than one of the language
        shadowed = {x: x + "_of_user" for x in scalars if x in FUNCTIONS}
        scalars = {shadowed.get(x, x): replace(f, name=shadowed.get(x, x)) for x, f in scalars.items()}
        kernels = {f.name: f for f in functions if isinstance(f, lk.LoopKernel)}
        effects = {f.name: f for f in functions if isinstance(f, SideEffect)}
        with bounded(f"making kernel '{self.name}'"):
            domains, declared = read_domains(self.domains), read_declarations(self.data, ())
            c_code = CStatements(domains.parents.keys(), _shapes(declared), self.extras.preamble, effects,
                                 kernels.keys(), WrittenOut(" ".join(self.domains)))
            whole = with_whole_structs(c_code.lines(self.instructions), declared, c_code.groups)
            lines, places = with_places(with_random_numbers(whole, c_code.groups), declared, self.name)
            scalars |= places
            if shadowed:
                lines = [CALL.sub(lambda call: f"{shadowed.get(call[1], call[1])}(", line) for line in lines]
            scalars |= {THREEFRY.name: THREEFRY} if any(THREEFRY.name in line for line in lines) else {}
            lines = list(with_tuples_of_results(lines, scalars, c_code.groups))
            _require_new(lines, self.instructions)
            if any("clamp(" in line for line in lines) and not {"clamp"} & (scalars.keys() | kernels.keys()):
                lines = [_CLAMP, *lines]
            lines, tagged = with_rules_for_tags(lines)
            if c_code.own.domains:
                domains = read_domains([*self.domains, *c_code.own.domains])
            scalars |= {f.name: f for f in c_code.own.functions}
            program = read_program(lines, domains, declared, scalars, kernels, packed,
                                   {o.name: o for o in c_code.own.reductions}, c_code.groups, self.extras.tags, tagged)
            if names := _second_names(declared, program.written):
                text = tuple(x if isinstance(x, CInstruction) else _with_names(x, names) for x in self.instructions)
                data = tuple(d for d in self.data if isinstance(d, str) or d.name not in names)
                return replace(self, instructions=text, data=data).core_with(functions, packed)
            items = self._items(program, {})
        called: list[lk.ScalarFunction | lk.LoopKernel] = [*scalars.values(), *kernels.values()]
        core, selected = self._core_of(program, program.text(items), called, c_code.own), {}
        if program.queries:
            selected = {query: frozenset(map(owner, matching(core, query))) for query in program.queries}
            items = self._items(program, selected)
            core = self._core_of(program, program.text(items), called, c_code.own)
        for tag, ids in program.tagged.items():
            core = lk.tag_instructions(core, tag, within=" or ".join(ids))
        c_code.require_declared(core)
        fixed = {name: value for name, value in self.fixed.items() if name in core.argument_by_name}
        core = lk.fix_parameters(core, **fixed) if fixed else core
        nesting = Nesting(not program.is_nested, steps=len(core.history))
        variable_tags = {s.id: s.variable_tags for s in program.statements if s.variable_tags}
        return core, Origin(tuple(functions), program.order(items, selected), nesting, tagged=tagged,
                            variable_tags=variable_tags)

    def _items(self, program: LoopyProgram, selected: Mapping[str, AbstractSet[str]]) -> Sequence[Item]:
        return program.items(selected, in_sequence=self.in_sequence,
                             must_exist=bool(self.empty.options.check_dep_resolution))

    def _core_of(self, program: LoopyProgram, text: str, functions: Sequence[lk.ScalarFunction | lk.LoopKernel],
                 own: WrittenOut) -> lk.LoopKernel:
        # the copies of inames are in the domains of the program only
        has_more = len(program.domains.domains) > len(self.domains)
        return lk.make_kernel(program.domains.domains if has_more else self.domains, text if text.strip() else [],
                              self.data, name=self.name, reductions=own.reductions,
                              assumptions=about_arguments(self.assumptions, program.written), functions=functions)


def _second_names(declared: Declared, written: AbstractSet[str]) -> Mapping[str, str]:
    """Names of temporaries that no statement writes, and that are all of the memory of another one: here its names."""
    temporaries = [d for d in declared.values() if isinstance(d, lk.TemporaryVariable) and d.base_storage is not None]
    alike = {(d.base_storage, d.dtype, d.shape): d.name for d in temporaries if d.name in written}
    return {d.name: alike[d.base_storage, d.dtype, d.shape] for d in temporaries
            if d.name not in written and (d.base_storage, d.dtype, d.shape) in alike}


def _require_new(lines: Iterable[str], instructions: Iterable[str | CInstruction]) -> None:
    """:raises NameConflictError: a temporary that the layer adds to *lines* has a name of the *instructions*."""
    text = "\n".join(map(str, instructions))
    added = Counter(_DECLARED.findall("\n".join(lines))) - Counter(_DECLARED.findall(text))
    if taken := sorted(added.keys() & names_in(text)):
        raise NameConflictError(f"The layer needs the name '{taken[0]}' for a temporary of its own.", subject=taken[0],
                                hint="give it another name")


def _shapes(declared: Declared) -> dict[str, Any]:
    """The declared shapes of arrays and temporaries; ``None``: not declared. A temporary without one is a number."""
    return {name: () if d.shape is None and isinstance(d, lk.TemporaryVariable) else d.shape
            for name, d in declared.items() if isinstance(d, lk.GlobalArg | lk.TemporaryVariable)}


def _rule_text(rule: SubstitutionRule) -> str:
    return f"{rule.name}({', '.join(rule.arguments)}) := {text_of(rule.expression)}"


def _own_name(name: str) -> str:
    """The name of a fixed parameter that the targets may reserve."""
    return name if fault(name) is None else f"{name}_fixed"


def _inames_in_c(domains: Iterable[str], others: Iterable[object]) -> dict[str, str]:
    """Other names for the inames of *domains* that begin with two underscores, which C reserves."""
    found = {x.strip() for d in domains for inames in INAMES.findall(d) for x in inames.split(",")}
    taken = names_in(" ".join(map(str, (*domains, *others))))
    return {x: fresh(x.strip("_"), taken) for x in sorted(found) if x.startswith("__") and x.strip("_")}


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """*text* with other *names*."""
    return NAME.sub(lambda name: names.get(name[0], name[0]), text)


def _listed(instructions: Any) -> list[Any]:
    return [instructions] if isinstance(instructions, str) or not isinstance(instructions, Iterable) else list(
        instructions)


def _with_labels(given: Sequence[Any]) -> tuple[list[Any], Mapping[str, Tag]]:
    """The instructions *given* with labels for their user tags, and the tags by these labels."""
    labels, taken = dict[Tag, str](), names_in("\n".join(x for x in given if isinstance(x, str)))
    found = list[Any]()
    for item in given:
        tags = item.tags if isinstance(item, InstructionBase) else frozenset[Any]()
        for tag in sorted((tag for tag in tags if isinstance(tag, Tag) and not isinstance(tag, str)), key=repr):
            labels[tag] = labels.get(tag) or fresh(type(tag).__name__, taken)
        found.append(item.copy(tags=[labels.get(x, x) for x in tags]) if tags & labels.keys() else item)
    return found, {label: tag for tag, label in labels.items()}


def _instruction_text(item: Any) -> str | CInstruction:
    """The text of *item*; :raises PreconditionError: loopkit has no such instruction."""
    if isinstance(item, str | CInstruction):
        return with_parentheses(item) if isinstance(item, str) else item
    if isinstance(item, SubstitutionRule):
        return _rule_text(item)
    if isinstance(item, InstructionBase):
        return line_of(item)
    raise PreconditionError(f"make_kernel: the instruction {item} is a {type(item).__name__}, which loopkit does not "
                            "have.", subject=type(item).__name__, hint="write it in the kernel language")


def _temporaries(given: Mapping[str, TemporaryVariable]) -> Iterable[TemporaryVariable]:
    return [t.copy(name=name) for name, t in given.items()]


def _value(argument: ValueArg) -> lk.ValueArg | lk.GlobalArg:
    dtype = None if argument.dtype is None else argument.dtype.numpy_dtype
    # a call passes a vector by its place
    return lk.GlobalArg(argument.name, dtype, ()) if dtype is not None and dtype.names else lk.ValueArg(
        argument.name, dtype)
