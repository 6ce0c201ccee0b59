"""Parts of sentences in documents and pictures: counted things, ranges of numbers, lists of names."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby


def counted(number: int, noun: str, count: str = "") -> str:
    """The *number* of things, as *count* if that is given.

    >>> counted(1, "launch"), counted(2, "launch"), counted(8, "block", "4 x 2")
    ('1 launch', '2 launches', '4 x 2 blocks')
    """
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{count or number} {noun if number == 1 else plural}"


def ranges_text(values: Iterable[int]) -> str:
    """The *values* in ascending order, runs of neighbours by their ends.

    >>> ranges_text([8, 0, 1, 2, 3])
    '0-3, 8'
    """
    # in a run of neighbours the distance from the position is one number
    runs = [[x for _, x in run] for _, run in groupby(enumerate(sorted({*values})), lambda at: at[1] - at[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)


def name_list_text(names: Iterable[str]) -> str:
    """The *names* as a part of a sentence.

    >>> name_list_text(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
