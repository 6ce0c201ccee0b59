"""The place in a domain at which isl refuses it; isl itself names no place.

The grammar read here is that part of isl's notation that a kernel's domains use::

    domain     = [ "[" names "]" "->" ] "{" piece { ";" piece } "}"
    piece      = "[" names "]" [ ":" [ condition ] ]
    condition  = term { ("and" | "or" | "implies") term }
    term       = "not" term | "exists" [ "(" ] names ":" condition [ ")" ] | "true" | "false" | comparison
    comparison = forms relation forms { relation forms }
    forms      = form { "," form }
    form       = affine form with + - * / mod, floor, ceil, floord, ceild, min, max
"""
from __future__ import annotations

import re

from loopkit.errors import ParseError
from loopkit.expr.tokens import Cursor, Source, Token

FUNCTIONS = frozenset({"floor", "ceil", "floord", "ceild", "min", "max"})
_NO_FUNCTIONS = frozenset({"and", "or", "not", "exists", "mod", "true", "false", "implies"})
KEYWORDS = FUNCTIONS | _NO_FUNCTIONS
#: isl ignores the case of its keywords.
_WORDS_OF_ISL = KEYWORDS | {"infty", "infinity", "nan", "rat"}

_TOKEN = re.compile(r"(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<op>->|<=|>=|==|!=|&&|\|\||//|[-+*/%<>=!()\[\]{},:;])"
                    r"|(?P<other>\S)", re.ASCII)
_RELATIONS = frozenset({"<", "<=", ">", ">=", "=", "==", "!="})
_JUNCTIONS = frozenset({"and", "or", "implies", "&&", "||"})
_NAME = re.compile(r"\d+|([A-Za-z_]\w*)", re.ASCII)
_EXISTS = re.compile(r"\bexists\s*\(?([^:]*):")


def free_names(condition: str) -> set[str]:
    """The names in *condition*, in isl's notation, that no ``exists`` binds."""
    bound = {match[1] for group in _EXISTS.findall(condition) for piece in group.split(",")
             if (match := _NAME.match(piece.strip()))}
    return {name for name in _NAME.findall(condition) if name and name not in KEYWORDS} - bound


def find_fault(source: Source, text: str, start: int) -> ParseError:
    """The error for the domain *text* at *start*, which isl refuses."""
    try:
        _parser(source, text, start).domain()
    except ParseError as err:
        return err
    return source.error(start, "isl cannot read this domain.", "a set in isl's notation, { [i, j] : ... }")


def find_condition_fault(source: Source) -> ParseError:
    """The error for a condition on parameters (assumptions), which isl refuses."""
    parser = _parser(source, source.text, 0)
    try:
        parser.condition()
        if parser.text:
            raise parser.error("'and', 'or' or the end")
    except ParseError as err:
        return err
    return source.error(0, f"isl cannot read {source.what}.", "a condition in isl's notation")


def _parser(source: Source, text: str, start: int) -> _DomainParser:
    tokens = [Token(match.lastgroup or "other", match[0], start + match.start()) for match in _TOKEN.finditer(text)]
    return _DomainParser(source, [*tokens, Token("end", "", start + len(text.rstrip()))])


