"""The parser of programs: text to a tree of assignments, blocks and substitution rules.

Each line has one statement. A newline ends a line, except inside brackets and after a backslash. ``#`` begins a
comment. An example with each kind of line::

    twice(s) := 2*x[s]                  # a substitution rule: twice(i) stands for 2*x[i]
    for i                               # a block: the lines up to "end" are in a loop over i
        <float32> t = twice(i)          # an assignment that declares the temporary t
        if i > 0                        # a block whose statements run only if the condition holds
            y[i] += t {id=add}          # an assignment that updates y[i], with an option in braces
        end
    end

In the grammar, ``[ x ]`` is an optional ``x``, ``{ x }`` is any number of ``x``, ``x | y`` is ``x`` or ``y``, and a
quoted text is itself. Expressions and conditions are those of :mod:`loopkit.expr.parsing`. ::

    program    = { line }
    line       = assignment | call | rule | for | if | with | marker
    for        = "for" iname { "," iname } newline { line } "end"
    if         = "if" condition newline { line } { "elif" condition newline { line } }
                 [ "else" newline { line } ] "end"
    with       = "with" options newline { line } "end"
    marker     = "..." ( "nop" | "gbarrier" | "lbarrier" ) [ options ]
    rule       = name [ "(" [ name { "," name } ] ")" ] ":=" expression
    assignment = target ( "=" | "+=" | "-=" | "*=" | "/=" ) expression [ options ]
               | target { "," target } "=" expression { "," expression } [ options ]
    target     = [ "<" [ dtype ] ">" ] place
    place      = name [ "[" expression { "," expression } "]" ]
    options    = "{" option { "," option } "}"
    option     = "id" "=" name | "id_prefix" "=" name | "dep" "=" globs | "dep_query" "=" match | "nosync" "=" globs
               | "nosync_query" "=" match | "inames" "=" [ "+" ] [ names ] | "dup" "=" copy { ":" copy }
               | "tags" "=" names | "if" "=" condition { ":" condition } | "atomic" | "async"
    copy       = name [ "->" name ]
    match      = a match expression, as those of within=
    globs, names = one or more names with ":" between them; globs may have the wildcards "*", "?", "[...]"

:mod:`loopkit.language.slices` has the grammar of ``call``.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pymbolic.typing import Expression

from loopkit.expr.functions import ScalarFunction
from loopkit.expr.nodes import Operation, to_text
from loopkit.expr.parsing import BINARY, KnownNames, NameUse
from loopkit.expr.tokens import Source, tokenize
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.expr.tuple_parsing import tuple_of
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.instruction import Assignment, CallInstruction
from loopkit.language.multiple import AssignmentTarget, MultipleAssignment
from loopkit.language.names import name_list
from loopkit.language.objects import ObjectParser
from loopkit.language.options import OF_ASSIGNMENTS, OF_BLOCKS, OF_MARKERS
from loopkit.language.program import (
    BARRIERS,
    ForBlock,
    FunctionCall,
    IfBlock,
    InstructionOptions,
    Marker,
    ParsedAssignment,
    ParsedProgram,
    ProgramNode,
    Rule,
    Slice,
)
from loopkit.language.slices import Signature, SliceParser

#: The nodes of ``+=`` and the like.
_UPDATES = {f"{operator}=": BINARY[operator].node for operator in "+-*/"}

_BLOCK_ENDS = ("end", "else", "elif")


def parse_program(source: Source, inames: Collection[str], read_domain: Callable[[Source, str, int], tuple[str, ...]],
                  operations: Mapping[str, Operation], functions: Mapping[str, ScalarFunction],
                  kernels: Mapping[str, Signature],
                  at_place: Mapping[str, Callable[[Expression], tuple[Expression, ...]]],
                  offsets: Mapping[str, int | str], shapes: Mapping[str, tuple[Expression, ...]]) -> ParsedProgram:
    """Parse the instructions of a kernel.

    :arg inames: the inames of the kernel's domains.
    :arg operations: the user's reduction operations; *functions*: the user's functions of numbers.
    :arg kernels: the kernels that statements may call.
    :arg at_place: the subscripts that ``a[[place]]`` stands for, for arrays with a declared shape of several axes.
    :arg offsets: the number or the name that is added to the subscripts of arrays; *shapes*: declared ones.
    :arg read_domain: checks the domain of a reduction (source, text, place) and returns its inames.
    :raises ParseError: the text cannot be read; with the first place that is wrong.
    """
    parser = _StatementParser(source, tokenize(source), kernels=kernels, shapes=shapes)
    parser.known = KnownNames(inames, parser.arities(), {**BUILT_IN, **operations}, functions, read_domain,
                              at_place, offsets)
    body = parser.block(None)
    parser.require_groups_apart()
    return ParsedProgram(source, body, tuple(parser.rules))


@dataclass
class _StatementParser(ObjectParser, SliceParser):
    """Parses statements.

    :ivar rules: the rules read so far, which begin at the tokens *rule_starts*.
    :ivar defaults: the options of the ``with`` blocks around the place; *default_uses*: the names in them.
    """

    rules: list[Rule] = field(default_factory=list)
    rule_starts: set[int] = field(default_factory=set)
    defaults: InstructionOptions = field(default_factory=InstructionOptions)
    default_uses: tuple[NameUse, ...] = ()

    def arities(self) -> dict[str, int]:
        """The number of arguments of each substitution rule. A search for ``:=`` comes before all else."""
        found: dict[str, int] = {}
        start = 0
        twice = "The substitution rule '{}' is defined twice."
        for i, token in enumerate(self.tokens):
            if token.kind == "newline":
                start = i + 1
            elif token.kind == "object":
                if isinstance(rule := self.source.objects[token.start], SubstitutionRule):
                    if rule.name in found:
                        raise self.error("another name", at=i, message=twice.format(rule.name))
                    found[rule.name] = len(name_list(rule.arguments))
            elif token.text == ":=" and start < i and self.tokens[start].kind == "name":    # others are refused later
                name = self.tokens[start].text
                if name in found:
                    raise self.error("another name", at=start, message=twice.format(name))
                found[name] = sum(t.kind == "name" for t in self.tokens[start + 1:i])
                self.rule_starts.add(start)
        return found

    def block(self, opened_at: int | None) -> tuple[ProgramNode, ...]:
        """Parse statements up to the keyword that ends the block, or to the end of the text. The keyword stays.

        :arg opened_at: the token that begins the block; ``None``: the whole text.
        """
        nodes: list[ProgramNode] = []
        while True:
            while self.kind == "newline":
                self.at += 1
            if self.kind == "end":
                if opened_at is not None:
                    raise self.error("'end' after it", at=opened_at,
                                     message=f"This '{self.tokens[opened_at].text}' has no 'end'.")
                return tuple(nodes)
            if self.text in _BLOCK_ENDS and self.at_keyword:
                if opened_at is None:
                    raise self.error("a statement", message=f"'{self.text}' ends no block.")
                return tuple(nodes)
            if self.text == "for":
                nodes.append(self._for())
            elif self.text == "if":
                nodes.append(self._if())
            elif self.text == "with" and self.tokens[self.at + 1].text == "{":
                nodes += self._with()
            elif self.text == "...":
                nodes.append(self._marker())
            elif self.kind == "object":
                nodes += self._object()
            elif self.at in self.rule_starts:
                self.rules.append(self._rule())
            else:
                nodes.extend(self._statement())

    def _statement(self) -> Sequence[ProgramNode]:
        """Parse a call or an assignment; the text of a :class:`CallInstruction` has the tags of that object."""
        outer, given = self.defaults, self.source.objects.get(self.tokens[self.at].start)
        if isinstance(given, CallInstruction):
            self.defaults = replace(outer, tags=outer.tags | given.tags)
        nodes = [self._function_call()] if self.text == "[" or self.function_at() is not None else self._assignment()
        self.defaults = outer
        return nodes

    def _object(self) -> list[ProgramNode]:
        """Read an object; a rule is not among the statements."""
        given, nodes = self.source.objects[self.tokens[self.at].start], list[ProgramNode]()
        if isinstance(given, Assignment):
            node = self.object_assignment(given)
            nodes.append(replace(node, options=node.options.under(self.defaults),
                                 uses=(*node.uses, *self.default_uses)))
        elif isinstance(given, SubstitutionRule):
            self.rules.append(self.object_rule(given))
        else:
            raise self.refused(f"{given!r} is not an instruction.",
                               "a text, an Assignment, a CallInstruction or a SubstitutionRule")
        self.at += 1
        self._line_end("the end of the line")
        return nodes

    def _filled_block(self, opened_at: int, expected: str) -> tuple[ProgramNode, ...]:
        """Parse the end of a line and the statements after it; *expected* describes this end in messages."""
        self._line_end(expected)
        body = self.block(opened_at)
        if not body:
            raise self.error("a statement", message=f"There is no statement before this '{self.text}'.")
        return body

    def _line_end(self, expected: str) -> None:
        if self.kind not in ("newline", "end"):
            raise self.error(expected)

    def _for(self) -> ForBlock:
        start = self.at
        self.at += 1
        inames = self.names("an iname", ",")
        body = self._filled_block(start, "',' or the end of the line")
        self._end(f"'{self.text}' belongs to no 'if'.")
        return ForBlock(self.tokens[start].start, inames, body)

    def _if(self) -> IfBlock:
        """Parse ``if`` or ``elif`` and the rest of the block, including its ``end``."""
        start = self.at
        self.at += 1
        self.uses = []
        condition = self.expression()
        uses = tuple(self.uses)
        then = self._filled_block(start, "an operator or the end of the line")
        otherwise: tuple[ProgramNode, ...] = ()
        if self.text == "elif":
            otherwise = (self._if(),)
        elif self.accept("else"):
            otherwise = self._filled_block(start, "the end of the line")
            self._end(f"'{self.text}' is after an 'else'.")
        else:
            self._end()
        return IfBlock(self.tokens[start].start, condition, uses, then, otherwise)

    def _end(self, otherwise: str | None = None) -> None:
        if not self.accept("end"):
            raise self.error("'end'", message=otherwise)
        self._line_end("the end of the line")

    def _with(self) -> tuple[ProgramNode, ...]:
        """Parse ``with {options}`` and the statements of its block, which get these options."""
        start = self.at
        self.at += 1
        self.uses, outer, uses = [], self.defaults, self.default_uses
        options = self.options(OF_BLOCKS)
        self.defaults, self.default_uses = options.under(outer), (*uses, *self.uses)
        body = self._filled_block(start, "the end of the line")
        self._end(f"'{self.text}' belongs to no 'if'.")
        self.defaults, self.default_uses = outer, uses
        return body

    def _marker(self) -> Marker:
        start = self.at
        self.at += 1
        kind = self.text
        if kind not in ("nop", *BARRIERS):
            raise self.error("one of nop, " + ", ".join(BARRIERS))
        self.at += 1
        options = self.options((*OF_MARKERS, "mem_kind") if kind in BARRIERS else OF_MARKERS) \
            if self.text == "{" else InstructionOptions()
        self._line_end("'{' or the end of the line")
        return Marker(self.tokens[start].start, kind, options.under(replace(self.defaults, condition=None)))

    def _rule(self) -> Rule:
        start = self.at
        name = self.new_name("a name for the substitution rule")
        arguments: list[str] = []
        if self.accept("("):
            while self.text != ")":
                argument = self.new_name("the name of an argument")
                if argument in arguments:
                    raise self.error("another name", at=self.at - 1,
                                     message=f"The argument '{argument}' is named twice.")
                arguments.append(argument)
                if not self.accept(","):
                    break
            self.take(")", "',' or ')'")
        self.take(":=")
        rule = self.rule(self.tokens[start].start, name, arguments, self.expression)
        self._line_end("an operator or the end of the line")
        return rule

    def _target(self) -> AssignmentTarget:
        """Parse one target, with the names that its text uses."""
        start = self.at
        self.uses = []
        temporary = self._declared_dtype()
        name_at = self.at
        name = self.name("a statement" if temporary is None else "the name of a temporary")
        if name in self.known.rules:
            raise self.error("an array or a temporary", at=name_at,
                             message=f"The substitution rule '{name}' cannot be written.")
        assignee = self.reference(name, name_at)
        # the uses in subscripts were added before their array, which must come first
        uses = (self.uses[-1], *self.uses[:-1])
        return AssignmentTarget(self.tokens[start].start, assignee, name, temporary, uses)

    def _assignment(self) -> tuple[ProgramNode, ...]:
        start, target = self.at, self._target()
        if self.text == ",":
            return self._multiple(start, target)
        self.uses = [*target.uses]
        if self.accept("="):
            expression = self.expression()
        elif (operator := self.text) in _UPDATES and target.temporary is None:
            self.at += 1
            expression = _UPDATES[operator](target.assignee, self.expression())
            self.uses.append(self.uses[0])
        else:
            after = self.tokens[self.at + 1].text if operator else ""
            raise self.error("'='", hint=_assignment_hint(target.written, to_text(target.assignee), operator, after))
        options = self._ending()
        return (ParsedAssignment(target.start, target.assignee, target.written, expression, target.temporary, options,
                           (*self.uses, *self.default_uses)),)

    def _multiple(self, start: int, first: AssignmentTarget) -> tuple[ProgramNode, ...]:
        """The rest of an assignment to several targets, after the *first*, which begins at the token *start*."""
        targets = [first]
        while self.accept(","):
            targets.append(self._target())
        equals = self.at
        self.take("=", "',' or '='")
        self.uses = []
        values = self.separated(self.expression)
        uses, self.uses = tuple(self.uses), []
        options = self._ending()
        whole = MultipleAssignment(targets, tuple_of(values) if len(values) > 1 else values[0], options,
                                   (first.start, self.tokens[equals].start, self.tokens[start + 1].start), uses,
                                   (*self.uses, *self.default_uses))
        return whole.statements(self.source, self.taken)

    @cached_property
    def taken(self) -> set[str]:
        """The names in the text, and those that multiple assignments add."""
        return {token.text for token in self.tokens if token.kind == "name"}

    def _ending(self) -> InstructionOptions:
        """The options and the end of the line."""
        options = self.options(OF_ASSIGNMENTS) if self.text == "{" else InstructionOptions()
        self._line_end("an operator, '{' or the end of the line")
        return options.under(self.defaults)

    def _declared_dtype(self) -> str | None:
        """Step over ``<float32>``, which declares a temporary; ``""`` for ``<>``, ``None`` if there is none."""
        if not self.accept("<"):
            return None
        temporary = "" if self.text == ">" else self.dtype_name()
        self.take(">")
        return temporary

    def _function_call(self) -> FunctionCall:
        start = self.at
        self.uses = []
        temporary = self._declared_dtype()
        function, results, arguments = self.read_call()
        if temporary is not None and len(results) > 1:
            raise self.error("one result", at=start, message="A call with several results declares no temporary.",
                             hint="declare it in kernel_data")
        text = " ".join(self.source.text[self.tokens[start].start:self.tokens[self.at].start].split())
        options = self._ending()
        if options.instructions:
            raise self.error("options of a call", at=start,
                             message=f"A call cannot be {options.instructions[0].noun}.")
        swept = {x for given in (*results, *arguments) if isinstance(given, Slice) for x in given.swept}
        for token, _ in options.inames.private:
            if token.text not in swept:
                raise self.source.error(token.start, f"The call cannot have a copy of '{token.text}', over which none "
                                        "of its slices runs.", "an iname of a slice")
        # the inames of slices exist only in the call
        options = replace(options, inames=replace(options.inames, private=()))
        return FunctionCall(self.tokens[start].start, function, results, arguments, options,
                            (*self.uses, *self.default_uses), text, temporary)



def _assignment_hint(name: str, assignee: str, operator: str, after: str) -> str | None:
    if operator == "==":
        return "'==' compares; '=' assigns"
    if operator in _UPDATES:
        return "a temporary is declared with '='"
    if operator == ".":
        return (f"a tuple is written as a whole, with the fields that stay: "
                f"{assignee} = make_tuple({after}=..., other={assignee}.other)")
    if operator == "(":
        return f"write a substitution rule as {name}(x) := ..., and subscripts in [ ]"
    return None
