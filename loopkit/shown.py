"""Objects that show themselves: as text, in a notebook and in colours, all from one document of :mod:`loopkit.show`."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

from loopkit.lazy import LazyTable

#: Functions of higher layers that an object of a lower layer offers (showing itself, replaying, calling).
#: ``loopkit/__init__.py`` fills in their addresses.
ENTRY_POINTS = LazyTable[Callable[..., Any]]()


class Shown:
    """An object with a document: ``print`` writes it as text, a notebook as HTML, and rich's console in colours."""

    __slots__ = ()

    @property
    def headline(self) -> str:
        """The object in a few words, for its ``repr``: the first line of its text."""
        return str(self).partition("\n")[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.headline}>"

    def __str__(self) -> str:
        return str(ENTRY_POINTS["text"](self))

    def _repr_html_(self) -> str:
        return str(ENTRY_POINTS["html"](self))

    def __rich__(self) -> Any:
        return ENTRY_POINTS["rich"](self)


class Declared(Shown):
    """A dataclass that users write down: its ``repr`` is the call that makes it, without fields left at their default.

    >>> lk.ValueArg("n"), lk.Options(min_blocks=2)
    (ValueArg(name='n'), Options(min_blocks=2))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline})"

    def __str__(self) -> str:
        return repr(self)

    @property
    def headline(self) -> str:
        """The arguments of the call."""
        own: tuple[Field[Any], ...] = fields(self)  # type: ignore[arg-type]  # a dataclass
        return ", ".join(f"{f.name}={_argument(getattr(self, f.name))}" for f in own
                         if f.init and f.repr and getattr(self, f.name) != _default(f))


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _argument(value: object) -> str:
    """*value* as an argument: names and texts in quotes, expressions as they are printed."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_argument, value))}{',' if len(value) == 1 else ''})"
    return repr(value) if isinstance(value, str | bool | int | float | None) else str(value)
