"""Names and labels of statements: steps that change nothing else."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytools.tag import Tag

from loopkit.analysis.constructors import Image, reindexed, rewritten
from loopkit.analysis.match import Within
from loopkit.errors import NameConflictError, PreconditionError, require_known
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tags import user_tags
from loopkit.kernel.tree import with_ids
from loopkit.language.names import is_id
from loopkit.transform.step import matching_statements, transform

#: A label or a user tag, or several of them.
Labels = str | Tag | Iterable[str | Tag]
#: A new id, or several of them.
NewIds = str | Iterable[str]


@transform
def tag_instructions(kernel: LoopKernel, new_tag: Labels, within: Within = None) -> LoopKernel:
    """Give instructions a tag, which ``within="tag:..."`` selects.

    :arg new_tag: a label, a user tag, or several of them.
    :arg within: the instructions; default: all.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {id=copy}")
    >>> print(lk.tag_instructions(knl, "main", within="twice").statements_text)
    for i
      y[i] = 2*x[i]  {id=twice, tags=main}
      z[i] = y[i]  {id=copy}
    end
    """
    new = frozenset((new_tag,) if isinstance(new_tag, str | Tag) else new_tag)
    for label in new:
        if isinstance(label, str) and not is_id(label):
            raise PreconditionError(f"'{label}' cannot be a label of a statement.", subject=label,
                                    hint="a label has letters, digits and underscores")
    chosen = matching_statements(kernel, within)

    def tagged_one(s: Statement) -> Statement:
        user_tags((tag for tag in s.options.tags | new if not isinstance(tag, str)), f"'{s.id}'")
        return replace(s, options=replace(s.options, tags=s.options.tags | new))
    return rewritten(kernel, statements=tuple(tagged_one(s) if s.id in chosen else s for s in kernel.statements))


@transform
def replace_instruction_ids(kernel: LoopKernel, replacements: Mapping[str, NewIds]) -> LoopKernel:
    """Rename statements, with the parts of their reductions.

    :arg replacements: a mapping from ids to new ids, each a text or a list. The first of a list is the new id. A
        statement with ``dep=`` on the old id depends on all of the list.
    :raises UnknownNameError: there is no such statement.
    :raises NameConflictError: a new id is taken, or cannot be one.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {dep=twice}")
    >>> print(lk.replace_instruction_ids(knl, {"twice": "double"}).statements_text)
    for i
      y[i] = 2*x[i]  {id=double}
      z[i] = y[i]  {id=insn, dep=double}
    end
    """
    require_known("statement", replacements, {owner(s) for s in kernel.statement_by_id})
    new = {old: (ids,) if isinstance(ids, str) else tuple(ids) for old, ids in replacements.items()}
    for old, ids in new.items():
        if not ids or not is_id(ids[0]):
            raise PreconditionError(f"'{old}' cannot get the ids {', '.join(ids) or 'of an empty list'}.", subject=old,
                                    hint="an id has letters, digits and underscores")

    def renamed(statement: str) -> str:
        first, *rest = statement.split(".")
        return ".".join((new[first][0] if first in new else first, *rest))
    names = {s: renamed(s) for s in kernel.statement_by_id}
    known = Counter(names.values())
    for name, count in known.items():
        if count > 1:
            raise NameConflictError(f"'{name}' is already the id of a statement.", subject=name,
                                    hint="choose another id")

    def others(ids: Iterable[str]) -> frozenset[str]:
        every = frozenset(x for s in ids for x in (new[s] if s in new else (names.get(s, s),)))
        require_known("statement", sorted(every), known)
        return every

    def moved(s: Statement) -> Statement:
        own = s.options
        return replace(s, id=names[s.id], options=replace(
            own, depends_on=others(own.depends_on), no_sync_with=others(own.no_sync_with)))
    return reindexed(
        kernel, {s: (Image(name),) for s, name in names.items()}, statements=tuple(map(moved, kernel.statements)),
        tree=with_ids(kernel.tree, names),
        reductions={renamed(node.name): replace(
            node, name=renamed(node.name), init=names[node.init], updates=tuple(names[s] for s in node.updates),
            final=names[node.final]) for node in kernel.reductions.values()},
        barriers=tuple(replace(b, first=names[b.first], second=names[b.second]) for b in kernel.barriers))
