"""The order of a kernel: an immutable tree of loops and sequences of statements, and the order that the user gave."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from operator import is_
from typing import Any

from loopkit.ast.nodes import Instruction, Sync
from loopkit.errors import InternalError
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import InameTag, is_innermost, is_parallel


@dataclass(frozen=True)
class Leaf:
    """One statement, by id.

    :ivar instruction: the threads of its scope execute it together, as between two barriers of that scope; only in
        lowered kernels.
    """

    statement: str
    instruction: Instruction | None = None


@dataclass(frozen=True)
class Loop:
    """A loop over *iname*, upwards. A parallel iname also has a loop node until it is bound to hardware."""

    iname: str
    body: Tree


@dataclass(frozen=True)
class Seq:
    """Children in sequence."""

    children: tuple[Tree, ...]


@dataclass(frozen=True)
class Barrier(Sync):
    """A synchronisation at its place in the order; only in lowered kernels.

    :ivar left_out_last: it only separates iterations of the enclosing loop, at its end; the last iteration skips it.
    :ivar producer: the producer thread alone executes it, in a launch that has one.
    :ivar outside: a block executes it once, before or after all its places of the grid, if it has several.
    :ivar runs_with: it runs wherever one of these statements does; ``()``: wherever a statement of the same body does.
    """

    left_out_last: bool = False
    producer: bool = False
    outside: bool = False
    runs_with: tuple[str, ...] = ()


Tree = Leaf | Loop | Seq | Barrier


def seq(*children: Tree) -> Tree:
    """*children* in order: nested sequences flattened, a single child left as it is."""
    flat = [x for child in children for x in (child.children if isinstance(child, Seq) else (child,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def nest(inames: tuple[str, ...], body: Tree) -> Tree:
    """Loops over *inames*, the first outermost, around *body*."""
    for iname in reversed(inames):
        body = Loop(iname, body)
    return body


def leaves(tree: Tree) -> Iterator[str]:
    """Statement ids in textual order."""
    return (node.statement for node in nodes_in(tree) if isinstance(node, Leaf))


def nodes_in(tree: Tree) -> Iterator[Tree]:
    """*tree* and every node in it, in textual order: each before those in it."""
    stack: list[Tree] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Loop):
            stack.append(node.body)
        elif isinstance(node, Seq):
            stack.extend(reversed(node.children))


def require_once(statements: Iterable[str]) -> None:
    """:raises InternalError: *statements*, the leaves of an order, contain one statement twice."""
    for s, count in Counter(statements).items():
        if count > 1:
            raise InternalError(f"The order contains '{s}' twice.")


#: A loop of a tree: its iname, of which there may be several loops, and the first statement in it.
LoopPlace = tuple[str, str]


def loop_place(loop: Loop) -> LoopPlace:
    """The identification of *loop* among the loops of its tree."""
    return loop.iname, next(leaves(loop))


def has_barrier(tree: Tree) -> bool:
    """Do threads wait for each other anywhere in *tree*, at a barrier or for an instruction?"""
    return any(isinstance(node, Barrier) or (isinstance(node, Leaf) and node.instruction is not None)
               for node in nodes_in(tree))


def rewrite(tree: Tree, f: Callable[[Tree], Tree]) -> Tree:
    """Apply *f* to every node from the leaves up; unchanged subtrees are shared."""
    match tree:
        case Loop(iname, body):
            new = rewrite(body, f)
            return f(tree if new is body else Loop(iname, new))
        case Seq(children):
            news = [rewrite(c, f) for c in children]
            return f(tree if all(map(is_, news, children)) else seq(*news))
        case _:
            return f(tree)


def rewrite_over(tree: Tree, iname: str, f: Callable[[Loop], Tree]) -> Tree:
    """*tree* with *f* applied to each loop over *iname*, from the inside out."""
    return rewrite(tree, lambda node: f(node) if isinstance(node, Loop) and node.iname == iname else node)


def without(tree: Tree, gone: Container[str]) -> Tree:
    """*tree* without the statements *gone*, and without loops that are empty then."""
    def kept(node: Tree) -> Tree:
        match node:
            case Leaf(statement) if statement in gone:
                return Seq(())
            case Loop(_, Seq(())):
                return Seq(())
            case _:
                return node
    return rewrite(tree, kept)


@dataclass(frozen=True)
class Step:
    """One step on the path from the root to a leaf: into a loop, or to a child of a sequence."""

    position: int
    iname: str | None


Path = tuple[Step, ...]


def placed_nodes(tree: Tree) -> Iterator[tuple[Leaf | Barrier, Path, Tree]]:
    """The statements and the barriers in textual order: each with its path from the root, and the innermost body."""
    stack: list[tuple[Tree, Path, Tree]] = [(tree, (), tree)]
    while stack:
        node, path, around = stack.pop()
        match node:
            case Leaf() | Barrier():
                yield node, path, around
            case Loop(iname, body):
                stack.append((body, (*path, Step(0, iname)), body))
            case Seq(children):
                stack += [(child, (*path, Step(i, None)), around) for i, child in reversed([*enumerate(children)])]


def paths(tree: Tree) -> dict[str, Path]:
    """The path from the root to each statement."""
    return {node.statement: path for node, path, _ in placed_nodes(tree) if isinstance(node, Leaf)}


@dataclass(frozen=True)
class Meeting:
    """The node at which the paths to two statements diverge.

    :ivar loops: the inames of the loops they share, outermost first.
    :ivar before: the first precedes the second textually; ``False`` for one statement.
    """

    loops: tuple[str, ...]
    before: bool


def relative_paths(paths: Sequence[Path]) -> tuple[tuple[str | int, ...], ...]:
    """*paths* with positions that are counted among *paths* only. They determine all meetings of *paths*.

    >>> relative_paths([(Step(0, "i"), Step(4, None)), (Step(0, "i"), Step(7, None))])
    (('i', 0), ('i', 1))
    """
    root: dict[int, Any] = {}                  # the positions at a node of the tree, each with those below it
    for path in paths:
        node = root
        for step in path:
            node = node.setdefault(step.position, {})
    ranks: dict[int, dict[int, int]] = {}

    def steps(path: Path) -> Iterator[str | int]:
        node = root
        for step in path:
            if step.iname is not None:
                yield step.iname
            elif len(node) > 1:
                if id(node) not in ranks:
                    ranks[id(node)] = {x: rank for rank, x in enumerate(sorted(node))}
                yield ranks[id(node)][step.position]
            node = node[step.position]
    return tuple(tuple(steps(path)) for path in paths)


def meeting(first: Path, second: Path) -> Meeting:
    """The shared loops of two statements, and whether the first statement precedes the second."""
    loops: list[str] = []
    for a, b in zip(first, second, strict=False):
        if a != b:
            return Meeting(tuple(loops), a.position < b.position)
        if a.iname is not None:
            loops.append(a.iname)
    return Meeting(tuple(loops), False)


def loops_in(tree: Tree) -> Iterator[Loop]:
    """The loops of *tree*, each before those inside it."""
    return (node for node in nodes_in(tree) if isinstance(node, Loop))


def parts_of(body: Tree) -> tuple[Tree, ...]:
    """The nodes in sequence in the *body* of a loop."""
    return body.children if isinstance(body, Seq) else (body,)


def restricted(tree: Tree, statements: Collection[str]) -> Tree:
    """*tree* with *statements* alone; an empty sequence if it has none of them."""
    return without(tree, frozenset(leaves(tree)).difference(statements))


def with_ids(tree: Tree, ids: Mapping[str, str]) -> Tree:
    """The statements of *tree* that *ids* names, by their new ids; without the others."""
    return rewrite(restricted(tree, ids), lambda node: Leaf(ids[node.statement]) if isinstance(node, Leaf) else node)


def in_order_of(tree: Tree, statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """*statements* in the textual order of *tree*."""
    at = {s: i for i, s in enumerate(leaves(tree))}
    return tuple(sorted(statements, key=lambda s: at[s.id]))


# The given order: the part of the nesting that the user chose in the text, by prioritize_loops, interchange, ...
# The tree holds the order, and pairs of inames record the part that steps without a reordering purpose keep.

#: Inames in the order in which their loops nest, outermost first.
Chain = tuple[str, ...]
#: Pairs of inames, in each the outer one first.
GivenOrder = frozenset[tuple[str, str]]


def given(tree: Tree, chains: Iterable[Sequence[str]]) -> GivenOrder:
    """The orders among the inames of each of *chains*, as their loops nest in *tree*.

    >>> given(nest(("j", "i", "k"), Leaf("S")), [("i", "j"), ("k", "x")])
    frozenset({('j', 'i')})
    """
    chains = tuple(chains)
    nests = dict.fromkeys(_nests(tree, {})) if chains else {}
    return ordered_pairs(tuple(x for x in loops if x in chain) for chain in chains for loops in nests)


def still_given(tree: Tree, tags: Mapping[str, InameTag], pairs: GivenOrder) -> GivenOrder:
    """*pairs* without those whose loops never nest in *tree*, or whose sequential loops nest only in reverse.

    Parallel loops have no place in the order, so they contradict no pair.

    >>> still_given(nest(("i", "k", "j"), Leaf("S")), {}, frozenset({("i", "k"), ("j", "k")}))
    frozenset({('i', 'k')})
    """
    if not pairs:
        return pairs
    nests, stands = (ordered_pairs(_nests(tree, own)) for own in ({}, tags))
    return frozenset((x, y) for x, y in pairs if not nests.isdisjoint(((x, y), (y, x)))
                     and ((y, x) not in stands or (x, y) in stands))


def ordered_pairs(chains: Iterable[Chain]) -> GivenOrder:
    """Each two inames of a chain, the outer one first."""
    return frozenset((x, y) for chain in chains for x, y in combinations(chain, 2))


def _nests(tree: Tree, tags: Mapping[str, InameTag]) -> Iterator[Chain]:
    """The sequential loops around each statement, outermost first."""
    for path in paths(tree).values():
        yield tuple(x for step in path if (x := step.iname) is not None
                    and not is_parallel(tags.get(x)) and not is_innermost(tags.get(x)))


def chains_of(pairs: GivenOrder, inames: Sequence[str]) -> Iterator[Chain]:
    """Longest chains of *inames* that order just *pairs*."""
    covered: set[Chain] = set()
    for pair in permutations(inames, 2):
        if pair in pairs and pair not in covered:
            chain: Chain = pair
            for x in inames:
                at = next((i for i in range(len(chain) + 1) if all((y, x) in pairs for y in chain[:i])
                           and all((x, y) in pairs for y in chain[i:])), None)
                chain = chain if at is None else (*chain[:at], x, *chain[at:])
            yield chain
            covered.update(combinations(chain, 2))
