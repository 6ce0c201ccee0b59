"""The one emitter of C-family text: statements and loops; the dialect holds the differences between targets."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.ast.arrays import Array
from loopkit.ast.check import operation_of_load
from loopkit.ast.nodes import (
    Assign,
    Block,
    Call,
    Define,
    For,
    FunctionBody,
    If,
    Instruction,
    OneStep,
    Region,
    Sync,
    Tiles,
)
from loopkit.ast.value_ranges import ValueRanges
from loopkit.errors import InternalError, PreconditionError
from loopkit.expr.dtypes import INT64, Type, as_size, resolve, type_of, weak
from loopkit.expr.indices import as_index
from loopkit.expr.kinds import is_narrow
from loopkit.expr.mappers import array_of
from loopkit.expr.nodes import REDUCTIONS, TypeCast
from loopkit.instructions.base import InstructionText, if_else, indented
from loopkit.kernel.data import AddressSpace, CachePolicy
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.c_instructions import UserCode
from loopkit.lowering.lowered import BLOCK, GRID, Launch
from loopkit.target.c.dialect import Dialect
from loopkit.target.c.expressions import CText
from loopkit.target.functions import LaunchCalls, Outliner
from loopkit.target.memory import Addresses, Flat, Nested
from loopkit.target.user_code import code_lines


@dataclass(frozen=True)
class Hooks:
    """The text of a target for launches, and for what the threads of a block do together.

    :ivar region: adds lines around a region.
    :ivar sync: the lines of a synchronization, with its comments and the lines of its instructions.
    :ivar collective: gives the lines before a region with an instruction, the region with variables for its reads, and
        the text of these variables; ``None``: such regions are emitted as plain code.
    :ivar call: the lines of a launch, in the host's part of a program.
    :ivar tiles: the loop over the places of the grid of a block.
    :ivar comment: the comment before a statement; ``""``: none.
    :ivar before: the lines before an assignment, or before the condition of an ``if``.
    :ivar condition: the condition of an ``if``.
    """

    region: Callable[[list[str]], list[str]] = list
    sync: Callable[[Sync, list[str], list[str]], list[str]] = lambda _node, _comments, own: own
    collective: Callable[[Region], tuple[list[str], Region, Mapping[str, str]]] | None = None
    call: Callable[[Call, ValueRanges], Iterable[str]] = lambda _node, _signs: ()
    tiles: Callable[[Emitter, Tiles, ValueRanges], Iterable[str]] = lambda _emitter, _node, _signs: ()
    comment: Callable[[str], str] = str
    before: Callable[[Emitter, Assign | If, ValueRanges], Iterable[str]] = lambda _emitter, _node, _signs: ()
    condition: Callable[[Emitter, If, ValueRanges], str] = lambda emitter, node, bounds: emitter.condition(
        node.condition, bounds)


@dataclass(frozen=True)
class Emitter:
    """Prints the body of one function of *kernel*: a :class:`~loopkit.instructions.base.Printer`.

    :ivar types: the types of the kernel's names.
    :ivar axes: the text of each hardware axis that is a built-in (``threadIdx.x`` for ``l.0``).
    :ivar calls: collects the functions that calls become; ``None``: calls stay in the text.
    """

    kernel: LoopKernel
    dialect: Dialect
    addresses: Addresses
    index_dtype: np.dtype
    types: Mapping[str, Type]
    hooks: Hooks
    axes: Mapping[str, str] = field(default_factory=dict)
    calls: LaunchCalls | None = None

    # The interface for instructions

    @property
    def annotate(self) -> bool:
        return self.kernel.options.annotate

    @property
    def index(self) -> str:
        return self.dialect.type_name(self.index_dtype)

    def type_name(self, dtype: np.dtype) -> str:
        return self.dialect.type_name(dtype)

    def text_of(self, instruction: Instruction) -> InstructionText | None:
        return self.dialect.instructions.get(type(instruction))

    def with_registers(self, dtypes: Mapping[str, np.dtype]) -> Emitter:
        own = replace(self.addresses, arrays={**self.addresses.arrays, **{x: Nested() for x in dtypes}})
        return replace(self, addresses=own, types={**self.types, **dtypes})

    def plain(self, node: Assign, bounds: ValueRanges) -> str:
        dtype = self.dtype_of(node.target)
        target = self.value(node.target, bounds, dtype)
        if node.combine is None:
            value = self.value(node.value, bounds, dtype)
            store = self.policy(array_of(node.target), load=False) if _takes_cache_policy(dtype) else ""
            return f"{store}(&{target}, {value});" if store else f"{target} = {value};"
        operation = REDUCTIONS[node.combine]
        has_operators = dtype.kind != "c" and self.dialect.has_operators(dtype) and (
            dtype.kind != "b" or self.dialect.syntax.has_bool)
        if operation.combine in ("+", "*", "&", "|", "^") and has_operators:
            return f"{target} {operation.combine}= {self.value(node.value, bounds, dtype)};"
        return f"{target} = {self.value(operation.apply(node.target, node.value), bounds, dtype)};"

    def policy(self, array: str, *, load: bool) -> str:
        policy, argument = CachePolicy.EVICT_LAST if load else CachePolicy.STREAMING, self.kernel.array_args.get(array)
        has_policy = argument is not None and argument.cache_policy is policy
        return self.dialect.policies.get(policy, "") \
            if has_policy and not (load and array in self.kernel.written_names) else ""

    def memory_of(self, element: p.Variable | p.Subscript) -> AddressSpace:
        match self.addresses.arrays.get(array_of(element)):
            case Flat():
                return AddressSpace.GLOBAL
            case Nested(array=Array(shared=True)):
                return AddressSpace.SHARED
            case Nested(array=Array(thread_axes=number)) if number:
                return AddressSpace.WARP
            case _:
                return AddressSpace.PRIVATE

    def place(self, element: p.Variable | p.Subscript, bounds: ValueRanges, dtype: np.dtype | None = None) -> str:
        return self._printer(bounds, places=True, sizes=dtype is None).text(element, dtype)

    def value(self, expr: Expression, bounds: ValueRanges, dtype: np.dtype) -> str:
        return self._printer(bounds).text(expr, dtype)

    def condition(self, expr: Expression, bounds: ValueRanges) -> str:
        return self._printer(bounds).condition(expr)

    def dtype_of(self, element: p.Variable | p.Subscript) -> np.dtype:
        return resolve(self._type_of(array_of(element)))

    def loop(self, node: For, bounds: ValueRanges) -> Iterator[str]:
        yield from self.dialect.syntax.unroll if node.unroll else ()
        body = self.lines(node.body, bounds.inside(node))
        yield from self.loop_over(node.iname, node.start, node.stop, body, bounds, node.step)

    def loop_over(self, name: str, start: Expression, stop: Expression, body: Iterable[str], bounds: ValueRanges,
                  step: int = 1) -> Iterator[str]:
        """A loop of *name* around the lines *body*."""
        end = self.text(stop, bounds)
        end = f"({end})" if isinstance(stop, p.If) else end                 # "?:" has lower precedence than "<"
        increment = f"++{name}" if step == 1 else f"{name} += {step}"
        yield f"for ({self.index} {name} = {self.text(start, bounds)}; {name} < {end}; {increment}) {{"
        yield from indented(body)
        yield "}"

    # Statements

    def lines(self, block: Block, bounds: ValueRanges) -> Iterator[str]:
        """The lines of *block*, not indented."""
        last = None
        for node in block.children:
            for x in node.children if isinstance(node, OneStep) else (node,):
                if isinstance(x, Assign) and self.annotate and (comment := self.hooks.comment(x.statement)) \
                        and not (isinstance(last, Assign) and last.statement == x.statement):
                    yield f"// {comment}"
            match node:
                case Assign():
                    yield from self._assign(node, bounds)
                case For():
                    text = None if node.instruction is None else self.text_of(node.instruction)
                    yield from self.loop(node, bounds) if text is None or text.loop is None else \
                        text.loop(self, node, node.instruction, bounds)
                case If():
                    yield from self.hooks.before(self, node, bounds)
                    comment = f"  // {node.comment}" if node.comment else ""
                    then = self.lines(node.then, bounds.where(node.condition))
                    fails = bounds.where(p.LogicalNot(node.condition))
                    otherwise = () if node.otherwise is None else self.lines(node.otherwise, fails)
                    yield from if_else(self.hooks.condition(self, node, bounds), then, otherwise, comment)
                case Define():
                    yield f"const {self.index} {node.name} = {self.text(node.value, bounds)};"
                    bounds = bounds.defining(node.name, node.value)
                case Sync():
                    own = [line for i in node.instructions if (known := self.text_of(i)) and known.sync
                           for line in known.sync(self, i, bounds)]
                    yield from self.hooks.sync(
                        node, [f"// {reason}" for reason in node.serves] if self.annotate else [], own)
                case Region():
                    yield from self._region(node, bounds)
                case Tiles():
                    yield from self.hooks.tiles(self, node, bounds)
                case FunctionBody():
                    yield from self._function(node, bounds)
                case OneStep(children=(Assign() as load, Assign() as update)):
                    yield from self._one_step(load, update, bounds)
                case Block():
                    yield "{"
                    yield from indented(self.lines(node, bounds))
                    yield "}"
                case Call():
                    yield from self.hooks.call(node, bounds)
            last = node

    def _function(self, node: FunctionBody, bounds: ValueRanges) -> Iterator[str]:
        """The call of a function, or the lines of its body."""
        if self.annotate:
            yield f"// {self.kernel.calls[node.call].text}"
        def pointer(element: p.Variable | p.Subscript) -> str:
            first = f"{array_of(element)}[0]"
            return array_of(element) if (text := self.place(element, bounds)) == first else f"&{text}"
        found = None if self.calls is None else Outliner(
            self.kernel, self.dialect, self.addresses, self.index_dtype, frozenset(self.axes), self._type_of,
            pointer, lambda e: self.text(e, bounds, self.index_dtype)
            ).outlined(node, self.calls, self.bounds)
        if found is None or self.calls is None:
            yield from self.lines(node, bounds)
            return
        inside = replace(self, addresses=found.addresses, types=found.types)
        body = inside.lines(found.body, bounds.renamed(found.names))
        name = self.calls.texts.name_of(found.parameters, (*found.declarations, *body), self.kernel.calls[node.call])
        yield f"{name}({', '.join(found.arguments)});"

    def _region(self, node: Region, bounds: ValueRanges) -> Iterator[str]:
        emitter = self
        text = None if node.instruction is None else self.text_of(node.instruction)
        if text is not None and text.region is not None:
            yield from text.region(self, node, node.instruction, bounds)
            return
        if node.instruction is not None and self.hooks.collective is not None:
            before, node, spelled = self.hooks.collective(node)
            yield from before
            emitter = replace(self, addresses=replace(self.addresses, spelled={**self.addresses.spelled, **spelled}))
        inside = replace(emitter, hooks=replace(emitter.hooks, region=list))        # it has the threads already
        yield from self.hooks.region(list(inside.lines(node.body, bounds)))

    def _one_step(self, load: Assign, update: Assign, bounds: ValueRanges) -> Iterator[str]:
        yield from (line for node in (load, update) for line in self.hooks.before(self, node, bounds))
        text = next((found.one_step for i in update.instructions if (found := self.text_of(i)) is not None), None)
        lines = None if text is None else text(self, load, update, bounds)
        yield from (self.plain(load, bounds), self.plain(update, bounds)) if lines is None else lines

    def _assign(self, node: Assign, bounds: ValueRanges) -> Iterator[str]:
        if operation_of_load(node) is not None:
            raise InternalError(f"'{node.statement}' loads an old value, and not in one step with the update.")
        if code := next((i for i in node.instructions if isinstance(i, UserCode)), None):
            if any(True for x in code.replaced for _ in self.hooks.before(self, x, bounds)):
                raise PreconditionError(f"The accesses of the C instruction '{code.instruction.id}' cannot be checked "
                                        "when it runs.", subject=code.instruction.id,
                                        hint="compile without check_bounds=True")
            lacking = (d for x in code.parts if not self.dialect.has_operators(d := self.dtype_of(x.element)))
            if (dtype := next(lacking, None)) is not None:
                raise PreconditionError(f"The C instruction '{code.instruction.id}' has an operand of {dtype}, which "
                                        f"the language '{self.dialect.syntax.name}' has no numbers for.",
                                        subject=code.instruction.id, hint="use float32 operands")
            if not self.dialect.syntax.has_bool and any(
                    x.is_written and self.dtype_of(x.element).kind == "b" for x in code.parts):
                raise PreconditionError(f"The C instruction '{code.instruction.id}' writes a truth value, which the "
                                        f"language '{self.dialect.syntax.name}' has no type for.",
                                        subject=code.instruction.id, hint="write an int32")
            yield from code_lines(code, self, self.addresses, lambda e: self.text(e, bounds), bounds,
                                  self.dialect.syntax)
            return
        yield from self.hooks.before(self, node, bounds)
        texts = [(i, text) for i in node.instructions if (text := self.text_of(i)) is not None]
        loaders = {x: helper for i, text in texts if text.loads is not None for x, helper in text.loads(i).items()}
        printer = replace(self, addresses=replace(self.addresses, loaders=loaders)) if loaders else self
        for i, text in texts:
            if text.assignment is not None and (lines := text.assignment(printer, node, i, bounds)) is not None:
                yield from lines
                return
        yield printer.plain(node, bounds)

    # Expressions

    def text(self, expr: Expression, bounds: ValueRanges, want: np.dtype | None = None) -> str:
        """*expr*, of inames and sizes, as text, converted to *want*."""
        if want is None and isinstance(expr, p.ExpressionNode) and not isinstance(expr, p.Variable) \
                and self.index_dtype.itemsize > 4:
            want = self.index_dtype             # blockIdx.x - 3 has 32 bits, and would be positive in 64
        return self._printer(bounds, sizes=True).text(expr, want)

    def subscript(self, expr: Expression, bounds: ValueRanges) -> str:
        """The exact value of the subscript *expr*, in 64 bits if it is computed, whatever the text's indices are."""
        wide = as_index(expr, lambda part: type_of(part, lambda name: as_size(self._type_of(name))), INT64)
        # C itself converts a single value where it is passed or stored
        single = wide.child if isinstance(wide, TypeCast) else wide
        is_single = isinstance(single, p.Variable | p.Subscript)
        return self._printer(bounds, sizes=True).text(single if is_single else wide, None if is_single else INT64)

    def _printer(self, bounds: ValueRanges, *, places: bool = False, sizes: bool = False) -> CText:
        """:arg places: print elements as places in memory, without loading them."""
        def element(name: str, indices: tuple[Expression, ...]) -> str:
            indices = tuple(as_index(i, lambda part: type_of(part, size), self.index_dtype) for i in indices)
            text = self.addresses.text(name, indices, lambda e: self.text(e, bounds, self.index_dtype))
            if places:
                return text
            loader = self.addresses.loaders.get(name, "")
            if not loader and _takes_cache_policy(resolve(self._type_of(name))):
                loader = self.policy(name, load=True)
            return f"{loader}(&{text})" if loader else text

        def size(name: str) -> Type:
            return as_size(self._type_of(name))
        return CText(self.dialect, self._type_of, element, bounds.nonnegative, self.axes, sizes, self.bounds)

    @cached_property
    def bounds(self) -> frozenset[str]:
        """The temporaries that bound loops."""
        return frozenset(x for s in self.kernel.statements for x in data_params(self.kernel, s.domain))

    def _type_of(self, name: str) -> Type:
        """The type of a name; names outside the kernel are the text's own indices."""
        return self.types.get(name) or weak(self.index_dtype)


