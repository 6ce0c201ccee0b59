"""Assignments to single fields of structs: a statement of loopkit writes the whole struct."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from loopkit.compat.loopy.spelling import Options, merged, parted, with_options
from loopkit.language.arguments import Declared

#: ``a[i].f = value``
_WRITE = re.compile(r"\s*(?P<array>[A-Za-z_]\w*)\s*(?P<subscripts>\[[^=]*\])?\s*\.\s*(?P<field>[A-Za-z_]\w*)\s*=(?!=)"
                    r"(?P<value>[^{}]*?)", re.DOTALL)

#: The options that may differ between assignments that become one.
_OF_ORDER = frozenset({"dep", "nosync", "nosync_query"})


@dataclass(frozen=True)
class FieldWrites:
    """Adjacent assignments to fields of one element *place*, whose dtype is *dtype*.

    :ivar values: the assigned values by field; *ids*: the ids of the assignments, and *options* their other options.
    """

    place: str
    dtype: np.dtype
    values: Mapping[str, str]
    ids: tuple[str, ...]
    options: Options

    def line(self, groups: dict[str, frozenset[str]]) -> str:
        """The assignment of the whole struct, which keeps the other fields; *groups* gets the ids of the parts."""
        groups |= {own: frozenset(self.ids[:1]) for own in self.ids[1:]}
        fields = (f"{name}=cast({self.dtype[name].name}, {self.values[name]})" if name in self.values else
                  f"{name}={self.place}.{name}" for name in self.dtype.names or ())
        return with_options(f"{self.place} = make_tuple({', '.join(fields)})",
                            {**dict(zip(["id"], self.ids, strict=False)), **self.options})


def with_whole_structs(lines: Iterable[str], declared: Declared, groups: dict[str, frozenset[str]]) -> Iterator[str]:
    """*lines* with assignments of whole structs for assignments to fields of *declared* arrays.

    Adjacent assignments to different fields of one element become one if their values do not read the array, and their
    other options agree.
    """
    waiting: FieldWrites | None = None
    for line in lines:
        new = _read(line, declared)
        if waiting is not None and new is not None and _is_continued(waiting, new):
            same = {x: own for x, own in waiting.options.items() if x not in _OF_ORDER}
            waiting = FieldWrites(new.place, new.dtype, {**waiting.values, **new.values}, (*waiting.ids, *new.ids),
                                  {**merged(waiting.options, new.options), **same})
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
    code, options = parted(line)
    found = _WRITE.fullmatch(code)
    datum = declared.get(found["array"]) if found is not None else None
    dtype = getattr(datum, "dtype", None)
    if found is None or dtype is None or found["field"] not in (np.dtype(dtype).names or ()):
        return None
    place = found["array"] + re.sub(r"\s+", "", found["subscripts"] or "")
    own = options.pop("id", None)
    return FieldWrites(place, np.dtype(dtype), {found["field"]: found["value"].strip()}, (own,) if own else (), options)


def _is_continued(first: FieldWrites, second: FieldWrites) -> bool:
    """May both be one assignment?"""
    array = re.compile(rf"\b{first.place.partition('[')[0]}\b")
    own = [{x: value for x, value in w.options.items() if x not in _OF_ORDER} for w in (first, second)]
    after = (second.options.get("dep") or "").split(":")
    # an option has one query
    queries = {w.options[x] for w in (first, second) for x in ("nosync_query",) if x in w.options}
    return first.place == second.place and first.values.keys().isdisjoint(second.values) and not any(
        array.search(value) for value in (*first.values.values(), *second.values.values())
        ) and own[0] == own[1] and not {*after} & {*first.ids} and len(queries) < 2
