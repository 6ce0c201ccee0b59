"""make_kernel: text to a :class:`~loopkit.kernel.kernel.LoopKernel`."""
from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from loopkit.analysis.atomic_stores import claims_of_stores
from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.order import require_barriers_in_place
from loopkit.analysis.shapes import with_inferred_shapes, with_shapes_like_inputs, with_sizes_nonnegative
from loopkit.errors import PreconditionError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.mappers import without_declared_domains
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.tokens import Source
from loopkit.kernel.annotations import checked
from loopkit.kernel.c_instruction import CInstruction
from loopkit.kernel.data import Options, TemporaryVariable, ValueArg
from loopkit.kernel.history import History, HistoryStep
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Obligation
from loopkit.kernel.tags import GivenTags, user_tags
from loopkit.kernel.tree import given
from loopkit.language.arguments import (
    Declared,
    find_temporaries,
    offsets_of,
    read_declarations,
    readers_of_places,
    resolve,
    shapes_of,
)
from loopkit.language.c_instructions import WrittenOut
from loopkit.language.call_checks import require_calls, require_functions
from loopkit.language.calls import CallMaker, signature_of
from loopkit.language.domains import Domains, read_assumptions, read_domains
from loopkit.language.elementwise import functions_with_dot, in_fields, is_fieldwise
from loopkit.language.iterations import inames_of_parts, require_one_meaning, with_values_of_iterations
from loopkit.language.names import require_free, require_kernel_name
from loopkit.language.objects import InstructionObject, program_source
from loopkit.language.private_inames import with_private_inames
from loopkit.language.program import ParsedProgram, assignments, number_statements, read_rules, swept_inames
from loopkit.language.queries import with_queried_statements
from loopkit.language.statements import ReductionMaker, StatementMaker
from loopkit.language.suspicions import suspicions
from loopkit.language.syntax import parse_program
from loopkit.poly.domains import AnySet
from loopkit.poly.limits import bounded
from loopkit.poly.sets import InstanceSet, universe_params

#: The domains of a kernel, as users give them: texts, sets of isl, and those of a kernel.
Given = str | AnySet | InstanceSet
#: Instructions, as users give them.
Program = str | InstructionObject | Iterable[str | InstructionObject]

#: The functions that statements call: those of numbers, and kernels.
Callee = ScalarFunction | LoopKernel

Called = TypeVar("Called", ReductionOperation, ScalarFunction)


@checked
def make_kernel(domains: Given | Iterable[Given], instructions: Program,
                kernel_data: Iterable[object] | str | None = None, *, name: str = "kernel",
                assumptions: str | AnySet | None = None, options: Options | None = None,
                temporary_variables: Mapping[str, TemporaryVariable] | Iterable[TemporaryVariable] = (),
                reductions: Iterable[ReductionOperation] = (), functions: Iterable[Callee] = (),
                tags: GivenTags = None) -> LoopKernel:
    """Make a kernel: from its domains in isl's notation, and its statements in loopy's language or as objects.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> [a.name for a in knl.arguments]
    ['n', 'x', 'y']
    >>> knl.statement("insn").domain.text
    '[n] -> { [i] : 0 <= i < n }'

    :arg domains: one or several sets in isl's notation, or isl's sets; a text need not list its parameters. If a
        parameter of a domain is an iname of another domain, the loops of the first nest in those of the second. If a
        parameter is an integer temporary of the kernel, the bound is read from memory. Domains of a kernel are allowed
        too.
    :arg instructions: statements, blocks and substitution rules, one per line; a text, or a list of texts,
        :class:`Assignment`, :class:`CallInstruction`, :class:`CInstruction` and :class:`SubstitutionRule`. An empty
        list makes a kernel without statements.
    :arg kernel_data: the arguments in order, each a ``GlobalArg``, a ``ValueArg`` or a name, and temporaries as
        ``TemporaryVariable``. ``"..."`` (the default) stands for all other arguments of the text, sorted by name. Size
        parameters that are not listed are added.
    :arg assumptions: a condition on the parameters, ``"n>=1 and m>=1"``, or a parameter set of isl.
    :arg name: the name of the kernel, and of the generated function.
    :arg reductions: operations in addition to those of the language, such as ``sum`` and ``max``.
    :arg functions: the functions of numbers in addition to those of the language, :class:`ScalarFunction`, and the
        kernels that statements may call; see :func:`loopkit.make_function`.
    :arg tags: user tags of the kernel.
    :raises ParseError: the text cannot be read, contradicts itself, or leaves two readings of a temporary.
    :raises UnknownNameError: an iname, function, statement or argument does not exist.
    :raises NameConflictError: a name is reserved, or has two meanings.
    :raises PreconditionError: a declaration in *kernel_data* does not fit the text, or the value that a read of a
        temporary gets is ambiguous.
    :raises UndecidedError: atomic stores may store different values in one element.

    :class:`loopkit.LoopkitWarning` is issued for inames that no statement uses, and for scalar arguments that are not
    declared and resemble another name.
    """
    return _read_kernel(domains, instructions, kernel_data, name, assumptions, options, temporary_variables, reductions,
                        functions, tags)


