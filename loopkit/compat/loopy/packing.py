"""Slices of another rank than the argument of a function: the same elements in row-major order."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.domains import Domains
from loopkit.language.names import fresh
from loopkit.language.program import FunctionCall, Slice
from loopkit.language.slices import ANY_RANK, Signature
from loopkit.poly.affine import add, floor_div, multiply, remainder, subtract
from loopkit.poly.domains import affine_ends
from loopkit.poly.sets import InstanceSet, universe_params


def packed_signature(signature: Signature) -> Signature:
    """*signature* whose arrays take slices of any rank."""
    return replace(signature, results=dict.fromkeys(signature.results, ANY_RANK), parameters={
        name: rank if rank is None else ANY_RANK for name, rank in signature.parameters.items()})


@dataclass(frozen=True)
class Packing:
    """The calls of *functions* with slices of any rank.

    :ivar domains: they get the inames of the new slices; *taken*: their names.
    """

    functions: Mapping[str, LoopKernel]
    domains: Domains
    taken: set[str]

    def with_slices(self, node: FunctionCall, signature: Signature, *, any_rank: bool) -> FunctionCall:
        """*node* with the slices that it means in loopy; they may have any rank."""
        return (self._packed if any_rank else self._opened)(node, signature)

    def _packed(self, node: FunctionCall, signature: Signature) -> FunctionCall:
        """*node* with the text of a call whose slices have the ranks of the arguments.

        :raises PreconditionError: the extents of a slice are not numbers, or it has too few elements.
        """
        shapes = array_shapes(self.functions[node.function])
        results = [self._slice(name, shapes[name], given)
                   for name, given in zip(signature.results, node.results, strict=True)]
        arguments = [self._slice(name, shapes[name], given) if isinstance(given, Slice) else to_text(given)
                     for name, given in zip(signature.parameters, node.arguments, strict=True)]
        declared = "" if node.temporary is None else f"<{node.temporary}> "
        text = f"{declared}{', '.join(results)} = {node.function}({', '.join(arguments)})"
        return replace(node, text=text)

    def _opened(self, node: FunctionCall, signature: Signature) -> FunctionCall:
        """*node*, in which slices reach to the ends of their arrays, of which the function accesses a fixed number of
        elements, and which have a size as their extent: loopy checks the ends of no slice.
        """
        shapes = array_shapes(self.functions[node.function])
        pairs = [*zip(signature.results, node.results, strict=True), *(
            (name, given) for name, given in zip(signature.parameters, node.arguments, strict=True)
            if isinstance(given, Slice))]
        texts = {id(given): self._open(given) for name, given in pairs if isinstance(given, Slice)
                 and any(isinstance(e, int) for e in shapes.get(name, ()))}
        if not any(texts.values()) or any(e is not None for _, given in pairs for _, e in given.extents):
            return node

        def text(given: Slice) -> str:
            subscripts = ", ".join(":" if isinstance(e, p.Variable) and e.name in dict(given.extents) else to_text(e)
                                   for e in given.subscripts)
            swept = f"[{', '.join(given.swept)}]: " if given.swept else ""
            return texts.get(id(given)) or f"{swept}{given.array}[{subscripts or '()'}]"
        arguments = (text(x) if isinstance(x, Slice) else to_text(x) for x in node.arguments)
        declared = "" if node.temporary is None else f"<{node.temporary}> "
        return replace(node, text=f"{declared}{', '.join(map(text, node.results))} = {node.function}("
                                  f"{', '.join(arguments)})")

    def _open(self, given: Slice) -> str | None:
        """*given* with ``:`` for its inames, if they begin at 0, end at a size, and are subscripts in their order."""
        plain = {e.name: k for k, e in enumerate(given.subscripts)
                 if isinstance(e, p.Variable) and e.name in given.swept}
        others = [e for k, e in enumerate(given.subscripts) if k not in plain.values()]
        own = (self.domains.instances(self.domains.sorted(self.domains.ancestors([x]))).onto((x,)) for x in given.swept)
        ends = [affine_ends(points, universe_params()) for points in own]
        if [*plain] != [*given.swept] or not plain or any(variables(e) & plain.keys() for e in others) or any(
                end is None or end[0] != 0 or isinstance(end[1], int) for end in ends):
            return None
        subscripts = (":" if k in plain.values() else to_text(e) for k, e in enumerate(given.subscripts))
        return f"{given.array}[{', '.join(subscripts)}]"

    def _slice(self, name: str, shape: Sequence[Expression | None], given: Slice) -> str:
        """*given*, for the array *name* of the function, with its *shape*."""
        lows, extents = zip(*self._ranges(name, given), strict=True) if given.axes else ((), ())
        as_is = len(shape) == len(extents) and all(
            not isinstance(e, int) or e <= extent for e, extent in zip(shape, extents, strict=True))
        own = list(extents) if as_is else [prod(extents)] if len(shape) == 1 else list(shape)
        sizes = [e for e in own if isinstance(e, int)]
        if len(sizes) < len(own) or prod(sizes) > prod(extents):
            have = "x".join(map(to_text, extents)) or "1"
            raise PreconditionError(f"The slice of '{given.array}' has {have} elements, and '{name}' has "
                                    f"{'x'.join(str(e) if e is None else to_text(e) for e in own)}.", subject=name,
                                    hint="a slice of another rank has as many elements, by numbers")
        inames = [fresh(f"{given.array}_packed_{k}", self.taken) for k in range(len(sizes))]
        if inames:
            bounds = " and ".join(f"0 <= {x} < {size}" for x, size in zip(inames, sizes, strict=True))
            self.domains.owner |= dict.fromkeys(inames, len(self.domains.domains))
            self.domains.domains += (InstanceSet.parse(f"{{[{', '.join(inames)}]: {bounds}}}"),)
            self.domains.parents |= dict.fromkeys(inames, frozenset())
        place: Expression = 0
        for x, size in zip(inames, sizes, strict=True):
            place = add(multiply(size, place), p.Variable(x))
        values: dict[str, Expression] = {}
        for k, (axis, low) in enumerate(zip(given.axes, lows, strict=True)):
            inner = prod(extents[k + 1:])
            value = p.Variable(inames[k]) if as_is else floor_div(place, inner) if inner > 1 else place
            values[axis] = add(low, remainder(value, extents[k]) if k and not as_is else value)
        subscripts = ", ".join(to_text(substitute(e, values)) for e in given.subscripts) or "()"
        return f"[{', '.join(inames)}]: {given.array}[{subscripts}]"

    def _ranges(self, name: str, given: Slice) -> Iterator[tuple[int, int]]:
        """The first value and the extent of each axis of *given*."""
        known = dict(given.extents)
        for x in given.axes:
            low: Expression | None = 0
            extent = known.get(x)
            if x not in known:
                ends = affine_ends(self.domains.instances(self.domains.sorted(self.domains.ancestors([x]))).onto((x,)),
                                   universe_params())
                low, extent = (None, None) if ends is None else (ends[0], add(subtract(ends[1], ends[0]), 1))
            if not isinstance(low, int) or not isinstance(extent, int):
                raise PreconditionError(f"The extents of the slice of '{given.array}' for '{name}' are not numbers.",
                                        subject=given.array, hint="pack_and_unpack_args_for_call needs inames with "
                                        "constant bounds; fix_parameters of the sizes gives them")
            yield low, extent
