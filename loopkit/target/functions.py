"""Functions in generated text: each call of a kernel that is not inlined, in the function's own names.

A function takes pointers to the first elements of the slices, and the numbers that its body mentions. Equal functions
are written once. Some calls stay in the text of their caller: those with hardware instructions inside, those that write
a private scalar of the caller, and on the host those with barriers.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import (
    Assign,
    Block,
    Define,
    For,
    Function,
    FunctionBody,
    If,
    Node,
    Region,
    Sync,
    own_instructions,
)
from loopkit.ast.walk import (
    as_block,
    assigned,
    child_nodes,
    expressions_of,
    map_child_nodes,
    mentioned,
    nodes_in,
    rewritten,
)
from loopkit.expr.dtypes import Type, resolve
from loopkit.expr.mappers import array_of, children, map_children, subscripts_of, substitute, variables
from loopkit.instructions.base import indented
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import CallRegion, PassedArray
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import add, integer_factor, multiply, subtract
from loopkit.target.c.dialect import Dialect
from loopkit.target.memory import Addresses, Flat, Nested, array_declaration, wrapped_head

Element = p.Variable | p.Subscript


@dataclass
class FunctionTexts:
    """The functions of one text, collected as it is printed.

    :ivar start: the qualifiers before the result.
    :ivar taken: names that no function may get.
    :ivar names: the name and the body of each function, by its parameters and its body with the function's own ids.
    """

    start: str
    taken: frozenset[str]
    names: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, Sequence[str]]] = field(default_factory=dict)

    def name_of(self, parameters: Sequence[str], body: Sequence[str], region: CallRegion) -> str:
        """The name of the function of *region* with these *parameters* and this *body*, with the ids of the kernel."""
        own = (f"// {region.ids.get(line.strip()[3:], line)}" if line.strip().startswith("//") else line
               for line in body)
        key = tuple(parameters), tuple(own)
        if key not in self.names:
            used = {*self.taken, *(name for name, _ in self.names.values())}
            self.names[key] = next(x for x in _numbered(region.function) if x not in used), body
        return self.names[key][0]

    def texts(self) -> Iterator[list[str]]:
        """The lines of each function."""
        for (parameters, _), (name, body) in self.names.items():
            head = wrapped_head(f"{self.start} void {name}", parameters)
            yield [*head, "{", *indented(body), "}"]


def function_texts(lowered: Lowered, start: str) -> FunctionTexts:
    """An empty collection for a text of *lowered*."""
    knl = lowered.kernel
    taken = {*knl.all_names, knl.name, *(launch.name for launch in lowered.launches)}
    return FunctionTexts(start, frozenset(taken.difference(region.function for region in knl.calls.values())))


@dataclass
class LaunchCalls:
    """The calls of one launch.

    :ivar arrays: the arrays that the launch declares, and *body*: its nodes.
    :ivar barriers: a function may have barriers and regions inside.
    :ivar inside: those of the arrays that functions declare instead.
    """

    texts: FunctionTexts
    arrays: Mapping[str, Array]
    body: Block
    barriers: bool
    inside: set[str] = field(default_factory=set)

    @staticmethod
    def of(texts: FunctionTexts, function: Function, *, barriers: bool) -> LaunchCalls:
        """The calls in the loop program *function*."""
        return LaunchCalls(texts, {a.name: a for a in function.arrays}, function.body, barriers)

    def is_local(self, name: str, call: str) -> bool:
        """Is the array *name* private to a thread, and used in *call* alone?"""
        array = self.arrays[name]
        is_private = not (array.shared or array.thread_axes or (array.across_regions and not self.barriers))
        return is_private and not _used_outside(self.body, name, call)


def _used_outside(node: Node, name: str, call: str) -> bool:
    if isinstance(node, FunctionBody) and node.call == call:
        return False
    return any(name in variables(e) for e in expressions_of(node)) or any(
        _used_outside(child, name, call) for child in child_nodes(node))


@dataclass(frozen=True)
class OutlinedCall:
    """A call as a function.

    :ivar parameters: with their types; *arguments*: the text that the call passes for each.
    :ivar declarations: the lines that declare the arrays of the body.
    :ivar body: the nodes in the names of the function; *names*: these, by the names of the kernel.
    """

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    declarations: tuple[str, ...]
    body: Block
    names: Mapping[str, str]
    addresses: Addresses
    types: Mapping[str, Type]


@dataclass(frozen=True)
class Outliner:
    """Makes functions of the calls in a text.

    :ivar index: the dtype of the text's indices.
    :ivar built_in: names that a function has without a parameter.
    :ivar type_of: the type of a name; *pointer*: the text of a pointer to an element; *number*: that of an integer.
    """

    kernel: LoopKernel
    dialect: Dialect
    addresses: Addresses
    index: np.dtype[Any]
    built_in: frozenset[str]
    type_of: Callable[[str], Type]
    pointer: Callable[[Element], str]
    number: Callable[[Expression], str]

    def outlined(self, node: FunctionBody, calls: LaunchCalls, kept: frozenset[str]) -> OutlinedCall | None:
        """The call *node* as a function; ``None``: it stays in the text of its caller.

        :arg kept: names that must not change.
        """
        if any((isinstance(inner, Region | Sync) and not calls.barriers) or own_instructions(inner)
               for inner in nodes_in(node)) \
                or any(a.cache_policy is not None for a in self.kernel.array_args.values()):
            return None
        return _FunctionWriter(self, calls, self.kernel.calls[node.call], node, kept).outlined()


@dataclass
class _FunctionWriter:
    """Writes one function.

    :ivar names: the name in the function of each name of the kernel, and of each argument (``"slice a"``) and stride.
    :ivar parameters: each with the text that the call passes.
    """

    outliner: Outliner
    calls: LaunchCalls
    region: CallRegion
    node: FunctionBody
    kept: frozenset[str]
    names: dict[str, str] = field(default_factory=dict)
    parameters: list[tuple[str, str]] = field(default_factory=list)
    places: dict[str, Flat | Nested] = field(default_factory=dict)

    def outlined(self) -> OutlinedCall | None:
        own, written = self.outliner, assigned(self.node)
        # each function has its own text of a constant array
        local = sorted(x for x in mentioned(self.node) & self.calls.arrays.keys()
                       if self.calls.is_local(x, self.node.call) or self.calls.arrays[x].initializer)
        inner = {*local, *(x.iname if isinstance(x, For) else x.name for x in nodes_in(self.node)
                           if isinstance(x, For | Define))}
        slices: dict[str, PassedArray] = {}
        elements: dict[Expression, p.Subscript] = {}
        for e in self._elements():
            if (found := self._in_slice(e)) is not None:
                slices[found[0].name], elements[e] = found
        body = _with_expressions(as_block(_without_calls(self.node)), lambda e: _in_slices(e, elements))
        for a in (a for a in self.region.arrays if a.name in slices):
            name = self._new(f"slice {a.name}", a.name)
            self.places[name] = Flat((None,))
            self._add_pointer(name, a.array, own.pointer(a.element((0,)*len(a.axes))),
                              f"slice {a.name}" in assigned(body))
        others = sorted(x for x in mentioned(body) - inner - own.built_in if not x.startswith(("slice ", "stride of ")))
        arrays = [x for x in others if x in own.addresses.arrays or x in self.calls.arrays]
        if not all(self._add_array(x, x in written) for x in arrays):
            return None
        if not self._add_values(dict.fromkeys((*self._sizes(arrays), *(x for x in others if x not in arrays))), inner):
            return None
        for x in sorted(x for x in mentioned(body) if x.startswith("stride of ")):
            self._add_stride(x, slices)
        for x in sorted(inner):
            self._new(x, self.region.names.get(x, x))
        return self._finished(body, local, slices)

    def _new(self, name: str, like: str) -> str:
        """A new name in the function for *name*, *like* this one if possible."""
        taken = {*self.names.values(), *self.kept}
        self.names[name] = name if name in self.kept else next(x for x in _numbered(like) if x not in taken)
        return self.names[name]

    # Elements of slices

    def _elements(self) -> Iterator[Element]:
        """The elements of arrays in memory that the call accesses."""
        stack = [e for node in nodes_in(self.node) for e in expressions_of(node)]
        while stack:
            e = stack.pop()
            if isinstance(e, p.Variable) or (isinstance(e, p.Subscript) and isinstance(e.aggregate, p.Variable)):
                if isinstance(self.outliner.addresses.arrays.get(array_of(e)), Flat):
                    yield e
                stack += subscripts_of(e)
            else:
                stack += children(e)

    def _in_slice(self, element: Element) -> tuple[PassedArray, p.Subscript] | None:
        """The argument of the function that *element* belongs to, and the element in terms of the argument."""
        # its subscripts may depend on the caller's loops through values alone; and a step may have replaced a name
        values = {x for e in self.region.values.values() for x in variables(e)}
        known = mentioned(self.node).difference({*self.region.inames} - values)
        # results come first: an element that is read belongs to the last argument that can have it
        is_written = any(isinstance(x, Assign) and x.target == element for x in nodes_in(self.node))
        for a in self.region.arrays if is_written else self.region.arrays[::-1]:
            own = _subscripts_in(a, subscripts_of(element)) if a.array == array_of(element) else None
            if own is not None and {x for e in own for x in variables(e)} <= known:
                strides = [self._stride(a, axis) for axis in range(len(own))]
                return a, p.Subscript(p.Variable(f"slice {a.name}"), (add(*(
                    multiply(e, stride if isinstance(stride, int) else p.Variable(f"stride of {a.name} {axis}"))
                    for axis, (stride, e) in enumerate(zip(strides, own, strict=True)))),))
        return None

    def _stride(self, a: PassedArray, axis: int) -> Expression:
        """The elements of memory from one subscript of *axis* of the argument *a* to the next."""
        place = self.outliner.addresses.arrays[a.array]
        assert isinstance(place, Flat)
        total: Expression = 0
        for k, subscript in enumerate(a.subscripts):
            if not isinstance(step := _subscript_step(a, subscript, axis), int) or step:
                length: Expression = place.strides[k] if place.strides else 1
                for extent in () if place.strides else place.shape[k + 1:]:
                    assert extent is not None
                    length = multiply(length, extent)
                total = add(total, multiply(step, length))
        return total

    # Parameters

    def _add_pointer(self, name: str, array: str, argument: str, written: bool) -> None:
        type_name = self.outliner.dialect.type_name(resolve(self.outliner.type_of(array)))
        self.parameters.append((f"{'' if written else 'const '}{type_name} *{name}", argument))

    def _add_array(self, x: str, written: bool) -> bool:
        """Add the array *x* of the caller as a whole, or its private scalar; ``False``: this is not possible."""
        place, array = self.outliner.addresses.arrays.get(x), self.calls.arrays.get(x)
        if isinstance(place, Flat):
            name = self._new(x, x)
            self.places[name] = place
            self._add_pointer(name, x, x, written)
            return True
        if array is None or array.thread_axes or (array.across_regions and not self.calls.barriers) \
                or array.swizzle is not None:
            return False
        if not array.shape:
            if written or array.shared:
                return False
            self._add_value(x)
            return True
        name = self._new(x, x)
        self.places[name] = Nested("", array)
        declared = array_declaration(replace(array, name=name, note=""), self.outliner.dialect).rstrip(";")
        self.parameters.append((f"{'' if written else 'const '}{declared}", x))
        return True

    def _sizes(self, arrays: Iterable[str]) -> Iterator[str]:
        """The names in the addresses of the elements of whole *arrays*."""
        for place in map(self.outliner.addresses.arrays.get, arrays):
            if isinstance(place, Flat):
                yield from (x for e in place.strides or place.shape[1:] if e is not None for x in sorted(variables(e)))

    def _add_values(self, names: Iterable[str], inner: set[str]) -> bool:
        """Add numbers of the caller; ``False``: one of them cannot be passed."""
        for x in names:
            if x in inner or x in self.outliner.addresses.spelled or not x.isidentifier():
                return False
            if x not in self.names:
                self._add_value(x)
        return True

    def _add_value(self, x: str) -> None:
        """Pass the number *x*, under the name of the argument that it is passed for."""
        like = next((name for name, e in self.region.values.items() if e == p.Variable(x)),
                    self.region.names.get(x, x))
        type_name = self.outliner.dialect.type_name(resolve(self.outliner.type_of(x)))
        self.parameters.append((f"const {type_name} {self._new(x, like)}", x))

    def _add_stride(self, x: str, slices: Mapping[str, PassedArray]) -> None:
        name, axis = x.removeprefix("stride of ").rsplit(" ", 1)
        self.parameters.append((f"const {self.outliner.dialect.type_name(self.outliner.index)} "
                                f"{self._new(x, f'{name}_stride_{axis}')}",
                                self.outliner.number(self._stride(slices[name], int(axis)))))

    def _finished(self, body: Block, local: Iterable[str], slices: Mapping[str, PassedArray]) -> OutlinedCall:
        own, names, declarations = self.outliner, self.names, list[str]()
        for x in local:
            array = replace(self.calls.arrays[x], name=names[x])
            declarations.append(array_declaration(array, own.dialect))
            if array.shape:
                self.places[names[x]] = Nested("", array)
            if self.calls.is_local(x, self.node.call):
                self.calls.inside.add(x)
        types = {new: own.type_of(x) for x, new in names.items() if " " not in x}
        types.update((names[f"slice {name}"], own.type_of(a.array)) for name, a in slices.items())
        types.update((new, own.type_of(x)) for x, new in names.items() if x.startswith("stride of "))
        renamed = {x: p.Variable(new) for x, new in names.items() if x != new}
        for name, place in self.places.items():
            if isinstance(place, Flat):
                shape = tuple(None if e is None else substitute(e, renamed) for e in place.shape)
                self.places[name] = Flat(shape, tuple(substitute(e, renamed) for e in place.strides))
        return OutlinedCall(
            tuple(parameter for parameter, _ in self.parameters), tuple(given for _, given in self.parameters),
            tuple(declarations), _with_names_of_function(body, renamed), names,
            replace(own.addresses, arrays=dict(self.places)), types)


def _in_slices(expr: Expression, elements: Mapping[Expression, p.Subscript]) -> Expression:
    """*expr* with *elements* in terms of slices, also in the subscripts of such an element."""
    found = elements.get(expr)
    return map_children(expr if found is None else found, lambda e: _in_slices(e, elements))


def _numbered(like: str) -> Iterator[str]:
    return chain((like,), (f"{like}_{i}" for i in count()))


def _subscript_step(a: PassedArray, subscript: Expression, axis: int) -> Expression:
    """The difference of *subscript* from one subscript of *axis* to the next."""
    zeros: dict[str, Expression] = dict.fromkeys(a.axes, 0)
    return subtract(substitute(subscript, {**zeros, a.axes[axis]: 1}), substitute(subscript, zeros))


def _subscripts_in(a: PassedArray, index: tuple[Expression, ...]) -> tuple[Expression, ...] | None:
    """The subscripts of the argument *a* at the element *index* of the caller's array, if it has this element."""
    if len(index) != len(a.subscripts):
        return None
    zeros: dict[str, Expression] = dict.fromkeys(a.axes, 0)
    own: dict[str, Expression] = {}
    for k, axis in enumerate(a.axes):
        for subscript, value in zip(a.subscripts, index, strict=True):
            if axis not in own and variables(subscript) & {*a.axes} == {axis}:
                found = _quotient_of(subtract(value, substitute(subscript, zeros)), _subscript_step(a, subscript, k))
                if found is not None:
                    own[axis] = found
    if len(own) < len(a.axes) or any(subtract(add(substitute(subscript, own)), value) != 0
                                     for subscript, value in zip(a.subscripts, index, strict=True)):
        return None
    return tuple(own[axis] for axis in a.axes)


