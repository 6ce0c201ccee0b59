"""Expressions to and from isl: quasi-affine forms in, AST expressions out."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import ArithmeticExpression, Expression

DIM = isl.dim_type


class NotAffineError(Exception):
    """An expression that is no quasi-affine form of the allowed names (internal; callers decide)."""


@lru_cache(maxsize=4096)
def set_space(params: tuple[str, ...], dims: tuple[str, ...]) -> isl.Space:
    """The anonymous set space ``[params] -> { [dims] }`` with its dimensions named."""
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, len(params), len(dims))
    for i, name in enumerate(params):
        space = space.set_dim_name(DIM.param, i, name)
    for i, name in enumerate(dims):
        space = space.set_dim_name(DIM.set, i, name)
    return space


def names_in(expr: Expression) -> set[str]:
    """The variables of a quasi-affine expression; :raises NotAffineError: it is none."""
    found: set[str] = set()

    def walk(e: object) -> None:
        match e:
            case p.Variable():
                found.add(e.name)
            case p.Sum() | p.Product() | p.Min() | p.Max():
                for child in e.children:
                    walk(child)
            case p.FloorDiv() | p.Remainder():
                walk(e.numerator)
                walk(e.denominator)
            case bool():
                raise NotAffineError(str(e))
            case int():
                pass
            case _:
                raise NotAffineError(str(e))
    walk(expr)
    return found


@lru_cache(maxsize=65536)
def _aff(expr: Expression, dims: tuple[str, ...], params: tuple[str, ...]) -> isl.Aff:
    local = isl.LocalSpace.from_space(set_space(params, dims))

    def constant(value: int) -> isl.Aff:
        return isl.Aff.zero_on_domain(local).set_constant_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value))

    def integer(e: object) -> int | None:
        if isinstance(e, int) and not isinstance(e, bool):
            return e
        if isinstance(e, p.Sum | p.Product):
            values = [integer(c) for c in e.children]
            if any(v is None for v in values):
                return None
            total = 0 if isinstance(e, p.Sum) else 1
            for v in values:
                assert v is not None
                total = total + v if isinstance(e, p.Sum) else total * v
            return total
        return None

    def walk(e: object) -> isl.Aff:
        match e:
            case p.Variable(name=name):
                if name in dims:
                    return isl.Aff.var_on_domain(local, DIM.set, dims.index(name))
                return isl.Aff.var_on_domain(local, DIM.param, params.index(name))
            case int():
                return constant(e)
            case p.Sum(children=children):
                result = walk(children[0])
                for child in children[1:]:
                    result = result.add(walk(child))
                return result
            case p.Product(children=children):
                factor, rest = 1, None
                for child in children:
                    value = integer(child)
                    if value is not None:
                        factor *= value
                    elif rest is None:
                        rest = walk(child)
                    else:
                        raise NotAffineError(str(e))
                if rest is None:
                    return constant(factor)
                return rest.scale_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, factor))
            case p.FloorDiv(numerator=numerator, denominator=denominator):
                divisor = integer(denominator)
                if not divisor or divisor < 0:
                    raise NotAffineError(str(e))
                return walk(numerator).scale_down_val(
                    isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor)).floor()
            case p.Remainder(numerator=numerator, denominator=denominator):
                divisor = integer(denominator)
                if not divisor or divisor < 0:
                    raise NotAffineError(str(e))
                return walk(numerator).mod_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor))
            case _:
                raise NotAffineError(str(e))
    return walk(expr)


def to_aff(expr: Expression, dims: Sequence[str], params: Collection[str] | None = None) -> isl.Aff:
    """*expr* as a function of *dims*; other names become parameters.

    :arg params: the names allowed as parameters; ``None`` allows any.
    :raises NotAffineError: *expr* is not quasi-affine, or it uses another name.
    """
    names = names_in(expr)
    free = names.difference(dims)
    if params is not None and not free <= set(params):
        raise NotAffineError(str(expr))
    return _aff(expr, tuple(dims), tuple(sorted(free)))


def is_quasi_affine(expr: Expression, dims: Sequence[str] = (), params: Collection[str] | None = None) -> bool:
    """Is *expr* one quasi-affine form, without cases, of *dims* and of *params* (``None``: of any other names)?"""
    try:
        to_aff(expr, dims, params)
    except NotAffineError:
        return False
    return True


def affine_difference(a: Expression, b: Expression) -> int | None:
    """The integer ``a - b`` where the difference of two quasi-affine forms is constant, else ``None``."""
    try:
        difference = to_aff(subtract(a, b), ())
    except NotAffineError:
        return None
    return difference.get_constant_val().to_python() if difference.is_cst() else None


# {{{ AST expressions from isl

@p.expr_dataclass()
class TruncatedQuotient(p.FloorDiv):
    """``a // b`` for which isl has shown that C's ``/`` is right: the operands are not negative."""


