"""loopy's functions ``indexof(a[i, j])`` and ``indexof_vec``: the number of elements before one in memory.

Both become a function of the subscripts, which has its value when the layout of the array is final.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.constructors import annotated, rewritten
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.kernel.function_interface import functions_called
from loopkit.compat.loopy.spelling import values_in
from loopkit.errors import PreconditionError
from loopkit.expr.functions import function_of
from loopkit.expr.mappers import map_children
from loopkit.kernel.statement import with_expressions
from loopkit.language.arguments import Declared
from loopkit.poly.affine import add, multiply
from loopkit.poly.limits import bounded

#: A call; its element follows.
USED = re.compile(r"\b(?P<function>indexof(?:_vec)?)\s*\(\s*(?P<element>(?P<array>\w+)\s*\[)?")

#: The name of a function of subscripts: that of the function, the length of the array's name, the array, the kernel.
_PLACE = re.compile(r"(?P<function>indexof(?:_vec)?)_(?P<length>\d+)_(?P<names>\w+)")


@dataclass(frozen=True)
class Place:
    """loopy's *function*, and the *array* of *kernel* in which it finds an element."""

    function: str
    array: str
    kernel: str


def with_places(lines: Iterable[str], declared: Declared, kernel: str
                ) -> tuple[list[str], dict[str, lk.ScalarFunction]]:
    """*lines* with functions of subscripts, which are given too, for the functions of elements.

    >>> with_places(["y[i] = indexof(a[i, f(j)]) + 1"], {}, "knl")[0]
    ['y[i] = indexof_1_a_knl(i, f(j)) + 1']

    :raises PreconditionError: the argument of a call is not one element.
    """
    functions = dict[str, lk.ScalarFunction]()

    def placed(line: str) -> str:
        while (found := USED.search(line)) is not None:
            values, end = values_in(line, found.end())
            rest = line[end + 1:].lstrip()
            if found["array"] is None or not rest.startswith(")"):
                raise PreconditionError(f"The argument of '{found['function']}' is not an element of an array.",
                                        subject=found["function"], hint=f"{found['function']}(a[i])")
            offset = getattr(declared.get(found["array"]), "offset", None)
            values = [f"({values[0]}) + {offset}"] if offset else values      # an array with one axis
            name = f"{found['function']}_{len(found['array'])}_{found['array']}_{kernel}"
            functions[name] = lk.ScalarFunction(name, len(values), operands="iu")
            line = f"{line[:found.start()]}{name}({', '.join(values)}{rest}"
        return line
    return list(map(placed, lines)), functions


def place_in(function: lk.ScalarFunction | None) -> Place | None:
    """The place that *function* finds; ``None``: it is another function."""
    found = None if function is None else _PLACE.fullmatch(function.name)
    if found is None:
        return None
    length = int(found["length"])
    return Place(found["function"], found["names"][:length], found["names"][length + 1:])


def places_in(core: lk.LoopKernel) -> frozenset[Place]:
    """Those of the functions that *core* calls."""
    return frozenset(x for f in functions_called(core).values() if (x := place_in(f)) is not None)


def with_indices(core: lk.LoopKernel) -> lk.LoopKernel:
    """*core* with the indices in memory for such functions; the shapes of their arrays are those inferred.

    >>> f = lk.ScalarFunction("indexof_1_a_knl", 2, operands="iu")
    >>> knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "a[i, j] = indexof_1_a_knl(i, j)", functions=[f], name="knl")
    >>> print(with_indices(lk.tag_array_axes(knl, "a", "F")).statements_text)
    for i, j
      a[i, j] = i + n*j  {id=insn}
    end

    :raises PreconditionError: the layout of an array is not known, or the array belongs to another kernel.
    """
    places = places_in(core)
    if not places:
        return core
    for place in places:
        if place.kernel != core.name:
            raise PreconditionError(f"indexof: the array '{place.array}' belongs to the kernel '{place.kernel}', and "
                                    f"not to '{core.name}'.", subject=place.array,
                                    hint="use indexof in the kernel that a call enters, under its own name")
    names = {place.array for place in places}
    core = lk.expand_subst(core) if core.substitutions else core
    with bounded(f"finding places in memory in kernel '{core.name}'"):
        known = array_shapes(core)
        shapes = {name: _shape(core, name, known.get(name, (None,))) for name in names}
        strides = {name: [e for e in strides_of(core.array_args[name], own) if e is not None]
                   for name, own in shapes.items()}

        def replaced(expr: Expression) -> Expression:
            place, new = place_in(function_of(expr)), map_children(expr, replaced)
            if place is None:
                return new
            assert isinstance(new, p.Call)
            name = place.array
            if len(new.parameters) != len(strides[name]):
                raise PreconditionError(f"'{name}' has {len(strides[name])} axes now, and indexof was given "
                                        f"{len(new.parameters)} subscripts.", subject=name,
                                        hint="use indexof of arrays whose axes no step changes")
            return add(*(multiply(stride, x) for stride, x in zip(strides[name], new.parameters, strict=True)))
        arguments = tuple(replace(a, shape=shapes[a.name], order=a.order or ("C" if a.strides is None else None))
                          if isinstance(a, lk.GlobalArg) and a.name in names else a for a in core.arguments)
        statements = tuple(with_expressions(s, replaced) for s in core.statements)
        found = {f for f in core.functions.values() if place_in(f) is not None}
        return annotated(rewritten(core, statements=statements), arguments=arguments, functions={
            name: f for name, f in core.functions.items() if f not in found}, obligations=tuple(
                o for o in core.obligations if o.claim not in {f.claim for f in found}))


def _shape(core: lk.LoopKernel, name: str, shape: Sequence[Expression | None]) -> tuple[Expression, ...]:
    """The *shape* of an argument; :raises PreconditionError: it is not known, or its layout is not."""
    a, extents = core.array_args.get(name), tuple(e for e in shape if e is not None)
    if a is None or len(extents) < len(shape) or None in (a.strides or ()):
        raise PreconditionError(f"indexof: the layout of '{name}' in memory is not known.", subject=name,
                                hint="it is that of an argument with shape=, and without strides='auto'")
    return extents


def strides_of(data: lk.GlobalArg | lk.TemporaryVariable, shape: Sequence[Expression | None]
               ) -> Sequence[Expression | None]:
    """The distances in memory of neighbouring elements of an array of this *shape* along each of its axes.

    They are declared, or those of its order; ``None``: not known.
    """
    if isinstance(data, lk.GlobalArg) and data.strides is not None:
        return data.strides
    order = data.order if isinstance(data, lk.GlobalArg) else data.layout.order
    axes = tuple(range(len(shape)))
    from_outer = axes if order in ("C", None, ()) else axes[::-1] if order == "F" else map(int, order)
    found, step = dict[int, Expression | None](), cast("Expression | None", 1)
    for axis in reversed([*from_outer]):
        found[axis], extent = step, shape[axis]
        step = None if step is None or extent is None else multiply(step, extent)
    return [found[axis] for axis in axes]