@checked
def make_function(domains: Given | Iterable[Given], instructions: Program,
                  kernel_data: Iterable[object] | str | None = None, *, name: str,
                  assumptions: str | AnySet | None = None, options: Options | None = None,
                  temporary_variables: Mapping[str, TemporaryVariable] | Iterable[TemporaryVariable] = (),
                  reductions: Iterable[ReductionOperation] = (), functions: Iterable[Callee] = (),
                  tags: GivenTags = None) -> LoopKernel:
    """Make a kernel that other kernels call by its *name*: ``make_kernel(..., functions=[...])``.

    A call passes slices of arrays and values, and its function's statements run in the place of the call. The page
    "Functions" of the documentation describes calls.

    >>> twice = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="twice")
    >>> knl = lk.make_kernel("{[i]: 0<=i<m}", "y[i,:] = twice(x[i,:], 4)", functions=[twice])
    >>> print(knl.statements_text)
    for i, j
      # y[i,:] = twice(x[i,:], 4)
        y[i, j] = 2*x[i, j]  {id=twice_insn}
    end

    :arg name: the name in calls. The other arguments, and the errors, are those of :func:`make_kernel`.
    """
    return _read_kernel(domains, instructions, kernel_data, name, assumptions, options, temporary_variables, reductions,
                        functions, tags)


@checked
def merge(kernels: Iterable[LoopKernel]) -> LoopKernel:
    """The one of *kernels* that no other calls, with the others as the functions of their names.

    The caller is made again from its text with these functions, and its steps are applied and checked again. So a
    function may get steps after the caller was made.

    >>> twice = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="twice")
    >>> knl = lk.make_kernel("{[i]: 0<=i<m}", "y[i,:] = twice(x[i,:], 16)", functions=[twice])
    >>> knl = lk.tag_inames(knl, "i:g.0")
    >>> print(lk.merge([knl, lk.split_iname(twice, "j", 4, inner_tag="l.0")]).statements_text)
    for i [g.0], j_outer, j_inner [l.0]
      # y[i,:] = twice(x[i,:], 16)
        y[i, 4*j_outer + j_inner] = 2*x[i, 4*j_outer + j_inner]  {id=twice_insn}
    end

    :raises NameConflictError: two kernels have one name.
    :raises PreconditionError: several of *kernels*, or none, are called by no other; a function calls itself through
        others.
    :raises ReplayError: a step of the caller, or of a function that calls others, cannot be applied again.
    """
    with bounded("merging kernels"):
        given = require_functions(kernels)
    called = {f.name for knl in given.values() for f in _all_functions(knl)}
    callers = [name for name in given if name not in called]
    for name in given if not callers else ():
        _with_functions(given[name], given, (name,))            # raises the error for a cycle
    if len(callers) != 1:
        found = " and ".join(map(repr, callers)) or "none"
        raise PreconditionError(f"merge takes one kernel that no other calls, and these are {found}.",
                                subject=", ".join(callers),
                                hint="make_kernel(..., functions=[...]) names the functions that a text calls")
    return _with_functions(given[callers[0]], given, (callers[0],))


