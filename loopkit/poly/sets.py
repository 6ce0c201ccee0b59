"""Instance sets: the integer points at which a statement runs, with the names of their dimensions; single points.

isl ignores dimension names in comparisons, so an instance set stores the names beside isl's set.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, TypeVar, cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, set_space, subtract, to_aff, to_int
from loopkit.poly.limits import (
    affordable,
    bounded,
    coalesced,
    gave_up,
    kept_in_memo,
    kept_results,
    without_empty_pieces,
)
from loopkit.shown import Shown

Set = isl.Set
Map = isl.Map

#: ``(op, e)`` for ``e op 0``.
Condition = tuple[str, Expression]

T = TypeVar("T", isl.Set, isl.Map)


@dataclass(frozen=True, repr=False)
class InstanceSet(Shown):
    """The points ``[params] -> { [inames] }`` of *set*, an anonymous isl set.

    :ivar memo: results of questions about these points, which most steps leave as they are.
    """

    inames: tuple[str, ...]
    set: isl.Set

    def __post_init__(self) -> None:
        if (0 if self.set.is_params() else self.set.dim(DIM.set)) != len(self.inames):
            raise ValueError(f"{self.set} has not the dimensions {self.inames}")

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> InstanceSet:
        """Read isl's notation; :raises ValueError: isl refuses the text, or a dimension has no name."""
        points = parsed(isl.Set.read_from_str, text)
        names = tuple(x or "" for x in points.get_var_names(DIM.set))
        if "" in names or points.has_tuple_name():
            raise ValueError("a domain is written as { [i, j] : ... } with one name for each dimension")
        return InstanceSet(names, points)

    @staticmethod
    def universe(inames: Sequence[str]) -> InstanceSet:
        return InstanceSet(tuple(inames), isl.Set.universe(set_space((), tuple(inames))))

    @cached_property
    def memo(self) -> dict[Any, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {"inames": self.inames, "set": self.set}

    def __str__(self) -> str:
        return self.text

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """For the keys of pytools' dictionaries on disk."""
        key_builder.rec(key_hash, (self.inames, self.text))

    def named(self, points: isl.Set) -> InstanceSet:
        """*points* with this set's inames."""
        return InstanceSet(self.inames, points)

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters that occur in a constraint."""
        return tuple(str(self.set.get_dim_name(DIM.param, i)) for i in range(self.set.dim(DIM.param))
                     if self.set.involves_dims(DIM.param, i, 1))

    @property
    @kept_in_memo                                   # isl simplifies in place: a later text might be another one
    def text(self) -> str:
        """isl's notation, without parameters that do not occur."""
        return str(with_dim_names(coalesced(self.set).remove_redundancies().drop_unused_params(), self.inames))

    def is_empty(self) -> bool:
        return bool(self.set.is_empty())

    def is_subset(self, other: InstanceSet) -> bool:
        return bool(self.set.is_subset(other.set))

    def is_equal(self, other: InstanceSet) -> bool:
        return self.inames == other.inames and bool(self.set.is_equal(other.set))

    def intersect(self, other: InstanceSet) -> InstanceSet:
        """The points in both; *other* may have a subset of the inames, in any order."""
        return self.named(self.set.intersect(other.onto(self.inames).set))

    def onto(self, inames: Sequence[str]) -> InstanceSet:
        """Project on *inames*, reorder, and leave dimensions that are new here unconstrained.

        A parameter of this set that is one of *inames* becomes that dimension (nested domains).
        """
        inames = tuple(inames)
        return self if inames == self.inames else self._onto(inames)

    @kept_in_memo
    def _onto(self, inames: tuple[str, ...]) -> InstanceSet:
        if inames == tuple(x for x in self.inames if x in inames):
            gone = [i for i, x in enumerate(self.inames) if x not in inames]
            points = reduce(lambda known, i: known.project_out(DIM.set, i, 1), reversed(gone), self.set)
            return InstanceSet(inames, with_dim_names(points, inames))
        points = self.bound(self.inames).set
        for x in self.inames:
            if x not in inames:
                points = points.project_out(DIM.param, points.find_dim_by_name(DIM.param, x), 1)
        for at, x in enumerate(inames):
            if (position := points.find_dim_by_name(DIM.param, x)) >= 0:
                points = points.move_dims(DIM.set, at, DIM.param, position, 1)
            else:
                points = points.insert_dims(DIM.set, at, 1)
        return InstanceSet(inames, with_dim_names(points, inames))

    def renamed(self, names: Mapping[str, str]) -> InstanceSet:
        """This set with other names of dimensions and parameters."""
        points = self.set
        for old, new in names.items():
            points = rename_param(points, old, new)
        inames = tuple(names.get(x, x) for x in self.inames)
        return InstanceSet(inames, with_dim_names(points, inames))

    def intersect_params(self, params: isl.Set) -> InstanceSet:
        # the last result only: those for the sizes of many kernels would stay as long as these points
        known, result = self.memo.get("params", (None, None))
        if known is not params:
            result = self.named(self.set.intersect_params(params))
            self.memo["params"] = params, result
        return cast(InstanceSet, result)

    def without_params(self, names: Collection[str]) -> InstanceSet:
        """Remove all constraints on the parameters *names*, which become unknowns of each instance."""
        own = tuple(dict.fromkeys(x for x in names if self.set.find_dim_by_name(DIM.param, x) >= 0))
        return self._without_params(own) if own else self

    @kept_in_memo
    def _without_params(self, names: tuple[str, ...]) -> InstanceSet:
        points = self.set
        for x in names:
            points = points.project_out(DIM.param, points.find_dim_by_name(DIM.param, x), 1)
        return self.named(points)

    def bound(self, inames: Collection[str]) -> InstanceSet:
        """Turn the dimensions *inames* into parameters of the same names (hardware inames)."""
        points = with_dim_names(self.set, self.inames)
        for i in reversed(range(len(self.inames))):
            if self.inames[i] in inames:
                points = to_param(points, i, self.inames[i])
        rest = tuple(x for x in self.inames if x not in inames)
        return InstanceSet(rest, with_dim_names(points, rest))

    def apply(self, relation: isl.Map, inames: Sequence[str]) -> InstanceSet:
        """The image under *relation*, whose range has the dimensions *inames*."""
        return InstanceSet(tuple(inames), with_dim_names(as_points(self.set).apply(relation), inames))

    def with_quotients(self) -> InstanceSet:
        """These points with each existentially quantified variable as a quotient of inames and parameters.

        Otherwise each subtraction of the set would compute that form, at a cost that grows with the number of its
        pieces.
        """
        known = self.set.compute_divs()
        return self if known.plain_is_equal(self.set) else self.named(coalesced(known))

    def union(self, other: InstanceSet) -> InstanceSet:
        return self.named(coalesced(self.set.union(other.set)))

    def subtract(self, other: InstanceSet) -> InstanceSet:
        """The points that are not in *other*, which may have a subset of the inames."""
        return self.named(coalesced(self.set.subtract(other.onto(self.inames).set)))

    def where(self, *conditions: Condition) -> InstanceSet:
        """The points at which each ``(op, e)`` holds: ``e >= 0``, ``e == 0`` for ``">="``, ``"=="``."""
        return self.named(reduce(Set.intersect, (condition_set(op, e, self.inames) for op, e in conditions), self.set))

    @kept_in_memo
    def constant_range(self, iname: str) -> tuple[int | None, int | None]:
        """The smallest and largest value of *iname* over all parameters, where they are bounded."""
        return constant_range(self.set, self.inames.index(iname))


def bounded_by(iname: str, low: Expression, stop: Expression) -> tuple[Condition, Condition]:
    """The conditions ``low <= iname < stop``."""
    return (">=", subtract(p.Variable(iname), low)), ("<", subtract(p.Variable(iname), stop))


def depends_on(points: InstanceSet, params: Collection[str]) -> bool:
    """Does the set of points depend on the parameters *params*, except for being empty or not?"""
    everything = points.without_params(params).intersect_params(points.set.params())
    return not everything.set.is_equal(points.set)


def as_points(points: isl.Set) -> isl.Set:
    """*points*, which may be a condition on parameters, as a set: without dimensions if it is one."""
    return points.from_params() if points.is_params() else points


def at_most_one(points: InstanceSet, iname: str) -> bool:
    """Is there at most one value of *iname* for each value of the parameters and the other inames?"""
    return runs_first(points, points, iname)        # of two points one does not


def runs_first(first: InstanceSet, second: InstanceSet, iname: str) -> bool:
    """Is every point of *first* before every one of *second* that differs in *iname* alone, upwards?"""
    others = [x for x in first.inames if x != iname]
    pairs = isl.Map.from_domain_and_range(second.onto((*others, iname)).set, first.onto((*others, iname)).set)
    for i in range(len(others)):
        pairs = pairs.equate(DIM.in_, i, DIM.out, i)
    return bool(pairs.order_lt(DIM.in_, len(others), DIM.out, len(others)).is_empty())


def with_dim_names(points: isl.Set, names: Sequence[str]) -> isl.Set:
    """*points* with its dimensions called *names*, for printing and look-up by name in isl."""
    for i, name in enumerate(names):
        points = points.set_dim_name(DIM.set, i, name)
    return points


def to_param(points: T, dim: int, name: str, kind: isl.dim_type = DIM.set) -> T:
    """Move dimension *dim* to a parameter called *name* (which may exist already)."""
    existing = points.find_dim_by_name(DIM.param, name)
    if existing >= 0:
        return points.equate(kind, dim, DIM.param, existing).project_out(kind, dim, 1)
    at = points.dim(DIM.param)
    # named first: what becomes of a dimension that the pieces of *points* have no name for could not be named
    return points.set_dim_name(kind, dim, name).move_dims(DIM.param, at, kind, dim, 1)


def constant_range(points: isl.Set, dim: int) -> tuple[int | None, int | None]:
    """The smallest and largest value of a dimension over all parameters, where it is bounded."""
    if points.is_empty():
        return None, None
    points = without_empty_pieces(points)
    low, high = (to_int(end) if end.is_int() else None for end in (points.dim_min_val(dim), points.dim_max_val(dim)))
    return low, high


def param_range(params: isl.Set, name: str) -> tuple[int | None, int | None]:
    """The smallest and largest value of the parameter *name* in a parameter set, where it is bounded."""
    return InstanceSet((), params).onto((name,)).constant_range(name)


#: Each comparison of two forms, as a set of points.
COMPARED: Mapping[str, Callable[[isl.PwAff, isl.PwAff], isl.Set]] = {
    "<": isl.PwAff.lt_set, "<=": isl.PwAff.le_set, ">": isl.PwAff.gt_set, ">=": isl.PwAff.ge_set,
    "==": isl.PwAff.eq_set, "!=": isl.PwAff.ne_set}


def condition_set(op: str, expr: Expression, inames: Sequence[str]) -> isl.Set:
    """``{ [inames] : expr op 0 }``; :raises NotAffineError: *expr* is not quasi-affine."""
    aff = to_aff(expr, inames)
    zero = isl.Aff.zero_on_domain_space(aff.get_domain_space())
    return COMPARED[op](isl.PwAff.from_aff(aff), isl.PwAff.from_aff(zero))


def params_of(points: InstanceSet) -> isl.Set:
    """*points* as a condition on parameters called like its inames."""
    return points.bound(points.inames).set.params()


def range_condition(name: str, low: int, high: int | None = None) -> isl.Set:
    """``low <= name <= high`` for a parameter, or ``low <= name``."""
    found = isl.Set.universe(set_space((name,), ()).params()).lower_bound_val(DIM.param, 0, low)
    return found if high is None else found.upper_bound_val(DIM.param, 0, high)


def conjunction(values: Mapping[str, int]) -> isl.Set:
    """Parameters that have these *values*."""
    return reduce(isl.Set.intersect, (range_condition(x, value, value) for x, value in values.items()),
                  universe_params())


def parse_assumptions(text: str, params: Iterable[str]) -> isl.Set:
    """``"n>=1 and m>=1"`` as a parameter set; :raises ValueError: isl refuses the text."""
    return parsed(isl.Set.read_from_str, f"[{', '.join(sorted(set(params)))}] -> {{ : {text} }}").params()


def universe_params() -> isl.Set:
    """The parameter set without constraints."""
    return isl.Set.universe(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))


