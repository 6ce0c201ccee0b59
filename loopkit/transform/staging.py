"""The work of add_prefetch and precompute: a box of values computed first, by a new statement, and read instead."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_as, accesses_of, analysis_domain, expand_rules, uses_at
from loopkit.analysis.constructors import annotated, with_dependences
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import loops_of
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.staging_proof import require_staged
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.expr.mappers import children, map_children, variables
from loopkit.expr.text import to_text
from loopkit.kernel.data import AddressSpace, GlobalArg, TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, InameTag
from loopkit.kernel.tree import Leaf, Tree, leaves, nest
from loopkit.poly.affine import NotAffineError, add, names_in, subtract
from loopkit.poly.elements import outside
from loopkit.poly.enumerated import affine_on, subscripts_on
from loopkit.poly.footprint import box_hull
from loopkit.poly.limits import affordable
from loopkit.poly.pieces import plain_hull
from loopkit.poly.relations import restrict, same_element
from loopkit.poly.sets import InstanceSet, Map
from loopkit.transform.box import Box, Sweep, box_of
from loopkit.transform.placement import before_readers, placed, with_loops_kept
from loopkit.transform.side_effects import Allowed, with_fewest_side_effects
from loopkit.transform.step import (
    given_or_fresh,
    matching_statements,
    require_fresh,
    require_fresh_id,
    require_positive,
)


@dataclass(frozen=True)
class Request:
    """What is to be staged, and how.

    :ivar is_use: the arguments of an expression that is a use, else ``None``.
    :ivar value: the expression that the copy holds for given arguments.
    :ivar moves_only: the array whose dependences move to the copy wholly; ``None``: the readers keep theirs too.
    :ivar whole_box: all of the box is copied, as far as what the copy reads lies inside its arrays.
    :ivar multiples: what the lengths of the box's axes become multiples of.
    :ivar allowed: what the step may change beside.
    """

    step: str
    name: str
    is_use: Callable[[Expression], tuple[Expression, ...] | None]
    value: Callable[[tuple[Expression, ...]], Expression]
    sweep: tuple[str, ...]
    temporary: str
    dim_names: Sequence[str] | None
    tag: InameTag | None
    outer: tuple[str, ...] | None
    space: AddressSpace | None
    statement_id: str | None
    within: str | Collection[str] | None
    source: GlobalArg | TemporaryVariable | None
    moves_only: str | None = None
    whole_box: bool = False
    multiples: int | Sequence[int] = 1
    allowed: Allowed = field(default_factory=Allowed)
    assume: str | None = None
    unsafe: bool = False


def staged(kernel: LoopKernel, request: Request) -> LoopKernel:
    """*kernel* with the copy that *request* asks for; its readers read that."""
    chosen = matching_statements(kernel, request.within)
    readers = [s for s in kernel.statements if (chosen is None or s.id in chosen) and uses_in(s, request.is_use)]
    if not readers:
        raise _no_reader(kernel, request, chosen)
    require_fresh(kernel, request.temporary)
    if request.statement_id is not None:
        require_fresh_id(kernel, request.statement_id)
    for x in request.sweep:
        if not any(x in s.inames for s in readers):
            raise unknown("iname", x, {y for s in readers for y in s.inames}, where=f"the readers of '{request.name}'")
    uses = {s.id: uses_in(s, request.is_use) for s in readers}
    _require_affine(kernel, request, readers, uses)
    outer = _outer_inames(kernel, request, readers, uses)
    wider = outer if request.outer is not None else with_loops_kept(
        kernel, [s.id for s in readers], outer, request.sweep)

    def made(place: tuple[str, ...]) -> LoopKernel:
        box = box_of(kernel, Sweep(request.step, request.name, request.sweep, request.dim_names),
                     [(s, uses[s.id]) for s in readers], place)
        return _with_copy(kernel, request, readers, uses, place, box.lengthened(_multiples(request, len(box.dims))))
    return with_fewest_side_effects(kernel, request.step, request.allowed, (outer, wider), made)


def _no_reader(kernel: LoopKernel, request: Request, chosen: frozenset[str] | None) -> PreconditionError:
    """The error where no expression and no subscript of the statements *chosen* reads what a copy is asked of."""
    for s in kernel.statements:
        if (chosen is None or s.id in chosen) and _uses(s.predicates, request.is_use):
            return PreconditionError(f"Only conditions read '{request.name}', among them that of '{s.id}': a copy "
                                     "serves expressions and subscripts.", subject=request.name,
                                     hint="assign what the condition reads to a temporary, and test that")
    return PreconditionError(f"No statement reads '{request.name}'.", subject=request.name,
                             hint="conditions have the rule written out, and a copy does not serve them"
                             if request.name in kernel.substitutions and any(s.predicates for s in kernel.statements)
                             else None if chosen is None else "name its readers with within=")


def uses_in(s: Statement, is_use: Callable[[Expression], tuple[Expression, ...] | None]
               ) -> tuple[tuple[Expression, ...], ...]:
    """The arguments of the uses in a statement's expression and in the subscripts of its assignee, each once."""
    return _uses((s.expression, *s.subscripts), is_use)


