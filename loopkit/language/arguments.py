"""Arguments and temporaries of a kernel: as declared, the others as the text uses them."""
from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import NameConflictError, PreconditionError, UnknownNameError
from loopkit.expr.kinds import DTYPES, dtype_of, named_dtype
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import BARE, RULE, NameUse, parse_expression
from loopkit.expr.tokens import Source
from loopkit.kernel.annotations import fits, require_kinds
from loopkit.kernel.data import (
    ADDRESS_SPACES,
    AddressSpace,
    Argument,
    GlobalArg,
    TemporaryVariable,
    ValueArg,
    address_space,
)
from loopkit.language import names
from loopkit.language.names import name_list, require_free
from loopkit.language.program import Assignment, ForBlock, IfBlock, Node, ParsedProgram

Datum = GlobalArg | ValueArg | TemporaryVariable | str


@dataclass(frozen=True)
class Declared:
    """The declarations of ``kernel_data``.

    :ivar items: declarations and bare names, in order.
    :ivar rest_at: the position in *items* of the arguments that only the text has; ``None``: there must be none.
    """

    items: tuple[Datum, ...]
    rest_at: int | None

    @property
    def by_name(self) -> dict[str, Datum]:
        return {_name(d): d for d in self.items}


@dataclass(frozen=True)
class Declarations:
    """The arguments in order, and the temporaries by name."""

    arguments: tuple[Argument, ...]
    temporaries: Mapping[str, TemporaryVariable]


def _name(datum: Datum) -> str:
    return datum if isinstance(datum, str) else datum.name


# {{{ declarations

def read_declarations(kernel_data: Iterable[object] | None, temporaries: Iterable[TemporaryVariable]) -> Declared:
    """kernel_data with dtypes and shapes in normal form.

    :raises PreconditionError: an item is none of the kinds allowed, or its dtype is.
    :raises NameConflictError: a name is reserved or declared twice.
    """
    given = ["..."] if kernel_data is None else list(name_list(kernel_data)) if isinstance(kernel_data, str) \
        else list(kernel_data)
    items: list[Datum] = []
    rest_at: int | None = None
    for datum in [*given, *temporaries]:
        if datum is ... or datum == "...":
            if rest_at is not None:
                raise PreconditionError("kernel_data says '...' twice.", subject="...")
            rest_at = len(items)
            continue
        if not isinstance(datum, GlobalArg | ValueArg | TemporaryVariable | str):
            raise PreconditionError(f"kernel_data holds {datum!r}.", subject=repr(datum), hint=(
                "its items are GlobalArg, ValueArg, TemporaryVariable, names, or '...' for those not listed"))
        if not isinstance(datum, str):
            require_kinds(type(datum), (datum.name,), {})
        for name in _name(datum).split(","):
            name = name.strip()
            require_free(name, {_name(d) for d in items}, "The argument")
            items.append(name if isinstance(datum, str) else _normal(replace(datum, name=name)))
    return Declared(tuple(items), rest_at)


def _normal(datum: GlobalArg | ValueArg | TemporaryVariable) -> Datum:
    datum = replace(datum, dtype=_dtype(datum.name, datum.dtype))
    if not isinstance(datum, ValueArg):
        datum = replace(datum, shape=_shape(datum.name, datum.shape))
    if isinstance(datum, TemporaryVariable):
        datum = replace(datum, address_space=_space(datum.name, datum.address_space),
                        fixed=bool(datum.shape) and datum.address_space is not None)
    require_kinds(type(datum), (), vars(datum))
    return datum


def _space(name: str, space: object) -> AddressSpace | None:
    found = None if space is None else address_space(space)
    if found is None and space is not None:
        raise PreconditionError(f"'{name}' has the address space {space!r}.", subject=name, hint=ADDRESS_SPACES)
    return found


def _dtype(name: str, dtype: object) -> np.dtype | None:
    result = dtype_of(dtype)
    if result is None and dtype is not None:
        raise PreconditionError(f"'{name}' has the dtype {dtype!r}.", subject=name,
                                hint=DTYPES)
    return result


def _shape(name: str, shape: object) -> tuple[Expression, ...] | None:
    if shape is None:
        return None
    what = f"the shape of '{name}'"
    if isinstance(shape, str):
        # as the arguments of a call, so that commas in parentheses stay where they are
        if not shape.strip():
            return ()
        axes = shape.strip().removesuffix(",")
        parsed = parse_expression(f"shape({axes})", rules={"shape": _arity(axes)}, what=what)
        assert isinstance(parsed, p.Call)
        return parsed.parameters
    listed = shape if isinstance(shape, tuple | list) else (shape,)
    for extent in listed:
        if not fits(extent, str | int | p.ExpressionNode) or (isinstance(extent, int) and extent < 0):
            raise PreconditionError(f"{what[:1].upper()}{what[1:]} has the extent {extent!r}.", subject=name,
                                    hint='an extent is an integer of at least 0 or an expression: shape=(4, "n + 1")')
    return tuple(parse_expression(a, what=what) if isinstance(a, str) else
                 int(a) if isinstance(a, int | np.integer) else a for a in listed)


