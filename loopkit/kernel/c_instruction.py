"""Statements in C: the user's text, with the elements that it reads and writes."""
from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.functions import UNKNOWN, OfReference, ScalarFunction, is_balanced
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.parsing import parse_expression
from loopkit.shown import Declared

#: Operands by name, or as texts that are named by their arrays.
Operands = Mapping[str, str] | Iterable[str] | str

#: A placeholder in the code: ``$a``, ``$a.stride``, ``$a.stride1``.
PLACEHOLDER = re.compile(r"\$(?P<name>[A-Za-z_]\w*)(?:\.stride(?P<axis>\d*))?", re.ASCII)

#: Words of C that would leave the statement, wait for other threads, or have a value that the operands do not give.
_NEVER = frozenset({"return", "goto", "asm", "__syncthreads", "__syncwarp", "barrier", "exit", "longjmp", "static",
                    "__shared__", "threadIdx", "blockIdx", "get_local_id", "get_global_id"})

#: The temporary that stands for side effects: each C instruction without assignees reads and writes it.
EFFECTS = "c_effects"

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

#: The way out if code names memory of its kernel, with a place for the name.
_DECLARE = ("write ${0} and declare read_variables={{'{0}': '{0}[...]'}}; for a name of the code itself, choose "
            "another one, or pass assume='...' with the reason")


