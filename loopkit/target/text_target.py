"""Targets with a text, as :func:`loopkit.generate_code` needs them."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from loopkit.errors import PreconditionError
from loopkit.kernel.target import Target, resolve_target
from loopkit.lowering.lowered import Lowered
from loopkit.target.c.dialect import Dialect
from loopkit.target.code import GeneratedCode, Layout


class TextTarget(Target, ABC):
    """A target with an emitter; :data:`loopkit.runtime.calls.RUNNERS` compiles and runs its texts.

    :cvar reserved: names that its texts use themselves, besides those that no kernel can have
        (:mod:`loopkit.language.names`).
    """

    reserved: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The language that expressions are printed in."""

    @abstractmethod
    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        """The source text of a lowered kernel, for arrays of *layout*.

        :arg head: lines for comments at the top, if the language's texts have such comments.
        :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
        """


def resolve_text_target(target: object) -> TextTarget:
    """Like :func:`loopkit.kernel.target.resolve_target`; :raises PreconditionError: the target has no text."""
    found = resolve_target(target)
    if not isinstance(found, TextTarget):
        raise PreconditionError(f"The target '{found.name}' has no text.", subject=found.name,
                                hint="a target with a text is a TextTarget")
    return found
