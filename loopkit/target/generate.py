"""From a loop program to text."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopkit.ast.magnitudes import magnitude_bounds
from loopkit.errors import NameConflictError
from loopkit.lowering.lowered import Lowered
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.text_target import TextTarget

#: Least number that needs 64-bit indices.
_LIMIT_32 = 2**31


def write_code(lowered: Lowered, target: TextTarget, layout: Layout, head: Sequence[str] = ()) -> GeneratedCode:
    """The source text of a lowered kernel; with 64-bit indices if 32 bits cannot be right.

    :arg head: lines for comments at the top, if the target's texts have such comments.
    :raises PreconditionError: stages of lowering are missing.
    :raises NameConflictError: a name of the kernel is reserved in the target's texts.
    :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
    """
    lowered.require_finished()
    if taken := sorted(target.reserved & {lowered.kernel.name, *lowered.kernel.all_names}):
        raise NameConflictError(f"'{taken[0]}' is a reserved word of the target '{target.name}'.", subject=taken[0],
                                hint="give it another name")
    if any(b.size_limit(_LIMIT_32) == 0 for b in magnitude_bounds(lowered.program, lowered.kernel.value_params)):
        layout = replace(layout, index_bits=64)
    return target.emit(lowered, layout, head)
