"""Python text that evaluates to a value, for a script with ``import numpy as np`` and ``import loopkit as lk``."""
from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pytools.tag import Tag

from loopkit.errors import PreconditionError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.kinds import DTYPE_NAMES, ML_DTYPES, dtype_of, is_of_ml_dtypes, spelled
from loopkit.expr.nodes import Reduction, TypeCast
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.c_instruction import CInstruction
from loopkit.kernel.data import (
    AddressSpace,
    ConstantArray,
    GlobalArg,
    Options,
    SubstitutionRule,
    TaggedData,
    TemporaryVariable,
    ValueArg,
)
from loopkit.kernel.instruction import Assignment, CallInstruction, InstructionBase, StatementPlace, SubArrayRef
from loopkit.kernel.tags import InameTag, in_order
from loopkit.poly.sets import InstanceSet, Set

#: Classes in ``lk.`` whose values an argument may hold.
Ours = (GlobalArg | ValueArg | TemporaryVariable | SubstitutionRule | ReductionOperation | ScalarFunction | CInstruction
        | Options | Assignment | CallInstruction | SubArrayRef | StatementPlace)


def literal(value: object) -> str:
    """Python text that evaluates to *value*; numbers, texts, dtypes and their lists have one, functions and files not.

    >>> print(literal({"x": np.dtype("float32"), "shape": (4, None)}))
    {'x': np.float32, 'shape': (4, None)}

    :raises PreconditionError: *value* has no such text.
    """
    match value:
        case None | bool() | range():
            return repr(value)
        case np.generic():
            if value.dtype.name not in DTYPE_NAMES or is_of_ml_dtypes(value.dtype):
                raise _no_value(value)
            return f"{_type(value.dtype)}({literal(value.item())})"
        case float():
            return repr(value) if math.isfinite(value) else f"float('{float(value)}')"
        case complex():
            # the repr of a complex number loses the sign of a zero
            return f"complex({literal(value.real)}, {literal(value.imag)})"
        case AddressSpace():
            return f"lk.AddressSpace.{value.name}"
        case InameTag():
            return repr(str(value))
        case Tag():
            return _tag(value)
        case type() if issubclass(value, Tag):
            return _class_text(value)
        case Enum():
            raise _no_value(value)
        case int():
            return repr(int(value))
        case str():
            return _text_literal(str(value))
        case ConstantArray():
            return f"np.array({literal(np.asarray(value).tolist())}, {_type(value.dtype)})"
        case np.dtype() | type():
            return _type(value)
        case _ if value is ...:
            return "..."
        case _ if isinstance(value, Ours):
            return _of_ours(value)
        case _ if (own := getattr(value, "history", None)) is not None:         # a kernel, of a module above this one
            return str(own.expression())
        case p.ExpressionNode():
            return _expression(value)
        case np.ufunc(__name__=str(name)) if getattr(np, name, None) is value:
            return f"np.{name}"
        case Set():
            return f"isl.Set({str(value)!r})"
        case InstanceSet():
            return repr(value.text)
        case Mapping() | list() | tuple():
            return _of_parts(value, literal)
        case set() | frozenset():
            items = "{" + ", ".join(sorted(map(literal, value))) + "}" if value else "()"
            return f"{type(value).__name__}({items})" if isinstance(value, frozenset) or not value else items
        case _:
            raise _no_value(value)