# the kernels of a pipeline have the same assumptions
@kept_results
def equalities(params: isl.Set) -> isl.Set:
    """The equalities between parameters in the whole parameter set *params*, except those of remainders."""
    return affordable(lambda: isl.Set.from_basic_set(params.affine_hull().remove_divs()), otherwise=universe_params())


def params_text(params: isl.Set) -> str:
    """The condition of a parameter set as text; ``""`` for the set of all parameters."""
    text = str(coalesced(params).drop_unused_params())
    body = text[text.index("{") + 1:text.rindex("}")].strip()
    return body.removeprefix(":").strip()


def lexmin_point(points: isl.Set, inames: Sequence[str], parameters: Sequence[str] = ()
                 ) -> tuple[dict[str, int], dict[str, int]] | None:
    """The least point in the order parameters, then *inames*; ``None`` if the set is empty.

    A parameter without a lower bound is at least 0 if possible, else as near to 0 as possible.

    :arg parameters: the parameters in order; others follow by name.
    """
    return next(points_in_order(points, inames, parameters), None)


def points_in_order(points: isl.Set, inames: Sequence[str], parameters: Sequence[str]
                    ) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """The points from :func:`lexmin_point` on, each the smallest of those after the one before it."""
    if points.is_empty():
        return
    points = points.drop_unused_params()
    found = points.get_var_names_not_none(DIM.param)
    names = [*(x for x in parameters if x in found), *sorted(x for x in found if x not in parameters)]
    for x in reversed(names):
        points = points.move_dims(DIM.set, 0, DIM.param, points.find_dim_by_name(DIM.param, x), 1)
    while not points.is_empty():
        flat = without_empty_pieces(points)
        values: list[int] = []
        for i in range(len(names) + len(inames)):
            low = flat.dim_min_val(i)
            if i < len(names) and not low.is_int():
                some = flat.lower_bound_val(DIM.set, i, 0)
                low = flat.dim_max_val(i) if some.is_empty() else some.dim_min_val(i)
            if not low.is_int():
                low = flat.sample_point().get_coordinate_val(DIM.set, i)
            flat = without_empty_pieces(flat.fix_val(DIM.set, i, low))
            values.append(to_int(low))
        yield dict(zip(names, values, strict=False)), dict(zip(inames, values[len(names):], strict=True))
        order = isl.Map.lex_gt(points.get_space())
        points = points.intersect(flat.apply(order.reverse()))