def _uses(expressions: Iterable[Expression], is_use: Callable[[Expression], tuple[Expression, ...] | None]
          ) -> tuple[tuple[Expression, ...], ...]:
    found: dict[tuple[Expression, ...], None] = {}

    def walk(expr: Expression) -> None:
        args = is_use(expr)
        if args is not None:
            found[args] = None
        for child in expr.index_tuple if isinstance(expr, p.Subscript) else children(expr):
            walk(child)
    for expression in expressions:
        walk(expression)
    return tuple(found)


def _multiples(request: Request, axes: int) -> tuple[int, ...]:
    """What the lengths of the box become multiples of.

    :raises PreconditionError: not a positive integer for each axis, or the box is not copied as a whole.
    """
    given = request.multiples
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]*axes
    if len(several) != axes:
        raise PreconditionError(f"{request.step}: the box has {axes} axes of more than one element, but box_multiples= "
                                f"has {len(several)} numbers.", subject="box_multiples",
                                hint="give each a number, 1 for one that stays, or give a single number for all")
    numbers = tuple(require_positive(m, "each number of box_multiples=") for m in several)
    if not request.whole_box and any(m > 1 for m in numbers):
        raise PreconditionError(f"{request.step}: box_multiples= lengthens a box that is copied as a whole.",
                                subject="box_multiples", hint="fetch_bounding_box=True")
    return numbers


def _require_affine(kernel: LoopKernel, request: Request, readers: Sequence[Statement],
                    uses: Mapping[str, Sequence[tuple[Expression, ...]]]) -> None:
    for s in readers:
        allowed = kernel.value_params | set(s.inames)
        for a in (a for args in uses[s.id] for a in args):
            try:
                affine = names_in(a) <= allowed and affine_on(analysis_domain(kernel, s), (a,))
            except NotAffineError:
                affine = False
            if not affine:
                raise PreconditionError(
                    f"{request.step} needs affine subscripts, but '{s.id}' reads '{request.name}' at '{to_text(a)}'.",
                    subject=request.name, hint="leave this statement out with within=")


