"""The picture of an access: the addresses that the threads of a warp access at once, in lines or in banks."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.errors import PreconditionError, require_known, values_text
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.pipeline import lowered_once
from loopkit.poly.limits import bounded
from loopkit.show.document import Picture
from loopkit.show.drawing import FRAME, KINDS, LINE, QUIET, box, label, moved, quiet_lines, svg, widest
from loopkit.show.launches import Coordinates, LaunchAt, chosen_launch, launch_at, place_text
from loopkit.show.plot import Plot
from loopkit.show.warp_access import (
    BANK_BYTES,
    BANKS,
    LINE_BYTES,
    SECTOR_BYTES,
    WarpAccess,
    accesses_at,
    chosen_access,
)
from loopkit.show.words import counted, ranges_text

#: The most accesses of one statement in a picture, rows of a drawing, and lines of words about one access.
_MOST_ACCESSES, _MOST_ACCESS_ROWS, _MOST_ACCESS_LINES = 4, 32, 6

#: The most warps of a block among which one is chosen.
_MOST_WARPS_TRIED = 8

#: Sizes by default: large, as of real arrays.
_USUAL_ACCESS_SIZES = (1024,)

#: The pixels of a line of global memory or of all banks, and the height of a row.
_ROW_WIDTH, _ROW_HEIGHT = 768, 18


@checked
def access_picture(knl: LoopKernel, *, statement: str | None = None, array: str | None = None,
                   parameters: Mapping[str, int] | None = None, block: Sequence[int] | None = None,
                   warp: int | None = None, fixed: Mapping[str, int] | None = None) -> Plot:
    """The addresses of one access in a warp; see :meth:`loopkit.LoopKernel.plot`."""
    with bounded(f"drawing kernel '{knl.name}'"):
        lowered = lowered_once(knl)
        name, accessed = chosen_access(lowered, statement, array)
        launch = next(f.name for x, f in zip(lowered.launches, lowered.program.functions, strict=True)
                      if name in x.statements)
        at = launch_at(lowered, *chosen_launch(lowered, launch, "a picture of a warp"), parameters or {},
                       _USUAL_ACCESS_SIZES)
        inames = lowered.kernel.statement_by_id[name].inames
        require_known("iname", fixed or {}, inames, where=f"the statement '{name}'")
        place, number, found = max(
            ((place, number, accesses_at(at, name, accessed, place, number, fixed or {}))
             for place, number in _warps_to_try(at, block, warp)),
            key=lambda x: max((len(access.elements) for access in x[2]), default=0))      # the first of the best
        if not found:
            raise _not_run(at, name, fixed or {}, block, warp)
        shown = found[:_MOST_ACCESSES]
        parts = [tuple(_access_lines(access)) for access in shown]
        notes = _access_notes(shown, len(found))
        words = "\n".join([*(line for lines in parts for line in lines), *notes])
        drawing = _accesses_drawing(shown, [lines[:2] for lines in parts], notes, words)
        title = f"{accessed} in {name}: warp {number} of block {place_text(place, at.grid)}{at.where}"
        return Plot(title, Picture(drawing, words))


def _warps_to_try(at: LaunchAt, block: Sequence[int] | None, warp: int | None) -> Iterator[tuple[Coordinates, int]]:
    """The places of warps, as given, or of the first block and of one that is not at its borders."""
    if warp is not None and not 0 <= warp < at.warps:
        raise PreconditionError(f"A block of launch '{at.function.name}' has no warp {warp}.", subject="warp",
                                hint=f"warp= is from 0 to {at.warps - 1}")
    x, y, z = at.grid
    inner = min(1, x - 1), min(1, y - 1), min(1, z - 1)
    blocks = dict.fromkeys(((0, 0, 0), inner)) if block is None else [at.require_block(block)]
    warps = range(min(at.warps, _MOST_WARPS_TRIED)) if warp is None else (warp,)
    yield from ((place, number) for place in blocks for number in warps)


def _not_run(at: LaunchAt, statement: str, fixed: Mapping[str, int], block: Sequence[int] | None, warp: int | None
             ) -> PreconditionError:
    where = " and ".join([*([f"warp {warp}"] if warp is not None else []),
                          *([f"block {tuple(block)}"] if block is not None else [])])
    return PreconditionError(
        f"No thread{f' of {where}' if where else ' of the blocks tried'} runs '{statement}'"
        f"{values_text(fixed, ' with {}')}{values_text(at.known, ' at {}')}.", subject=statement,
        hint="choose another block=, warp= or fixed=, or pass larger sizes (parameters=)")


def _access_notes(shown: Sequence[WarpAccess], number: int) -> list[str]:
    notes = []
    if number > len(shown):
        notes.append(f"not drawn: {number - len(shown)} more accesses of the array")
    if any(access.is_assumed for access in shown):
        notes.append("a condition or a bound depends on data and is taken to hold: not all of these threads may run it")
    return notes


# In words

def _access_lines(access: WarpAccess) -> Iterator[str]:
    memory = access.memory
    verb, kind = "writes" if access.is_write else "reads", "shared" if memory.is_shared else "global"
    where = values_text(access.loops, ", at {}")
    yield (f"{access.statement} {verb} {to_text(access.element)} in {kind} memory{where}: "
           f"{counted(len(access.elements), 'thread')}, {counted(_bytes_each(access), 'byte')} each")
    if memory.is_shared:
        yield _conflict_text(access)
        yield from _bank_lines(access)
    else:
        yield _efficiency_text(access)
        yield from _memory_lines(access)


def _bytes_each(access: WarpAccess) -> int:
    return max(len(own) for own in access.elements.values())*access.memory.itemsize


def _efficiency_text(access: WarpAccess) -> str:
    lines, sectors, used = len(access.units(LINE_BYTES)), len(access.units(SECTOR_BYTES)), access.bytes_used
    moved_bytes = sectors*SECTOR_BYTES
    return (f"{counted(lines, 'line')} of {LINE_BYTES} bytes, {counted(sectors, 'sector')} of {SECTOR_BYTES} bytes: "
            f"{used} of {moved_bytes} bytes are used, {100*used/moved_bytes:.3g} %")


def _conflict_text(access: WarpAccess) -> str:
    least = len(access.phases)
    passes = counted(access.passes, "pass")
    if access.worst_conflict == 1:
        return f"no bank conflict: {passes}{f' of {access.together} threads each' if least > 1 else ''}"
    return f"{access.worst_conflict}-way bank conflict: {passes}, without conflicts {least}"


def _memory_lines(access: WarpAccess) -> Iterator[str]:
    """Each line of global memory with its elements and threads."""
    units = access.units(LINE_BYTES)
    for number, addresses in list(units.items())[:_MOST_ACCESS_LINES]:
        yield f"  line at byte {number*LINE_BYTES}: {_elements_text(access, addresses)}"
    if len(units) > _MOST_ACCESS_LINES:
        yield f"  and {len(units) - _MOST_ACCESS_LINES} more lines"


def _bank_lines(access: WarpAccess) -> Iterator[str]:
    """The banks by the number of words accessed in them, and the elements of the worst ones."""
    words: dict[int, list[int]] = {}
    for number, addresses in access.units(BANK_BYTES).items():
        words.setdefault(number % BANKS, []).extend(addresses)
    by_count: dict[int, list[int]] = {}
    for bank, own in words.items():
        by_count.setdefault(len(own), []).append(bank)
    for most, banks in sorted(by_count.items(), reverse=True)[:_MOST_ACCESS_LINES]:
        each = "" if len(banks) == 1 else f" each, in bank {banks[0]}"
        yield (f"  {'bank' if len(banks) == 1 else 'banks'} {ranges_text(banks)}: {counted(most, 'element')}{each}: "
               f"{_elements_text(access, words[banks[0]])}")


def _elements_text(access: WarpAccess, addresses: Sequence[int]) -> str:
    """``x[0] ... x[7] by threads 0-7``."""
    first, last = access.name_at(addresses[0]), access.name_at(addresses[-1])
    lanes = sorted({lane for address in addresses for lane in access.lanes_at[address]})
    return (f"{first}{f' ... {last}' if first != last else ''} by thread{'' if len(lanes) == 1 else 's'} "
            f"{ranges_text(lanes)}")


# The drawing

def _accesses_drawing(shown: Sequence[WarpAccess], titles: Sequence[Sequence[str]], notes: Sequence[str], words: str
                      ) -> str:
    """The accesses under each other, each under its title; a number in a cell is a thread of the warp."""
    parts, y, right = [], 0.0, 0.0
    for access, lines in zip(shown, titles, strict=True):
        parts += [label(4, y + (i + .5)*LINE, line, bold=i == 1) for i, line in enumerate(lines)]
        rows, width, height = _bank_rows(access) if access.memory.is_shared else _line_rows(access)
        parts.append(moved(4, y + len(lines)*LINE + 4, rows))
        right = max(right, width, widest(lines))
        y += len(lines)*LINE + height + 16
    notes = ["number: thread of the warp; +: and others", *notes]
    parts += quiet_lines(y, notes)
    return svg(max(right, widest(notes)) + 12, y + len(notes)*LINE + 4, parts, words)


#: Parts of a drawing, with its width and its height.
_Drawn = tuple[list[str], float, float]


def _line_rows(access: WarpAccess) -> _Drawn:
    """A row for each line of global memory, with a frame for each sector."""
    units = list(access.units(LINE_BYTES).items())
    names = [f"byte {number*LINE_BYTES}" for number, _ in units[:_MOST_ACCESS_ROWS]]
    left, wide = widest(names) + 12, _ROW_WIDTH*access.memory.itemsize/LINE_BYTES
    touched = access.units(SECTOR_BYTES)
    parts = []
    for row, (number, addresses) in enumerate(units[:_MOST_ACCESS_ROWS]):
        y = row*_ROW_HEIGHT
        parts.append(label(left - 8, y + _ROW_HEIGHT/2, names[row], colour=QUIET, anchor="end", size=11))
        for sector in range(LINE_BYTES//SECTOR_BYTES):
            is_touched = number*LINE_BYTES//SECTOR_BYTES + sector in touched
            size = _ROW_WIDTH*SECTOR_BYTES/LINE_BYTES
            parts.append(box(left + sector*size + 1, y + 1, size - 2, _ROW_HEIGHT - 2, fill=KINDS[1],
                             opacity=.3 if is_touched else 0, stroke=FRAME))
        for address in addresses:
            parts += _lane_cell(access, address, left + _ROW_WIDTH*(address % LINE_BYTES)/LINE_BYTES, y, wide, KINDS[0])
    return _cut_rows(parts, left, len(units))


def _bank_rows(access: WarpAccess) -> _Drawn:
    """A column for each bank, and a row for each row of words in all banks that has one of the access."""
    units = list(access.units(BANK_BYTES).items())
    rows = sorted({number//BANKS for number, _ in units})
    place = {row: i for i, row in enumerate(rows[:_MOST_ACCESS_ROWS])}
    crowded = {bank for words in access.phases for bank, own in words.items() if len(own) > 1}
    names = [f"byte {row*BANKS*BANK_BYTES}" for row in place]
    left, wide = widest((*names, "bank")) + 12, _ROW_WIDTH/BANKS
    parts = [label(left - 8, _ROW_HEIGHT/2, "bank", colour=QUIET, anchor="end", size=11)]
    parts += [label(left + (bank + .5)*wide, _ROW_HEIGHT/2, str(bank), colour=QUIET, anchor="middle", size=10)
              for bank in range(BANKS)]
    for i, name in enumerate(names, 1):
        parts.append(label(left - 8, (i + .5)*_ROW_HEIGHT, name, colour=QUIET, anchor="end", size=11))
        parts.append(box(left, i*_ROW_HEIGHT, _ROW_WIDTH, _ROW_HEIGHT, stroke=FRAME))
    for number, addresses in units:
        bank, row = number % BANKS, number//BANKS
        if row in place:
            parts += _lane_cell(access, addresses[0], left + bank*wide, (place[row] + 1)*_ROW_HEIGHT, wide,
                                KINDS[5] if bank in crowded else KINDS[0], others=len(addresses) > 1)
    drawn, width, height = _cut_rows(parts, left, len(rows))
    return drawn, width, height + _ROW_HEIGHT


def _lane_cell(access: WarpAccess, address: int, x: float, y: float, wide: float, colour: str, *, others: bool = False
               ) -> Iterator[str]:
    """A cell that the access touches, with the number of its first thread."""
    lanes = access.lanes_at[address]
    text = f"{lanes[0]}{'+' if others or len(lanes) > 1 else ''}"
    yield box(x + 1, y + 1, wide - 2, _ROW_HEIGHT - 2, fill=colour, opacity=.5)
    if len(text)*5.6 <= wide:
        yield label(x + wide/2, y + _ROW_HEIGHT/2, text, anchor="middle", size=9)


def _cut_rows(parts: list[str], left: float, number: int) -> _Drawn:
    """*parts* with a note about the rows beyond the limit of *number* rows."""
    hidden, height = number - _MOST_ACCESS_ROWS, min(number, _MOST_ACCESS_ROWS)*_ROW_HEIGHT
    if hidden > 0:
        parts.append(label(left, height + _ROW_HEIGHT*1.5, f"not drawn: {hidden} more rows", colour=QUIET))
        height += _ROW_HEIGHT
    return parts, left + _ROW_WIDTH, height
