"""loopy's expressions: nodes of pymbolic and of loopkit, mappers over them, texts, names, and forms of isl."""
from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic import mapper
from pymbolic.mapper.dependency import DependencyMapper as PymbolicDependencies
from pymbolic.mapper.substitutor import SubstitutionMapper as PymbolicSubstitution
from pymbolic.primitives import Variable
from pymbolic.typing import Expression

from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.spelling import counted_calls
from loopkit.compat.loopy.types import as_numpy
from loopkit.compat.loopy.typing import is_integer
from loopkit.errors import TypeInferenceError, UndecidedError
from loopkit.expr import nodes
from loopkit.expr.functions import FUNCTIONS, function_of
from loopkit.expr.kinds import DTYPE_NAMES
from loopkit.expr.mappers import children, map_children, substitute, variables
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.language.names import name_list
from loopkit.poly import affine
from loopkit.poly.limits import bounded
from loopkit.poly.quasi_polynomials import polynomial_of
from loopkit.poly.substitution import polynomial_from_isl

__all__ = ["CombineMapper", "DependencyMapper", "IdentityMapper", "Reduction", "ResolvedFunction", "SubArrayRef",
           "SubstitutionMapper", "TypeCast", "WalkMapper", "aff_from_expr", "aff_to_expr", "get_dependencies",
           "is_expression_equal", "parse", "pw_aff_to_expr", "qpolynomial_to_expr", "simplify_via_aff"]


# Nodes

@p.expr_dataclass()
class SubArrayRef(p.ExpressionNode):
    """``[i]: a[i, j]``: a slice of an array, which a call passes to a function of the user."""

    swept_inames: tuple[Variable, ...]
    subscript: Expression


class _OfNodes(type):
    """A class whose instances are nodes of loopkit."""

    node: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)


class Reduction(metaclass=_OfNodes):
    """``sum([i, j], expr)``: *operation* over *inames* of *expr*; one iname may stand alone. A node of loopkit."""

    node = nodes.Reduction

    def __new__(cls, operation: Any, inames: Any, expr: Expression,                             # type: ignore[misc]
                allow_simultaneous: bool = False) -> nodes.Reduction:
        listed = [inames] if isinstance(inames, Variable) else name_list(inames) if isinstance(inames, str) else inames
        names = [x.name if isinstance(x, Variable) else x for x in listed]
        return nodes.Reduction(str(operation), tuple(names), expr)


class TypeCast(metaclass=_OfNodes):
    """*child* converted to a dtype; a node of loopkit. :raises TypeInferenceError: a number has no such dtype."""

    node = nodes.TypeCast

    def __new__(cls, typename: Any, child: Expression) -> nodes.TypeCast:                       # type: ignore[misc]
        dtype = as_numpy(typename)
        if dtype.kind not in "biufc":
            raise TypeInferenceError(f"A number cannot be converted to the dtype {dtype}.", subject=str(dtype),
                                     hint="cast each field of a structured value")
        return nodes.TypeCast(dtype.name, child)


class _OfFunctions(type):
    """A class whose instances are the names of known functions."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Variable) and function_of(p.Call(instance, ())) is not None


class ResolvedFunction(metaclass=_OfFunctions):
    """The name of a function in a call, which the language has or the user registered; a variable of pymbolic.

    >>> isinstance(parse("sin(x)").function, ResolvedFunction), isinstance(parse("f(x)").function, ResolvedFunction)
    (True, False)
    """

    def __new__(cls, function: Any) -> Variable:                                                 # type: ignore[misc]
        return function if isinstance(function, Variable) else Variable(function)


# Mappers

class _Rebuilding:
    """Maps loopkit's nodes as a mapper of pymbolic that makes expressions maps others."""

    def _mapped(self: Any, expr: Any, /, *args: Any, **kwargs: Any) -> Any:
        return map_children(expr, lambda child: self.rec(child, *args, **kwargs))

    map_reduction = map_type_cast = map_make_tuple = map_combined = map_neutral = _mapped

    def map_sub_array_ref(self: Any, expr: SubArrayRef, /, *args: Any, **kwargs: Any) -> Any:
        return SubArrayRef(expr.swept_inames, self.rec(expr.subscript, *args, **kwargs))


class _Visiting:
    """Visits the parts of loopkit's nodes, and combines what they give if the mapper combines."""

    def _visited(self: Any, expr: Any, /, *args: Any, **kwargs: Any) -> Any:
        parts = (expr.subscript,) if isinstance(expr, SubArrayRef) else children(expr)
        if isinstance(self, mapper.CombineMapper):
            return self.combine([self.rec(part, *args, **kwargs) for part in parts])
        if self.visit(expr, *args, **kwargs):
            for part in parts:
                self.rec(part, *args, **kwargs)
        return None

    map_reduction = map_type_cast = map_make_tuple = map_combined = map_neutral = map_sub_array_ref = _visited


class IdentityMapper(_Rebuilding, mapper.IdentityMapper):  # type: ignore[type-arg]
    """pymbolic's mapper, also of loopkit's nodes."""


class SubstitutionMapper(_Rebuilding, PymbolicSubstitution):
    """pymbolic's mapper, also of loopkit's nodes."""


class WalkMapper(_Visiting, mapper.WalkMapper):  # type: ignore[type-arg]
    """pymbolic's mapper, also of loopkit's nodes."""


class CombineMapper(_Visiting, mapper.CombineMapper):  # type: ignore[type-arg]
    """pymbolic's mapper, also of loopkit's nodes."""


