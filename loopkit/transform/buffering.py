"""buffer_array: a staging buffer for a part of an array, copied in before its users and copied out after them."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, commute, data_params, origin
from loopkit.analysis.constructors import annotated
from loopkit.analysis.copy_out import require_buffered, require_collected, require_values_buffered
from loopkit.analysis.dependences import relations_of
from loopkit.analysis.legality import require_legal
from loopkit.analysis.must_writes import is_must_write
from loopkit.analysis.order import meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import parse_expression
from loopkit.expr.text import to_text
from loopkit.kernel.data import AddressSpace, ValueArg
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.obligation import Obligation
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import InameTag
from loopkit.language.names import name_list
from loopkit.poly.affine import is_quasi_affine
from loopkit.transform.buffers import Buffer, Points
from loopkit.transform.side_effects import Allowed
from loopkit.transform.staging import StagingBuffer, element, loops_around, require_inames, uses_of_array
from loopkit.transform.step import (
    as_address_space,
    as_tag,
    given_or_fresh,
    matching_statements,
    require_fresh,
    require_fresh_id,
    transform,
)


@transform
def buffer_array(kernel: LoopKernel, var_name: str, buffer_inames: str | Iterable[str],
                 init_expression: str | None = None, store_expression: str | None = None, *,
                 within: str | Collection[str] | None = None, default_tag: str | InameTag | None = "l.auto",
                 temporary_name: str | None = None, temporary_address_space: str | AddressSpace | None = None,
                 fetch_bounding_box: bool = False, init_insn_id: str | None = None, store_insn_id: str | None = None,
                 allow_reordering: bool = False, allow_global_storage: bool = False, allow_launches: bool = False,
                 assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Let statements use a staging buffer in place of the elements of an array that *buffer_inames* access.

    Copy-in runs before the users of the buffer, unless every element is a must-write before its first read; copy-out
    runs after them and stores the written elements. The loops around the buffer are those over inames in the subscripts
    that are not in *buffer_inames*; parallel inames of the grid also stay.

    For a temporary, copy-in loads the values written outside these loops, and copy-out stores the values read outside
    them. Loops shared with other users of the temporary also stay around the buffer.

    For atomic updates, the buffer accumulates the increments, and copy-out adds them to the array atomically. All loops
    but those of *buffer_inames* stay. An axis with a subscript read from memory is held whole, by its declared extent.

    :arg var_name: an array argument or a temporary.
    :arg buffer_inames: the inames whose iterations share one buffer.
    :arg init_expression: the value for copy-in, in terms of ``base``, the element of the array; default: ``base``.
    :arg store_expression: the value for copy-out, in terms of ``base`` and ``buffer``, the value in the buffer;
        default: ``buffer``. If either expression is given, *assume* or *unsafe* must vouch for equal results.
    :arg within: the statements that use the buffer; default: all that access the array.
    :arg default_tag: tag for the inames of the copies; ``"l.auto"`` distributes them over the block's threads.
    :arg fetch_bounding_box: copy in the whole bounding box, as far as it lies inside the array, in plain loops.
    :arg allow_reordering: as for :func:`add_prefetch`; so are *allow_global_storage* and *allow_launches*.
    :raises UnknownNameError: no such array or temporary, or an iname that no statement has.
    :raises NameConflictError: a name that is taken.
    :raises PreconditionError: nothing writes the array; a subscript or a bound is read from memory; the box has no
        constant size; the extents of the array for a whole box are unknown; a temporary belongs to a reduction, has a
        write that depends on data, or has no other users; an array with atomic updates has other users.
    :raises ScheduleError: the statements do not share a place for the buffer, or it needs one of the *allow* arguments.
    :raises StorageError, IllegalTransformError: the buffer would enlarge another temporary, miss a write of other
        statements, or hide its writes from them; or a block would read elements that another block writes concurrently.
    :raises UndecidedError: an expression was given without *assume* or *unsafe*.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<16 and 0<=k<m}", "y[i] = y[i] + a[i, k]")
    >>> print(lk.buffer_array(knl, "y", "i", default_tag=None).statements_text)
    for y_init_0
      y_buf[y_init_0] = y[y_init_0]  {id=init_y}
    end
    for i, k
      y_buf[i] = y_buf[i] + a[i, k]  {id=insn}
    end
    for y_store_0
      y[y_store_0] = y_buf[y_store_0]  {id=store_y}
    end
    """
    if var_name not in kernel.array_args and var_name not in kernel.temporaries:
        raise unknown("array", str(var_name), [*kernel.array_args, *kernel.temporaries])
    inames = name_list(buffer_inames)
    step = f"buffer_array({var_name!r}, {list(inames)})"
    users, operation = _users_of(kernel, step, var_name, within,
                                 bool(fetch_bounding_box or init_expression or store_expression))
    require_inames(inames, {x for s in users for x in s.inames}, f"the users of '{var_name}'")
    name = given_or_fresh(kernel, temporary_name, f"{var_name}_buf")
    require_fresh(kernel, name)
    staged = _spanning(StagingBuffer(
        kernel, step, var_name, inames, name, uses_of_array(var_name), partial(element, var_name),
        None if default_tag is None else as_tag(default_tag),
        None if temporary_address_space is None else as_address_space(temporary_address_space),
        (kernel.temporaries.get(var_name) or kernel.array_args[var_name]).dtype, fetch_bounding_box,
        Allowed(allow_reordering, allow_global_storage, allow_launches)), users, operation)
    buffer = Buffer(staged, *_ids_of(kernel, var_name, init_insn_id, store_insn_id),
                    _template(kernel, "init_expression", init_expression, "base"),
                    _template(kernel, "store_expression", store_expression, "base", "buffer"), operation)
    put_in = _of_updates if operation is not None else _of_values if buffer.of_value else _of_elements
    return staged.placed_best(lambda at: put_in(replace(buffer, staged=at), assume, unsafe))