def _takes_cache_policy(dtype: np.dtype) -> bool:
    """Is an element of *dtype* a number of C itself? Only such numbers and their vectors have cache policies."""
    return dtype.kind in "iuf" and not is_narrow(dtype)


def outer_bounds(launch: Launch) -> ValueRanges:
    """The value ranges of hardware axes, which count from 0, and of sizes."""
    return ValueRanges({**dict.fromkeys((*GRID, *BLOCK), 0), **launch.least_sizes})


#: The places at which a line may be broken, the best first.
_OPERATORS = re.compile(r"(?: (?:&&|\|\|)|,)(?= )|( [-+?:])(?= )|( [+*]?=)(?= )|(?<=[\])])(\*)")


def wrapped(lines: Sequence[str], width: int = 110) -> Iterator[str]:
    """*lines*, the long ones broken after an operator or a comma and continued with a deeper indent.

    The continuation of a subscript has a still deeper indent.
    """
    for line in lines:
        indent, brackets = len(line) - len(line.lstrip()), 0
        while len(line) > width and not line.lstrip().startswith(("//", "#")):
            at = _break(line, indent + 9, width - 1, brackets)
            if at is None:
                break
            yield line[:at]
            brackets += line.count("[", 0, at) - line.count("]", 0, at)
            line = " "*(indent + 8 + 4*(brackets > 0)) + line[at:].lstrip()
        yield line


def _break(line: str, low: int, high: int, brackets: int) -> int | None:
    """The place to break a line: after the operator or comma with the least nesting, else after ``=``.

    A break in a subscript, or after the ``*`` of a product of elements, is the last resort.

    :arg brackets: the number of brackets around the start of the line.
    """
    places: list[tuple[bool, int, int, int]] = []
    for found in _OPERATORS.finditer(line.split("  //")[0]):
        at, kind = found.end(), found.lastindex or 0
        if at >= high:
            break
        depth = line.count("[", 0, at + 1) - line.count("]", 0, at + 1)
        inside = brackets + depth > 0
        # the continuation of a subscript is indented by four more columns
        if at >= low + 4*inside and not (inside and (kind == 3 or found[0] in (" -", " ?", " :"))):
            depth += line.count("(", 0, at + 1) - line.count(")", 0, at + 1)
            places.append((inside or kind == 3, depth, kind, -at))
    return -min(places)[3] if places else None
