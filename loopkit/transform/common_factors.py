"""Factors that all increments of a temporary share are multiplied once, where its value is read."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, accesses_to, declared, expand_rules
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.dependences import dependences
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.dtypes import type_of
from loopkit.expr.mappers import array_of, map_children, subscripts_of, variables
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import arithmetic
from loopkit.poly.relations import differing
from loopkit.transform.step import require_dtype, require_no_rule, require_positive, transform

#: The subscripts along some axes, which identify a group of elements.
_Key = tuple[Expression, ...]


@transform
def collect_common_factors_on_increment(kernel: LoopKernel, var_name: str, vary_by_axes: int | Iterable[int] = ()
                                        ) -> LoopKernel:
    """Multiply the values of the temporary *var_name* by a common factor of its increments where they are read.

    ``t = t + f*a`` and ``y = t`` become ``t = t + a`` and ``y = f*t``. The factor must have the same value at each
    increment and at each read that gets its value: the kernel does not write its operands, and its inames are those of
    both statements. A result is the same but for rounding, if the factor is finite.

    :arg var_name: a temporary with a declared dtype. It is set to 0 or to a sum of products.
    :arg vary_by_axes: axes of the temporary, counted from 0. Elements with other subscripts along them may have other
        factors.
    :raises UnknownNameError: there is no such temporary.
    :raises PreconditionError: a dtype is unknown, an increment reads the temporary in another way, no factor is
        common to all increments, or the products are integers of another dtype.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", '''
    ...     for i
    ...         <float32> t = 0
    ...         for j
    ...             t = t + w[i]*a[i, j]
    ...         end
    ...         y[i] = 2*t
    ...     end
    ...     ''')
    >>> knl = lk.add_dtypes(knl, {"w,a": np.float32})
    >>> print(lk.collect_common_factors_on_increment(knl, "t").statements_text)
    for i
      <float32> t = 0  {id=insn}
      for j
        t = t + a[i, j]  {id=insn_0}
      end
      y[i] = 2*(w[i]*t)  {id=insn_1}
    end
    """
    require_known("temporary", [var_name], kernel.temporaries)
    require_no_rule(kernel, frozenset([var_name]))
    dtype = require_dtype(var_name, kernel.temporaries[var_name].dtype)
    axes = _valid_axes(kernel, var_name, vary_by_axes)
    products = {s.id: list(_increments(kernel, s, var_name)) for s in kernel.statements if s.written == var_name}
    groups: dict[_Key, list[str]] = {}
    for writer in products:
        groups.setdefault(_group_key(kernel.statement_by_id[writer].assignee, axes), []).append(writer)
    factors = {key: _common_factors(kernel, var_name, [x for writer in own for x in products[writer]]) for key, own in
               groups.items()}
    factors = _constant_along_flows(kernel, var_name, axes, factors, products)
    for key, own in groups.items():
        for writer in own if factors[key] else ():
            _require_same_integers(kernel, writer, products[writer], dtype)
    if not any(factors.values()):
        raise PreconditionError(f"The increments of '{var_name}' have no common factor with one value at them and at "
                                "the reads.", subject=var_name,
                                hint="a factor has the inames of the increments and of the reads, and the kernel does "
                                     "not write its operands")

    def of_read(e: Expression) -> Expression:
        if not isinstance(e, p.Variable | p.Subscript) or _name_of(e) != var_name:
            return map_children(e, of_read)
        own = factors.get(_group_key(e, axes), ())
        product: Expression = p.Product(tuple(map(arithmetic, (*own, e)))) if own else e
        given = type_of(product, lambda name: declared(kernel, name))
        return product if given == dtype else TypeCast(dtype.name, product)

    def with_factors(s: Statement) -> Statement:
        if s.written != var_name:
            return replace(s, expression=of_read(s.expression), predicates=tuple(map(of_read, s.predicates)))
        own = factors[_group_key(s.assignee, axes)]
        terms = [term if term == s.assignee or not products[s.id] else _without_factors(term, own)
                 for term in _terms_of_sum(s.expression)]
        return replace(s, expression=terms[0] if len(terms) == 1 else p.Sum(tuple(map(arithmetic, terms))))
    return rewritten(kernel, statements=tuple(map(with_factors, kernel.statements)))


def _valid_axes(kernel: LoopKernel, name: str, given: int | Iterable[int]) -> tuple[int, ...]:
    count = min((len(a.subscripts) for a in accesses_by_array(kernel).get(name, ())), default=0)
    listed = (given,) if isinstance(given, int) else tuple(given)
    for axis in listed:
        if require_positive(axis + 1, "an axis plus 1") > count:
            raise PreconditionError(f"'{name}' has no axis {axis}.", subject=name,
                                    hint=f"it has {count} axes, counted from 0")
    return listed


def _group_key(element: Expression, axes: Sequence[int]) -> _Key:
    return tuple(subscripts_of(element)[axis] for axis in axes)


def _name_of(element: p.Variable | p.Subscript) -> str | None:
    return array_of(element) if isinstance(element, p.Variable) or isinstance(element.aggregate, p.Variable) else None


def _terms_of_sum(expr: Expression) -> tuple[Expression, ...]:
    return expr.children if isinstance(expr, p.Sum) else (expr,)


def _factors_of(term: Expression) -> Iterator[Expression]:
    for part in term.children if isinstance(term, p.Product) else ():
        yield from _factors_of(part)
    if not isinstance(term, p.Product):
        yield term


def _increments(kernel: LoopKernel, s: Statement, name: str) -> Iterator[tuple[Expression, ...]]:
    """The factors of each term that *s* adds to *name*; none if *s* sets it to 0."""
    others = [term for term in _terms_of_sum(s.expression) if term != s.assignee]
    if s.combine is not None or len(_terms_of_sum(s.expression)) - len(others) > 1 or any(
            name in variables(e) for e in (*others, *s.subscripts, *s.predicates)):
        raise PreconditionError(f"'{s.id}' is not an increment of '{name}' by a value without it.", subject=s.id,
                                hint=f"write {name} = {name} + ..., with a sum of products")
    if others != [0]:
        yield from (tuple(_factors_of(term)) for term in others)


def _common_factors(kernel: LoopKernel, name: str, products: Sequence[tuple[Expression, ...]]
                    ) -> tuple[Expression, ...]:
    """The factors that all *products* have and whose operands the kernel does not write."""
    first = products[0] if products else ()
    return tuple(f for f in dict.fromkeys(first) if all(f in own for own in products)
                 and variables(expand_rules(f, kernel.substitutions)).isdisjoint(kernel.written_names))


def _constant_along_flows(kernel: LoopKernel, name: str, axes: Sequence[int],
                          factors: Mapping[_Key, tuple[Expression, ...]], products: Mapping[str, object]
                          ) -> dict[_Key, tuple[Expression, ...]]:
    """Those of *factors* with one value at both ends of each flow of *name*."""
    result = dict(factors)
    for d in dependences(kernel):
        if d.array != name or d.kind != "flow" or not products[d.source]:
            continue
        source, sink = kernel.statement_by_id[d.source], kernel.statement_by_id[d.sink]
        key = _group_key(source.assignee, axes)
        if name in sink.domain.params or any(name in variables(index) for index in sink.subscripts):
            raise PreconditionError(f"'{name}' is in a bound or in the written element of '{sink.id}'.", subject=name,
                                    hint="assign the value to another temporary first")
        if any(tuple(a.subscripts[axis] for axis in axes) != key
               for a in accesses_to(kernel, sink.id, name, is_write=False)):
            raise PreconditionError(f"'{sink.id}' reads values of '{name}' from '{source.id}', whose subscripts along "
                                    "vary_by_axes= are other ones.", subject=sink.id, hint="leave vary_by_axes= out")
        moving = {x for x in kernel.inames if x not in source.inames or x not in sink.inames or differing(
            d.relation, [(source.inames.index(x), sink.inames.index(x))]) is not None}
        result[key] = tuple(f for f in result[key]
                            if variables(expand_rules(f, kernel.substitutions)).isdisjoint(moving))
    return result


def _require_same_integers(kernel: LoopKernel, writer: str, products: Sequence[tuple[Expression, ...]],
                           dtype: np.dtype) -> None:
    """:raises PreconditionError: a product of *writer* may lose digits that it has in *dtype*."""
    for product in products:
        given = type_of(p.Product(tuple(map(arithmetic, product))), lambda name: declared(kernel, name))
        if given is None:
            raise PreconditionError(f"The dtype of a product that '{writer}' adds is unknown.", subject=writer,
                                    hint="declare the dtypes of its operands with add_dtypes")
        if isinstance(given, np.dtype) and given.kind in "iu" and given != dtype:
            raise PreconditionError(f"'{writer}' adds a product of dtype {given} to a sum of dtype {dtype}, which "
                                    "holds other values.", subject=writer,
                                    hint=f"write cast({dtype}, ...) around the operands, or give both one dtype")


def _without_factors(term: Expression, factors: Sequence[Expression]) -> Expression:
    """The product *term* without one of each of *factors*."""
    rest = list(_factors_of(term))
    for f in factors:
        rest.remove(f)
    return 1 if not rest else rest[0] if len(rest) == 1 else p.Product(tuple(map(arithmetic, rest)))
