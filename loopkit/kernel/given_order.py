"""The order of loops that the user has given: in the text, by ``prioritize_loops``, ``interchange``, ``tile``, ...

A chain names inames, outermost first. The tree itself holds the order; chains say which of it the user gave, so that a
step whose name promises no order keeps it.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopkit.kernel.tree import Tree, paths

#: Inames in the order in which their loops nest, outermost first.
Chain = tuple[str, ...]


def given(tree: Tree, chains: Iterable[Sequence[str]]) -> tuple[Chain, ...]:
    """The orders among the inames of each of *chains*, as their loops nest in *tree*.

    >>> from loopkit.kernel.tree import Leaf, nest
    >>> given(nest(("j", "i", "k"), Leaf("S")), [("i", "j"), ("k", "x")])
    (('j', 'i'),)
    """
    chains = tuple(chains)
    if not chains:
        return ()
    nests = dict.fromkeys(tuple(step.iname for step in path if step.iname is not None) for path in paths(tree).values())
    found = dict.fromkeys(own for chain in chains for loops in nests
                          if len(own := tuple(x for x in loops if x in chain)) > 1)
    return tuple(c for c in found if not any(c != other and _is_part(c, other) for other in found))


def ordered_pairs(chains: Iterable[Chain]) -> frozenset[tuple[str, str]]:
    """Each two inames of a chain, the outer one first."""
    return frozenset((x, y) for chain in chains for i, x in enumerate(chain) for y in chain[i + 1:])


def _is_part(chain: Chain, other: Chain) -> bool:
    """Does *chain* follow from *other*?"""
    rest = iter(other)
    return all(x in rest for x in chain)