class _DomainParser(Cursor):
    """Steps over a domain or a condition up to the first fault."""

    @property
    def subject(self) -> str:
        return "An assumption" if self.source.what == "the assumptions" else "A domain"

    def domain(self) -> None:
        if self.text == "[":
            self.names("a parameter")
            if not self.accept("->"):
                raise self.error(
                    "'->'", hint="parameters stand before an arrow, and inames in braces: [n] -> { [i] : ... }")
        if not self.accept("{"):
            raise self.error("'{'", hint="a domain stands in braces: { [i] : 0 <= i < n }")
        self.separated(self.piece, ";")
        if self.text in ("", "]", ")"):
            raise self.error("'and', 'or', an operator or '}'", message="The '}' that ends the domain is missing.")
        self.take("}", "'and', 'or', an operator or '}'")
        if self.text:
            raise self.error("the end of the domain")

    def piece(self) -> None:
        if self.text != "[":
            of_name = self.kind == "name" and self.tokens[self.at + 1].text == "["
            raise self.error("'['", hint="a domain has no name: { [i, j] : ... }" if of_name else
                             "inames stand in brackets, and their conditions behind a colon: { [i] : 0 <= i < n }")
        start = self.at
        self.names("the name of an iname")
        inames = "".join(token.text for token in self.tokens[start:self.at]).replace(",", ", ")
        if self.accept(":"):
            if self.text == ":":
                raise self.error("a condition", message="There are two colons.")
            if self.text not in ("}", ";"):
                self.condition()
        elif self.text == "->":
            raise self.error(
                "':'", hint="inames that the bounds depend on stand before the braces: [i] -> { [j] : ... }")
        elif self.text not in ("}", ";", ""):
            raise self.error("':'", message=f"The ':' behind {inames} is missing.", hint=f"{{ {inames} : ... }}")

    def names(self, expected: str) -> None:
        self.take("[")
        while self.text != "]":
            if self.kind != "name":
                raise self.error(expected)
            self.at += 1
            if self.kind == "name":
                raise self.error("',' or ']'", message=f"The ',' before '{self.text}' is missing.")
            if not self.accept(","):
                break
        if self.text in (":", "}", ""):
            raise self.error("',' or ']'", message="The ']' behind the names is missing.", hint="{ [i, j] : ... }")
        self.take("]", "',' or ']'")

    # Conditions: every method returns whether it read a condition (True) or a form (False)

    def condition(self) -> None:
        while True:
            start = self.at
            if not self.term():
                hint = "0 <= i < n" if self.text == "in" or self.tokens[start].text == "for" else None
                raise self.error("'<', '<=', '=', '>=' or '>'" if self.at > start else "a condition", hint=hint)
            if not self.accept(*_JUNCTIONS):
                return

    def term(self) -> bool:
        if self.accept("not", "!"):
            if not self.term():
                raise self.error("a condition")
            return True
        if self.accept("true", "false") or self.exists() or self.parenthesised_condition():
            return True
        self.separated(self.form)
        if self.text not in _RELATIONS:
            return False
        while (relation := self.text) in _RELATIONS:
            if relation == "==":
                raise self.error(
                    "'='", hint="in isl's notation, which domains and assumptions have, equality is one '='")
            self.at += 1
            if relation == "=" and self.text in ("<", ">"):
                raise self.error("an affine form", hint=f"{self.text}=")
            self.separated(self.form)
        return True

    def exists(self) -> bool:
        if not self.accept("exists"):
            return False
        opened = self.accept("(")
        while self.text != ":":
            if self.kind != "name":
                raise self.error("a name or ':'")
            self.at += 1
            if self.accept("="):
                self.form()
            if not self.accept(","):
                break
        self.take(":", "',' or ':'")
        self.condition()
        if opened:
            self.take(")", "'and', 'or' or ')'")
        return True

    def parenthesised_condition(self) -> bool:
        """Step over ``( condition )``, unless the parentheses enclose a form."""
        depth = 0
        for _, text, _ in self.tokens[self.at:]:
            depth += {"(": 1, ")": -1}.get(text, 0)
            if not depth:
                return False
            if text in _RELATIONS | _JUNCTIONS | {"not", "exists", "true", "false"}:
                break
        else:
            return False
        self.take("(")
        self.condition()
        self.take(")", "'and', 'or' or ')'")
        return True

    # Affine forms: every method returns whether the form is constant

    def form(self) -> bool:
        constant = self.product()
        while self.accept("+", "-"):
            constant = self.product() and constant
        return constant

    def product(self) -> bool:
        constant = self.factor()
        while True:
            operator = self.at
            if self.accept("*"):
                if self.text == "*":
                    raise self.error("a constant factor", at=operator, message=f"{self.subject} takes no powers.")
                other = self.factor()
                if not constant and not other:
                    raise self.error("a constant factor", at=operator, message=f"{self.subject} multiplies two names.")
                constant = constant and other
            elif self.accept("/", "//", "%", "mod"):
                if not self.factor():
                    raise self.error("a constant divisor", at=operator, message=f"{self.subject} divides by a name.")
            elif constant and ((self.kind == "name" and self.text not in _NO_FUNCTIONS) or self.text == "("):
                constant = self.factor()
            else:
                return constant

    def factor(self) -> bool:
        if self.accept("-", "+"):
            return self.factor()
        if self.accept("("):
            constant = self.form()
            self.take(")", "an operator or ')'")
            return constant
        if self.text.isdigit():
            return self.accept(self.text)
        if self.kind != "name" or self.text in _NO_FUNCTIONS - {"mod"}:
            raise self.error("an affine form")
        return self.named()

    def named(self) -> bool:
        name, start = self.text, self.at
        self.at += 1
        if self.text != "(" and name.lower() in _WORDS_OF_ISL:
            raise self.error("another name", at=start, message=f"'{name}' is a word of isl's notation.")
        if self.text == ".":
            raise self.error("an operator", message=f"The name '{name}.{self.tokens[self.at + 1].text}' has a dot.",
                             hint="names are letters, digits and underscores")
        if self.text == "[":
            raise self.error(
                "a name", at=start, message=f"{self.subject} reads the array '{name}'.",
                hint=f"assign it to a temporary first, <int32> bound = {name}[...], and use the temporary here")
        if self.text != "(":
            return False
        if name not in FUNCTIONS:
            raise self.error("one of " + ", ".join(sorted(FUNCTIONS)), at=start,
                             message=f"{self.subject} cannot call '{name}'.")
        self.at += 1
        constant = all(self.separated(self.form))
        self.take(")", "',' or ')'")
        return constant
