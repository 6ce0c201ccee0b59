"""loopy's steps for inames."""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial, reduce
from itertools import combinations
from typing import Any

from pytools.tag import Tag

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.diagnostic import LoopyWarning
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.lockstep import in_lockstep
from loopkit.compat.loopy.match import Id, Or, as_within
from loopkit.compat.loopy.nesting import in_new_order
from loopkit.compat.loopy.spelling import INAMES
from loopkit.compat.loopy.transform.data import value_dtype
from loopkit.compat.loopy.translation_unit import core_of, for_each_kernel, single_kernel
from loopkit.errors import (
    IllegalTransformError,
    PreconditionError,
    ScheduleError,
    UndecidedError,
    UnknownNameError,
)
from loopkit.expr.mappers import variables
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import TAGS, AutoLocalTag, GroupTag, IlpTag, InameTag, LocalTag, VecTag
from loopkit.kernel.tree import leaves, loops_in
from loopkit.language.names import name_list


@for_each_kernel
def split_iname(kernel: LoopKernel, split_iname: str, inner_length: int, *, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: Any = None, inner_tag: Any = None,
                slabs: tuple[int, int] = (0, 0), do_tagged_check: bool = True, within: Any = None) -> LoopKernel:
    """:func:`loopkit.split_iname`; *slabs* has no effect, because code of blocks has a version for full tiles."""
    return _split(kernel, lk.split_iname(kernel.core, split_iname, inner_length, **_given(
        outer_iname=outer_iname, inner_iname=inner_iname, within=as_within(within))),
                  {outer_iname or f"{split_iname}_outer": outer_tag, inner_iname or f"{split_iname}_inner": inner_tag})


@for_each_kernel
def chunk_iname(kernel: LoopKernel, split_iname: str, num_chunks: int, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: Any = None, inner_tag: Any = None,
                slabs: tuple[int, int] = (0, 0), do_tagged_check: bool = True, within: Any = None) -> LoopKernel:
    """:func:`loopkit.chunk_iname`."""
    return _split(kernel, lk.chunk_iname(kernel.core, split_iname, num_chunks, **_given(
        outer_iname=outer_iname, inner_iname=inner_iname, within=as_within(within))),
                  {outer_iname or f"{split_iname}_outer": outer_tag, inner_iname or f"{split_iname}_inner": inner_tag})


@for_each_kernel
def join_inames(kernel: LoopKernel, inames: Sequence[str], new_iname: str | None = None, tag: Any = None,
                within: Any = None) -> LoopKernel:
    """:func:`loopkit.join_inames`, after the loops are in the order of *inames*."""
    names = name_list(inames)
    new = new_iname or kernel.core.fresh_name("_and_".join(names))
    free = len(names) > 1 and not any(x in kernel.core.tags for x in names)
    core = lk.prioritize_loops(kernel.core, names) if free else kernel.core
    core = lk.join_inames(core, names, new, **_given(within=as_within(within)))
    return kernel.with_core(core if tag is None else _tagged(kernel, core, {new: _tag(tag)}))


@for_each_kernel
def rename_iname(kernel: LoopKernel, old_iname: str, new_iname: str, existing_ok: bool = False, within: Any = None,
                 preserve_tags: bool = True, raise_on_domain_mismatch: bool | None = None) -> LoopKernel:
    """:func:`loopkit.rename_inames` of one iname; with *existing_ok* the loops of both inames are joined."""
    core = lk.rename_inames(kernel.core, [old_iname], new_iname, existing_ok, as_within(within))
    return kernel.with_core(core if preserve_tags else lk.untag_inames(core, [new_iname]))


@for_each_kernel
def rename_inames(kernel: LoopKernel, old_inames: Collection[str], new_iname: str, existing_ok: bool = False,
                  within: Any = None, raise_on_domain_mismatch: bool | None = None) -> LoopKernel:
    """:func:`loopkit.rename_inames`, which joins the loops of inames that get one name."""
    return kernel.with_core(lk.rename_inames(kernel.core, [x for x in old_inames if x != new_iname], new_iname,
                                             existing_ok, as_within(within)))


