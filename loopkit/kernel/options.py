"""Options of a kernel: choices of code generation that do not change its meaning."""
from __future__ import annotations

from dataclasses import dataclass

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import require_kinds

#: How much may be checked before code is generated.
VERIFY = ("off", "on", "full")


@dataclass(frozen=True)
class Options:
    """Choices of code generation; see :func:`loopkit.set_options`.

    :ivar full_tiles: emit a version without guards beside the generic one where whole tiles exist.
    :ivar annotate: put statement ids, how the threads' parts of reductions are combined, and the dependence that each
        barrier serves into comments.
    :ivar textual_unroll: write ``unr`` loops out instead of ``#pragma unroll``.
    :ivar min_blocks: how many blocks fit on a multiprocessor at once; the CUDA compiler limits the registers of a
        thread accordingly (``__launch_bounds__``). 0 sets no limit; ``"max"`` is the number that the target's threads,
        blocks and shared memory allow.
    :ivar verify: how much is checked before there is a text (see :func:`loopkit.verify`): ``"off"``, ``"on"`` or
        ``"full"``.
    """

    full_tiles: bool = True
    annotate: bool = True
    textual_unroll: bool = False
    min_blocks: int | str = 0
    verify: str = "on"

    def __post_init__(self) -> None:
        """:raises PreconditionError: a value of another kind, an impossible number of blocks, or an unknown extent of
        checks.
        """
        require_kinds(Options, (), vars(self))
        if self.min_blocks != "max" if isinstance(self.min_blocks, str) else self.min_blocks < 0:
            raise PreconditionError(f"The option 'min_blocks' cannot be {self.min_blocks!r}.", subject="min_blocks",
                                    hint="give the number of blocks that shall fit, 'max', or 0 for no limit")
        if self.verify not in VERIFY:
            raise PreconditionError(f"The option 'verify' cannot be {self.verify!r}.", subject="verify",
                                    hint=f"it is one of {', '.join(VERIFY)}")


def extent_of_checks(verify: object) -> str:
    """How much the argument ``verify=`` asks for: one of :data:`VERIFY`, which ``True`` and ``False`` stand for too.

    :raises PreconditionError: it is none of them.
    """
    match verify:
        case True:
            return "on"
        case False:
            return "off"
        case str() if verify in VERIFY:
            return verify
        case _:
            raise PreconditionError(f"verify={verify!r} is no extent of checks.", subject="verify",
                                    hint=f"give True, False, or one of {', '.join(VERIFY)}")
