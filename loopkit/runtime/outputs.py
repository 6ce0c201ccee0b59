"""The result of a kernel call: a tuple with names."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Self


class Outputs(tuple[Any, ...]):
    """The written arguments of a call, in argument order, by position, by name and as attributes.

    >>> out = Outputs(("x", "y"), (1, 2))
    >>> x, y = out
    >>> out.x, out["y"], out[0]
    (1, 2, 1)
    >>> out
    Outputs(x=1, y=2)
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, fields: Iterable[str], values: Iterable[Any]) -> Self:
        return tuple.__new__(_named(tuple(fields)), values)      # type: ignore[return-value]

    @staticmethod
    def maker(fields: tuple[str, ...]) -> Callable[[Iterable[Any]], Outputs]:
        """The constructor for given *fields*, for callers where a fraction of a microsecond matters."""
        return partial(tuple.__new__, _named(fields))

    def __getattr__(self, name: str) -> Any:
        # for a tuple's own names ("count", "index") use outputs["count"]
        if name in self._fields:
            return self[name]
        raise AttributeError(f"no output is called '{name}'; there is {', '.join(self._fields) or 'none'}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key not in self._fields:
            raise KeyError(f"no output is called '{key}'; there is {', '.join(self._fields) or 'none'}")
        return tuple.__getitem__(self, self._fields.index(key) if isinstance(key, str) else key)

    def asdict(self) -> Mapping[str, Any]:
        """The outputs by name."""
        return dict(zip(self._fields, self, strict=True))

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return f"Outputs({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self, strict=True))})"

    def __reduce__(self) -> tuple[type[Outputs], tuple[tuple[str, ...], tuple[Any, ...]]]:
        return Outputs, (self._fields, tuple(self))


@lru_cache(maxsize=1024)
def _named(fields: tuple[str, ...]) -> type[Outputs]:
    """The type of outputs with these names: the class holds the names, so a call only makes a tuple."""
    return type("Outputs", (Outputs,), {"__slots__": (), "_fields": fields})