def _callees_of(knl: LoopKernel) -> tuple[Callee, ...]:
    """The functions with which *knl* was made."""
    found = dict(knl.history.made.kwargs).get("functions", ()) if knl.history.made is not None else ()
    assert isinstance(found, tuple)
    return found


def _functions_of(knl: LoopKernel) -> tuple[LoopKernel, ...]:
    """The kernels with which *knl* was made."""
    return tuple(f for f in _callees_of(knl) if isinstance(f, LoopKernel))


def _all_functions(knl: LoopKernel) -> Iterator[LoopKernel]:
    """The functions with which *knl* was made, and those with which these were."""
    for function in _functions_of(knl):
        yield function
        yield from _all_functions(function)


def _with_functions(knl: LoopKernel, given: Mapping[str, LoopKernel], around: tuple[str, ...]) -> LoopKernel:
    """*knl* made with the functions *given* in place of its own ones of the same names; *around* are its callers."""
    new: list[LoopKernel] = []
    for function in _functions_of(knl):
        if function.name in around:
            cycle = (*around[around.index(function.name):], function.name)
            raise PreconditionError(f"The function '{function.name}' calls itself ({' -> '.join(cycle)}).",
                                    subject=function.name, hint="write the recursion as a loop")
        own = given.get(function.name, function)
        new.append(_with_functions(own, given, (*around, function.name)))
    if all(a is b for a, b in zip(new, _functions_of(knl), strict=True)):
        return knl
    made = knl.history.made
    assert made is not None
    others = [f for f in _callees_of(knl) if not isinstance(f, LoopKernel)]
    arguments: dict[str, Any] = {**dict(made.kwargs), "functions": (*others, *new)}
    again: LoopKernel = make_kernel(*made.args, **arguments)                                # type: ignore[arg-type]
    return knl.history.replay(again)


def _read_kernel(domains: Given | Iterable[Given], instructions: Program,
                 kernel_data: Iterable[object] | str | None, name: str, assumptions: str | AnySet | None,
                 options: Options | None,
                 temporary_variables: Mapping[str, TemporaryVariable] | Iterable[TemporaryVariable],
                 reductions: Iterable[ReductionOperation], functions: Iterable[Callee], tags: GivenTags) -> LoopKernel:
    require_kernel_name(name)
    # isl's sets print in isl's notation
    listed = [domains] if isinstance(domains, InstanceSet) else domains
    texts = str(listed) if isinstance(listed, str | AnySet) else [
        d if isinstance(d, InstanceSet) else str(d) for d in listed]
    instructions, kernel_data = _copied(instructions), _copied(kernel_data)
    assumptions = str(assumptions) if isinstance(assumptions, AnySet) else assumptions
    temporaries = tuple(
        temporary_variables.values() if isinstance(temporary_variables, Mapping) else temporary_variables)
    reductions, functions = tuple(reductions), tuple(functions)
    made = _history(texts, instructions, kernel_data=kernel_data, name=name, assumptions=assumptions, options=options,
                    temporary_variables=temporaries, reductions=reductions, functions=functions, tags=tags)
    with bounded(f"making kernel '{name}'"):
        declared = read_declarations(kernel_data, temporaries)
        program = _read_program(listed_program(instructions), [texts] if isinstance(texts, str) else texts, reductions,
                                functions, declared)
        knl = _kernel_of(program, name, declared, assumptions, options or Options(), made)
        if not knl.statements and instructions != []:
            raise program.source.error(0, "The instructions contain no statement.", "a statement")
        claims_of_stores(knl, knl.statements, "make_kernel")
        knl = in_own_order(knl, kernel_tags=user_tags(tags, f"kernel '{name}'")) if tags else knl
    for suspicion in suspicions(knl, program.domains.parents.keys() - swept_inames(program.parsed.body), declared):
        warnings.warn(suspicion, stacklevel=4)              # the caller of the checked function
    return knl


def remade(kernel: LoopKernel, instructions: Sequence[str | InstructionObject], domains: Sequence[str | InstanceSet],
           kernel_data: Iterable[object]) -> LoopKernel:
    """The kernel that other *instructions* define, with the name, the options and the assumptions of *kernel*."""
    declared = read_declarations(kernel_data, ())
    program = _read_program(instructions, domains, kernel.operations.values(), kernel.functions.values(), declared)
    return _kernel_of(program, kernel.name, declared, kernel.assumptions, kernel.options, History())


