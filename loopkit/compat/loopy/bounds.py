"""The bounds that loopy leaves to the caller: those of accesses with arguments that no domain mentions."""
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import loopkit as lk
from loopkit.analysis.accesses import Access, accesses_by_array, analysis_domain
from loopkit.analysis.shapes import Shape, array_shapes, with_shapes_of_affine_accesses
from loopkit.compat.loopy.dtypes import with_loopy_dtypes
from loopkit.compat.loopy.index_of import with_indices
from loopkit.compat.loopy.kernel.definition import condition_of
from loopkit.errors import LoopkitError
from loopkit.expr.mappers import variables
from loopkit.poly.elements import outside
from loopkit.poly.limits import bounded
from loopkit.poly.piecewise import is_piecewise
from loopkit.poly.sets import Set


def ready(core: lk.LoopKernel) -> lk.LoopKernel:
    """*core* as it is compiled: with loopy's dtypes, its shapes, and the assumptions that loopy leaves to the caller.

    An array whose shape is not declared has the extents that its affine subscripts need: those that come from memory
    do not count.

    loopy checks no access whose subscripts, or whose array's extents, have an argument that the domains of its
    statement do not mention. Such an access then may be outside of its array for some arguments; each call is checked.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i + s] = 1.0", [lk.GlobalArg("y", np.float64, ("m",)), "..."])
    >>> print(ready(knl).assumptions.is_subset(lk.assume(knl, "n <= 0 or (s >= 0 and s + n <= m)").assumptions))
    True
    """
    with bounded(f"looking at the bounds of kernel '{core.name}'"):
        typed = with_shapes_of_affine_accesses(with_loopy_dtypes(with_indices(core)))
        good = reduce(Set.subtract, _sizes_outside(typed), typed.assumptions)
        some = [s.domain.set.params() for s in typed.statements if not s.domain.is_empty()]
        # a statement that runs at no other sizes is wrong at all
        if good is typed.assumptions or any(map(good.is_disjoint, some)):
            return typed
    return lk.assume(typed, good)


#: A condition that a number divides a form of sizes.
_DIVIDES = re.compile(r"\bmod\b|%")


def without_divisibility(core: lk.LoopKernel) -> lk.LoopKernel | None:
    """*core* without assumptions such as ``n mod 4 = 0``; ``None``: it has none, or a step needs them.

    loopy takes them for hints: it checks no call.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n >= 4 and n mod 4 = 0")
    >>> print(without_divisibility(lk.split_iname(knl, "i", 4)).assumptions)
    [n] -> {  : n >= 4 }
    """
    made, given = core.history.made, [step.args[0] for step in core.history.steps if step.name == "assume"]
    arguments: dict[str, Any] = {} if made is None else made.arguments()
    stated = arguments.get("assumptions")
    if not any(_DIVIDES.search(str(x)) for x in (stated, *given)):
        return None
    try:
        knl = lk.make_kernel(**{**arguments, "assumptions": _left(stated)})
        for step in core.history.steps:
            left = _left(step.args[0]) if step.name == "assume" else None
            new = step if left is None else replace(step, args=(left, *step.args[1:]))
            knl = knl if left == "" else replace(core.history, steps=(new,)).replay(knl)
    except LoopkitError:
        return None
    return knl


def _left(assumptions: Any) -> str | None:
    """*assumptions* without those of divisibility."""
    parts = [] if assumptions is None else re.split(r"\band\b", condition_of(assumptions))
    return " and ".join(x.strip() for x in parts if not _DIVIDES.search(x)) if parts else None


def _sizes_outside(knl: lk.LoopKernel) -> Iterator[Set]:
    """The sizes at which an access that loopy does not check is outside of its array."""
    shapes = array_shapes(knl)
    for name, accesses in accesses_by_array(knl).items():
        shape = shapes.get(name)
        if name in knl.array_args and shape is not None and all(e is None or is_piecewise(e) for e in shape):
            for a in accesses:
                bad = outside(a.relation, shape, knl.assumptions) if a.affine and _is_unchecked(knl, a, shape) else None
                if bad is not None:
                    yield bad.params()


def _is_unchecked(knl: lk.LoopKernel, a: Access, shape: Shape) -> bool:
    domain = analysis_domain(knl, knl.statement_by_id[a.statement])
    own = domain.named(domain.set.gist_params(knl.assumptions).drop_unused_params())
    names = frozenset[str]().union(*(variables(e) for e in (*a.subscripts, *shape) if e is not None))
    return not names <= {*own.inames, *own.params}
