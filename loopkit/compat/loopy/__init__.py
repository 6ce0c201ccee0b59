"""loopy's names, arguments and objects on top of loopkit: ``import loopkit.compat.loopy as lp``."""
from __future__ import annotations

from loopkit.compat.loopy.names import __all__ as __all__
from loopkit.compat.loopy.names import __dir__ as __dir__
from loopkit.compat.loopy.names import __getattr__ as __getattr__