def _outer_inames(kernel: LoopKernel, request: Request, readers: Sequence[Statement],
                  uses: Mapping[str, Sequence[tuple[Expression, ...]]]) -> tuple[str, ...]:
    """The loops around the copy, the same for all readers."""
    results: dict[tuple[str, ...], str] = {}
    # what is written in the kernel is another value in each iteration of its writers' loops
    sources = variables(request.value(next(args for u in uses.values() for args in u)))
    own = sources & set(kernel.inames)              # a rule's inames that are no arguments of it
    rewritten = frozenset(x for s in kernel.statements if s.written in sources for x in s.inames)
    for s in readers:
        order = loops_of(kernel.paths[s.id])
        if request.outer is not None:
            for x in request.outer:
                if x not in s.inames:
                    raise unknown("iname", x, s.inames, where=f"'{s.id}'")
            chosen = tuple(x for x in order if x in request.outer)
        else:
            mentioned = frozenset().union(*(variables(a) for args in uses[s.id] for a in args)) \
                if any(uses[s.id]) else frozenset()
            chosen = tuple(x for x in order if x not in request.sweep and (
                x in mentioned or x in own or x in rewritten or isinstance(kernel.tags.get(x), GroupTag)))
        results[chosen] = s.id
    if len(results) > 1:
        (a, first), (b, second) = list(results.items())[:2]
        raise ScheduleError(
            f"'{first}' and '{second}' read '{request.name}' in different loops ({', '.join(a) or 'none'} and "
            f"{', '.join(b) or 'none'}), so that one copy cannot serve both.", subject=request.name,
            hint="name one of them with within=, or give fetch_outer_inames")
    return next(iter(results))


def _with_copy(kernel: LoopKernel, request: Request, readers: Sequence[Statement],
               uses: Mapping[str, Sequence[tuple[Expression, ...]]], outer: tuple[str, ...], box: Box
               ) -> LoopKernel:
    copy_id = given_or_fresh(kernel, request.statement_id, f"{request.temporary}_rule")
    moves = {s.id: [_where_read(kernel, request, s, args, subscripts_on(
        analysis_domain(kernel, s), (*(p.Variable(x) for x in outer), *box.offsets(args)))) for args in uses[s.id]]
             for s in readers}
    target = p.Variable(request.temporary)
    copy = Statement(
        copy_id, p.Subscript(target, tuple(p.Variable(x) for x in box.dims)) if box.dims else target,
        request.value(box.arguments()), _copy_domain(kernel, request, readers, moves, outer, box))
    copy = replace(copy, domain=_whole_box(kernel, request, copy, outer, box) if request.whole_box else
                   _in_one_piece(kernel, copy, outer, box))
    if extra := variables(copy.expression) & set(kernel.inames) - {*outer, *box.dims}:
        raise PreconditionError(f"{request.step}: '{request.name}' uses the iname '{min(extra)}', which is not around "
                                "the copy.", subject=min(extra), hint="add it to the outer inames")

    def replaced(expr: Expression) -> Expression:
        args = request.is_use(expr)
        if args is None:
            return map_children(expr, replaced)
        return p.Subscript(target, box.offsets(args)) if box.dims else target
    ids = frozenset(s.id for s in readers)

    def reading(s: Statement) -> Statement:
        return replace(s, expression=replaced(s.expression), assignee=s.assignee if not s.subscripts else p.Subscript(
            p.Variable(s.written), tuple(map(replaced, s.subscripts))))
    new = [reading(s) if s.id in ids else s for s in kernel.statements]
    tree = _placed(kernel, request, ids, outer, nest(box.dims, Leaf(copy_id)), copy.expression)
    at = {s: i for i, s in enumerate(leaves(tree))}
    statements = tuple(sorted([copy, *new], key=lambda s: at[s.id]))
    temporary = TemporaryVariable(request.temporary, request.source.dtype if request.source else None, box.shape,
                                  request.space)
    made = with_dependences(
        kernel, partial(_moved_dependences, kernel, request, copy, readers, moves),
        statements=statements, tree=tree, temporaries={**kernel.temporaries, request.temporary: temporary},
        tags={**kernel.tags, **(dict.fromkeys(box.dims, request.tag) if request.tag is not None else {})})
    result = require_legal(made, request.step, assume=request.assume, unsafe=request.unsafe)
    owed = require_staged(kernel, made, request.temporary, request.step, assume=request.assume, unsafe=request.unsafe)
    return result if not owed else annotated(result, obligations=(*result.obligations, *owed))


