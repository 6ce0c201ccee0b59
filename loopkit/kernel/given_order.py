"""The given order: the nesting of loops chosen by the user in the text, by ``prioritize_loops``, ``interchange``, ...

A chain lists inames, outermost first. The tree itself holds the order; chains record the part of it that the user gave.
Steps without a reordering purpose keep that part.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from loopkit.kernel.tags import InameTag, is_innermost, is_parallel
from loopkit.kernel.tree import Tree, paths

#: Inames in the order in which their loops nest, outermost first.
Chain = tuple[str, ...]
#: Two inames, the outer one first.
NestedPair = tuple[str, str]


def given(tree: Tree, chains: Iterable[Sequence[str]]) -> tuple[Chain, ...]:
    """The orders among the inames of each of *chains*, as their loops nest in *tree*.

    >>> from loopkit.kernel.tree import Leaf, nest
    >>> given(nest(("j", "i", "k"), Leaf("S")), [("i", "j"), ("k", "x")])
    (('j', 'i'),)
    """
    chains = tuple(chains)
    nests = dict.fromkeys(_nests(tree, {})) if chains else {}
    return _chains(_pairs(tuple(x for x in loops if x in chain) for chain in chains for loops in nests))


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
    return _chains((x, y) for x, y in _pairs(chains) if not nests.isdisjoint(((x, y), (y, x)))
                   and ((y, x) not in stands or (x, y) in stands))


def given_anew(old: Sequence[Chain], new: Sequence[Chain]) -> tuple[Chain, ...]:
    """The orders *new*, and the parts of *old* that they do not reverse."""
    pairs = ordered_pairs(new)
    return _chains([*((x, y) for x, y in _pairs(old) if (y, x) not in pairs or (x, y) in pairs), *_pairs(new)])


def ordered_pairs(chains: Iterable[Chain]) -> frozenset[NestedPair]:
    """Each two inames of a chain, the outer one first."""
    return frozenset(_pairs(chains))


def _pairs(chains: Iterable[Chain]) -> Iterator[NestedPair]:
    return (pair for chain in chains for pair in combinations(chain, 2))


def _nests(tree: Tree, tags: Mapping[str, InameTag]) -> Iterator[Chain]:
    """The sequential loops around each statement, outermost first."""
    for path in paths(tree).values():
        yield tuple(x for step in path if (x := step.iname) is not None
                    and not is_parallel(tags.get(x)) and not is_innermost(tags.get(x)))


def _chains(pairs: Iterable[NestedPair]) -> tuple[Chain, ...]:
    """Longest chains that order just *pairs*, those given last at the end."""
    pairs = dict.fromkeys([*dict.fromkeys(reversed([*pairs]))][::-1])
    inames = dict.fromkeys(x for pair in pairs for x in pair)
    found: list[Chain] = []
    covered: set[NestedPair] = set()
    for pair in pairs:
        if pair not in covered:
            chain: Chain = pair
            for x in inames:
                at = next((i for i in range(len(chain) + 1) if all((y, x) in pairs for y in chain[:i])
                           and all((x, y) in pairs for y in chain[i:])), None)
                chain = chain if at is None else (*chain[:at], x, *chain[at:])
            found.append(chain)
            covered.update(_pairs([chain]))
    return tuple(found)
