"""loopy's names, arguments and objects on top of loopkit: ``import loopkit.compat.loopy as lp``."""
from loopkit.compat.loopy.names import __all__, __dir__, __getattr__
