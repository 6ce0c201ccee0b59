"""Tables of lazily imported values, by which a lower layer names objects of a higher one without importing it."""
from __future__ import annotations

import dis
import pkgutil
from collections import ChainMap
from collections.abc import Collection, Mapping
from types import CodeType
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


def imports_not_run(package: str, code: CodeType, names: Collection[str]) -> dict[str, str]:
    """The addresses of the names that *code* of *package* imports from it, without the known *names*.

    The compiled code has the imports under ``if TYPE_CHECKING`` too.

    >>> imports_not_run("", compile("if later: from math import sin, sqrt", "", "exec"), {"sin"})
    {'sqrt': 'math:sqrt'}
    """
    found, module = {}, ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = step.argval
        elif step.opname == "IMPORT_FROM" and step.argval not in names and module.startswith(package):
            found[step.argval] = f"{module}{'.' if module == package else ':'}{step.argval}"
    return found
