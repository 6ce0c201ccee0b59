"""The parser of the options in braces after a statement."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymbolic.typing import Expression

from loopkit.expr.mappers import conjunction
from loopkit.expr.parsing import ExpressionParser
from loopkit.expr.tokens import Token
from loopkit.instructions.table import STATEMENT_INSTRUCTIONS
from loopkit.language import names
from loopkit.language.program import PREFIX, QUERY, Claim, InameOptions, InstructionOptions


@dataclass
class OptionParser(ExpressionParser):
    """Parses options.

    :ivar groups: by the name of a group, its options ``groups=`` and ``conflicts=``.
    """

    groups: dict[str, dict[str, list[Token]]] = field(default_factory=dict)

    def names(self, expected: str, separator: str) -> tuple[Token, ...]:
        """Parse names with *separator* between them."""
        first = self.at
        self.separated(lambda: self.name(expected), separator)
        return tuple(self.tokens[first:self.at:2])

    def new_name(self, expected: str) -> str:
        name = self.text
        if self.kind == "name" and (fault := names.fault(name)) is not None:
            raise self.error(expected, message=f"'{name}' {fault}.")
        return self.name(expected)

    def options(self, allowed: Sequence[str]) -> InstructionOptions:
        """Parse options in braces, those *allowed*."""
        start = self.at
        self.at += 1
        found: dict[str, Any] = {}
        while self.text != "}":
            key = self.text
            if key not in allowed:
                raise self.error("one of " + ", ".join(allowed), hint="this option is for single statements" if
                                 key in _OPTION_READERS and key != "mem_kind" else None)
            if key in found:
                raise self.error("each option once", message=f"The option '{key}' is repeated.")
            self.at += 1
            if key in STATEMENT_INSTRUCTIONS:
                found[key] = STATEMENT_INSTRUCTIONS[key]
            else:
                self.take("=")
                found[key] = _OPTION_READERS[key](self)
            if self.text != "}":
                self.take(",", "',' or '}'")
        self.at += 1
        if {"id", "id_prefix"} <= found.keys():
            raise self.error("'id' or 'id_prefix'", at=start, message="The statement has an id and the prefix of one.")
        for key in _OF_GROUPS:
            for token in found.get(key, ()):
                self.groups.setdefault(token.text, {}).setdefault(key, []).append(token)
        listed, alone = found.get("inames", ((), False))
        return InstructionOptions(
            found.get("id", found.get("id_prefix")), (*found.get("dep", ()), *found.get("dep_query", ())),
            (*found.get("nosync", ()), *found.get("nosync_query", ())),
            InameOptions(listed, alone, found.get("dup", ())), found.get("tags", frozenset()), found.get("if"),
            tuple(found[name] for name in STATEMENT_INSTRUCTIONS if name in found))

    def require_groups_apart(self) -> None:
        """:raises ParseError: a statement that conflicts with a group is between two statements of the group."""
        for name, found in self.groups.items():
            starts = [token.start for token in found.get("groups", ())]
            for token in found.get("conflicts", ()):
                if starts and min(starts) < token.start < max(starts):
                    raise self.source.error(
                        token.start, f"This statement conflicts with the group '{name}' and is between two statements "
                        "of it: statements run in textual order.", f"this statement before or after the group '{name}'")

    def read_query(self) -> Token:
        """Parse a match expression up to the ``,`` or ``}`` after it."""
        first, start, depth = self.at, self.tokens[self.at].start, 0
        while depth or self.text not in (",", "}"):
            depth += {"(": 1, ")": -1}.get(self.text, 0)
            self.at += 1
        if self.at == first:
            raise self.error("a match expression, such as writes:a and not id:init_*")
        return Token(QUERY, self.source.text[start:self.tokens[self.at].start].strip(), start)

    def claimed(self, token: Token) -> Claim:
        """The claim that *token* of ``nosync=`` makes, which may end in a scope."""
        name, mark, scope = token.text.partition("@")
        if mark and scope not in ("any", "local", "global"):
            raise self.source.error(token.start + len(name) + 1, f"'{scope}' is not a scope.", "any, local or global")
        return Claim(Token(token.kind, name.strip(), token.start), scope or "any")

    def inames_option(self) -> tuple[tuple[Token, ...], bool]:
        """The inames of ``inames=i:j``, and whether the statement has no inherited ones, unless ``+`` begins them."""
        alone = not self.accept("+")
        return (() if self.text in (",", "}") else self.names("a name", ":")), alone

    def copied_iname(self) -> tuple[Token, str]:
        """``i`` or ``i->i_copy``."""
        token = self.one_name("an iname")
        return token, self.new_name("the name of the copy") if self.accept("->") else ""

    def number(self) -> None:
        """Step over an integer, which has no meaning here."""
        self.accept("-")
        if not self.text.isdigit():
            raise self.error("an integer")
        self.at += 1

    def memory(self) -> None:
        """Step over the memory that a barrier makes visible: every barrier includes both."""
        if not self.accept("local", "global"):
            raise self.error("local or global")

    def condition(self) -> Expression:
        """Conditions that must all hold, with ``:`` between."""
        parts = self.separated(self.expression, ":")
        return parts[0] if len(parts) == 1 else conjunction(parts)

    def one_name(self, expected: str) -> Token:
        token = self.tokens[self.at]
        self.name(expected)
        return token

    def read_glob(self) -> Token:
        """Parse a glob such as ``b_*`` up to the ``:``, ``,`` or ``}`` after it."""
        first, start, depth = self.at, self.tokens[self.at].start, 0
        while depth or self.text not in (",", "}", ":"):
            depth += {"[": 1, "]": -1}.get(self.text, 0)
            self.at += 1
        if self.at == first:
            raise self.error("a name or a pattern")
        return Token("glob", self.source.text[start:self.tokens[self.at].start].strip(), start)


#: loopy's options that keep a statement out of a group of others.
_OF_GROUPS = ("groups", "conflicts")

#: The options with a value, by name.
_OPTION_READERS: Mapping[str, Callable[[OptionParser], object]] = {
    "id": lambda parser: parser.one_name("a statement id"),
    "id_prefix": lambda parser: parser.one_name("the beginning of a statement id")._replace(kind=PREFIX),
    "dep": lambda parser: tuple(parser.separated(parser.read_glob, ":")),
    "dep_query": lambda parser: (parser.read_query(),),
    "inames": lambda parser: parser.inames_option(),
    "dup": lambda parser: tuple(parser.separated(parser.copied_iname, ":")),
    "if": lambda parser: parser.condition(),
    "tags": lambda parser: frozenset(name.text for name in parser.names("a name", ":")),
    "nosync": lambda parser: tuple(map(parser.claimed, parser.separated(parser.read_glob, ":"))),
    "nosync_query": lambda parser: (parser.claimed(parser.read_query()),),
    # the order of the text is the order of statements, whatever their priority
    "priority": lambda parser: parser.number(),
    **dict.fromkeys(_OF_GROUPS, lambda parser: parser.names("the name of a group", ":")),
    "mem_kind": lambda parser: parser.memory()}

#: The options of an assignment, of a marker, and of a block.
OF_ASSIGNMENTS = (*(key for key in _OPTION_READERS if key != "mem_kind"), *STATEMENT_INSTRUCTIONS)
OF_MARKERS = ("id", "id_prefix", "dep", "dep_query", "inames", "tags", "priority", *_OF_GROUPS)
OF_BLOCKS = ("id_prefix", "dep", "dep_query", "inames", "tags", "if")
