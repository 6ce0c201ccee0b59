"""loopy's spelling of instructions that loopkit's language does not have: repeated options, and hints for schedules."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Options that order nothing here and change no value: schedule hints, and groups of statements that may interleave.
_HINTS = frozenset({"priority", "groups", "conflicts", "mem_kind"})

#: Options that have no meaning for a block, or for a line without effect.
_NOT_OF_BLOCKS = _HINTS | {"nosync", "nosync_query"}
_NOT_OF_MARKERS = _NOT_OF_BLOCKS | {"if"}

_OPTIONS = re.compile(r"\{(?P<options>[^{}]*)\}\s*(?:#.*)?$", re.DOTALL)


def respelled(instructions: str | Iterable[str]) -> str:
    """*instructions* in loopkit's spelling.

    >>> print(respelled("x[i] = 1 {id=a, priority=3}\\ny[i] = sum((j,), a[j]) {dep=*a, if=p, if=q}"))
    x[i] = 1 {id=a}
    y[i] = sum([j], a[j]) {dep=*a, if=p:q}
    """
    texts = [instructions] if isinstance(instructions, str) else instructions
    lines = [_line(_REDUCTION.sub(_reduction, line)) for text in texts for line in logical_lines(text)]
    return _without_empty_blocks("\n".join(lines))


def _line(line: str) -> str:
    match = _OPTIONS.search(line)
    if match is None or "[" + line[:match.start()].strip()[-1:] in ("[", "[]->"):
        return line
    code = line.lstrip()
    left_out = _NOT_OF_MARKERS if code.startswith("...") else _NOT_OF_BLOCKS if re.match(r"with\b", code) else _HINTS
    options = ", ".join(options_of(match["options"], left_out))
    return line[:match.start()].rstrip() + (f" {{{options}}}" if options else "")


def options_of(text: str, left_out: frozenset[str] = _HINTS) -> Iterator[str]:
    """The options of *text* but those *left_out*, each once."""
    found: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, _, value = map(str.strip, part.partition("="))
        if key not in left_out:
            found.setdefault(key, []).append(value)
    for key, values in found.items():
        value = ":".join(filter(None, values))
        plain = value in ("", "init") if key == "atomic" else not value and key not in ("inames", "dep")
        yield key if plain else f"{key}={value}"


#: By variable and direction, "load" or "store", the sets of tags with which a statement accesses it.
VariableTags = Mapping[tuple[str, str], frozenset[frozenset[str]]]

#: A variable with tags, a$tag, which have no meaning for values.
_TAGGED = re.compile(r"([A-Za-z_]\w*)((?:\$[A-Za-z_]\w*)+)", re.ASCII)


def without_tags(text: str) -> tuple[str, Mapping[int, frozenset[str]]]:
    """*text* without the tags of its variables, and these by the places of the variables.

    >>> without_tags("c$sum[i] = a$load[i] + 1")
    ('c[i] = a[i] + 1', {0: frozenset({'sum'}), 7: frozenset({'load'})})
    """
    found: dict[int, frozenset[str]] = {}
    plain, end = "", 0
    for variable in _TAGGED.finditer(text):
        plain += text[end:variable.start()]
        found[len(plain)] = frozenset(variable[2][1:].split("$"))
        plain, end = plain + variable[1], variable.end()
    return plain + text[end:], found

_EMPTY_BLOCK = re.compile(r"^[ \t]*(?:for|if)\b[^\n]*\n\s*end[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def _without_empty_blocks(text: str) -> str:
    """*text* with blanks for blocks that hold nothing; every other character keeps its place."""
    while (shorter := _EMPTY_BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)) != text:
        text = shorter
    return text


#: A reduction with its inames in parentheses, or one over several results of one statement.
_REDUCTION = re.compile(r"\b(?P<head>simul_reduce\(\s*\w+\s*,|reduce\(\s*\w+\s*,|"
                        r"(?:sum|product|min|max|any|all|argmin|argmax)\()\s*(?P<inames>\((?:\s*\w+\s*,)+\s*\w*\s*\))?")


def _reduction(found: re.Match[str]) -> str:
    head, inames = found["head"].replace("simul_reduce(", "reduce("), found["inames"]
    if inames is None:
        return head + found[0][len(found["head"]):]
    names = inames.strip()[1:-1].strip().removesuffix(",")
    return f"{head}{' ' if head.endswith(',') else ''}[{names}]"


def logical_lines(text: str) -> Iterator[str]:
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


#: A name and the parenthesis after it.
CALL = re.compile(r"([A-Za-z_]\w*)\s*\(", re.ASCII)


def counted_calls(text: str) -> dict[str, int]:
    """The names before parentheses in *text*, each with the number of values in them.

    >>> counted_calls("f(x, g(1)) + h()")
    {'f': 2, 'g': 1, 'h': 0}
    """
    return {found[1]: values_in(text, found.end())[0] for found in CALL.finditer(text)}


def values_in(text: str, start: int) -> tuple[int, int]:
    """The number of values between the bracket before *start* and its end, and the place of the end.

    >>> values_in("a[i, f(j, k)] + b", 2)
    (2, 12)
    """
    depth, commas = 1, 0
    for end in range(start, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        commas += depth == 1 and text[end] == ","
        if not depth:
            return commas + bool(text[start:end].strip()), end
    return 0, len(text)


#: The inames of a domain.
INAMES = re.compile(r"\{\s*\[([^\]]*)\]")

_NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)

#: A domain without inames, and one brace too many at the end, which loopy overlooks.
_NO_INAMES = re.compile(r"(\[[^\]]*\]\s*->\s*)?\{\s*(\[\s*\])?\s*:?\s*\}")
_SURPLUS = re.compile(r"\}\s*\}\s*$")


def domain_texts(domains: Any, lines: Iterable[object]) -> list[str]:
    """The texts of *domains*, without inames that have no bounds and stand in no other text and in none of *lines*."""
    given = [domains] if isinstance(domains, str) or not isinstance(domains, Iterable) else domains
    texts = [_SURPLUS.sub("}", str(d)) for d in given]
    count = Counter(_NAMES.findall("\n".join(map(str, (*texts, *lines)))))

    def used(inames: re.Match[str]) -> str:
        listed = [x.strip() for x in inames[1].split(",")]
        left = [x for x in listed if count[x] != 1]
        return inames[0] if left == listed else f"{{[{', '.join(left)}]"
    texts = [INAMES.sub(used, text) for text in texts]
    return [text for text in texts if not _NO_INAMES.fullmatch(text.strip())]
