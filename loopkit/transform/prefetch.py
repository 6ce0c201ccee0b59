"""add_prefetch and precompute: copy array elements, or the values of substitution rules, into a temporary."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_to, analysis_domain, declared, expand_rules, uses_at
from loopkit.analysis.constructors import annotated, rewritten
from loopkit.analysis.copy_in import require_copied_in
from loopkit.analysis.dependences import End, joined, moved_dependences
from loopkit.analysis.match import Within, matching_names
from loopkit.errors import PreconditionError, UnknownNameError, require_known
from loopkit.expr.dtypes import Weak, type_of
from loopkit.expr.indices import Typed, index_value, is_of_values
from loopkit.expr.mappers import called, children, element, has_reduction, subexpressions, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.expr.parsing import ExpressionParser
from loopkit.expr.tokens import Source, tokenize
from loopkit.kernel.data import AddressSpace, SubstitutionRule
from loopkit.kernel.folding import reducing_rules, uses_of_rule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import GroupTag, InameTag
from loopkit.poly.affine import add, multiply
from loopkit.poly.elements import box_hull
from loopkit.poly.sets import InstanceSet, Map
from loopkit.transform.data import as_dtype
from loopkit.transform.engines import Engine
from loopkit.transform.reducing_rules import tag_of_values, with_calls, with_reductions, with_rules_of_copy
from loopkit.transform.side_effects import Allowed
from loopkit.transform.staging import BoxRequest, Staged, StagingBuffer, temporary_for
from loopkit.transform.step import matching_statements, new_id, transform
from loopkit.transform.subst import rules_using, with_free_inames, with_rules_in, without_rules


@transform
def add_prefetch(kernel: LoopKernel, var_name: str, sweep_inames: str | Iterable[str] = (), *,
                 dim_arg_names: str | Iterable[str] | None = None, default_tag: str | InameTag | None = "l.auto",
                 fetch_outer_inames: str | Iterable[str] | None = None, temporary_name: str | None = None,
                 temporary_address_space: str | AddressSpace | None = None,
                 fetch_bounding_box: bool = False, box_multiples: int | Sequence[int] = 1,
                 prefetch_insn_id: str | None = None, within: Within = None, engine: str = "register",
                 swizzle: int = 0, allow_reordering: bool = False, allow_global_storage: bool = False,
                 allow_launches: bool = False, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Copy the elements of an array that are read over *sweep_inames* into a temporary, and read the temporary instead.

    The copy is in the innermost loop of *fetch_outer_inames*, right before the part that reads it. The temporary holds
    the bounding box of the read elements. For a single reference, only the elements that it reads are copied; for
    several (a stencil), the gaps between them too. The writers and readers of the copy determine its address space:
    shared memory if threads read each other's elements.

    :arg var_name: an array argument or a temporary. ``"a[i, :]"`` selects accesses with the subscript ``i``, or its
        parts if it was split, and any second one, whose inames are also swept, except those of the grid.
    :arg sweep_inames: the inames whose iterations share one copy, ``"i, j"`` or a sequence; none: it is one element.
    :arg dim_arg_names: names for the inames of the copy; default: ``a_dim_0``, ... for an array ``a``.
    :arg default_tag: their tag; ``"l.auto"`` distributes them over the threads of the block, ``None`` leaves loops.
    :arg fetch_outer_inames: the loops around the copy; default: the reader's inames, except *sweep_inames* and those on
        which the read elements do not depend. Parallel inames of the grid always stay, and so do the inames of loops
        that write the array. All inames stay if a move would break a given order or enlarge storage.
    :arg fetch_bounding_box: copy all of the box, as far as it lies inside the array. The loops of the copy then have
        the simplest bounds.
    :arg box_multiples: with *fetch_bounding_box*: round the lengths of the box up to multiples of these numbers, one
        for each axis with more than one element, or one number for all axes. If a loop of the copy is split by such a
        number, it has no remainder and no guard.
    :arg engine: ``"register"``: threads load and store the elements; ``"cp.async"`` (sm_80), with ``"l.auto"`` in
        vectors of up to 16 bytes; or ``"tma"`` (sm_90): one thread starts the copy of a box (:func:`tensorize`). The
        last two are asynchronous, and :func:`pipeline` lets them run ahead.
    :arg swizzle: 32, 64 or 128: the temporary has rows of so many bytes, and their 16-byte pieces are permuted, as
        matrix units read and TMA writes them. 0: no permutation. Wider rows become several boxes, one below another.
    :arg allow_reordering: loops with a given order may be reordered or distributed. ``for`` blocks,
        ``prioritize_loops``, ``interchange``, ``tile``, ... give an order.
    :arg allow_global_storage: existing temporaries may get more cells, or cells in a larger address space, and the copy
        may be in global memory.
    :arg allow_launches: there may be more launches, or loops of the host.
    :raises UnknownNameError: there is no such array or engine, or no reader has an iname.
    :raises PreconditionError: the engine cannot copy such rows; nothing reads the array; a subscript is not affine,
        even for each value of an iname; the box has no constant size; *fetch_bounding_box* is given for an array that
        the kernel writes, or of unknown extents; *box_multiples* are not positive integers, one for each axis, or come
        without *fetch_bounding_box*.
    :raises ScheduleError, StorageError: the readers share no place for the copy, or the copy needs a change that no
        *allow* argument permits.
    :raises IllegalTransformError: the copy would miss a write, or moving a loop to make room breaks a dependence.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<16}", "y[i] = sum(j, a[j]*x[i, j])")
    >>> print(lk.add_prefetch(knl, "a", "j").statements_text)
    for a_dim_0 [l.auto]
      a_fetch[a_dim_0] = a[a_dim_0]  {id=a_fetch_rule}
    end
    for i
      y[i] = sum(j, a_fetch[j]*x[i, j])  {id=insn}
    end
    """
    mover = Engine.of(engine, swizzle, default_tag)
    name, only = _chosen_accesses(kernel, var_name)
    require_known("array", [name], kernel.data)
    # a rule that holds a reduction is a name for it, and stays
    plain = rules_using(kernel, [name]) - {rule.name for rule in reducing_rules(kernel)}
    kernel, sweep = without_rules(kernel, plain), matching_names(sweep_inames, kernel.inames)
    dtype, staged = kernel.data[name].dtype, Staged(name, partial(element, name), only=only)
    sweep = tuple(dict.fromkeys((*sweep, *_inames_of_whole_axes(kernel, staged, var_name, within))))
    return _staged(StagingBuffer(
        kernel, f"add_prefetch({var_name!r}, {list(sweep)})", staged,
        temporary_for(kernel, temporary_name, f"{name}_fetch", dtype, temporary_address_space),
        BoxRequest(sweep, mover.tag_before, fetch_bounding_box, dim_arg_names, box_multiples),
        Allowed(allow_reordering, allow_global_storage, allow_launches, assume, unsafe)),
        fetch_outer_inames, prefetch_insn_id, within, mover)


