"""The differences between two kernels, or between two generated codes, line by line."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.show.document import Block, Code, Document, Fold, Paragraph, Span, Style, Table
from loopkit.show.kernels import kernel_document
from loopkit.show.text import block_lines
from loopkit.shown import Shown
from loopkit.target.code import GeneratedCode

#: The parts of a kernel's card on how it was made.
_HISTORY = ("As written", "Steps")

#: Equal lines around a change that are shown.
_CONTEXT = 3

Kind = Literal["equal", "removed", "added", "moved away", "moved here"]

_MARKS: Mapping[Kind, tuple[str, Style]] = {"equal": ("  ", ""), "removed": ("- ", "bad"), "added": ("+ ", "good"),
                                            "moved away": ("< ", "note"), "moved here": ("> ", "note")}


@dataclass(frozen=True)
class LineChange:
    """A line of a difference.

    :ivar old: the line before, ``None`` where it was not there; *new*: the line after. Equal lines may have another
        indentation.
    """

    kind: Kind
    old: str | None
    new: str | None


@dataclass(frozen=True, repr=False)
class Diff(Shown):
    """The differences between two kernels or codes, part by part; false if there are none.

    :ivar parts: the lines of each part that differs, by its title.
    :ivar equal: the titles of the parts that do not differ.
    :ivar side_by_side: show the old lines beside the new ones, in place of one list.
    """

    names: tuple[str, str]
    parts: Mapping[str, tuple[LineChange, ...]]
    equal: tuple[str, ...]
    side_by_side: bool = False

    def __bool__(self) -> bool:
        return bool(self.parts)

    @property
    def headline(self) -> str:
        counts = Counter(change.kind for part in self.parts.values() for change in part)
        words = [f"{counts[kind]} {kind}" for kind in ("removed", "added", "moved here") if counts[kind]]
        return f"{self.names[0]} -> {self.names[1]}: {', '.join(words) or 'no difference'}"


@checked
def diff(a: LoopKernel | GeneratedCode, b: LoopKernel | GeneratedCode, *, side_by_side: bool = False) -> Diff:
    """The differences from *a* to *b*: of the cards of two kernels, or of two generated codes.

    Lines are compared without their indentation. A line that is in another place of the same part is marked as moved:
    ``<`` where it was, ``>`` where it is. Parts without differences appear by their titles alone.

    >>> knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[i,j]"), {"x": np.float32})
    >>> print(lk.diff(knl, lk.interchange(knl, "i", "j")))
    'kernel' -> 'kernel': 1 removed, 2 added, 1 moved here
    GIVEN ORDER
      + j, i
    STATEMENTS
      - for i, j
      + for j, i
          y[i, j] = 2*x[i, j]  {id=insn}
        end
    AS IT RUNS
        Launch kernel
          1 block of 1 thread
          one thread runs all of it: no iname is on an axis of blocks or threads
      >   for j in 0 .. m
            for i in 0 .. n
      <     for j in 0 .. m
              y[i, j] = 2*x[i, j]  {id=insn}
    without differences: arguments, assumptions, domains

    :arg side_by_side: show the old lines beside the new ones.
    :raises PreconditionError: one is a kernel and the other one a code.
    """
    if isinstance(a, LoopKernel) is not isinstance(b, LoopKernel):
        raise PreconditionError("A kernel and a generated code have no lines to compare.", subject="diff",
                                hint="compare two kernels, or generate_code(...) of both")
    old, new = _parts_of(a), _parts_of(b)
    changes = {title: tuple(_line_changes(old.get(title, ()), new.get(title, ()))) for title in {**new, **old}}
    parts = {title: part for title, part in changes.items() if any(change.kind != "equal" for change in part)}
    equal = tuple(title for title in changes if title not in parts)
    return Diff((_title_of(a), _title_of(b)), parts, equal, side_by_side)


def _title_of(value: LoopKernel | GeneratedCode) -> str:
    return repr(value.name) if isinstance(value, LoopKernel) else value.headline


def _parts_of(value: LoopKernel | GeneratedCode) -> dict[str, tuple[str, ...]]:
    """The lines of each part of the document of *value*; its history does not count."""
    if isinstance(value, GeneratedCode):
        return {"Source": tuple(value.source.splitlines()), "Host": tuple(value.host.splitlines())}
    return {block.title: tuple("".join(span.text for span in line).rstrip()
                               for part in block.body for line in block_lines(part, is_inner=True))
            for block in kernel_document(value).body if isinstance(block, Fold) and block.title not in _HISTORY}


def _line_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[LineChange]:
    """The lines of both, in order, those that are in another place marked as moved."""
    before, after = [line.strip() for line in old], [line.strip() for line in new]
    found: list[LineChange] = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            found += (LineChange("equal", x, y) for x, y in zip(old[i:j], new[k:m], strict=True))
        else:
            found += (LineChange("removed", x, None) for x in old[i:j])
            found += (LineChange("added", None, y) for y in new[k:m])
    gone = Counter((x.old or "").strip() for x in found if x.kind == "removed")
    come = Counter((x.new or "").strip() for x in found if x.kind == "added")
    # 'end' and other short lines recur everywhere: a match of two does not mean that one was moved
    moved = {text: min(count, come[text]) for text, count in gone.items() if len(text) > len("end")}
    left = {"removed": dict(moved), "added": dict(moved)}
    for change in found:
        text = (change.old or change.new or "").strip()
        if change.kind in left and left[change.kind].get(text, 0):
            left[change.kind][text] -= 1
            yield LineChange("moved away" if change.kind == "removed" else "moved here", change.old, change.new)
        else:
            yield change


# Showing

def diff_document(found: Diff) -> Document:
    """The parts of a difference: a list, or two columns."""
    body: list[Block] = [Fold(title, (_columns(part) if found.side_by_side else Code(tuple(_unified(part))),))
                         for title, part in found.parts.items() if part]
    if found.equal and found.parts:
        body.append(Paragraph((Span(f"without differences: {', '.join(x.lower() for x in found.equal)}", "note"),)))
    return Document(found.headline, tuple(body))


def _unified(part: Sequence[LineChange]) -> Iterator[Span]:
    for shown, changes in _grouped(part):
        if not shown:
            yield Span(f"  ... {len(changes)} lines without differences", "note")
            continue
        for change in changes:
            mark, style = _MARKS[change.kind]
            yield Span(f"{mark}{change.new if change.new is not None else change.old}", style)


def _columns(part: Sequence[LineChange]) -> Table:
    """The old lines beside the new ones."""
    rows: list[tuple[Span, Span]] = []
    for shown, changes in _grouped(part):
        if not shown:
            rows.append((Span(f"... {len(changes)} lines without differences", "note"), Span("")))
            continue
        for equal, run in groupby(changes, lambda change: change.kind == "equal"):
            lines = list(run)
            left = [x for x in lines if x.old is not None]
            right = [x for x in lines if x.new is not None]
            for i in range(max(len(left), len(right))):
                rows.append((_cell(left[i:i + 1], "old", equal), _cell(right[i:i + 1], "new", equal)))
    return Table(("before", "after"), tuple(rows))


def _cell(change: Sequence[LineChange], side: Literal["old", "new"], is_equal: bool) -> Span:
    if not change:
        return Span("")
    mark, style = _MARKS[change[0].kind]
    return Span(f"{'  ' if is_equal else mark}{getattr(change[0], side)}", style)


def _grouped(part: Sequence[LineChange]) -> Iterator[tuple[bool, Sequence[LineChange]]]:
    """*part* in runs that are shown, and runs of equal lines too far from a change, of more than one line."""
    changed = [i for i, change in enumerate(part) if change.kind != "equal"]
    near = {i + d for i in changed for d in range(-_CONTEXT, _CONTEXT + 1)}
    for shown, run in groupby(range(len(part)), lambda i: i in near):
        own = [part[i] for i in run]
        yield shown or len(own) == 1, own