def _where_read(kernel: LoopKernel, request: Request, s: Statement, args: tuple[Expression, ...], move: Map) -> Map:
    """*move* at the instances that read at *args*: a branch of an ``if`` may leave some out."""
    points: InstanceSet | None = None
    for own, where in uses_at(kernel, s, request.is_use):
        if own == args:
            points = where if points is None else points.union(where)
    return move if points is None else restrict(move, points)


def _copy_domain(kernel: LoopKernel, request: Request, readers: Sequence[Statement],
                 moves: Mapping[str, Sequence[Map]], outer: tuple[str, ...], box: Box) -> InstanceSet:
    """The elements to copy: those that are read; filled up to a box where nothing writes the source."""
    inames = (*outer, *box.dims)
    points: InstanceSet | None = None
    for s in readers:
        for move in moves[s.id]:
            image = s.domain.apply(move, inames)
            points = image if points is None else points.union(image)
    assert points is not None
    points = points.with_quotients()
    written = request.moves_only is None or request.moves_only in kernel.written_names
    one_reference = sum(len(m) for m in moves.values()) == 1
    return points if written or one_reference else box_hull(points, box.dims)


def _in_one_piece(kernel: LoopKernel, copy: Statement, outer: tuple[str, ...], box: Box) -> InstanceSet:
    """The domain of *copy*, or one polyhedron around its pieces where what it reads besides is there and not written.

    A few loads more cost less than the conditions that tell them, and than all that later steps ask of many pieces.
    """
    if copy.domain.set.n_basic_set() < 2:
        return copy.domain
    every = copy.domain.named(plain_hull(copy.domain.set)).where(*_inside_box(box))
    places = copy.domain.onto(outer).set.remove_divs()
    shapes = array_shapes(kernel)
    for a in accesses_as(kernel, replace(copy, domain=every)):
        if not a.is_write and (a.array not in shapes or a.array in kernel.temporaries or a.array in kernel.written_names
                               or not a.affine or not a.certain
                               or outside(a.relation, shapes[a.array], kernel.assumptions) is not None):
            return copy.domain
    fits = every.set.is_bounded() and affordable(lambda: every.onto(outer).set.is_subset(places), otherwise=False)
    return every if fits else copy.domain


def _inside_box(box: Box) -> list[tuple[str, Expression]]:
    return [c for x, length in zip(box.dims, box.shape, strict=True)
            for c in ((">=", p.Variable(x)), ("<", add(p.Variable(x), -length)))]


def _whole_box(kernel: LoopKernel, request: Request, copy: Statement, outer: tuple[str, ...], box: Box) -> InstanceSet:
    """All of the box wherever some of it is read, but for what *copy* would read outside of an array.

    :raises PreconditionError: there may be no value at a place that nobody reads, or it is not known whether there is.
    """
    every = copy.domain.onto(outer).onto(copy.inames).where(*_inside_box(box))
    shapes = array_shapes(kernel)
    inside, ends = every, dict[tuple[str, Expression], None]()
    for a in accesses_as(kernel, replace(copy, domain=every)):
        if a.is_write:
            continue
        if a.array in kernel.temporaries or a.array in kernel.written_names:
            raise PreconditionError(
                f"{request.step}: what is not read of the box around '{request.name}' is computed from '{a.array}', "
                "which the kernel writes: there may be no value yet.", subject=a.array,
                hint="leave fetch_bounding_box out")
        try:
            own = [end for i, extent in zip(a.subscripts, shapes[a.array], strict=True)
                   for end in ((">=", i), ("<", subtract(i, _known(extent))))]
            inside = inside.subtract(a.domain.subtract(a.domain.where(*own)))
        except NotAffineError:
            raise PreconditionError(
                f"{request.step}: it is not known where '{a.array}' ends for all of the box around '{request.name}'.",
                subject=a.array, hint="leave fetch_bounding_box out, or give the array a shape") from None
        ends |= dict.fromkeys(own)
    # isl gives a difference in pieces; it is one polyhedron where these conditions alone make it
    plain = every.where(*(end for end in ends if inside.is_subset(inside.where(end))))
    return plain if plain.is_equal(inside) else inside


