"""loopy's targets: each names the target of loopkit that generates its text, and the executor that runs it."""
from loopkit.compat.loopy.target.base import ASTBuilderBase, TargetBase
