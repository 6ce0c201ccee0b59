"""loopy's language versions, which programs pass or import; loopkit has one language."""
from __future__ import annotations

from loopkit.runtime.compiler import loopkit_version

VERSION = (2025, 2)
VERSION_TEXT = "2025.2"
#: A key of programs that keep kernels on disk.
DATA_MODEL_VERSION = f"loopkit-{loopkit_version()}"

MOST_RECENT_LANGUAGE_VERSION = (2018, 2)
FALLBACK_LANGUAGE_VERSION = MOST_RECENT_LANGUAGE_VERSION
LOOPY_USE_LANGUAGE_VERSION_2018_2 = MOST_RECENT_LANGUAGE_VERSION
LANGUAGE_VERSION_SYMBOLS = ["LOOPY_USE_LANGUAGE_VERSION_2018_2"]
