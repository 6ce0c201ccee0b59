"""Instance sets made from a kernel's text, and by transformations of inames: images, parts of loops, tiles."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, add, floor_div, from_aff, from_pw_aff, if_affine, multiply, to_int
from loopkit.poly.codegen import condition_expression
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.piecewise import cells
from loopkit.poly.relations import SmallestPair, other_instance, same_element, smallest_pair
from loopkit.poly.sets import (
    Condition,
    InstanceSet,
    Set,
    bounded_by,
    condition_set,
    depends_on,
    params_of,
    parsed,
    plain_hull,
)

#: A set of any of isl's contexts, and a relation.
AnySet = isl.Set | isl.BasicSet
AnyMap = isl.Map | isl.BasicMap

#: Sets of fewer parameters cost isl less than the separation of their constraints.
MANY_PARAMS = 16


def unbounded_iname(domain: InstanceSet) -> str | None:
    """An iname with infinitely many values at some sizes, if any: isl's searches never end on such a set."""
    if domain.set.is_bounded():
        return None
    return next((x for x in domain.inames if not domain.onto((x,)).set.is_bounded()), None)


def restricted(domain: InstanceSet, inames: Collection[str]) -> InstanceSet:
    """The projection of *domain* on *inames*, without constraints on parameters from independent inames.

    ``{[i,k]: 0<=i<n and 0<=k<l}`` becomes ``0<=i<n`` for ``i``, without a condition on ``l``: a sum over no ``k`` is
    0, and the statement that stores it runs anyway. If ``k`` depends on ``i``, the result is the projection.
    """
    kept, pieces = [x for x in domain.inames if x in inames], domain.set.get_basic_sets()
    if len(kept) < len(domain.inames) and len(pieces) == 1 and not pieces[0].dim(DIM.div):
        [basic] = pieces
        groups = [{i for i in range(len(domain.inames)) if c.involves_dims(DIM.set, i, 1)}
                  for c in basic.get_constraints()]
        tied = {i for i, x in enumerate(domain.inames) if x in kept}
        for _ in groups:                     # the longest chain of them
            tied.update(*(group for group in groups if group & tied))
        for i in range(len(domain.inames)):
            if i not in tied:
                basic = basic.drop_constraints_involving_dims(DIM.set, i, 1)
        domain = domain.named(isl.Set.from_basic_set(basic))
    return domain.onto(kept)


def independent_parts(params: isl.Set) -> Mapping[str, isl.Set] | None:
    """The constraints of *params* by parameter, each with those on the parameters that constraints connect with it.

    ``None``: *params* has fewer than :data:`MANY_PARAMS` parameters, is not a conjunction of affine constraints, or
    has no points.
    """
    pieces = params.get_basic_sets() if params.dim(DIM.param) >= MANY_PARAMS else ()
    if len(pieces) != 1 or pieces[0].dim(DIM.div) or pieces[0].is_empty():
        return None
    parts: dict[str, isl.Set] = {}
    for constraint in pieces[0].get_constraints():
        part = isl.Set.from_basic_set(isl.BasicSet.from_constraint(constraint)).drop_unused_params()
        for other in {id(parts[x]): parts[x] for x in InstanceSet((), part).params if x in parts}.values():
            part = part.intersect(other)
        parts.update(dict.fromkeys(InstanceSet((), part).params, part))
    return parts


def with_each_iname_once(sets: Sequence[InstanceSet]) -> list[InstanceSet]:
    """Domains for instance sets that may share inames: each iname is in one of them, and they contain the sets.

    If one set has all inames of those that share some with it, and contains the others, it is the domain of all these
    inames. Else each iname has a domain of its own, nested in those of inames that are around it in all sets.
    """
    groups: dict[str, list[InstanceSet]] = {}               # those that are linked by shared inames, for each iname
    for d in sets:
        linked = {id(group): group for x in d.inames if (group := groups.get(x)) is not None}
        together = [*(other for group in linked.values() for other in group), d]
        groups.update((x, together) for other in together for x in other.inames)
    found: list[InstanceSet] = []
    for together in {id(group): group for group in groups.values()}.values():
        inames = dict.fromkeys(x for d in together for x in d.inames)
        whole = [d for d in together if len(d.inames) == len(inames)]
        joint = reduce(InstanceSet.union, (d.onto(whole[0].inames) for d in whole)) if whole else None
        if joint is not None and all(d.is_subset(restricted(joint, d.inames).onto(d.inames)) for d in together):
            found.append(joint)
        else:
            found += [_domain_of(x, [d for d in together if x in d.inames]) for x in inames]
    return found