def _chosen_accesses(kernel: LoopKernel, text: str) -> tuple[str, tuple[Expression | None, ...]]:
    """The name of the array in ``"a"`` or ``"a[i, :]"``, and the subscripts; ``None`` for a colon.

    An iname that a step has split stands for its parts.

    :raises ParseError: *text* has another form.
    """
    name, bracket, _ = text.partition("[")
    if not bracket:
        return text.strip(), ()
    source = Source(text, "var_name")
    parser = ExpressionParser(source, tokenize(source))
    parser.name("the name of an array")
    parser.take("[")
    found = parser.separated(lambda: None if parser.accept(":") else parser.expression())
    parser.take("]", "',' or ']'")
    parser.end()
    return name.strip(), tuple(None if e is None else _of_present_inames(kernel, e) for e in found)


def _of_present_inames(kernel: LoopKernel, expr: Expression) -> Expression:
    """*expr* with the parts of inames that ``split_iname`` has replaced."""
    for step in kernel.history.steps if not variables(expr) <= set(kernel.inames) else ():
        given = {**dict(zip(("split_iname", "inner_length"), step.args, strict=False)), **dict(step.kwargs)}
        if step.name == "split_iname" and isinstance(length := given["inner_length"], int):
            outer, inner = (p.Variable(str(given.get(f"{part}_iname") or f"{given['split_iname']}_{part}"))
                            for part in ("outer", "inner"))
            expr = substitute(expr, {str(given["split_iname"]): add(multiply(length, outer), inner)})
    return expr