def fix_params(points: T, values: Mapping[str, int]) -> T:
    """Fix parameters of a set or relation to integers and drop them."""
    for name, value in values.items():
        i = points.find_dim_by_name(DIM.param, name)
        if i >= 0:
            points = points.fix_val(DIM.param, i, value).project_out(DIM.param, i, 1)
    return points


def rename_param(points: T, old: str, new: str) -> T:
    """Call the parameter *old* *new*; nothing happens where there is none."""
    i = points.find_dim_by_name(DIM.param, old)
    return points if i < 0 else points.set_dim_name(DIM.param, i, new)


def parsed(read: Callable[[isl.Context, str], T], text: str) -> T:
    """A set or a relation that isl's function *read* makes of *text*; :raises ValueError: isl refuses the text."""
    try:
        return read(isl.DEFAULT_CONTEXT, text)
    except isl.Error as err:
        if gave_up(err):
            raise
        # the sentence of isl's error, without islpy's additions
        sentences = (x.strip() for x in str(err).splitlines() if ":" in x and "isl_" not in x)
        raise ValueError(next(sentences, "isl refuses this text")) from None


def plain_hull(points: T) -> T:
    """A polyhedron without unknowns around *points*, from their constraints: not the least, but fast."""
    hull: T = type(points)(points.remove_divs().simple_hull())
    return hull