@for_each_kernel
def duplicate_inames(kernel: LoopKernel, inames: Any, within: Any, new_inames: Any = None, suffix: str | None = None,
                     tags: Mapping[str, Any] | None = None) -> LoopKernel:
    """:func:`loopkit.duplicate_inames`."""
    before = set(kernel.core.inames)
    core = lk.duplicate_inames(kernel.core, inames, as_within(within), new_inames, suffix)
    new = dict(zip(name_list(inames), (x for x in core.inames if x not in before), strict=False))
    own = {new[x]: _tag(tag) for x, tag in (tags or {}).items() if x in new}
    return kernel.with_core(_tagged(kernel, core, own))


@for_each_kernel
def remove_unused_inames(kernel: LoopKernel, inames: Any = None) -> LoopKernel:
    """loopkit keeps only inames that statements have."""
    return kernel


@for_each_kernel
def prioritize_loops(kernel: LoopKernel, loop_priority: str | Sequence[str]) -> LoopKernel:
    """:func:`loopkit.prioritize_loops`, at once; an iname that the kernel does not have gives a warning.

    The first order of loops that the text leaves open needs no proof: it defines the kernel.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i,t]: 1<=i<n-1 and 0<=t<m}", "u[t+1,i] = u[t,i-1] + u[t,i+1]")
    >>> print(lp.prioritize_loops(knl, "t,i")["loopy_kernel"].core.statements_text)
    for t, i
      u[t + 1, i] = u[t, i - 1] + u[t, i + 1]  {id=insn}
    end
    """
    chain = [x for x in name_list(loop_priority) if any(x in s.inames for s in kernel.core.statements)]
    for name in name_list(loop_priority):
        if name not in chain:
            warnings.warn(f"prioritize_loops: no statement has the iname '{name}'.", LoopyWarning, stacklevel=2)
    if len(chain) < 2:
        return kernel
    nesting = kernel.origin.nesting
    core, _ = in_new_order(kernel.core, lambda core, **how: lk.prioritize_loops(core, chain, **how),
                           is_open=nesting.leaves_open(kernel.core, chain))
    return replace(kernel.with_core(core), origin=replace(kernel.origin, nesting=nesting.with_order(
        core, tuple(chain))))


set_loop_priority = prioritize_loops


def tag_inames(program: Any, iname_to_tag: Any, force: bool = False, ignore_nonexistent: bool = False) -> Any:
    """:func:`loopkit.tag_inames`, whose keys may be patterns of any number of inames.

    A growing kernel gets the tags when it is made.
    """
    if isinstance(program, LoopKernel) and program.parts is not None:
        return program.copy(iname_tags=(*program.parts.iname_tags, *_pairs(iname_to_tag)))
    return _with_tags(program, iname_to_tag, force, ignore_nonexistent)


@for_each_kernel
def _with_tags(kernel: LoopKernel, iname_to_tag: Any, force: bool, ignore_nonexistent: bool) -> LoopKernel:
    wanted: dict[str, Any] = {}
    for pattern, tag in _pairs(iname_to_tag):
        found = [x for x in kernel.core.inames if fnmatchcase(x, pattern)]
        if not found and not ignore_nonexistent and not {"*", "?"} & {*pattern}:
            raise UnknownNameError("iname", pattern, kernel.core.inames)
        wanted |= {x: _tag(tag) for x in found} if tag is not None else {}
    return kernel.with_core(_tagged(kernel, kernel.core, wanted, force=force) if wanted else kernel.core)


@for_each_kernel
def untag_inames(kernel: LoopKernel, iname_to_untag: Any, tag_type: Any = None) -> LoopKernel:
    """:func:`loopkit.untag_inames`."""
    return kernel.with_core(lk.untag_inames(kernel.core, name_list(iname_to_untag), tag_type))