@dataclass(frozen=True, repr=False)
class CInstruction(Declared):
    """A statement of a kernel in C: ``make_kernel`` takes it among the instructions.

    The operands are the whole interface. ``$x`` in the code is a value that was read, the element that is written, or a
    pointer to the first element of a region, and ``$x.stride`` is the distance of two of its elements. A region has
    ranges as subscripts: ``a[i, 0:m]`` are the elements from 0 to ``m - 1`` of a row; with several ranges the strides
    are ``$x.stride0``, ``$x.stride1``, ... Dependences, races, bounds and storage follow from the operands, as for each
    other statement. The code reads and writes no other memory, and writes every element of the assignees. These are
    claims, which become an obligation of the kernel.

    >>> norm = CInstruction(
    ...     "i", "double s = 0; for (int k = 0; k < $m; ++k) s += fabs($row[k*$row.stride]); $y = s;",
    ...     {"row": "a[i, 0:m]", "m": "m"}, {"y": "y[i]"}, id="norm")
    >>> knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", [norm]), {"a,y": np.float64})
    >>> knl(a=np.array([[1, -2.5], [0, 4]])).y
    array([3.5, 4. ])

    :arg iname_exprs: the inames of the statement, separated by commas, and pairs of a name in the code and an
        expression.
    :arg code: the text in C, or one for each language of the targets (``"c"``, ``"cuda"``, ...).
    :arg read_variables: the operands that the code reads: expressions and regions by the names in the code, or in a
        list, named by their arrays.
    :arg assignees: likewise the elements and regions that the code writes. Without any the code has a side effect:
        the C instructions of a kernel that have one run in their order.
    :arg id: the name of the statement, at the start of the names that it adds to the kernel.
    :arg preamble: definitions that the code needs, for each language, or one for all of them.
    :arg assume: the reason why a name of the kernel in the code means something else.
    :arg reference: a Python function of the values that are read, in their order, with the value that is written, or
        the tuple of several, for the interpreter; only without regions.
    :raises PreconditionError: an operand is not an expression, element or region; the code has unknown placeholders,
        brackets that do not match, or a ``return``.
    """

    iname_exprs: str | Iterable[Any]
    code: str | Mapping[str, str]
    read_variables: Operands = ()
    assignees: Operands = ()
    id: str = "c_insn"
    preamble: str | Mapping[str, str] = field(default_factory=dict)
    assume: str | None = None
    reference: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.id, str) and _NAME.fullmatch(self.id)):
            raise PreconditionError(f"The id of a C instruction cannot be {self.id!r}.", subject=str(self.id))
        given = [self.iname_exprs] if isinstance(self.iname_exprs, str) else list(self.iname_exprs)
        inames = [x for text in given if isinstance(text, str) for x in re.split(r"[,\s]+", text.strip()) if x]
        pairs = [x for x in given if not isinstance(x, str)]
        if not all(isinstance(x, tuple | list) and len(x) == 2 and all(isinstance(y, str) for y in x) for x in pairs):
            self._refuse("has inames and pairs of a name and an expression as iname_exprs=, and not "
                         f"{self.iname_exprs!r}")
        own = {x: x for x in inames}
        object.__setattr__(self, "iname_exprs", (*inames, *map(tuple, pairs)))
        object.__setattr__(self, "assignees", self._named(self.assignees))
        reads = {**self._named(self.read_variables), **{str(x): str(y) for x, y in pairs}}
        object.__setattr__(self, "read_variables", reads)
        if not self.assignees:
            object.__setattr__(self, "assignees", {"effects": EFFECTS})
            object.__setattr__(self, "read_variables", {**reads, "effects_before": EFFECTS})
            reads = dict(self.reads)
        codes = self.codes
        if not codes or not all(isinstance(x, str) for x in codes.values()):
            self._refuse(f"has a text, or one for each language, as code, and not {self.code!r}")
        if both := sorted(reads.keys() & {**self.writes}.keys()):
            self._refuse(f"has two operands '{both[0]}'", f"name them: assignees={{'new': '{self.writes[both[0]]}'}}")
        texts = (*reads.values(), *self.writes.values())
        if self.reference is not None and any(self.region(x.strip())[1] for x in texts):
            self._refuse("has a reference= and a region: only C code of single elements has a value in Python")
        for name, text in (*reads.items(), *self.writes.items()):
            self._require_operand(name, text, is_written=name in self.writes)
        for code in codes.values():
            self._require_code(code, {*reads, *self.writes, *own})

    def _named(self, operands: Operands) -> dict[str, str]:
        if isinstance(operands, Mapping):
            found = {str(k): v for k, v in operands.items()}
        else:
            texts = [operands] if isinstance(operands, str) else list(operands)
            found = {str(x).partition("[")[0].strip(): x for x in texts}
            if len(found) < len(texts):
                self._refuse("has two operands of one array", "name them: {'left': 'a[i]', 'right': 'a[i + 1]'}")
        for name, text in found.items():
            if not isinstance(text, str) or not _NAME.fullmatch(name):
                self._refuse(f"cannot have the operand {name!r}: {text!r}", "an operand is a text: 'a[i, 0:m]'")
        return found

    @property
    def has_effects(self) -> bool:
        """Does it write nothing that the kernel has?"""
        return self.writes.get("effects") == EFFECTS

    @property
    def inames(self) -> tuple[str, ...]:
        return tuple(x for x in self.iname_exprs if isinstance(x, str))

    @property
    def reads(self) -> Mapping[str, str]:
        """The operands that it reads, by name."""
        assert isinstance(self.read_variables, Mapping)
        return self.read_variables

    @property
    def writes(self) -> Mapping[str, str]:
        """The operands that it writes, by name."""
        assert isinstance(self.assignees, Mapping)
        return self.assignees

    @property
    def operands(self) -> Mapping[str, str]:
        """All values and regions that it reads, the inames that its code uses among them."""
        used = {found["name"] for code in self.codes.values() for found in PLACEHOLDER.finditer(code)}
        return {**self.reads, **{x: x for x in self.inames if x in used}}

    @property
    def codes(self) -> Mapping[str, str]:
        """The code for each language; ``""``: for each."""
        return self.code if isinstance(self.code, Mapping) else {"": self.code}

    @property
    def claim(self) -> str:
        """The claim that its declaration makes."""
        written = {text.partition("[")[0].strip() for text in self.writes.values()}
        both = sorted(written & {text.partition("[")[0].strip() for text in self.reads.values()
                                 if self.region(text.strip())[1]})
        return "".join((f"the C code of '{self.id}' accesses its operands only",
                        "" if self.has_effects else ", and writes every element of its assignees",
                        *(f", and computes the same from a copy of '{x}'" for x in both)))

    def code_for(self, language: str) -> str:
        """:raises PreconditionError: there is no code in *language*."""
        found = self.codes.get("", self.codes.get(language))
        if found is None:
            self._refuse(f"has no code for the language '{language}'",
                         f"CInstruction(..., code={{'{language}': ...}}); it has code for {', '.join(self.codes)}")
        return found

    def preamble_for(self, language: str) -> str:
        return self.preamble if isinstance(self.preamble, str) else self.preamble.get(language, "")

    def region(self, text: str) -> tuple[list[str], dict[int, tuple[str, str]]]:
        """The subscripts of an operand, and the bounds of those that are ranges by their axis."""
        parts = list(top_level(text[text.find("[") + 1:-1], ",")) if text.endswith("]") and "[" in text else []
        ranges = {axis: (low, high) for axis, part in enumerate(parts)
                  for low, *ends in [list(top_level(part, ":"))] for high in ends[:1]}
        return parts, ranges

    def require_undeclared(self, names: Collection[str], hint: str = _DECLARE) -> None:
        """:raises UndecidedError: the code names one of *names*, memory of its kernel, and not as an operand."""
        words = {word for code in self.codes.values()
                 for word in re.findall(r"[A-Za-z_]\w*", PLACEHOLDER.sub(" ", without_literals(code)))}
        if self.assume is None and (found := sorted(words.intersection(names))):
            raise UndecidedError(
                f"The C instruction '{self.id}' names '{found[0]}' in its code, which may be an undeclared access.",
                reason=f"the elements of '{found[0]}' that the code accesses are unknown",
                hint=hint.format(found[0]))

    def _require_operand(self, name: str, text: str, *, is_written: bool) -> None:
        parts, ranges = self.region(text.strip())
        texts = parts if ranges or is_written else [text]
        texts = [x for axis, part in enumerate(texts) for x in (ranges.get(axis) or (part,))]
        array = text.partition("[")[0].strip()
        if (ranges or is_written) and not _NAME.fullmatch(array):
            self._refuse(f"writes an element or a region as '{name}', and not '{text}'" if is_written else
                         f"reads a region of an array as '{name}', and not of '{text}'")
        if "" in texts:
            self._refuse(f"needs both bounds of each range of '{text}'", f"'{array}[..., 0:n]'")
        for part in texts:
            parse_expression(part, what=f"the operand '{name}' of the C instruction '{self.id}'")

    def _require_code(self, code: str, known: set[str]) -> None:
        for found in PLACEHOLDER.finditer(code):
            name, axis = found["name"], found["axis"]
            if name not in known:
                self._refuse(f"has the placeholder '${name}', but the operands are "
                             f"{', '.join(f'${x}' for x in sorted(known))}")
            text = self.reads.get(name, self.writes.get(name, ""))
            _, ranges = self.region(text.strip())
            if axis is not None and not (int(axis) < len(ranges) if axis else len(ranges) == 1):
                self._refuse(f"has the placeholder '{found[0]}', but '{text or name}' has {len(ranges)} ranges")
        plain = without_literals(code)
        if never := sorted(_NEVER.intersection(re.findall(r"\w+", plain))):
            self._refuse(f"has '{never[0]}' in its code, and runs inside of the loops of a kernel",
                         "an iname as an operand has the number of an iteration")
        if not is_balanced(plain) or "#" in plain:
            self._refuse("has brackets that do not match, or a directive, in its code",
                         "preamble= may have directives and functions")

    def _refuse(self, what: str, hint: str | None = None) -> NoReturn:
        raise PreconditionError(f"The C instruction '{self.id}' {what}.", subject=self.id, hint=hint)

    def __hash__(self) -> int:
        return hash((self.id, *self.reads, *self.writes))


