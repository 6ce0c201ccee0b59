"""loopy's targets: each names the target of loopkit that generates its text, and the executor that runs it."""
from __future__ import annotations

from loopkit.compat.loopy.target.base import ASTBuilderBase as ASTBuilderBase
from loopkit.compat.loopy.target.base import TargetBase as TargetBase
