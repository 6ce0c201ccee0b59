"""Assignments to single fields of structs: a statement of loopkit writes the whole struct."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from loopkit.compat.loopy.spelling import logical_lines, options_of
from loopkit.language.arguments import Declared

#: ``a[i].f = value {options}``
_WRITE = re.compile(r"\s*(?P<array>[A-Za-z_]\w*)\s*(?P<subscripts>\[[^=]*\])?\s*\.\s*(?P<field>[A-Za-z_]\w*)\s*=(?!=)"
                    r"(?P<value>[^{}]*?)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:#.*)?", re.DOTALL)


@dataclass(frozen=True)
class FieldWrites:
    """Adjacent assignments to fields of one element *place*, whose dtype is *dtype*.

    :ivar values: the assigned values by field; *options*: all options, each once.
    """

    place: str
    dtype: np.dtype
    values: Mapping[str, str]
    options: tuple[str, ...]

    def line(self, groups: dict[str, frozenset[str]]) -> str:
        """The assignment of the whole struct, which keeps the other fields; *groups* gets the ids of the parts."""
        ids = [x.removeprefix("id=") for x in self.options if x.startswith("id=")]
        groups |= {own: frozenset(ids[:1]) for own in ids[1:]}
        others = dict.fromkeys(x for x in self.options if not x.startswith("id="))
        options = ", ".join((*(f"id={own}" for own in ids[:1]), *others))
        fields = (f"{name}=cast({self.dtype[name].name}, {self.values[name]})" if name in self.values else
                  f"{name}={self.place}.{name}" for name in self.dtype.names or ())
        return f"{self.place} = make_tuple({', '.join(fields)}){f' {{{options}}}' if options else ''}"


def is_of_fields(text: str) -> bool:
    """Does *text* assign to a field?"""
    return re.search(r"\.\s*[A-Za-z_]\w*\s*=(?!=)", text) is not None


def with_whole_structs(texts: Iterable[str], declared: Declared, groups: dict[str, frozenset[str]]) -> Iterator[str]:
    """*texts* with assignments of whole structs for assignments to fields of *declared* arrays.

    Adjacent assignments to different fields of one element become one if their values do not read the array, and their
    other options agree.
    """
    waiting: FieldWrites | None = None
    for line in (line for text in texts for line in logical_lines(text)):
        new = _read(line, declared)
        if waiting is not None and new is not None and _is_continued(waiting, new):
            waiting = FieldWrites(new.place, new.dtype, {**waiting.values, **new.values},
                                  (*waiting.options, *new.options))
            continue
        if waiting is not None and (new is not None or line.strip()):
            yield waiting.line(groups)
            waiting = None
        if new is None:
            yield line
        else:
            waiting = new
    if waiting is not None:
        yield waiting.line(groups)


def _read(line: str, declared: Declared) -> FieldWrites | None:
    found = _WRITE.fullmatch(line)
    datum = declared.get(found["array"]) if found is not None else None
    dtype = getattr(datum, "dtype", None)
    if found is None or dtype is None or found["field"] not in (np.dtype(dtype).names or ()):
        return None
    place = found["array"] + re.sub(r"\s+", "", found["subscripts"] or "")
    return FieldWrites(place, np.dtype(dtype), {found["field"]: found["value"].strip()},
                       tuple(options_of(found["options"] or "")))


def _is_continued(first: FieldWrites, second: FieldWrites) -> bool:
    """May both be one assignment?"""
    array = re.compile(rf"\b{first.place.partition('[')[0]}\b")
    same = [{x for x in w.options if not x.startswith("id=")} for w in (first, second)]
    ids = {x.removeprefix("id=") for x in first.options if x.startswith("id=")}
    after = {name for x in same[1] if x.startswith("dep=") for name in x.removeprefix("dep=").split(":")}
    return first.place == second.place and first.values.keys().isdisjoint(second.values) and not any(
        array.search(value) for value in (*first.values.values(), *second.values.values())) and {
            x for x in same[0] if not x.startswith("dep=")} == {
            x for x in same[1] if not x.startswith("dep=")} and not after & ids
