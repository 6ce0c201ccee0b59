"""Tables of lazily imported values, by which a lower layer names objects of a higher one without importing it."""
from __future__ import annotations

import ast
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


def checked_imports(package: str) -> dict[str, str]:
    """The addresses of the names that the text of *package* imports ``if TYPE_CHECKING``."""
    guarded = (block for block in ast.parse(pkgutil.get_data(package, "__init__.py") or b"").body
               if isinstance(block, ast.If) and isinstance(block.test, ast.Name))
    return {name.name: f"{node.module}{'.' if node.module == package else ':'}{name.name}"
            for block in guarded for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