def _quotient_of(form: Expression, step: Expression) -> Expression | None:
    """*form* divided by *step*, if it is a sum of multiples of this number."""
    if not isinstance(step, int) or not step:
        return None
    terms: list[Expression] = []
    for term in form.children if isinstance(form, p.Sum) else (form,):
        factor = term if isinstance(term, int) else integer_factor(term)
        if factor % step:
            return None
        rest = term.children[1:] if isinstance(term, p.Product) and factor != 1 else (term,)
        terms.append(factor // step if isinstance(term, int) else multiply(
            factor // step, rest[0] if len(rest) == 1 else p.Product(rest)))
    return add(*terms)


def _with_expressions(node: Block, f: Callable[[Expression], Expression]) -> Block:
    """*node* with *f* applied to all expressions."""
    def changed(inner: Node) -> Node:
        match inner:
            case Assign():
                target = f(inner.target)
                assert isinstance(target, p.Variable | p.Subscript)
                return replace(inner, target=target, value=f(inner.value))
            case For():
                return replace(inner, start=f(inner.start), stop=f(inner.stop))
            case If():
                return replace(inner, condition=f(inner.condition))
            case Define():
                return replace(inner, value=f(inner.value))
            case _:
                return inner
    return rewritten(Block(node.children), changed)


def _without_calls(node: Node) -> Node:
    """*node* with the nodes of calls in it in their places."""
    if not isinstance(node, Block):
        return map_child_nodes(node, _without_calls)
    return Block(tuple(part for child in node.children for part in (
        child_nodes(_without_calls(child)) if isinstance(child, FunctionBody) else (_without_calls(child),))))


def _with_names_of_function(body: Block, names: Mapping[str, p.Variable]) -> Block:
    """*body* with other names of variables, loops and constants."""
    def changed(node: Node) -> Node:
        if isinstance(node, For) and node.iname in names:
            return replace(node, iname=names[node.iname].name)
        return replace(node, name=names[node.name].name) if isinstance(node, Define) and node.name in names else node
    return rewritten(_with_expressions(body, lambda e: substitute(e, names)), changed)