def _of_elements(buffer: Buffer, assume: str | None, unsafe: bool) -> LoopKernel:
    """The buffer of an argument."""
    kernel, name, own, step = buffer.kernel, buffer.name, buffer.staged.temporary, buffer.staged.step
    points = buffer.points()
    result = buffer.put_in(points)
    if buffer.init is not None or buffer.store is not None:
        _require_dtype(buffer)
        return _answered_for(require_legal(result, step, assume=assume, unsafe=unsafe), step, name, assume, unsafe)
    if not any(source == buffer.load_id for source, _ in relations_of(result, own, "flow")):
        if sum(s.written == name for s in kernel.statements) > 1:
            _require_dtype(buffer)          # of one writer, array and buffer have the dtype
        result = buffer.put_in(Points(None, points.store))
    require_buffered(kernel, result, name, own, step)
    return require_legal(result, step, assume=assume, unsafe=unsafe)


def _of_updates(buffer: Buffer, assume: str | None, unsafe: bool) -> LoopKernel:
    """The buffer for the increments of atomic updates to an argument or a temporary."""
    _require_dtype(buffer)
    result = buffer.put_in(buffer.points())
    require_collected(buffer.kernel, result, buffer.name, buffer.staged.temporary, buffer.staged.step)
    return require_legal(result, buffer.staged.step, assume=assume, unsafe=unsafe)


def _of_values(buffer: Buffer, assume: str | None, unsafe: bool) -> LoopKernel:
    """The buffer of a temporary."""
    kernel, name, step = buffer.kernel, buffer.name, buffer.staged.step
    points = buffer.value_points()
    if points.load is None and points.store is None:
        raise PreconditionError(f"{step}: nothing but its own statements uses '{name}', so that a buffer would only be "
                                "another name for it.", subject=name,
                                hint="name the statements that shall use a buffer with within=")
    if points.load is None and not {s.id for s in kernel.statements if s.written == name} <= buffer.moves.keys():
        _require_dtype(buffer)
    result = buffer.put_in(points)
    require_values_buffered(kernel, result, name, buffer.staged.temporary, step)
    return require_legal(result, step, assume=assume, unsafe=unsafe)


# {{{ preconditions