@for_each_kernel
def add_inames_for_unused_hw_axes(kernel: LoopKernel, within: Any = None) -> LoopKernel:
    """:func:`loopkit.add_inames_to_insn` for each axis of the grid or the block that a statement lacks and others have.

    If the new loops have no place in the order of the kernel, a statement that writes a number moves into those of the
    readers. If these have other loops, it stays where it is: each thread computes the number anyway.

    :raises PreconditionError: an iname has the tag ``l.auto``, or several inames have an axis that a statement lacks.
    """
    core, on_axis = kernel.core, dict[str, list[str]]()
    for x, tag in core.tags.items():
        if isinstance(tag, AutoLocalTag):
            raise PreconditionError(f"The axis of '{x}' is not known, as its tag is l.auto.", subject=x,
                                    hint="tag it with an axis first")
        if isinstance(tag, GroupTag | LocalTag):
            on_axis.setdefault(str(tag), []).append(x)
    text = as_within(within)
    if isinstance(text, Tag) and not any(text in s.options.tags for s in core.statements):
        return kernel
    chosen, lacking = None if text is None else matching(core, text), dict[tuple[str, ...], list[str]]()
    for insn in kernel.core.instructions:
        missing = {axis: names for axis, names in on_axis.items() if insn.within_inames is not None
                   and insn.within_inames.isdisjoint(names) and (chosen is None or insn.id in chosen)}
        for axis, names in missing.items():
            if len(names) > 1:
                raise PreconditionError(f"'{insn.id}' could get '{names[0]}' or '{names[1]}' for the axis {axis}.",
                                        subject=axis, hint="lp.add_inames_to_insn names the iname")
        if missing:
            lacking.setdefault(tuple(x for names in missing.values() for x in names), []).append(f"id:{insn.id}")
    for inames, ids in lacking.items():
        core = _with_inames(kernel, core, inames, " or ".join(ids))
    return kernel.with_core(core)


@for_each_kernel
def add_inames_to_insn(kernel: LoopKernel, inames: Any, insn_match: Any) -> LoopKernel:
    """:func:`loopkit.add_inames_to_insn`; for a number that threads compute see
    :func:`add_inames_for_unused_hw_axes`. A value that all threads would store in one element is stored once."""
    names = [*inames] if isinstance(inames, frozenset | set) else name_list(inames)
    return kernel.with_core(_with_inames(kernel, kernel.core, sorted(names), as_within(insn_match)))


def _with_inames(kernel: LoopKernel, core: lk.LoopKernel, inames: Sequence[str], match: str | Tag | None
                 ) -> lk.LoopKernel:
    """*core* with further *inames* of the statements of *match*; *kernel* is around it."""
    try:
        return lk.add_inames_to_insn(core, inames, match)
    except PreconditionError:
        statements = [core.statement_by_id[x] for x in sorted(matching(core, match or "*"))]
        numbers = all(not array_shapes(core).get(s.written, (1,)) for s in statements)
        if not numbers or not all(isinstance(core.tags.get(x), GroupTag | LocalTag) for x in inames):
            raise
    except IllegalTransformError:
        own = {x: core.tags[x] for x in inames if x in core.tags}
        if not own:
            raise
        plain = lk.untag_inames(core, [*own])
        return _tagged(kernel, lk.add_inames_to_insn(plain, inames, match), own)
    for s in statements:
        every = {*s.inames, *inames}
        readers = [r for r in core.statements if s.written in variables(r.expression) and r.id != s.id]
        # else each thread computes the number anyway
        with suppress(IllegalTransformError, PreconditionError, UndecidedError):
            core = _with_number_at(core, s, every) if all({*r.inames} == every for r in readers) else core
    return core


def _with_number_at(core: lk.LoopKernel, s: Statement, inames: Collection[str]) -> lk.LoopKernel:
    """*core* with *s*, which writes a number, in the loops of its readers, which are those over *inames*."""
    known = core.substitutions.keys()
    new = lk.assignment_to_subst(core, s.written)
    [rule] = new.substitutions.keys() - known
    new = lk.precompute(new, rule, (), precompute_outer_inames=[x for x in core.inames if x in inames],
                        temporary_name=s.written, compute_insn_id=s.id, default_tag=None,
                        dtype=core.temporaries[s.written].dtype or value_dtype(new, rule))
    return reduce(lambda knl, tag: lk.tag_instructions(knl, tag, within=s.id), sorted(s.options.tags, key=str), new)


@for_each_kernel
def make_reduction_inames_unique(kernel: LoopKernel, inames: Any = None, within: Any = None) -> LoopKernel:
    """Give each reduction its own inames: the first one with an iname keeps it."""
    core = kernel.core
    chosen = None if inames is None else name_list(inames)
    selected = None if within is None else matching(core, as_within(within) or "*")
    for x in core.inames:
        loops = [loop for loop in loops_in(core.tree) if loop.iname == x]
        for loop in loops[1:]:
            inside = [*leaves(loop)]
            of_reduction = any(x in node.inames and node.update in inside for node in core.reductions.values())
            if of_reduction and (chosen is None or x in chosen) and (selected is None or selected & {*inside}):
                core = lk.rename_iname(core, x, core.fresh_name(x), within=inside)
    return kernel.with_core(core)


