"""The given order: the nesting of loops chosen by the user in the text, by ``prioritize_loops``, ``interchange``, ...

A chain lists inames, outermost first. The tree itself holds the order; chains record the part of it that the user gave.
Steps without a reordering purpose keep that part.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from loopkit.kernel.tags import InameTag, is_innermost, is_parallel
from loopkit.kernel.tree import Tree, paths

#: Inames in the order in which their loops nest, outermost first.
Chain = tuple[str, ...]
#: Two inames, the outer one first.
Pair = tuple[str, str]


def given(tree: Tree, chains: Iterable[Sequence[str]]) -> tuple[Chain, ...]:
    """The orders among the inames of each of *chains*, as their loops nest in *tree*.

    >>> from loopkit.kernel.tree import Leaf, nest
    >>> given(nest(("j", "i", "k"), Leaf("S")), [("i", "j"), ("k", "x")])
    (('j', 'i'),)
    """
    chains = tuple(chains)
    nests = dict.fromkeys(_nests(tree, {})) if chains else {}
    return _longest([tuple(x for x in loops if x in chain) for chain in chains for loops in nests])


def still_given(tree: Tree, tags: Mapping[str, InameTag], chains: Sequence[Chain]) -> tuple[Chain, ...]:
    """*chains* without the pairs of loops that never nest in *tree*, or whose sequential loops nest only in reverse.

    Parallel loops have no place in the order, so they contradict no chain.

    >>> from loopkit.kernel.tree import Leaf, nest
    >>> still_given(nest(("i", "k", "j"), Leaf("S")), {}, [("i", "j", "k")])
    (('i', 'j'), ('i', 'k'))
    """
    if not chains:
        return ()
    nests, stands = (ordered_pairs(_nests(tree, own)) for own in ({}, tags))
    gone = {(x, y) for x, y in ordered_pairs(chains)
            if {(x, y), (y, x)}.isdisjoint(nests) or ((y, x) in stands and (x, y) not in stands)}
    return _longest(_without(chains, gone))


def given_anew(old: Sequence[Chain], new: Sequence[Chain]) -> tuple[Chain, ...]:
    """The orders *new*, and the parts of *old* that they do not reverse."""
    pairs = ordered_pairs(new)
    return _longest([*_without(old, {(y, x) for x, y in pairs} - pairs), *new])


def ordered_pairs(chains: Iterable[Chain]) -> frozenset[Pair]:
    """Each two inames of a chain, the outer one first."""
    return frozenset((x, y) for chain in chains for i, x in enumerate(chain) for y in chain[i + 1:])


def _nests(tree: Tree, tags: Mapping[str, InameTag]) -> Iterator[Chain]:
    """The sequential loops around each statement, outermost first."""
    for path in paths(tree).values():
        yield tuple(x for step in path if (x := step.iname) is not None
                    and not is_parallel(tags.get(x)) and not is_innermost(tags.get(x)))


def _without(chains: Iterable[Chain], pairs: Collection[Pair]) -> list[Chain]:
    """*chains* without *pairs*: a chain with one of them becomes two, each with one iname less."""
    found = dict.fromkeys(chains)
    todo = list(found)
    for chain in todo:
        if wrong := ordered_pairs([chain]).intersection(pairs):
            del found[chain]
            parts = dict.fromkeys(tuple(y for y in chain if y != x) for x in reversed(min(wrong)))
            new = [part for part in parts if part not in found]
            found.update(dict.fromkeys(new))
            todo += new
    return list(found)


def _longest(chains: Iterable[Chain]) -> tuple[Chain, ...]:
    """The fewest and longest chains that order the same pairs."""
    chains = list(dict.fromkeys(c for c in chains if len(c) > 1))
    pairs = ordered_pairs(chains)
    inames = dict.fromkeys(x for c in chains for x in c)
    long = list(dict.fromkeys(_extended(c, inames, pairs) for c in chains))
    return tuple(c for c in long if not any(c != other and _is_part(c, other) for other in long))


def _extended(chain: Chain, inames: Iterable[str], pairs: Collection[Pair]) -> Chain:
    """*chain* with each of *inames* that *pairs* order with all of it."""
    for x in inames:
        at = next((i for i in range(len(chain) + 1) if all((y, x) in pairs for y in chain[:i])
                   and all((x, y) in pairs for y in chain[i:])), None)
        if at is not None:
            chain = (*chain[:at], x, *chain[at:])
    return chain


def _is_part(chain: Chain, other: Chain) -> bool:
    """Does *chain* follow from *other*?"""
    rest = iter(other)
    return all(x in rest for x in chain)
