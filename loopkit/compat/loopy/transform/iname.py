"""loopy's steps for inames."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pytools.tag import Tag

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.translation_unit import for_each_kernel
from loopkit.errors import PreconditionError, UnknownNameError
from loopkit.kernel.tags import TAGS, InameTag
from loopkit.language.names import name_list


@for_each_kernel
def split_iname(kernel: LoopKernel, split_iname: str, inner_length: int, *, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: Any = None, inner_tag: Any = None,
                slabs: tuple[int, int] = (0, 0), do_tagged_check: bool = True, within: Any = None) -> LoopKernel:
    """:func:`loopkit.split_iname`; *slabs* is needless, because generated code has a version for full tiles."""
    return kernel.with_core(lk.split_iname(
        kernel.core, split_iname, inner_length, outer_iname=outer_iname, inner_iname=inner_iname,
        outer_tag=_tag(outer_tag), inner_tag=_tag(inner_tag), **_within(within)))


@for_each_kernel
def chunk_iname(kernel: LoopKernel, split_iname: str, num_chunks: int, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: Any = None, inner_tag: Any = None,
                slabs: tuple[int, int] = (0, 0), do_tagged_check: bool = True, within: Any = None) -> LoopKernel:
    """:func:`loopkit.chunk_iname`."""
    return kernel.with_core(lk.chunk_iname(kernel.core, split_iname, num_chunks, outer_iname, inner_iname,
                                           _tag(outer_tag), _tag(inner_tag), **_within(within)))


@for_each_kernel
def join_inames(kernel: LoopKernel, inames: Sequence[str], new_iname: str | None = None, tag: Any = None,
                within: Any = None) -> LoopKernel:
    """:func:`loopkit.join_inames`."""
    new = new_iname or kernel.core.fresh_name("_and_".join(name_list(inames)))
    core = lk.join_inames(kernel.core, inames, new, **_within(within))
    return kernel.with_core(core if tag is None else lk.tag_inames(core, {new: _tag(tag)}))


@for_each_kernel
def rename_iname(kernel: LoopKernel, old_iname: str, new_iname: str, existing_ok: bool = False, within: Any = None,
                 preserve_tags: bool = True, raise_on_domain_mismatch: bool | None = None) -> LoopKernel:
    """:func:`loopkit.rename_iname`; with *existing_ok* :func:`loopkit.fuse_loops` joins the loops of both inames."""
    if existing_ok and new_iname in kernel.core.inames:
        return kernel.with_core(lk.fuse_loops(kernel.core, [new_iname, old_iname], new_iname))
    return kernel.with_core(lk.rename_iname(kernel.core, old_iname, new_iname, **_within(within)))


@for_each_kernel
def rename_inames(kernel: LoopKernel, old_inames: Collection[str], new_iname: str, existing_ok: bool = False,
                  within: Any = None, raise_on_domain_mismatch: bool | None = None) -> LoopKernel:
    """Give several inames one name: :func:`loopkit.fuse_loops` joins their loops."""
    old = [x for x in old_inames if x != new_iname]
    if len(old) == 1 and new_iname not in kernel.core.inames:
        return kernel.with_core(lk.rename_iname(kernel.core, old[0], new_iname, **_within(within)))
    if new_iname in kernel.core.inames and not existing_ok:
        raise PreconditionError(f"The iname '{new_iname}' exists.", subject=new_iname, hint="existing_ok=True")
    first = [new_iname] if new_iname in kernel.core.inames else []
    return kernel.with_core(lk.fuse_loops(kernel.core, [*first, *old], new_iname))


@for_each_kernel
def duplicate_inames(kernel: LoopKernel, inames: Any, within: Any, new_inames: Any = None, suffix: str | None = None,
                     tags: Mapping[str, Any] | None = None) -> LoopKernel:
    """:func:`loopkit.duplicate_inames`."""
    before = set(kernel.core.inames)
    core = lk.duplicate_inames(kernel.core, inames, as_within(within), new_inames, suffix)
    new = dict(zip(name_list(inames), (x for x in core.inames if x not in before), strict=False))
    own = {new[x]: _tag(tag) for x, tag in (tags or {}).items() if x in new}
    return kernel.with_core(lk.tag_inames(core, own) if own else core)


@for_each_kernel
def affine_map_inames(kernel: LoopKernel, old_inames: Any, new_inames: Any, equations: Any) -> LoopKernel:
    """:func:`loopkit.affine_map_inames`."""
    return kernel.with_core(lk.affine_map_inames(kernel.core, old_inames, new_inames, equations))


@for_each_kernel
def remove_unused_inames(kernel: LoopKernel, inames: Any = None) -> LoopKernel:
    """loopkit keeps only inames that statements have."""
    return kernel


@for_each_kernel
def prioritize_loops(kernel: LoopKernel, loop_priority: str | Sequence[str]) -> LoopKernel:
    """:func:`loopkit.prioritize_loops`, at once; an iname that the kernel does not have is left out."""
    names = [x for x in name_list(loop_priority) if x in kernel.core.inames]
    chain = [x for x in names if any(x in s.inames for s in kernel.core.statements)]
    return kernel.with_core(lk.prioritize_loops(kernel.core, chain)) if len(chain) > 1 else kernel


set_loop_priority = prioritize_loops


def tag_inames(program: Any, iname_to_tag: Any, force: bool = False, ignore_nonexistent: bool = False) -> Any:
    """:func:`loopkit.tag_inames`, whose keys may be patterns; a growing kernel gets the tags when it is made."""
    if isinstance(program, LoopKernel) and program.parts is not None:
        return program.copy(iname_tags=(*program.parts.iname_tags, *_pairs(iname_to_tag)))
    return _tagged(program, iname_to_tag, force, ignore_nonexistent)


@for_each_kernel
def _tagged(kernel: LoopKernel, iname_to_tag: Any, force: bool, ignore_nonexistent: bool) -> LoopKernel:
    wanted: dict[str, Any] = {}
    for pattern, tag in _pairs(iname_to_tag):
        found = [x for x in kernel.core.inames if fnmatchcase(x, pattern)]
        if not found and not ignore_nonexistent:
            raise UnknownNameError("iname", pattern, kernel.core.inames)
        wanted |= {x: _tag(tag) for x in found}
    return kernel.with_core(lk.tag_inames(kernel.core, wanted, force=force) if wanted else kernel.core)


@for_each_kernel
def untag_inames(kernel: LoopKernel, iname_to_untag: Any, tag_type: Any = None) -> LoopKernel:
    """:func:`loopkit.untag_inames`."""
    names = [x for x in name_list(iname_to_untag) if x in kernel.core.tags]
    return kernel.with_core(lk.untag_inames(kernel.core, names) if names else kernel.core)


@for_each_kernel
def make_reduction_inames_unique(kernel: LoopKernel, inames: Any = None, within: Any = None) -> LoopKernel:
    """The inames of a reduction exist only inside it, so nothing changes."""
    return kernel


def has_schedulable_iname_nesting(program: Any) -> bool:
    """A kernel of loopkit has an order from the start."""
    return True


def get_iname_duplication_options(program: Any) -> Iterable[tuple[Any, Any]]:
    """Inames that must be duplicated before a kernel runs: none, as a kernel has an order from the start."""
    return ()


def _pairs(tags: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(tags, Mapping):
        return tags.items()
    if isinstance(tags, str):
        return [tuple(map(str.strip, part.split(":"))) for part in tags.split(",")]  # type: ignore[misc]
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


def _within(within: Any) -> dict[str, Any]:
    text = as_within(within)
    return {} if text is None else {"within": text}
