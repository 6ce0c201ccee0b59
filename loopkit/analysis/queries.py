"""Questions about the rules and the axes of a kernel."""
from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import count

from loopkit.analysis.match import Within, matching
from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, InameTag, LocalTag
from loopkit.poly.limits import bounded


@checked
def find_rules_matching(kernel: LoopKernel, pattern: str) -> list[str]:
    """The names of the substitution rules of *kernel* that match *pattern*.

    :arg pattern: a name, which may have the wildcards ``*``, ``?`` and ``[...]``.
    :raises PreconditionError: *pattern* cannot match a name.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "t_load(s) := x[s]\\ny[i] = t_load(i)")
    >>> lk.find_rules_matching(knl, "*_load")
    ['t_load']
    """
    if not pattern or any(x.isspace() for x in pattern):
        raise PreconditionError(f"'{pattern}' cannot match the name of a rule.", subject=pattern,
                                hint="a pattern is a name with the wildcards *, ? and [...]")
    return [name for name in kernel.substitutions if fnmatchcase(name, pattern)]


@checked
def find_one_rule_matching(kernel: LoopKernel, pattern: str) -> str:
    """The name of the one substitution rule of *kernel* that matches *pattern*; see :func:`find_rules_matching`.

    :raises PreconditionError: no rule matches, or several do.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "t_load(s) := x[s]\\ny[i] = t_load(i)")
    >>> lk.find_one_rule_matching(knl, "t_*")
    't_load'
    """
    found = find_rules_matching(kernel, pattern)
    if len(found) != 1:
        known = ", ".join(found or kernel.substitutions) or "none"
        raise PreconditionError(f"'{pattern}' matches {len(found) or 'none'} of the substitution rules.",
                                subject=pattern, hint=f"{'these match' if found else 'the rules are'}: {known}")
    return found[0]


@checked
def find_unused_axis_tag(kernel: LoopKernel, kind: str | type, insn_match: Within = None) -> InameTag:
    """The tag of the first axis of the grid or of the block that no iname of some statements has.

    :arg kind: ``"g"`` for an axis of the grid, ``"l"`` for one of the block, or the class of such a tag.
    :arg insn_match: the statements; default: all.
    :raises PreconditionError: *kind* is not a kind of axis.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "y[i, j] = 2*x[i, j]")
    >>> knl = lk.tag_inames(knl, "i:g.0, j:l.0")
    >>> print(lk.find_unused_axis_tag(knl, "l"))
    l.1
    """
    axis_tag = {"g": GroupTag, "l": LocalTag, GroupTag: GroupTag, LocalTag: LocalTag}.get(kind)
    if axis_tag is None:
        raise PreconditionError(f"kind={kind!r} is not a kind of axis.", subject="kind", hint="kind='g' or kind='l'")
    with bounded(f"reading kernel '{kernel.name}'"):
        chosen = kernel.statement_by_id if insn_match is None else matching(kernel, insn_match)
    used = {kernel.tags.get(x) for s in chosen for x in kernel.statement_by_id[s].inames}
    return next(tag for tag in map(axis_tag, count()) if tag not in used)
