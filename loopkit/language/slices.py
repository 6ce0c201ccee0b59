"""The parser of calls of functions that are kernels, and of the slices that they pass.

In the grammar of :mod:`loopkit.language.syntax`::

    call     = [ results "=" ] name "(" [ argument { "," argument } ] ")" [ options ]
    results  = [ "<" [ dtype ] ">" ] slice { "," slice }
    argument = [ name "=" ] ( slice | expression )
    slice    = [ "[" [ iname { "," iname } ] "]" ":" ] name [ "[" ( "()" | part { "," part } ) "]" ]
    part     = expression | [ expression ] ":" [ expression ] [ ":" number ]

An argument is a slice if the function subscripts or writes it, else an expression. A slice has one axis for each axis
of the function's array: an iname before the colon, or a ``:`` in the brackets. A name alone is the whole array.
Arguments with names follow those without.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import DTYPE_NAMES
from loopkit.expr.parsing import BARE, ExpressionParser, NameUse
from loopkit.language.program import Slice
from loopkit.poly.affine import add, floor_div, multiply, subtract

#: Stands for the number of axes of an argument that takes slices with any number of axes.
ANY_RANK = -1


@dataclass(frozen=True)
class Signature:
    """The arguments of a function by name, in order, each with its number of axes.

    :ivar results: the arrays that the function writes.
    :ivar parameters: the arrays that it reads, and its values, which have ``None`` as the number of axes.
    """

    name: str
    results: Mapping[str, int]
    parameters: Mapping[str, int | None]


@dataclass
class SliceParser(ExpressionParser):
    """Parses calls and slices.

    :ivar kernels: the kernels that statements may call; *shapes*: the declared shapes of arrays.
    """

    kernels: Mapping[str, Signature] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)

    def function_at(self) -> int | None:
        """The place of the function's name if the current line is a call, else ``None``.

        :raises UnknownNameError: the line passes a slice to a function that is not known.
        """
        depth, at, has_slice = 0, self.at, self.text == "["
        if self.kind == "name" and self.text in self.kernels and self.tokens[at + 1].text == "(":
            return at                                       # a call without results
        while self.tokens[at].kind not in ("newline", "end") and (depth or self.tokens[at].text != "="):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.tokens[at].text, 0)
            has_slice |= depth == 1 and self.tokens[at].text == ":"
            at += 1
        if self.tokens[at].text != "=" or self.tokens[at + 1].kind != "name" or self.tokens[at + 2].text != "(":
            return None
        _, name, start = self.tokens[at + 1]
        has_slice |= self.tokens[at + 3].text == "["
        if name in self.kernels:
            return at + 1
        if has_slice and not (name in self.known.rules or name in self.known.operations or name in FUNCTIONS
                              or name in self.known.functions
                              or name in DTYPE_NAMES or name in ("cast", "reduce")):
            raise self.source.unknown(start, "function", name, self.kernels)
        return None

    def _call(self, name: str, at: int) -> Expression:
        if name in self.kernels:
            raise self.error("a call that is a whole statement", at=at,
                             message=f"The kernel '{name}' is called in an expression.",
                             hint=f"assign its result first: t = {name}(...)")
        return super()._call(name, at)

    def read_call(self) -> tuple[str, tuple[Slice, ...], tuple[Slice | Expression, ...]]:
        """Parse a call up to its closing parenthesis: the function, the results and the arguments."""
        at = self.function_at()
        if at is None:
            raise self.error("results = function(arguments)", message="A slice is passed to no function.")
        signature = self.kernels[self.tokens[at].text]
        results: list[Slice] = []
        if at == self.at and signature.results:
            raise self._miscounted(signature, "result", signature.results, at, "none")
        for found in self._items(signature, signature.results, "=") if at != self.at else ():
            assert isinstance(found, Slice)
            results.append(found)
        self.at = at + 2
        return signature.name, tuple(results), tuple(self._items(signature, signature.parameters, ")"))

    def _items(self, signature: Signature, known: Mapping[str, int | None] | Mapping[str, int], closer: str
               ) -> Sequence[Slice | Expression]:
        """Slices and values up to *closer*, one for each of the arguments *known*, in their order."""
        found: dict[str, Slice | Expression] = {}
        start, noun, named = self.at, "result" if closer == "=" else "argument", False
        while self.text != closer:
            if len(found) == len(known):
                raise self._miscounted(signature, noun, known, start, "more")
            is_named = closer == ")" and self.kind == "name" and self.tokens[self.at + 1].text == "="
            if named and not is_named:
                raise self.error("name=value", message="An argument without a name stands behind one with a name.")
            named = is_named
            name = self._argument_name(signature, known, found) if named else [*known][len(found)]
            rank = known[name]
            if rank is None and self._at_slice():
                raise self.error("an expression", message=f"'{name}' of the function '{signature.name}' is a value, "
                                 "and this call has a slice in its place.", hint=f"the {noun}s are {', '.join(known)}")
            found[name] = self.expression() if rank is None else self._slice(signature, name, rank)
            if not self.accept(","):
                break
        self.take(closer, f"',' or '{closer}'")
        if len(found) < len(known):
            raise self._miscounted(signature, noun, known, start, str(len(found) or "none"))
        return [found[name] for name in known]

    def _argument_name(self, signature: Signature, known: Collection[str], found: Collection[str]) -> str:
        """``name=`` before an argument."""
        name, at = self.text, self.at
        if name not in known:
            raise self.error(f"one of {', '.join(known)}", at=at,
                             message=f"The function '{signature.name}' does not have an argument '{name}'.")
        if name in found:
            raise self.error("each argument once", at=at, message=f"'{name}' is passed twice.")
        self.at += 2
        return name

    def _at_slice(self) -> bool:
        """Does a slice begin here?"""
        depth, at = 0, self.at
        while self.tokens[at].kind not in ("newline", "end") and (depth or self.tokens[at].text not in (",", ")")):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.tokens[at].text, 0)
            if self.tokens[at].text == ":" and (depth == 1 or self.text == "["):
                return True
            at += 1
        return False

    def _miscounted(self, signature: Signature, noun: str, known: Mapping[str, object], start: int, given: str
                    ) -> ParseError:
        number = f"{len(known) or 'no'} {noun}{'' if len(known) == 1 else 's'}"
        names = f" ({', '.join(known)})" if known else ""
        return self.error(number, at=start, message=f"The function '{signature.name}' has {number}{names}, and this "
                          f"call has {given}.")

    def _slice(self, signature: Signature, name: str, rank: int) -> Slice:
        """A slice for the array *name* of *rank* axes."""
        first, uses = self.at, len(self.uses)
        swept = self._swept() if self.text == "[" else None
        at = self.at
        array = self.name(f"an array for '{name}' of the function '{signature.name}'" if swept is None else
                          "an array after the colon")
        if array in self.known.rules:
            raise self.error("an array", at=at, message=f"'{array}' is a substitution rule.")
        subscripts: tuple[Expression, ...] = ()
        extents: dict[str, Expression | None] = {}
        if self.text == "[":
            subscripts = self._subscripts(array, extents)
        elif swept is None and rank:
            extents = {f"axis {k}": None for k in range(rank)}
            subscripts = tuple(map(p.Variable, extents))
        if swept and extents:
            raise self.error("inames or ':', not both", at=first, message=f"The slice of '{array}' has both.")
        subscripts = self.from_start(array, subscripts, at)
        axes = tuple(extents) or swept or ()
        if rank not in (len(axes), ANY_RANK):
            raise self.error(f"{rank or 'no'} ax{'i' if rank == 1 else 'e'}s", at=first, message=(
                f"'{name}' of the function '{signature.name}' has {rank or 'no'} ax{'i' if rank == 1 else 'e'}s, and "
                f"this slice of '{array}' has {len(axes) or 'none'}."),
                hint=f"{'[' + ', '.join('ijkl'[:rank]) + ']: ' if rank <= 4 else ''}{array}[...]")
        self.uses.append(NameUse(array, len(subscripts) or BARE, self.tokens[at].start))
        self.uses[uses:] = [u for u in self.uses[uses:] if u.rank != BARE or u.name not in axes]
        return Slice(self.tokens[first].start, array, subscripts, axes, tuple(extents.items()))

    def _swept(self) -> tuple[str, ...]:
        """``[i, j]:`` before an array."""
        self.at += 1
        found: list[str] = []
        while self.text != "]":
            name = self.name("an iname")
            if name not in self.known.inames:
                raise self._unknown("iname", name, self.known.inames, self.at - 1)
            if name in found:
                raise self.error("each iname once", at=self.at - 1, message=f"'{name}' is there twice.")
            found.append(name)
            if not self.accept(","):
                break
        self.take("]", "',' or ']'")
        self.take(":", "':' and an array")
        return tuple(found)

    def _subscripts(self, array: str, extents: dict[str, Expression | None]) -> tuple[Expression, ...]:
        """The subscripts of a slice of *array*. The axes of its ``:`` are added to *extents*."""
        self.at += 1
        if self.text == "(" and self.tokens[self.at + 1].text == ")":
            self.at += 2
            self.take("]", "']'")
            return ()
        sizes = iter(self.shapes.get(array, ()))
        found = self.separated(lambda: self._part(array, next(sizes, None), extents))
        self.take("]", "',' or ']'")
        return tuple(found)

    def _part(self, array: str, size: Expression | None, extents: dict[str, Expression | None]) -> Expression:
        """A subscript of *array*, or ``start:stop:step``, along an axis of this *size*."""
        at = self.at
        first = None if self.text == ":" else self.expression()
        if first is not None and self.text != ":":
            return first
        self.at += 1
        stop = None if self.text in (",", "]", ":") else self.expression()
        step = self.expression() if self.accept(":") else 1
        if not isinstance(step, int) or step == 0:
            raise self.error("a number other than 0 as the step", at=at, message="The step of a slice is a number.")
        if step < 0 and first is None and size is None:
            raise self.error("start:stop:step", at=at, message=f"The last element of '{array}' is not known.", hint=(
                f"declare the shape, GlobalArg('{array}', shape=...), or write the start: {array}[n-1::{step}]"))
        if any(isinstance(e, int) and e < least for e, least in ((first, 0), (stop, -1 if step < 0 else 0))):
            raise self.error("subscripts from 0 on", at=at,
                             message="A slice counts from the beginning of the array, not from its end.")
        begin: Expression = first if first is not None else 0 if step > 0 or size is None else subtract(size, 1)
        stop = -1 if step < 0 and stop is None else stop
        length = None if stop is None else subtract(stop, begin) if step > 0 else subtract(begin, stop)
        if length is not None and abs(step) > 1:
            length = add(length, abs(step) - 1)
            length = length // abs(step) if isinstance(length, int) else floor_div(length, abs(step))
        axis = f"axis {len(extents)}"
        extents[axis] = length
        return add(begin, multiply(step, p.Variable(axis)))
