"""make_kernel: text to a :class:`~loopkit.kernel.kernel.LoopKernel`."""
from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

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
from loopkit.kernel.tree import given
from loopkit.language.arguments import Declared, find_temporaries, read_declarations, resolve
from loopkit.language.c_instructions import WrittenOut
from loopkit.language.domains import Domains, read_assumptions, read_domains
from loopkit.language.iterations import inames_of_parts, require_one_meaning, with_values_of_iterations
from loopkit.language.names import require_free, require_kernel_name
from loopkit.language.private_inames import with_private_inames
from loopkit.language.program import ParsedProgram, assignments, number_statements, read_rules
from loopkit.language.queries import with_queried_statements
from loopkit.language.statements import ReductionMaker, StatementMaker
from loopkit.language.suspicions import suspicions
from loopkit.language.syntax import parse_program
from loopkit.poly.domains import AnySet
from loopkit.poly.limits import bounded
from loopkit.poly.sets import universe_params

Called = TypeVar("Called", ReductionOperation, ScalarFunction)


@checked
def make_kernel(domains: str | AnySet | Iterable[str | AnySet], instructions: str | Iterable[str | CInstruction],
                kernel_data: Iterable[object] | str | None = None, *, name: str = "kernel",
                assumptions: str | AnySet | None = None, options: Options | None = None,
                temporary_variables: Mapping[str, TemporaryVariable] | Iterable[TemporaryVariable] = (),
                reductions: Iterable[ReductionOperation] = (),
                functions: Iterable[ScalarFunction] = ()) -> LoopKernel:
    """Make a kernel from text: its domains in isl's notation, and its statements in loopy's language.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> [a.name for a in knl.arguments]
    ['n', 'x', 'y']
    >>> knl.statement("insn").domain.text
    '[n] -> { [i] : 0 <= i < n }'

    :arg domains: one or several sets in isl's notation, or isl's sets; a text need not list its parameters. If a
        parameter of a domain is an iname of another domain, the loops of the first nest in those of the second. If a
        parameter is an integer temporary of the kernel, the bound is read from memory.
    :arg instructions: statements, blocks and substitution rules, one per line; a text or a sequence of texts and
        of statements in C, :class:`CInstruction`.
    :arg kernel_data: the arguments in order, each a ``GlobalArg``, a ``ValueArg`` or a name, and temporaries as
        ``TemporaryVariable``. ``"..."`` (the default) stands for all other arguments of the text, sorted by name. Size
        parameters that are not listed are added.
    :arg assumptions: a condition on the parameters, ``"n>=1 and m>=1"``, or a parameter set of isl.
    :arg name: the name of the kernel, and of the generated function.
    :arg reductions: operations in addition to ``sum``, ``product``, ``min``, ``max``, ``any`` and ``all``.
    :arg functions: functions of numbers in addition to those of the language.
    :raises ParseError: the text cannot be read, contradicts itself, or leaves two readings of a temporary.
    :raises UnknownNameError: an iname, function, statement or argument does not exist.
    :raises NameConflictError: a name is reserved, or has two meanings.
    :raises PreconditionError: a declaration in *kernel_data* does not fit the text, or the value that a read of a
        temporary gets is ambiguous.

    :class:`loopkit.LoopkitWarning` is issued for inames that no statement uses, and for scalar arguments that are not
    declared and resemble another name.
    """
    require_kernel_name(name)
    # isl's sets print in isl's notation
    texts = str(domains) if isinstance(domains, str | AnySet) else list(map(str, domains))
    instructions, kernel_data = _copied(instructions), _copied(kernel_data)
    assumptions = str(assumptions) if isinstance(assumptions, AnySet) else assumptions
    temporaries = tuple(
        temporary_variables.values() if isinstance(temporary_variables, Mapping) else temporary_variables)
    reductions, functions = tuple(reductions), tuple(functions)
    made = _history(texts, instructions, kernel_data=kernel_data, name=name, assumptions=assumptions, options=options,
                    temporary_variables=temporaries, reductions=reductions, functions=functions)
    own = WrittenOut(" ".join([texts] if isinstance(texts, str) else texts))
    source = Source(instructions if isinstance(instructions, str) else "\n".join(
        line for x in instructions for line in ([x] if isinstance(x, str) else own.lines(x))), "the instructions")
    reductions, functions = (*reductions, *own.reductions), (*functions, *own.functions)
    texts = texts if not own.domains else [*([texts] if isinstance(texts, str) else texts), *own.domains]
    with bounded(f"making kernel '{name}'"):
        read = read_domains(texts)
        declared = read_declarations(kernel_data, temporaries)
        operations = _by_name("The reduction", reductions, {*read.parents, *read.params})
        called = _by_name("The function", functions, {*read.parents, *read.params, *operations})
        program = parse_program(source, read.parents.keys(), lambda text, start: read.add_inline(source, text, start),
                                operations, called)
        if not assignments(program.body):
            raise source.error(0, "The instructions contain no statement.", "a statement")
        knl = _assemble(name, read, program, declared, assumptions, options or Options(), operations, called, made)
        for x in own.instructions:
            x.require_undeclared({*knl.argument_by_name, *knl.temporaries, *knl.inames})
    for suspicion in suspicions(knl, read.parents, declared):
        warnings.warn(suspicion, stacklevel=3)              # the caller of the checked function
    return knl


