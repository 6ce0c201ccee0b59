"""The addresses that the threads of one warp access at once, and what that costs in each memory."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Swizzle
from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Region, Scope, Sync, Tiles
from loopkit.ast.walk import expressions_of, mentioned, nodes_in
from loopkit.errors import PreconditionError, cell_text, require_known
from loopkit.expr.evaluate import evaluate, known_value
from loopkit.expr.mappers import array_of, elements_of
from loopkit.expr.nodes import to_text
from loopkit.instructions.nests import Issue
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.lowered import Lowered
from loopkit.show.launches import Coordinates, LaunchAt, require_launches

#: Bytes of a cache line and of a sector of global memory; banks of shared memory, and bytes of one word of a bank.
LINE_BYTES, SECTOR_BYTES, BANKS, BANK_BYTES = 128, 32, 32, 4

#: The most bytes that a thread accesses by one instruction.
_MOST_BYTES_AT_ONCE = 16


@dataclass(frozen=True)
class Memory:
    """An array in memory.

    :ivar extents: the extents of its axes in memory, the slowest first; the first extent is not used.
    """

    name: str
    is_shared: bool
    itemsize: int
    extents: tuple[int, ...]
    swizzle: Swizzle | None = None

    def address(self, element: Sequence[int]) -> int:
        """The first byte of *element*, counted from the start of the array."""
        if not element:
            return 0
        *others, column = element
        if self.swizzle is not None:
            row = 0
            for place, extent in zip(*map(self.swizzle.counted, (element, self.extents)), strict=True):
                row = extent*row + place
            column ^= self.swizzle.mask(row)
        strides = [prod(self.extents[i + 1:]) for i in range(len(self.extents))]
        return self.itemsize*sum(x*stride for x, stride in zip((*others, column), strides, strict=True))


@dataclass(frozen=True)
class WarpAccess:
    """One access of a statement in the threads of a warp.

    :ivar element: the access, as the program has it.
    :ivar loops: the values of the loops around it.
    :ivar is_assumed: a condition or a loop's bound around it depends on data, and is taken to hold.
    :ivar elements: by the number of each thread in its warp that runs it, the elements that it accesses at once.
    """

    memory: Memory
    statement: str
    element: p.Subscript
    is_write: bool
    loops: Mapping[str, int]
    is_assumed: bool
    elements: Mapping[int, tuple[tuple[int, ...], ...]]

    @cached_property
    def addresses(self) -> Mapping[int, tuple[int, ...]]:
        """The first byte of each element, by thread."""
        return {lane: tuple(map(self.memory.address, own)) for lane, own in self.elements.items()}

    @cached_property
    def lanes_at(self) -> Mapping[int, tuple[int, ...]]:
        """The threads that access the element at each address."""
        found: dict[int, list[int]] = {}
        for lane, own in self.addresses.items():
            for address in own:
                found.setdefault(address, []).append(lane)
        return {address: tuple(lanes) for address, lanes in sorted(found.items())}

    def name_at(self, address: int) -> str:
        """The element at *address*."""
        return next(cell_text(self.memory.name, element) for lane, own in self.elements.items()
                    for element, at in zip(own, self.addresses[lane], strict=True) if at == address)

    @property
    def bytes_used(self) -> int:
        return len(self.lanes_at)*self.memory.itemsize

    def units(self, size: int) -> Mapping[int, tuple[int, ...]]:
        """The addresses accessed in each aligned piece of *size* bytes, by its number."""
        found: dict[int, list[int]] = {}
        for address in self.lanes_at:
            for unit in range(address//size, (address + self.memory.itemsize - 1)//size + 1):
                found.setdefault(unit, []).append(address)
        return {unit: tuple(addresses) for unit, addresses in sorted(found.items())}

    # Shared memory

    @property
    def together(self) -> int:
        """How many threads the memory serves at once: 32 of 4 bytes each, 16 of 8, 8 of 16."""
        wide = self.memory.itemsize*max(map(len, self.elements.values()))
        return BANKS*BANK_BYTES//max(BANK_BYTES, min(wide, _MOST_BYTES_AT_ONCE))

    @cached_property
    def phases(self) -> Sequence[Mapping[int, frozenset[int]]]:
        """For each group of threads that the memory serves at once: the words accessed in each bank."""
        itemsize = self.memory.itemsize
        most = max(1, _MOST_BYTES_AT_ONCE//itemsize)
        longest = max((len(own) for own in self.addresses.values()), default=0)
        found = []
        for first in range(0, longest, most):
            for start in range(0, max(self.addresses) + 1, self.together):
                words: dict[int, set[int]] = {}
                for lane in range(start, start + self.together):
                    for address in self.addresses.get(lane, ())[first:first + most]:
                        for word in range(address//BANK_BYTES, (address + itemsize - 1)//BANK_BYTES + 1):
                            words.setdefault(word % BANKS, set()).add(word)
                if words:
                    found.append({bank: frozenset(own) for bank, own in words.items()})
        return found

    @property
    def passes(self) -> int:
        """How often the memory is accessed: in each group, the most different words of one bank."""
        return sum(max(map(len, words.values())) for words in self.phases)

    @property
    def worst_conflict(self) -> int:
        """The most different words of one bank in one group of threads; 1: no conflict."""
        return max(len(own) for words in self.phases for own in words.values())


# Finding it in the program

def accesses_at(at: LaunchAt, statement: str, array: str, block: Coordinates, warp: int, fixed: Mapping[str, int]
                ) -> tuple[WarpAccess, ...]:
    """Each access of *statement* to *array*: where the *warp* of *block* runs it first with the *fixed* loops.

    There is none if no thread runs it then.

    :raises PreconditionError: the addresses are not known.
    """
    memory = memory_of(at, array)
    size = at.launch.machine.warp
    threads = range(warp*size, min((warp + 1)*size, prod(at.block)))
    runs = {number % size: tuple(_runs_of(at.function.body, at.at(block, at.thread(number)), statement, array, fixed))
            for number in threads}
    reached = {id(node) for own in runs.values() for node, _ in own}
    chosen = next((node for node in nodes_in(at.function.body) if id(node) in reached), None)
    if not isinstance(chosen, Assign):
        return ()
    found: dict[tuple[Expression, bool], WarpAccess] = {}
    issue = next((node.instruction for node in nodes_in(at.function.body) if isinstance(node, Region)
                  and isinstance(node.instruction, Issue) and any(x is chosen for x in nodes_in(node))), None)
    for expr in expressions_of(chosen):
        for element in elements_of(expr, [array]):
            key = element, expr is chosen.target
            values = {lane: [known for node, known in own if node is chosen] for lane, own in runs.items()}
            if key not in found:
                own = () if issue is None else issue.stored(array) if key[1] else issue.loaded(array)
                found[key] = _warp_access(memory, chosen, element, expr is chosen.target, at, values, own)
    return tuple(found.values())


def _warp_access(memory: Memory, node: Assign, element: p.Subscript, is_write: bool, at: LaunchAt,
                 values: Mapping[int, Sequence[Mapping[str, int]]], others: Sequence[p.Subscript]) -> WarpAccess:
    """*others*: the elements that a thread accesses in place of *element*, for an instruction of its warp."""
    elements = {lane: tuple(_index_of(e, known, node.statement) for e in others or (element,)
                            for known in (own[:1] if others else own)) for lane, own in values.items() if own}
    first = next(own[0] for own in values.values() if own)
    around = [x for x in nodes_in(at.function.body) if isinstance(x, For | If) and any(y is node for y in nodes_in(x))]
    loops = {x.iname: first[x.iname] for x in around if isinstance(x, For)
             and all(known[x.iname] == first[x.iname] for own in values.values() for known in own)}
    assumed = any(known_value(e, first) is None
                  for x in around for e in ((x.condition,) if isinstance(x, If) else (x.start, x.stop)))
    return WarpAccess(memory, node.statement, others[0] if others else element, is_write, loops, assumed, elements)


def _index_of(element: p.Subscript, values: Mapping[str, int], statement: str) -> tuple[int, ...]:
    found = [known_value(e, values) for e in element.index_tuple]
    index = tuple(x for x in found if x is not None)
    if len(index) < len(found):
        raise PreconditionError(f"The subscript of {to_text(element)} in '{statement}' depends on data, so that its "
                                "address is not known.", subject=statement, hint="choose another array with array=")
    return index


#: A place in the program that a thread runs, and the values of the names there.
Run = tuple[Assign, Mapping[str, int]]


def _runs_of(block: Block, known: Mapping[str, int], statement: str, array: str, fixed: Mapping[str, int]
             ) -> Iterator[Run]:
    """The executions of *statement* by one thread: of each loop the first iteration, or that of *fixed*.

    A condition or a bound that depends on data is taken to hold. A loop that loads or stores vectors of *array* gives
    all of its iterations, which access memory at once. Loops without the statement may have any bounds.
    """
    for node in block.children:
        match node:
            case Define():
                value = known_value(node.value, known)
                known = {**known, node.name: value} if value is not None else known
            case Assign() if node.statement == statement and _is_at(node, known, fixed):
                yield node, known
            case For() if any(isinstance(x, Assign) and x.statement == statement for x in nodes_in(node)):
                for value in _chosen_iterations(node, known, array, fixed):
                    yield from _runs_of(node.body, {**known, node.iname: value}, statement, array, fixed)
            case If():
                holds = known_value(node.condition, known)
                chosen = node.then if holds is None or holds else node.otherwise or Block()
                yield from _runs_of(chosen, known, statement, array, fixed)
            case Region(body) | Tiles(body):
                yield from _runs_of(body, known, statement, array, fixed)
            case Block():
                yield from _runs_of(node, known, statement, array, fixed)
            case Assign() | For() | Sync() | Call():
                pass


def _is_at(node: Assign, known: Mapping[str, int], fixed: Mapping[str, int]) -> bool:
    """Is this the instance with the *fixed* values?"""
    return all(known_value(e, known) in (None, fixed[x]) for x, e in node.instance if x in fixed)


def _chosen_iterations(loop: For, known: Mapping[str, int], array: str, fixed: Mapping[str, int]) -> Sequence[int]:
    start, stop = known_value(loop.start, known), known_value(loop.stop, known)
    if loop.instruction is not None and loop.instruction.scope is not Scope.THREAD and array in mentioned(loop):
        raise PreconditionError(
            f"A warp instruction accesses '{array}' ({', '.join(loop.instruction.titles)}): its threads load elements "
            "for each other.", subject=array, hint="choose a statement that copies the array with statement=")
    if start is None and loop.iname not in fixed:
        raise PreconditionError(f"The loop over {loop.iname} starts at a value from memory.", subject=loop.iname,
                                hint=f"give an iteration, fixed={{'{loop.iname}': 0}}, or choose another statement "
                                     "with statement=")
    start = fixed[loop.iname] if start is None else start
    if stop is None:                                    # from memory: its first iteration is taken to exist
        stop = start + loop.step
    every = range(start, stop, loop.step)
    if loop.iname in fixed:
        return [fixed[loop.iname]] if fixed[loop.iname] in every else []
    return every if loop.instruction is not None and array in loop.instruction.alignments else every[:1]


def accessed_arrays(lowered: Lowered) -> list[tuple[str, str]]:
    """Each statement and array in global or shared memory that it accesses, in the order of the program."""
    found: dict[tuple[str, str], None] = {}
    for function in lowered.program.functions:
        known = {*lowered.kernel.array_args, *(a.name for a in function.arrays if a.shared),
                 *(x.name for x in lowered.storages.values() if x.space is AddressSpace.GLOBAL)}
        for node in nodes_in(function.body):
            if isinstance(node, Assign):
                for expr in reversed(expressions_of(node)):
                    found.update(((node.statement, array_of(e)), None) for e in elements_of(expr, known))
    return list(found)


def memory_of(at: LaunchAt, array: str) -> Memory:
    """The memory of *array*, contiguous in its axes; :raises PreconditionError: an extent is not known."""
    lowered = at.lowered
    for own in at.function.arrays:
        if own.name == array and own.shared:
            return Memory(array, True, own.dtype.itemsize, own.shape, own.swizzle)
    storage = lowered.storages.get(array)
    if storage is not None:
        extents: Sequence[Expression | None] = storage.in_memory
        dtype = storage.dtype
    else:
        extents, found = lowered.shapes[array], lowered.kernel.array_args[array].dtype
        assert found is not None
        dtype = found
    if None in extents[1:]:
        raise PreconditionError(f"The extents of '{array}' are not known, and with them its addresses.", subject=array,
                                hint="declare its shape: lk.GlobalArg(name, dtype, shape)")
    sizes = [1, *(evaluate(e, at.known) for e in extents[1:] if e is not None)]
    return Memory(array, False, dtype.itemsize, tuple(sizes[-len(extents):]) if extents else ())


def chosen_access(lowered: Lowered, statement: str | None, array: str | None) -> tuple[str, str]:
    """The statement and the array, by default the first ones in global or shared memory.

    :raises UnknownNameError: there is no such statement, or it accesses no such array.
    :raises PreconditionError: the array is in registers, or no statement runs.
    """
    require_launches(lowered)
    known = accessed_arrays(lowered)
    statements = list(dict.fromkeys(s for s, _ in known))
    if statement is not None:
        require_known("statement", [statement], statements, where="the arrays' accesses")
    if array is not None:
        own = [a for s, a in known if statement in (None, s)]
        if array in lowered.storages and array not in own and array not in (a for _, a in known):
            raise PreconditionError(f"'{array}' is in registers, which have no addresses.", subject=array,
                                    hint=f"choose one of {', '.join(dict.fromkeys(own))} with array=")
        where = "the kernel" if statement is None else f"the statement '{statement}'"
        require_known("array", [array], own, where=where)
    return next((s, a) for s, a in known if statement in (None, s) and array in (None, a))
