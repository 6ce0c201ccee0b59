"""The one emitter of C-family text: statements and loops; what differs between targets is in the dialect."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Node, Region, Sync
from loopkit.ast.signs import Signs
from loopkit.expr.dtypes import Type, as_size, resolve, type_of, weak
from loopkit.expr.indices import as_index
from loopkit.expr.kinds import is_half
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.asynchronous_copy import is_asynchronous_copy
from loopkit.instructions.block_flag import flag_of
from loopkit.instructions.mma import Mma, nest_of, sums_of
from loopkit.instructions.vector_access import Vector, assignment_of, for_all, vectors_of
from loopkit.kernel.data import CachePolicy
from loopkit.lowering.binding import BLOCK, GRID, Launch
from loopkit.lowering.pipeline import Lowered
from loopkit.target.addresses import Addresses, Nested
from loopkit.target.atomics import Update, Updates
from loopkit.target.c.dialect import Dialect
from loopkit.target.c.expressions import CText
from loopkit.target.copies import moved_vectors, one_copy, vector_copies
from loopkit.target.matrix_products import product_calls
from loopkit.target.vectors import in_registers, lane_by_lane, loaded_by_lanes, moves, registers


@dataclass(frozen=True)
class Emitter:
    """Prints the body of one function.

    :ivar region: what a target wraps around the lines of a region.
    :ivar shuffle: lines that come before a region which reads another lane, the region with a variable for what it
        reads, and how that is spelled; ``None`` where the language has arrays in lanes in memory.
    :ivar sync: the lines of a barrier.
    :ivar atomic: the lines of an atomic update.
    :ivar axes: the text of each hardware axis that is a built-in (``threadIdx.x`` for ``l.0``).
    :ivar types: of the kernel's names.
    :ivar vectors: move what loops say in vector accesses.
    :ivar awaits: the arrays from which loads wait for other blocks.
    """

    lowered: Lowered
    function: Function
    dialect: Dialect
    addresses: Addresses
    index_dtype: np.dtype
    axes: Mapping[str, str]
    region: Callable[[Region, list[str]], list[str]]
    sync: Callable[[Sync], list[str]]
    types: Mapping[str, Type]
    used: set[str] = field(default_factory=set)
    vectors: bool = False
    shuffle: Callable[[Region], tuple[list[str], Region, Mapping[str, str]]] | None = None
    atomic: Updates | None = None
    awaits: frozenset[str] = frozenset()

    # {{{ statements

    def lines(self, block: Block, signs: Signs) -> Iterator[str]:
        """The lines of *block*, not indented."""
        last = None
        for node in block.children:
            yield from self._node(node, signs, last)
            if isinstance(node, Define):
                signs = signs.defining(node.name, node.value)
            last = node

    def _node(self, node: Node, signs: Signs, last: Node | None) -> Iterator[str]:
        match node:
            case Assign():
                yield from self._assign(node, signs, last)
            case For(instruction=Mma() as product) if self.dialect.matrix_products:
                yield from self._by_warps(node, product, signs)
            case For():
                moved = self.vectors and vectors_of(node)
                yield from self._in_vectors(node, signs) if moved else self.loop(node, signs)
            case If():
                yield from self._if(node, signs)
            case Define():
                yield f"const {self.index} {node.name} = {self.text(node.value, signs)};"
            case Sync():
                yield from self.sync(node)
            case Region():
                yield from self._region(node, signs)
            case Block():
                yield "{"
                yield from indented(self.lines(node, signs))
                yield "}"
            case Call():
                raise AssertionError(node)              # the host's: see host_text

    def _region(self, node: Region, signs: Signs) -> Iterator[str]:
        emitter = self
        if node.instruction is not None and self.shuffle is not None:
            before, node, spelled = self.shuffle(node)
            yield from before
            emitter = replace(self, addresses=self.addresses.spelling(spelled))
        yield from self.region(node, list(emitter.lines(node.body, signs)))

    def _if(self, node: If, signs: Signs) -> Iterator[str]:
        comment = f"  // {node.comment}" if node.comment else ""
        yield f"if ({self.condition(node.condition, signs)}) {{{comment}"
        yield from indented(self.lines(node.then, signs.where(node.condition)))
        yield from or_else([] if node.otherwise is None else list(self.lines(node.otherwise, signs)))

    def loop(self, node: For, signs: Signs) -> Iterator[str]:
        """The lines of a loop as it stands."""
        if node.unroll:
            yield from self.dialect.unroll
        step = f"++{node.iname}" if node.step == 1 else f"{node.iname} += {node.step}"
        stop = self.text(node.stop, signs)
        if isinstance(node.stop, p.If):
            stop = f"({stop})"                 # "?:" binds weaker than "<"
        yield (f"for ({self.index} {node.iname} = {self.text(node.start, signs)}; "
               f"{node.iname} < {stop}; {step}) {{")
        yield from indented(self.lines(node.body, signs.from_start(node.iname, node.start)))
        yield "}"

    def _in_vectors(self, node: For, signs: Signs) -> Iterator[str]:
        """A loop with the vector loads before and the vector stores behind it."""
        inside = signs.from_start(node.iname, node.start)
        if self.dialect.copies and (copied := moved_vectors(node)) is not None:
            yield from self._copied(node, copied, signs, inside)
            return
        dtypes = {v.name: self.dtype_of(v.element) for v in vectors_of(node)}
        for v in vectors_of(node):
            yield registers(v, node, dtypes[v.name], self.dialect.type_name(dtypes[v.name]))

        def moved(v: Vector, *, load: bool) -> Iterator[str]:
            first, each = self._place(v.at(node.iname, node.start), signs), self._place(v.element, inside)
            return moves(v, node, dtypes[v.name], first, each, self.index, load=load,
                         streaming=self._streaming(v.element), loader=self._evict_last(v.array))
        own = replace(self.addresses, arrays={**self.addresses.arrays, **{x: Nested() for x in dtypes}})
        emitter = replace(self, addresses=own, types={**self.types, **dtypes})
        for v in vectors_of(node):
            if v.loaded and v.inside is None:
                yield from moved(v, load=True)
            elif v.loaded and v.inside is not None:
                yield f"if ({self.condition(v.inside, signs)}) {{"
                yield from indented(moved(v, load=True))
                yield from or_else(list(emitter.loop(loaded_by_lanes(node, v), signs)))
        yield from emitter.loop(in_registers(node), signs)
        _, condition = assignment_of(node)
        for v in vectors_of(node):
            if v.stored and condition is None:
                yield from moved(v, load=False)
            elif v.stored and condition is not None:
                yield f"if ({self.condition(for_all(condition, node), signs)}) {{"
                yield from indented(moved(v, load=False))
                yield "}"
                if self.lowered.kernel.options.annotate:
                    yield "// else those lanes that are in, by predicates: a branch would hold up what follows"
                yield from emitter.loop(lane_by_lane(node, v), signs)

    def _by_warps(self, node: For, product: Mma, signs: Signs) -> Iterator[str]:
        """A product of matrices that the lanes of each warp compute together."""
        _, assign = nest_of(node)
        assert assign is not None
        if self.lowered.kernel.options.annotate:
            yield f"// {assign.statement}"
        dtype = self.dtype_of(assign.target)
        sums, left, right = ([self.value(e, signs, dtype) for e in part]
                             for part in (sums_of(node, product), product.left, product.right))
        yield from product_calls(sums, left, right, self.used)

    def _copied(self, node: For, vectors: tuple[Vector, Vector], signs: Signs, inside: Signs) -> Iterator[str]:
        """A loop of asynchronous copies, vector by vector."""
        (assign,) = node.body.children
        assert isinstance(assign, Assign)
        if self.lowered.kernel.options.annotate:
            yield f"// {assign.statement}"
        self.used.add("copy_async")
        source, target = vectors
        first, each = ((self.text(ends[0], known), self.text(ends[1], known)) for ends, known in (
            ((source.at(node.iname, node.start), target.at(node.iname, node.start)), signs),
            ((source.element, target.element), inside)))
        yield from vector_copies(node, vectors, first, each, self.index, self.dtype_of(target.element))

    def _assign(self, node: Assign, signs: Signs, last: Node | None) -> Iterator[str]:
        if self.lowered.kernel.options.annotate and not (isinstance(last, Assign) and last.statement == node.statement):
            yield f"// {node.statement}"
        flag = flag_of(node)
        waiting = replace(self, awaits=frozenset(flag.loads)) if flag.loads else self
        yield from waiting.assignment(node, signs)

    def assignment(self, node: Assign, signs: Signs) -> Iterator[str]:
        """The lines of *node*, whose loads from the arrays *awaits* wait."""
        dtype = self.dtype_of(node.target)
        target = self.value(node.target, signs, dtype)
        if is_asynchronous_copy(node) and self.dialect.copies:
            self.used.add("copy_async")
            yield one_copy(target, self.value(node.value, signs, dtype), dtype.itemsize)
            return
        if flag_of(node).stores and self.dialect.handing:
            self.used.add("publish")
            place = self._printer(signs, places=True).text(node.target, dtype)
            yield f"publish(&{place}, {self.value(node.value, signs, dtype)});"
            return
        if node.combine is None:
            value = self.value(node.value, signs, dtype)
            if self._streaming(node.target) and _is_number(dtype):
                yield f"{self.dialect.streaming_store}(&{target}, {value});"
            else:
                yield f"{target} = {value};"
            return
        operation = REDUCTIONS[node.combine]
        if operation.combine in ("+", "*") and self._has_operators(dtype):
            plain = f"{target} {operation.combine}= {self.value(node.value, signs, dtype)};"
        else:
            plain = f"{target} = {self.value(operation.apply(node.target, node.value), signs, dtype)};"
        if any(i.commutes for i in node.instructions) and self.atomic is not None:
            yield from self.atomic(node, Update(target, self.value(node.value, signs, dtype), plain, dtype))
        else:
            yield plain

    def _streaming(self, target: p.Variable | p.Subscript) -> bool:
        """Is *target* stored by an instruction after which caches evict it first?"""
        array = target.aggregate if isinstance(target, p.Subscript) else target
        assert isinstance(array, p.Variable)
        return bool(self.dialect.streaming_store) and self._has_policy(array.name, CachePolicy.STREAMING)

    def _evict_last(self, name: str) -> str:
        """The function that loads from the array *name* what caches evict last; ``""`` for a load as it is."""
        loader, written = self.dialect.evict_last_load, self.lowered.kernel.written_names
        if not loader or name in written or not self._has_policy(name, CachePolicy.EVICT_LAST):
            return ""
        self.used.add(loader)
        return loader

    def _has_policy(self, name: str, policy: CachePolicy) -> bool:
        argument = self.lowered.kernel.array_args.get(name)
        return argument is not None and argument.cache_policy is policy

    def _has_operators(self, dtype: np.dtype) -> bool:
        """Has the language ``+=`` and ``*=`` of *dtype*?"""
        return dtype.kind != "c" and (self.dialect.half_operators or not is_half(dtype))

    # }}}

    # {{{ expressions

    @property
    def index(self) -> str:
        return self.dialect.type_name(self.index_dtype)

    def text(self, expr: Expression, signs: Signs, want: np.dtype | None = None) -> str:
        """*expr*, of inames and sizes, as text, converted to *want*."""
        if want is None and isinstance(expr, p.ExpressionNode) and not isinstance(expr, p.Variable):
            want = self._wide                   # blockIdx.x - 3 is of 32 bits, and no negative number in 64
        return replace(self._printer(signs), sizes=True).text(expr, want)

    def _place(self, element: p.Subscript, signs: Signs) -> str:
        """Where *element* is: not what is loaded from there."""
        return replace(self._printer(signs, places=True), sizes=True).text(element)

    def value(self, expr: Expression, signs: Signs, dtype: np.dtype) -> str:
        """*expr* as text of a value of *dtype*."""
        return self._printer(signs).text(expr, dtype)

    def condition(self, expr: Expression, signs: Signs) -> str:
        return self._printer(signs).condition(expr)

    def _printer(self, signs: Signs, *, places: bool = False) -> CText:
        """:arg places: elements are places in memory, not what is loaded from there."""
        def element(name: str, indices: tuple[Expression, ...]) -> str:
            indices = tuple(as_index(i, self._typed, self.index_dtype) for i in indices)
            text = self.addresses.text(name, indices, lambda e: self.text(e, signs, self.index_dtype))
            if not places and name in self.awaits and self.dialect.handing:
                self.used.add("wait_for")
                return f"wait_for(&{text})"
            loader = "" if places or not _is_number(resolve(self._type_of(name))) else self._evict_last(name)
            return f"{loader}(&{text})" if loader else text
        return CText(self.dialect, self._type_of, element, signs.nonnegative, self.used, self.axes, bounds=self.bounds)

    @cached_property
    def bounds(self) -> frozenset[str]:
        """The temporaries that bound loops."""
        knl = self.lowered.kernel
        return frozenset(x for s in knl.statements for x in data_params(knl, s.domain))

    def _type_of(self, name: str) -> Type:
        """The type of a name; those that the kernel does not know are the text's own indices."""
        return self.types.get(name) or weak(self.index_dtype)

    @cached_property
    def _wide(self) -> np.dtype | None:
        """The type of indices, if it is wider than what the hardware counts in."""
        return self.index_dtype if self.index_dtype.itemsize > 4 else None

    def _typed(self, subscript: Expression) -> Type | None:
        """The type of a part of a subscript, in which sizes are sizes."""
        return type_of(subscript, lambda name: as_size(self._type_of(name)))

    def dtype_of(self, target: p.Variable | p.Subscript) -> np.dtype:
        variable = target.aggregate if isinstance(target, p.Subscript) else target
        assert isinstance(variable, p.Variable)
        return resolve(self._type_of(variable.name))

    # }}}


