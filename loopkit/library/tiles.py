"""A table of tiles: the rows of one array in groups of any lengths, such as the sequences of a batch."""
from __future__ import annotations


def rows_of_tiles(iname: str, rows: int, groups: str) -> str:
    """The values of *iname*, a number of a tile of so many *rows* of *n*: each group has at most one partial tile."""
    return f"0<={iname} and {rows}*({iname} + 1) <= n + {rows - 1}*{groups}"


def table_of_tiles(rows: int, groups: str, start: str, stop: str, own: str) -> tuple[str, str]:
    """The domain and the statements of a launch for the table: for each tile the value *own* of its group, its first
    row, and the first row behind its group. Tiles behind the last one have no rows: all three are 0.

    :arg groups: the number of groups.
    :arg start: the first row of group ``x``; *stop*: the first one behind it.
    :arg own: in terms of ``x`` and of ``group_start``.
    """
    return f"{{[z, x]: {rows_of_tiles('z', rows, groups)} and 0<=x<{groups}}}", f"""
for z
    <> tiles_before = 0
    <> own_of_tile = 0
    <> first_of_tile = 0
    <> stop_of_tile = 0
    for x
        <> group_start = {start}
        <> group_stop = {stop}
        <> tiles = (group_stop - group_start + {rows - 1}) // {rows}
        <> is_here = tiles_before <= z and z < tiles_before + tiles
        own_of_tile = if(is_here, {own}, own_of_tile)
        first_of_tile = if(is_here, group_start + {rows}*(z - tiles_before), first_of_tile)
        stop_of_tile = if(is_here, group_stop, stop_of_tile)
        tiles_before = tiles_before + tiles
    end
    <> tile_own[z] = own_of_tile
    <> tile_first[z] = first_of_tile
    <> tile_stop[z] = stop_of_tile
end
"""