def _arity(text: str) -> int:
    depth, arity = 0, 1
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        arity += char == "," and not depth
    return arity

# }}}


# {{{ mentions

def assignments(nodes: Iterable[Node]) -> Iterator[Assignment]:
    """Every assignment in *nodes*, in textual order."""
    for node in nodes:
        match node:
            case Assignment():
                yield node
            case ForBlock():
                yield from assignments(node.body)
            case IfBlock():
                yield from assignments((*node.then, *node.otherwise))


def _mentions(nodes: Iterable[Node]) -> Iterator[NameUse]:
    for node in nodes:
        match node:
            case Assignment():
                yield from node.uses
            case ForBlock():
                yield from _mentions(node.body)
            case IfBlock():
                yield from node.uses
                yield from _mentions((*node.then, *node.otherwise))


def _ranks(program: ParsedProgram, inames: Collection[str], local_inames: Collection[str]) -> dict[str, NameUse]:
    """The first mention of every array and scalar; :raises ParseError: another one contradicts it."""
    source = program.source
    first: dict[str, NameUse] = {}
    every = [*_mentions(program.body), *(u for r in program.rules for u in r.uses)]
    for use in every:
        name, rank = use.name, use.rank
        known = first.get(name)
        if known is not None:
            if known.rank != rank:
                raise source.error(use.start, f"'{name}' is used {_ranked(rank)} here and {_ranked(known.rank)} "
                                   f"in line {source.line_of(known.start)}.", f"'{name}' {_ranked(known.rank)}")
        elif rank == RULE:
            continue
        elif name in inames:
            if rank != BARE:
                raise source.error(use.start, f"The iname '{name}' is subscripted.", "an array")
        else:
            fault = names.fault(name)
            if fault is not None:
                raise source.error(use.start, f"'{name}' {fault}.", "another name")
            if name in local_inames:
                raise source.error(use.start, f"The iname '{name}' is used outside the reduction that declares it.",
                                   "another name")
            first[name] = use
    return first


def _ranked(rank: int) -> str:
    return "without subscripts" if rank == BARE else "with one subscript" if rank == 1 else f"with {rank} subscripts"

# }}}


def find_temporaries(program: ParsedProgram, declared: Declared) -> dict[str, TemporaryVariable]:
    """The temporaries, declared in kernel_data or by ``<>``.

    :raises NameConflictError: a name is declared as two different things.
    """
    found = {d.name: d for d in declared.items if isinstance(d, TemporaryVariable)}
    by_name = declared.by_name
    for node in assignments(program.body):
        if node.temporary is None:
            continue
        name = node.written
        dtype = named_dtype(node.temporary) if node.temporary else None
        known = found.get(name)
        if known is None:
            if isinstance(by_name.get(name), GlobalArg | ValueArg):
                raise program.source.error(node.start, f"'{name}' is an argument in kernel_data.", "a new name")
            shape = () if isinstance(node.assignee, p.Variable) else None
            found[name] = TemporaryVariable(name, dtype, shape)
        elif dtype is not None:
            if known.dtype is not None and known.dtype != dtype:
                raise program.source.error(node.start, f"The temporary '{name}' is declared as {known.dtype} before "
                                           f"and as {dtype} here.", f"<{known.dtype}>")
            found[name] = replace(known, dtype=dtype)
    return found


def resolve(program: ParsedProgram, declared: Declared, temporaries: Mapping[str, TemporaryVariable],
            inames: Collection[str], local_inames: Collection[str], params: Collection[str]) -> Declarations:
    """The kernel's arguments and temporaries.

    :arg local_inames: inames that a reduction declares for itself.
    :arg params: the parameters of the domains.
    :raises ParseError: the text contradicts itself or a declaration.
    """
    for rule in program.rules:
        require_free(rule.rule.name, {*inames, *temporaries, *declared.by_name, *params}, "The substitution rule",
                     called=True)
    for name in (*declared.by_name, *temporaries):
        if name in inames:
            raise NameConflictError(f"'{name}' is an iname and cannot be an argument or a temporary.", subject=name)
    ranks = _ranks(program, inames, local_inames)
    written = {node.written: node.start for node in reversed(list(assignments(program.body)))}
    sizes = sorted({*params, *_shape_params(declared)}.difference(temporaries))
    _check_written(program, declared, written, inames, sizes, ranks)
    arguments = _arguments(program, declared, temporaries, ranks, written, sizes)
    kept = {name: _checked_temporary(program.source, t, ranks.get(name), name in written, name in params)
            for name, t in temporaries.items()}
    return Declarations(arguments, kept)


def _shape_params(declared: Declared) -> set[str]:
    return {name for d in declared.items if isinstance(d, GlobalArg | TemporaryVariable)
            for axis in d.shape or () for name in variables(axis)}


