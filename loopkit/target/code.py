"""Generated code, a text and the launches that the runtime executes; and the targets that have a text."""
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.ast.assumed import AlignedArray, Assumed, DivisibleSize
from loopkit.ast.nodes import Block, Function, own_instructions
from loopkit.ast.tensor_maps import UNIT, MappedArray, TensorMap
from loopkit.ast.value_ranges import largest_magnitude
from loopkit.ast.walk import nodes_in
from loopkit.errors import NameConflictError, PreconditionError
from loopkit.expr.functions import ScalarFunction, functions_in
from loopkit.expr.mappers import conjunction
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import ElementText
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import of_host
from loopkit.kernel.target import Target, resolve_target
from loopkit.lowering.c_instructions import with_user_code
from loopkit.lowering.lowered import Lowered
from loopkit.poly.limits import kept_in_memo
from loopkit.shown import Shown


@dataclass(frozen=True)
class Parameter:
    """One parameter of a generated function. Its class is its meaning."""

    name: str
    dtype: np.dtype


class Value(Parameter):
    """A scalar of the call."""


class HostIname(Parameter):
    """The iname of a loop that the host runs, with a launch in each iteration."""


@dataclass(frozen=True)
class Stride(Parameter):
    """The stride along one axis of an array argument, in elements."""

    array: str
    axis: int


@dataclass(frozen=True)
class Extent(Parameter):
    """The extent of one axis of an array argument."""

    array: str
    axis: int


@dataclass(frozen=True)
class Pointer(Parameter):
    """A pointer to the first element of an array argument, whose elements have the dtype.

    :ivar read: ordinary loads read it; loads of values that another block wrote do not count.
    """

    written: bool = False
    read: bool = False


@dataclass(frozen=True)
class ScratchPointer(Pointer):
    """A pointer to a temporary in global memory, allocated for each call.

    :ivar shape: the extents in the kernel's parameters.
    :ivar element: the form of its elements in memory; ``None``: that of *dtype*.
    :ivar cleared: it is zeroed before a call.
    """

    shape: tuple[Expression, ...] = ()
    element: ElementText | None = None
    cleared: bool = False

    @property
    def element_bytes(self) -> int:
        return self.dtype.itemsize if self.element is None else self.element.size(self.dtype.itemsize)


class ViolationPointer(Pointer):
    """A pointer to the numbers that describe the first access outside of its array, all 0 before a launch.

    The first number is 1 plus the number of the block, the second the number of the access among
    :attr:`GeneratedKernel.checks`. Its subscripts and the values of the inames of its instance follow.
    """


@dataclass(frozen=True)
class ReferencePointer(Parameter):
    """A pointer to the Python reference of *function*, for *arguments* of these dtypes; its value has the dtype."""

    function: ScalarFunction
    arguments: tuple[np.dtype, ...]


@dataclass(frozen=True)
class MapParameter(Parameter):
    """A tensor map, passed by value; the dtype is that of the elements of its array.

    :ivar made_of: the parameters of the host's function that it is made of: the pointer to the array, and strides.
    """

    tensor_map: TensorMap
    made_of: tuple[Parameter, ...] = ()


