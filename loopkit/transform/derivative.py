"""diff_kernel: the kernel that computes derivatives of a kernel's results, in forward mode."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, TypeInferenceError
from loopkit.expr.derivatives import Differentiator, partials_of
from loopkit.expr.kinds import kind_of
from loopkit.expr.mappers import array_of, element, subexpressions, subscripts_of, variables
from loopkit.expr.nodes import TypeCast
from loopkit.expr.parsing import KnownNames
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import Argument, GlobalArg, TemporaryVariable, ValueArg
from loopkit.kernel.instruction import Assignment, StatementPlace
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.limits import bounded
from loopkit.poly.sets import InstanceSet, bounded_by
from loopkit.shown import ENTRY_POINTS
from loopkit.transform.arguments import remove_unused_arguments
from loopkit.transform.definition import with_statements
from loopkit.transform.instructions import place_of
from loopkit.transform.step import known_list, require_fresh


@checked
def diff_kernel(kernel: LoopKernel, diff_outputs: str | Iterable[str], by: str, diff_iname_prefix: str = "diff_i",
                batch_axes_in_by: Collection[int] = frozenset(), copy_outputs: str | Iterable[str] = frozenset(),
                *, derivatives: Mapping[str, str | Sequence[str]] | None = None) -> tuple[LoopKernel, dict[str, str]]:
    """Make the kernel that computes the derivatives of *diff_outputs* by the elements of the argument *by*.

    Each variable ``z`` that depends on ``x`` gets a variable ``z_dx`` with the axes of ``z`` and those of ``x``. Before
    each assignment to ``z`` stands one to ``z_dx``, in the same loops and in loops over the elements of ``x``. The
    kernel keeps the statements and arguments that the derivatives need. It is a definition, as by
    :func:`with_statements`.

    Conditions, roundings and integers count as constant. If a statement reads an argument ``z`` before another writes
    it, the call passes the derivative of the initial ``z`` as ``z_dx``.

    :arg diff_outputs: the variables, ``"y, z"`` or a sequence.
    :arg diff_iname_prefix: the inames of the elements are this name with a number.
    :arg batch_axes_in_by: axes of *by* that ``z_dx`` does not have: all elements along these axes change together, as
        is right if each batch has results of its own.
    :arg copy_outputs: further variables that the kernel computes.
    :arg derivatives: for functions, the texts of their partial derivatives by each argument, in ``x``, ``y`` and ``z``:
        ``{"f": "3*x**2"}``. The functions of the language have derivatives, except for a few.
    :returns: the kernel, and the names of the derivatives by those of the outputs.
    :raises UnknownNameError: a name is not an argument or a temporary.
    :raises PreconditionError: an output does not depend on *by*; *by* is written, a size, an integer, or of unknown
        shape; a number is complex; the derivative of an expression is not known; or see :func:`with_statements`.
    :raises ParseError: one of *derivatives* is not an expression.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, a[i, j]*x[j]**2)")
    >>> dknl, names = lk.diff_kernel(knl, "y", by="x")
    >>> names
    {'y': 'y_dx'}
    >>> print(dknl.statements_text)
    for i, diff_i0
      y_dx[i, diff_i0] = sum(j, if(diff_i0 == j, a[i, j]*2*x[j], 0))  {id=insn_dx}
    end
    """
    with bounded(f"differentiating kernel '{kernel.name}'"):
        data = {**kernel.argument_by_name, **kernel.temporaries}
        outputs = known_list("argument or temporary", diff_outputs, data)
        copies = known_list("argument or temporary", copy_outputs, data)
        _require_argument(kernel, by)
        shape = _shape_of(kernel, by, batch_axes_in_by)
        plan = _plan(kernel, outputs, _Variable(by, shape, frozenset(batch_axes_in_by)), diff_iname_prefix,
                     _functions(kernel, derivatives))
        statements = plan.statements(outputs, copies)
        arguments, temporaries = _data(kernel, plan, statements)
        domains = [*kernel.domains, *([plan.elements] if shape else [])]
        result = with_statements(kernel, statements, domains, kernel_data=[*arguments, *temporaries, "..."])
    return remove_unused_arguments(result), {x: plan.names[x] for x in outputs}


# Preconditions

def _require_argument(kernel: LoopKernel, by: str) -> None:
    """:raises PreconditionError: the derivatives by *by* do not exist."""
    known_list("argument", [by], kernel.argument_by_name)
    argument = kernel.argument_by_name[by]
    if by in kernel.written_names:
        raise PreconditionError(f"The kernel writes to '{by}', which is the variable of the derivative.",
                                subject=by, hint="differentiate by an argument that the kernel only reads")
    if any(by in d.params for d in kernel.domains):
        raise PreconditionError(f"'{by}' bounds loops, and there is no derivative by it.", subject=by)
    if argument.dtype is not None and kind_of(argument.dtype) in "biu":
        raise PreconditionError(f"'{by}' is {argument.dtype}, and derivatives are by real numbers.", subject=by)
    for datum in (*kernel.arguments, *kernel.temporaries.values()):
        if datum.dtype is not None and kind_of(datum.dtype) == "c":
            raise PreconditionError(f"'{datum.name}' is {datum.dtype}, and derivatives are of real numbers.",
                                    subject=datum.name, hint="write real and imaginary parts as separate arrays")


def _shape_of(kernel: LoopKernel, by: str, batch_axes: Collection[int]) -> tuple[Expression, ...]:
    """The extents of the axes of *by*, without *batch_axes*."""
    shape = () if isinstance(kernel.argument_by_name[by], ValueArg) else array_shapes(kernel).get(by, ())
    if wrong := [k for k in batch_axes if not 0 <= k < len(shape)]:
        raise PreconditionError(f"'{by}' has {len(shape)} axes, but no axis {wrong[0]}.", subject=by)
    extents = [e for k, e in enumerate(shape) if k not in batch_axes]
    if any(e is None or not is_quasi_affine(e) for e in extents):
        raise PreconditionError(f"The shape of '{by}' is unknown, or not affine in the sizes.", subject=by,
                                hint=f"declare it: lk.GlobalArg('{by}', shape=...)")
    return tuple(e for e in extents if e is not None)


def _functions(kernel: LoopKernel, given: Mapping[str, str | Sequence[str]] | None
               ) -> dict[str, Sequence[Expression]]:
    """The partial derivatives of the user's functions."""
    known = KnownNames(functions=kernel.functions)
    return {name: partials_of((texts,) if isinstance(texts, str) else tuple(texts), known)
            for name, texts in (given or {}).items()}