def _users_of(kernel: LoopKernel, step: str, name: str, within: str | Collection[str] | None, is_special: bool
              ) -> tuple[list[Statement], str | None]:
    """The users of *name*, and the operation if they are atomic updates.

    :arg is_special: a whole box is requested, or an expression other than the array's element.
    """
    chosen = matching_statements(kernel, within)
    users = [s for s in kernel.statements if (chosen is None or s.id in chosen)
             and any(a.array == name for a in accesses_of(kernel, s))]
    operation = _operation_of(kernel, step, name, users)
    _require_usable(kernel, step, name, users, operation)
    if operation is None and name in kernel.temporaries:
        _require_values(kernel, step, name, users)
    if is_special and (operation is not None or name in kernel.temporaries):
        why = f"values, and of '{name}' a buffer collects what atomic updates add" if operation is not None else \
            f"arguments, and '{name}' is a temporary, of which only what has a value is loaded"
        raise PreconditionError(f"{step}: fetch_bounding_box=, init_expression= and store_expression= are for {why}.",
                                subject=name, hint="leave them out")
    return users, operation


def _ids_of(kernel: LoopKernel, name: str, init: str | None, store: str | None) -> tuple[str, str]:
    """The ids of loading and storing; :raises NameConflictError: one is taken."""
    ids = given_or_fresh(kernel, init, f"init_{name}"), given_or_fresh(kernel, store, f"store_{name}")
    require_fresh_id(kernel, ids[0])
    require_fresh_id(kernel, ids[1], ids[0])
    return ids


def _require_dtype(buffer: Buffer) -> None:
    """The dtype of an array with several writers is the join of theirs, that of a buffer the first one's."""
    if buffer.staged.dtype is None:
        raise PreconditionError(f"{buffer.staged.step}: '{buffer.name}' has no dtype yet, which its buffer takes.",
                                subject=buffer.name, hint=f"add_dtypes(knl, {{'{buffer.name}': ...}}) first")


def _template(kernel: LoopKernel, what: str, text: str | None, *placeholders: str) -> Expression | None:
    """The expression *text* of *placeholders* and value arguments."""
    if text is None:
        return None
    expr = parse_expression(str(text))
    values = {a.name for a in kernel.arguments if isinstance(a, ValueArg)}
    if other := variables(expr) - {*placeholders, *values}:
        raise PreconditionError(f"{what} is made of {' and '.join(placeholders)} and of value arguments, not of "
                                f"'{min(other)}'.", subject=min(other))
    return expr


def _answered_for(knl: LoopKernel, step: str, name: str, assume: str | None, unsafe: bool) -> LoopKernel:
    """*knl* with the obligation that the expressions change no value.

    :raises UndecidedError: neither *assume* nor *unsafe* is given.
    """
    if assume is None and not unsafe:
        raise UndecidedError(
            f"{step}: whether '{name}' gets the same values cannot be decided.",
            "init_expression= and store_expression= say what its buffer is loaded with and what of it is stored",
            hint='leave them out, or answer for them: assume="..."')
    owed = Obligation(step, f"what is loaded and stored leaves in '{name}' what its statements give it", assume)
    return annotated(knl, obligations=(*knl.obligations, owed))


def _operation_of(kernel: LoopKernel, step: str, name: str, users: Sequence[Statement]) -> str | None:
    """The operation of the atomic updates that all *users* are; ``None``: none is one."""
    accesses = [a for s in users for a in accesses_of(kernel, s) if a.array == name]
    updates = [a for a in accesses if a.update is not None]
    if not updates:
        return None
    other = next((a for a in accesses if not commute(a, updates[0])), None)
    if other is not None:
        raise PreconditionError(
            f"{step}: a buffer collects the atomic updates of '{name}' by one operation, as '{updates[0].statement}' "
            f"makes them; '{other.statement}' uses '{name}' otherwise.", subject=name,
            hint=f"name the updates alone: within='{updates[0].statement}'")
    return updates[0].update


