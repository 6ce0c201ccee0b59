"""loopy's targets for the host."""
from loopkit.compat.loopy.target.c.target import (
    CFamilyTarget,
    CTarget,
    CWithGNULibcTarget,
    ExecutableCTarget,
    ExecutableCWithGNULibcTarget,
    generate_header,
)
