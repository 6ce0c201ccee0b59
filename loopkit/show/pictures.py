"""The pictures that a kernel offers, by name."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from loopkit.errors import require_known
from loopkit.kernel.kernel import LoopKernel
from loopkit.show.access import access_picture
from loopkit.show.dependence_graph import dependences_picture
from loopkit.show.domains import domain_picture
from loopkit.show.grid import grid_picture
from loopkit.show.loops import loops_picture
from loopkit.show.plot import Plot

PICTURES: Mapping[str, Callable[..., Plot]] = {"domain": domain_picture, "loops": loops_picture,
                                                "dependences": dependences_picture, "grid": grid_picture,
                                                "access": access_picture}


def plot(knl: LoopKernel, what: str, **options: Any) -> Plot:
    """The picture *what* of *knl*; see :meth:`loopkit.LoopKernel.plot`."""
    require_known("picture", [what], PICTURES)
    known = [*inspect.signature(PICTURES[what]).parameters][1:]
    require_known("option", options, known, where=f"the picture '{what}'")
    return PICTURES[what](knl, **options)
