"""Tuples as values: a tuple has a structured dtype of numpy, whose fields are numbers, and is one value of one cell.

``make_tuple(value=x, index=i)`` makes a tuple and ``t.value`` reads a field. Statements assign tuples, ``if`` chooses
one, and reductions such as ``argmin`` combine them; arithmetic takes their fields. In memory, a tuple is a struct of C.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import TypeInferenceError
from loopkit.expr.kinds import DTYPE_NAMES, ML_DTYPES, code_of, is_tuple, named_dtype, struct_of
from loopkit.expr.nodes import Combined, MakeTuple, Reduction


def place_names(count: int) -> tuple[str, ...]:
    """The names of *count* fields without names, as numpy numbers them.

    >>> place_names(3)
    ('f0', 'f1', 'f2')
    """
    return tuple(f"f{place}" for place in range(count))


def tuple_dtype(names: Sequence[str], dtypes: Iterable[np.dtype]) -> np.dtype:
    """The dtype of tuples with these fields, each at the place that C gives it.

    >>> tuple_dtype(("value", "index"), (np.dtype("int8"), np.dtype("int32"))).itemsize
    8

    :raises TypeInferenceError: a field is a tuple.
    """
    each = tuple(dtypes)
    for name, dtype in zip(names, each, strict=True):
        if is_tuple(dtype):
            raise TypeInferenceError(f"The field '{name}' of a tuple is a tuple: {dtype_text(dtype)}.", subject=name,
                                     hint=f"name its fields: {name}=t.{field_names(dtype)[0]}")
    return struct_of([*zip(names, each, strict=True)])


def field_names(dtype: np.dtype) -> tuple[str, ...]:
    """The fields of a tuple's *dtype*; ``()`` of a number's."""
    return dtype.names or ()


def field_dtypes(dtype: np.dtype) -> dict[str, np.dtype]:
    """The dtypes of the fields of a tuple's *dtype*, in order."""
    return {name: dtype[name] for name in field_names(dtype)}


def field_dtype(dtype: np.dtype, name: str) -> np.dtype:
    """The dtype of the field *name*; :raises TypeInferenceError: *dtype* has none such."""
    fields = field_dtypes(dtype)
    if name not in fields:
        raise TypeInferenceError(
            f"A tuple {dtype_text(dtype)} has no field '{name}'." if fields else
            f"A number of dtype {dtype} has no field '{name}'.", subject=name,
            hint=f"its fields are {', '.join(fields)}" if fields else "argmin, argmax and make_tuple give tuples")
    return fields[name]


def joined_tuples(a: np.dtype, b: np.dtype, promote: Callable[[np.dtype, np.dtype], np.dtype]) -> np.dtype:
    """The common dtype of two tuples, field by field; :raises TypeInferenceError: their fields differ."""
    if a == b:
        return a
    if a.names != b.names or not is_tuple(a):
        only = next((x for x in (a, b) if not (is_tuple(a) and is_tuple(b)) and x.names), None)
        raise TypeInferenceError(f"{dtype_text(a)} and {dtype_text(b)} have no common dtype.", subject=dtype_text(a),
                                 hint="both must be tuples with the same fields in the same order" if only is None else
                                      f"name one of the fields of the tuple: t.{field_names(only)[0]}")
    return tuple_dtype(field_names(a), (promote(a[name], b[name]) for name in field_names(a)))


def dtype_text(dtype: np.dtype) -> str:
    """*dtype* for readers.

    >>> dtype_text(tuple_dtype(("value", "index"), (np.dtype("float32"), np.dtype("int32"))))
    '(value: float32, index: int32)'
    """
    fields = ", ".join(f"{name}: {own}" for name, own in field_dtypes(dtype).items())
    return f"({fields})" if fields else str(dtype)


# Expressions

def fields_of(expr: Expression) -> tuple[str, ...]:
    """The fields of *expr* as far as its form shows them; ``()``: it shows none."""
    match expr:
        case MakeTuple(fields=fields):
            return fields
        case Combined(operation=operation):
            return operation.fields
        case Reduction(expr=operand):
            return fields_of(operand)
        case p.If(then=then):
            return fields_of(then)
        case _:
            return ()


def field_of(expr: Expression, name: str) -> Expression:
    """``expr.name``; of a tuple that is made of its fields, the field itself."""
    match expr:
        case MakeTuple(fields=fields, values=values) if name in fields:
            return values[fields.index(name)]
        case p.If(condition=condition, then=then, else_=else_):
            return p.If(condition, field_of(then, name), field_of(else_, name))
        case _:
            return p.Lookup(expr, name)


# Names in generated code

_CODES = {code_of(np.dtype(name)): name for name in DTYPE_NAMES.values() if name not in ML_DTYPES} | {
    own.code: name for name, own in ML_DTYPES.items()}
_CODE = "|".join(sorted(_CODES, key=len, reverse=True))

#: A name of a struct, and of a function that combines two of them.
STRUCT = re.compile(rf"tuple((?:_\w+?_(?:{_CODE}))+)")
COMBINING = re.compile(rf"(\w+?)((?:_(?:{_CODE})){{2,}})")


def field_fault(name: str) -> str | None:
    """The reason why a field cannot have this *name*, as the end of "'name' ..."; ``None``: it can.

    >>> field_fault("value"), field_fault("x_f32")
    (None, "has the part 'f32', which stands for a dtype in generated code")
    """
    found = re.search(rf"_({_CODE})(?![^_])", f"_{name}")
    return None if found is None else f"has the part '{found[1]}', which stands for a dtype in generated code"


@lru_cache(maxsize=256)
def struct_name(dtype: np.dtype) -> str:
    """The name of the struct of a tuple's *dtype*.

    >>> struct_name(tuple_dtype(("value", "index"), (np.dtype("float32"), np.dtype("int32"))))
    'tuple_value_f32_index_i32'
    """
    return "_".join(["tuple", *(part for name, own in field_dtypes(dtype).items() for part in (name, code_of(own)))])


def struct_dtype(name: str) -> np.dtype | None:
    """The dtype of the struct called *name*; ``None``: there is no such struct."""
    found = STRUCT.fullmatch(name)
    if found is None:
        return None
    parts = re.findall(rf"_(\w+?)_({_CODE})(?![^_])", found[1])
    return tuple_dtype([field for field, _ in parts], (named_dtype(_CODES[code]) for _, code in parts))


def combining_name(operation: str, dtype: np.dtype) -> str:
    """The name of the function that combines two tuples of *dtype*.

    >>> combining_name("argmin", tuple_dtype(("value", "index"), (np.dtype("float32"), np.dtype("int32"))))
    'argmin_f32_i32'
    """
    base = re.sub(r"\W+", "_", operation).strip("_")
    return "_".join([base, *map(code_of, field_dtypes(dtype).values())])


def tuple_of_codes(name: str, fields: Sequence[str]) -> np.dtype | None:
    """The dtype of tuples of *fields* for which :func:`combining_name` gives *name*; ``None``: there is none."""
    found = COMBINING.fullmatch(name)
    codes = found[2][1:].split("_") if found is not None else []
    return tuple_dtype(fields, (named_dtype(_CODES[code]) for code in codes)) if len(codes) == len(fields) else None
