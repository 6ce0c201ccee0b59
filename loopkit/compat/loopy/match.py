"""loopy's match objects: here they are match expressions as texts, which loopkit's ``within=`` takes."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pytools.tag import Tag

from loopkit.language.names import name_list


def as_within(match: Any) -> str | Tag | None:
    """loopkit's match expression for *match*, a text or a result of this module; ``None`` selects everything."""
    if isinstance(match, Tag):
        return match
    text = None if match is None else str(match).strip()
    return text or None


def ordered_names(names: Any) -> tuple[str, ...]:
    """*names* of a text, a sequence, or a set, which gets the order of the alphabet."""
    if isinstance(names, str):
        return name_list(names)
    return tuple(sorted(names)) if isinstance(names, set | frozenset) else tuple(names)


def parse_match(expr: Any) -> str:
    """The match expression *expr*."""
    return "*" if expr is None else str(expr)


parse_stack_match = parse_match


def Id(name: str) -> str:  # noqa: N802 (loopy's name)
    """The statement with the id *name*."""
    return f"id:{name}"


def Writes(name: str) -> str:  # noqa: N802
    """The statements that write *name*."""
    return f"writes:{name}"


def Reads(name: str) -> str:  # noqa: N802
    """The statements that read *name*."""
    return f"reads:{name}"


def InKernel(name: str) -> str:  # noqa: N802
    """All statements of the kernel *name*."""
    return f"in_kernel:{name}"


def Iname(name: str) -> str:  # noqa: N802
    """The statements in a loop over *name*."""
    return f"iname:{name}"


def Tagged(tag: Any) -> str:  # noqa: N802
    """The statements with *tag*."""
    return f"tag:{tag}"


def ObjTagged(obj: Tag) -> Tag:  # noqa: N802
    """The statements with the user tag *obj*."""
    return obj


def And(children: Collection[str]) -> str:  # noqa: N802
    """The statements that all of *children* select."""
    return " and ".join(f"({c})" for c in children)


def Or(children: Collection[str]) -> str:  # noqa: N802
    """The statements that one of *children* selects."""
    return " or ".join(f"({c})" for c in children)


def Not(child: str) -> str:  # noqa: N802
    """The statements that *child* does not select."""
    return f"not ({child})"


def All() -> str:  # noqa: N802
    """All statements."""
    return "*"
