"""The text of C instructions: the user's code, with constants and pointers for its operands."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent

from pymbolic.typing import Expression

from loopkit.ast.value_ranges import ValueRanges
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of
from loopkit.expr.nodes import product_of, to_text
from loopkit.instructions.base import Printer, indented
from loopkit.kernel.c_instruction import PLACEHOLDER, CInstruction
from loopkit.lowering.c_instructions import UserCode, UserOperand
from loopkit.poly.affine import add, multiply
from loopkit.target.c.dialect import Syntax
from loopkit.target.memory import Addresses, Flat


def code_lines(code: UserCode, printer: Printer, addresses: Addresses, size: Callable[[Expression], str],
               bounds: ValueRanges, syntax: Syntax) -> Iterator[str]:
    """The text: constants for what is read, and the code in a block that ``break`` does not leave.

    :arg size: the text of an expression of sizes.
    """
    text = dedent(code.instruction.code_for(syntax.name)).strip("\n")
    own, declared = dict[str, str](), list[str]()
    used = {found["name"] for found in PLACEHOLDER.finditer(text)}
    for part in (x for x in code.parts if x.name in used or x.steps):
        place = printer.place(part.element, bounds)
        own[part.name] = f"(*{part.local})" if part.is_written and not part.steps else part.local
        if part.steps or part.is_written:
            kind = syntax.memories.get(printer.memory_of(part.element), "") + ("" if part.is_written else "const ")
            declared.append(f"{kind}{printer.type_name(printer.dtype_of(part.element))} *{part.local} = &{place};")
            for number, stride in enumerate(_strides(part, addresses)):
                name = f"{part.local}_stride{number if len(part.steps) > 1 else ''}"
                if _is_used(code.instruction, part, number, stride, text):
                    declared.append(f"const {printer.index} {name} = {size(stride)};")
                own |= {f"{part.name}.stride{number}": name, f"{part.name}.stride": name}
        elif place != part.local:
            # the code cannot mistake a name in the subscripts of the temporary for one of its own
            own[part.name] = f"{part.local}_value"
            declared.append(f"const {printer.type_name(printer.dtype_of(part.element))} {own[part.name]} = {place};")
    yield f"do {{  // the user's C code '{code.instruction.id}'"
    yield from indented(declared)
    yield from indented(PLACEHOLDER.sub(lambda found: own[found[0][1:]], without_line_comments(text)).split("\n"))
    yield "} while (0);"


def _is_used(given: CInstruction, part: UserOperand, number: int, stride: Expression, code: str) -> bool:
    """Does the *code* use a stride? :raises PreconditionError: it does not, and elements are not adjacent."""
    names = [f"{part.name}.stride{number}", *([f"{part.name}.stride"] if len(part.steps) == 1 else [])]
    used = any(found[0][1:] in names for found in PLACEHOLDER.finditer(code))
    if not used and stride != 1:
        raise PreconditionError(
            f"The elements of '{part.name}' of the C instruction '{given.id}' are {to_text(stride)} "
            "apart, and its code does not use their distance.", subject=given.id,
            hint=f"write ${names[-1]} into the code: ${part.name}[k*${names[-1]}]")
    return used


def _strides(part: UserOperand, addresses: Addresses) -> Iterator[Expression]:
    """The distance of two elements along each range, in elements."""
    if not part.steps:
        return
    place = addresses.arrays[array_of(part.element)]
    shape = place.shape if isinstance(place, Flat) else part.shape
    assert shape is not None
    strides: list[Expression] = list(place.strides) if isinstance(place, Flat) and place.strides else \
        [_extent_product(shape[axis + 1:]) for axis in range(len(shape))]
    for step in part.steps:
        yield add(*(multiply(count, stride) for count, stride in zip(step, strides, strict=True) if count))


def _extent_product(extents: Sequence[Expression | None]) -> Expression:
    result: Expression = 1
    for extent in extents:
        assert extent is not None
        result = multiply(result, extent) if isinstance(result, int) else product_of(result, extent)
    return result


def without_line_comments(code: str) -> str:
    """*code* with comments that may be continued on the next line.

    >>> without_line_comments('f("//");  // calls f')
    'f("//");  /* calls f */'
    """
    return re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|/\*.*?\*/|//([^\n]*)",
                  lambda found: found[0] if found[1] is None else f"/*{found[1].rstrip()} */", code, flags=re.DOTALL)
