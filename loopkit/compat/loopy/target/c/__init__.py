"""loopy's targets for the host."""
from __future__ import annotations

from loopkit.compat.loopy.target.c.target import (
    CFamilyTarget,
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
    generate_header,
)

__all__ = ["CFamilyTarget", "CTarget", "CWithGNULibcTarget", "ExecutableCTarget", "ExecutableCWithGNULibcTarget",
           "generate_header"]
