"""Declarations of arrays in the C family."""
from __future__ import annotations

from loopkit.ast.nodes import Array
from loopkit.target.c.dialect import Dialect


def array_declaration(array: Array, dialect: Dialect, lead: str = "") -> str:
    """``float acc[4][4]``."""
    return f"{dialect.type_name(array.dtype)} {array.name}{lead}{extents_text(array)}"


def note_of(array: Array) -> str:
    """A comment about *array* for readers, behind its declaration."""
    return f"  // {array.note}" if array.note else ""


def extents_text(array: Array) -> str:
    """``[4][4]``."""
    return "".join(f"[{extent}]" for extent in array.shape)
