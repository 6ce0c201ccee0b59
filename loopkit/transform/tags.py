"""Tags: tag_inames selects how the instances along an iname are executed; user tags have no meaning here."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytools.tag import Tag

from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import require_legal
from loopkit.analysis.ranges import with_known_sizes
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import (
    AutoLocalTag,
    GivenTags,
    GroupTag,
    IlpTag,
    InameTag,
    InstructionTag,
    UnrollTag,
    VecTag,
    user_tags,
)
from loopkit.language.names import name_list
from loopkit.transform.step import as_tag, iname_list, require_iname, transform

#: A tag of an iname, or several of them.
AnyTag = str | InameTag | Tag | Iterable[str | InameTag | Tag]
TagMap = Mapping[str, AnyTag] | Iterable[tuple[str, AnyTag]] | str


@transform
def tag_inames(kernel: LoopKernel, iname_to_tag: TagMap, *, force: bool = False, assume: str | None = None,
               unsafe: bool = False) -> LoopKernel:
    """Tag inames. A tag selects how the instances along its iname are executed.

    ``g.0`` to ``g.2`` distribute the instances over the axes of the grid of blocks, and ``l.0`` to ``l.2`` over the
    axes of the threads of a block; ``l.auto`` lets lowering choose the axes. ``unr`` unrolls the loop. ``ilp`` and
    ``ilp.seq`` run all instances of a statement before the next statement. ``vec`` also uses vector loads and stores.
    ``for`` keeps a sequential loop. ``cpu.threads`` distributes the instances over the threads of the host, and
    ``cpu.simd`` runs them in its vector units. Only :func:`tensorize` sets ``instr``.

    A user tag, an instance of a class derived from ``pytools.tag.Tag``, is recorded beside other tags of its iname. It
    has no effect. :meth:`LoopKernel.iname_tags` gives it, :func:`rename_iname` keeps it, and the parts of a split
    iname do not inherit it.

    :arg iname_to_tag: a mapping from inames to tags (``{"i": "g.0"}``), pairs, or loopy's text form ``"i:g.0, j:l.0"``;
        a list of tags gives an iname several tags. A pattern with ``*``, ``?`` or ``[...]`` stands for all inames that
        match it and are not named.
    :arg force: replace existing tags other than ``l.auto``, which any tag replaces.

    ``unr``, ``ilp``, ``vec`` and ``instr`` need an extent that is constant when the kernel is lowered: a later
    :func:`fix_parameters` or :func:`assume` can make it constant. An extent on ``l.0`` to ``l.2`` may depend on the
    sizes of the call, which then has blocks of that many threads.

    :raises UnknownNameError: the kernel has no such iname.
    :raises PreconditionError: a tag is unknown, or an iname has another tag. ``vec`` needs an even extent and allows
        one iname per statement. A reduction iname cannot be distributed over blocks.
    :raises IllegalTransformError: a dependence would be broken; with its witness.
    :raises UndecidedError: legality cannot be decided.

    >>> knl = lk.make_kernel("{[i]: 0<=i<64}", "y[i] = 2*x[i]")
    >>> dict(lk.tag_inames(knl, {"i": "l.0"}).tags)
    {'i': LocalTag(axis=0)}
    """
    tags, users = _tags_by_iname(kernel, iname_to_tag)
    for x, own in users.items():
        known = user_tags((*own, *kernel.user_tags.get(x, ())), f"'{x}'")
        kernel = annotated(kernel, user_tags={**kernel.user_tags, x: known})
    return tagged(kernel, tags, "tag_inames", force=force, assume=assume, unsafe=unsafe)


@transform
def untag_inames(kernel: LoopKernel, inames: str | Iterable[str], tag_type: type | None = None, *,
                 assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Remove the tags of *inames*: their loops become plain loops in the same place.

    :arg tag_type: remove only tags of this class, also user tags; default: the tags of execution.
    :raises UnknownNameError: a name is not an iname.

    >>> knl = lk.make_kernel("{[i]: 0<=i<64}", "y[i] = 2*x[i]")
    >>> dict(lk.untag_inames(lk.tag_inames(knl, "i:l.0"), "i").tags)
    {}
    """
    names, wanted = iname_list(kernel, inames), InameTag if tag_type is None else tag_type
    result = annotated(
        kernel, tags={x: t for x, t in kernel.tags.items() if x not in names or not isinstance(t, wanted)},
        user_tags={x: frozenset(t for t in own if x not in names or not isinstance(t, wanted))
                   for x, own in kernel.user_tags.items()})
    return require_legal(result, f"untag_inames({', '.join(names)})", assume=assume, unsafe=unsafe)


@transform
def tag_kernel(kernel: LoopKernel, tags: GivenTags) -> LoopKernel:
    """Give the kernel user tags of its own, which :meth:`LoopKernel.tags_of_type` gives.

    >>> from pytools.tag import Tag
    >>> class Fused(Tag):
    ...     "Made from several kernels."
    >>> knl = lk.tag_kernel(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), Fused())
    >>> len(knl.tags_of_type(Fused))
    1

    :raises PreconditionError: one is not a tag, or two are of one class of which an object has at most one.
    """
    own = f"kernel '{kernel.name}'"
    return annotated(kernel, kernel_tags=user_tags((*user_tags(tags, own), *kernel.kernel_tags), own))


@transform
def unroll(kernel: LoopKernel, inames: str | Iterable[str], *, assume: str | None = None, unsafe: bool = False
           ) -> LoopKernel:
    """Unroll the loops over *inames* (the tag ``unr``); each needs a trip count that is constant in the end.

    :raises UnknownNameError: a name is not an iname.
    :raises PreconditionError: an iname has another tag.

    >>> knl = lk.make_kernel("{[i]: 0<=i<4}", "y[i] = 2*x[i]")
    >>> dict(lk.unroll(knl, "i").tags)
    {'i': UnrollTag()}
    """
    names = iname_list(kernel, inames)
    return tagged(kernel, dict.fromkeys(names, UnrollTag()), "unroll", assume=assume, unsafe=unsafe)