@p.expr_dataclass()
class TruncatedRemainder(p.Remainder):
    """``a % b`` for which isl has shown that C's ``%`` is right: not negative, or only compared with zero."""


_T = isl.ast_expr_op_type
# by name, as islpy's stub lacks members that are a Python keyword plus "_"
_AND = (isl.ast_expr_op_type["and_"], _T.and_then)
_OR = (isl.ast_expr_op_type["or_"], _T.or_else)


def from_ast_expr(expr: isl.AstExpr) -> Expression:
    """An isl AST expression as a pymbolic one, with folded constants.

    ``fdiv_q`` becomes ``//``, Python's floor division; ``pdiv_q`` and ``pdiv_r``, which isl uses where
    the operands are not negative (or only zero matters), become the nodes that are C's ``/`` and ``%``.
    """
    kind = cast(isl.ast_expr_type, expr.get_type())      # islpy's stub says int, here and below
    if kind == isl.ast_expr_type.id:
        return p.Variable(str(expr.get_id().name))
    if kind == isl.ast_expr_type.int:
        return int(expr.get_val().to_python())
    op = cast(isl.ast_expr_op_type, expr.get_op_type())
    args = [from_ast_expr(expr.get_op_arg(i)) for i in range(expr.get_op_n_arg())]
    if op in _COMPARISONS:
        return readable_comparison(args[0], _COMPARISONS[op], args[1])
    if op == _T.add:
        return add(args[0], args[1])
    if op == _T.sub:
        return subtract(args[0], args[1])
    if op == _T.minus:
        return multiply(-1, args[0])
    if op == _T.mul:
        return multiply(args[0], args[1])
    if op == _T.fdiv_q:
        return floor_div(args[0], args[1])
    if op in (_T.pdiv_q, _T.div):
        return TruncatedQuotient(arithmetic(args[0]), arithmetic(args[1]))
    if op in (_T.pdiv_r, _T.zdiv_r):
        return TruncatedRemainder(arithmetic(args[0]), arithmetic(args[1]))
    if op == _T.min:
        return p.Min(_flat(p.Min, args))
    if op == _T.max:
        return p.Max(_flat(p.Max, args))
    if op in _AND:
        return _junction(p.LogicalAnd, args, neutral=1)
    if op in _OR:
        return _junction(p.LogicalOr, args, neutral=0)
    if op in (_T.cond, _T.select):
        return p.If(args[0], args[1], args[2])
    raise NotAffineError(expr.to_C_str())


def _junction(kind: type[p.LogicalAnd | p.LogicalOr], args: Sequence[Expression], *, neutral: int) -> Expression:
    """Conditions joined; isl writes a part that always holds, or never, as a number."""
    parts = [a for a in _flat(kind, args) if a != neutral]
    if 1 - neutral in parts or not parts:
        return 1 - neutral if parts else neutral
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


_COMPARISONS = {_T.eq: "==", _T.le: "<=", _T.lt: "<", _T.ge: ">=", _T.gt: ">"}


def readable_comparison(left: Expression, op: str, right: Expression) -> Expression:
    """``a >= b + 1`` as ``b < a`` and ``a >= b`` as ``b <= a``, larger coefficients first."""
    if op in (">=", ">"):
        left, op, right = right, {">=": "<=", ">": "<"}[op], left
    left, right = ordered(left), ordered(right)
    if op == "<=" and left == 1 and isinstance(right, TruncatedRemainder):
        return p.Comparison(right, "!=", 0)
    if op == "<=":
        if isinstance(left, p.Sum) and left.children[-1] == 1:
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
    return p.Sum((*sorted(terms, key=lambda t: -_coefficient(t)), *constants))


