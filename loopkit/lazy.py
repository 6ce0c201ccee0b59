"""Tables of lazily imported values, by which a lower layer names objects of a higher one without importing it."""
from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Generic, TypeVar, cast

V = TypeVar("V")


class LazyTable(MutableMapping[str, V], Generic[V]):
    """Values by name.

    :ivar addresses: ``module:name`` of values, by their names in the table. The first look-up imports the module.

    >>> table = LazyTable()
    >>> table.addresses["root"] = "math:sqrt"
    >>> table["root"](9.0)
    3.0
    """

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self.addresses = dict(addresses or {})
        self._values: dict[str, V] = {}

    def __getitem__(self, name: str) -> V:
        if name not in self._values:
            self._values[name] = cast("V", pkgutil.resolve_name(self.addresses[name]))
        return self._values[name]

    def __setitem__(self, name: str, value: V) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.addresses, **self._values})

    def __len__(self) -> int:
        return len({**self.addresses, **self._values})

    def __contains__(self, name: object) -> bool:
        return name in self.addresses or name in self._values