def listed_program(instructions: Program) -> Sequence[str | InstructionObject]:
    """*instructions* as a list."""
    return [instructions] if isinstance(instructions, str | InstructionObject) else list(instructions)


def _copied(given: Any) -> Any:
    """*given*, copied if it can change."""
    return given if isinstance(given, str) or given is None else \
        [given] if isinstance(given, InstructionObject) else list(given)


def _history(domains: object, instructions: object, **given: object) -> History:
    """The history of a new kernel, with the arguments that differ from their defaults."""
    changed = [(k, v) for k, v in given.items() if v is not None and not (k == "name" and v == "kernel")
               and not (k in ("temporary_variables", "reductions", "functions") and not v)]
    return History((), HistoryStep("make_kernel", (domains, instructions), tuple(changed)))


def _by_name(what: str, given: Iterable[Called], taken: Collection[str]) -> dict[str, Called]:
    """The user's reductions or functions by name; :raises NameConflictError: a name is taken."""
    result: dict[str, Called] = {}
    for value in given:
        require_free(value.name, {*result, *taken}, what, called=True)
        result[value.name] = value
    return result


@dataclass(frozen=True)
class _ReadProgram:
    """The program of a kernel that is being made.

    :ivar operations: the user's reductions by name; *functions*: the user's functions of numbers.
    :ivar kernels: the kernels that statements may call.
    """

    source: Source
    domains: Domains
    parsed: ParsedProgram
    operations: Mapping[str, ReductionOperation]
    functions: Mapping[str, ScalarFunction]
    kernels: Mapping[str, LoopKernel]
    c_instructions: tuple[CInstruction, ...]


def _read_program(instructions: Iterable[str | InstructionObject], domains: Sequence[str | InstanceSet],
                  reductions: Iterable[ReductionOperation], functions: Iterable[Callee], declared: Declared
                  ) -> _ReadProgram:
    """Read the instructions and the domains of a kernel."""
    functions = tuple(functions)
    own = WrittenOut(" ".join(d if isinstance(d, str) else d.text for d in domains))
    source = program_source(own.program(instructions))
    read = read_domains([*domains, *own.domains])
    operations = _by_name("The reduction", (*reductions, *own.reductions), {*read.parents, *read.params})
    kernels = require_functions(f for f in functions if isinstance(f, LoopKernel))
    called = _by_name("The function", (*(f for f in functions if isinstance(f, ScalarFunction)), *own.functions),
                      {*read.parents, *read.params, *operations, *kernels})
    parsed = parse_program(source, read.parents.keys(), read.add_inline, operations,
                           functions_with_dot(declared, called),
                           {name: signature_of(f) for name, f in kernels.items()}, readers_of_places(declared),
                           offsets_of(declared), shapes_of(declared))
    parsed, of_tuples = in_fields(parsed, declared)
    return _ReadProgram(source, read, parsed, {**operations, **of_tuples}, called, kernels, tuple(own.instructions))


