"""loopy's dtypes where they differ from loopkit's: declared for what statements write, and as casts of operands.

loopy infers a dtype for what a statement writes, and computes in C: integers narrower than 32 bits become int32, an
integer with a float32 becomes float32, and real literals have the precision of what is written. loopkit follows numpy.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.constructors import rewritten
from loopkit.compat.loopy.operands import Operand, is_wide_unsigned, may_be_negative
from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import (
    BOOL,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    join,
    real_dtype,
    resolve,
    signature,
    weak,
)
from loopkit.expr.functions import FUNCTIONS, UNKNOWN, FunctionName
from loopkit.expr.kinds import is_tuple, kind_of
from loopkit.expr.mappers import children, map_children, with_children
from loopkit.expr.nodes import MakeTuple, Neutral, TypeCast
from loopkit.expr.random_numbers import RANDOM
from loopkit.expr.tuples import field_dtype, tuple_dtype
from loopkit.kernel.printing import integer_arguments
from loopkit.kernel.statement import Statement
from loopkit.poly.limits import bounded

Dtypes = Mapping[str, np.dtype]
_ARITHMETIC = (p.Sum, p.Product, p.Quotient, p.FloorDiv, p.Remainder, p.Power, p.Min, p.Max)
_SHIFTS = (p.LeftShift, p.RightShift)
_BITS = (p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, p.BitwiseNot)
_TRUTH = (p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot)
#: loopy leaves integer literals below this out when it infers the dtype of a sum or product.
_SMALL = 1024


def with_loopy_dtypes(core: lk.LoopKernel) -> lk.LoopKernel:
    """*core* with the dtypes that loopy would infer, and with casts where loopkit would compute in other ones.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = n8[i] + f[i]")
    >>> knl = lk.add_dtypes(knl, {"n8": np.int8, "f": np.float32})
    >>> print(with_loopy_dtypes(knl).statements_text)
    for i
      y[i] = cast(float32, n8[i]) + f[i]  {id=insn}
    end

    :raises TypeInferenceError: loopy's value has another meaning than loopkit's.
    """
    core = lk.expand_subst(core) if core.substitutions else core
    with bounded(f"inferring dtypes of kernel '{core.name}'"):
        known = _inferred(core)
        types = _Types(core, known)
        new = _open(core, known) | _accumulators(core, known)
        statements = tuple(types.rewritten(s) for s in core.statements)
        core = core if statements == core.statements else rewritten(core, statements=statements)
    return lk.add_dtypes(core, new) if new else core


def with_inferred(core: lk.LoopKernel) -> lk.LoopKernel:
    """*core* with the dtypes that loopy infers from those that are known."""
    with bounded(f"inferring dtypes of kernel '{core.name}'"):
        new = _open(core, _inferred(lk.expand_subst(core) if core.substitutions else core))
    return lk.add_dtypes(core, new) if new else core


def dtype_of(expr: Expression, core: lk.LoopKernel) -> np.dtype | None:
    """The dtype that loopy infers for *expr*, without substitution rules; ``None``: it depends on unknown ones."""
    with bounded(f"inferring dtypes of kernel '{core.name}'"):
        return _of(expr, core, _inferred(core))


def _open(core: lk.LoopKernel, known: Dtypes) -> dict[str, np.dtype]:
    """Those of *known* that *core* does not declare."""
    accumulators = {node.accumulator for node in core.reductions.values()}
    return {name: dtype for name, dtype in known.items()
            if name in core.data and core.data[name].dtype is None and name not in accumulators}


def _accumulators(core: lk.LoopKernel, known: Dtypes) -> dict[str, np.dtype]:
    return {node.accumulator: known[node.accumulator] for node in core.reductions.values()
            if node.accumulator in known and core.temporaries[node.accumulator].dtype is None}


# Inference of what is written

def _inferred(core: lk.LoopKernel) -> dict[str, np.dtype]:
    """The dtypes of all arguments and temporaries that are declared or that loopy infers from the writers."""
    known = {a.name: np.dtype(a.dtype) for a in (*core.arguments, *core.temporaries.values()) if a.dtype is not None}
    open_ended = [s for s in core.statements if s.written not in known]
    while True:
        before = dict(known)
        for s in open_ended:
            found = [dtype for w in open_ended if w.written == s.written and not isinstance(w.expression, Neutral)
                     and (dtype := _of(w.expression, core, known)) is not None]
            if found:
                known[s.written] = _combined(found)
        if known == before:
            return known


def _of(expr: Expression, core: lk.LoopKernel, known: Dtypes) -> np.dtype | None:
    """The dtype that loopy infers for *expr*; ``None`` if it depends on unknown ones."""
    def of(e: Expression) -> np.dtype | None:
        return _of(e, core, known)
    match expr:
        case p.Variable(name=name) | p.Subscript(aggregate=p.Variable(name=name)):
            is_size = name in core.inames or (name not in known and name in integer_arguments(core))
            return known.get(name, INT32 if is_size else None)
        case p.Sum() | p.Product():
            large = [c for c in expr.children if not (isinstance(c, int | np.integer) and abs(int(c)) < _SMALL)]
            found = [dtype for c in large if (dtype := of(c)) is not None]
            every = [*found, *(INT32 for c in expr.children if c not in large)]
            return _combined(every if all(d.kind in "iu" for d in found) else found) if every else None
        case p.Quotient():
            sides = [of(c) for c in children(expr)]
            return FLOAT64 if all(d is not None and d.kind in "iu" for d in sides) else _combined_known(sides)
        case p.If():
            return _combined_known([of(expr.then), of(expr.else_)])
        case TypeCast(child=child):
            whole = of(child)
            # a tuple has no common dtype with a number, which is an error
            return expr.dtype if whole is None or whole.names is None else resolve(join(whole, expr.dtype))
        case MakeTuple(fields=fields, values=values):
            each = [dtype for value in values if (dtype := of(value)) is not None]
            return tuple_dtype(fields, each) if len(each) == len(values) else None
        case p.Lookup(aggregate=aggregate, name=name):
            whole = of(aggregate)
            return whole if whole is None else field_dtype(whole, name)
        case p.Call(function=p.Variable(name=name)) if name in RANDOM:
            return np.dtype(RANDOM[name][0])
        case p.Call(function=p.Variable(name=name)) if name in FUNCTIONS:
            return _of_function(name, [of(c) for c in expr.parameters])
        case p.Call(function=FunctionName(function=function)):
            given = [dtype for c in expr.parameters if (dtype := of(c)) is not None]
            known_all = len(given) == len(expr.parameters)
            return resolve(signature(function, given)[1]) if known_all and function.dtypes != UNKNOWN else None
        case _ if isinstance(expr, _TRUTH):
            return BOOL
        case p.ExpressionNode():
            return _combined_known([of(c) for c in children(expr)])
        case _:
            return _of_number(expr)


def _of_function(name: str, arguments: list[np.dtype | None]) -> np.dtype | None:
    found = _combined_known(arguments)
    if found is None or FUNCTIONS[name].dtypes == "predicate":
        return found and BOOL
    if found.kind in "iub" and FUNCTIONS[name].dtypes == "float":
        return FLOAT32
    return real_dtype(found) if FUNCTIONS[name].dtypes == "real" else found


def _of_number(value: object) -> np.dtype:
    if isinstance(value, np.generic | bool):
        return np.asarray(value).dtype
    if isinstance(value, int):
        return INT32 if -2**31 <= value < 2**31 else INT64
    wide = np.asarray(value)
    if wide.dtype.kind == "c":
        return wide.dtype                                  # 1j has the dtype complex128 in loopy's texts
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow.dtype if narrow == wide else wide.dtype


def _is_integer(expr: Expression) -> bool:
    return isinstance(expr, int | np.integer) and not isinstance(expr, bool)


def _flat(expr: p.Sum | p.Product) -> list[Expression]:
    """The operands of *expr*, with those of sums in a sum, or of products in a product, as its own."""
    return [part for child in expr.children for part in (
        _flat(child) if isinstance(child, p.Sum | p.Product) and type(child) is type(expr) else [child])]


def _promoted(expr: Expression, parts: tuple[Expression, ...], dtype: np.dtype | None
              ) -> tuple[Expression, np.dtype | None]:
    """The operation of *parts*, with narrow integers as int32."""
    if dtype is not None and dtype.kind in "iub" and dtype.itemsize < 4:
        parts, dtype = tuple(e if _is_integer(e) else _as(e, INT32) for e in parts), INT32
    if isinstance(expr, p.Sum | p.Product):
        whole: Expression = p.Sum(parts) if isinstance(expr, p.Sum) else p.Product(parts)  # type: ignore[arg-type]
        return whole, dtype
    return with_children(expr, parts), dtype


def _is_number(expr: Expression) -> bool:
    return not isinstance(expr, p.ExpressionNode | tuple)


def _combined_known(dtypes: Iterable[np.dtype | None]) -> np.dtype | None:
    found = [d for d in dtypes if d is not None]
    return _combined(found) if found else None


def _combined(dtypes: Iterable[np.dtype]) -> np.dtype:
    return reduce(_pair, reversed(list(dtypes)))


def _pair(a: np.dtype, b: np.dtype) -> np.dtype:
    """loopy's common dtype: numpy's, but float32 for int32 and float32."""
    return FLOAT32 if {a, b} == {INT32, FLOAT32} else resolve(join(a, b))


# Casts, so that loopkit computes as C does

@dataclass(frozen=True)
class _Types:
    """Rewrites the statements of *core*, in which names have the dtypes *known*."""

    core: lk.LoopKernel
    known: Dtypes

    def rewritten(self, statement: Statement) -> Statement:
        """*statement* with casts; :raises TypeInferenceError: loopy counts truth values in another way."""
        if isinstance(statement.expression, Neutral):
            return statement
        target = self.known.get(statement.written)
        if statement.combine in ("sum", "product") and target == BOOL:
            raise TypeInferenceError(
                f"'{statement.id}' sums truth values, and loopy's sum of truth values is a truth value.",
                subject=statement.id, hint="any(...) is a truth value, and sum(..., cast(int32, ...)) is a number")
        expression, own = self.cast(statement.expression, target)
        if target is not None and own is not None and target.kind in "iu" and kind_of(own) == "f":
            expression = TypeCast(target.name, expression)
        predicates = tuple(self.cast(e, None)[0] for e in statement.predicates)
        if expression == statement.expression and predicates == statement.predicates:
            return statement
        return replace(statement, expression=expression, predicates=predicates)

    def cast(self, expr: Expression, context: np.dtype | None) -> tuple[Expression, np.dtype | None]:
        """*expr* with casts, and the dtype in which C has it; ``None`` for a number that adapts to the others.

        :arg context: the dtype of what is written, which real literals take.
        """
        match expr:
            case p.Variable(name=name):
                own = None if name in self.core.inames else self.known.get(name)
                # a scalar of loopkit would adapt to the others, and one of C wraps
                wraps = is_wide_unsigned(own) and self.plain(expr) and name not in integer_arguments(self.core)
                return TypeCast(own.name, expr) if wraps and own is not None else expr, own
            case p.Subscript(aggregate=p.Variable(name=name)):
                return expr, self.known.get(name)
            case MakeTuple() | p.Lookup():
                return map_children(expr, self.field), _of(expr, self.core, self.known)
            case TypeCast():
                return TypeCast(expr.dtype_name, self.cast(expr.child, expr.dtype)[0]), expr.dtype
            case p.If():
                return self.choice(expr, context)
            case p.Comparison():
                common = _combined_known(_of(e, self.core, self.known) for e in (expr.left, expr.right))
                read = [self.read(e, common) for e in (expr.left, expr.right)]
                sides, dtype = self.together(read)
                if dtype is not None and is_wide_unsigned(dtype):
                    sides = tuple(TypeCast(dtype.name, TypeCast("int32", e)) if o.dtype is None and may_be_negative(o)
                                  else e for e, o in zip(sides, read, strict=True))
                return with_children(expr, sides), BOOL
            case p.Call(function=p.Variable(name=name)) if name in RANDOM:
                return expr, np.dtype(RANDOM[name][0])              # the dtypes of its arguments are fixed
            case p.Call(function=p.Variable(name=name)) if name in FUNCTIONS:
                return self.cast_call(expr, name)
            case p.Call(function=FunctionName()):
                # a number in the text is an argument of its own dtype
                arguments = (TypeCast("int32", e) if _is_integer(e) and _of_number(e) == INT32 else
                             self.cast(e, None)[0] for e in expr.parameters)
                return with_children(expr, tuple(arguments)), _of(expr, self.core, self.known)
            case _ if isinstance(expr, _TRUTH):
                return map_children(expr, lambda e: self.cast(e, None)[0]), BOOL
            case _ if isinstance(expr, _SHIFTS):
                return self.cast_shift(expr)
            case _ if isinstance(expr, _BITS):
                return _promoted(expr, *self.together([self.read(e, None) for e in children(expr)]))
            case _ if isinstance(expr, _ARITHMETIC):
                return self.cast_arithmetic(expr, context)
            case _:
                return expr, None

    def cast_arithmetic(self, expr: Expression, context: np.dtype | None) -> tuple[Expression, np.dtype | None]:
        """An operation; ``/`` of integers is float32 where a float32 is written, else float64."""
        inferred = [_of(e, self.core, self.known) for e in children(expr)]
        if isinstance(expr, p.Quotient) and all(d is not None and d.kind in "iu" for d in inferred):
            return self.cast_quotient(expr, context)
        if isinstance(expr, p.Sum | p.Product):
            return self.folded(expr, [self.read(e, context) for e in _flat(expr)])
        whole = isinstance(expr, p.FloorDiv | p.Remainder | p.Power)
        read = [self.read(e, None if whole else context) for e in children(expr)]
        parts, dtype = self.together(read)
        common = _combined_known(inferred)
        if isinstance(expr, p.FloorDiv | p.Remainder) and dtype is not None and dtype.kind == "u" and (
                common is not None and common.kind == "i") and any(may_be_negative(o) for o in read):
            # loopy's functions take both in their common dtype, where C would make a negative one unsigned
            return with_children(expr, tuple(_as(o.cast, common) for o in read)), common
        return _promoted(expr, parts, dtype)

    def folded(self, expr: p.Sum | p.Product, read: list[Operand]) -> tuple[Expression, np.dtype | None]:
        """The sum or product of *read*, from left to right: operands are combined before a wider one joins."""
        before: np.dtype | None = None
        for k, operand in enumerate(read):
            after = operand.dtype if before is None else before if operand.dtype is None else in_c(
                before, operand.dtype)
            if k > 1 and before is not None and after != in_c(before, before) and (
                    before.kind in "iub" or any(o.dtype not in (None, before) for o in read[:k])):
                first, own = self.folded(expr, read[:k])
                return self.folded(expr, [Operand(first, first, own), *read[k:]])
            before = after
        parts, dtype = self.together(read)
        return _promoted(expr, parts, dtype)

    def cast_shift(self, expr: Expression) -> tuple[Expression, np.dtype]:
        """A shift, which has the dtype of its first operand in C, at least int32."""
        first, count = (self.cast(e, None) for e in children(expr))
        dtype = INT32 if first[1] is None else in_c(first[1], first[1])
        return with_children(expr, (_as(first[0], dtype), _as(count[0], dtype))), dtype

    def cast_quotient(self, expr: p.Quotient, context: np.dtype | None) -> tuple[Expression, np.dtype]:
        """A quotient of integers: real, or as C divides integers if an integer is written.

        :raises TypeInferenceError: C would divide integers of 64 bits.
        """
        parts = [self.cast(e, context) for e in children(expr)]
        real = FLOAT32 if context == FLOAT32 else FLOAT64
        quotient = with_children(expr, tuple(_as(e, real) for e, _ in parts))
        if context is None or context.kind not in "iu":
            return quotient, real
        whole = reduce(in_c, (INT32 if dtype is None else dtype for _, dtype in parts), INT32)
        if whole.itemsize > 4:
            raise TypeInferenceError(f"loopy divides integers of 64 bits as C does where it writes a value of dtype "
                                     f"{context}.", subject=str(context), hint="'//' divides integers and rounds down")
        return TypeCast(whole.name, quotient), whole          # exact for 32 bits, and towards zero as in C

    def field(self, expr: Expression) -> Expression:
        """A tuple, or the value of a field, which has the dtype that loopy infers for it."""
        return self.branch(expr, None, _of(expr, self.core, self.known))

    def choice(self, expr: p.If, context: np.dtype | None) -> tuple[Expression, np.dtype | None]:
        """One of two branches; a literal that takes the dtype of what is written makes both real."""
        condition = self.cast(expr.condition, None)[0]
        dtype, branches = _of(expr, self.core, self.known), (expr.then, expr.else_)
        if dtype is not None and context is not None and any(
                _is_number(e) and self.literal(e, context)[1] is not None and _of_number(e) == dtype for e in branches):
            dtype = in_c(dtype, context)
        return with_children(expr, (condition, *(self.branch(e, context, dtype) for e in branches))), dtype

    def branch(self, expr: Expression, context: np.dtype | None, dtype: np.dtype | None) -> Expression:
        """A branch of ``if``, which has the common *dtype* of both."""
        new, own = (self.literal(expr, context)[0], None) if _is_number(expr) else self.cast(expr, context)
        return new if dtype is None or own == dtype or is_tuple(dtype) else _as(new, dtype)

    def cast_call(self, expr: p.Call, name: str) -> tuple[Expression, np.dtype | None]:
        """A function of the language, whose integer arguments become float32."""
        common = _combined_known(_of(e, self.core, self.known) for e in expr.parameters)
        parts, dtype = self.together([self.read(e, common) for e in expr.parameters])
        if FUNCTIONS[name].dtypes == "float" and common is not None and common.kind in "iub":
            parts, dtype = tuple(_as(e, FLOAT32) for e in parts), FLOAT32
        predicate = FUNCTIONS[name].dtypes == "predicate"
        return with_children(expr, tuple(parts)), BOOL if predicate else dtype and (
            real_dtype(dtype) if FUNCTIONS[name].dtypes == "real" else dtype)

    def read(self, expr: Expression, context: np.dtype | None) -> Operand:
        """*expr* as an operand."""
        return Operand(expr, *(self.literal(expr, context) if _is_number(expr) else self.cast(expr, context)))

    def together(self, read: Sequence[Operand]) -> tuple[tuple[Expression, ...], np.dtype | None]:
        """The operands of one operation, each cast where loopkit's common dtype is not that of C."""
        result: list[Expression] = []
        for operand in read:
            e, own = operand.cast, operand.dtype
            others = [other.dtype for other in read if other is not operand and other.dtype is not None]
            if own is None:
                result.append(e)
            elif _is_number(e):
                # a number of the text takes the dtype of an operand that has one
                strong = {other.dtype for other in read if not _is_number(other.text)}
                result.append(e if own in strong else TypeCast(own.name, e))
            elif not others:
                result.append(e)
            else:
                result.append(self.operand(e, own, in_c(own, reduce(in_c, others)), self.plain(operand.text)))
        known = [operand.dtype for operand in read if operand.dtype is not None]
        return tuple(result), reduce(in_c, known) if known else None

    def literal(self, number: Expression, context: np.dtype | None) -> tuple[Expression, np.dtype | None]:
        """A *number* of the text, which is a real number if a real number is written."""
        if isinstance(number, float) and not number.is_integer() and context is not None and context.kind in "iu":
            raise TypeInferenceError(f"loopy cuts off the fraction of {number} where it computes a value of dtype "
                                     f"{context}.", subject=str(number), hint=f"write cast({context}, ...)")
        if isinstance(number, complex):
            return number, COMPLEX128
        takes = context in (FLOAT32, FLOAT64) and not isinstance(number, np.generic | bool)
        return number, context if takes else None

    def plain(self, expr: Expression) -> bool:
        """Is *expr* a scalar argument, whose width loopkit leaves to the other operands?"""
        return isinstance(expr, p.Variable) and expr.name in self.core.argument_by_name

    def operand(self, expr: Expression, own: np.dtype, common: np.dtype, is_scalar: bool) -> Expression:
        """*expr* of the dtype *own*, which C converts to *common*."""
        if own != common and own.kind == "u" and own.itemsize >= 4 and isinstance(expr, p.Product):
            expr = TypeCast(own.name, expr)                 # a difference a - b is a + (-1*b), which wraps
        loopkit = resolve(join(weak(own) if is_scalar else own, common))
        narrow = own.kind in "iub" and own != common and (own.kind == "b" or own.itemsize < 4)
        return _as(expr, common) if loopkit != common or (is_scalar and own.kind == "f") or narrow else expr


def in_c(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype in which C computes with two operands; complex numbers and halves as in numpy.

    >>> in_c(np.dtype("int8"), np.dtype("int8")), in_c(np.dtype("int64"), np.dtype("float32"))
    (dtype('int32'), dtype('float32'))
    """
    for real in (FLOAT64, FLOAT32):
        if real in (a, b) and {a.kind, b.kind} <= set("fiub"):
            return real if np.float16 not in (a, b) else resolve(join(a, b))
    if not {a.kind, b.kind} <= set("iub"):
        return resolve(join(a, b))
    a, b = (INT32 if d.itemsize < 4 else d for d in (a, b))
    wide = max(a, b, key=lambda d: (d.itemsize, d.kind == "u"))
    return wide


def _as(expr: Expression, dtype: np.dtype) -> Expression:
    if isinstance(expr, TypeCast) and isinstance(expr.child, int | float):
        expr = expr.child
    return TypeCast(dtype.name, expr)

