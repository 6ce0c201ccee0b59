"""The parser of programs: text to a tree of assignments, blocks and substitution rules.

The grammar; a line ends at its newline, but for one within brackets or behind a backslash, and ``#`` begins a comment::

    program    = { line }
    line       = assignment | rule | for | if
    for        = "for" iname { "," iname } newline { line } "end"
    if         = "if" condition newline { line } { "elif" condition newline { line } }
                 [ "else" newline { line } ] "end"
    rule       = name [ "(" [ name { "," name } ] ")" ] ":=" expression
    assignment = [ "<" [ dtype ] ">" ] place ( "=" | "+=" | "-=" | "*=" | "/=" ) expression [ options ]
    place      = name [ "[" expression { "," expression } "]" ]
    options    = "{" option { "," option } "}"
    option     = "id" "=" name | "dep" "=" globs | "nosync" "=" globs | "inames" "=" [ names ] | "tags" "=" names
               | "if" "=" condition | "atomic" | "async"
    globs, names = one or several, with ":" between them
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pymbolic.typing import Expression

from loopkit.expr.build import negated, product_of, quotient, sum_of
from loopkit.expr.nodes import REDUCTIONS
from loopkit.expr.parsing import ExpressionParser, KnownNames
from loopkit.expr.tokens import Source, Tokens, tokenize
from loopkit.instructions.table import STATEMENT_INSTRUCTIONS
from loopkit.kernel.data import SubstitutionRule
from loopkit.language import names
from loopkit.language.program import (
    Assignment,
    ForBlock,
    IfBlock,
    InstructionOptions,
    Node,
    ParsedProgram,
    Pattern,
    Rule,
)

_UPDATES: dict[str, Callable[[Expression, Expression], Expression]] = {
    "+=": sum_of,
    "-=": lambda old, new: sum_of(old, negated(new)),
    "*=": product_of,
    "/=": quotient}

_BLOCK_ENDS = ("end", "else", "elif")


def parse_program(source: Source, inames: Collection[str], read_domain: Callable[[str, int], tuple[str, ...]],
                  operations: Collection[str] = ()) -> ParsedProgram:
    """Read the instructions.

    :arg inames: the inames of the kernel's domains.
    :arg operations: the user's reduction operations.
    :arg read_domain: checks the domain of a reduction (text, place) and returns its inames.
    :raises ParseError: at the first place that cannot be read.
    """
    tokens = tokenize(source)
    known = KnownNames(inames, _rule_arities(tokens), (*REDUCTIONS, *operations), read_domain)
    reader = _StatementParser(ExpressionParser(tokens, known=known))
    body = reader.block(None)
    return ParsedProgram(source, body, tuple(reader.rules))


def _rule_arities(tokens: Tokens) -> dict[str, int]:
    """The number of arguments of each rule, found by its ``:=`` before anything is read."""
    arities: dict[str, int] = {}
    texts, kinds = tokens.texts, tokens.kinds
    for i, text in enumerate(texts):
        if text == ":=":
            start = i - 1
            while start > 0 and kinds[start - 1] != "newline":
                start -= 1
            name = texts[start]
            if start == i or kinds[start] != "name":
                continue                        # refused where it is read
            if name in arities:
                raise tokens.error(start, f"The substitution rule '{name}' is given twice.", "another name")
            arities[name] = sum(1 for j in range(start + 1, i) if kinds[j] == "name")
    return arities


@dataclass
class _StatementParser:
    """Statements from the parser's place on."""

    parser: ExpressionParser
    rules: list[Rule] = field(default_factory=list)

    def block(self, opened_at: int | None) -> tuple[Node, ...]:
        """Statements up to the keyword that ends the block (not over it), or to the end of the text."""
        parser = self.parser
        nodes: list[Node] = []
        while True:
            while parser.kind == "newline":
                parser.at += 1
            if parser.kind == "end":
                if opened_at is not None:
                    word = parser.tokens.texts[opened_at]
                    raise parser.error("'end' behind it", at=opened_at, message=f"'{word}' is never ended.")
                return tuple(nodes)
            if parser.text in _BLOCK_ENDS and parser.kind == "name":
                if opened_at is None:
                    raise parser.error("a statement", message=f"'{parser.text}' ends no block.")
                return tuple(nodes)
            if parser.text == "for":
                nodes.append(self._for())
            elif parser.text == "if":
                nodes.append(self._if())
            elif self._at_rule():
                self.rules.append(self._rule())
            else:
                nodes.append(self._assignment())

    def _filled_block(self, opened_at: int) -> tuple[Node, ...]:
        body = self.block(opened_at)
        if not body:
            raise self.parser.error("a statement", message=f"Nothing stands before this '{self.parser.text}'.")
        return body

    def _line_end(self, expected: str) -> None:
        if self.parser.kind not in ("newline", "end"):
            raise self.parser.error(expected)

    # {{{ blocks

    def _for(self) -> ForBlock:
        parser = self.parser
        start = parser.at
        parser.at += 1
        inames = self._patterns("an iname", ",")
        self._line_end("',' or the end of the line")
        body = self._filled_block(start)
        self._end(f"'{parser.text}' belongs to no 'if'.")
        return ForBlock(parser.tokens.starts[start], inames, body)

    def _if(self) -> IfBlock:
        """``if`` or ``elif`` with all that follows, over the ``end``."""
        parser = self.parser
        start = parser.at
        parser.at += 1
        parser.uses = []
        condition = parser.expression()
        uses = tuple(parser.uses)
        self._line_end("an operator or the end of the line")
        then = self._filled_block(start)
        otherwise: tuple[Node, ...] = ()
        if parser.text == "elif":
            otherwise = (self._if(),)
        elif parser.accept("else"):
            self._line_end("the end of the line")
            otherwise = self._filled_block(start)
            self._end(f"'{parser.text}' stands behind an 'else'.")
        else:
            self._end()
        return IfBlock(parser.tokens.starts[start], condition, uses, then, otherwise)

    def _end(self, otherwise: str | None = None) -> None:
        if not self.parser.accept("end"):
            raise self.parser.error("'end'", message=otherwise)
        self._line_end("the end of the line")

    def _patterns(self, expected: str, separator: str) -> tuple[Pattern, ...]:
        """Names with *separator* between them."""
        found: list[Pattern] = []
        while not found or self.parser.accept(separator):
            start = self.parser.tokens.starts[self.parser.at]
            found.append(Pattern(self.parser.name(expected), start))
        return tuple(found)

    # }}}

    # {{{ substitution rules

    def _at_rule(self) -> bool:
        texts, kinds, at = self.parser.tokens.texts, self.parser.tokens.kinds, self.parser.at
        if texts[at] not in self.parser.known.rules:
            return False
        while kinds[at] not in ("newline", "end"):
            if texts[at] == ":=":
                return True
            at += 1
        return False

    def _rule(self) -> Rule:
        parser = self.parser
        start = parser.at
        name = self._new_name("a name for the substitution rule")
        arguments: list[str] = []
        if parser.accept("("):
            while parser.text != ")":
                argument = self._new_name("the name of an argument")
                if argument in arguments:
                    raise parser.error("another name", at=parser.at - 1,
                                       message=f"The argument '{argument}' is named twice.")
                arguments.append(argument)
                if not parser.accept(","):
                    break
            parser.take(")", "',' or ')'")
        parser.take(":=")
        parser.uses = []
        # an argument hides an iname of its name
        known = parser.known
        parser.known = replace(known, inames=set(known.inames).difference(arguments))
        expression = parser.expression()
        parser.known = known
        self._line_end("an operator or the end of the line")
        for use in parser.uses:
            if use.name in arguments and use.rank >= 0:
                raise parser.tokens.source.error(use.start, f"The argument '{use.name}' of '{name}' is subscripted.",
                                                 "a value")
        uses = tuple(u for u in parser.uses if u.name not in arguments)
        return Rule(parser.tokens.starts[start], SubstitutionRule(name, tuple(arguments), expression), uses)

    def _new_name(self, expected: str) -> str:
        name = self.parser.text
        if self.parser.kind == "name":
            fault = names.fault(name)
            if fault is not None:
                raise self.parser.error(expected, message=f"'{name}' {fault}.")
        return self.parser.name(expected)

    # }}}

    # {{{ assignments

    def _assignment(self) -> Assignment:
        parser = self.parser
        start, tokens = parser.at, parser.tokens
        parser.uses = []
        temporary = self._declaration()
        name_at = parser.at
        name = parser.name("a statement" if temporary is None else "the name of a temporary")
        if name in parser.known.rules:
            raise parser.error("an array or a temporary", at=name_at,
                               message=f"The substitution rule '{name}' cannot be written.")
        assignee = parser.reference(name, name_at)
        # the uses in subscripts were added before their array, which must come first
        parser.uses.insert(0, parser.uses.pop())
        operator = parser.text
        parser.at += 1
        if operator == "=":
            expression = parser.expression()
        elif operator in _UPDATES and temporary is None:
            expression = _UPDATES[operator](assignee, parser.expression())
            parser.uses.append(parser.uses[0])
        else:
            parser.at -= 1
            raise parser.error("'='", hint=_assignment_hint(name, operator))
        options = self._options() if parser.text == "{" else InstructionOptions()
        self._line_end("an operator, '{' or the end of the line")
        return Assignment(tokens.starts[start], assignee, name, expression, temporary, options, tuple(parser.uses))

    def _declaration(self) -> str | None:
        """``<>`` or ``<dtype>`` before an assignee."""
        parser = self.parser
        if not parser.accept("<"):
            return None
        if parser.accept(">"):
            return ""
        dtype = parser.dtype_name()
        parser.take(">")
        return dtype

    def _options(self) -> InstructionOptions:
        parser = self.parser
        parser.at += 1
        found: dict[str, Any] = {}
        while parser.text != "}":
            key = parser.text
            if key not in _OPTION_READERS and key not in STATEMENT_INSTRUCTIONS:
                raise parser.error("one of " + ", ".join((*_OPTION_READERS, *STATEMENT_INSTRUCTIONS)))
            if key in found:
                raise parser.error("each option once", message=f"The option '{key}' is given twice.")
            parser.at += 1
            if key in STATEMENT_INSTRUCTIONS:
                found[key] = STATEMENT_INSTRUCTIONS[key]
            else:
                parser.take("=")
                found[key] = _OPTION_READERS[key](self)
            if parser.text != "}":
                parser.take(",", "',' or '}'")
        parser.at += 1
        instructions = tuple(found.pop(name) for name in STATEMENT_INSTRUCTIONS if name in found)
        condition = found.pop("if", None)
        return InstructionOptions(**found, condition=condition, instructions=instructions)

    def read_globs(self) -> tuple[Pattern, ...]:
        """``a:b_*:c`` up to the ``,`` or ``}`` that ends it."""
        parser, tokens = self.parser, self.parser.tokens
        patterns = []
        while True:
            start, depth = parser.at, 0
            while depth or parser.text not in (",", "}", ":"):
                depth += {"[": 1, "]": -1}.get(parser.text, 0)
                parser.at += 1
            if parser.at == start:
                raise parser.error("a name or a pattern")
            text = tokens.source.text[tokens.starts[start]:tokens.starts[parser.at]].strip()
            patterns.append(Pattern(text, tokens.starts[start]))
            if not parser.accept(":"):
                return tuple(patterns)

    def read_names(self) -> tuple[Pattern, ...]:
        """``i:j:k``."""
        return self._patterns("a name", ":")

    # }}}


#: The options with a value, by name.
_OPTION_READERS: Mapping[str, Callable[[_StatementParser], object]] = {
    "id": lambda reader: reader.parser.name("a statement id"),
    "dep": _StatementParser.read_globs,
    # nothing: only the inames that the statement mentions
    "inames": lambda reader: () if reader.parser.text in (",", "}") else reader.read_names(),
    "if": lambda reader: reader.parser.expression(),
    "tags": lambda reader: frozenset(pattern.text for pattern in reader.read_names()),
    "nosync": _StatementParser.read_globs}


def _assignment_hint(name: str, operator: str) -> str | None:
    if operator == "==":
        return "'==' compares; '=' assigns"
    if operator in _UPDATES:
        return "a temporary is declared with '='"
    if operator == "(":
        return f"a substitution rule is written {name}(x) := ..., an array is subscripted with [ ]"
    return None