def host_side(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    """*parameters* of a function of the device with those that tensor maps are made of in the place of the maps."""
    return tuple(own for x in parameters for own in (x.made_of if isinstance(x, MapParameter) else (x,)))


@dataclass(frozen=True)
class CheckedAccess:
    """An access whose subscripts a function compares with the extents of the array.

    :ivar how: its verb.
    :ivar text: the element as the function writes it.
    :ivar unsigned: for each subscript: is it read from a uint64? *inames*: those of the instance whose values are known
        at its place.
    :ivar shape: the shape of a temporary; ``None``: an argument, whose shape the call has.
    """

    statement: str
    array: str
    how: str
    text: str
    unsigned: tuple[bool, ...]
    inames: tuple[str, ...]
    shape: tuple[Expression, ...] | None

    @property
    def numbers(self) -> int:
        """The numbers of :class:`ViolationPointer` that describe it."""
        return 2 + len(self.unsigned) + len(self.inames)


@dataclass(frozen=True, repr=False)
class GeneratedKernel(Shown):
    """One generated function and its launch.

    :ivar grid: blocks along x, y, z, in the kernel's parameters and the host's inames; ``(1, 1, 1)`` unmapped. The
        condition of a conditional extent holds for the whole grid: otherwise it has no blocks.
    :ivar block: threads along x, y, z; numbers, or expressions like those of *grid*.
    :ivar shared_bytes: shared memory of a block, in bytes, including *dynamic_shared_bytes*: the part that the launch
        must request, and that must be allowed for the function.
    :ivar checks: the accesses that it checks, of a text with bounds checks.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: tuple[Expression, Expression, Expression] = (1, 1, 1)
    block: tuple[Expression, Expression, Expression] = (1, 1, 1)
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    checks: tuple[CheckedAccess, ...] = ()

    def __str__(self) -> str:
        names = ", ".join(x.name for x in self.parameters)
        grid, block = (", ".join(map(to_text, extents)) for extents in (self.grid, self.block))
        return (f"{self.name}({names}): grid ({grid}), block ({block}), "
                f"{self.shared_bytes} bytes of shared memory a block")

    @property
    def ticketed(self) -> bool:
        """Do its blocks take tickets in start order, from a counter of started blocks?"""
        return any(isinstance(x, ScratchPointer) and x.cleared and x.element is None for x in self.parameters)


def split_condition(extents: Iterable[Expression]) -> tuple[Expression | None, list[Expression]]:
    """The condition under which a grid has blocks, or ``None``, and its extents under this condition."""
    own = [(e.condition, e.then) if isinstance(e, p.If) and e.else_ == 0 else (None, e) for e in extents]
    conditions = [condition for condition, _ in own if condition is not None]
    return conjunction(tuple(conditions)) if conditions else None, [extent for _, extent in own]


@dataclass(frozen=True)
class Layout:
    """The memory layout of the arrays for which a text is made.

    :ivar index_bits: 32, or 64 if an array has 2^31 elements or more.
    :ivar strided: arrays whose strides are parameters of the function; the others are in C order with
        exactly their inferred or declared shape.
    :ivar as_declared: those of them whose strides are the ones that their arguments declare, not parameters.
    :ivar vectors: :attr:`GeneratedCode.assumed` holds, so vector accesses and tensor maps are allowed; not in C.
    """

    index_bits: int = 32
    strided: frozenset[str] = frozenset()
    vectors: bool = True
    as_declared: frozenset[str] = frozenset()

    def declared_strides(self, argument: GlobalArg) -> tuple[Expression | None, ...]:
        """The strides of *argument* that are as declared, ``None`` for those that a call chooses; ``()``: none is."""
        return (argument.strides or ()) if argument.name in self.as_declared else ()

    @property
    def index(self) -> np.dtype:
        """The dtype of indices."""
        return np.dtype(f"int{self.index_bits}")

    @classmethod
    def declared(cls, kernel: LoopKernel, **others: Any) -> Layout:
        """The layout that the arguments of *kernel* declare, C order for those that declare none."""
        arrays = kernel.array_args.values()
        as_declared = frozenset(a.name for a in arrays if a.strides is not None)
        return cls(strided=as_declared.union(a.name for a in arrays if a.order not in (None, "C")),
                   as_declared=as_declared, **others)


@dataclass(frozen=True, repr=False)
class GeneratedCode(Shown):
    """Generated source; ``str()`` is the text.

    :ivar target: the name of the target, such as ``"cuda"``.
    :ivar source: the whole translation unit.
    :ivar kernels: the functions, each with its launch.
    :ivar order: the host's loops around calls, if it does more than calling each function once.
    :ivar host: for ``"cuda"`` the launch sequence as C++ for readers, a function on device pointers that follows
        *source* in one file; ``""`` for others.
    :ivar assumed: the assumptions of its vector accesses and of its tensor maps about a call. The text of
        ``Layout(vectors=False)`` has no vector accesses, and only those tensor maps that its instructions need.
    :ivar kernel: the lowered kernel; the comments in *source* name its statements.
    """

    target: str
    source: str
    kernels: tuple[GeneratedKernel, ...]
    host: str = ""
    layout: Layout = field(default_factory=Layout)
    order: Block | None = None
    assumed: tuple[Assumed, ...] = ()
    kernel: LoopKernel | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.source

    def write(self, path: str | PathLike[str]) -> None:
        """Write :attr:`source`, and :attr:`host` behind it, to the file *path*, in one step.

        :raises OSError: the file cannot be written; a file that was there stays as it was.
        """
        place = Path(path)
        new = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            new.write_text("\n".join(filter(None, (self.source, self.host))), encoding="utf-8")
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)

    @property
    def headline(self) -> str:
        return f"for {self.target}: {', '.join(f'{k.name}()' for k in self.kernels)}"


def assumed_by(functions: Iterable[Function]) -> tuple[Assumed, ...]:
    """The assumptions of the instructions of *functions*: for each array the strongest, for each size once."""
    found = dict.fromkeys(a for f in functions for node in nodes_in(f.body) for i in own_instructions(node)
                          for a in i.assumed)
    most: dict[AlignedArray, AlignedArray] = {}
    for a in found:
        if isinstance(a, AlignedArray):
            rows = replace(a, elements=1)
            most[rows] = max(most.get(rows, a), a, key=lambda x: x.elements)
    return (*most.values(), *(a for a in found if isinstance(a, DivisibleSize)))


def assumption_lines(assumed: tuple[Assumed, ...], sizes: Mapping[str, int], plain: Collection[Assumed] = ()
                     ) -> Iterator[str]:
    """Their text for readers.

    :arg sizes: the bytes of an element of each array argument.
    :arg plain: the assumptions of the text for other calls.
    """
    by_bytes: dict[tuple[int, str], list[str]] = {}
    for a in assumed:
        if isinstance(a, AlignedArray):
            rows = "rows without gaps" if a.strides else "row by row"
            by_bytes.setdefault((a.elements * sizes[a.array], rows), []).append(a.array)
    parts = [f"{', '.join(names)} at multiples of {count} bytes, {rows}" for (count, rows), names in by_bytes.items()]
    parts += [f"{to_text(a.size)} is a multiple of {a.divisor}" for a in assumed if isinstance(a, DivisibleSize)]
    texts = [f"vector accesses: {'; '.join(parts)}; other calls run a text without them"] if parts else []
    # the strides of temporaries are multiples by construction
    if mapped := [a.array for a in assumed if isinstance(a, MappedArray) and a.array in sizes]:
        others = "are refused" if any(isinstance(a, MappedArray) for a in plain) else "run a text without them"
        texts.append(f"tensor maps: {', '.join(mapped)} at multiples of {UNIT} bytes, row by row; other calls {others}")
    for text in texts:
        yield from wrap(text, 107, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


# Targets with a text

#: Index widening: the least number that needs 64-bit indices.
_LIMIT_32 = 2**31


class TextTarget(Target, ABC):
    """A target with an emitter.

    :cvar reserved: names that its texts use themselves, besides those that no kernel can have
        (:mod:`loopkit.language.names`).
    :cvar for_host: its texts run on the host, so that kernels may have the tags ``cpu.threads`` and ``cpu.simd``.
    """

    for_host: ClassVar[bool] = False

    reserved: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        """The source text of a lowered kernel, for arrays of *layout*.

        :arg head: lines for comments at the top, if the language's texts have such comments.
        :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
        """

    def function_name(self, launch: str) -> str:
        """The name of the function of *launch* in its texts."""
        return launch

    def with_bounds_checks(self) -> TextTarget:
        """This target with texts that check the accesses that are not proven to be inside of their arrays.

        :raises PreconditionError: its texts have no such checks.
        """
        raise PreconditionError(
            f"The target '{self.name}' has no bounds checks.", subject=self.name,
            hint="compile(knl, target='c', check_bounds=True) checks on the host; on a GPU, NVIDIA's compute-sanitizer "
                 "finds accesses outside of arrays")


def require_fields(target: Any, name: str, is_right: bool, hint: str) -> None:
    """Check the flags and the options of *target*, and the field *name*, which *is_right* or gets the *hint*.

    :raises PreconditionError: a field has an illegal value.
    """
    flags = [f.name for f in fields(target) if isinstance(f.default, bool)]
    is_options = isinstance(target.options, tuple) and all(isinstance(option, str) for option in target.options)
    for x, right, way_out in (
            (name, is_right, hint), *((x, isinstance(getattr(target, x), bool), "give True or False") for x in flags),
            ("options", is_options, "give a tuple of strings, one an option: options=('-g',)")):
        if not right:
            raise PreconditionError(f"'{x}' of a {type(target).__name__} cannot be {getattr(target, x)!r}.", subject=x,
                                    hint=way_out)


def resolve_text_target(target: object) -> TextTarget:
    """Like :func:`loopkit.kernel.target.resolve_target`; :raises PreconditionError: the target has no text."""
    found = resolve_target(target)
    if not isinstance(found, TextTarget):
        raise PreconditionError(f"The target '{found.name}' has no text.", subject=found.name,
                                hint="a target with a text is a TextTarget")
    return found


@kept_in_memo
def called_functions(kernel: LoopKernel) -> Mapping[str, ScalarFunction]:
    """The scalar functions that statements of *kernel* call, by name."""
    return {f.name: f for s in kernel.statements for e in (s.assignee, s.expression, *s.predicates)
            for f in functions_in(expand_rules(e, kernel.substitutions))}


def write_code(lowered: Lowered, target: TextTarget, layout: Layout, head: Sequence[str] = ()) -> GeneratedCode:
    """The source text of a lowered kernel; with 64-bit indices if 32 bits cannot be right.

    :raises PreconditionError: stages of lowering are missing.
    :raises PreconditionError: an iname has a tag for the host, and the target has another device.
    :raises NameConflictError: a name of the kernel is reserved in the target's texts.
    """
    lowered.require_finished()
    for iname, tag in lowered.kernel.tags.items():
        if not target.for_host and (nearest := of_host(tag)) is not None:
            raise PreconditionError(
                f"'{iname}' has the tag '{tag}', which is for the host, and the target '{target.name}' is not.",
                subject=iname, hint=f"tag_inames(knl, '{iname}:{nearest}', force=True), or target='c'")
    if taken := sorted(target.reserved & {target.function_name(lowered.kernel.name), *lowered.kernel.all_names}):
        raise NameConflictError(f"'{taken[0]}' is a reserved word of the target '{target.name}'.", subject=taken[0],
                                hint="give it another name")
    data = {*lowered.kernel.argument_by_name, *lowered.kernel.temporaries}
    if taken := sorted(called_functions(lowered.kernel).keys() & data):
        raise NameConflictError(f"'{taken[0]}' is an array or a number, and also a function that kernel "
                                f"'{lowered.kernel.name}' calls.", subject=taken[0], hint="give it another name")
    lowered = with_user_code(lowered)
    if largest_magnitude(lowered.program, dict.fromkeys(lowered.kernel.value_params, 1)) >= _LIMIT_32:
        layout = replace(layout, index_bits=64)
    return replace(target.emit(lowered, layout, head), kernel=lowered.kernel)