def _kernel_of(given_program: _ReadProgram, name: str, declared: Declared, assumptions: str | AnySet | None,
               options: Options, history: History) -> LoopKernel:
    """The kernel that a program defines."""
    program, domains = given_program.parsed, given_program.domains
    operations, functions = given_program.operations, given_program.functions
    temporaries = find_temporaries(program, declared)
    for read in sorted(x for d in domains.domains if not d.inames for x in temporaries.keys() & d.params):
        raise PreconditionError(f"A domain without inames restricts all statements, and '{read}' is a temporary.",
                                subject=read, hint=f"an 'if' block after the statement that writes '{read}'")
    rules = read_rules(program, domains)
    program = with_private_inames(program, rules)
    arguments, known = resolve(program, declared, temporaries, domains)
    names = {*(a.name for a in arguments), *temporaries, *rules.known, name}
    for what, called in (("The reduction", operations), ("The function", functions)):
        for own in called:
            require_free(own, names, what)
    for kernel_name in given_program.kernels:
        require_free(kernel_name, {*names, *operations, *domains.parents}, "The function", called=True)
    ids = number_statements(program)
    integers = {a.name for a in arguments if isinstance(a, ValueArg) and a.dtype is not None
                and np.dtype(a.dtype).kind in "iu"}
    affine_names = frozenset({*domains.parents, *domains.inline_inames, *domains.params, *integers})
    taken = {*names, *domains.parents, *domains.inline_inames, *operations, *functions, *given_program.kernels}
    bases = {t.base_storage for t in temporaries.values() if t.base_storage is not None}
    for base in sorted(bases):
        require_free(base, taken | domains.params, "The base storage")
    taken |= bases
    reductions = ReductionMaker(domains, affine_names.difference(temporaries), taken, set(ids.places))
    calls = CallMaker(given_program.kernels, frozenset(a.name for a in arguments if isinstance(a, ValueArg)),
                      frozenset(t.name for t in known.values() if t.shape == ()))
    maker = StatementMaker(rules, ids, inames_of_parts(program, temporaries, rules), reductions, calls.make,
                           [o for o in operations.values() if o.reorderable])
    tree = maker.make(program.body)
    parts = calls.merged()
    operations, functions = calls.with_operations(operations), calls.with_functions(functions)
    kernel = LoopKernel(
        name=name, arguments=calls.typed(arguments), temporaries={t.name: t for t in (
            *calls.typed(known.values()), *reductions.temporaries.values(), *calls.temporaries().values())},
        statements=calls.without_call_ids(reductions.statements), tree=tree, derived=None,
        declared_domains=_unused(domains, reductions),
        given_pairs=given(tree, maker.blocks) | parts.given_pairs,
        reductions={**reductions.nodes, **parts.reductions}, tags=parts.tags, user_tags=parts.user_tags,
        barriers=tuple(dict.fromkeys((*maker.barriers, *parts.barriers))), calls=parts.calls,
        operations=operations, functions=functions,
        obligations=(*(Obligation("make_kernel", f"'{o.name}' may combine its operands in any order",
                                  "declared reorderable") for o in operations.values()
                       if o.reorderable and not is_fieldwise(o)),
                     *dict.fromkeys(Obligation("make_kernel", f.claim, f.ground) for f in functions.values()),
                     *(Obligation("make_kernel", f"'{s.id}' may keep the old values in any order", "declared atomic")
                       for s in reductions.statements if s.commuting is not None and not s.commutes)),
        substitutions={rule_name: replace(r, expr=without_declared_domains(r.expr))
                       for rule_name, r in rules.known.items()},
        assumptions=universe_params() if assumptions is None else read_assumptions(
            assumptions, [a.name for a in arguments if isinstance(a, ValueArg)]), options=options, history=history)
    for x in given_program.c_instructions:
        x.require_undeclared({*kernel.argument_by_name, *kernel.temporaries, *kernel.inames})
    kernel = with_queried_statements(kernel, program, ids)
    require_barriers_in_place(kernel)
    shaped = {name for name, d in declared.items() if isinstance(d, TemporaryVariable) and d.shape is not None}
    require_one_meaning(kernel, maker.opened, {ids.of[node.start] for node in assignments(program.body)
                                               if node.options.inames.alone}, calls.temporaries())
    kernel = with_inferred_shapes(with_sizes_nonnegative(with_shapes_like_inputs(
        with_values_of_iterations(kernel, shaped, calls.temporaries()))))
    require_calls(kernel, calls.made)
    return kernel


def _unused(domains: Domains, made: ReductionMaker) -> tuple[InstanceSet, ...]:
    """The domains other than the instance sets, each with the inames in whose domains it is nested."""
    known: dict[frozenset[str], list[InstanceSet]] = {}
    for d in {id(s.domain): s.domain for s in made.statements}.values():
        known.setdefault(frozenset(d.inames), []).append(d)
    full = [domains.instances(domains.sorted(domains.ancestors(d.inames))) for d in domains.domains]
    return tuple(d for d in full if not any(d.is_equal(other.onto(d.inames))
                                            for other in known.get(frozenset(d.inames), ())))
