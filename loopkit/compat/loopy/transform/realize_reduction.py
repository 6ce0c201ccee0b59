"""The place of realize_reduction in loopy."""
from loopkit.compat.loopy.transform.reduction import realize_reduction

__all__ = ["realize_reduction"]