def _coefficient(term: Expression) -> int:
    return term.children[0] if isinstance(term, p.Product) and isinstance(term.children[0], int) else 1


def _flat(node: type[p.Min | p.Max | p.LogicalAnd | p.LogicalOr], args: Sequence[Expression]
          ) -> tuple[Expression, ...]:
    return tuple(part for arg in args for part in (arg.children if isinstance(arg, node) else (arg,)))


# }}}


# {{{ arithmetic

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
        return p.Product((a, *b.children)) if isinstance(b, p.Product) else p.Product((a, arithmetic(b)))
    left = a.children if isinstance(a, p.Product) else (arithmetic(a),)
    right = b.children if isinstance(b, p.Product) else (arithmetic(b),)
    return p.Product((*left, *right))


def subtract(a: Expression, b: Expression) -> Expression:
    """``a - b`` with like terms collected."""
    return add(a, multiply(-1, b))


def floor_div(a: Expression, b: Expression) -> p.FloorDiv:
    """``a // b``, not simplified."""
    return p.FloorDiv(arithmetic(a), arithmetic(b))


def rounded_once(expr: Expression) -> Expression:
    """``k - (15*k + 14) // 16``, isl's form of a quotient that is rounded up, as ``(k + 1) // 16``.

    *expr* itself if that is not shorter.
    """
    for term in expr.children if isinstance(expr, p.Sum) else ():
        match term:
            case p.Product(children=(-1, p.FloorDiv(numerator=numerator, denominator=int(m)))) if m > 0:
                rest = subtract(expr, term)
                inside = add(multiply(m, rest), multiply(-1, numerator), m - 1)
                if _weight(inside) < _weight(numerator):
                    return floor_div(inside, m)
    return expr


def _weight(form: Expression) -> int:
    """The sum of the absolute values of the coefficients of *form*."""
    terms = form.children if isinstance(form, p.Sum) else (form,)
    return sum(abs(t) if isinstance(t, int) else abs(_coefficient(t)) for t in terms)


def remainder(a: Expression, b: Expression) -> p.Remainder:
    """``a % b``, not simplified."""
    return p.Remainder(arithmetic(a), arithmetic(b))


def arithmetic(expr: Expression) -> ArithmeticExpression:
    """*expr*, a number or a node and not a tuple, with the type that pymbolic's arithmetic nodes take."""
    return cast(ArithmeticExpression, expr)

# }}}


# {{{ piecewise forms

def from_pw_aff(value: isl.PwAff, context: isl.Set | None = None) -> Expression:
    """A piecewise affine form as an expression in the names of its parameters and dimensions.

    :arg context: facts about the parameters; pieces that contradict them are dropped.
    """
    parameters = _to_params(value)
    build = isl.AstBuild.from_context(context if context is not None else isl.Set.universe(
        isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0)))
    return from_ast_expr(build.expr_from_pw_aff(parameters))


def from_aff(value: isl.Aff, dims: Sequence[str] = ()) -> Expression:
    """A quasi-affine form of *dims* and its parameters as an expression that :func:`to_aff` reads."""
    denominator = value.get_denominator_val()
    params = [str(value.get_dim_name(DIM.param, i)) for i in range(value.dim(DIM.param))]
    terms: list[Expression] = []

    def coefficient(kind: isl.dim_type, i: int) -> int:
        return int(value.get_coefficient_val(kind, i).mul(denominator).to_python())
    for kind, own in ((DIM.in_, dims), (DIM.param, params)):
        terms += [multiply(coefficient(kind, i), p.Variable(name)) for i, name in enumerate(own)]
    for i in range(value.dim(DIM.div)):
        if factor := coefficient(DIM.div, i):
            terms.append(multiply(factor, from_aff(value.get_div(i), dims)))
    total = add(*terms, int(value.get_constant_val().mul(denominator).to_python()))
    divisor = int(denominator.to_python())
    return total if divisor == 1 else floor_div(total, divisor)


def _to_params(value: isl.PwAff) -> isl.PwAff:
    n = value.dim(DIM.in_)
    at = value.dim(DIM.param)
    value = value.move_dims(DIM.param, at, DIM.in_, 0, n) if n else value
    return value.project_domain_on_params() if value.dim(DIM.in_) == 0 else value

# }}}