def has_schedulable_iname_nesting(program: Any) -> bool:
    """Does one loop for each iname hold all of its statements? Other kernels run too, with several loops."""
    return next(iter(get_iname_duplication_options(program)), None) is None


def get_iname_duplication_options(program: Any) -> Iterator[tuple[str, str]]:
    """Inames of which some statements need a copy if one loop for each iname is to hold all of its statements.

    :returns: for each possible duplication an iname, and the match expression of the statements.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i,j]: 0<=i,j<n}", "a[i,j] = 1 {id=a}\\nb[j] = 1 {id=b}\\nc[i] = 1 {id=c}")
    >>> for iname, within in lp.get_iname_duplication_options(knl):
    ...     print(iname, "in", within)
    i in (id:c)
    i in (id:a)
    j in (id:a)
    j in (id:b)
    >>> lp.has_schedulable_iname_nesting(lp.duplicate_inames(knl, "i", within="id:c"))
    True
    """
    kernel = single_kernel(program)
    without_order = {x for x, tag in kernel.core.tags.items()
                     if isinstance(tag, GroupTag | LocalTag | AutoLocalTag | IlpTag | VecTag)}
    own = {str(i.id): i.within_inames - without_order for i in kernel.instructions}
    for iname, chosen in _duplications(sorted({*own.values()}, key=sorted), frozenset()):
        yield iname, Or([Id(name) for name, inames in own.items() if inames in chosen])


def _duplications(nests: Sequence[frozenset[str]], around: frozenset[str]
                  ) -> Iterator[tuple[str, Collection[frozenset[str]]]]:
    """Inames, and those of *nests*, loops inside of the loops *around*, that could get a copy of the iname."""
    common = frozenset.intersection(*nests) if nests else frozenset[str]()
    around |= common
    inner = [nest - common for nest in nests if nest > common]
    parts = list[frozenset[str]]()                         # nests of two parts share no loop
    for nest in inner:
        joined = [part for part in parts if part & nest]
        parts = [*(part for part in parts if part not in joined), nest.union(*joined)]
    if len(parts) > 1 or common:
        for part in parts:
            yield from _duplications([nest for nest in inner if nest <= part], around)
        return
    for iname in sorted(frozenset[str]().union(*parts)):
        own = [nest for nest in inner if iname in nest]
        for some in (some for count in range(1, len(own)) for some in combinations(own, count)):
            yield iname, [nest | around for nest in some]


def _split(kernel: LoopKernel, core: lk.LoopKernel, tags: Mapping[str, Any]) -> LoopKernel:
    """*kernel* around *core* with *tags* for the new inames of these names, or whose names begin with one of them."""
    made = [x for x in core.inames if x not in kernel.core.inames]
    return kernel.with_core(_tagged(kernel, core, {x: _tag(tag) for start, tag in tags.items() if tag is not None
                                           for x in made if x == start or (start not in made and x.startswith(start))}))


def _tagged(kernel: LoopKernel, core: lk.LoopKernel, tags: Mapping[str, Any], *, force: bool = False
            ) -> lk.LoopKernel:
    """*core* with *tags*, in loopy's order over parallel inames; *kernel* has the warnings that are silenced."""
    given = ((x, TAGS.get(tag, tag) if isinstance(tag, str) else tag) for x, own in tags.items()
             for tag in (own if isinstance(own, list) else [own]))
    of_execution = {x: tag for x, tag in given if isinstance(tag, InameTag)}
    if not tags:
        return core
    try:
        return lk.tag_inames(in_lockstep(core, of_execution), tags, force=force)
    except IllegalTransformError:
        once = in_lockstep(core, of_execution, once=True)
        if once is core:
            raise
        # an iname without statements has no tag
        left = {x: tag for x, tag in tags.items() if x in once.inames}
        return lk.tag_inames(once, left, force=force) if left else once
    except UndecidedError:
        silenced = [pattern for pattern in kernel.silenced_warnings if pattern.startswith("write_race")]
        if not silenced:
            raise
        new = lk.tag_inames(in_lockstep(core, of_execution), tags, force=force,
                            assume="silenced_warnings= has the write races of these statements")
        if not _are_silenced_races(core, [o.claim for o in new.obligations if o not in core.obligations], silenced):
            raise
        return new


