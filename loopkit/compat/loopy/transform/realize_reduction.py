"""The place of realize_reduction in loopy."""
from __future__ import annotations

from loopkit.compat.loopy.transform.reduction import realize_reduction

__all__ = ["realize_reduction"]
