"""Targets with a text, as :func:`loopkit.generate_code` needs them, and from a loop program to text."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from loopkit.ast.magnitudes import magnitude_bounds
from loopkit.errors import NameConflictError, PreconditionError
from loopkit.kernel.target import Target, resolve_target
from loopkit.lowering.lowered import Lowered
from loopkit.target.code import GeneratedCode, Layout

#: Least number that needs 64-bit indices.
_LIMIT_32 = 2**31


class TextTarget(Target, ABC):
    """A target with an emitter; :data:`loopkit.runtime.calls.RUNNERS` compiles and runs its texts.

    :cvar reserved: names that its texts use themselves, besides those that no kernel can have
        (:mod:`loopkit.language.names`).
    """

    reserved: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        """The source text of a lowered kernel, for arrays of *layout*.

        :arg head: lines for comments at the top, if the language's texts have such comments.
        :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
        """


def require_fields(target: TextTarget, right: Mapping[str, tuple[bool, str]]) -> None:
    """:raises PreconditionError: a field of *target* is not right; with its hint."""
    for name, (is_right, hint) in right.items():
        if not is_right:
            raise PreconditionError(f"'{name}' of a {type(target).__name__} cannot be {getattr(target, name)!r}.",
                                    subject=name, hint=hint)


def is_options(options: object) -> bool:
    """Is *options* a tuple of strings?"""
    return isinstance(options, tuple) and all(isinstance(option, str) for option in options)


def resolve_text_target(target: object) -> TextTarget:
    """Like :func:`loopkit.kernel.target.resolve_target`; :raises PreconditionError: the target has no text."""
    found = resolve_target(target)
    if not isinstance(found, TextTarget):
        raise PreconditionError(f"The target '{found.name}' has no text.", subject=found.name,
                                hint="a target with a text is a TextTarget")
    return found


def write_code(lowered: Lowered, target: TextTarget, layout: Layout, head: Sequence[str] = ()) -> GeneratedCode:
    """The source text of a lowered kernel; with 64-bit indices if 32 bits cannot be right.

    :raises PreconditionError: stages of lowering are missing.
    :raises NameConflictError: a name of the kernel is reserved in the target's texts.
    """
    lowered.require_finished()
    if taken := sorted(target.reserved & {lowered.kernel.name, *lowered.kernel.all_names}):
        raise NameConflictError(f"'{taken[0]}' is a reserved word of the target '{target.name}'.", subject=taken[0],
                                hint="give it another name")
    if any(b.size_limit(_LIMIT_32) == 0 for b in magnitude_bounds(lowered.program, lowered.kernel.value_params)):
        layout = replace(layout, index_bits=64)
    return target.emit(lowered, layout, head)
