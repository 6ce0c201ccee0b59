"""loopy's targets for the host."""
from __future__ import annotations

from loopkit.compat.loopy.target.c.target import (
    CFamilyTarget as CFamilyTarget,
)
from loopkit.compat.loopy.target.c.target import (
    CTarget as CTarget,
)
from loopkit.compat.loopy.target.c.target import (
    CWithGNULibcTarget as CWithGNULibcTarget,
)
from loopkit.compat.loopy.target.c.target import (
    ExecutableCTarget as ExecutableCTarget,
)
from loopkit.compat.loopy.target.c.target import (
    ExecutableCWithGNULibcTarget as ExecutableCWithGNULibcTarget,
)
from loopkit.compat.loopy.target.c.target import (
    generate_header as generate_header,
)
