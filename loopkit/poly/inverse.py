"""Affine forms of inames turned around: the inames in terms of the forms."""
from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, add, floor_div, multiply
from loopkit.poly.limits import coalesced
from loopkit.poly.relations import other_instance, restrict, same_element, smallest_pair
from loopkit.poly.sets import InstanceSet, Map


def two_with_one_image(relation: Map, domain: InstanceSet
                       ) -> tuple[dict[str, int], dict[str, int], dict[str, int]] | None:
    """Parameters and two points of *domain* that *relation* takes to one image; ``None``: it is injective there."""
    inside = restrict(relation, domain)
    if inside.is_injective():
        return None
    return smallest_pair(other_instance(same_element(inside, inside)), domain.inames, domain.inames)


def inverse(relation: Map, domain: InstanceSet, names: Sequence[str]) -> tuple[Expression, ...] | None:
    """The point of *domain* that *relation* takes to the image *names*, one quasi-affine form for each iname.

    *relation* must be injective on *domain*. ``None`` where isl finds no single form.
    """
    backwards = (relation if relation.is_injective() else restrict(relation, domain)).reverse()
    if backwards.is_empty():
        return (0,)*len(domain.inames)             # there is no point to name
    function = coalesced(isl.PwMultiAff.from_map(backwards))
    function = function.gist(function.domain())
    if not function.isa_multi_aff():
        return None
    forms = function.as_multi_aff()
    return tuple(_expression(forms.get_aff(i), names) for i in range(len(domain.inames)))


def _expression(form: isl.Aff, names: Sequence[str]) -> Expression:
    """*form*, rounded down, with its dimensions called *names*."""
    denominator = form.get_denominator_val()
    whole = form.scale_val(denominator)
    variables = [(DIM.in_, i, p.Variable(x)) for i, x in enumerate(names)]
    variables += [(DIM.param, i, p.Variable(whole.get_dim_name(DIM.param, i) or ""))
                  for i in range(whole.dim(DIM.param))]
    terms: list[tuple[int, Expression]] = [(_integer(whole.get_coefficient_val(kind, i)), x)
                                           for kind, i, x in variables]
    for i in range(whole.dim(DIM.div)):
        factor = _integer(whole.get_coefficient_val(DIM.div, i))
        if factor:
            terms.append((factor, _expression(whole.get_div(i), names)))
    terms.sort(key=lambda term: term[0] < 0)              # t_i - 2*t reads better than -2*t + t_i
    total = add(*(multiply(factor, x) for factor, x in terms), _integer(whole.get_constant_val()))
    return total if denominator.is_one() else floor_div(total, _integer(denominator))


def _integer(value: isl.Val) -> int:
    return int(value.to_python())