def _copied(given: Any) -> Any:
    """*given*, copied if it can change."""
    return given if isinstance(given, str) or given is None else list(given)


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


def _assemble(name: str, domains: Domains, program: ParsedProgram, declared: Declared, assumptions: str | AnySet | None,
              options: Options, operations: Mapping[str, ReductionOperation],
              functions: Mapping[str, ScalarFunction], history: History) -> LoopKernel:
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
    ids = number_statements(program)
    integers = {a.name for a in arguments if isinstance(a, ValueArg) and a.dtype is not None
                and np.dtype(a.dtype).kind in "iu"}
    affine_names = frozenset({*domains.parents, *domains.inline_inames, *domains.params, *integers})
    taken = {*names, *domains.parents, *domains.inline_inames, *operations, *functions}
    reductions = ReductionMaker(domains, affine_names.difference(temporaries), taken, set(ids.places))
    maker = StatementMaker(rules, ids, inames_of_parts(program, temporaries, rules), reductions)
    tree = maker.make(program.body)
    kernel = LoopKernel(
        name=name, arguments=arguments, temporaries={**known, **reductions.temporaries},
        statements=tuple(reductions.statements), tree=tree, derived=None,
        given_pairs=given(tree, maker.blocks), barriers=tuple(dict.fromkeys(maker.barriers)),
        reductions=reductions.nodes, operations=operations, functions=functions,
        obligations=(*(Obligation("make_kernel", f"'{o.name}' may combine its operands in any order",
                                  "declared reorderable") for o in operations.values() if o.reorderable),
                     *dict.fromkeys(Obligation("make_kernel", f.claim, f.ground) for f in functions.values())),
        substitutions={rule_name: replace(r, expr=without_declared_domains(r.expr))
                       for rule_name, r in rules.known.items()},
        assumptions=universe_params() if assumptions is None else read_assumptions(
            assumptions, [a.name for a in arguments if isinstance(a, ValueArg)]), options=options, history=history)
    kernel = with_queried_statements(kernel, program, ids)
    require_barriers_in_place(kernel)
    shaped = {name for name, d in declared.items() if isinstance(d, TemporaryVariable) and d.shape is not None}
    require_one_meaning(kernel, maker.opened, {ids.of[node.start] for node in assignments(program.body)
                                               if node.options.inames.alone})
    return with_inferred_shapes(with_sizes_nonnegative(with_shapes_like_inputs(
        with_values_of_iterations(kernel, shaped))))