def _domain_of(iname: str, sets: Sequence[InstanceSet]) -> InstanceSet:
    """The values of *iname* in *sets*, with the inames on which they depend as parameters."""
    around = [x for x in sets[0].inames if all(x in d.inames[:d.inames.index(iname)] for d in sets)]

    def values(inames: Sequence[str]) -> InstanceSet:
        parts = [restricted(d, (*inames, iname)).onto((*inames, iname)) for d in sets]
        return reduce(InstanceSet.union, parts).bound(inames)
    points = values(around)
    points = values([x for x in around if depends_on(points, [x])])
    # without the conditions under which the inames around it have values
    return points.named(points.set.gist_params(points.set.params()))


def solutions(old: tuple[str, ...], new: tuple[str, ...], zeros: Sequence[Expression]) -> isl.Map:
    """``{ [old] -> [new] : each of zeros is 0 }``; :raises NotAffineError: one of *zeros* is not quasi-affine."""
    points = InstanceSet.universe((*old, *new)).where(*(("==", zero) for zero in zeros))
    return isl.Map.from_range(points.set).move_dims(DIM.in_, 0, DIM.out, 0, len(old))


def read_map(text: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], isl.Map]:
    """Read isl's notation of a relation: the names of its two sides and of its parameters, and the relation.

    :raises ValueError: isl refuses the text, or a dimension has no name.
    """
    relation = parsed(isl.Map.read_from_str, text)
    sides = tuple(tuple(str(relation.get_dim_name(kind, i) or "") for i in range(relation.dim(kind)))
                  for kind in (DIM.in_, DIM.out, DIM.param))
    if "" in (*sides[0], *sides[1]) or relation.has_tuple_name(DIM.in_) or relation.has_tuple_name(DIM.out):
        raise ValueError("a map is written as { [i] -> [j, k] : ... } with another name for each dimension")
    old, new, params = sides
    plain = relation.reset_tuple_id(DIM.in_).reset_tuple_id(DIM.out)
    return old, new, params, plain


def with_several_images(relation: isl.Map, points: InstanceSet) -> isl.Set:
    """Those of *points* that *relation* maps to several points."""
    inside = relation.intersect_domain(points.set)
    others = inside.apply_range(other_instance(isl.Map.universe(inside.range().get_space().map_from_set())))
    return inside.intersect(others).domain()


def constraint_lists(points: isl.Set, names: Sequence[str]) -> list[tuple[Condition, ...]]:
    """Conditions on *names*, of which all of one list hold at each of *points*, and those of no list elsewhere."""
    parts = coalesced(points.compute_divs()).make_disjoint().get_basic_sets()
    return [tuple(("==" if c.is_equality() else ">=", from_aff(c.get_aff(), names)) for c in part.get_constraints()
                  if not c.is_div_constraint()) for part in parts]


def two_with_one_image(relation: isl.Map, points: InstanceSet, parameters: Sequence[str] = ()) -> SmallestPair | None:
    """Parameters and the smallest two of *points* with one image; ``None``: *relation* is injective on *points*."""
    inside = relation.intersect_domain(points.set)
    if inside.is_injective():
        return None
    return smallest_pair(other_instance(same_element(inside, inside)), points.inames, points.inames, parameters)


def inverse(relation: isl.Map, points: InstanceSet, new: Sequence[str]) -> tuple[Expression, ...] | None:
    """The point of *points* that the injective *relation* maps to *new*, as affine forms of *new*, if possible."""
    back = (relation if relation.is_injective() else relation.intersect_domain(points.set)).reverse()
    if back.is_empty():
        return (0,)*len(points.inames)             # there is no point to name
    function = coalesced(isl.PwMultiAff.from_map(back))
    function = function.gist(function.domain())
    if not function.isa_multi_aff():
        return None
    forms = function.as_multi_aff()
    return tuple(from_aff(forms.get_aff(i), new) for i in range(len(points.inames)))


def affine_ends(points: InstanceSet, context: isl.Set) -> tuple[Expression, Expression] | None:
    """The least and the greatest value of the one iname of *points*; ``None`` if they are not affine forms."""
    values = points.set.intersect_params(context)
    if values.is_empty():
        return 0, 0
    if not values.dim_is_bounded(DIM.set, 0):
        return None
    ends = [coalesced(end).get_pieces() for end in (values.dim_min(0), values.dim_max(0))]
    if any(len(pieces) != 1 for pieces in ends):
        return None
    low, high = (from_aff(pieces[0][1]) for pieces in ends)
    return low, high