def in_polyhedra(points: isl.Set, context: isl.Set) -> isl.Set:
    """A polyhedron without unknowns around *points*, or several if one would be unbounded."""
    hull = plain_hull(points.intersect_params(context))
    return hull if hull.is_bounded() else points.remove_divs()


def has_unknowns(points: isl.Set) -> bool:
    """Do the conditions on *points* have existentially quantified integers?"""
    return any(piece.dim(DIM.div) for piece in points.get_basic_sets())


# Single points

def _test_of(constraint: isl.Constraint) -> tuple[Callable[[Mapping[str, int]], bool], str]:
    """Whether parameter values satisfy *constraint*, and its text."""
    terms = [(str(x), to_int(c)) for x, c in constraint.get_coefficients_by_name(DIM.param).items() if x != 1]
    constant, equality = to_int(constraint.get_constant_val()), constraint.is_equality()

    def satisfied(values: Mapping[str, int]) -> bool:
        total = constant + sum(coefficient * values[name] for name, coefficient in terms)
        return total == 0 if equality else total >= 0
    return satisfied, params_text(isl.BasicSet.from_constraint(constraint).to_set())


def holds(params: isl.Set, values: Mapping[str, int]) -> bool:
    """Are the parameter *values* a point of the parameter set *params*? Absent parameters may be anything."""
    return not fix_params(params, values).is_empty()


def checker(params: isl.Set) -> Callable[[Mapping[str, int]], str | None]:
    """A function of parameter values that returns the text of a violated condition, or ``None``.

    A conjunction without unknowns becomes plain integer arithmetic, as a call of isl takes 20 us.
    """
    points = coalesced(params).drop_unused_params()
    parts = points.get_basic_sets()
    if len(parts) == 1 and not parts[0].dim(DIM.div):
        tests = list(map(_test_of, parts[0].get_constraints()))
        return lambda values: next((text for satisfied, text in tests if not satisfied(values)), None)
    whole = params_text(points)

    def check(values: Mapping[str, int]) -> str | None:
        with bounded(f"whether {whole} holds for a call"):
            return None if holds(points, values) else whole
    return check