# The plan of the new kernel

@dataclass(frozen=True)
class _Variable:
    """The argument by which a kernel is differentiated.

    :ivar shape: the extents of its axes, without *batch_axes*.
    """

    name: str
    shape: Sequence[Expression]
    batch_axes: frozenset[int]


@dataclass(frozen=True)
class _Plan:
    """The derivatives of a kernel's instructions.

    :ivar names: the derivatives by the names of the variables that have one.
    :ivar shape: the number of elements by which it differentiates, along each axis.
    :ivar elements: the domain of the elements by which it differentiates.
    :ivar differentials: for each instruction, the one that computes its derivative, if there is one.
    """

    kernel: LoopKernel
    instructions: Sequence[Assignment]
    names: Mapping[str, str]
    shape: Sequence[Expression]
    elements: InstanceSet
    differentials: Sequence[Assignment | None]

    def statements(self, outputs: Iterable[str], copies: Iterable[str]) -> list[Assignment]:
        """The instructions from which the derivatives of *outputs* and the variables *copies* follow, in order."""
        wanted = {*(self.names[x] for x in outputs), *copies}
        every = [insn for pair in zip(self.differentials, self.instructions, strict=True) for insn in pair
                 if insn is not None]
        kept = _reached(wanted, lambda found: {x for insn in every if insn.written in found for x in self._reads(insn)})
        return [_with_known_dependences(insn, every, kept) for insn in every if insn.written in kept]

    def _reads(self, insn: Assignment) -> frozenset[str]:
        """The names that *insn* reads, also in the bounds of its loops and reductions."""
        own = [expand_rules(e, self.kernel.substitutions) for e in _evaluated_by(insn)]
        bounds = (set(InstanceSet.parse(text).params) for e in own for part in subexpressions(e)
                  for text in getattr(part, "declared", ()))
        return frozenset(place_of(insn).domain.params).union(*bounds, *map(variables, own))


def _value_of(insn: Assignment) -> Expression:
    assert not isinstance(insn.expression, str)
    return insn.expression


def _evaluated_by(insn: Assignment) -> tuple[Expression, ...]:
    """The expressions that *insn* evaluates."""
    assert not isinstance(insn.assignee, str)
    return (*subscripts_of(insn.assignee), _value_of(insn), *insn.predicates)


def _with_known_dependences(insn: Assignment, every: Iterable[Assignment], wanted: Collection[str]) -> Assignment:
    """*insn* without ``dep=`` and ``nosync=`` on instructions that write none of the *wanted* variables."""
    ids = {str(x.id) for x in every if x.written in wanted}
    return insn.copy(depends_on=insn.depends_on & ids, no_sync_with=insn.no_sync_with & ids)


