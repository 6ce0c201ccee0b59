"""Butterflies: each lane of a group holds the result, because both lanes of each pair combined the same two values.

A lane holds its own element before the first step. Let each lane ``l`` of a group hold the element ``l % (2*s)``. In a
step of the offset ``s``, the lanes ``l`` and ``l ^ s`` then combine the elements ``l % s`` and ``l % s + s``, one of
them in the opposite order. If the operation gives the same bits, each lane holds the element ``l % s`` afterwards. So
the steps must halve the offset from half a group down to 1, and no other statement may write the register in between.

As for all shuffles, the lane from which an admitted lane reads must hold the element that the statement names, and no
thread may read the element of a lane that holds that of another.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import Assign, Block, Define, For, If, Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import array_of, elements_of, subexpressions, variables
from loopkit.instructions.shuffle import Excluded, Shuffle, may_exchange, read_of_other_lane
from loopkit.poly.affine import floor_div, remainder
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import LaunchCheck

#: A condition and its truth value, or the variable and the bounds of a loop.
_Around = tuple[Expression, ...]


@dataclass(frozen=True)
class _Register:
    """A register of each thread at a place of the program.

    :ivar index: its subscripts in the array: all but those of the thread.
    :ivar around: the conditions and the loops around; in others, equal subscripts may be those of another register.
    """

    array: str
    index: tuple[Expression, ...]
    around: tuple[_Around, ...] = ()

    def may_be(self, other: _Register) -> bool:
        """Only numbers tell registers of one array apart: the loops around may run through all of them."""
        return self.array == other.array and not any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(self.index, other.index, strict=True))

    def mentions(self, name: str) -> bool:
        return any(name in variables(e) for e in (*self.index, *(e for some in self.around for e in some)))


#: The registers in which lanes hold others' elements: lane ``l`` that of lane ``l % period`` of a group, and the width
#: of the group. In all other registers each lane holds its own element.
_Held = dict[_Register, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class ButterflyCheck(LaunchCheck):
    """The check of the values that lanes combine in pairs, and of results that lanes take from their own registers."""

    def findings(self) -> Iterator[Mismatch]:
        yield from self._of_block(self.function.body, (), {})

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {a.name: a for a in self.function.arrays if a.thread_axes}

    def _register(self, element: p.Subscript, around: tuple[_Around, ...] = ()) -> _Register:
        name = array_of(element)
        return _Register(name, element.index_tuple[:-self._arrays[name].thread_axes], around)

    def _of_block(self, block: Block, around: tuple[_Around, ...], held: _Held) -> Iterator[Mismatch]:
        """The findings in *block*, in the order of its text, along which *held* changes."""
        for node in block.children:
            match node:
                case Define(name=name):
                    _drop(held, [r for r in held if r.mentions(name)])
                case Assign(target=target):
                    for written in map(self._register, elements_of(target, self._arrays)):
                        _drop(held, filter(written.may_be, held))
                case Region(instruction=Shuffle(excluded=Excluded.SAME) as shuffle):
                    yield from self._of_shuffle(node, shuffle, around, held)
                case If(condition=condition):
                    for branch, holds in ((node.then, True), (node.otherwise, False)):
                        yield from self._of_block(branch or Block(()), (*around, (condition, holds)), held)
                        self._forget_varying(held, (condition, holds))
                case For():
                    loop = (p.Variable(node.iname), node.start, node.stop, node.step)
                    self._forget_repeated(held, node, loop)
                    yield from self._of_block(node.body, (*around, loop), held)
                    self._forget_repeated(held, node, loop)
                    self._forget_varying(held, loop)
                case Region(body=inner) | (Block() as inner):
                    yield from self._of_block(inner, around, held)
                case _:
                    pass

    def _forget_varying(self, held: _Held, around: _Around) -> None:
        """Forget the registers under a condition or in a loop that memory decides: the next one may be another."""
        if any(isinstance(x, p.Subscript) for e in around for x in subexpressions(e)) \
                or any(a.name in variables(e) for e in around for a in self.function.arrays):
            _drop(held, [r for r in held if around in r.around])

    def _forget_repeated(self, held: _Held, loop: For, around: _Around) -> None:
        """Forget the registers in *loop* that several of its iterations may write."""
        written = {self._register(e) for node in nodes_in(loop.body) if isinstance(node, Assign)
                   for e in elements_of(node.target, self._arrays)}
        several = {r.array for r in written if p.Variable(loop.iname) not in r.index
                   or any(r.array == other.array and r != other for other in written)}
        _drop(held, [r for r in held if around in r.around and r.array in several])

    def _of_shuffle(self, region: Region, shuffle: Shuffle, around: tuple[_Around, ...], held: _Held
                    ) -> Iterator[Mismatch]:
        assign, read = read_of_other_lane(region, self._arrays)
        s, register = assign.statement, self._register(read, around)
        before = held.get(register)
        for written in map(self._register, elements_of(assign.target, self._arrays)):
            _drop(held, filter(written.may_be, held))
        if shuffle.offset is None:
            if before != (1, shuffle.width):
                yield from self.mismatch("lane", s, f"'{s}' reads '{read}' in a lane that may hold another element of "
                                                    f"{shuffle.width} lanes")
            return
        if before != (2*shuffle.offset, shuffle.width) and not shuffle.is_first_exchange:
            yield from self.mismatch("lane", s, f"'{s}' exchanges values of lanes {shuffle.offset} apart that may not "
                                                f"hold those of the first {2*shuffle.offset} of {shuffle.width} lanes")
            return
        held[register] = (shuffle.offset, shuffle.width)
        dtype, operation = self._arrays[register.array].dtype, assign.combine
        if operation is None or not may_exchange(self.kernel.operation(operation), dtype):
            yield from self.mismatch("lane", s, f"'{s}' combines the values of two lanes in either order, which may "
                                                "give other bits")
        # the lower lane of a pair reads from the lane after it, as from any shuffle
        upper = p.Comparison(remainder(floor_div(self.thread_number, shuffle.offset), 2), "==", 1)
        for e in self.executions.get(s, ()):
            yield from self.mismatch("lane", s, f"'{s}' reads '{read}' in a lane that reads from a lane before it",
                                     e.where(upper), e.coordinates)


def _drop(held: _Held, registers: Iterable[_Register]) -> None:
    for register in tuple(registers):
        del held[register]