def without_literals(code: str) -> str:
    """*code* without comments, and with empty literals.

    >>> without_literals('f("a{b", 1); /* } */ g(); // {')
    'f("", 1);   g(); '
    """
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'",
                  lambda found: " " if found[0][1:2] == "*" else "" if found[0][0] == "/" else found[0][0]*2, code,
                  flags=re.DOTALL)


def top_level(text: str, separator: str) -> Iterator[str]:
    """The parts of *text* between the separators that stand in no brackets.

    >>> list(top_level("i, f(j, 2), 0:n", ","))
    ['i', 'f(j, 2)', '0:n']
    """
    depth, start = 0, 0
    for at, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == separator and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


@dataclass(frozen=True, eq=False, repr=False)
class RegionRead(ReductionOperation):
    """The reduction that stands for a region that C code reads: it reads each element, in order."""

    combine: str = "3*a + b"                # no order of the elements is as good as another one

    @property
    def summary(self) -> str:
        return f"{self.name}: all elements of a region, which C code reads"


@dataclass(frozen=True, eq=False, repr=False)
class OpaqueValue(ScalarFunction):
    """The value that *instruction* writes to an element of its operand: unknown, but a function of what it reads.

    It has no text: the emitter replaces all statements of an instruction by the user's code.
    """

    instruction: CInstruction | None = None
    rules: ClassVar[tuple[str, ...]] = (UNKNOWN,)

    @property
    def claim(self) -> str:
        return "" if self.instruction is None else self.instruction.claim

    @property
    def ground(self) -> str:
        return "declared as a CInstruction" if self.instruction is None or self.instruction.assume is None else \
            self.instruction.assume

    @property
    def summary(self) -> str:
        return f"{self.name} of {self.arity}, an unknown value that C code writes"

    def value(self, *arguments: Any) -> Any:
        """The value for numpy scalars; :raises PreconditionError: the instruction has no Python reference."""
        given = self.instruction
        if given is None or given.reference is None:
            raise PreconditionError(f"The C code of '{given and given.id}' has no value in Python.", subject=self.name,
                                    hint="CInstruction(..., reference=a function of the values that it reads)")
        number, operands = list(given.writes).index(self.name.removeprefix(f"{given.id}_writes_")), arguments[
            :len(given.operands)]
        with OfReference(f"Python reference of the C code '{given.id}'", self.name, operands):
            result = given.reference(*operands)
            return result if len(given.writes) == 1 else result[number]

    def _key(self) -> tuple[object, ...]:
        return (*super()._key(), self.instruction)


