"""Options of a kernel: choices of code generation that do not change its meaning."""
from __future__ import annotations

from dataclasses import dataclass

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import require_kinds

#: The extents of the checks before code generation.
VERIFY = ("off", "on", "full")


@dataclass(frozen=True)
class Options:
    """Choices of code generation, set by :func:`loopkit.set_options`.

    :ivar full_tiles: emit a version without guards for full tiles beside the generic one.
    :ivar annotate: emit comments with statement ids, the combination of partial reduction results between threads, and
        the dependence that each barrier serves.
    :ivar textual_unroll: write ``unr`` loops out instead of ``#pragma unroll``.
    :ivar min_blocks: the number of blocks that fit on a multiprocessor at once; the CUDA compiler limits the registers
        of a thread accordingly (``__launch_bounds__``). 0 sets no limit; ``"max"`` is the number that the target's
        threads, blocks and shared memory allow.
    :ivar verify: the extent of the checks before code generation, as in :func:`loopkit.verify`: ``"off"``, ``"on"`` or
        ``"full"``.
    """

    full_tiles: bool = True
    annotate: bool = True
    textual_unroll: bool = False
    min_blocks: int | str = 0
    verify: str = "on"

    def __post_init__(self) -> None:
        """:raises PreconditionError: a value of another kind, or one that the option cannot have."""
        require_kinds(Options, (), vars(self))
        if self.min_blocks != "max" if isinstance(self.min_blocks, str) else self.min_blocks < 0:
            raise PreconditionError(f"The option 'min_blocks' cannot be {self.min_blocks!r}.", subject="min_blocks",
                                    hint="give the number of blocks that shall fit, 'max', or 0 for no limit")
        if self.verify not in VERIFY:
            raise PreconditionError(f"The option 'verify' cannot be {self.verify!r}.", subject="verify",
                                    hint=f"it is one of {', '.join(VERIFY)}")


def extent_of_checks(verify: object) -> str:
    """The extent of checks, one of :data:`VERIFY` or a truth value; :raises PreconditionError: it is none of them."""
    if isinstance(verify, bool):
        return "on" if verify else "off"
    if isinstance(verify, str) and verify in VERIFY:
        return verify
    raise PreconditionError(f"verify={verify!r} is no extent of checks.", subject="verify",
                            hint=f"give True, False, or one of {', '.join(VERIFY)}")
