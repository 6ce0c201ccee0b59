"""Conversion of expressions: quasi-affine forms to isl, and isl's AST expressions to pymbolic ones."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial, reduce
from math import gcd
from typing import TypeVar, cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import ArithmeticExpression, Expression

DIM = isl.dim_type

A = TypeVar("A")


class NotAffineError(Exception):
    """An expression is not a quasi-affine form of the allowed names (internal; callers decide)."""


def if_affine(compute: Callable[[], A]) -> A | None:
    """The result of *compute*; ``None`` if *compute* raises NotAffineError."""
    try:
        return compute()
    except NotAffineError:
        return None


@lru_cache(maxsize=4096)
def set_space(params: tuple[str, ...], dims: tuple[str, ...]) -> isl.Space:
    """The anonymous set space ``[params] -> { [dims] }`` with its dimensions named."""
    return isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=dims, params=params)


def without_bits(expr: Expression) -> Expression | None:
    """An operation on the bits of integers as arithmetic, where an operand is a suitable constant; ``None``: it has no
    such form.

    >>> i = p.Variable("i")
    >>> for e in (p.LeftShift(i, 2), p.RightShift(i, 2), p.BitwiseAnd((i, 7)), p.BitwiseAnd((i, -8)), p.BitwiseNot(i)):
    ...     print(without_bits(e))
    4*i
    i // 4
    i % 8
    8*(i // 8)
    (-1)*i + -1
    """
    match expr:
        case p.BitwiseNot(child=child):
            return p.Sum((p.Product((-1, arithmetic(child))), -1))
        case p.LeftShift(shiftee=shifted, shift=int() as bits) if 0 <= bits < 64:
            return p.Product((2**bits, arithmetic(shifted)))
        case p.RightShift(shiftee=shifted, shift=int() as bits) if 0 <= bits < 64:
            return floor_div(shifted, 2**bits)
        case p.BitwiseAnd(children=(value, int() as mask)) | p.BitwiseAnd(children=(int() as mask, value)):
            # the mask has ones below some bit, or ones from some bit on
            low, high = mask + 1, -mask
            if low > 0 and low & mask == 0:
                return remainder(value, low)
            if high > 0 and high & (high - 1) == 0:
                return p.Product((high, floor_div(value, high)))
            return None
        case _:
            return None


def names_in(expr: Expression) -> set[str]:
    """The variables of a quasi-affine expression; :raises NotAffineError: it is none."""
    names, stack = set[str](), [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, p.Variable):
            names.add(part.name)
        elif isinstance(part, p.Sum | p.Product | p.Min | p.Max):
            stack += reversed(part.children)
        elif isinstance(part, p.FloorDiv | p.Remainder):
            stack += (part.denominator, part.numerator)
        elif (plain := without_bits(part)) is not None:
            stack.append(plain)
        elif not isinstance(part, int) or isinstance(part, bool):
            raise NotAffineError(part)
    return names


@lru_cache(maxsize=65536)
def _aff(expr: Expression, dims: tuple[str, ...], params: tuple[str, ...]) -> isl.Aff:
    def form(of: Expression) -> isl.Aff:
        return _aff(of, dims, params)
    local = isl.LocalSpace.from_space(set_space(params, dims))
    match expr:
        case p.Variable(name=name) if name in dims:
            return isl.Aff.var_on_domain(local, DIM.set, dims.index(name))
        case p.Variable(name=name):
            return isl.Aff.var_on_domain(local, DIM.param, params.index(name))
        case int():
            return isl.Aff.zero_on_domain(local).set_constant_val(expr)
        case p.Sum(children=children):
            return reduce(isl.Aff.add, map(form, children))
        case p.Product(children=children):
            factors = [form(c) for c in children]
            if sum(not factor.is_cst() for factor in factors) < 2:
                return reduce(isl.Aff.mul, factors)
        case p.FloorDiv(numerator=a, denominator=b) | p.Remainder(numerator=a, denominator=b):
            divisor = form(b)
            if divisor.is_cst() and (value := divisor.get_constant_val()).is_pos():
                return form(a).scale_down_val(value).floor() if isinstance(expr, p.FloorDiv) else form(a).mod_val(value)
        case _ if (plain := without_bits(expr)) is not None:
            return form(plain)
        case _:
            pass
    raise NotAffineError(expr)


def to_aff(expr: Expression, dims: Sequence[str], params: Collection[str] | None = None) -> isl.Aff:
    """*expr* as a function of *dims* and *params* (``None``: any others); :raises NotAffineError: it is none."""
    free = names_in(expr).difference(dims)
    if params is not None and not free <= set(params):
        raise NotAffineError(expr)
    return _aff(expr, tuple(dims), tuple(sorted(free)))


def names_of(space: isl.Space) -> tuple[str, ...]:
    """The names of the dimensions of *space*, a space of sets."""
    return tuple(str(space.get_dim_name(DIM.set, i)) for i in range(space.dim(DIM.set)))


def params_of(space: isl.Space) -> tuple[str, ...]:
    """The names of the parameters of *space*."""
    return tuple(str(space.get_dim_name(DIM.param, i)) for i in range(space.dim(DIM.param)))


def aff_in(space: isl.Space, expr: Expression) -> isl.Aff:
    """*expr* as a function on *space*, a space of sets; :raises NotAffineError: it is none."""
    if isl.DEFAULT_CONTEXT not in (space.get_ctx(),):     # contexts have == only
        raise NotAffineError(expr)                         # isl would take equal names for different ones
    return to_aff(expr, names_of(space), params_of(space)).align_params(space)


def is_quasi_affine(expr: Expression, dims: Sequence[str] = (), params: Collection[str] | None = None) -> bool:
    """Is *expr* one quasi-affine form, without cases, of *dims* and of *params* (``None``: of any other names)?"""
    return if_affine(lambda: to_aff(expr, dims, params)) is not None


def affine_difference(a: Expression, b: Expression) -> int | None:
    """The integer ``a - b`` where the difference of two quasi-affine forms is constant, else ``None``."""
    difference = if_affine(lambda: to_aff(subtract(a, b), ()))
    return to_int(difference.get_constant_val()) if difference is not None and difference.is_cst() else None


@p.expr_dataclass()
class TruncatedQuotient(p.FloorDiv):
    """``a // b`` where C's ``/`` has the same value: isl has shown that the operands are not negative."""


@p.expr_dataclass()
class TruncatedRemainder(p.Remainder):
    """``a % b`` where C's ``%`` is correct: isl has shown that it is not negative, or only compared with zero."""


def from_ast_expr(expr: isl.AstExpr) -> Expression:
    """An isl AST expression as a pymbolic one, with folded constants.

    ``pdiv_q`` and ``pdiv_r``, which isl uses for operands that are not negative (or if only zero matters), become the
    nodes that are C's ``/`` and ``%``.
    """
    kind = cast(isl.ast_expr_type, expr.get_type())      # islpy's stub declares int, here and below
    if kind == isl.ast_expr_type.id:
        return p.Variable(str(expr.get_id().name))
    if kind == isl.ast_expr_type.int:
        return int(expr.get_val().to_python())
    operation = _OPERATIONS.get(cast(isl.ast_expr_op_type, expr.get_op_type()))
    if operation is None:
        raise NotAffineError(expr.to_C_str())
    return operation(*(from_ast_expr(expr.get_op_arg(i)) for i in range(expr.get_op_n_arg())))


def _junction(kind: type[p.LogicalAnd | p.LogicalOr], neutral: int, *args: Expression) -> Expression:
    """Conditions joined; isl writes a part that always holds, or never, as a number."""
    parts = [a for a in _flat_operands(kind, args) if a != neutral]
    if 1 - neutral in parts or not parts:
        return 1 - neutral if parts else neutral
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def readable_comparison(left: Expression, op: str, right: Expression) -> Expression:
    """``a >= b + 1`` as ``b < a`` and ``a >= b`` as ``b <= a``, larger coefficients first.

    A constant that is 1 more than a multiple of the coefficients becomes that multiple:

    >>> k, l = p.Variable("k"), p.Variable("l")
    >>> print(readable_comparison(64*k + 129, "<=", l), readable_comparison(64*k + 64, "<=", l), sep="; ")
    64*k + 128 < l; 64*k + 64 <= l
    """
    if op in (">=", ">"):
        left, op, right = right, {">=": "<=", ">": "<"}[op], left
    left, right = ordered(left), ordered(right)
    if op == "<=" and left == 1 and isinstance(right, TruncatedRemainder):
        return p.Comparison(right, "!=", 0)
    if op == "<=":
        if isinstance(left, p.Sum) and isinstance(constant := left.children[-1], int):
            step = gcd(*(c for term in left.children[:-1] if (c := abs(integer_factor(term))) > 1))
            if constant == 1 or (step > 1 and constant % step == 1):
                return p.Comparison(add(left, -1), "<", right)
        if isinstance(right, p.Sum) and right.children[-1] == -1:
            return p.Comparison(left, "<", add(right, 1))
    return p.Comparison(left, op, right)


def ordered(expr: Expression) -> Expression:
    """A sum with its terms from the largest coefficient down, the constant last."""
    if not isinstance(expr, p.Sum):
        return expr
    terms = [c for c in expr.children if not isinstance(c, int)]
    constants = [c for c in expr.children if isinstance(c, int)]
    return p.Sum((*sorted(terms, key=lambda t: -integer_factor(t)), *constants))


def integer_factor(term: Expression) -> int:
    """The integer factor of *term*."""
    return term.children[0] if isinstance(term, p.Product) and isinstance(term.children[0], int) else 1


def _flat_operands(node: type[p.Min | p.Max | p.LogicalAnd | p.LogicalOr], args: Sequence[Expression]
                   ) -> tuple[Expression, ...]:
    return tuple(part for arg in args for part in (arg.children if isinstance(arg, node) else (arg,)))


def add(*terms: Expression) -> Expression:
    """The sum of *terms* with like terms collected and the constant last: ``16*i + j - 1``."""
    coefficients: dict[Expression, int] = {}
    constant = 0
    stack: list[tuple[int, Expression]] = [(1, t) for t in reversed(terms)]
    while stack:
        factor, term = stack.pop()
        if isinstance(term, int):
            constant += factor * term
        elif isinstance(term, p.Sum):
            stack.extend((factor, c) for c in reversed(term.children))
        elif isinstance(term, p.Product) and isinstance(term.children[0], int) and len(term.children) > 1:
            rest = term.children[1:]
            stack.append((factor * term.children[0], rest[0] if len(rest) == 1 else p.Product(rest)))
        else:
            coefficients[term] = coefficients.get(term, 0) + factor
    parts = [arithmetic(multiply(c, t)) for t, c in coefficients.items() if c]
    if constant or not parts:
        parts.append(constant)
    return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def multiply(a: Expression, b: Expression) -> Expression:
    """The product of *a* and *b* with its integer factor first."""
    if isinstance(b, int) and not isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        if isinstance(b, int):
            return a * b
        if a == 0:
            return 0
        if a == 1:
            return b
        if isinstance(b, p.Product) and isinstance(b.children[0], int):
            return multiply(a * b.children[0], p.Product(b.children[1:]) if len(b.children) > 2 else b.children[1])
        if isinstance(b, p.Sum):
            return add(*(multiply(a, c) for c in b.children))
    left = a.children if isinstance(a, p.Product) else (arithmetic(a),)
    right = b.children if isinstance(b, p.Product) else (arithmetic(b),)
    return p.Product((*left, *right))


def subtract(a: Expression, b: Expression) -> Expression:
    """``a - b`` with like terms collected."""
    return add(a, multiply(-1, b))


def floor_div(a: Expression, b: Expression) -> p.FloorDiv:
    """``a // b``, not simplified."""
    return p.FloorDiv(arithmetic(a), arithmetic(b))


def remainder(a: Expression, b: Expression) -> p.Remainder:
    """``a % b``, not simplified."""
    return p.Remainder(arithmetic(a), arithmetic(b))


def digit_of(number: Expression, weight: int, extent: int) -> Expression:
    """``number // weight % extent``; *extent*: 0 for the slowest digit, which has no remainder."""
    if isinstance(number, int):
        return number // weight % extent if extent else number // weight
    shifted = number if weight == 1 else floor_div(number, weight)
    return 0 if extent == 1 else remainder(shifted, extent) if extent else shifted


def quotient_and_rest(number: Expression, count: int, extents: Mapping[str, int]) -> tuple[Expression, Expression]:
    """``number // count`` and ``number % count``, in few terms if names are known to have values from 0 on.

    :arg extents: the numbers of values of these names.

    >>> number = 8*p.Variable("x") + p.Variable("y")
    >>> print(*quotient_and_rest(number, 64, {"y": 8}))
    x // 8 8*(x % 8) + y
    """
    terms = [t for t in (number.children if isinstance(number, p.Sum) else (number,)) if t != 0]
    for part in (g for g in range(count, 1, -1) if count % g == 0):
        whole = [t for t in terms if integer_factor(t) % part == 0]
        rest = [t for t in terms if integer_factor(t) % part]
        ends = [_greatest(t, extents) for t in rest]
        if all(end is not None for end in ends) and sum(end for end in ends if end is not None) < part:
            number, extent = add(0, *(_over(t, part) for t in whole)), count // part
            if extent == 1:
                return number, add(0, *rest)
            return digit_of(number, extent, 0), add(multiply(part, digit_of(number, 1, extent)), *rest)
    return floor_div(number, count), remainder(number, count)


def _greatest(term: Expression, extents: Mapping[str, int]) -> int | None:
    """The greatest value of a term that is never negative; ``None``: it is not known, or may be negative."""
    if isinstance(term, int):
        return term if term >= 0 else None
    factor, x = integer_factor(term), term.children[-1] if isinstance(term, p.Product) else term
    if factor < 0 or not isinstance(x, p.Variable) or x.name not in extents or term != multiply(factor, x):
        return None
    return factor*(extents[x.name] - 1)


def _over(term: Expression, count: int) -> Expression:
    """*term*, whose integer factor is a multiple of *count*, divided by it."""
    if isinstance(term, int):
        return term // count
    factors = term.children if isinstance(term, p.Product) else (term,)
    others: Expression = 1
    for factor in factors:
        others = others if isinstance(factor, int) else multiply(others, factor)
    return multiply(integer_factor(term) // count, others)


def arithmetic(expr: Expression) -> ArithmeticExpression:
    """*expr*, a number or a node but not a tuple, with the type of operands of pymbolic's arithmetic nodes."""
    return cast(ArithmeticExpression, expr)


_T = isl.ast_expr_op_type
_OPERATIONS: Mapping[isl.ast_expr_op_type, Callable[..., Expression]] = {
    _T.add: add, _T.sub: subtract, _T.minus: partial(multiply, -1), _T.mul: multiply, _T.fdiv_q: floor_div,
    **dict.fromkeys((_T.pdiv_q, _T.div), TruncatedQuotient),
    **dict.fromkeys((_T.pdiv_r, _T.zdiv_r), TruncatedRemainder),
    _T.min: lambda *args: p.Min(_flat_operands(p.Min, args)), _T.max: lambda *args: p.Max(_flat_operands(p.Max, args)),
    # by name, as islpy's stub lacks members that are a Python keyword plus "_"
    **dict.fromkeys((isl.ast_expr_op_type["and_"], _T.and_then), partial(_junction, p.LogicalAnd, 1)),
    **dict.fromkeys((isl.ast_expr_op_type["or_"], _T.or_else), partial(_junction, p.LogicalOr, 0)),
    **dict.fromkeys((_T.cond, _T.select), p.If),
    **{kind: lambda left, right, op=op: readable_comparison(left, op, right) for kind, op in (
        (_T.eq, "=="), (_T.le, "<="), (_T.lt, "<"), (_T.ge, ">="), (_T.gt, ">"))}}


def from_pw_aff(value: isl.PwAff, context: isl.Set | None = None) -> Expression:
    """A piecewise affine form as an expression in its names, without the pieces that contradict *context*."""
    value = value.move_dims(DIM.param, value.dim(DIM.param), DIM.in_, 0, value.dim(DIM.in_)).project_domain_on_params()
    build = isl.AstBuild.alloc(isl.DEFAULT_CONTEXT) if context is None else isl.AstBuild.from_context(context)
    return from_ast_expr(build.expr_from_pw_aff(value))


def from_aff(value: isl.Aff, dims: Sequence[str] = ()) -> Expression:
    """A quasi-affine form of *dims* and its parameters as an expression that :func:`to_aff` reads."""
    denominator = value.get_denominator_val()
    whole = value.scale_val(denominator)
    names = {DIM.in_: dims, DIM.param: params_of(whole.space)}
    terms: list[tuple[int, Expression]] = [
        (to_int(whole.get_coefficient_val(kind, i)), p.Variable(x)) for kind, own in names.items()
        for i, x in enumerate(own)]
    terms += [(factor, from_aff(whole.get_div(i), dims)) for i in range(whole.dim(DIM.div))
              if (factor := to_int(whole.get_coefficient_val(DIM.div, i)))]
    terms.sort(key=lambda term: term[0] < 0)              # t_i - 2*t reads better than -2*t + t_i
    total = add(*(multiply(factor, x) for factor, x in terms), to_int(whole.get_constant_val()))
    return total if denominator.is_one() else floor_div(total, to_int(denominator))


def to_int(value: isl.Val) -> int:
    """The Python integer for *value*, an integer of isl."""
    return int(value.to_python())
