"""fix_parameters: replaces value arguments by numbers."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import index as as_integer

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain, declared, expand_rules, maybe_real
from loopkit.analysis.constructors import Image, between_images, specialized
from loopkit.analysis.shapes import without_inferred_shapes
from loopkit.errors import PreconditionError, UnknownNameError
from loopkit.expr.dtypes import BOOL, INT32, INT64, WEAK_INT, Type, Weak, join, rank_of, resolve, type_of, weak
from loopkit.expr.intervals import interval, of_dtype
from loopkit.expr.kinds import kind_of
from loopkit.expr.mappers import children, conjunction, map_children, split_affine, substitute
from loopkit.expr.nodes import Neutral, TypeCast, onto, to_text
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, with_expressions
from loopkit.poly.piecewise import constrained
from loopkit.poly.sets import InstanceSet, fix_params
from loopkit.transform.data import reshaped, reshaped_temporaries
from loopkit.transform.reindex import substituted, substituted_rules, with_domains
from loopkit.transform.step import transform

Number = bool | int | float | complex


@transform
def fix_parameters(kernel: LoopKernel, /, **value_dict: Number) -> LoopKernel:
    """Replace value arguments by numbers and remove them from the arguments.

    Sizes take integers. A real value is rounded to the dtype of its argument, as in a call. Computed values keep their
    dtype: for a float32 argument ``alpha``, ``y[i] = 2*alpha`` becomes ``y[i] = cast(float32, 2*0.5)``.

    :raises UnknownNameError: a name is not a value argument.
    :raises PreconditionError: the argument cannot hold the value, or the assumptions exclude the value; an argument has
        an integer dtype other than int32 and int64; or sums or products of an int64 argument would be computed with
        fewer than 64 bits.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = alpha*x[i]")
    >>> knl = lk.fix_parameters(knl, n=64, alpha=2.5)
    >>> print(knl.domains_text, knl.statements_text, sep="\\n")
    { [i] : 0 <= i <= 63 }
    for i
      y[i] = 2.5*x[i]  {id=insn}
    end
    """
    given = {name: _fixed(kernel, name, value) for name, value in value_dict.items()}
    values = {name: number for name, (number, _) in given.items()}
    sizes = {name: v for name, v in values.items() if isinstance(v, int) and not isinstance(v, bool)}
    assumptions = fix_params(kernel.assumptions, sizes)
    if assumptions.is_empty():
        raise PreconditionError(f"The kernel's assumptions exclude {values}.", subject=", ".join(values))
    types = _Types(kernel, values, {name: own for name, (_, own) in given.items()})
    rules = {r.name: replace(r, expr=types.compared(r.expr)) for r in kernel.substitutions.values()}
    plain = specialized(
        kernel, lambda found, _: (replace(d, relation=fix_params(d.relation, sizes)) for d in found),
        statements=with_domains((substituted(types.kept(s), values) for s in kernel.statements),
                                lambda domain: domain.named(fix_params(domain.set, sizes))), assumptions=assumptions,
        declared_domains=tuple(d.named(fix_params(d.set, sizes)) for d in kernel.declared_domains),
        arguments=without_inferred_shapes(reshaped(a, values) for a in kernel.arguments if a.name not in values),
        temporaries=reshaped_temporaries(kernel, values), substitutions=substituted_rules(rules, values))
    return _with_conditions_in_domains(plain)


def _with_conditions_in_domains(kernel: LoopKernel) -> LoopKernel:
    """*kernel* with its affine conditions moved into the instance sets, as if made with the numbers."""
    names = frozenset[str]().union(*(s.domain.params for s in kernel.statements)) & kernel.value_params
    names |= {a.name for a in kernel.arguments if isinstance(a, ValueArg) and a.dtype is not None} & kernel.value_params
    parts = {s.id: split_affine(conjunction(s.predicates), names.union(s.inames))
             for s in kernel.statements if s.predicates}
    affine = {s: found for s, (found, _) in parts.items()}
    for node in kernel.reductions.values():
        # the conditions of its statement narrow the init of a reduction too
        if kernel.statement_by_id[node.init].inames == kernel.statement_by_id[node.final].inames and node.sweep is None:
            own = affine.get(node.init, ())
            affine[node.init] = (*own, *(c for c in affine.get(node.final, ()) if c not in own
                                         and all(c in affine.get(s, ()) for s in node.updates)))
    if not any(affine.values()):
        return kernel
    domains: dict[tuple[object, ...], InstanceSet] = {}     # statements that share a set keep sharing it

    def narrowed(s: Statement) -> Statement:
        conditions = affine.get(s.id, ())
        if not conditions:
            return s
        domain = domains.setdefault((id(s.domain), conditions), constrained(s.domain, conditions))
        return replace(s, domain=domain, predicates=parts[s.id][1] if s.id in parts else ())
    statements = tuple(map(narrowed, kernel.statements))
    images = {s.id: (Image(s.id, within=analysis_domain(kernel, s).set),) for s in statements if affine.get(s.id)}
    return specialized(kernel, lambda found, _: between_images(found, images), statements=statements)


_KINDS = ("a truth value", "an integer", "a real number", "a complex number")


def _fixed(kernel: LoopKernel, name: str, value: object) -> tuple[Number, Type]:
    """The number in place of the argument *name*, and the type of the argument."""
    argument = kernel.argument_by_name.get(name)
    if not isinstance(argument, ValueArg):
        raise UnknownNameError("value argument", name, [a.name for a in kernel.arguments if isinstance(a, ValueArg)])
    dtype, is_size = argument.dtype, argument.dtype is None and name not in maybe_real(kernel)
    if dtype is not None and kind_of(dtype) in "iu" and dtype not in (INT32, INT64):
        raise PreconditionError(
            f"'{name}' is {dtype}, but only integers of int32 and int64 can be fixed: a literal has no other integer "
            "dtype.", subject=name, hint="pass it to each call")
    number, own = _python_number(value)
    rank = -1 if own is None else rank_of(weak(own))
    wanted = 1 if is_size else rank if dtype is None else rank_of(weak(dtype))
    if number is None or rank > wanted or (rank == 0) != (wanted == 0):
        raise PreconditionError(
            f"'{name}' {'is a size' if is_size else f'is {dtype}' if dtype is not None else 'is a number'}: it can be "
            f"fixed to {_KINDS[max(wanted, 0)] if wanted >= 0 else 'a number'}, not to {value!r}.", subject=name,
            hint=f"fix_parameters(knl, {name}={('True', '4', '0.5', '2j')[wanted] if wanted >= 0 else '0.5'})")
    own = dtype or own
    assert own is not None
    if wanted > 1:
        with np.errstate(over="ignore"):
            number = own.type(number).item() if own.kind != "V" else float(own.type(number))
    if not (np.isfinite(number) if wanted > 1 else wanted == 0 or of_dtype(own).holds(int(number.real))):
        raise PreconditionError(f"'{name}' is {own}, which has no literal for {value!r}.", subject=name,
                                hint="pass it to each call")
    return number, WEAK_INT if is_size else weak(own)


def _python_number(value: object) -> tuple[Number | None, np.dtype | None]:
    """*value* as a Python number, and the dtype that a call would give the argument; ``None`` if it is not a number."""
    if isinstance(value, np.ndarray):
        value = value[()] if not value.shape else None
    if isinstance(value, np.generic) and kind_of(value.dtype) in "biufc":
        return (float(value) if value.dtype.kind == "V" else value.item()), value.dtype
    for kind, dtype in ((bool, BOOL), (float, np.dtype(np.float64)), (complex, np.dtype(np.complex128))):
        if isinstance(value, kind):
            return value, dtype
    return (as_integer(value), INT64) if hasattr(value, "__index__") else (None, None)


@dataclass(frozen=True)
class _Types:
    """The types of expressions before *values* are substituted; *own*: those of the fixed arguments."""

    kernel: LoopKernel
    values: Mapping[str, Expression]
    own: Mapping[str, Type]

    def kept(self, s: Statement) -> Statement:
        """*s* with casts where literals would change a dtype: in comparisons, and in results without declared dtype."""
        s = with_expressions(s, self.compared)
        if isinstance(s.expression, Neutral):
            return s
        for predicate in s.predicates:
            self._require_width(s, predicate)
        given = self._type(s.expression, {})
        if given != weak(INT64):
            self._require_width(s, s.expression)
        if not isinstance(given, Weak):
            return s
        datum = self.kernel.data.get(s.written)
        adapts = datum is not None and datum.dtype is not None and given != weak(INT64)
        return s if adapts else replace(s, expression=self._cast(s.expression, s.expression))

    def compared(self, e: Expression) -> Expression:
        """*e* where comparisons of adaptable numbers keep their dtype."""
        e = map_children(e, self.compared)
        if not isinstance(e, p.Comparison):
            return e
        found = [self._type(x, {}) for x in (e.left, e.right)]
        if None in found or rank_of(join(*(t for t in found if t is not None))) < 2:    # integers are compared exactly
            return e
        return p.Comparison(self._cast(e.left, onto(p.Sum, e.left, e.right)), e.operator, e.right)

    def _require_width(self, s: Statement, e: Expression) -> None:
        """:raises PreconditionError: *e*, a part of a value, has adaptable 64-bit integers, which literals lack."""
        if isinstance(e, p.Subscript | p.Variable) or not isinstance(e, p.ExpressionNode):
            return
        old = self._type(e, {})
        if isinstance(e, p.Comparison) and all(self._type(x, {}) in (WEAK_INT, weak(INT64)) for x in children(e)):
            return                                          # sizes are compared as indices are
        if not isinstance(old, Weak) or old.rank > 1:
            if isinstance(e, p.Sum | p.Product):        # computed from the left
                first = tuple(takewhile(lambda x: isinstance(self._type(x, {}), Weak), e.children))
                self._require_width(s, type(e)(first) if 1 < len(first) < len(e.children) else 0)
            for child in children(e):
                self._require_width(s, child)
        elif old == weak(INT64) and self._cast(e, e) is not e and not interval(
                substitute(expand_rules(e, self.kernel.substitutions), self.values),
                lambda leaf: of_dtype(INT32)).inside(INT32):
            raise PreconditionError(
                f"'{s.id}' computes {to_text(e)} with 64 bits, and literals would have fewer.", subject=s.id,
                hint="write cast(int64, ...) in the kernel, or pass the values to each call")

    def _cast(self, e: Expression, whole: Expression) -> Expression:
        """*e* cast to the former dtype of *whole*, if its dtype would change."""
        old, new = self._type(whole, {}), self._type(whole, self.values)
        if not isinstance(old, Weak) or new is None or resolve(old) == resolve(new):
            return e
        return TypeCast(resolve(old).name, e)

    def _type(self, e: Expression, values: Mapping[str, Expression]) -> Type | None:
        def lookup(name: str) -> Type | None:
            # another argument without a dtype may be anything
            return self.own.get(name) or (None if name in maybe_real(self.kernel) else declared(self.kernel, name))
        return type_of(substitute(expand_rules(e, self.kernel.substitutions), values), lookup)