def tagged(kernel: LoopKernel, tags: Mapping[str, str | InameTag | None], step: str, *, force: bool = False,
           assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """*kernel* with those of *tags* that are given, checked; *step* names the transformation in messages."""
    new = {x: as_tag(t) for x, t in tags.items() if t is not None}
    if not new:
        return kernel
    for x, tag in new.items():
        require_iname(kernel, x)
        old = kernel.tags.get(x)
        # l.auto leaves the axis to a later choice
        if old is not None and old != tag and not force and not isinstance(old, AutoLocalTag):
            raise PreconditionError(f"'{x}' has the tag '{old}' already.", subject=x,
                                    hint="pass force=True to replace it, or untag_inames first")
        _require_able(kernel, x, tag, [y for y, other in {**kernel.tags, **new}.items() if isinstance(other, VecTag)])
    result = annotated(kernel, tags={**kernel.tags, **new})
    shown = ", ".join(f"{x}: {t}" for x, t in new.items())
    return require_legal(result, f"{step} ({shown})" if step != "tag_inames" else f"tag_inames({shown})",
                         assume=assume, unsafe=unsafe)


def _tags_by_iname(kernel: LoopKernel, tags: TagMap) -> tuple[dict[str, str | InameTag], dict[str, list[Tag]]]:
    """The tags of execution, and the user tags, by iname; a name goes before a pattern that matches it."""
    own, users = dict[str, str | InameTag](), dict[str, list[Tag]]()
    pairs = _tag_pairs(tags) if isinstance(tags, str) else list(tags.items() if isinstance(tags, Mapping) else tags)
    named = {name for name, _ in pairs}
    for name, given in pairs:
        for x in iname_list(kernel, [name]):
            if x != name and x in named:
                continue
            for tag in (given,) if isinstance(given, str | InameTag | Tag) else given:
                if isinstance(tag, Tag):
                    users.setdefault(x, []).append(tag)
                else:
                    own[x] = tag
    return own, users


def _tag_pairs(tags: str) -> list[tuple[str, AnyTag]]:
    items = name_list(tags)
    for item in items:
        if ":" not in item:
            following = next((x.partition(":")[2].strip() for x in items[items.index(item):] if ":" in x), "g.0")
            raise PreconditionError(f"'{item}' has no tag in '{tags}'.", subject=item,
                                    hint=f"each iname has its own tag: '{item}:{following}'")
    return [(iname.strip(), tag.strip()) for iname, _, tag in (item.partition(":") for item in items)]


def _require_able(kernel: LoopKernel, iname: str, tag: InameTag, vectors: Sequence[str]) -> None:
    """:raises PreconditionError: *iname* cannot have this *tag*; *vectors* are all inames with the tag ``vec``."""
    nodes = kernel.reductions.values()
    if isinstance(tag, GroupTag) and (node := next((node for node in nodes if iname in node.inames), None)):
        raise PreconditionError(
            f"The reduction iname '{iname}' of '{node.final}' cannot have the tag '{tag}': blocks cannot combine "
            "their partial results within one launch.", subject=iname,
            hint="split the iname, write the partial results to an array over the blocks, and reduce that")
    if isinstance(tag, InstructionTag) and not any(
            iname in s.inames and s.has_nest for s in kernel.statements):
        raise PreconditionError(f"No instruction executes the iterations along '{iname}'.", subject=iname,
                                hint="tensorize sets the tag 'instr' and chooses the instruction; ilp interleaves "
                                     "iterations")
    for s, extent in _extents_of(kernel, iname) if isinstance(tag, VecTag) else ():
        if extent is not None and extent % 2:
            raise PreconditionError(
                f"'{iname}' has {extent} value{'s' if extent > 1 else ''} in '{s.id}', and the tag 'vec' cannot make "
                "vectors of them.", subject=iname,
                hint="split an iname by 2, 4 or 8, the number of elements in 16 bytes, and tag the inner iname")
        if other := next((x for x in vectors if x != iname and x in s.inames), None):
            raise PreconditionError(f"'{s.id}' already has the vec iname '{other}': '{iname}' would be a second "
                                    "one.", subject=iname, hint=f"tag '{iname}' unr or ilp")


def _extents_of(kernel: LoopKernel, iname: str) -> Iterator[tuple[Statement, int | None]]:
    """The statements that run with *iname*, and its extent in each; ``None``: it is not constant."""
    for s in kernel.statements:
        if iname in s.inames and not (domain := with_known_sizes(kernel, s.domain)).is_empty():
            low, high = domain.constant_range(iname)
            yield s, None if low is None or high is None else high - low + 1


def require_constant_extents(kernel: LoopKernel) -> None:
    """:raises PreconditionError: an iname has no constant range, which its tag needs, or a range that it cannot have.
    """
    vectors = [x for x, tag in kernel.tags.items() if isinstance(tag, VecTag)]
    for x, tag in kernel.tags.items():
        if not isinstance(tag, UnrollTag | IlpTag | VecTag | InstructionTag):
            continue
        if any(extent is None for _, extent in _extents_of(kernel, x)):
            raise PreconditionError(
                f"'{x}' has no constant range, which the tag '{tag}' needs.", subject=x,
                hint=f"split_iname(knl, '{x}', {4 if isinstance(tag, VecTag) else 16}) and tag the inner iname, or "
                     "fix_parameters")
        _require_able(kernel, x, tag, vectors)