def _are_silenced_races(core: lk.LoopKernel, claims: Iterable[str], silenced: Collection[str]) -> bool:
    """Are *claims* about pairs of statements of *core* whose write races have the patterns *silenced*?"""
    pairs = [() if (found := _PAIR.match(claim)) is None else found.groups() for claim in claims]
    # the copies of a statement for separate arguments have its claim
    known = {x: x if (own := _SEPARATE.sub("", x)) in core.statement_by_id else own for pair in pairs for x in pair}
    return all(pair and all(any(fnmatchcase(f"write_race({known[x]})", pattern) for pattern in silenced)
                            for x in pair) for pair in pairs)


#: The claim that two statements have no race.
_PAIR = re.compile(r"'(\w+)' and '(\w+)' never access one element")
_SEPARATE = re.compile(r"(_s\d+)+$")


def _pairs(tags: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(tags, Mapping):
        return tags.items()
    if isinstance(tags, str):
        pairs = [tuple(map(str.strip, part.split(":"))) for part in tags.split(",")]
        if wrong := [pair for pair in pairs if len(pair) != 2]:
            raise PreconditionError(f"'{':'.join(wrong[0])}' is not an iname with a tag.", subject=tags,
                                    hint="write 'i:g.0, j:l.0' or {'i': 'g.0', 'j': 'l.0'}")
        return pairs  # type: ignore[return-value]
    return list(tags)


def _tag(tag: Any) -> Any:
    """loopkit's tag for loopy's *tag*, or ``None``; :raises PreconditionError: there is none."""
    if tag is None or isinstance(tag, InameTag | Tag):
        return tag
    if isinstance(tag, Iterable) and not isinstance(tag, str):
        return [_tag(one) for one in tag]
    name = {"ord": "for", "forceloop": "for", "unr_hint": "for"}.get(str(tag), str(tag))
    if name not in TAGS:
        raise PreconditionError(f"'{tag}' is not an iname tag of loopkit.", subject=str(tag),
                                hint=f"the tags are {', '.join(TAGS)}")
    return name


def _given(**arguments: Any) -> dict[str, Any]:
    """The *arguments* that have a value: the history of a kernel shows these only."""
    return {name: value for name, value in arguments.items() if value is not None}


@for_each_kernel
def affine_map_inames(kernel: LoopKernel, old_inames: Any, new_inames: Any, equations: Any) -> LoopKernel:
    """:func:`loopkit.affine_map_inames`; where the text leaves the order of loops open, the new ones may need one."""
    old = name_list(old_inames)
    return _with_new_loops(kernel, old, lambda core, **how: lk.affine_map_inames(
        core, old, name_list(new_inames), equations, **how))


@for_each_kernel
def map_domain(kernel: LoopKernel, transform_map: Any) -> LoopKernel:
    """:func:`loopkit.map_domain`; where the text leaves the order of loops open, the new ones may need one."""
    text = str(transform_map)
    mapped = INAMES.search(text)
    return _with_new_loops(kernel, () if mapped is None else name_list(mapped[1]),
                           lambda core, **how: lk.map_domain(core, text, **how))


def find_unused_axis_tag(kernel: Any, kind: Any, insn_match: Any = None) -> Any:
    """:func:`loopkit.find_unused_axis_tag`."""
    return lk.find_unused_axis_tag(core_of(kernel), kind, as_within(insn_match))


def _with_new_loops(kernel: LoopKernel, mapped: Sequence[str], step: Callable[..., lk.LoopKernel]) -> LoopKernel:
    """*kernel* after *step*, which puts new loops in place of those over *mapped*; a later step may give their order.

    If the text leaves the order of loops open, those over *mapped* need not be next to each other.
    """
    nesting, old, start = kernel.origin.nesting, kernel.core.inames, kernel.core
    is_open = nesting.leaves_open(start, ())
    try:
        core, defined = in_new_order(start, step, is_open=is_open)
    except ScheduleError:
        loops = next((s.inames for s in start.statements if {*mapped} <= {*s.inames}), ())
        if not loops or not nesting.leaves_open(start, loops):
            raise
        at = min(map(loops.index, mapped))
        rest = [x for x in loops[at:] if x not in mapped]
        start, _ = in_new_order(start, partial(lk.prioritize_loops, loop_priority=[*loops[:at], *mapped, *rest]),
                                is_open=True)
        core, defined = in_new_order(start, step, is_open=True)
    new = [x for x in core.inames if x not in old]
    return replace(kernel.with_core(core), origin=replace(kernel.origin, nesting=nesting.without_order(
        core, new if defined else ()))) if defined or start is not kernel.core else kernel.with_core(core)