def shown(value: object) -> str:
    """*value* as in :func:`literal`, but short: instructions and domains as texts, tags without their modules.

    Other values without a text form are their classes in angle brackets.
    """
    match value:
        case Mapping() | list() | tuple():
            return _of_parts(value, shown)
        case Assignment() | CallInstruction() | InstanceSet():
            return repr(str(value))
        case Tag():
            return in_order((value,))[0]
        case TaggedData() if value.tags:
            return f"lk.{value!r}"
        case _:
            try:
                return literal(value)
            except PreconditionError:
                return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def _of_parts(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], text: Callable[[Any], str]) -> str:
    """A mapping, a list or a tuple from the *text* of its parts."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(k)}: {text(v)}" for k, v in value.items()) + "}"
    listed = ", ".join(map(text, value))
    return f"[{listed}]" if isinstance(value, list) else f"({listed}{',' if len(value) == 1 else ''})"


def call_text(function: str, *args: str, **kwargs: str) -> str:
    """``function(args, name=...)`` from arguments that are text already."""
    plain = [f"{k}={v}" for k, v in kwargs.items() if k.isidentifier() and not keyword.iskeyword(k)]
    other = ", ".join(f"{k!r}: {v}" for k, v in kwargs.items() if not k.isidentifier() or keyword.iskeyword(k))
    return f"{function}({', '.join([*args, *plain, *(['**{' + other + '}'] if other else [])])})"


def _no_value(value: object) -> PreconditionError:
    what = getattr(value, "__qualname__", type(value).__qualname__)
    return PreconditionError(f"{what!r} cannot be written as Python text.", subject=what,
                             hint="pass numbers, text, dtypes, and lists or mappings of them")


def _text_literal(value: str) -> str:
    """Lines of text as separate lines, if these make the same text."""
    if "\n" in value:
        written = f'"""{value}"""'
        plain = all(c.isprintable() or c == "\n" for c in value) and "\\" not in value and '"""' not in value
        if plain and not value.endswith('"') and ast.literal_eval(written) == value:
            return written
    return repr(value)


def _type(value: np.dtype | type) -> str:
    if isinstance(value, np.dtype):
        if dtype_of(value) is None:
            raise _no_value(value)
        return "np.bool_" if value.kind == "b" else spelled(value)
    if value in (bool, int, float, complex):
        return value.__name__
    if issubclass(value, np.generic) and value.__name__ in ML_DTYPES:
        return repr(value.__name__)
    if issubclass(value, np.generic) and getattr(np, value.__name__, None) is value:
        return "np.bool_" if value is np.bool_ else f"np.{value.__name__}"
    raise _no_value(value)


def _of_ours(value: Ours) -> str:
    """The call of its class, with the arguments that differ from their defaults."""
    args, kwargs = [], {}
    for f in fields(value):
        given = getattr(value, f.name)
        if f.default is MISSING and f.default_factory is MISSING:
            args.append(literal(given))
        elif (bool(given) if f.default is MISSING else given is not f.default) and (
                f.default is None or given != f.default):               # float64 equals None for numpy
            kwargs[f.name] = literal(given)
    return call_text(f"lk.{type(value).__name__}", *args, **kwargs)


def _tag(value: Tag) -> str:
    """The call of its class in its module."""
    return call_text(_class_text(type(value)), **{f.name: literal(getattr(value, f.name)) for f in fields(value)})


def _class_text(kind: type) -> str:
    """The class *kind* in its module."""
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise _no_value(kind)
    return f"{kind.__module__}.{kind.__qualname__}"


def modules_of_tags(value: object) -> Iterator[str]:
    """The modules of the user tags in an argument of a step."""
    match value:
        case Tag():
            yield type(value).__module__
        case type() if issubclass(value, Tag):
            yield value.__module__
        case Mapping():
            yield from (module for part in value.values() for module in modules_of_tags(part))
        case list() | tuple() | set() | frozenset():
            yield from (module for part in value for module in modules_of_tags(part))
        case TaggedData() | InstructionBase():
            yield from modules_of_tags(value.tags)
        case _:
            pass


def _expression(value: p.ExpressionNode) -> str:
    node = type(value)
    ours = node in (Reduction, TypeCast)
    if not ours and getattr(p, node.__name__, None) is not node:
        raise _no_value(value)
    parts = [getattr(value, f.name) for f in fields(value)]        # type: ignore[arg-type]
    own = ", ".join(repr(e.value) if isinstance(e, Enum) else literal(e) for e in parts)
    return f"{'lk' if ours else 'p'}.{node.__name__}({own})"
