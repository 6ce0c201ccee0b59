"""The text of a loop program, which ``print(lk.lower(knl))`` prints."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import (
    Assign,
    Block,
    Call,
    Define,
    For,
    Function,
    FunctionBody,
    If,
    OneStep,
    Program,
    Region,
    Sync,
    Tiles,
    own_instructions,
)
from loopkit.expr.nodes import to_text
from loopkit.expr.tuples import dtype_text

#: Operations that C has an assignment for; the others print by name: ``max=``.
_OPERATORS = {"sum": "+", "product": "*", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}


def program_text(program: Program) -> str:
    """*program* as text: its launches one after another, after the host's loops, if there are any.

    >>> import pymbolic.primitives as p
    >>> body = Block((For("i", 0, p.Variable("n"), 1, Block((Assign(p.Variable("s"), 1, "sum", "insn"),))),))
    >>> print(program_text(Program((Function("count", {}, {}, (), body),), Block((Call("count"),)))))
    launch count
      for i in 0 .. n
        s += 1  {id=insn}
    """
    host = [] if program.host_order is None else [["host", *_lines(program.order, 1)]]
    return "\n\n".join("\n".join(part) for part in (*host, *map(_function_lines, program.functions)))


def block_text(block: Block) -> str:
    """The nodes of *block* as text."""
    return "\n".join(_lines(block, 0))


def _function_lines(function: Function) -> Iterator[str]:
    clusters = f", clusters of {function.cluster} blocks" if function.cluster > 1 else ""
    yield f"launch {function.name}{', blocks by tickets' if function.ticketed else ''}{clusters}"
    axes = [f"{axis}: {to_text(function.extents[axis])}" for axis in sorted(function.extents)]
    if axes:
        yield f"  axes {', '.join(axes)}"
    yield from (f"  let {iname} = {to_text(value)}" for iname, value in function.coordinates.items())
    yield from (f"  {described}" for described in (*function.tensor_maps, *map(_array, function.arrays)))
    yield from _lines(function.body, 1)


def _array(array: Array) -> str:
    extents = "".join(f"[{e}]" for e in array.shape)
    lasting = ", live across regions" if array.across_regions else ""
    where = "warp" if array.thread_axes else "shared" if array.shared else "constant" if array.initializer \
        else "private"
    note = f"  # {array.note}" if array.note else ""
    return f"{where} {dtype_text(array.dtype)} {array.name}{extents}{lasting}{note}"


def _lines(block: Block, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for node in block.children:
        match node:
            case Assign():
                operator = "=" if node.combine is None else f"{_OPERATORS.get(node.combine, node.combine)}="
                options = ", ".join((f"id={node.statement}", *(title for i in node.instructions for title in i.titles)))
                yield f"{pad}{to_text(node.target)} {operator} {to_text(node.value)}  {{{options}}}"
            case For():
                step = "" if node.step == 1 else f" step {node.step}"
                yield (f"{pad}for {node.iname} in {to_text(node.start)} .. {to_text(node.stop)}{step}"
                       f"{'  [unroll]' if node.unroll else ''}")
                yield from (f"{pad}  # {title}" for i in own_instructions(node) for title in i.titles)
                yield from _lines(node.body, depth + 1)
            case If():
                yield f"{pad}if {to_text(node.condition)}{f'  # {node.comment}' if node.comment else ''}"
                yield from _lines(node.then, depth + 1)
                if node.otherwise is not None:
                    yield f"{pad}else"
                    yield from _lines(node.otherwise, depth + 1)
            case Define():
                yield f"{pad}let {node.name} = {to_text(node.value)}"
            case Sync():
                yield f"{pad}{node.title}"
                yield from (f"{pad}  # {reason}" for reason in node.serves)
            case Call():
                yield f"{pad}launch {node.name}"
            case Region():
                yield f"{pad}region{''.join(f'  [{title}]' for i in own_instructions(node) for title in i.titles)}"
                yield from _lines(node.body, depth + 1)
            case Tiles():
                groups = f", in groups of {node.group}" if node.group else ""
                yield f"{pad}at each place of the block, one of {node.blocks}{groups}"
                yield from _lines(node.body, depth + 1)
            case FunctionBody():
                yield f"{pad}call {node.call}"
                yield from _lines(node, depth + 1)
            case Block():
                yield f"{pad}{'one step' if isinstance(node, OneStep) else 'block'}"
                yield from _lines(node, depth + 1)
