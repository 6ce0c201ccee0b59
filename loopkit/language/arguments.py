"""Arguments and temporaries of a kernel: from their declarations, or from their uses in the text."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import NameConflictError, PreconditionError, StorageError, UnknownNameError
from loopkit.expr.kinds import DTYPES, dtype_of, is_narrow, is_tuple, kind_of, named_dtype
from loopkit.expr.mappers import subscripts_of, variables
from loopkit.expr.parsing import BARE, RULE, NameUse, parse_expression
from loopkit.expr.places import subscripts_at
from loopkit.expr.tokens import Source
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.annotations import fits, require_kinds
from loopkit.kernel.data import Argument, GlobalArg, TemporaryVariable, ValueArg, named_space
from loopkit.language import names
from loopkit.language.domains import Domains
from loopkit.language.names import name_list, require_free
from loopkit.language.program import ForBlock, ParsedAssignment, ParsedProgram, executed, walk, writes

Datum = GlobalArg | ValueArg | TemporaryVariable | str


#: The declarations and bare names of ``kernel_data``, in order, by name; :data:`_REST` is among them for the
#: arguments that only the text has. Without it there must be none.
Declared = Mapping[str, Datum]
_REST = "..."


def read_declarations(kernel_data: Iterable[object] | None, temporaries: Iterable[TemporaryVariable]) -> Declared:
    """kernel_data with dtypes and shapes in normal form.

    :raises PreconditionError: an item is of a kind that is not allowed, or has such a dtype.
    :raises NameConflictError: a name is reserved or declared twice.
    """
    given = [_REST] if kernel_data is None else name_list(kernel_data) if isinstance(kernel_data, str) else kernel_data
    items: dict[str, Datum] = {}
    for datum in [*given, *temporaries]:
        if datum is ... or datum == _REST:
            if _REST in items:
                raise PreconditionError("kernel_data contains '...' twice.", subject=_REST)
            items[_REST] = _REST
            continue
        if not isinstance(datum, GlobalArg | ValueArg | TemporaryVariable | str):
            raise PreconditionError(f"kernel_data contains {datum!r}.", subject=repr(datum), hint=(
                "its items are GlobalArg, ValueArg, TemporaryVariable, names, or '...' for the other arguments"))
        if not isinstance(datum, str):
            require_kinds(type(datum), (datum.name,), {})
        for name in map(str.strip, (datum if isinstance(datum, str) else datum.name).split(",")):
            require_free(name, items, "The argument")
            items[name] = name if isinstance(datum, str) else _normal(replace(datum, name=name))
    return items


def readers_of_places(declared: Declared) -> Mapping[str, Callable[[Expression], tuple[Expression, ...]]]:
    """For each array of several axes in order C or F, the subscripts of the element at a place in memory."""
    found: dict[str, Callable[[Expression], tuple[Expression, ...]]] = {}
    for name, d in declared.items():
        if isinstance(d, GlobalArg | TemporaryVariable) and d.shape is not None and len(d.shape) > 1:
            if isinstance(d, TemporaryVariable) or (d.strides is None and d.order in (None, "C")):
                found[name] = partial(subscripts_at, shape=d.shape)
            elif d.order == "F":
                found[name] = partial(_subscripts_in_fortran_order, shape=d.shape)
    return found


def offsets_of(declared: Declared) -> Mapping[str, int | str]:
    """The declared offsets other than 0."""
    return {name: d.offset for name, d in declared.items() if isinstance(d, GlobalArg) and d.offset not in (None, 0)}


def shapes_of(declared: Declared) -> Mapping[str, tuple[Expression, ...]]:
    """The declared shapes of arrays without an offset."""
    return {name: d.shape for name, d in declared.items() if isinstance(d, GlobalArg | TemporaryVariable)
            and d.shape is not None and name not in offsets_of(declared)}


def _subscripts_in_fortran_order(place: Expression, shape: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return subscripts_at(place, shape[::-1])[::-1]


def _normal(datum: GlobalArg | ValueArg | TemporaryVariable) -> Datum:
    name, dtype = datum.name, dtype_of(datum.dtype)
    if dtype is None and datum.dtype is not None:
        raise PreconditionError(f"'{name}' cannot have the dtype {datum.dtype!r}.", subject=name, hint=DTYPES)
    if isinstance(datum, ValueArg) and dtype is not None and is_tuple(dtype):
        raise PreconditionError(f"The value argument '{name}' cannot be a tuple {dtype_text(dtype)}.", subject=name,
                                hint=f"pass an array: GlobalArg({name!r}, ..., shape=())")
    datum = replace(datum, dtype=dtype)
    if not isinstance(datum, ValueArg):
        datum = replace(datum, shape=_read_shape(name, datum.shape))
    if isinstance(datum, GlobalArg):
        datum = laid_out_argument(replace(datum, inferred=None))
        if isinstance(datum.offset, str | bool) and not str(datum.offset).isidentifier():
            raise PreconditionError(f"The offset of '{name}' cannot be {datum.offset!r}.", subject=name,
                                    hint="pass an integer, or the name of a value argument")
    if isinstance(datum, TemporaryVariable):
        space = None if datum.address_space is None else named_space(datum.address_space, name)
        datum = replace(datum, address_space=space, fixed=bool(datum.shape) and space is not None)
        datum = _constant(datum) if datum.initializer is not None or datum.read_only is True else datum
    require_kinds(type(datum), (), vars(datum))
    if isinstance(datum, TemporaryVariable) and datum.base_storage is not None:
        require_free(datum.base_storage, (), "The base storage")
    return datum


def laid_out_argument(arg: GlobalArg) -> GlobalArg:
    """*arg* with strides in normal form; :raises PreconditionError: they, or its order, have another form."""
    name, order = arg.name, arg.order
    strides: object = arg.strides
    axes = tuple(order) if isinstance(order, tuple | list) else ()
    known = order is None or (isinstance(order, str) and order in ("C", "F"))
    if not known and not (axes and all(isinstance(k, int) for k in axes) and sorted(axes) == [*range(len(axes))]):
        raise PreconditionError(f"The order of '{name}' cannot be {order!r}.", subject=name,
                                hint='pass "C", "F", or the numbers of all axes, the slowest first')
    if strides is None:
        return replace(arg, order=axes) if axes else arg
    if order is not None:
        raise PreconditionError(f"'{name}' has an order and strides.", subject=name, hint="leave one of them out")
    return with_strides(arg, strides.split(",") if isinstance(strides, str) else
                        strides if isinstance(strides, tuple | list) else [strides])


def with_strides(arg: GlobalArg, strides: Sequence[object]) -> GlobalArg:
    """*arg* with these declared *strides*; :raises PreconditionError: one is not a stride."""
    open_ones = [e is None or (isinstance(e, str) and e.strip() == "auto") for e in strides]
    read = _read_extents(arg.name, tuple(0 if is_open else e for e, is_open in zip(strides, open_ones, strict=True)),
                         "stride")
    return replace(arg, order=None, strides=tuple(None if is_open else e for e, is_open in zip(
        read, open_ones, strict=True)))


def _constant(t: TemporaryVariable) -> TemporaryVariable:
    """*t* with the shape and the dtype of its initializer; :raises PreconditionError: they contradict *t*."""
    values, name = t.initializer, t.name
    if values is None or not t.read_only:
        missing = "initializer=" if values is None else "read_only=True"
        raise PreconditionError(f"The constant '{name}' is declared without {missing}.", subject=name,
                                hint="a constant has both: initializer=array, read_only=True")
    if kind_of(values.dtype) not in "biuf" or is_narrow(values.dtype):
        raise PreconditionError(f"The initializer of '{name}' has the dtype {values.dtype}.", subject=name,
                                hint="convert it to integers, float32 or float64, or pass it as an argument")
    if not np.isfinite(np.asarray(values)).all() or not np.prod(values.shape):
        what = "has no elements" if not np.prod(values.shape) else "has elements that are not finite"
        raise PreconditionError(f"The initializer of '{name}' {what}.", subject=name, hint="pass it as an argument")
    for what, declared, own in (("shape", t.shape, values.shape), ("dtype", t.dtype, values.dtype)):
        if declared not in (None, own):
            raise PreconditionError(f"The initializer of '{name}' has the {what} {own}, not {declared}.", subject=name,
                                    hint=f"leave out {what}=, or convert the initializer")
    return replace(t, shape=values.shape, dtype=values.dtype, address_space=None, fixed=True)


def _read_shape(name: str, shape: object) -> tuple[Expression, ...] | None:
    if shape is None:
        return None
    what = f"the shape of '{name}'"
    if isinstance(shape, str) and shape.strip():
        # as subscripts, so that commas in parentheses stay where they are
        parsed = parse_expression(f"shape[{shape.strip().removesuffix(',')}]", what=what)
        assert isinstance(parsed, p.Subscript)
        return parsed.index_tuple
    listed = () if isinstance(shape, str) else shape if isinstance(shape, tuple | list) else (shape,)
    return _read_extents(name, tuple(listed), "extent")


def _read_extents(name: str, listed: tuple[object, ...], noun: str) -> tuple[Expression, ...]:
    """The extents or the strides of *name* as expressions."""
    field = "shape" if noun == "extent" else "strides"
    what = f"the {field} of '{name}'"
    for extent in listed:
        if not fits(extent, str | int | p.ExpressionNode) or (isinstance(extent, int) and extent < 0):
            article = "an" if noun == "extent" else "a"
            raise PreconditionError(
                f"{what[:1].upper()}{what[1:]} cannot have the {noun} {extent!r}.", subject=name,
                hint=f'{article} {noun} is an integer of at least 0 or an expression: {field}=(4, "n + 1")')
    known: list[Any] = [*listed]
    return tuple(parse_expression(a, what=what) if isinstance(a, str) else
                 int(a) if isinstance(a, int | np.integer) else a for a in known)


def _ranks(program: ParsedProgram, inames: Collection[str], local_inames: Collection[str]) -> dict[str, NameUse]:
    """The first mention of every array and scalar; :raises ParseError: another one contradicts it."""
    error = program.source.error
    first: dict[str, NameUse] = {}
    mentioning = [node for node in walk(program.body) if not isinstance(node, ForBlock)]
    for use in (u for part in (*mentioning, *program.rules) for u in part.uses):
        name, rank = use.name, use.rank
        known = first.get(name)
        if known is not None:
            if known.rank != rank:
                raise error(use.start, f"'{name}' is used {_ranked(rank)} here and {_ranked(known.rank)} in "
                            f"{program.source.place_of(known.start)}.", f"'{name}' {_ranked(known.rank)}")
        elif name in inames and rank != RULE:
            if rank != BARE:
                raise error(use.start, f"The iname '{name}' is subscripted.", "an array")
        elif rank != RULE:
            fault = names.fault(name)
            if fault is not None:
                raise error(use.start, f"'{name}' {fault}.", names.another(name))
            if name in local_inames:
                raise error(use.start, f"The iname '{name}' is used outside the reduction that declares it.",
                            "another name")
            first[name] = use
    return first


def _ranked(rank: int) -> str:
    return "without subscripts" if rank == BARE else "with one subscript" if rank == 1 else f"with {rank} subscripts"


def find_temporaries(program: ParsedProgram, declared: Declared) -> dict[str, TemporaryVariable]:
    """The temporaries, declared in kernel_data or by ``<>``; :raises ParseError: a name has two declarations."""
    found = {name: d for name, d in declared.items() if isinstance(d, TemporaryVariable)}
    for node in executed(program.body):
        if node.temporary is None:
            continue
        name, subscripts = (node.written, subscripts_of(node.assignee)) if isinstance(node, ParsedAssignment) else \
            (node.results[0].array, node.results[0].subscripts)
        dtype = named_dtype(node.temporary) if node.temporary else None
        known = found.get(name)
        if known is None:
            if isinstance(declared.get(name), GlobalArg | ValueArg):
                raise program.source.error(node.start, f"'{name}' is an argument in kernel_data.", "a new name")
            found[name] = TemporaryVariable(name, dtype, None if subscripts else ())
        elif dtype is not None:
            if known.dtype not in (None, dtype):
                raise program.source.error(node.start, f"The temporary '{name}' is declared as {known.dtype} before "
                                           f"and as {dtype} here.", f"<{known.dtype}>")
            found[name] = replace(known, dtype=dtype)
    return found


def resolve(program: ParsedProgram, declared: Declared, temporaries: Mapping[str, TemporaryVariable],
            domains: Domains) -> tuple[tuple[Argument, ...], dict[str, TemporaryVariable]]:
    """The kernel's arguments in order, and its temporaries; :raises ParseError: text and declarations differ."""
    inames = domains.parents.keys()
    for rule in program.rules:
        require_free(rule.rule.name, {*inames, *temporaries, *declared, *domains.params},
                     "The substitution rule", called=True)
    for name in (*declared, *temporaries):
        if name in inames:
            raise NameConflictError(f"'{name}' is an iname and cannot be an argument or a temporary.", subject=name)
    shapes = {name for d in declared.values() if isinstance(d, GlobalArg | TemporaryVariable)
              for axis in d.shape or () for name in variables(axis)}
    shapes |= {name for d in declared.values() if isinstance(d, GlobalArg)
               for stride in d.strides or () if stride is not None for name in variables(stride)}
    found = _Uses(program.source, declared, _ranks(program, inames, domains.inline_inames),
                  dict(reversed(list(writes(program.body)))),
                  sorted({*domains.params, *shapes}.difference(temporaries)))
    found.require_roles(inames)
    return found.arguments(temporaries), {name: found.temporary(t, name in domains.params)
                                          for name, t in temporaries.items()}


