"""The base of loopy's arrays and temporaries."""
from __future__ import annotations

from loopkit.compat.loopy.kernel.data import ArrayBase as ArrayBase
