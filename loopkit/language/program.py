"""The parsed program: a tree of assignments, blocks and substitution rules, and the ids of its statements."""
from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.analysis.accesses import expand_rules
from loopkit.ast.nodes import Instruction
from loopkit.expr.mappers import (
    called,
    children,
    conjunction,
    has_reduction,
    subexpressions,
    subscripts_of,
    variables,
)
from loopkit.expr.nodes import Reduction
from loopkit.expr.parsing import NameUse
from loopkit.expr.tokens import Source, Token
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.instruction import StatementPlace
from loopkit.language.domains import Domains
from loopkit.language.names import fresh_names

#: The kinds of tokens that are a match expression, the beginning of an id, and a claim about launches only.
QUERY, PREFIX = "query", "prefix"


@dataclass(frozen=True)
class InameOptions:
    """The options of a statement that concern its inames.

    :ivar listed: further inames of the statement.
    :ivar alone: it inherits no inames from temporaries.
    :ivar private: inames of which the statement gets a copy, each with the name of the copy, or ``""`` for a new name.
    """

    listed: tuple[Token, ...] = ()
    alone: bool = False
    private: tuple[tuple[Token, str], ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of ``nosync=`` that no barrier is needed.

    :ivar others: a glob of statement ids, or a match expression as a token of the kind :data:`QUERY`.
    :ivar scope: ``"local"``: a barrier of a block, ``"global"``: an end of a launch, or ``"any"``.
    """

    others: Token
    scope: str = "any"


@dataclass(frozen=True)
class InstructionOptions:
    """The options in the braces after an assignment.

    :ivar id: its id; a token of the kind :data:`PREFIX` is the beginning of one.
    :ivar dep: globs of statement ids, and match expressions as tokens of the kind :data:`QUERY`.
    """

    id: Token | None = None
    dep: tuple[Token, ...] = ()
    nosync: tuple[Claim, ...] = ()
    inames: InameOptions = InameOptions()
    tags: frozenset[str | Tag] = frozenset()
    condition: Expression | None = None
    instructions: tuple[Instruction, ...] = ()

    def under(self, defaults: InstructionOptions) -> InstructionOptions:
        """These options with the *defaults* of a ``with`` block around the statement."""
        conditions = [e for e in (defaults.condition, self.condition) if e is not None]
        return replace(self, id=self.id or defaults.id, dep=(*defaults.dep, *self.dep), tags=defaults.tags | self.tags,
                       inames=replace(self.inames, listed=(*defaults.inames.listed, *self.inames.listed),
                                      alone=self.inames.alone or defaults.inames.alone),
                       condition=conjunction(conditions) if conditions else None)


@dataclass(frozen=True)
class ParsedAssignment:
    """``assignee = expression``.

    :ivar start: its place in the text.
    :ivar temporary: the dtype's name, ``""`` for ``<>``, ``None`` if no temporary is declared.
    :ivar uses: every mention of a name, the assignee's first.
    :ivar place: its instances and loops, if it comes from a kernel.
    :ivar beside: the other expressions of a multiple assignment: all of its statements have the inames of all.
    """

    start: int
    assignee: p.Variable | p.Subscript
    written: str
    expression: Expression
    temporary: str | None
    options: InstructionOptions
    uses: tuple[NameUse, ...]
    place: StatementPlace | None = None
    beside: tuple[Expression, ...] = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The subscripts of its assignee, its expression, its condition, and the expressions beside it."""
        condition = () if self.options.condition is None else (self.options.condition,)
        return (*subscripts_of(self.assignee), self.expression, *condition, *self.beside)


@dataclass(frozen=True)
class ForBlock:
    """``for i, j ... end``."""

    start: int
    inames: tuple[Token, ...]
    body: tuple[ProgramNode, ...]


@dataclass(frozen=True)
class IfBlock:
    """``if condition ... else ... end``; ``elif`` is an :class:`IfBlock` in ``otherwise``."""

    options: ClassVar[InstructionOptions] = InstructionOptions()

    start: int
    condition: Expression
    uses: tuple[NameUse, ...]
    then: tuple[ProgramNode, ...]
    otherwise: tuple[ProgramNode, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.condition,)


#: The kinds of requested barriers, by their names in the text.
BARRIERS = {"gbarrier": "global", "lbarrier": "local"}


@dataclass(frozen=True)
class Marker:
    """A statement without effect: ``... nop``, ``... gbarrier`` or ``... lbarrier``.

    Others may name it in ``dep=``, which means the statements that it names itself.
    """

    uses: ClassVar[tuple[NameUse, ...]] = ()

    start: int
    kind: str
    options: InstructionOptions


@dataclass(frozen=True)
class Slice:
    """``[i, j]: a[i, j, k]`` or ``a[k, :]``: the elements of an array that a call passes, or an element of it.

    :ivar subscripts: ``()`` for a scalar.
    :ivar axes: the names in the subscripts, one for each axis of the function's array: inames, or names that no user
        can write.
    :ivar extents: the extent along those axes that are not inames; ``None``: as far as the array reaches.
    """

    start: int
    array: str
    subscripts: tuple[Expression, ...]
    axes: tuple[str, ...] = ()
    extents: tuple[tuple[str, Expression | None], ...] = ()

    @property
    def swept(self) -> tuple[str, ...]:
        """The inames that it runs over, which exist only inside it."""
        return tuple(x for x in self.axes if x not in dict(self.extents))

    @property
    def written_part(self) -> Expression:
        """The subscripts as one expression that binds the swept inames, as a reduction does."""
        every = (*self.subscripts, *(e for _, e in self.extents if e is not None))
        return Reduction("slice", self.swept, p.Call(p.Variable("slice"), every))

    @property
    def read_part(self) -> Expression:
        """The same with the array, whose elements are read."""
        return p.Call(p.Variable("slice"), (p.Variable(self.array), self.written_part))


@dataclass(frozen=True)
class FunctionCall:
    """``results = function(arguments)``, for a function that is a kernel.

    :ivar results: in the order of the arguments that the function writes.
    :ivar temporary: as for an assignment; the first result is the temporary.
    :ivar uses: every mention of a name, swept inames left out.
    :ivar text: the call as the user wrote it, without options.
    """

    start: int
    function: str
    results: tuple[Slice, ...]
    arguments: tuple[Slice | Expression, ...]
    options: InstructionOptions
    uses: tuple[NameUse, ...]
    text: str
    temporary: str | None = None

    @property
    def parts(self) -> tuple[Expression, ...]:
        condition = () if self.options.condition is None else (self.options.condition,)
        return (*(r.written_part for r in self.results),
                *(a.read_part if isinstance(a, Slice) else a for a in self.arguments), *condition)


ProgramNode = ParsedAssignment | FunctionCall | ForBlock | IfBlock | Marker


def walk(nodes: Iterable[ProgramNode]) -> Iterator[ProgramNode]:
    """*nodes* and all nodes in them, in textual order."""
    for node in nodes:
        yield node
        if isinstance(node, ForBlock):
            yield from walk(node.body)
        elif isinstance(node, IfBlock):
            yield from walk((*node.then, *node.otherwise))


def assignments(nodes: Iterable[ProgramNode]) -> list[ParsedAssignment]:
    """Every assignment in *nodes*, in textual order."""
    return [node for node in walk(nodes) if isinstance(node, ParsedAssignment)]


def executed(nodes: Iterable[ProgramNode]) -> list[ParsedAssignment | FunctionCall]:
    """Every assignment and every call in *nodes*, in textual order."""
    return [node for node in walk(nodes) if isinstance(node, ParsedAssignment | FunctionCall)]


def writes(nodes: Iterable[ProgramNode]) -> Iterator[tuple[str, int]]:
    """The name and the place of each array or variable that *nodes* write, in textual order."""
    for node in executed(nodes):
        if isinstance(node, ParsedAssignment):
            yield node.written, node.start
        else:
            yield from ((result.array, result.start) for result in node.results)


def swept_inames(nodes: Iterable[ProgramNode]) -> frozenset[str]:
    """The inames that slices in *nodes* run over."""
    return frozenset(x for node in walk(nodes) if isinstance(node, FunctionCall)
                     for given in (*node.results, *node.arguments) if isinstance(given, Slice) for x in given.swept)


@dataclass(frozen=True)
class Rule:
    """A substitution rule and the mentions in its body."""

    start: int
    rule: SubstitutionRule
    uses: tuple[NameUse, ...]


@dataclass(frozen=True)
class ParsedProgram:
    """The whole text."""

    source: Source
    body: tuple[ProgramNode, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Ids:
    """The ids of a program's statements, and the statements that ``dep=`` and ``nosync=`` name by them.

    :ivar of: the id of the assignment or call at each place.
    :ivar places: the place of each id; those of *markers* too.
    """

    source: Source
    of: dict[int, str]
    places: dict[str, int]
    markers: dict[str, Marker] = field(default_factory=dict)

    def earlier(self, node: ParsedAssignment | FunctionCall | IfBlock | Marker) -> frozenset[str]:
        """The statements that *node* names in ``dep=``.

        :raises UnknownNameError: there is no such statement.
        :raises ParseError: it comes after *node*; statements run in textual order.
        """
        own = f"... {node.kind}" if isinstance(node, Marker) else self.of.get(node.start)
        found = set[str]()
        for pattern in (token for token in node.options.dep if token.kind != QUERY):
            matches = self._matches(pattern)
            before = {x for x in matches if self.places[x] < node.start}
            if not before:
                later = min(matches)
                raise self.source.error(pattern.start, f"'{own}' cannot depend on '{later}', which is not "
                                        "above it: statements run in textual order.", "an earlier statement",
                                        hint=f"write '{later}' above it" if later != own else None)
            for x in before:
                found |= self.earlier(self.markers[x]) if x in self.markers else {x}
        return frozenset(found)

    def queries(self, node: ParsedAssignment | FunctionCall | Marker) -> Iterator[Token]:
        """The match expressions of ``dep_query=`` of *node*, and of the markers that it names in ``dep=``."""
        for token in node.options.dep:
            if token.kind == QUERY:
                yield token
                continue
            for x in self._matches(token):
                if x in self.markers and self.places[x] < node.start:
                    yield from self.queries(self.markers[x])

    def others(self, node: ParsedAssignment | FunctionCall | IfBlock) -> frozenset[str]:
        """The statements that *node* names in ``nosync=``; :raises UnknownNameError: there is no such statement."""
        return frozenset(x for claim in node.options.nosync if claim.others.kind != QUERY
                         for x in self._matches(claim.others)
                         if claim.scope != "global" and x != self.of.get(node.start) and x not in self.markers)

    def _matches(self, pattern: Token) -> Sequence[str]:
        if pattern.text in self.places:
            return [pattern.text]
        matches = [x for x in self.places if fnmatchcase(x, pattern.text)]
        if not matches:
            raise self.source.unknown(pattern.start, "statement", pattern.text, self.places)
        return matches


def number_statements(program: ParsedProgram, reserved: Iterable[str] = ()) -> Ids:
    """Give each assignment and each call an id: ``id=``, else ``insn``, ``insn_0``, ..., or by ``id_prefix=``.

    :arg reserved: ids that no statement gets unless the text gives it.
    :raises ParseError: an id is given twice.
    """
    every = [node for node in walk(program.body) if isinstance(node, ParsedAssignment | FunctionCall | Marker)]
    of, taken = dict[int, str](), set[str]()
    for node in every:
        given = node.options.id
        if given is not None and given.kind != PREFIX:
            if given.text in taken:
                raise program.source.error(node.start, f"Two statements have the id '{given.text}'.", "another id")
            taken.add(given.text)
            of[node.start] = given.text
    taken.update(reserved)
    unused: dict[str, Iterator[str]] = {}
    for node in every:
        # a marker without an id of its own has no name
        if node.start not in of and (not isinstance(node, Marker) or node.options.id is not None):
            base = "insn" if node.options.id is None else node.options.id.text
            of[node.start] = next(unused.setdefault(base, fresh_names(base, taken)))
    return Ids(program.source, of, {of[node.start]: node.start for node in every if node.start in of},
               {of[node.start]: node for node in every if isinstance(node, Marker) and node.start in of})


# Substitution rules: recursive ones are refused, and those with a reduction are expanded at every use, which the kernel
# finds again by its form

#: A name in an expression, and the reduction inames around it.
Mention = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Rules:
    """The substitution rules, and the inames that expressions mention through them.

    :ivar known: the rules, with the calls of reducing ones expanded: a reduction needs separate statements, which a
        rule of the kernel cannot have.
    """

    source: Source
    domains: Domains
    known: dict[str, SubstitutionRule] = field(default_factory=dict)

    def expanded(self, expr: Expression, start: int, *, only_reducing: bool = False) -> Expression:
        """*expr*, at the place *start*, with the calls of all rules replaced by their bodies, or of those *reducing*.

        :raises ParseError: an argument mentions an iname that the body's reduction binds.
        """
        def check(rule: SubstitutionRule, args: Iterable[Expression]) -> None:
            if captured := bound_inames(rule.expr) & frozenset().union(*map(variables, args)):
                iname = min(captured)
                raise self.source.error(
                    start, f"An argument of '{rule.name}' uses the iname '{iname}', over which '{rule.name}' reduces.",
                    f"an argument without '{iname}'")
        return expand_rules(expr, {name: rule for name, rule in self.known.items()
                                   if has_reduction(rule.expr) or not only_reducing}, check)

    def mentions(self, expr: Expression, around: tuple[str, ...] = ()) -> Iterator[Mention]:
        """The names in *expr* and in the rules that it calls, and those that bound the domains of its reductions."""
        match expr:
            case p.Variable(name=name):
                yield name, around
            case Reduction():
                bounds = self.domains.bounds(expr.inames, expr.declared).difference(expr.inames)
                yield from ((name, around) for name in bounds)
                yield from self.mentions(expr.expr, around + expr.inames)
            case _:
                if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable) and (
                        rule := self.known.get(expr.function.name)):
                    yield from (found for found in self.mentions(rule.expr, around) if found[0] not in rule.arguments)
                for child in children(expr):
                    yield from self.mentions(child, around)

    def free_inames(self, mentions: Iterable[Mention]) -> frozenset[str]:
        """The inames among *mentions*, those left out that a reduction around them binds."""
        # an inline iname of a reduction is not an iname of the kernel
        return frozenset(x for x, around in mentions if x in self.domains.parents and x not in around)


def read_rules(program: ParsedProgram, domains: Domains) -> Rules:
    """The rules of *program*; :raises ParseError: one calls itself, or its argument bounds a domain."""
    by_name = {r.rule.name: r for r in program.rules}
    calls = {name: sorted(called(r.rule.expr) & by_name.keys()) for name, r in by_name.items()}
    try:
        order = list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as err:
        *cycle, _ = reversed(err.args[1])
        at = cycle.index(min(cycle, key=list(by_name).index))
        chain = [*cycle[at:], *cycle[:at + 1]]
        raise program.source.error(by_name[chain[0]].start, f"The substitution rule '{chain[0]}' calls itself "
                                   f"({' -> '.join(chain)}).", "a rule that does not call itself") from None
    rules = Rules(program.source, domains)
    for name in order:
        start, rule = by_name[name].start, by_name[name].rule
        texts = [text for e in subexpressions(rule.expr) if isinstance(e, Reduction) for text in e.declared]
        for bound in (x for text in texts for x in domains.declared(text).params if x in rule.arguments):
            raise program.source.error(start, f"The argument '{bound}' of '{name}' bounds a domain.",
                                       "bounds in parameters and inames")
        rules.known[name] = replace(rule, expr=rules.expanded(rule.expr, start, only_reducing=True))
    return replace(rules, known={name: rules.known[name] for name in by_name})


def bound_inames(expr: Expression) -> frozenset[str]:
    """Every iname that a reduction in *expr* runs over."""
    return frozenset(x for e in (subexpressions(expr) if has_reduction(expr) else ()) if isinstance(e, Reduction)
                     for x in e.inames)