@dataclass(frozen=True)
class _Uses:
    """The uses of arrays and scalars in the text, beside their declarations.

    :ivar ranks: the first use of each.
    :ivar written: the first place where each is written.
    :ivar sizes: the size parameters.
    """

    source: Source
    declared: Declared
    ranks: Mapping[str, NameUse]
    written: Mapping[str, int]
    sizes: Sequence[str]

    def require_roles(self, inames: Collection[str]) -> None:
        """:raises ParseError: an iname or a size parameter is written, or a value argument, or it is subscripted."""
        values = [name for name, d in self.declared.items() if isinstance(d, ValueArg)]
        self._require_scalars("size parameter", self.sizes)
        for what, known, hint in (("iname", inames, None),
                                  ("value argument", values, "<> {}_new = ... declares a temporary"),
                                  ("size parameter", self.sizes, "<int32> {} = ... declares a temporary that may bound "
                                                                 "a loop")):
            for name in (x for x in self.written if x in known):
                raise self.source.error(self.written[name], f"The {what} '{name}' is written.",
                                        "an array or a temporary", hint=hint and hint.format(name))
        self._require_scalars("value argument", values)

    def _require_scalars(self, what: str, scalars: Iterable[str]) -> None:
        for name in scalars:
            if name in self.ranks and self.ranks[name].rank != BARE:
                raise self.source.error(self.ranks[name].start, f"The {what} '{name}' is subscripted.", "an array")

    def arguments(self, temporaries: Collection[str]) -> tuple[Argument, ...]:
        """The declared arguments, and among them the others of the text."""
        known = {*self.declared, *temporaries}
        rest = [name for name in sorted({*self.ranks, *self.sizes}) if name not in known]
        for name in rest if _REST not in known else ():
            if name not in self.sizes:
                temporary = f"; temporary_variables=[TemporaryVariable('{name}', ...)] declares a temporary"
                raise self.source.unknown(
                    self.ranks[name].start, "argument", name, known, hint="end kernel_data with '...' to add the "
                    f"arguments of the text{temporary if name in self.written else ''}")
        found: list[Argument] = []
        for d in {**self.declared, _REST: _REST}.values():
            if isinstance(d, str):
                found += map(self._derived, rest if d == _REST else [d])
            elif not isinstance(d, TemporaryVariable):
                found.append(self._argument(d))
        return tuple(found)

    def _derived(self, name: str) -> Argument:
        """The argument *name* with the properties that follow from the text."""
        if name in self.sizes:
            return ValueArg(name)
        if name not in self.ranks:
            raise UnknownNameError("argument", name, [*self.ranks, *self.sizes])
        if self.ranks[name].rank != BARE:
            return GlobalArg(name)
        return GlobalArg(name, shape=()) if name in self.written else ValueArg(name)

    def _argument(self, argument: Argument) -> Argument:
        """*argument* as declared, completed from the text; :raises ParseError: text and declaration differ."""
        name = argument.name
        if isinstance(argument, ValueArg):
            if name in self.sizes and not _may_be_integer(argument.dtype):
                raise PreconditionError(f"The size parameter '{name}' cannot have the dtype {argument.dtype}.",
                                        subject=name, hint="declare an integer dtype")
            return argument
        if name in self.sizes:
            raise PreconditionError(f"The size parameter '{name}' is declared as an array.", subject=name,
                                    hint=f"declare ValueArg({name!r})")
        shape = self._shape(argument)
        axes = len(shape) if shape is not None else max(self.ranks[name].rank, 0) if name in self.ranks else None
        layout = argument.strides if argument.strides is not None else argument.order
        if layout is not None and not isinstance(layout, str) and axes is not None and len(layout) != axes:
            raise PreconditionError(f"'{name}' has {axes} axes, and its layout has {len(layout)}.", subject=name,
                                    hint="declare a stride for each axis")
        return replace(argument, shape=shape, offset=None)         # the subscripts have it

    def temporary(self, temporary: TemporaryVariable, is_bound: bool) -> TemporaryVariable:
        """*temporary*, which is a parameter of a domain if *is_bound*, completed from the text."""
        name = temporary.name
        if temporary.initializer is not None and name in self.written:
            raise self.source.error(self.written[name], f"The constant '{name}' is written.", "an array")
        if name not in self.written and (name in self.ranks or is_bound) and temporary.initializer is None:
            raise StorageError(f"The temporary '{name}' is read but never written.", subject=name,
                               hint=f"write it before its readers, or declare an argument: GlobalArg({name!r})")
        shape = self._shape(temporary)
        if is_bound and (shape != () or not _may_be_integer(temporary.dtype)):
            raise PreconditionError(f"The temporary '{name}' bounds a domain, but is not an integer scalar.",
                                    subject=name, hint=f"<int32> {name} = ...")
        return replace(temporary, shape=shape)

    def _shape(self, declared: GlobalArg | TemporaryVariable) -> tuple[Expression, ...] | None:
        """The declared shape, or that of a scalar; :raises ParseError: the uses have another number of axes."""
        shape, use = declared.shape, self.ranks.get(declared.name)
        if use is None:
            return shape
        if shape is None:
            return () if use.rank == BARE else None
        if len(shape) != max(use.rank, 0):
            raise self.source.error(
                use.start, f"'{use.name}' is used {_ranked(use.rank)} and declared with {len(shape)} axes.",
                "one subscript for each axis")
        return shape


def _may_be_integer(dtype: np.dtype | None) -> bool:
    return dtype is None or dtype.kind in "iu"