def _known(extent: Expression | None) -> Expression:
    """:raises NotAffineError: the extent is unknown."""
    if extent is None:
        raise NotAffineError("an unknown extent")
    return extent


def _on_one_element(kernel: LoopKernel, d: Dependence, copy: Statement) -> Dependence:
    """*d* where both touch the element that the copy reads: a reader's other references are not the copy's."""
    writer = d.source if d.kind == "flow" else d.sink
    writes = [a for a in accesses_of(kernel, kernel.statement_by_id[writer]) if a.is_write and a.array == d.array]
    value = copy.expression
    subscripts = value.index_tuple if isinstance(value, p.Subscript) else ()
    if not writes or not all(a.affine for a in writes):
        return d
    read = subscripts_on(analysis_domain(kernel, copy), subscripts)
    written = writes[0].subscript_relation
    pairs = same_element(written, read) if d.kind == "flow" else same_element(read, written)
    return replace(d, relation=d.relation.intersect(pairs))


def _read_elsewhere(kernel: LoopKernel, s: Statement) -> frozenset[str]:
    """What a reader goes on reading by itself: the copy serves its expression and its subscripts."""
    others = (expand_rules(e, kernel.substitutions) for e in s.predicates)
    return frozenset(s.domain.params).union(*map(variables, others))


def _moved_dependences(kernel: LoopKernel, request: Request, copy: Statement, readers: Sequence[Statement],
                       moves: Mapping[str, Sequence[Map]], found: Sequence[Dependence], _: LoopKernel
                       ) -> list[Dependence]:
    """What bound the readers binds the copy instead; and the copy's values flow to the readers."""
    value_names = variables(copy.expression)
    relations: dict[str, Map] = {}
    for s in readers:
        union: Map | None = None
        for move in moves[s.id]:
            own = restrict(move, analysis_domain(kernel, s))
            union = own if union is None else union.union(own)
        assert union is not None
        relations[s.id] = union
    elsewhere = {s.id: _read_elsewhere(kernel, s) for s in readers}
    result: list[Dependence] = []
    for d in found:
        reader = d.sink if d.kind == "flow" else d.source if d.kind == "anti" else None
        if reader not in relations or d.array not in value_names:
            result.append(d)
            continue
        if request.moves_only != d.array or d.array in elsewhere[reader]:
            result.append(d)
        if d.kind == "flow":
            moved = replace(d, relation=d.relation.apply_range(relations[reader]), sink=copy.id)
        else:
            moved = replace(d, relation=d.relation.apply_domain(relations[reader]), source=copy.id)
        if request.moves_only == d.array:
            moved = _on_one_element(kernel, moved, copy)
        result.append(moved)
    # a reader that overwrites what it read does so after the copy now; before, one instance did both in order
    written = {s: kernel.statement_by_id[s].written for s in relations}
    result += [Dependence("anti", written[s], copy.id, s, relation.reverse())
               for s, relation in relations.items() if written[s] in value_names & kernel.array_args.keys()]
    result += [Dependence("flow", request.temporary, copy.id, s, relation.reverse(), of_value=True)
               for s, relation in relations.items()]
    return result


def _placed(kernel: LoopKernel, request: Request, readers: frozenset[str], outer: tuple[str, ...], copy: Tree,
            value: Expression) -> Tree:
    """The tree with *copy* in the innermost loop of *outer*, before the readers; loops in the way are sunk below."""
    sources = variables(value)
    writers = frozenset(s.id for s in kernel.statements if s.written in sources)
    return placed(kernel, request.step, request.name, readers, outer,
                  lambda body: before_readers(body, readers, copy, writers))