def _inames_of_whole_axes(kernel: LoopKernel, staged: Staged, text: str, within: Within
                          ) -> Iterator[str]:
    """The inames in those subscripts of the chosen accesses for which *text* has a colon, except those of the grid.

    :raises PreconditionError: no access has the subscripts of *text*.
    """
    if not staged.only:
        return
    chosen = matching_statements(kernel, within)
    every = [args for s in kernel.statements if s.id in chosen
             for args, _ in uses_at(kernel, s, replace(staged, only=()).is_use)]
    uses = [args for args in every if len(args) == len(staged.only) and staged.is_use(element(staged.name, args))]
    if every and not uses:
        shown = dict.fromkeys(to_text(element(staged.name, args)) for args in every)
        raise PreconditionError(f"No statement reads '{text}'.", subject=text,
                                hint=f"'{staged.name}' is read as {', '.join(shown)}")
    for args in uses:
        for wanted, given in zip(staged.only, args, strict=True):
            yield from (x for x in sorted(variables(given) & set(kernel.inames))
                        if wanted is None and not isinstance(kernel.tags.get(x), GroupTag))


@transform
def precompute(kernel: LoopKernel, subst_use: str, sweep_inames: str | Iterable[str] = (), *,
               precompute_inames: str | Iterable[str] | None = None, default_tag: str | InameTag | None = "l.auto",
               precompute_outer_inames: str | Iterable[str] | None = None, temporary_name: str | None = None,
               temporary_address_space: str | AddressSpace | None = None, fetch_bounding_box: bool = False,
               box_multiples: int | Sequence[int] = 1, compute_insn_id: str | None = None,
               dtype: npt.DTypeLike | None = None, within: Within = None, engine: str = "register", swizzle: int = 0,
               allow_reordering: bool = False, allow_global_storage: bool = False, allow_launches: bool = False,
               assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Compute the values of a substitution rule over *sweep_inames* into a temporary, and read the temporary instead.

    :arg subst_use: the name of the rule.
    :arg sweep_inames: the inames whose iterations share the computed values. For a temporary in global memory, their
        ranges may depend on the sizes.
    :arg precompute_inames: names for the inames of the computation, one for each argument of the rule or for each axis
        with more than one element; default: ``f_dim_0``, ... for a rule ``f``.
    :arg default_tag: as for :func:`add_prefetch`. Values that the threads of a block compute together, by a reduction
        over one of their axes, are computed in sequence in place of ``"l.auto"``.
    :arg precompute_outer_inames: the loops around the computation, as for :func:`add_prefetch`.
    :arg fetch_bounding_box: compute the whole bounding box of the read values (also for the cross of a stencil), as far
        as the operands lie inside their arrays. The loops of the computation then have the simplest bounds.
    :arg box_multiples: as for :func:`add_prefetch`; so are *engine*, *swizzle* and the *allow* arguments. The values
        that ``"cp.async"`` and ``"tma"`` copy are elements of an array, or zeros outside of it.
    :arg dtype: dtype of the temporary; default: that of the rule's values. A rule of only inames, sizes and literals
        needs it.
    :raises UnknownNameError: there is no such rule or engine, or no use has an iname.
    :raises PreconditionError: nothing uses the rule, an argument is not affine, the box has no constant size, or the
        dtype of the rule's values depends on the context; a reduction of the rule is conditional, or its domain depends
        on inames that the rule does not mention; or *fetch_bounding_box* is given and the rule reads an array that the
        kernel writes, or an array of unknown extents.
    :raises IllegalTransformError: the computation would miss a write, or moving a loop breaks a dependence.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<m}", "f(s) := sin(x[s])\\n y[i, j] = f(i)*z[j]")
    >>> print(lk.precompute(knl, "f", "i", default_tag=None).statements_text)
    for f_dim_0
      f_0[f_dim_0] = sin(x[f_dim_0])  {id=f_0_rule}
    end
    for i, j
      y[i, j] = f_0[i]*z[j]  {id=insn}
    end
    """
    mover = Engine.of(engine, swizzle, default_tag)
    if subst_use not in kernel.substitutions:
        raise UnknownNameError("substitution rule", subst_use, kernel.substitutions)
    kernel, sweep = without_rules(kernel, rules_using(kernel, [subst_use])), matching_names(sweep_inames, kernel.inames)
    rule, inside = with_free_inames(kernel, kernel.substitutions[subst_use], sweep)
    reduced: tuple[InstanceSet, ...] = ()
    if has_reduction(rule.expr):
        kernel, reduced = with_calls(kernel, rule, matching_statements(kernel, within))
    # a reduction has the dtype of its accumulator, also in a subscript
    value = rule.expr if reduced else _own_value(kernel, rule, within, typed=dtype is not None)
    # swept inames that the rule mentions freely become its arguments
    free = tuple(x for x in sweep if x in variables(rule.expr) and x not in rule.arguments)
    staged = Staged(subst_use, lambda args: substitute(value, dict(zip((*rule.arguments, *free), args, strict=True))),
                    free)
    given = None if dtype is None else as_dtype(dtype, f"The rule '{subst_use}'")
    request = BoxRequest(sweep, tag_of_values(kernel, rule, mover.tag_before), fetch_bounding_box, precompute_inames,
                         box_multiples)
    step, allowed = f"precompute({subst_use!r}, {list(sweep)})", Allowed(
        allow_reordering, allow_global_storage, allow_launches, assume, unsafe)
    result = _staged(StagingBuffer(
        kernel, step, staged, temporary_for(kernel, temporary_name, subst_use, given, temporary_address_space),
        request, allowed),
        precompute_outer_inames, compute_insn_id, within, mover,
        lambda made, copy: allowed.legal(with_reductions(made, copy, rule, reduced), step) if reduced else made)
    made = result.statement_by_id.keys() - kernel.statement_by_id.keys()
    if any(True for s in result.statements if s.id not in made
           for _ in (uses_of_rule(result, rule, s) if reduced else uses_at(result, s, staged.is_use))):
        return result
    rest = {name: r for name, r in result.substitutions.items() if name != subst_use}
    return with_rules_in(rewritten(result, substitutions=rest), made, inside, sweep)


def _own_value(kernel: LoopKernel, rule: SubstitutionRule, within: Within, *, typed: bool) -> Expression:
    """The body of *rule* as its cells hold it: an index if the rule is part of a subscript.

    :arg typed: the cells have a dtype of their own.
    """
    dtype_of = partial(type_of, lookup=partial(declared, kernel))
    expr = expand_rules(rule.expr, kernel.substitutions)
    given = dtype_of(expr)
    index = index_value(expr, dtype_of)
    places = set(_uses_in_subscripts(kernel, rule, within, dtype_of)) if index != expr else {False}
    if True not in places:
        if isinstance(given, Weak) and not typed:
            raise PreconditionError(
                f"The context of each use determines the dtype of the rule '{rule.name}', because it contains only "
                "inames, sizes and literals.", subject=rule.name,
                hint="dtype='int64', or write cast(int64, ...) in the rule")
        return rule.expr
    if False in places:
        raise PreconditionError(
            f"'{rule.name}' is used in a subscript, with the width of an index type, and in a value, with the dtype of "
            "its operands: one temporary cannot hold both.", subject=rule.name,
            hint="select the statements of one kind by within=, or write cast(int64, ...) around the operands of the "
                 "rule")
    compared = (e for e in subexpressions(expr) if isinstance(e, p.Comparison | p.Call))
    if any(dtype_of(e) is None for c in compared for e in children(c)):
        raise PreconditionError(f"'{rule.name}' compares operands of unknown dtypes in a subscript.",
                                subject=rule.name, hint="declare them with add_dtypes")
    return index


def _uses_in_subscripts(kernel: LoopKernel, rule: SubstitutionRule, within: Within, typed: Typed
                        ) -> Iterator[bool]:
    """For each use of *rule* in the statements, whether it is a part of a subscript."""
    others = {name: r for name, r in kernel.substitutions.items() if name != rule.name}
    chosen = matching_statements(kernel, within)

    def walk(e: Expression, *, inside: bool) -> Iterator[bool]:
        if e == p.Variable(rule.name) or (isinstance(e, p.Call) and e.function == p.Variable(rule.name)):
            yield inside
        inside = isinstance(e, p.Subscript) or (inside and not is_of_values(e, typed))
        for child in e.index_tuple if isinstance(e, p.Subscript) else children(e):
            yield from walk(child, inside=inside)
    for e in (e for s in kernel.statements if s.id in chosen for e in (s.assignee, s.expression)):
        yield from walk(expand_rules(e, others), inside=False)


#: For each reader the arguments of its uses, and the instances that evaluate them: a branch of an ``if`` excludes some.
_Readers = Mapping[str, Mapping[tuple[Expression, ...], InstanceSet]]


def _staged(buffer: StagingBuffer, outer: str | Iterable[str] | None, copy_id: str | None, within: Within,
            engine: Engine, complete: Callable[[LoopKernel, str], LoopKernel] = lambda made, copy: made) -> LoopKernel:
    """The kernel of *buffer* with a copy in the loops over *outer*; its readers *within* read the copy.

    :arg complete: gives the copy of this id its further statements.
    """
    kernel, name = buffer.kernel, buffer.name
    chosen = matching_statements(kernel, within)
    readers = {s.id: uses for s in kernel.statements
               if s.id in chosen and (uses := joined(uses_at(kernel, s, buffer.staged.is_use)))}
    if not readers:
        raise _no_reader(buffer, chosen)
    own_id = new_id(kernel, copy_id, f"{buffer.temporary.name}_rule")
    require_known("iname", buffer.request.sweep, [x for s in readers for x in kernel.statement_by_id[s].inames],
                  where=f"the readers of '{name}'")
    place = _outer_inames(buffer, None if outer is None else matching_names(outer, kernel.inames), readers)
    return engine.moving(replace(buffer, uses=readers, outer=place).placed_best(
        lambda at: complete(_with_copy(at, own_id, readers), own_id), fixed=outer is not None), own_id)


def _no_reader(buffer: StagingBuffer, chosen: frozenset[str]) -> PreconditionError:
    kernel, name = buffer.kernel, buffer.name
    for s in kernel.statements:
        if s.id in chosen and any(name in variables(e) | called(e) for e in s.predicates):
            return PreconditionError(f"Only conditions read '{name}', such as that of '{s.id}': a copy serves "
                                     "expressions and subscripts.", subject=name,
                                     hint="assign the operand of the condition to a temporary, and test that")
    return PreconditionError(f"No statement reads '{name}'.", subject=name,
                             hint="only conditions use the rule: they contain its body, which a copy cannot replace"
                             if name in kernel.substitutions and any(s.predicates for s in kernel.statements)
                             else None if chosen == kernel.statement_by_id.keys() else "name its readers with within=")


def _outer_inames(buffer: StagingBuffer, given: tuple[str, ...] | None,
                  readers: _Readers) -> tuple[str, ...]:
    """The loops around the copy, the same for all readers: those *given*, or those in which the copy differs."""
    kernel, sweep, others = buffer.kernel, buffer.request.sweep, ", or give fetch_outer_inames"
    if given is not None:
        for s in readers:
            require_known("iname", given, kernel.statement_by_id[s].inames, where=f"'{s}'")
        return buffer.loops_around(dict.fromkeys(readers, given), set(kernel.inames).difference(given), others)
    # an array written in the kernel has another value in each iteration of its writers' loops
    value = buffer.staged.value(next(args for uses in readers.values() for args in uses))
    sources = variables(expand_rules(value, kernel.substitutions))
    rewritten = {x for s in kernel.statements if s.written in sources for x in s.inames}
    own = sources & set(kernel.inames)              # the free inames of a rule
    stay = {s: rewritten.union(own, *(variables(a) for args in uses for a in args)) for s, uses in readers.items()}
    return buffer.loops_around(stay, sweep, others)


def _with_copy(buffer: StagingBuffer, copy_id: str, readers: _Readers) -> LoopKernel:
    kernel, allowed = buffer.kernel, buffer.allowed
    moves = {s: [buffer.cell_of(analysis_domain(kernel, kernel.statement_by_id[s]), args).intersect_domain(at.set)
                 for args, at in uses.items()] for s, uses in readers.items()}
    if buffer.request.whole:        # it may have an element without a value, which no statement reads
        value = expand_rules(buffer.staged.value(buffer.box.arguments()), kernel.substitutions)
        if written := variables(value) & (kernel.temporaries.keys() | kernel.written_names):
            raise PreconditionError(
                f"{buffer.step}: unread elements of the box of '{buffer.name}' would be computed from "
                f"'{min(written)}', which the kernel may not have written yet.", subject=min(written),
                hint="leave fetch_bounding_box out")
    images = [kernel.statement_by_id[s].domain.apply(move, buffer.inames) for s, own in moves.items() for move in own]
    points = reduce(InstanceSet.union, images).with_quotients()
    if len(images) > 1 and buffer.name not in kernel.substitutions.keys() | kernel.written_names:
        points = box_hull(points, buffer.box.dims)          # of an array that no statement writes
    copy = buffer.copy_in(copy_id, buffer.box, points.set, whole=buffer.request.whole)
    if not buffer.request.whole:
        copy = replace(copy, domain=buffer.in_one_piece(copy))
    sources = _sources(kernel, copy)
    if extra := sources & set(kernel.inames) - {*copy.inames}:
        raise PreconditionError(f"{buffer.step}: '{buffer.name}' uses the iname '{min(extra)}', which is not around "
                                "the copy.", subject=min(extra), hint="add it to the outer inames")

    def reading(s: Statement) -> Statement:
        return replace(s, expression=buffer.used(s.expression),
                       assignee=element(s.written, tuple(map(buffer.used, s.subscripts))))
    made = buffer.put_in(copy, None, reading, partial(_through_the_copy, buffer, copy, moves),
                         frozenset(s.id for s in kernel.statements if s.written in sources))
    made = with_rules_of_copy(kernel, made, buffer.used)
    result = allowed.legal(made, buffer.step)
    claims = require_copied_in(kernel, made, buffer.temporary.name, buffer.step, assume=allowed.assume,
                               unsafe=allowed.unsafe)
    return result if not claims else annotated(result, obligations=(*result.obligations, *claims))


def _sources(kernel: LoopKernel, copy: Statement) -> frozenset[str]:
    """The names that *copy* reads, also through rules."""
    return variables(expand_rules(copy.expression, kernel.substitutions)).union(copy.domain.params)


def _through_the_copy(buffer: StagingBuffer, copy: Statement, moves: Mapping[str, Sequence[Map]],
                      _: Sequence[Dependence], result: LoopKernel) -> Iterator[Dependence]:
    """The dependences of the readers, moved to the copy for the elements that it reads, and the flow to the readers.

    The readers access an array only through its copy; they may read the arrays of a rule otherwise, too.
    """
    kernel = buffer.kernel
    move = {s: reduce(Map.union, own).intersect_domain(analysis_domain(kernel, kernel.statement_by_id[s]).set)
            for s, own in moves.items()}
    sources = _sources(kernel, copy)

    def ends(d: Dependence, statement: str, is_write: bool) -> list[End]:
        if statement not in move or is_write:
            return [(statement, is_write, None)]
        # the copy serves the expression and the subscripts of a reader, or some accesses in them
        stays = accesses_to(result, statement, d.array, is_write=False)
        return [*([(statement, is_write, None)] if stays else ()), (copy.id, is_write, move[statement])]
    for moved in moved_dependences(kernel, sources, ends):
        is_copied = moved.after is not moved.d and moved.d.array == buffer.name
        yield moved.on_one_element(result) if is_copied else moved.after
    for s, relation in move.items():
        # a reader that overwrites its element now does so after the copy; before, one instance did both in order
        written = kernel.statement_by_id[s].written
        if written in sources & kernel.array_args.keys():
            yield Dependence("anti", written, copy.id, s, relation.reverse())
    for s, relation in move.items():
        yield Dependence("flow", buffer.temporary.name, copy.id, s, relation.reverse(), of_value=True)
