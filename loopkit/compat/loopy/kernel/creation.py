"""make_kernel and make_function with loopy's arguments."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from pytools.tag import Tag

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.compat.loopy.c_code import CStatements
from loopkit.compat.loopy.codegen import generated
from loopkit.compat.loopy.fields import is_of_fields, with_whole_structs
from loopkit.compat.loopy.index_of import with_places
from loopkit.compat.loopy.kernel.data import ArrayArg, GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.compat.loopy.kernel.definition import Again, Callee, Definition, Origin, Parts, condition_of
from loopkit.compat.loopy.kernel.function_interface import SideEffect
from loopkit.compat.loopy.kernel.instruction import CInstruction, InstructionBase, line_of, text_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.kernel.results import with_tuples_of_results
from loopkit.compat.loopy.nesting import Nesting
from loopkit.compat.loopy.options import make_options, require_neutral
from loopkit.compat.loopy.order import Item
from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.program import LoopyProgram, read_program
from loopkit.compat.loopy.random123 import THREEFRY, USED, with_random_numbers
from loopkit.compat.loopy.spelling import CALL, INAMES, counted_calls, domain_texts
from loopkit.compat.loopy.tagged import with_rules_for_tags
from loopkit.compat.loopy.target.base import TargetBase
from loopkit.compat.loopy.target.pyopencl import PyOpenCLTarget
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.transform.iname import prioritize_loops, tag_inames
from loopkit.compat.loopy.transform.subst import about_arguments
from loopkit.compat.loopy.translation_unit import TranslationUnit, make_program
from loopkit.compat.loopy.types import as_numpy
from loopkit.compat.loopy.typing import auto, unless_auto
from loopkit.errors import LoopkitError, NameConflictError, PreconditionError, UnknownNameError
from loopkit.expr.functions import FUNCTIONS
from loopkit.kernel.statement import owner
from loopkit.language.arguments import Declared, read_declarations
from loopkit.language.c_instructions import WrittenOut
from loopkit.language.domains import read_domains
from loopkit.language.names import fault, fresh
from loopkit.poly.limits import bounded


def make_kernel(domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel",
                assumptions: Any = None, target: Any = None, options: Any = None,
                temporary_variables: Mapping[str, TemporaryVariable] | None = None,
                substitutions: Mapping[str, SubstitutionRule] | None = None,
                fixed_parameters: Mapping[str, Any] | None = None, seq_dependencies: bool = False, tags: Any = None,
                default_order: Any = "C", loop_priority: Iterable[Sequence[str]] | None = None, index_dtype: Any = None,
                **others: Any) -> TranslationUnit:
    """A program of one kernel, from loopy's language.

    The statements get loopy's order: by ``dep=``, by the only writer of a name that they read, and by loops that are
    entered once. The kernel has this order as its text.

    :arg default_order: the order of the axes of arguments that declare none, ``"C"`` or ``"F"``.
    :arg loop_priority: for each group of loops their inames, the outermost first.

    >>> import loopkit.compat.loopy as lp
    >>> print(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]\\na[i] = 2*x[i]")["loopy_kernel"].core.statements_text)
    for i
      a[i] = 2*x[i]  {id=insn_0}
      y[i] = a[i]  {id=insn}
    end

    :raises PreconditionError: an argument is given for which loopkit has nothing.
    """
    preambles = _preambles(others.pop("preambles", ()), others.pop("preamble_generators", ()))
    require_neutral(others, signature(make_kernel).parameters)
    if unless_auto(default_order) not in (None, "C", "c", "F", "f"):
        raise PreconditionError(f"make_kernel: loopkit has nothing for default_order={default_order!r}.",
                                subject="default_order", hint="pass 'C', 'F' or lp.auto")
    silenced = others.get("silenced_warnings") or ()
    if not isinstance(target, TargetBase | None):
        raise PreconditionError(f"{target!r} is not a target.", subject="target",
                                hint="target=lp.ExecutableCTarget(), lp.PyOpenCLTarget() or lp.CudaTarget()")
    empty = LoopKernel(None, PyOpenCLTarget() if target is None else target, make_options(options), {}, frozenset(
        silenced.split(";") if isinstance(silenced, str) else silenced))
    text = _Text(name, (), (), (), assumptions or None, seq_dependencies,
                 Extras(tuple((fixed_parameters or {}).items()), preambles), empty)
    parts = Parts(name, domains, instructions, list(_data(kernel_data)), temporary_variables or {}, substitutions or {})
    made = text.of(parts, empty).made()
    if index_dtype is not None:
        made = made.copy(index_dtype=index_dtype)
    if default_order not in ("C", "c", None):
        step = Again(_in_order, (default_order,), {})
        made = made.after(step, step)
    for inames in loop_priority or ():
        made = prioritize_loops(made, inames)
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
class _Text:
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

    def of(self, parts: Parts, empty: LoopKernel) -> _Text:
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
            made = made.after(step, step)
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

    def extended(self, preambles: Iterable[tuple[str, str]], manglers: Iterable[Callable[[Any, str], Any]]) -> _Text:
        """The text with further preambles and symbol manglers."""
        return replace(self, extras=replace(self.extras, preambles=(*self.extras.preambles, *preambles),
                                            manglers=(*self.extras.manglers, *manglers)))

    def renamed(self, old: str, new: str) -> _Text:
        """The text with another name of a function, or of the kernel."""
        lines = (CALL.sub(lambda call: f"{new if call[1] == old else call[1]}(", x) if isinstance(x, str) else x
                 for x in self.instructions)
        return replace(self, name=new if self.name == old else self.name, instructions=tuple(lines))

    def _with_facts(self, facts: Iterable[str]) -> _Text:
        """The text with those of *facts* as assumptions that are about its names."""
        names = {*_NAME.findall(" ".join((*self.domains, *map(str, self.instructions))))}
        own = [x for x in facts if {*_NAME.findall(x)} - _WORDS <= names]
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
            lines = c_code.lines(self.instructions)
            if any(is_of_fields(line) for line in lines):
                lines = list(with_whole_structs(lines, declared, c_code.groups))
            if any(map(USED.search, lines)):
                lines = [x for line in lines for x in with_random_numbers(line, c_code.groups)]
                scalars |= {THREEFRY.name: THREEFRY} if any(THREEFRY.name in line for line in lines) else {}
            lines, places = with_places(lines, declared, self.name)
            scalars |= places
            if shadowed:
                lines = [CALL.sub(lambda call: f"{shadowed.get(call[1], call[1])}(", line) for line in lines]
            lines = [x for line in lines for x in with_tuples_of_results(line, scalars, c_code.groups)]
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


_DECLARED = re.compile(r"<\w*>\s*([A-Za-z_]\w*)", re.ASCII)


def _require_new(lines: Iterable[str], instructions: Iterable[str | CInstruction]) -> None:
    """:raises NameConflictError: a temporary that the layer adds to *lines* has a name of the *instructions*."""
    text = "\n".join(map(str, instructions))
    added = Counter(_DECLARED.findall("\n".join(lines))) - Counter(_DECLARED.findall(text))
    if taken := sorted(added.keys() & {*_NAME.findall(text)}):
        raise NameConflictError(f"The layer needs the name '{taken[0]}' for a temporary of its own.", subject=taken[0],
                                hint="give it another name")


def _shapes(declared: Declared) -> dict[str, Any]:
    """The declared shapes of arrays and temporaries; ``None``: not declared. A temporary without one is a number."""
    return {name: () if d.shape is None and isinstance(d, lk.TemporaryVariable) else d.shape
            for name, d in declared.items() if isinstance(d, lk.GlobalArg | lk.TemporaryVariable)}


#: The function of OpenCL that loopy's language has for all targets.
_CLAMP = "clamp(x_, least_, most_) := min(max(x_, least_), most_)"


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: The words of conditions in isl's notation.
_WORDS = frozenset({"and", "or", "not", "mod", "exists", "true", "false"})

def make_function(*args: Any, **kwargs: Any) -> TranslationUnit:
    """A program of one kernel that no call enters, but other kernels may call."""
    return replace(make_kernel(*args, **kwargs), entrypoints=frozenset())


def apply_single_writer_dependency_heuristic(program: Any, warn_if_used: bool = True, error_if_used: bool = False
                                             ) -> Any:
    """Nothing changes: a kernel runs its statements in this order from the start."""
    return program


def _preambles(given: Any, generators: Any) -> tuple[tuple[str, str], ...]:
    """Definitions of C code, by their keys."""
    return (*map(tuple, given or ()), *generated(generators or ()))


def _rule_text(rule: SubstitutionRule) -> str:
    return f"{rule.name}({', '.join(rule.arguments)}) := {text_of(rule.expression)}"


def _own_name(name: str) -> str:
    """The name of a fixed parameter that the targets may reserve."""
    return name if fault(name) is None else f"{name}_fixed"


def _inames_in_c(domains: Iterable[str], others: Iterable[object]) -> dict[str, str]:
    """Other names for the inames of *domains* that begin with two underscores, which C reserves."""
    found = {x.strip() for d in domains for inames in INAMES.findall(d) for x in inames.split(",")}
    taken = {*_NAME.findall(" ".join(map(str, (*domains, *others))))}
    return {x: fresh(x.strip("_"), taken) for x in sorted(found) if x.startswith("__") and x.strip("_")}


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """*text* with other *names*."""
    return _NAME.sub(lambda name: names.get(name[0], name[0]), text)


def _listed(instructions: Any) -> list[Any]:
    return [instructions] if isinstance(instructions, str) or not isinstance(instructions, Iterable) else list(
        instructions)


def _with_labels(given: Sequence[Any]) -> tuple[list[Any], Mapping[str, Tag]]:
    """The instructions *given* with labels for their user tags, and the tags by these labels."""
    labels, taken = dict[Tag, str](), {*_NAME.findall("\n".join(x for x in given if isinstance(x, str)))}
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
