"""Warnings about a new kernel that is valid and probably not what its author meant."""
from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from loopkit.errors import MisspelledNameWarning, UnusedInameWarning
from loopkit.expr.mappers import variables
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel

#: Names are alike from this similarity on (:func:`difflib.get_close_matches`), if they are not shorter than this.
_ALIKE = 0.8
_SHORTEST = 4


def suspicions(knl: LoopKernel, inames: Collection[str], declared: Collection[str]) -> Iterator[Warning]:
    """The warnings about a new kernel.

    :arg inames: those of its domains; *declared*: the names in kernel_data.
    """
    for iname in sorted(set(inames) - knl.all_inames()) if knl.statements else ():       # others will follow
        yield UnusedInameWarning(
            f"The iname '{iname}' of the domains is used by no statement of kernel '{knl.name}': nothing runs for each "
            f"of its values. Leave it out, or write {{inames={iname}}} after a statement.")
    sizes = {x for s in knl.statements for x in s.domain.params}
    scalars = {a.name for a in knl.arguments if isinstance(a, ValueArg)} - sizes - set(declared)
    known = {*knl.all_names, *inames} - scalars
    for name in sorted(scalars):
        # names that differ in digits only ("alpha_1", "alpha_2") are not suspicious
        alike = [x for x in get_close_matches(name, known, cutoff=_ALIKE) if _letters(x) != _letters(name)]
        if alike and len(name) >= _SHORTEST:
            user = next((s.id for s in knl.statements if name in variables(s.expression) | variables(s.assignee)), "")
            yield MisspelledNameWarning(
                f"'{name}' in statement '{user}' of kernel '{knl.name}' is taken for a scalar argument, and resembles "
                f"'{alike[0]}'. If it is meant, list it in kernel_data.")


def _letters(name: str) -> str:
    return "".join(c for c in name if not c.isdigit())
