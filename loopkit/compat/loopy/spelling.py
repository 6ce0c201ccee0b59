"""loopy's spelling of instructions that loopkit's language does not have: options in braces, and ``...`` lines.

A text is read line by line. Options of loopy's own are taken out, and everything else stays for loopkit's parser.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from loopkit.errors import PreconditionError

#: Options that order nothing here and change no value: schedule hints, and groups of statements that may interleave.
_HINTS = frozenset({"priority", "groups", "conflicts", "nosync", "nosync_query", "dep", "dep_query", "inames",
                    "mem_kind"})

#: A line that orders others and computes nothing.
_ORDERING = re.compile(r"\s*\.\.\.\s*(?P<kind>gbarrier|lbarrier|nop|return)\s*(?P<options>\{.*\})?\s*", re.DOTALL)
_OPTIONS = re.compile(r"\{(?P<options>[^{}]*)\}\s*(?:#.*)?$", re.DOTALL)


@dataclass(frozen=True)
class LoopyOptions:
    """The options of one statement that loopkit's language does not have.

    :ivar dep: globs of the statements that run before it.
    :ivar dep_is_final: no dependence follows from reads.
    :ivar dep_query: match expressions of the statements that run before it.
    :ivar more_inames: inames in addition to the others.
    """

    dep: tuple[str, ...] = ()
    dep_is_final: bool = False
    dep_query: tuple[str, ...] = ()
    more_inames: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrderingLine:
    """``... gbarrier {id=..., dep=...}``, or another line that only orders statements.

    :ivar place: its place in the text.
    """

    place: int
    kind: str
    id: str | None
    options: LoopyOptions


@dataclass
class Spelled:
    """A text in loopkit's spelling.

    :ivar options: loopy's options by the place of their statement in *text*.
    """

    text: str = ""
    options: dict[int, LoopyOptions] = field(default_factory=dict)
    ordering: list[OrderingLine] = field(default_factory=list)


def respelled(instructions: str | Iterable[str]) -> Spelled:
    """*instructions* in loopkit's spelling.

    >>> spelled = respelled("x[i] = 1 {id=a, priority=3}\\ny[i] = 2 {dep=*a}")
    >>> print(spelled.text)
    x[i] = 1 {id=a}
    y[i] = 2
    >>> [(o.dep, o.dep_is_final) for o in spelled.options.values()]
    [((), False), (('a',), True)]
    """
    found = Spelled()
    texts = [instructions] if isinstance(instructions, str) else instructions
    for line in (line for text in texts for line in _logical_lines(text)):
        line = _REDUCTION.sub(_reduction, line)
        place = len(found.text) + len(line) - len(line.lstrip())
        if (ordering := _ORDERING.fullmatch(line)) is not None:
            kept, own = _split_options(ordering["options"] or "{}")
            found.ordering.append(OrderingLine(place, ordering["kind"], kept.get("id"), own))
            found.text += "\n"
            continue
        match = _OPTIONS.search(line)
        if match is not None and "[" + line[:match.start()].strip()[-1:] not in ("[", "[]->"):
            kept, found.options[place] = _split_options(match[0])
            line = line[:match.start()].rstrip() + _written_options(kept)
        found.text += line + "\n"
    found.text = _without_empty_blocks(found.text.removesuffix("\n"))
    return found


_EMPTY_BLOCK = re.compile(r"^[ \t]*(?:for|if)\b[^\n]*\n\s*end\b[^\n]*$", re.MULTILINE)


def _without_empty_blocks(text: str) -> str:
    """*text* with blanks for blocks that hold nothing; every other character keeps its place."""
    while (shorter := _EMPTY_BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)) != text:
        text = shorter
    return text


#: A reduction with its inames in parentheses, or one over several results of one statement.
_REDUCTION = re.compile(r"\b(?P<head>simul_reduce\(\s*\w+\s*,|reduce\(\s*\w+\s*,|(?:sum|product|min|max|any|all)\()"
                        r"\s*(?P<inames>\((?:\s*\w+\s*,)+\s*\w*\s*\))?")


def _reduction(found: re.Match[str]) -> str:
    head, inames = found["head"].replace("simul_reduce(", "reduce("), found["inames"]
    if inames is None:
        return head + found[0][len(found["head"]):]
    return f"{head} [{inames.strip()[1:-1].strip().removesuffix(',')}]"


def _written_options(options: Mapping[str, str | None]) -> str:
    text = ", ".join(key if value is None else f"{key}={value}" for key, value in options.items())
    return f" {{{text}}}" if text else ""


def _split_options(braces: str) -> tuple[dict[str, str | None], LoopyOptions]:
    """The options that loopkit has, and loopy's own; :raises PreconditionError: an option means nothing here."""
    kept: dict[str, str | None] = {}
    own: dict[str, tuple[str, ...]] = {}
    final = False
    for part in filter(None, map(str.strip, braces[braces.index("{") + 1:braces.rindex("}")].split(","))):
        key, equals, value = map(str.strip, part.partition("="))
        names = tuple(filter(None, map(str.strip, value.split(":"))))
        if key == "dep":
            final = final or value.startswith("*")
            listed = (name.removeprefix("*") if final else name for name in names)
            own["dep"] = (*own.get("dep", ()), *filter(None, listed))
        elif key == "dep_query":
            own["dep_query"] = (*own.get("dep_query", ()), value)
        elif key == "inames" and value.startswith("+"):
            own["more_inames"] = tuple(name.removeprefix("+") for name in names)
        elif key == "inames":
            kept["inames"] = value
        elif key == "if":
            conditions = [value, *([kept["if"]] if kept.get("if") else [])]
            kept["if"] = " and ".join(f"({c})" for text in conditions for c in _conditions(str(text)))
        elif key == "atomic":
            kept["atomic"] = None
        elif key not in _HINTS:
            kept[key] = value if equals else None
    return kept, LoopyOptions(dep_is_final=final, **own)


def _conditions(text: str) -> list[str]:
    """The conditions of ``if=a:b``; a colon in brackets separates nothing."""
    found, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == ":" and not depth:
            found.append("")
        else:
            found[-1] += char
    return [c.strip() for c in found]


def _logical_lines(text: str) -> Iterator[str]:
    """The lines of *text*; a line whose brackets are open or that ends in a backslash goes on with the next one."""
    line, depth = "", 0
    for piece in text.split("\n"):
        code = piece.partition("#")[0]
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        line += piece
        if depth > 0 or code.rstrip().endswith("\\"):
            line += "\n"
            continue
        yield line
        line = ""
    if line.strip():
        yield line


def refuse_return(lines: Iterable[OrderingLine]) -> None:
    """:raises PreconditionError: a line returns from the kernel."""
    for line in lines:
        if line.kind == "return":
            raise PreconditionError("A kernel runs all of its statements, and '... return' would leave some out.",
                                    subject="return", hint="put the statements after it under a condition, if=...")