def _check_written(program: ParsedProgram, declared: Declared, written: Mapping[str, int], inames: Collection[str],
                   sizes: Sequence[str], ranks: Mapping[str, NameUse]) -> None:
    by_name = declared.by_name
    for name in sizes:
        if name in ranks and ranks[name].rank != BARE:
            raise program.source.error(ranks[name].start, f"The size parameter '{name}' is subscripted.", "an array")
    for name, start in written.items():
        if name in inames:
            raise program.source.error(start, f"The iname '{name}' is written.", "an array or a temporary")
        if isinstance(by_name.get(name), ValueArg):
            raise program.source.error(start, f"The value argument '{name}' is written.", "an array or a temporary",
                                       hint=f"<> {name}_new = ... declares a temporary")
        if name in sizes:
            raise program.source.error(start, f"The size parameter '{name}' is written.", "an array or a temporary",
                                       hint=f"<int32> {name} = ... declares a temporary that may bound a loop")


def _arguments(program: ParsedProgram, declared: Declared, temporaries: Mapping[str, TemporaryVariable],
               ranks: Mapping[str, NameUse], written: Mapping[str, int], sizes: Sequence[str]) -> tuple[Argument, ...]:
    by_name = declared.by_name
    result: list[Argument] = []
    for datum in declared.items:
        match datum:
            case str():
                result.append(_derived(datum, ranks, written, sizes))
            case GlobalArg() | ValueArg():
                result.append(_checked_argument(program.source, datum, ranks.get(datum.name), datum.name in sizes))
            case TemporaryVariable():
                pass
    rest = [name for name in sorted({*ranks, *sizes}) if name not in by_name and name not in temporaries]
    if declared.rest_at is None:
        for name in rest:
            if name not in sizes:
                close = difflib.get_close_matches(name, [*by_name, *temporaries], n=2)
                where = f"the kernel (line {program.source.line_of(ranks[name].start)})"
                raise UnknownNameError("argument", name, close, where=where,
                                       hint=None if close else "end kernel_data with '...' to have it found")
    at = sum(1 for d in declared.items[:declared.rest_at] if not isinstance(d, TemporaryVariable))
    result[at:at] = [_derived(name, ranks, written, sizes) for name in rest]
    return tuple(result)


def _derived(name: str, ranks: Mapping[str, NameUse], written: Mapping[str, int], sizes: Sequence[str]) -> Argument:
    """The argument *name* with the properties that follow from the text."""
    if name in ranks and name not in sizes:
        if ranks[name].rank != BARE:
            return GlobalArg(name)
        return GlobalArg(name, shape=()) if name in written else ValueArg(name)
    if name in sizes:
        return ValueArg(name)
    raise UnknownNameError("argument", name, difflib.get_close_matches(name, [*ranks, *sizes], n=2))


def _checked_argument(source: Source, argument: Argument, use: NameUse | None, is_size: bool) -> Argument:
    """*argument* as declared, completed from the text; :raises ParseError: text and declaration contradict each other.
    """
    name = argument.name
    if isinstance(argument, ValueArg):
        if use is not None and use.rank != BARE:
            raise source.error(use.start, f"The value argument '{name}' is subscripted.", "an array")
        if is_size and argument.dtype is not None and argument.dtype.kind not in "iu":
            raise PreconditionError(f"The size parameter '{name}' has the dtype {argument.dtype}.", subject=name,
                                    hint="sizes are integers")
        return argument
    if is_size:
        raise PreconditionError(f"The size parameter '{name}' is declared as an array.", subject=name,
                                hint=f"declare ValueArg({name!r})")
    return replace(argument, shape=_agreed_shape(source, name, argument.shape, use))


def _agreed_shape(source: Source, name: str, shape: tuple[Expression, ...] | None,
                  use: NameUse | None) -> tuple[Expression, ...] | None:
    if use is None:
        return shape
    if shape is None:
        return () if use.rank == BARE else None
    if len(shape) != max(use.rank, 0):
        raise source.error(use.start, f"'{name}' is used {_ranked(use.rank)} and declared with {len(shape)} axes.",
                           "one subscript for each axis")
    return shape


def _checked_temporary(source: Source, temporary: TemporaryVariable, use: NameUse | None, is_written: bool,
                       is_bound: bool) -> TemporaryVariable:
    name = temporary.name
    if not is_written and (use is not None or is_bound):
        raise PreconditionError(f"The temporary '{name}' is read and never written.", subject=name)
    shape = _agreed_shape(source, name, temporary.shape, use)
    if is_bound and (shape != () or (temporary.dtype is not None and temporary.dtype.kind not in "iu")):
        raise PreconditionError(f"The temporary '{name}' bounds a domain and is no integer scalar.", subject=name,
                                hint=f"<int32> {name} = ...")
    return replace(temporary, shape=shape)
