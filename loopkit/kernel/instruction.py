"""Instructions as objects: ``make_kernel`` reads them, and a kernel gives its own ones back."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.ast.nodes import Instruction
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import dtype_of
from loopkit.expr.mappers import array_of, is_node, map_children
from loopkit.expr.nodes import TypeCast, to_text
from loopkit.kernel.tags import in_order
from loopkit.kernel.tree import LoopPlace
from loopkit.poly.limits import bounded
from loopkit.poly.sets import InstanceSet
from loopkit.shown import Declared


@dataclass(frozen=True, repr=False)
class StatementPlace(Declared):
    """The instances of a statement of a kernel, and the loops around it.

    The instructions of a kernel have it. A script that makes such a kernel again writes it down:

    >>> lk.StatementPlace("[n] -> { [i] : 0 <= i < n }", (("i", "insn"),)).domain.inames
    ('i',)

    :ivar domain: the instance set, which may be given as its text.
    :ivar loops: the loops, outermost first, each an iname and the id of the first statement; adjacent statements with
        the same loops share them.
    :raises ValueError: isl refuses the text.
    """

    domain: InstanceSet
    loops: tuple[LoopPlace, ...]

    def __post_init__(self) -> None:
        if isinstance(self.domain, str):
            with bounded("reading the instances of a statement"):
                object.__setattr__(self, "domain", InstanceSet.parse(self.domain))


@dataclass(frozen=True, repr=False, kw_only=True)
class InstructionBase(Declared):
    """The fields that all kinds of instructions have.

    :ivar id: the name of the statement; ``None``: ``insn``, ``insn_0``, ...
    :ivar within_inames: the inames of the statement; ``None``: those in its expressions, and those that it inherits
        through temporaries. Loops over them nest in the order of the domains.
    :ivar predicates: conditions, expressions or texts, all of which must hold.
    :ivar depends_on: ids, or patterns of ids, of statements above that must run before this one.
    :ivar no_sync_with: likewise those for which a claim holds that no barrier is needed.
    :ivar tags: labels, and user tags.
    :ivar place: its instances and loops, if it comes from a kernel; it holds as long as *within_inames* stay.
    :raises PreconditionError: a field that lists names is something else.
    """

    id: str | None = None
    within_inames: frozenset[str] | None = None
    predicates: tuple[Expression, ...] = ()
    depends_on: frozenset[str] = frozenset()
    no_sync_with: frozenset[str] = frozenset()
    tags: frozenset[str | Tag] = frozenset()
    place: StatementPlace | None = None

    def __post_init__(self) -> None:
        for name in ("depends_on", "no_sync_with", "tags", *["within_inames"]*(self.within_inames is not None)):
            given = getattr(self, name)
            if not isinstance(given, str | Tag | Iterable | None):
                raise PreconditionError(f"{type(self).__name__}: {name}= must be a text or a list of names, not "
                                        f"{given!r}.", subject=name, hint=f'{name}="a, b"')
            object.__setattr__(self, name, _name_set(given))
        several = isinstance(self.predicates, frozenset | set | list | tuple)
        listed = self.predicates if several else (self.predicates,)
        # a set has no order of its own
        in_order = sorted(listed, key=str) if isinstance(listed, frozenset | set) else listed
        object.__setattr__(self, "predicates", tuple(in_order))

    def copy(self, **changes: Any) -> Self:
        """This instruction with other fields.

        >>> print(lk.Assignment("y[i]", "2*x[i]", id="twice").copy(within_inames={"i", "j"}))
        y[i] = 2*x[i]  {id=twice, inames=i:j}
        """
        return replace(self, **changes)

    @property
    def placed(self) -> StatementPlace | None:
        """Its place in a kernel, unless its inames changed since."""
        place = self.place
        return place if place is not None and self.within_inames == frozenset(place.domain.inames) else None

    def options_text(self) -> str:
        """The options of the text form."""
        listed = [("inames", self.within_inames), ("dep", self.depends_on), ("nosync", self.no_sync_with),
                  ("tags", self.tags)]
        own = [f"id={self.id}"] if self.id is not None else []
        own += [f"if={' and '.join(map(_text, self.predicates))}"] if self.predicates else []
        own += [f"{name}={':'.join(in_order(value))}" for name, value in listed
                if value or (value is not None and name == "inames")]
        return f"  {{{', '.join(own)}}}" if own else ""


@dataclass(frozen=True, repr=False)
class Assignment(InstructionBase):
    """The instruction ``assignee = expression``.

    >>> from pymbolic import var
    >>> a, x, y, i, k = map(var, ("a", "x", "y", "i", "k"))
    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", [
    ...     lk.Assignment(y[i], lk.Reduction("sum", ("k",), a[i, k]*x[k]), id="row")])
    >>> print(knl.statements_text)
    for i
      y[i] = sum(k, a[i, k]*x[k])  {id=row}
    end

    :ivar assignee: an element of an array, or a temporary; an expression of pymbolic, or a text.
    :ivar expression: likewise the value.
    :ivar temp_var_type: declares the assignee as a temporary with this dtype; ``"auto"``: the dtype follows from the
        first write. ``None`` declares nothing.
    :ivar instructions: ``"atomic"`` or ``"async"``, as in the text form.
    """

    assignee: Expression | str
    expression: Expression | str
    _: KW_ONLY
    temp_var_type: npt.DTypeLike | None = None
    instructions: tuple[Instruction | str, ...] = ()

    @property
    def domain(self) -> InstanceSet | None:
        """The instance set, if the instruction comes from a kernel."""
        return None if self.place is None else self.place.domain

    @property
    def written(self) -> str:
        """The array or variable on the left-hand side."""
        return self.assignee.partition("[")[0].strip() if isinstance(self.assignee, str) else array_of(self.assignee)

    def __str__(self) -> str:
        return f"{_text(self.assignee)} = {_text(self.expression)}{self.options_text()}"


@dataclass(frozen=True, repr=False)
class SubArrayRef(Declared):
    """The slice ``[j]: y[i, j]``, which a :class:`CallInstruction` passes.

    >>> print(lk.SubArrayRef("j", "y[i, j]"))
    [j]: y[i, j]

    :ivar swept_inames: the inames that run over the slice, one for each axis of the function's array.
    :ivar subscript: an element of an array, an expression of pymbolic or a text.
    """

    swept_inames: str | tuple[str, ...]
    subscript: Expression | str

    def __str__(self) -> str:
        listed = (self.swept_inames,) if isinstance(self.swept_inames, str) else self.swept_inames
        return f"[{', '.join(listed)}]: {_text(self.subscript)}"


#: A result or an argument of a call.
Passed = Expression | SubArrayRef | str


@dataclass(frozen=True, repr=False)
class CallInstruction(InstructionBase):
    """The instruction ``assignees = function(arguments)``: the call of a kernel, or a value of several parts.

    >>> from pymbolic import var
    >>> i, j, x, y = map(var, "ijxy")
    >>> twice = lk.make_function("{[k]: 0<=k<n}", "b[k] = 2*a[k]", name="twice")
    >>> call = lk.CallInstruction((lk.SubArrayRef("j", y[i, j]),), "twice", (lk.SubArrayRef("j", x[i, j]), 4))
    >>> print(call)
    [j]: y[i, j] = twice([j]: x[i, j], 4)
    >>> print(lk.make_kernel("{[i, j]: 0<=i<m and 0<=j<4}", [call], functions=[twice]).statements_text)
    for i, k
      # [j]: y[i, j] = twice([j]: x[i, j], 4)
        y[i, k] = 2*x[i, k]  {id=twice_insn}
    end

    :ivar assignees: the results; expressions of pymbolic, slices, or texts. One may stand alone.
    :ivar function: the name of a kernel, or of a reduction or a rule with several results.
    :ivar parameters: the arguments, likewise; a text may be a slice such as ``x[i, :]``.
    :ivar temp_var_type: declares the only assignee as a temporary, as in :class:`Assignment`.
    """

    assignees: Passed | tuple[Passed, ...]
    function: str
    parameters: Passed | tuple[Passed, ...] = ()
    _: KW_ONLY
    temp_var_type: npt.DTypeLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("assignees", "parameters"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list | tuple) else (given,))

    @property
    def parts(self) -> tuple[Passed, ...]:
        """The assignees and the parameters."""
        assert isinstance(self.assignees, tuple)
        assert isinstance(self.parameters, tuple)
        return *self.assignees, *self.parameters

    def __str__(self) -> str:
        kind = None if self.temp_var_type == "auto" else self.temp_var_type
        dtype = None if kind is None else dtype_of(kind)
        declared = "" if self.temp_var_type is None else f"<{'' if kind is None else dtype.name if dtype else kind}> "
        parts = [*map(_text, self.parts)]
        count = len(self.assignees) if isinstance(self.assignees, tuple) else 1
        results = f"{declared}{', '.join(parts[:count])} = " if count else ""
        return f"{results}{self.function}({', '.join(parts[count:])}){self.options_text()}"


def _name_set(given: str | Tag | Iterable[Any] | None) -> frozenset[Any]:
    """``"a, b"``, ``"a:b"``, a tag, an iterable or ``None`` as a set."""
    if given is None or isinstance(given, Tag):
        return frozenset(() if given is None else (given,))
    return frozenset(x.strip() for x in given.replace(":", ",").split(",")) if isinstance(given, str) \
        else frozenset(given)


def _text(expr: Passed) -> str:
    match expr:
        case str() | SubArrayRef():
            return str(expr)
        case p.Subscript(aggregate=array) if any(isinstance(i, p.Slice) for i in expr.index_tuple):
            return f"{_text(array)}[{', '.join(map(_text, expr.index_tuple))}]"
        case p.Slice(children=(start, stop, step)):
            ends = ":".join("" if e is None else _text(e) for e in (start, stop))
            return ends if step is None else f"{ends}:{_text(step)}"
        case _:
            return to_text(_sized(expr))


def _sized(expr: Any) -> Any:
    """*expr* whose numbers of numpy keep their dtypes as text."""
    if isinstance(expr, np.generic):
        return TypeCast(expr.dtype.name, expr.item())
    return map_children(expr, _sized) if is_node(expr) else expr