def _ends_of_axes(kernel: LoopKernel, step: str, name: str, s: Statement) -> tuple[tuple[Expression, ...], ...]:
    """The subscripts of an update; of an axis whose subscript is read from memory, the first and the last element."""
    found: list[tuple[Expression, ...]] = []
    shape = array_shapes(kernel)[name]
    for a in accesses_of(kernel, s):
        if a.array != name:
            continue
        known = [is_quasi_affine(e, s.inames, kernel.value_params) for e in a.subscripts]
        for axis, extent in enumerate(shape):
            if not known[axis] and not isinstance(extent, int):
                raise PreconditionError(
                    f"{step}: '{s.id}' may touch any element along axis {axis} of '{name}', whose extent is not "
                    "declared or no constant.", subject=name,
                    hint=f"GlobalArg('{name}', shape=...), or fix_parameters")
        for last in (False, True):
            found.append(tuple(e if known[k] else extent - 1 if last and isinstance(extent, int) else 0
                               for k, (e, extent) in enumerate(zip(a.subscripts, shape, strict=True))))
    return tuple(dict.fromkeys(found))


def _require_usable(kernel: LoopKernel, step: str, name: str, users: Sequence[Statement], partial: str | None) -> None:
    if not any(s.written == name for s in users):
        raise PreconditionError(f"No statement writes '{name}'.", subject=name,
                                hint="to read a copy of it, add_prefetch")
    for rule in kernel.substitutions.values():
        if name in variables(rule.expr):
            raise PreconditionError(f"'{name}' is used by the substitution rule '{rule.name}'.", subject=name,
                                    hint=f"expand_subst(knl, '{rule.name}') first")
    for s in users:
        if data := data_params(kernel, s.domain):
            raise PreconditionError(f"{step}: a bound of '{s.id}' is {origin(kernel, data)}.", subject=s.id,
                                    hint="leave this statement out with within=")
        for a in accesses_of(kernel, s):
            if a.array == name and partial is None and not a.affine:
                at = ", ".join(map(to_text, a.subscripts))
                raise PreconditionError(f"{step} needs affine subscripts, but '{s.id}' touches '{name}[{at}]'.",
                                        subject=name, hint="leave this statement out with within=")


def _require_values(kernel: LoopKernel, step: str, name: str, users: Sequence[Statement]) -> None:
    """The preconditions for the buffer of a temporary, beyond those for an argument."""
    if any(name == node.accumulator for node in kernel.reductions.values()):
        raise PreconditionError(f"{step}: '{name}' holds what a reduction has combined so far.", subject=name,
                                hint="buffer what the reduction is written to")
    for s in users:
        if any(a.array == name and a.is_write and not is_must_write(a) for a in accesses_of(kernel, s)):
            raise PreconditionError(f"{step}: whether '{s.id}' writes '{name}' depends on data, so that it is not "
                                    "known which values are to be loaded.", subject=name,
                                    hint="leave this statement out with within=, or write the old value where the "
                                         "condition fails: if(condition, new, old)")


def _spanning(buffer: StagingBuffer, users: Sequence[Statement], operation: str | None) -> StagingBuffer:
    """*buffer* with its users and its loops: those that distinguish cells; for updates, all but the swept ones."""
    kernel, name = buffer.kernel, buffer.name
    uses = {s.id: tuple(dict.fromkeys(a.subscripts for a in accesses_of(kernel, s) if a.array == name)) for s in users}
    stay = {x for arguments in uses.values() for args in arguments for e in args for x in variables(e)}
    if name in kernel.temporaries:
        # a value that enters or leaves an iteration is copied in or out there
        others = [s.id for s in kernel.statements if s.id not in uses
                  and any(a.array == name for a in accesses_of(kernel, s))]
        stay = stay.union(*(meeting_of(kernel.paths, u, o).loops for u in uses for o in others))
    outer = loops_around(kernel, name, dict.fromkeys(uses, stay if operation is None else kernel.inames),
                         buffer.sweep)
    return replace(buffer, outer=outer, uses=uses if operation is None else {
        s.id: _ends_of_axes(kernel, buffer.step, name, s) for s in users})

# }}}