def parted(points: InstanceSet, first: int, last: int) -> tuple[InstanceSet, InstanceSet, InstanceSet] | None:
    """The innermost iname's first values, the others, and its last values, for each value of the outer inames.

    A point is one of the *first* ones if the iname is less than its least value there plus *first*; likewise of the
    *last*. ``None`` if the iname has no such bound. If there are fewer values than *first* and *last* together, the
    first ones take precedence.
    """
    outer = len(points.inames) - 1
    if (first and not points.set.dim_has_lower_bound(DIM.set, outer)) \
            or (last and not points.set.dim_has_upper_bound(DIM.set, outer)):
        return None
    values = isl.Map.from_range(points.set).move_dims(DIM.in_, 0, DIM.out, 0, outer)
    everywhere, nowhere = isl.Map.universe(values.get_space()), isl.Map.empty(values.get_space())
    before, behind, early, late = nowhere, everywhere, everywhere, nowhere
    if first:
        least = values.lexmin()
        before, behind = (least.apply_range(isl.Map(f"{{ [j] -> [i] : i {op} j + {first} }}")) for op in ("<", ">="))
    if last:
        greatest = values.lexmax()
        late, early = (greatest.apply_range(isl.Map(f"{{ [j] -> [i] : i {op} j - {last} }}")) for op in (">", "<="))
    one, two, three = (InstanceSet(points.inames, coalesced(part.wrap().flatten()))
                       for part in (before, behind.intersect(early), behind.intersect(late)))
    return one, two, three


def padded_to_tiles(domain: InstanceSet, iname: str, length: int) -> InstanceSet:
    """*domain* with all points of each tile in which it has a point: *length* values of *iname*, counted from 0."""
    others = [x for x in domain.inames if x != iname]
    tile = cells(domain.inames, (*(p.Variable(x) for x in others), floor_div(p.Variable(iname), length)))
    whole = domain.named(coalesced(domain.apply(same_element(tile, tile), domain.inames).set))

    def between_ends() -> InstanceSet | None:
        """All tiles from the first point to the last, if their bounds depend on parameters only."""
        values = domain.onto((iname,))
        low = values.constant_range(iname)[0]
        if low is None or values.is_empty():
            return None
        top = from_pw_aff(coalesced(values.set.dim_max(0)))
        end = top // length * length + length if isinstance(top, int) else \
            multiply(length, floor_div(add(top, length), length))
        plain = restricted(domain, others).onto(domain.inames).where(*bounded_by(iname, low // length * length, end))
        return None if not plain.is_equal(whole) else domain if plain.is_equal(domain) else plain
    return affordable(lambda: if_affine(between_ends), otherwise=None) or whole


def condition_of(points: InstanceSet, around: InstanceSet, assumptions: Set) -> Expression | None:
    """A condition that holds for *points* and for no other points of *around*, at sizes with *points*, if any."""
    known = around.set
    if known.n_basic_set() > _FEW:          # a superset will do
        known = plain_hull(known)
    context = params_of(around.named(known)).intersect(assumptions)
    simplified = affordable(lambda: points.set.gist_params(points.set.params()), otherwise=points.set)
    return condition_expression(params_of(points.named(simplified)), context)


#: The number of pieces up to which isl finds implications fast.
_FEW = 4


def full_box_condition(points: Set, inames: Sequence[str], box: Mapping[str, tuple[int, int]],
                       involving: Sequence[str], free_of: Sequence[str]) -> Set | None:
    """The full-tile condition, on the names not in *box*: all of *box* satisfies the constraints of *points*.

    The constraints are those that mention a name of *box*, one of *involving* (if not empty) and none of *free_of*;
    each is evaluated at the point of *box* with its least value. The names of the result are parameters. ``None`` if
    there is no such constraint, or *points* is not a single polyhedron.
    """
    pieces = coalesced(points).get_basic_sets()
    if len(pieces) != 1:
        return None
    conditions = []
    for constraint in pieces[0].remove_redundancies().get_constraints():
        if constraint.is_equality() or constraint.involves_dims(DIM.div, 0, constraint.dim(DIM.div)):
            continue
        coefficients = {str(x): to_int(c) for x, c in (
            *constraint.get_coefficients_by_name(DIM.param).items(),
            *constraint.get_coefficients_by_name(DIM.set, {(DIM.set, i): x for i, x in enumerate(inames)}).items())
            if x != 1}
        rest = coefficients.keys() - box.keys()
        if rest and len(rest) < len(coefficients) and coefficients.keys().isdisjoint(free_of) \
                and not (involving and coefficients.keys().isdisjoint(involving)):
            least = {x: box[x][0] if c > 0 else box[x][1] for x, c in coefficients.items() if x in box}
            conditions.append(condition_set(">=", add(
                *(multiply(c, least.get(x, p.Variable(x))) for x, c in coefficients.items()),
                to_int(constraint.get_constant_val())), ()).params())
    return reduce(Set.intersect, conditions) if conditions else None
