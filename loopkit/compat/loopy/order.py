"""The order in which loopy would run statements: by dependences, with one loop for each iname.

loopkit runs statements in the order of the text. The layer therefore writes the text of a kernel in loopy's order. In
loopy a loop is entered once, so that all statements with an iname share its loop. A statement that others depend on
runs before them, and all of its loops that they do not share end before them.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopkit.compat.loopy.diagnostic import DependencyCycleFound


@dataclass(frozen=True)
class Item:
    """A statement, or a line that only orders others.

    :ivar place: its place in loopy's text, which decides where dependences do not.
    :ivar after: the ids of the items that run before it.
    :ivar text: its line in loopkit's text; ``""`` for a line that only orders others.
    """

    id: str
    place: int
    inames: frozenset[str]
    after: frozenset[str]
    text: str


@dataclass(frozen=True)
class Loop:
    """One loop over *iname*."""

    iname: str
    body: tuple[Loop | Item, ...]


@dataclass(frozen=True)
class Order:
    """loopy's relation between the statements of a text.

    :ivar after: for each statement, and each line that only orders others, the ids of those that run before it.
    :ivar claims: for each statement those against which ``nosync=`` claims that it needs no order, each with the scope
        of the claim.
    :ivar circle: statements that depend on each other in a circle; empty: there is none.
    :ivar barriers: the global barriers of the text.
    """

    after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    claims: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    circle: tuple[str, ...] = ()
    barriers: frozenset[str] = frozenset()

    @property
    def fault(self) -> DependencyCycleFound | None:
        """The reason why the statements have no order."""
        return None if not self.circle else DependencyCycleFound(
            f"The statements {' -> '.join(self.circle)} depend on each other in a circle.",
            hint="'dep=*...' gives all dependences of a statement, and adds no others")

    def with_barrier(self, name: str, first: str, later: Collection[str]) -> Order:
        """This order with a global barrier after the new statement *first* and before those of *later*."""
        after = {x: self.after[x] | {name} for x in later if x in self.after}
        return replace(self, after={**self.after, **after, name: frozenset({first})}, barriers=self.barriers | {name})

    def claimed(self, name: str) -> frozenset[str]:
        """The statements against which *name* needs no order."""
        return frozenset(other for other, _ in self.claims.get(name, ()))

    def before(self, name: str, known: Collection[str] = ()) -> frozenset[str]:
        """All that runs before *name*; with *known* only the nearest of these.

        >>> order = Order({"c": frozenset({"bar"}), "bar": frozenset({"b"}), "b": frozenset({"a"})})
        >>> sorted(order.before("c")), sorted(order.before("c", ["a", "b", "c"]))
        (['a', 'b', 'bar'], ['b'])
        """
        found: set[str] = set()
        waiting = [*self.after.get(name, ())]
        while waiting:
            other = waiting.pop()
            if other not in found:
                found.add(other)
                waiting += self.after.get(other, ()) if other not in known else ()
        return frozenset(found if not known else found & {*known}) - {name}


def ordered(items: Sequence[Item], inames: Sequence[str]) -> tuple[Loop | Item, ...]:
    """*items* in their loops, in an order that their dependences allow.

    The order of the text decides between statements that the dependences leave free, and the order of *inames* between
    loops around the same statements. A loop is split if statements outside of it must run between those inside.

    :raises DependencyCycleFound: items depend on each other in a circle, see :func:`circle_of`.

    >>> def item(id, inames, *after):
    ...     return Item(id, ord(id), frozenset(inames), frozenset(after), id)
    >>> print("\\n".join(text_of(ordered([item("a", "i", "b"), item("b", ""), item("c", "ij", "a")], "ij"))))
    b
    for i
        a
        for j
            c
        end
    end
    """
    return tuple(_arranged(tuple(items), tuple(inames)))


def text_of(nodes: Iterable[Loop | Item]) -> list[str]:
    """The lines of *nodes* in loopkit's language."""
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, Loop):
            body = text_of(node.body)
            lines += [f"for {node.iname}", *(f"    {line}" for line in body), "end"] if body else []
        elif node.text:
            lines.append(node.text)
    return lines


def circle_of(items: Sequence[Item]) -> tuple[str, ...]:
    """Items that depend on each other in a circle, the first one also at the end; empty: there are none."""
    known = {item.id: item for item in items}
    done: set[str] = set()
    for item in items:
        path: list[str] = []
        stack = [(item.id, False)]
        while stack:
            name, leave = stack.pop()
            if leave:
                done.add(path.pop())
            elif name in path:
                return *path[path.index(name):], name
            elif name not in done:
                path.append(name)
                stack.append((name, True))
                stack += [(other, False) for other in sorted(known[name].after) if other in known and other not in done]
    return ()


def _arranged(items: tuple[Item, ...], inames: tuple[str, ...]) -> list[Loop | Item]:
    """*items* in loops over *inames*, those around the whole left out."""
    waiting, done = _units(items, inames), set[str]()
    own = {item.id for item in items}
    result: list[Loop | Item] = []
    while waiting:
        unit = next((u for u in waiting if all(_ready(x, own, done | u.ids) for x in u.items)), None)
        taken = unit.items if unit is not None else ()
        if unit is None:
            unit, taken = _split(waiting, own, done)
        waiting.remove(unit)
        rest = tuple(x for x in unit.items if x not in taken)
        if rest:
            waiting.append(_Unit(unit.iname, rest))
            waiting.sort(key=lambda u: u.place)
        done |= {x.id for x in taken}
        if unit.iname is None:
            result += taken
        else:
            result.append(Loop(unit.iname, tuple(_arranged(taken, tuple(x for x in inames if x != unit.iname)))))
    return result


@dataclass(frozen=True)
class _Unit:
    """One statement, or a loop with its statements."""

    iname: str | None
    items: tuple[Item, ...]

    @property
    def place(self) -> int:
        return min(item.place for item in self.items)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(item.id for item in self.items)


def _units(items: tuple[Item, ...], inames: tuple[str, ...]) -> list[_Unit]:
    """The loops on the outside, and the statements outside of them, in the order of the text."""
    count: Mapping[str, int] = {x: sum(x in item.inames for item in items) for x in inames}
    units, left = list[_Unit](), list(items)
    for iname in sorted(inames, key=lambda x: (-count[x], inames.index(x))):
        if inside := tuple(item for item in left if iname in item.inames):
            units.append(_Unit(iname, inside))
            left = [item for item in left if item not in inside]
    return sorted([*units, *(_Unit(None, (item,)) for item in left)], key=lambda u: u.place)


def _ready(item: Item, own: set[str], done: set[str] | frozenset[str]) -> bool:
    return all(x in done for x in item.after if x in own)


def _split(waiting: Sequence[_Unit], own: set[str], done: set[str]) -> tuple[_Unit, tuple[Item, ...]]:
    """A unit of which some statements can run, and these; there is one, as the dependences have no cycle."""
    for unit in waiting:
        taken = list[Item]()
        while more := [x for x in unit.items
                       if x not in taken and _ready(x, own, done | {item.id for item in taken})]:
            taken += more
        if taken:
            return unit, tuple(x for x in unit.items if x in taken)
    raise DependencyCycleFound("The statements depend on each other in a circle.")
