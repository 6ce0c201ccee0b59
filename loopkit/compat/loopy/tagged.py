"""Tags of names, ``f$t(i)`` and ``a$t[i]``: each tagged name is a substitution rule, by which steps select its uses.

The rule stands for the name until a step changes it, and the kernel shows the name in its place.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import pymbolic.primitives as p

import loopkit as lk
from loopkit.compat.loopy.spelling import logical_lines, values_in
from loopkit.errors import PreconditionError
from loopkit.kernel.data import SubstitutionRule
from loopkit.language.names import fresh

#: For the name of each such rule the name that has a tag, and the tag.
Tagged = Mapping[str, tuple[str, str]]

_TAGGED = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\$(?P<tag>[A-Za-z_]\w*)(?P<open>(?:\s*[(\[])?)", re.ASCII)
_RULE = re.compile(r"^\s*(\w+)\s*(?:\(([^()]*)\))?\s*:=", re.ASCII | re.MULTILINE)
_EQUALS = re.compile(r"(?<![=<>!:])=(?!=)")


def with_rules_for_tags(texts: Iterable[str]) -> tuple[list[str], Tagged]:
    """*texts* with rules in place of tagged rules and elements. Assigned names keep their tags; others have no meaning.

    >>> texts, tagged = with_rules_for_tags(["y$out[i] = a$in[i, 0] + b"])
    >>> print("\\n".join(texts), tagged)
    a_in(place_0, place_1) := a[place_0, place_1]
    y$out[i] = a_in(i, 0) + b {'a_in': ('a', 'in')}
    """
    texts = list(texts)
    text = "\n".join(texts)
    if _TAGGED.search(text) is None:
        return texts, {}
    rules = {name: [x.strip() for x in args.split(",") if x.strip()] for name, args in _RULE.findall(text)}
    found = _Rules(rules, {*re.findall(r"\w+", text, re.ASCII)})
    changed = ["\n".join(map(found.line, logical_lines(part))) for part in texts]
    return [*found.lines, *changed], {own: key for key, own in found.own.items()}


@dataclass
class _Rules:
    """The rules for tagged names.

    :ivar known: the rules of the text, each with its arguments; *taken*: all names of the text.
    :ivar own: for each name and tag the rule, and *lines* their definitions.
    """

    known: Mapping[str, Sequence[str]]
    taken: set[str]
    own: dict[tuple[str, str], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def line(self, line: str) -> str:
        """*line* with the rules in place of tagged names; those that it assigns keep their tags."""
        equals = _EQUALS.search(line)
        start = 0 if equals is None else equals.start()
        assigned, rest = line[:start], line[start:]
        while (found := _TAGGED.search(rest)) is not None:
            name, bracket = found["name"], found["open"].strip()
            count, end = values_in(rest, found.end()) if bracket else (0, found.end())
            inside, after = rest[found.end():end], rest[end:]
            if bracket == "[":
                name, inside, after = self.rule(name, found["tag"], count, "[]"), f"({inside})", after[1:]
            else:
                name = self.rule(name, found["tag"], count, "()"[:2*len(bracket)]) if name in self.known else name
                inside = found["open"] + inside
            rest = rest[:found.start()] + name + inside + after
        return assigned + rest

    def rule(self, name: str, tag: str, count: int, brackets: str) -> str:
        """The rule for *name* with *tag*, which has *count* values in *brackets*."""
        if (name, tag) not in self.own:
            own = self.own[name, tag] = fresh(f"{name}_{tag}", self.taken)
            names = self.known[name] if brackets != "[]" else [
                fresh(f"place_{axis}", {*self.taken}) for axis in range(count)]
            places = ", ".join(names)
            self.lines.append(f"{own}({places}) := {name}{brackets[:1]}{places}{brackets[1:]}")
        return self.own[name, tag]


def rules_of_tags(core: lk.LoopKernel, tagged: Tagged) -> Mapping[str, SubstitutionRule]:
    """Those rules of *core* that still stand for the names *tagged*, with these names as their bodies."""
    found, rules = dict[str, SubstitutionRule](), core.substitutions
    for name, (own, _) in tagged.items():
        if name in rules:
            places, base = tuple(map(p.Variable, rules[name].arguments)), p.Variable(own)
            uses = (p.Call(base, places), p.Subscript(base, places if len(places) > 1 else places[0])) if places else (
                base,)
            body = uses[0] if own in rules and rules[own].expr == rules[name].expr else rules[name].expr
            if body in uses:
                found[name] = replace(rules[name], expr=body)
    return found


_PATTERN = re.compile(r"(?:id:(?P<id>\S+))?(?:(?:^|\s+and\s+)tag:(?P<tag>\S+))?")


def rules_matching(core: lk.LoopKernel, tagged: Tagged, pattern: str) -> list[str]:
    """The rules that ``id:f``, ``tag:t`` or ``id:f and tag:t`` selects: a name with its tags, or with one of them.

    :raises PreconditionError: there are none, or *pattern* has another form.
    """
    form = _PATTERN.fullmatch(pattern)
    names = [(x, *tagged.get(x, (x, ""))) for x in core.substitutions]
    found = [] if form is None or not pattern else [
        x for x, name, tag in names if fnmatchcase(name, form["id"] or "*") and fnmatchcase(tag, form["tag"] or "*")]
    if not found:
        raise PreconditionError(f"'{pattern}' selects no substitution rule.", subject=pattern,
                                hint="write 'id:f', 'tag:t' or 'id:f and tag:t'; there are "
                                     + (", ".join(name + f"${tag}"*bool(tag) for _, name, tag in names) or "none"))
    return found