def _plan(kernel: LoopKernel, outputs: Sequence[str], variable: _Variable, prefix: str,
          functions: Mapping[str, Sequence[Expression]]) -> _Plan:
    by, shape = variable.name, variable.shape
    instructions = kernel.instructions
    expanded = [expand_rules(_value_of(insn), kernel.substitutions) for insn in instructions]
    flow = [(insn.written, variables(e)) for insn, e in zip(instructions, expanded, strict=True)]
    active = _active(kernel, by, flow)
    if missing := [x for x in outputs if x not in active]:
        raise PreconditionError(f"'{missing[0]}' does not depend on '{by}'.", subject=missing[0],
                                hint="its derivative is zero")
    needed = _reached(outputs, lambda found: {x for written, read in flow if written in found for x in read & active})
    taken: list[str] = []

    def new(name: str) -> str:
        taken.append(kernel.fresh_name(name, *taken))
        return taken[-1]
    names = {x: new(f"{x}_d{by}") for x in sorted(needed - {by})}
    inames = tuple(new(f"{prefix}{k}") for k in range(len(shape)))
    for x in inames:
        require_fresh(kernel, x)
    elements = InstanceSet.universe(inames).where(
        *(c for x, extent in zip(inames, shape, strict=True) for c in bounded_by(x, 0, extent)))

    def derivative(e: p.Variable | p.Subscript, factor: Expression) -> Expression | None:
        index = subscripts_of(e)
        if array_of(e) != by:
            own = element(names[array_of(e)], (*index, *map(p.Variable, inames)))
            return own if factor == 1 and isinstance(factor, int) else p.Product((factor, own))  # type: ignore[arg-type]
        rest = [i for k, i in enumerate(index) if k not in variable.batch_axes]
        conditions = tuple(p.Comparison(p.Variable(x), "==", i) for x, i in zip(inames, rest, strict=True))
        chosen = p.LogicalAnd(conditions) if len(conditions) > 1 else conditions[0] if conditions else None
        factor = factor if variables(factor) else _real(factor)
        return factor if chosen is None else p.If(chosen, factor, 0)
    by_elements = Differentiator(derivative, active, functions)

    def differential(insn: Assignment, e: Expression) -> Assignment | None:
        if insn.written not in names:
            return None
        place, written = place_of(insn), insn.assignee
        value = by_elements.of(e)
        assert not isinstance(written, str)
        target = element(names[insn.written], (*subscripts_of(written), *map(p.Variable, inames)))
        if value == target:
            return None
        name = new(f"{insn.id}_d{by}")
        domain = place.domain.onto((*place.domain.inames, *inames)).intersect(elements)
        return insn.copy(
            assignee=target, expression=value, id=name, temp_var_type=None, within_inames=domain.inames,
            place=StatementPlace(domain, (*place.loops, *((x, name) for x in inames))))
    return _Plan(kernel, instructions, names, shape, elements,
                 [differential(insn, e) for insn, e in zip(instructions, expanded, strict=True)])


def _real(number: Expression) -> Expression:
    """*number*, an expression without names, as a real number: a derivative is one."""
    return float(number) if isinstance(number, int) else number if isinstance(number, float) else \
        TypeCast("float64", number)


def _active(kernel: LoopKernel, by: str, flow: Iterable[tuple[str, frozenset[str]]]) -> frozenset[str]:
    """*by* and the real variables that depend on it.

    :arg flow: for each instruction, the variable that it writes and those in its value.
    """
    integers = {d.name for d in (*kernel.arguments, *kernel.temporaries.values())
                if d.dtype is not None and kind_of(np.dtype(d.dtype)) in "biu"}
    return _reached([by], lambda found: {written for written, read in flow if not found.isdisjoint(read)} - integers)


def _reached(start: Iterable[str], further: Callable[[set[str]], set[str]]) -> frozenset[str]:
    """*start* and all names that *further* finds from those found before."""
    found = set(start)
    while new := further(found) - found:
        found |= new
    return frozenset(found)


def _data(kernel: LoopKernel, plan: _Plan, statements: Iterable[Assignment]
          ) -> tuple[list[Argument], list[TemporaryVariable]]:
    """The arguments, and the temporaries of *statements*, with those of the derivatives."""
    written = {insn.written for insn in statements}
    try:
        typed: LoopKernel = ENTRY_POINTS["types"](kernel)
    except TypeInferenceError:
        typed = kernel                                  # the dtypes of the derivatives follow later, from their values
    arguments, temporaries = list(kernel.arguments), [t for t in kernel.temporaries.values() if t.name in written]
    for x, name in plan.names.items():
        if name not in written:
            continue
        datum = typed.data[x]
        shape = None if datum.shape is None else (*datum.shape, *plan.shape)
        if isinstance(datum, GlobalArg):
            arguments.append(GlobalArg(name, datum.dtype, shape))
        else:
            temporaries.append(TemporaryVariable(name, datum.dtype, shape, datum.address_space))
    return arguments, temporaries
