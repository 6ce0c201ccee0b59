"""Affine transformations of inames: skew, shift, reverse, and any bijective map."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within, matching_names
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import iname_span
from loopkit.analysis.witnesses import parameters_of
from loopkit.errors import ParseError, PreconditionError, ScheduleError, instance_text, require_known, values_text
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import parse_expression
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.language.names import name_list
from loopkit.poly.affine import add, is_quasi_affine, multiply, subtract
from loopkit.poly.domains import (
    AnyMap,
    affine_ends,
    constraint_lists,
    inverse,
    read_map,
    solutions,
    two_with_one_image,
    with_several_images,
)
from loopkit.poly.sets import InstanceSet, Map, lexmin_point
from loopkit.transform.reindex import Reindexing, reindex, reindex_loops
from loopkit.transform.step import (
    known_list,
    matching_statements,
    require_fresh,
    require_iname,
    require_owners,
    require_untagged,
    require_whole_reductions,
    transform,
    with_given_order,
)

#: ``"i = j + 2*k"``, or its two sides.
Equation = str | tuple[str | Expression, str | Expression]


@transform
def skew(kernel: LoopKernel, iname: str, by: Mapping[str, int] | str, *,
         within: Within = None, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Skew the loop over *iname*: add multiples of the inames of outer loops to *iname*.

    In iteration ``t`` of the outer loop, *iname* then counts from ``t`` instead of 0. The iterations keep their order.
    A dependence that pointed backwards along *iname* from one iteration of an outer loop to the next may now point
    forwards, so that the two loops can be tiled or interchanged.

    *by* may be any affine form. A skew by ``address % line`` aligns each tile to a cache line even when rows start
    at arbitrary addresses: row *j* of 29 elements begins ``29*j % 8`` elements after a multiple of 8.

    :arg by: a mapping from each outer iname to its integer factor (``{"t": 1}``), or an affine form as a text, with
        ``//`` and ``%`` by integers. The loops over these inames must enclose the loop over *iname*.
    :arg within: the statements whose loops are skewed; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: *kernel* lacks one of the inames.
    :raises ParseError: *by* cannot be read.
    :raises PreconditionError: *iname* has a tag, or *by* is neither a mapping to integers nor an affine form.
    :raises ScheduleError: a loop over *iname* is not nested inside a loop over each iname of *by*.
    :raises IllegalTransformError: a dependence between iterations of a parallel outer loop would be broken.

    >>> knl = lk.make_kernel("{[t, i]: 0<=t<m and 1<=i<n}", "a[t+1, i] = a[t, i-1] + a[t, i] + a[t, i+1]")
    >>> knl = lk.skew(knl, "i", by={"t": 1})
    >>> print(knl.domains_text)
    [m, n] -> { [t, i] : 0 <= t < m and t < i < n + t }
    >>> print(lk.tile(knl, {"t": 8, "i": 32}).paths["insn"][0].iname)
    t_outer
    >>> knl = lk.make_kernel("{[j, i]: 0<=j<m and 0<=i<29}", "y[j, i] = 2*x[j, i]")
    >>> print(lk.skew(knl, "i", by="29*j % 8").statements_text)
    for j, i
      y[j, i - 29*j % 8] = 2*x[j, i - 29*j % 8]  {id=insn}
    end
    """
    chosen, owners = _chosen(kernel, (iname,), within, "skewed")
    start, outer = _skew_start(kernel, iname, by)
    for x, s in product(outer, owners):
        loops = loops_of(kernel.paths[s.id])
        if x == iname or x not in loops[:loops.index(iname)]:
            way = (f"interchange(knl, '{iname}', '{x}') first" if x in loops and x != iname
                   else "skew by inames of the loops around it, and name the statements with within=")
            raise ScheduleError(f"The loop over '{iname}' around '{s.id}' is not inside a loop over '{x}'.",
                                subject=iname, hint=way)
    step = Reindexing((iname,), {iname: subtract(p.Variable(iname), start)})
    result = reindex_loops(kernel, step, chosen, assume=assume, unsafe=unsafe)
    result = with_given_order(result, *((x, iname) for x in outer))
    return require_legal(result, f"skew({iname}, by={by})", assume=assume, unsafe=unsafe)