def _is_number(dtype: np.dtype) -> bool:
    """Has CUDA functions that load and store one of *dtype*?"""
    return dtype.kind in "iuf" and not is_half(dtype)


def outer_signs(launch: Launch) -> Signs:
    """Hardware axes count from 0, the host's loops from where they are known to."""
    return Signs({**dict.fromkeys((*GRID, *BLOCK), 0), **launch.host_lows})


def wrapped(lines: Sequence[str], width: int = 110) -> Iterator[str]:
    """*lines*, the long ones broken after an operator or a comma and continued with a deeper indent.

    What goes on in a subscript stands deeper still.
    """
    for line in lines:
        indent = len(line) - len(line.lstrip())
        nesting = _Nesting()
        while len(line) > width and not line.lstrip().startswith(("//", "#")):
            at = _break(line, indent + 9, width - 1, nesting)
            if at is None:
                break
            yield line[:at]
            for c in line[:at]:
                nesting = nesting.after(c)
            line = " "*(indent + 8 + 4*(nesting.brackets > 0)) + line[at:].lstrip()
        yield line


@dataclass(frozen=True)
class _Nesting:
    """How deep a place of a line is: in parentheses and brackets, and in brackets alone."""

    depth: int = 0
    brackets: int = 0

    def after(self, c: str) -> _Nesting:
        if c not in "()[]":
            return self
        return _Nesting(self.depth + (c in "([") - (c in ")]"), self.brackets + (c == "[") - (c == "]"))


