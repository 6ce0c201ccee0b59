"""concatenate_arrays: one temporary in place of several."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, why_inexact
from loopkit.analysis.constructors import with_dependences, with_other_axes
from loopkit.analysis.legality import proven
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import add
from loopkit.poly.elements import outside
from loopkit.shown import ENTRY_POINTS
from loopkit.transform import step
from loopkit.transform.reindex import folded, substituted, substituted_rules
from loopkit.transform.step import known_list, transform


@transform
def concatenate_arrays(kernel: LoopKernel, array_names: str | Iterable[str], new_name: str | None = None,
                       axis_nr: int = 0) -> LoopKernel:
    """Put temporaries one behind the other into one temporary, along the axis *axis_nr*.

    All accesses stay within the part of their temporary, which is proven. Values then flow as before.

    :arg array_names: the temporaries, in the order of their parts.
    :arg new_name: the name of the new temporary; default: ``concatenated_array``.
    :raises UnknownNameError: a name is not a temporary.
    :raises PreconditionError: the temporaries differ in another axis, in their dtypes or their address spaces; there is
        no such axis; an extent is unknown; an access is outside of its temporary.
    :raises UndecidedError: a subscript is not affine.
    :raises TypeInferenceError: a dtype is unknown.

    >>> knl = lk.make_kernel("{[i]: 0<=i<10}", "<> a[i] = x[i]\\n<> b[i] = 2*x[i]\\ny[i] = a[i] + b[i]")
    >>> knl = lk.concatenate_arrays(lk.add_dtypes(knl, {"x": np.float32}), "a, b", "c")
    >>> print(knl.statements_text)
    for i
      c[i] = x[i]  {id=insn}
      c[i + 10] = 2*x[i]  {id=insn_0}
      y[i] = c[i] + c[i + 10]  {id=insn_1}
    end
    >>> knl.temporaries["c"].shape
    (20,)
    """
    names = known_list("temporary", array_names, kernel.temporaries)
    if len(set(names)) < max(2, len(names)):
        raise PreconditionError("concatenate_arrays needs two or more different temporaries.",
                                subject=", ".join(names), hint="name each temporary once")
    joint, starts = _joint_temporary(kernel, names, axis_nr)
    name = _free_name(kernel, new_name, names)
    for x in names:
        _require_inside(kernel, x)

    def moved(array: str, own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        at = axis_nr % len(own)
        return (*own[:at], add(own[at], starts[array]), *own[at + 1:])
    result = with_other_axes(kernel, names, moved, lambda _, own: own)
    values = dict.fromkeys(names, p.Variable(name))
    temporaries = {name if x == names[0] else x: replace(joint, name=name) if x == names[0] else t
                   for x, t in kernel.temporaries.items() if x not in names[1:]}
    return proven(with_dependences(
        result, lambda found, _: (replace(d, array=name) if d.array in names else d for d in found),
        statements=tuple(substituted(s, values) for s in result.statements),
        substitutions=substituted_rules(result.substitutions, values), temporaries=temporaries))


def _free_name(kernel: LoopKernel, name: str | None, old: Sequence[str]) -> str:
    """*name*, which may be one of the *old* ones, or a new name."""
    return name if name is not None and name in old else step.new_name(kernel, name, "concatenated_array")


def _joint_temporary(kernel: LoopKernel, names: Sequence[str], axis: int
                     ) -> tuple[TemporaryVariable, dict[str, Expression]]:
    """The temporary that has the cells of all of *names*, and the subscript at which the part of each starts."""
    typed = ENTRY_POINTS["types"](kernel).temporaries
    shapes = array_shapes(kernel)
    whole: TemporaryVariable | None = None
    starts: dict[str, Expression] = {}
    end: Expression = 0
    for x in names:
        shape = shapes.get(x, ())
        if not -len(shape) <= axis < len(shape):
            raise PreconditionError(f"'{x}' has {len(shape)} axes, but no axis {axis!r}.", subject=x)
        at = axis % len(shape)
        known = tuple(folded(e) for e in shape if e is not None)
        if len(known) < len(shape):
            raise PreconditionError(f"The shape of '{x}' is unknown.", subject=x,
                                    hint=f"declare it: lk.TemporaryVariable('{x}', shape=...)")
        rest = replace(typed[x], name="", shape=(*known[:at], 1, *known[at + 1:]), note="")
        if whole is not None and whole != rest:
            raise PreconditionError(f"'{names[0]}' and '{x}' differ: {_described(whole, at)}, and "
                                    f"{_described(rest, at)}.", subject=x,
                                    hint="concatenate temporaries that are alike but for the extent of one axis")
        whole = rest if whole is None else whole
        starts[x] = end
        end = add(end, known[at])
    assert whole is not None
    assert whole.shape is not None
    at = axis % len(whole.shape)
    return replace(whole, shape=(*whole.shape[:at], end, *whole.shape[at + 1:])), starts


def _described(temporary: TemporaryVariable, axis: int) -> str:
    extents = ", ".join("..." if k == axis else to_text(e) for k, e in enumerate(temporary.shape or ()))
    space = f" in {temporary.address_space} memory" if temporary.address_space is not None else ""
    return f"{temporary.dtype}[{extents}]{space}"


def _require_inside(kernel: LoopKernel, name: str) -> None:
    """:raises PreconditionError, UndecidedError: an access to *name* may be outside of it."""
    for a in accesses_by_array(kernel).get(name, ()):
        if not a.affine:
            raise UndecidedError(f"Whether '{a.statement}' stays within '{name}' cannot be decided.",
                                 why_inexact(kernel, a) or "", hint="concatenate temporaries with affine subscripts")
        if outside(a.relation, array_shapes(kernel)[name], kernel.assumptions) is not None:
            raise PreconditionError(f"'{a.statement}' accesses '{name}' outside of its shape.", subject=name,
                                    hint="check_bounds(knl) shows the element")