@transform
def shift(kernel: LoopKernel, iname: str, by: int | str, *, within: Within = None,
          assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Add *by* to *iname*: its loop counts from another start and runs the same iterations.

    If *within* selects some of the statements of a loop, these statements run *by* iterations later than the others,
    and the loop gains as many iterations.

    :arg by: an integer, or an affine form in the parameters (``"n - 1"``).
    :arg within: the statements that are shifted; default: all.
    :raises UnknownNameError: there is no such iname.
    :raises ParseError: *by* cannot be read.
    :raises PreconditionError: *iname* has a tag, or *by* is not an affine form in the parameters.
    :raises ScheduleError: *within* names a part of a reduction.
    :raises IllegalTransformError: the statements of *within* would run too late or too early for others of their loop.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\\n a[i] = x[i] {id=A}\\n b[i] = 2*x[i] {id=B}\\nend")
    >>> knl = lk.shift(knl, "i", 1, within="B")
    >>> print(knl.statements_text)
    for i
      a[i] = x[i]  {id=A}
      b[i - 1] = 2*x[i - 1]  {id=B}
    end
    >>> print(knl.domains_text)
    [n] -> { [i] : 0 <= i < n }
    [n] -> { [i] : 0 < i <= n }
    """
    chosen, _ = _chosen(kernel, (iname,), within, "shifted")
    distance = parse_expression(by, what="the distance of a shift") if isinstance(by, str) else int(by)
    if not is_quasi_affine(distance, (), kernel.value_params):
        raise PreconditionError(f"shift needs an integer or an affine form in the parameters, not {by!r}.",
                                subject="by", hint="shift(knl, 'i', 1) or shift(knl, 'i', 'n - 1')")
    step = Reindexing((iname,), {iname: subtract(p.Variable(iname), distance)})
    result = reindex(kernel, step, kernel.tree, chosen)
    return require_legal(result, f"shift({iname}, {by})", assume=assume, unsafe=unsafe)


@transform
def reverse(kernel: LoopKernel, iname: str, *, within: Within = None,
            assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Run the loops over *iname* from their last iteration to their first.

    Generated loops count upwards. So ``low + high - iname`` replaces *iname*, where *low* is its least value and *high*
    its greatest; the range of *iname* stays the same. If *low* or *high* is not an affine form in the parameters
    (``min(n, m) - 1``), ``-iname`` replaces *iname*.

    :arg within: the statements whose loops are reversed; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: *iname* has a tag.
    :raises ScheduleError: *within* names a part of a reduction.
    :raises IllegalTransformError: a loop carries a dependence between its iterations; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> print(lk.reverse(knl, "i").statements_text)
    for i
      y[n - i - 1] = 2*x[n - i - 1]  {id=insn}
    end
    """
    chosen, _ = _chosen(kernel, (iname,), within, "reversed")
    ends = affine_ends(iname_span(kernel, iname), kernel.assumptions)
    total = add(*ends) if ends is not None else 0
    step = Reindexing((iname,), {iname: subtract(total, p.Variable(iname))})
    result = reindex_loops(kernel, step, chosen, assume=assume, unsafe=unsafe)
    return require_legal(result, f"reverse({iname})", assume=assume, unsafe=unsafe)


@transform
def affine_map_inames(kernel: LoopKernel, old_inames: str | Iterable[str], new_inames: str | Iterable[str],
                      equations: str | Sequence[Equation], *, within: Within = None,
                      assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Replace *old_inames* by *new_inames*, related by *equations*.

    The loops over the new inames, the first outermost, replace the loops over the old ones. The old loops must be
    perfectly nested.

    :arg equations: texts (``["i = j + 2*k", "l = k"]``, or one text with commas or ``and`` between the equations) or
        pairs of sides; affine in the inames and the parameters. Other inames of all statements are parameters, too. The
        equations map the points of the old inames one-to-one to points of the new ones.
    :arg within: the statements whose loops are replaced; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: an old iname does not exist.
    :raises NameConflictError: a new name is taken.
    :raises ParseError: an equation cannot be read.
    :raises PreconditionError: an old iname has a tag; an equation is not affine; the map is not one-to-one.
    :raises ScheduleError: the loops are not perfectly nested.
    :raises IllegalTransformError: the new order would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 1<=i<n and 1<=j<n}", "a[i, j] = a[i-1, j] + a[i, j-1]")
    >>> knl = lk.affine_map_inames(knl, "i, j", "wave, k", ["wave = i + j", "k = j"])
    >>> print(knl.domains_text)
    [n] -> { [wave, k] : k > 0 and -n + wave < k < wave and k < n }
    >>> print(knl.statements_text)
    for wave, k
      a[wave - k, k] = a[wave - k - 1, k] + a[wave - k, k - 1]  {id=insn}
    end
    """
    old, new = matching_names(old_inames, kernel.inames), name_list(new_inames)
    _require_sides(kernel, "affine_map_inames", old, new)
    chosen, owners = _chosen(kernel, old, within, "mapped")
    around = frozenset.intersection(*(frozenset(s.inames) for s in owners)).difference(old)
    relation = solutions(old, new, [*_zeros(kernel, equations, (*old, *new), around)])
    result = _with_loops_mapped(kernel, chosen, owners, old, new, relation, assume=assume, unsafe=unsafe)
    return require_legal(result, f"affine_map_inames({', '.join(old)} -> {', '.join(new)})", assume=assume,
                         unsafe=unsafe)


@transform
def map_domain(kernel: LoopKernel, transform_map: str | AnyMap, *, within: Within = None,
               assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Replace inames by others, related by an isl map.

    As :func:`affine_map_inames`, with a relation in isl's notation in place of the equations. It may have inequalities,
    existentially quantified variables, quotients and remainders.

    :arg transform_map: a map from the old inames to new ones, as a text or an object of islpy. The first new iname is
        the outermost. Its parameters are integer arguments of the kernel. It must be bijective: each point of the old
        inames has one point of the new ones, and no two points share one.
    :arg within: the statements whose loops are replaced; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises ParseError: the text is not an isl map with a name for each dimension.
    :raises UnknownNameError: an old iname or a parameter does not exist.
    :raises NameConflictError: a new name is taken.
    :raises PreconditionError: an old iname has a tag; the map is not bijective, with a witness; or its inverse is not
        one affine form.
    :raises ScheduleError: the loops are not perfectly nested.
    :raises IllegalTransformError: the new order would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.map_domain(knl, "{ [i] -> [lane, row] : lane = i mod 8 and row = floor(i/8) }")
    >>> print(knl.domains_text)
    [n] -> { [lane, row] : 0 <= lane <= 7 and row >= 0 and 8row < n - lane }
    >>> print(knl.statements_text)
    for lane, row
      y[lane + 8*row] = 2*x[lane + 8*row]  {id=insn}
    end
    """
    try:
        old, new, params, relation = read_map(str(transform_map))
    except ValueError as reason:
        raise ParseError(f"The map '{transform_map}' cannot be read: {reason}", line=None, column=None,
                         expected="a map as isl writes it, { [i] -> [j, k] : ... }",
                         source=str(transform_map)) from None
    _require_sides(kernel, "map_domain", old, new)
    require_known("parameter", params, kernel.value_params)
    chosen, owners = _chosen(kernel, old, within, "mapped")
    result = _with_loops_mapped(kernel, chosen, owners, old, new, relation, assume=assume, unsafe=unsafe)
    return require_legal(result, f"map_domain({', '.join(old)} -> {', '.join(new)})", assume=assume, unsafe=unsafe)


def _require_sides(kernel: LoopKernel, step: str, old: Sequence[str], new: Sequence[str]) -> None:
    """Check the names of a map from inames to new ones."""
    for names, what in ((old, "old_inames"), (new, "new_inames")):
        if not names or len(set(names)) != len(names):
            raise PreconditionError(f"{step} needs one or more different inames as {what}.", subject=what)
    for x in new:
        require_fresh(kernel, x)


def _with_loops_mapped(kernel: LoopKernel, chosen: frozenset[str], owners: Sequence[Statement], old: tuple[str, ...],
                       new: tuple[str, ...], relation: Map, *, assume: str | None, unsafe: bool) -> LoopKernel:
    """*kernel* with loops over *new* in place of those over *old* around *chosen*; *relation* maps their points."""
    points = reduce(InstanceSet.union, (analysis_domain(kernel, s).onto(old) for s in owners))
    _require_bijective(kernel, owners[0].id, points, new, relation)
    exact = relation if relation.is_injective() else relation.intersect_domain(points.set)
    forms = inverse(exact, points, new)
    if forms is None:
        raise PreconditionError(f"The map does not give {', '.join(old)} as one affine form of {', '.join(new)}.",
                                subject=old[0], hint="map the parts of the domain one after another, with within=")
    values = dict(zip(old, forms, strict=True))
    image = exact.range()
    cases = constraint_lists(image.gist_params(image.params()), new)
    step = Reindexing(new, values, cases[0]) if len(cases) == 1 else Reindexing(
        new, values, cases=tuple(Reindexing(new, values, case) for case in cases))
    return with_given_order(reindex_loops(kernel, step, chosen, assume=assume, unsafe=unsafe), new)


def _require_bijective(kernel: LoopKernel, statement: str, points: InstanceSet, new: Sequence[str], relation: Map
                       ) -> None:
    """:raises PreconditionError: *relation* does not map *points* one-to-one; with the smallest witness."""
    targets, parameters = ", ".join(new), parameters_of(kernel)

    def refused(place: Mapping[str, int], params: Mapping[str, int], what: str, hint: str) -> PreconditionError:
        return PreconditionError(f"The map must be bijective, but it maps {instance_text(statement, place)}"
                                 f"{values_text(params, ' (with {})')} {what} of {targets}.", subject=points.inames[0],
                                 hint=hint)
    for those, what, hint in (
            (points.set.subtract(relation.domain()), "to no point", "every point needs a point of the new inames"),
            (with_several_images(relation, points), "to several points", "add an equation for the new inames")):
        point = lexmin_point(those, points.inames, parameters)
        if point is not None:
            raise refused(point[1], point[0], what, hint)
    met = two_with_one_image(relation, points, parameters)
    if met is not None:
        params, first, second = met
        raise refused(first, params, f"and {instance_text(statement, second)} to one point",
                      "add a new iname that distinguishes the two")


def _chosen(kernel: LoopKernel, inames: Sequence[str], within: Within, what: str
            ) -> tuple[frozenset[str], list[Statement]]:
    """The statements that *within* selects, and those of them with *inames*; *what* names the refused operation."""
    for x in inames:
        require_untagged(kernel, x, what)
    chosen = matching_statements(kernel, within)
    owners = require_owners(kernel, inames, chosen, "map")
    for x in inames:
        require_whole_reductions(kernel, x, chosen)
    return chosen, owners


def _skew_start(kernel: LoopKernel, iname: str, by: Mapping[str, int] | str) -> tuple[Expression, Sequence[str]]:
    """The affine form that a skew adds to *iname*, and its inames."""
    if isinstance(by, str):
        start = parse_expression(by, what="the start of a skew")
        for x in sorted(variables(start).difference(kernel.value_params, kernel.array_args, kernel.temporaries)):
            require_iname(kernel, x)
        inames = [x for x in kernel.inames if x in variables(start)]
        if not is_quasi_affine(start, inames, kernel.value_params):
            raise PreconditionError(f"skew needs an affine form in inames and parameters, not '{by}'.", subject=iname,
                                    hint="skew(knl, 'i', by='29*j % 8'); fix_parameters makes sizes integers")
        if not inames:
            raise PreconditionError(f"'{by}' is the same for all iterations around '{iname}'.", subject=iname,
                                    hint=f"shift(knl, '{iname}', '{by}')")
        return start, inames
    if not by:
        raise PreconditionError("skew needs the factor of at least one iname.", subject=iname,
                                hint="skew(knl, 'i', by={'t': 1})")
    outer = known_list("iname", by, kernel.inames)
    return add(*(multiply(int(by[x]), p.Variable(x)) for x in outer)), outer


def _zeros(kernel: LoopKernel, equations: str | Sequence[Equation], inames: tuple[str, ...], around: Collection[str]
           ) -> Iterator[Expression]:
    """The difference of the sides of each of *equations*; :raises PreconditionError: one is not an affine equation.

    :arg around: further inames that they may have.
    """
    given = [equations] if isinstance(equations, str) else equations
    if not given:
        raise PreconditionError("affine_map_inames needs equations.", subject="equations",
                                hint='["i = j + 2*k", "l = k"]')
    # a comma inside of an equation has no "=" after it
    parts = [part for equation in given for part in (
        re.split(r"[,;\n](?=[^,;\n]*=)|\band\b", equation) if isinstance(equation, str) else [equation])]
    for part in parts:
        shown = part.strip() if isinstance(part, str) else " = ".join(map(str, part))
        sides = [side.strip() for side in part.replace("==", "=").split("=")] if isinstance(part, str) else part
        if len(sides) != 2 or "" in sides:
            raise PreconditionError(f"'{shown}' is not an equation with two sides.", subject=shown,
                                    hint='write "i = j + 2*k"; separate several equations by commas, or pass a list')
        left, right = (parse_expression(side, what=f"the equation '{shown}'") if isinstance(side, str) else side
                       for side in sides)
        # each side by itself: a non-affine term may cancel in the difference
        if not all(is_quasi_affine(side, (*inames, *around), kernel.value_params) for side in (left, right)):
            raise PreconditionError(f"The equation '{shown}' is not affine in {', '.join(inames)} and the parameters.",
                                    subject=shown)
        yield subtract(left, right)
