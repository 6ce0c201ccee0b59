"""A picture as an object: a notebook shows it, ``print`` writes its content in words."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loopkit.show.document import Picture
from loopkit.show.drawing import write_svg
from loopkit.shown import Shown


@dataclass(frozen=True, repr=False)
class Plot(Shown):
    """A picture of a kernel or an error.

    :ivar title: its subject.
    :ivar picture: the drawing, and its content in words.
    """

    title: str
    picture: Picture

    @property
    def headline(self) -> str:
        return self.title

    @property
    def svg(self) -> str:
        """The drawing as a whole ``<svg>`` element."""
        return self.picture.svg

    def save(self, path: str | Path) -> None:
        """Write the drawing to the file *path*, for light and for dark surroundings.

        :raises OSError: the file cannot be written.
        """
        write_svg(self.svg, self.title, path)
