"""The stage ``types``: every argument and temporary gets its dtype, and the neutral elements their values.

A temporary takes the dtype of its first write; if that is weak (``<> s = 0``), the later writes count too. An output
takes the join of its writes, an accumulator its operand's dtype (int32 for sums of truth values). Undeclared sizes keep
the dtype ``None``: they are integers as wide as the indices of the generated text.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, data_params, expanded_expression, maybe_real
from loopkit.analysis.constructors import rewritten
from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import INT32, WEAK_INT, Type, Weak, join, rank_of, reduction_type, resolve, type_of, weak
from loopkit.expr.indices import index_type
from loopkit.expr.kinds import is_tuple, promote
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import MakeTuple, Neutral, to_text
from loopkit.expr.tuples import field_dtypes, joined_tuples
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.limits import kept_in_memo

#: The name of the mark on kernels whose types are inferred, among their results.
_INFERRED = "types are inferred"


def infer_types(kernel: LoopKernel) -> LoopKernel:
    """*kernel* with the dtype of every array, temporary and value known, and without neutral elements.

    A size that was not declared keeps ``None``: the text's index type. The result is its own result, so that what is
    found out about it is found out once for all kernels of which it is the result.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = i*x[i]")
    >>> knl = infer_types(lk.add_dtypes(knl, {"x": np.float32}))
    >>> knl.argument_by_name["y"].dtype
    dtype('float32')

    :raises TypeInferenceError: a dtype cannot be inferred, or a value does not fit where it is written.
    """
    return kernel if _INFERRED in kernel.memo else _kernel_with_types(kernel)


@kept_in_memo
def _kernel_with_types(kernel: LoopKernel) -> LoopKernel:
    types = _require_inferred(kernel, solved_types(kernel))
    for s in kernel.statements:
        _require_fits(kernel, s, expanded_expression(kernel, s), types)
    _require_whole(kernel, types)
    result = rewritten(
        kernel, arguments=tuple(a if a.dtype is not None or isinstance(a, ValueArg) else
                                replace(a, dtype=resolve(types[a.name])) for a in kernel.arguments),
        temporaries={name: t if t.dtype is not None else replace(t, dtype=resolve(types[name]))
                     for name, t in kernel.temporaries.items()},
        statements=tuple(_with_neutral(kernel, s, types) for s in kernel.statements))
    result.memo[_INFERRED] = True
    return result


def unknown_dtypes(kernel: LoopKernel) -> tuple[str, ...]:
    """The arguments whose dtypes are neither declared nor follow from those that are, in order.

    >>> unknown_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"))
    ('x', 'y')

    :raises TypeInferenceError: an operation that its operands do not have.
    """
    types = solved_types(kernel)
    return tuple(a.name for a in kernel.arguments if types[a.name] is None)


def index_types(kernel: LoopKernel, index: np.dtype = INT32) -> Mapping[str, Type]:
    """The types of all names of a typed *kernel*, for a text whose indices have the dtype *index*.

    Inames and value arguments are weak; a name that is not here is one of the text's own indices.
    """
    types: dict[str, Type] = {x: weak(index) for x in kernel.inames}
    for a in (*kernel.arguments, *kernel.temporaries.values()):
        dtype = a.dtype if a.dtype is not None else index
        types[a.name] = weak(dtype) if isinstance(a, ValueArg) else dtype
    return types


def _with_neutral(kernel: LoopKernel, statement: Statement, types: Mapping[str, Type]) -> Statement:
    if not isinstance(statement.expression, Neutral):
        return statement
    dtype = types[statement.written]
    assert isinstance(dtype, np.dtype)
    value = kernel.operation(statement.expression.operation).neutral_of(dtype)
    assert isinstance(value, np.generic)
    if isinstance(value, np.void) and dtype.names:
        numbers = tuple(_literal(value[field].item()) for field in dtype.names)
        return replace(statement, expression=MakeTuple(dtype.names, numbers))
    return replace(statement, expression=_literal(value.item()))


def _literal(number: complex) -> complex:
    """*number*; no NaN equals another, but each of these equals itself."""
    return number if number == number else _parsed_number(repr(number))


@lru_cache(maxsize=64)
def _parsed_number(text: str) -> complex:
    return float(text) if text == "nan" else complex(text)


# The fixed point

@kept_in_memo
def solved_types(kernel: LoopKernel) -> Mapping[str, Type | None]:
    """The types of all names of *kernel*; ``None`` where one cannot be inferred."""
    types: dict[str, Type | None] = dict.fromkeys(kernel.inames, WEAK_INT)
    for a in (*kernel.arguments, *kernel.temporaries.values()):
        dtype = None if a.dtype is None else np.dtype(a.dtype)
        types[a.name] = weak(dtype) if isinstance(a, ValueArg) and dtype is not None else dtype
    unknown = frozenset(name for name, found in types.items() if found is None) - kernel.value_params
    types |= dict.fromkeys(_untyped_integers(kernel), WEAK_INT)
    writes = [s for s in kernel.statements if s.written in unknown and not isinstance(s.expression, Neutral)]
    _propagate(kernel, types, writes)
    # a type that is still weak becomes a dtype, which propagates
    if weak_still := {s.written: resolve(found) for s in writes if isinstance(found := types[s.written], Weak)}:
        types |= weak_still
        _propagate(kernel, types, writes)
    return {name: found if found is None or name not in unknown else resolve(found) for name, found in types.items()}


def _propagate(kernel: LoopKernel, types: dict[str, Type | None], writes: Sequence[Statement]) -> None:
    """Let *types* flow from what *writes* read to what they write, until nothing changes."""
    first = {s.written: s for s in reversed(writes)}
    changed = True
    while changed:
        changed = False
        for s in writes:
            old = types[s.written]
            if s.written in kernel.temporaries and s is not first[s.written] and not isinstance(old, Weak):
                continue                    # the first write decides
            written = type_of(expanded_expression(kernel, s), types.get)
            if written is None:
                continue
            if s.combine is not None:
                written = _accumulated(kernel, s.combine, written)
            new = written if old is None else join(old, written)
            if old is None or new != old:   # a dtype of float64 equals None for numpy
                types[s.written], changed = new, True


def _untyped_integers(kernel: LoopKernel) -> frozenset[str]:
    """The value arguments without a dtype that are integers by their use, or that no statement uses."""
    values = frozenset(x for x in kernel.value_params if kernel.argument_by_name[x].dtype is None)
    used = {x for s in kernel.statements for e in (s.assignee, expanded_expression(kernel, s), *s.predicates)
            for x in variables(e)} if values else set()
    extents = {x for t in kernel.temporaries.values() for extent in t.shape or () for x in variables(extent)}
    return values - (maybe_real(kernel) & used - extents)


# Conditions

def _require_inferred(kernel: LoopKernel, types: Mapping[str, Type | None]) -> Mapping[str, Type]:
    """*types*; :raises TypeInferenceError: one cannot be inferred."""
    known = {name: found for name, found in types.items() if found is not None}
    unknown = [a.name for a in (*kernel.arguments, *kernel.temporaries.values()) if a.name not in known]
    if not unknown:
        return known
    # an output's dtype follows from inputs: name these first
    read = {name for s in kernel.statements for name in variables(expanded_expression(kernel, s))}
    causes = [name for name in unknown if name in kernel.argument_by_name and name in read] or unknown
    name = causes[0]
    what = "argument" if name in kernel.argument_by_name else "temporary"
    also = f" (nor {', '.join(repr(x) for x in causes[1:])})" if len(causes) > 1 else \
        ": its elements are computed from other elements of it" if name in kernel.written_names & read else ""
    hint = (f"add_dtypes(knl, {{'{','.join(causes)}': np.float32}})" + (", or pass arrays when you call the kernel"
                                                           if what == "argument" else ""))
    raise TypeInferenceError(f"The dtype of the {what} '{name}' of kernel '{kernel.name}' cannot be inferred{also}.",
                             subject=name, hint=hint)


def _require_whole(kernel: LoopKernel, types: Mapping[str, Type]) -> None:
    """:raises TypeInferenceError: a subscript or a bound is not an integer, so that its fraction would be lost."""
    for array, accesses in accesses_by_array(kernel).items():
        for access in accesses:
            # affine forms consist of integers
            for index in () if access.affine else access.subscripts:
                found = index_type(index, types.get)
                if found is not None and (is_tuple(resolve(found)) or rank_of(found) > 1):
                    raise TypeInferenceError(
                        f"'{access.statement}' has {_noun(found)}, {to_text(index)}, as a subscript of '{array}'.",
                        subject=array, hint="'//' divides integers, and cast(int32, ...) converts")
    for name in dict.fromkeys(x for s in kernel.statements for x in data_params(kernel, s.domain)):
        if is_tuple(resolve(types[name])) or rank_of(types[name]) > 1:
            raise TypeInferenceError(f"'{name}', which bounds a loop, is {_noun(types[name])}.", subject=name,
                                     hint=f"<int32> {name} = cast(int32, ...)")


def _noun(given: Type) -> str:
    return "a tuple" if is_tuple(resolve(given)) else "a complex number" if rank_of(given) == 3 else "a real number"


def _accumulated(kernel: LoopKernel, operation: str, operand: Type) -> np.dtype:
    return reduction_type(kernel.operation(operation), operand)


def _require_fits(kernel: LoopKernel, s: Statement, expression: Expression, types: Mapping[str, Type]) -> None:
    """:raises TypeInferenceError: the value would lose its fraction or its imaginary part."""
    if isinstance(expression, Neutral):
        return
    target, value = types[s.written], type_of(expression, types.get)
    if value is None:                   # C code writes a value of the element's own dtype
        return
    if s.commutes and s.combine is not None and resolve(join(target, value)) != resolve(target):
        raise TypeInferenceError(
            f"'{s.id}' combines values of dtype {resolve(value)} with '{s.written}', which has the dtype "
            f"{resolve(target)}: an atomic update cannot be computed in another one.", subject=s.written,
            hint=f"write cast({resolve(target)}, ...), or declare '{s.written}' as {resolve(join(target, value))}")
    if s.combine is not None:
        value = _accumulated(kernel, s.combine, value)
    whole, given = resolve(target), resolve(value)
    if is_tuple(whole) or is_tuple(given):
        joined_tuples(whole, given, promote)
        for field, own in field_dtypes(whole).items():
            _require_number_fits(s, f"{s.written}.{field}", own, given[field])
    else:
        _require_number_fits(s, s.written, target, value)


def _require_number_fits(s: Statement, written: str, target: Type, value: Type) -> None:
    have, need = max(rank_of(target), 1), rank_of(value)
    if need <= have:
        return
    lost = "imaginary part" if need == 3 else "fraction"
    dtype = resolve(target)
    cast = "real(...)" if need == 3 else f"cast({dtype}, ...)"
    raise TypeInferenceError(
        f"'{s.id}' writes a value of dtype {resolve(value)} to '{written}', which has the dtype {dtype}: its "
        f"{lost} would be lost.", subject=s.written, hint=f"write {cast}, or declare '{written}' as {resolve(value)}")
