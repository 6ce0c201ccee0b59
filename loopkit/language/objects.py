"""Reads instructions and rules that are objects: their expressions become those that the parser makes of texts."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction
from loopkit.errors import ParseError
from loopkit.expr.kinds import DTYPE_NAMES, dtype_of
from loopkit.expr.mappers import conjunction, is_node, map_children
from loopkit.expr.nodes import COMBINED, Reduction, TypeCast
from loopkit.expr.number_literals import SPECIAL_NUMBERS
from loopkit.expr.parsing import BARE, ExpressionParser, NameUse, shared_variable
from loopkit.expr.tokens import Source, Token, tokenize
from loopkit.expr.tuple_parsing import with_fields
from loopkit.instructions.table import STATEMENT_INSTRUCTIONS
from loopkit.kernel.c_instruction import CInstruction
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.instruction import Assignment, CallInstruction, SubArrayRef
from loopkit.kernel.tags import user_tags
from loopkit.language import names
from loopkit.language.options import OptionParser
from loopkit.language.program import Claim, InameOptions, InstructionOptions, ParsedAssignment, Rule
from loopkit.poly.sets import InstanceSet

#: The objects that may stand among the texts of instructions.
InstructionObject = Assignment | CallInstruction | SubstitutionRule | CInstruction

#: Stands for an object in the text of a program.
_MARK = "\0"


def program_source(instructions: Iterable[str | InstructionObject]) -> Source:
    """The lines of a program, one of them for each object: the text of a call, and a mark for others."""
    lines, objects, start = list[str](), dict[int, object](), 0
    for item in instructions:
        line = item if isinstance(item, str) else _MARK
        lines.append(_call_line(item) if isinstance(item, CallInstruction) else line)
        if not isinstance(item, str):
            objects[start] = item
        start += len(lines[-1]) + 1
    return Source("\n".join(lines), "the instructions", objects)


def _call_line(call: CallInstruction) -> str:
    """The text of *call* without its user tags, which have none."""
    wrong = [x for x in (call.function, *call.parts) if not _is_part(x)]
    if wrong or not isinstance(call.function, str):
        raise ParseError(f"A call cannot have {(wrong or [call.function])[0]!r} as its function or as a part.",
                         line=None, column=None, expected="a name, and expressions of pymbolic, slices or texts",
                         source="CallInstruction(assignees, function, parameters)")
    try:
        line = str(call.copy(tags=frozenset(tag for tag in call.tags if isinstance(tag, str))))
    except RecursionError:
        line = "\n"
    if "\n" in line:
        raise ParseError(f"A part of the call of '{call.function}' does not fit in a line.", line=None, column=None,
                         expected="texts without line ends, and shorter expressions", source=f"{call.function}(...)")
    return line


def _is_part(given: object) -> bool:
    if isinstance(given, SubArrayRef):
        swept = given.swept_inames
        return isinstance(swept, str) or (isinstance(swept, tuple) and all(isinstance(x, str) for x in swept))
    return isinstance(given, str | int | float | complex | np.generic | p.ExpressionNode) or is_node(given)


@dataclass
class ObjectParser(OptionParser):
    """Parses expressions, and reads the object that the current token stands for."""

    def refused(self, message: str, expected: str, hint: str | None = None) -> ParseError:
        """The error about the current object."""
        return self.error(expected, message=message, hint=hint)

    # Expressions

    def read(self, given: object) -> Expression:
        """*given*, an expression or the text of one, as the parser makes it."""
        if not isinstance(given, str):
            return self._node(given, exact=False)
        source = Source(given, "an expression of an object")
        parser = ExpressionParser(source, tokenize(source), known=self.known)
        value = parser.expression()
        parser.end("an operator or the end")
        self.uses += [replace(use, start=self.tokens[self.at].start) for use in parser.uses]
        return value

    def _node(self, e: Any, *, exact: bool) -> Expression:
        """*e*; the integers of numpy are plain numbers where values are *exact*, in subscripts and index conditions."""
        self.enter()
        match e:
            case p.Variable(name=name):
                new = self._variable(name)
            case p.Subscript():
                new = self._subscript(e)
            case p.Call():
                new = self._called(e)
            case Reduction():
                new = self._reduced(e.operation, e.inames, e.expr, e.declared)
            case TypeCast() if not isinstance(e.dtype_name, str) and (dtype := dtype_of(e.dtype_name)) is not None:
                new = TypeCast(dtype.name, self._node(e.child, exact=exact))
            case p.NaN() if e.data_type is None or dtype_of(e.data_type) is not None:
                dtype, new = dtype_of(e.data_type), SPECIAL_NUMBERS["nan"]
                new = new if dtype is None else TypeCast(dtype.name, new)
            case p.CommonSubexpression():
                new = self._node(e.child, exact=exact)          # as cse(...) in a text
            case p.Comparison():
                index = _is_index(e.left) and _is_index(e.right)
                new = map_children(e, lambda child: self._node(child, exact=exact or index))
            case p.Sum() | p.Product() | p.LogicalAnd() | p.LogicalOr() if len(e.children) == 1:
                new = self._node(e.children[0], exact=exact)
            case p.Sum() | p.Product() | p.LogicalAnd() | p.LogicalOr() | p.Min() | p.Max() if len(e.children) < 2:
                raise self.refused(f"The node '{type(e).__name__}' has too few operands.", "two operands")
            case p.ExpressionNode() if is_node(e):
                new = map_children(e, lambda child: self._node(child, exact=exact))
            case _:
                new = self._number(e, exact)
        if isinstance(new, TypeCast) and new.dtype_name not in DTYPE_NAMES:
            raise self._unknown("dtype", new.dtype_name, DTYPE_NAMES, self.at)
        self.leave()
        return new

    def _number(self, value: Any, exact: bool) -> Expression:
        match value:
            case bool() | np.bool_():
                return bool(value)
            case np.generic() if value.dtype.name in DTYPE_NAMES:
                if exact and value.dtype.kind in "iu":
                    return int(value)
                return TypeCast(value.dtype.name, value.item() if value.dtype.kind in "iufc" else float(value))
            case int() if value.bit_length() > 64:
                raise self.refused(f"The integer {value} has more than 64 bits.", "a shorter integer")
            case complex() if not np.isfinite(value):
                raise self.refused(f"The number {value} is not finite.", "a finite number")
            case float() if value != value:
                return SPECIAL_NUMBERS["nan"]                   # one object, which equals itself in expressions
            case int() | float() | complex():
                return value
            case p.ExpressionNode():
                raise self.refused(f"The node '{type(value).__name__}' has no meaning in the kernel language.",
                                   "nodes of the kernel language")
            case _:
                raise self.refused(f"An expression cannot contain {value!r}.", "numbers and nodes of pymbolic")

    def _variable(self, name: str) -> Expression:
        if name in self.known.rules:
            return self.called((), name, self.at)
        self.uses.append(NameUse(name, BARE, self.tokens[self.at].start))
        return shared_variable(name)

    def _subscript(self, e: p.Subscript) -> Expression:
        if not isinstance(e.aggregate, p.Variable):
            raise self.refused(f"A subscript is of '{type(e.aggregate).__name__}', not of an array.", "an array")
        if not e.index_tuple:
            raise self.refused(f"'{e.aggregate.name}' has no subscript in its brackets.", "a subscript")
        index = self.from_start(e.aggregate.name, tuple(self._node(i, exact=True) for i in e.index_tuple), self.at)
        self.uses.append(NameUse(e.aggregate.name, len(index), self.tokens[self.at].start))
        return p.Subscript(shared_variable(e.aggregate.name), index[0] if len(index) == 1 else index)

    def _called(self, e: p.Call) -> Expression:
        if not isinstance(e.function, p.Variable):
            raise self.refused(f"A call is of '{type(e.function).__name__}', not of a function.", "a function")
        name, parameters, known = e.function.name, e.parameters, self.known
        if name in known.operations:
            operands = parameters[1:]
            inames = _iname_names(parameters[0]) if len(operands) in (1, len(known.operations[name].fields)) else ()
            if inames and set(known.inames).issuperset(inames):
                return self._reduced(name, inames, operands[0] if len(operands) == 1 else operands, ())
            if name not in ("min", "max") or len(parameters) < 2:
                raise self.refused(f"The reduction '{name}' needs inames and an operand.", f"{name}(k, operand)")
            return COMBINED[name](tuple(self._node(x, exact=False) for x in parameters))
        return self.called([self._node(x, exact=False) for x in parameters], name, self.at)

    def _reduced(self, operation: str, given: str | Sequence[str], operand: Expression, declared: tuple[str, ...]
                 ) -> Expression:
        inames, known = names.name_list(given), self.known
        if operation not in known.operations:
            raise self._unknown("reduction", operation, known.operations, self.at)
        if len(set(inames)) < max(1, len(inames)):
            raise self.refused(f"A reduction cannot run over {inames!r}.", "different inames")
        own: list[str] = []
        for text in declared:
            if set(known.inames).issuperset(inames):            # a part of the domains of the kernel
                self._require_set(text)
            elif known.read_domain is not None:
                own += known.read_domain(Source(text, "a domain of an object"), text, 0)
        self.known = replace(known, inames={*known.inames, *own}) if own else known
        for x in inames:
            if x not in self.known.inames:
                raise self._unknown("iname", x, self.known.inames, self.at)
        uses, bound = len(self.uses), len(self._bound)
        values = [self._node(x, exact=False) for x in (operand if isinstance(operand, tuple) else (operand,))]
        value = with_fields(self, known.operations[operation], tuple(inames), values, self.at)
        self._bind(inames, self.at, uses, bound)
        self.known = known
        return Reduction(operation, inames, value, declared)

    def _require_set(self, text: str) -> None:
        """:raises ParseError: *text* is not a set."""
        try:
            InstanceSet.parse(text)
        except ValueError:
            raise self.refused(f"isl cannot read the domain {text} of a reduction.", "a set") from None

    # Instructions and rules

    def object_assignment(self, given: Assignment) -> ParsedAssignment:
        """The node of *given*."""
        start, self.uses = self.tokens[self.at].start, []
        assignee = self.read(given.assignee)
        if not isinstance(assignee, p.Variable | p.Subscript):
            raise self.refused("The assignee is not an element of an array or a temporary.", "y[i], or t")
        # the uses in subscripts were added before their array, which must come first
        self.uses.insert(0, self.uses.pop())
        expression = self.read(given.expression)
        options = self._options_of(given)
        return ParsedAssignment(start, assignee, self.uses[0].name, expression, self._temporary(given), options,
                                tuple(self.uses), given.placed)

    def object_rule(self, given: SubstitutionRule) -> Rule:
        """The rule *given*, whose expression may be a text."""
        arguments = names.name_list(given.arguments)
        for name in (given.name, *arguments):
            if (fault := names.fault(name)) is not None:
                raise self.refused(f"'{name}' {fault}.", names.another(name))
        if len(set(arguments)) < len(arguments):
            raise self.refused("Two arguments of a rule have one name.", "different names")
        return self.rule(self.tokens[self.at].start, given.name, arguments, lambda: self.read(given.expr))

    def rule(self, start: int, name: str, arguments: Sequence[str], read: Callable[[], Expression]) -> Rule:
        """The rule *name* with the expression that *read* gives, in which an argument hides an iname of its name."""
        known, self.uses = self.known, []
        self.known = replace(known, inames=set(known.inames).difference(arguments))
        expression = read()
        self.known = known
        for use in self.uses:
            if use.name in arguments and use.rank >= 0:
                raise self.source.error(use.start, f"The argument '{use.name}' of '{name}' is subscripted.", "a value")
        uses = tuple(u for u in self.uses if u.name not in arguments)
        return Rule(start, SubstitutionRule(name, tuple(arguments), expression), uses)

    def _options_of(self, given: Assignment) -> InstructionOptions:
        start = self.tokens[self.at].start
        if given.id is not None and not (isinstance(given.id, str) and names.is_id(given.id)):
            raise self.refused(f"{given.id!r} cannot be the id of a statement.", "letters, digits and underscores")
        for name in (*given.depends_on, *given.no_sync_with, *(given.within_inames or ())):
            if not isinstance(name, str):
                raise self.refused(f"{name!r} is not a name.", "a text")
        dep, nosync, inames = (tuple(Token("name", x, start) for x in sorted(own or ())) for own in (
            given.depends_on, given.no_sync_with, given.within_inames))
        conditions = tuple(map(self.read, given.predicates))
        if objects := [tag for tag in given.tags if not isinstance(tag, str)]:
            user_tags(objects, f"'{given}'")
        return InstructionOptions(
            None if given.id is None else Token("name", given.id, start), dep, tuple(map(Claim, nosync)),
            InameOptions(inames, given.within_inames is not None), given.tags,
            conjunction(conditions) if conditions else None, tuple(map(self._instruction, given.instructions)))

    def _instruction(self, given: Instruction | str) -> Instruction:
        if isinstance(given, str):
            if given not in STATEMENT_INSTRUCTIONS:
                raise self._unknown("instruction", given, STATEMENT_INSTRUCTIONS, self.at)
            return STATEMENT_INSTRUCTIONS[given]
        return given

    def _temporary(self, given: Assignment) -> str | None:
        """The name of the dtype of the temporary that *given* declares, as in :class:`ParsedAssignment`."""
        if given.temp_var_type is None or given.temp_var_type == "auto":
            return None if given.temp_var_type is None else ""
        dtype = dtype_of(given.temp_var_type)
        if dtype is None:
            raise self.refused(f"A temporary cannot have the dtype {given.temp_var_type!r}.", "a dtype, or 'auto'")
        return dtype.name


def _is_index(e: object) -> bool:
    """Is *e* a sum of products of names and integers?"""
    if isinstance(e, p.Sum | p.Product):
        return all(map(_is_index, e.children))
    return isinstance(e, p.Variable | int | np.integer)


def _iname_names(first: object) -> tuple[str, ...]:
    """The names in the first argument of a call: a name, or a tuple of names."""
    parts = first if isinstance(first, tuple) else (first,)
    return tuple(e.name for e in parts if isinstance(e, p.Variable)) if all(
        isinstance(e, p.Variable) for e in parts) else ()