class DependencyMapper(_Visiting, PymbolicDependencies):  # type: ignore[type-arg]
    """pymbolic's mapper, also of loopkit's nodes; a reduction binds its inames."""

    def map_reduction(self, expr: nodes.Reduction, /, *args: Any, **kwargs: Any) -> Any:
        return self.rec(expr.expr, *args, **kwargs) - set(map(Variable, expr.inames))


# Texts and names

def with_plain_integers(expr: Any) -> Any:
    """*expr* with Python's integers in place of numpy's."""
    return int(expr) if is_integer(expr) else map_children(expr, with_plain_integers)


def parse(expr_str: str) -> Any:
    """*expr_str* as an expression, whose functions may be any.

    >>> print(parse("2*x[i] + f(1, i)"))
    2*x[i] + f(1, i)
    """
    unknown = {name: count for name, count in counted_calls(expr_str).items()
               if name not in FUNCTIONS and name not in DTYPE_NAMES and name not in BUILT_IN}
    inames = {name for found in _REDUCTION.finditer(expr_str) for name in found["inames"].split(",")}
    known = KnownNames({x.strip() for x in inames}, unknown)
    return _with_wide_numbers(parse_expression(with_parentheses(expr_str), "an expression", known))


def _with_wide_numbers(expr: Any) -> Any:
    """*expr* with the dtype complex128 for complex literals, which a text gives them."""
    new: Any = map_children(expr, _with_wide_numbers)
    return np.complex128(new) if isinstance(new, complex) else new


#: The inames of a reduction.
_REDUCTION = re.compile(r"\b(?:(?:sum|product|any|all|argmin|argmax)\(|reduce\(\s*\w+\s*,)\s*\[?"
                        r"(?P<inames>\w+(?:\s*,\s*\w+(?=[^\[]*\]))*)")


def get_dependencies(expr: Any) -> frozenset[str]:
    """The names in *expr*, or in each of several expressions."""
    several = expr if isinstance(expr, Iterable) and not hasattr(expr, "mapper_method") else [expr]
    return frozenset(x for e in several for x in variables(e))


# Forms of isl

def aff_to_expr(aff: Any) -> Expression:
    """The quasi-affine form *aff* of isl as an expression.

    >>> import islpy
    >>> print(aff_to_expr(islpy.Aff("[n] -> { [i] -> [(n + 2*floor(i/4))] }")))
    n + 2*(i // 4)
    """
    with bounded("the expression of a form of isl"):
        return _in_order(affine.from_aff(aff, affine.names_of(aff.get_domain_space())))


def pw_aff_to_expr(pw_aff: Any, int_ok: bool = True) -> Expression:
    """The piecewise form *pw_aff* of isl as an expression with a condition for each piece but one."""
    with bounded("the expression of a form of isl"):
        return _in_order(affine.from_pw_aff(pw_aff))


def qpolynomial_to_expr(qpoly: Any) -> Expression:
    """The quasi-polynomial *qpoly* of isl, whose values are whole numbers, as an expression.

    >>> import islpy
    >>> (_, polynomial), = islpy.PwQPolynomial("[n] -> { 1/2*n + 1/2*n^2 }").get_pieces()
    >>> print(qpolynomial_to_expr(polynomial))
    (n + n**2) // 2
    """
    with bounded("the expression of a polynomial of isl"):
        terms = polynomial_from_isl(qpoly).terms
    below = math.lcm(*(factor.denominator for factor in terms.values()))
    total: Expression = 0
    for monomial, factor in terms.items():
        term: Expression = int(factor*below)
        for atom, power in monomial:
            term = affine.multiply(term, atom if power == 1 else p.Power(affine.arithmetic(atom), power))
        total = affine.add(total, term)
    return total if below == 1 else affine.floor_div(total, below)


def _in_order(expr: Expression) -> Expression:
    """*expr* with the terms of its sums in loopy's order: the number, names, and quotients."""
    def rank(term: Expression) -> int:
        parts = term.children if isinstance(term, p.Product) else (term,)
        return max(0 if is_integer(x) else 1 if isinstance(x, Variable) else 2 for x in parts)
    new = map_children(expr, _in_order)
    return p.Sum(tuple(sorted(new.children, key=rank))) if isinstance(new, p.Sum) else new


def aff_from_expr(space: Any, expr: Expression, vars_to_zero: Iterable[str] = ()) -> Any:
    """*expr* as a form of isl of the dimensions and parameters of *space*, with *vars_to_zero* equal to 0.

    :raises UndecidedError: *expr* is not a quasi-affine form of these names.
    """
    expr = substitute(with_plain_integers(expr), dict.fromkeys(vars_to_zero, 0))
    with bounded("the form of an expression"):
        form = affine.if_affine(lambda: affine.aff_in(space, expr))
    if form is None:
        raise UndecidedError(f"{nodes.to_text(expr)} has no form of isl.",
                             f"it is not a quasi-affine form of the names of {space}")
    return form


def simplify_via_aff(expr: Expression) -> Expression:
    """The quasi-affine *expr* as isl simplifies it; others stay as they are.

    >>> print(simplify_via_aff(parse("(4*i + 8*j) // 4 + j - i")))
    3*j
    """
    with bounded("the form of an expression"):
        form = affine.if_affine(lambda: affine.to_aff(expr, ()))
        return expr if form is None else affine.from_aff(form)


def is_expression_equal(a: Expression, b: Expression) -> bool:
    """Are both expressions the same polynomial? For others: are they the same?

    >>> is_expression_equal(parse("(x + 2)**2"), parse("x**2 + 4*x + 4"))
    True
    """
    return bool(a == b) or polynomial_of(a) == polynomial_of(b)
