"""Tables of lazily imported values, by which a lower layer names objects of a higher one without importing it."""
from __future__ import annotations

import pkgutil
from collections import ChainMap
from collections.abc import Mapping
from typing import TypeVar, cast

V = TypeVar("V")


class LazyTable(ChainMap[str, V]):
    """Values by name.

    :ivar addresses: ``module:name`` of values, by their names in the table. The first look-up imports the module.

    >>> table = LazyTable()
    >>> table.addresses["root"] = "math:sqrt"
    >>> table["root"](9.0)
    3.0
    """

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self.addresses = dict(addresses or {})
        super().__init__({}, cast("dict[str, V]", self.addresses))

    def __getitem__(self, name: str) -> V:
        values = self.maps[0]
        if name not in values:
            values[name] = cast("V", pkgutil.resolve_name(self.addresses[name]))
        return values[name]