def _break(line: str, low: int, high: int, nesting: _Nesting) -> int | None:
    """Where to break a line: after the operator or comma that is least deep, else after ``=``.

    In a subscript, and behind the ``*`` of a product of elements, only where there is no other place.
    """
    best: tuple[bool, int, int, int] | None = None
    code = line.split("  //")[0]
    for i, c in enumerate(code[:high]):
        nesting = nesting.after(c)
        inside = nesting.brackets > 0
        # what goes on in a subscript stands four columns deeper
        if i < low + 4*inside:
            continue
        if code.startswith((" && ", " || "), i - 3) or code.startswith(", ", i - 1):
            kind = 0
        elif code.startswith(" + ", i - 2) or (not inside and code.startswith((" - ", " ? ", " : "), i - 2)):
            kind = 1
        elif code.startswith(" = ", i - 2) or code.startswith((" += ", " *= "), i - 3):
            kind = 2
        elif not inside and code.startswith(("]*", ")*"), i - 2):
            inside, kind = True, 3
        else:
            continue
        found = (inside, nesting.depth, kind, -i)
        best = found if best is None or found < best else best
    return None if best is None else -best[3]


def or_else(lines: Sequence[str]) -> Iterator[str]:
    """The end of an ``if`` with the *lines* of its other branch: none, or within braces, which one ``if`` does without.
    """
    own = [line for line in lines if line and not line.startswith(" ")]
    if own and own[0].startswith("if (") and own[-1] == "}" \
            and all(line.startswith("} else ") for line in own[1:-1]):
        yield f"}} else {lines[0]}"
        yield from lines[1:]
        return
    if own:
        yield "} else {"
        yield from indented(lines)
    yield "}"


def indented(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    """*lines* one level deeper; directives of the preprocessor stay at the margin."""
    for line in lines:
        yield f"    {line}" if line else line

