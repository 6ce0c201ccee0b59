"""Derivatives of expressions: a walk that multiplies the factors around each operand, down to the elements."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.functions import function_of
from loopkit.expr.kinds import kind_of
from loopkit.expr.mappers import substitute, variables
from loopkit.expr.nodes import COMBINED, Reduction, TypeCast, negated, onto, product_of, to_text
from loopkit.expr.parsing import KnownNames, parse_expression

#: For each function of the language that has them, its partial derivatives, by its arguments x, y and z.
DERIVATIVES: Mapping[str, tuple[str, ...]] = {
    "sqrt": ("0.5/sqrt(x)",), "rsqrt": ("-0.5*rsqrt(x)/x",), "cbrt": ("1/(3*cbrt(x)**2)",),
    "exp": ("exp(x)",), "expm1": ("exp(x)",), "exp2": ("0.6931471805599453*exp2(x)",),
    "exp10": ("2.302585092994046*exp10(x)",),
    "log": ("1/x",), "log1p": ("1/(1 + x)",), "log2": ("1.4426950408889634/x",), "log10": ("0.4342944819032518/x",),
    "sin": ("cos(x)",), "cos": ("-sin(x)",), "tan": ("1 + tan(x)**2",),
    "asin": ("1/sqrt(1 - x*x)",), "acos": ("-1/sqrt(1 - x*x)",), "atan": ("1/(1 + x*x)",),
    "sinh": ("cosh(x)",), "cosh": ("sinh(x)",), "tanh": ("1 - tanh(x)**2",),
    "asinh": ("1/sqrt(x*x + 1)",), "acosh": ("1/sqrt(x*x - 1)",), "atanh": ("1/(1 - x*x)",),
    "sinpi": ("3.141592653589793*cospi(x)",), "cospi": ("-3.141592653589793*sinpi(x)",),
    "erf": ("1.1283791670955126*exp(-x*x)",), "erfc": ("-1.1283791670955126*exp(-x*x)",),
    "abs": ("if(x < 0, -1, 1)",), "fabs": ("if(x < 0, -1, 1)",),
    "pow": ("y*pow(x, y - 1)", "pow(x, y)*log(x)"), "atan2": ("y/(x*x + y*y)", "-x/(x*x + y*y)"),
    "hypot": ("x/hypot(x, y)", "y/hypot(x, y)"), "fma": ("y", "x", "1"),
    "fmin": ("if(x <= y, 1, 0)", "if(x <= y, 0, 1)"), "fmax": ("if(x >= y, 1, 0)", "if(x >= y, 0, 1)"),
    "fdim": ("if(x > y, 1, 0)", "if(x > y, -1, 0)"),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "rint", "isnan", "isinf", "isfinite", "signbit"), ("0",))}

_ARGUMENTS = ("x", "y", "z")

#: From an element and a factor to their product with the derivative of the element; ``None``: it is zero.
Leaf = Callable[[p.Variable | p.Subscript, Expression], Expression | None]


@dataclass(frozen=True)
class Differentiator:
    """The derivative of expressions, by the derivatives of elements.

    Conditions select a branch, and count as constant. So the derivative is that of the function where it has one.

    :ivar leaf: the derivative of an element.
    :ivar active: the names whose elements have a derivative.
    :ivar functions: the partial derivatives of functions, beside those of :data:`DERIVATIVES`.
    """

    leaf: Leaf
    active: frozenset[str]
    functions: Mapping[str, Sequence[Expression]]

    def of(self, e: Expression, factor: Expression = 1) -> Expression:
        """*factor* times the derivative of *e*.

        >>> x, y = map(p.Variable, "xy")
        >>> by_x = Differentiator(lambda _, factor: factor, frozenset("x"), {})
        >>> print(to_text(by_x.of(parse_expression("y*sin(x)/x"))))
        (1 / x)*y*cos(x) - y*sin(x) / (x*x)

        :raises PreconditionError: a part of *e* has no known derivative.
        """
        terms = self._terms(e, factor)
        return 0 if not terms else terms[0] if len(terms) == 1 else p.Sum(tuple(terms))

    def is_active(self, e: Expression) -> bool:
        """Can *e* have a derivative other than zero?"""
        return not self.active.isdisjoint(variables(e))

    def _terms(self, e: Expression, f: Expression) -> list[Any]:
        if not self.is_active(e):
            return []
        match e:
            case p.Variable() | p.Subscript():
                found = self.leaf(e, f)
                return [] if found is None else [found]
            case p.Sum():
                return [term for child in e.children for term in self._terms(child, f)]
            case p.Product():
                return [term for k, child in enumerate(e.children)
                        for term in self._terms(child, times(f, *e.children[:k], *e.children[k + 1:]))]
            case p.Quotient(numerator=a, denominator=b):
                return [*self._terms(a, p.Quotient(f, b)),  # type: ignore[arg-type]
                        *self._terms(b, negated(p.Quotient(times(f, a), product_of(b, b))))]  # type: ignore[arg-type]
            case p.Power(base=base, exponent=exponent):
                return [*self._terms(base, times(f, exponent, _power(base, exponent))),
                        *self._terms(exponent, times(f, e, p.Call(p.Variable("log"), (base,))))]
            case p.If():
                return self._chosen(e.condition, e.then, e.else_, f)
            case p.Min() | p.Max():
                first, *rest = e.children
                other = rest[0] if len(rest) == 1 else type(e)(tuple(rest))
                operator = "<=" if isinstance(e, p.Min) else ">="
                return self._chosen(p.Comparison(first, operator, other), first, other, f)
            case p.Remainder(numerator=a, denominator=b) if not self.is_active(b):
                return self._terms(a, f)
            case p.FloorDiv() | p.Comparison() | p.LogicalAnd() | p.LogicalOr() | p.LogicalNot():
                return []
            case TypeCast():
                own = self._terms(e.child, f) if kind_of(e.dtype) == "f" else []
                return [TypeCast(e.dtype_name, p.Sum(tuple(own)) if len(own) > 1 else own[0])] if own else []
            case Reduction(operation="sum"):
                inner = self.of(e.expr, f)
                return [] if _is_zero(inner) else [Reduction(e.operation, e.inames, inner, e.declared)]
            case p.Call():
                return [term for argument, partial in zip(e.parameters, self._partials(e), strict=True)
                        for term in (() if _is_zero(partial) else self._terms(argument, times(f, partial)))]
            case _:
                raise self._unknown(e)

    def _chosen(self, condition: Expression, then: Expression, otherwise: Expression, f: Expression) -> list[Any]:
        a, b = self.of(then, f), self.of(otherwise, f)
        return [] if _is_zero(a) and _is_zero(b) else [p.If(condition, a, b)]

    def _partials(self, e: p.Call) -> Sequence[Expression]:
        """The partial derivatives of a call, by its arguments."""
        function = function_of(e)
        name = e.function.name if isinstance(e.function, p.Variable) else ""
        if name in self.functions and len(self.functions[name]) == len(e.parameters):
            partials: Sequence[Expression] = self.functions[name]
        elif function is not None and name in DERIVATIVES:
            partials = partials_of(DERIVATIVES[name])
        else:
            raise self._unknown(e)
        return [substitute(partial, dict(zip(_ARGUMENTS, e.parameters, strict=False))) for partial in partials]

    def _unknown(self, e: Expression) -> PreconditionError:
        name = e.function.name if isinstance(e, p.Call) and isinstance(e.function, p.Variable) else None
        hint = f"derivatives={{'{name}': [...]}}, with a text in x, y and z for each argument" if name else \
            "differentiate sums, products, quotients, powers, choices and functions"
        return PreconditionError(f"The derivative of '{to_text(e)}' is not known.", subject=to_text(e), hint=hint)


def partials_of(texts: Sequence[str], known: KnownNames | None = None) -> tuple[Expression, ...]:
    """The expressions of partial derivatives; :raises ParseError: one of *texts* is not an expression."""
    return tuple(parse_expression(text, "a derivative", known) for text in texts)


def times(*factors: Expression) -> Expression:
    """The product of *factors*, without those that are 1."""
    rest = [x for x in factors if not (isinstance(x, int) and x == 1)]
    if not rest:
        return 1
    return rest[0] if len(rest) == 1 else _flat_product(rest)


def _flat_product(factors: Sequence[Expression]) -> Expression:
    result = factors[0]
    for x in factors[1:]:
        result = onto(COMBINED["*"], result, x)
    return result


def _power(base: Expression, exponent: Expression) -> Expression:
    """*base* to the power of *exponent* - 1."""
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        return 1 if exponent == 1 else base if exponent == 2 else p.Power(base, exponent - 1)  # type: ignore[arg-type]
    return p.Power(base, p.Sum((exponent, -1)))  # type: ignore[arg-type]


def _is_zero(e: Expression) -> bool:
    return isinstance(e, int) and e == 0
