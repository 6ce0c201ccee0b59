"""Makes the statements of calls from the parsed program: what each call passes, and the function's statements there.

A call passes values and arrays by the expressions and slices of its text. An argument that reads memory is evaluated
once, before the statements of the function, into a temporary. An expression of inames, value arguments and scalar
temporaries takes the place of the function's argument.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import NameConflictError, PreconditionError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.mappers import conjunction, has_reduction, map_children, subexpressions, substitute, variables
from loopkit.expr.nodes import product_of, to_text
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.data import GlobalArg, TemporaryVariable, ValueArg
from loopkit.kernel.kernel import Derivation, KernelBody, LoopKernel
from loopkit.kernel.statement import CallRegion, PassedArray, Statement
from loopkit.kernel.tree import Tree, seq
from loopkit.language.embedding import Embedding
from loopkit.language.names import fresh
from loopkit.language.program import FunctionCall, Slice
from loopkit.language.slices import Signature
from loopkit.language.statements import Evaluation, StatementMaker
from loopkit.poly.affine import add, is_quasi_affine, subtract
from loopkit.poly.domains import affine_ends
from loopkit.poly.sets import InstanceSet, bounded_by, universe_params

Datum = TypeVar("Datum", GlobalArg | ValueArg, TemporaryVariable)


def signature_of(function: LoopKernel) -> Signature:
    """The arguments that a call of *function* passes: results are those that it writes, the others it reads.

    An array that it reads before it writes is among both, whatever steps the function has.
    """
    original = before_steps(function)
    reads = {*needed_inputs(original), *(needed_inputs(function) - original.array_args.keys())}
    shapes = array_shapes(function)
    ranks = {name: len(shapes.get(name, ())) for name in function.array_args}
    return Signature(
        function.name, {name: rank for name, rank in ranks.items() if name in function.written_names},
        {a.name: None if isinstance(a, ValueArg) else ranks[a.name] for a in function.arguments
         if isinstance(a, ValueArg) or a.name in reads or a.name not in function.written_names})


def before_steps(function: LoopKernel) -> LoopKernel:
    """*function* as it was made from its text."""
    while isinstance(function.derivation, Derivation):
        function = function.derivation.before
    return function


def has_steps(function: LoopKernel) -> bool:
    """Has a step changed the statements of *function*, their order or their tags, or is this unknown?"""
    original = before_steps(function)
    return not (original.derivation is None and original.tree == function.tree and original.tags == function.tags
                and original.statements == function.statements)


@dataclass(frozen=True)
class MadeCall:
    """One call: its function's statements, and the node of the text."""

    node: FunctionCall
    embedding: Embedding
    body: KernelBody


@dataclass
class CallMaker:
    """Makes the statements of the calls of one kernel.

    :ivar functions: by name.
    :ivar values: the value arguments of the caller.
    :ivar scalars: its temporaries without axes.
    :ivar members: the statements of each call, by its id.
    """

    functions: Mapping[str, LoopKernel]
    values: frozenset[str]
    scalars: frozenset[str]
    made: list[MadeCall] = field(default_factory=list)
    members: dict[str, frozenset[str]] = field(default_factory=dict)

    def make(self, maker: StatementMaker, node: FunctionCall, place: Evaluation) -> Tree:
        """The tree of the call *node* at *place*; the statements are collected."""
        callee, call = self.functions[node.function], maker.ids.of[node.start]
        first = len(maker.reductions.statements)
        arguments = _Arguments(maker, node, place, self.values, self.scalars.difference(r.array for r in node.results))
        arguments.evaluate_condition()
        values, arrays = arguments.of(callee, signature_of(callee))
        bases = dict.fromkeys(t.base_storage for t in callee.temporaries.values() if t.base_storage is not None)
        names = {x: fresh(x, maker.reductions.taken) for x in (*callee.inames, *callee.temporaries, *bases)}
        embedding = Embedding(callee, call, maker.rules.domains.instances(
            place.inames, place.conditions, place.inline), arguments.place.predicates, values, arrays, names,
            _new_ids(callee, maker.reductions.ids))
        body = embedding.body(CallRegion(
            node.function, node.text, place.inames, tuple(arrays.values()), values,
            {new: own for own, new in names.items()}, {new: own for own, new in embedding.ids.items()}))
        body = replace(body, statements=tuple(_as_part(maker, node, s) for s in body.statements))
        maker.reductions.statements += body.statements
        self.made.append(MadeCall(node, embedding, body))
        self.members[call] = frozenset(s.id for s in maker.reductions.statements[first:])
        for member in self.members[call]:
            maker.opened[member] = maker.reductions.domains.sorted(maker.reductions.domains.parents)
        return seq(*arguments.trees, body.tree)

    def without_call_ids(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """*statements* with the statements of a call in the place of its id, in ``dep=`` and ``nosync=``."""
        def statements_of(ids: frozenset[str]) -> frozenset[str]:
            return frozenset(s for x in ids for s in self.members.get(x, (x,)))
        return tuple(replace(s, options=replace(
            s.options, depends_on=statements_of(s.options.depends_on),
            no_sync_with=statements_of(s.options.no_sync_with))) for s in statements)


    def merged(self) -> KernelBody:
        """The order, the tags and the like of all calls, without statements."""
        bodies = [made.body for made in self.made]
        return KernelBody(
            statements=(), tree=seq(), reductions={k: v for b in bodies for k, v in b.reductions.items()},
            tags={k: v for b in bodies for k, v in b.tags.items()},
            user_tags={k: v for b in bodies for k, v in b.user_tags.items()},
            given_pairs=frozenset(pair for b in bodies for pair in b.given_pairs),
            barriers=tuple(barrier for b in bodies for barrier in b.barriers),
            calls={k: v for b in bodies for k, v in b.calls.items()})

    def with_operations(self, own: Mapping[str, ReductionOperation]) -> dict[str, ReductionOperation]:
        """*own* operations and those of the called functions; :raises NameConflictError: two have one name."""
        found = dict(own)
        for made in self.made:
            for name, operation in made.embedding.callee.operations.items():
                if found.setdefault(name, operation) is not operation:
                    raise NameConflictError(
                        f"The function '{made.node.function}' has another reduction '{name}' than the kernel.",
                        subject=name, hint="use one ReductionOperation in both, or another name")
        return found

    def with_functions(self, own: Mapping[str, ScalarFunction]) -> dict[str, ScalarFunction]:
        """*own* functions of numbers and those of the called kernels; :raises NameConflictError: two have one name."""
        found = dict(own)
        for made in self.made:
            for name, function in made.embedding.callee.functions.items():
                if found.setdefault(name, function) != function:
                    raise NameConflictError(
                        f"The function '{made.node.function}' calls another '{name}' than the kernel.",
                        subject=name, hint="use one ScalarFunction in both, or another name")
        return found

    def temporaries(self) -> dict[str, TemporaryVariable]:
        return {t.name: t for made in self.made for t in made.embedding.temporaries()}

    def typed(self, data: Iterable[Datum]) -> tuple[Datum, ...]:
        """*data*, those without a dtype with the dtype that a function declares for them.

        :raises PreconditionError: a function declares another dtype.
        """
        found = {a.name: a for a in data}
        for made in self.made:
            declared = made.embedding.callee.array_args
            for name, passed in made.embedding.arrays.items():
                datum, dtype = found.get(passed.array), declared[name].dtype
                if datum is None or dtype is None or datum.dtype == dtype:
                    continue
                if datum.dtype is not None:
                    raise PreconditionError(
                        f"'{name}' of the function '{made.node.function}' has elements of {dtype}, and the call "
                        f"'{made.embedding.call}' passes '{passed.array}' with elements of {datum.dtype}.",
                        subject=passed.array, hint=f"leave the dtype of '{name}' out in the function")
                found[passed.array] = replace(datum, dtype=dtype)
        return tuple(found.values())


def _new_ids(callee: LoopKernel, taken: set[str]) -> dict[str, str]:
    """New ids for the statements, reductions and calls of *callee*: its name and the ids; *taken* gets them."""
    every = (*callee.statement_by_id, *callee.reductions, *callee.calls)
    for lead in (f"{callee.name}{number}" for number in ("", *(f"_{i}" for i in range(len(taken) + 1)))):
        found = {x: f"{lead}_{x}" for x in every}
        if taken.isdisjoint(found.values()):
            taken.update(found.values())
            return found
    raise AssertionError(callee.name)


def _as_part(maker: StatementMaker, node: FunctionCall, s: Statement) -> Statement:
    """*s*, of the function, with the options of the call."""
    own = s.options
    return replace(s, options=replace(
        own, depends_on=own.depends_on | maker.ids.earlier(node),
        no_sync_with=own.no_sync_with | maker.ids.others(node), tags=own.tags | node.options.tags))


@dataclass
class _Arguments:
    """The arguments of the call *node* at *place*, and the trees of the statements that evaluate them.

    :ivar values: the value arguments of the caller.
    :ivar scalars: its temporaries without axes that the call does not write.
    :ivar indices: the temporaries for parts of subscripts, by these parts.
    """

    maker: StatementMaker
    node: FunctionCall
    place: Evaluation
    values: frozenset[str]
    scalars: frozenset[str]
    trees: list[Tree] = field(default_factory=list)
    indices: dict[Expression, p.Variable] = field(default_factory=dict)

    def evaluate_condition(self) -> None:
        """Evaluate conditions that are not affine once: the function may write what they read."""
        if all(isinstance(e.child if isinstance(e, p.LogicalNot) else e, p.Variable) for e in self.place.predicates):
            return
        flag, owner = self.maker.reductions.flag()
        self._add(owner, flag, conjunction(self.place.predicates), replace(self.place, predicates=()))
        self.place = replace(self.place, predicates=(flag,))

    def of(self, callee: LoopKernel, signature: Signature
           ) -> tuple[dict[str, Expression], dict[str, PassedArray]]:
        """The expression of each value argument of *callee*, and the elements of each array argument."""
        values: dict[str, Expression] = {}
        arrays: dict[str, PassedArray] = {}
        sizes = frozenset(x for s in callee.statements for x in s.domain.params).union(
            *(variables(e) for t in callee.temporaries.values() for e in t.shape or ()))
        for name, given in (*zip(signature.results, self.node.results, strict=True),
                            *zip(signature.parameters, self.node.arguments, strict=True)):
            if not isinstance(given, Slice):
                argument = callee.argument_by_name[name]
                assert isinstance(argument, ValueArg)
                values[name] = self._value(argument, given, is_size=name in sizes)
                continue
            passed = self._passed(name, given)
            if name in arrays and not _same_elements(arrays[name], passed):
                raise self._error(f"'{callee.name}' reads and writes '{name}', for which this call passes two "
                                  "different slices.", "the same slice as result and as argument")
            arrays.setdefault(name, passed)
        return values, arrays

    def _value(self, argument: ValueArg, given: Expression, *, is_size: bool) -> Expression:
        """The expression *given* for *argument*, or a temporary with its value."""
        expr = self.maker.rules.expanded(given, self.node.start)
        dtype = None if argument.dtype is None else np.dtype(argument.dtype)
        if (is_size or (dtype is not None and dtype.kind in "iu")) and any(
                isinstance(e, float | complex) for e in subexpressions(expr)):
            raise self._error(f"The argument '{argument.name}' of '{self.node.function}' is an integer, and this call "
                              f"passes {to_text(expr)}.", "an integer")
        if self._is_known(expr) and (not is_size or is_quasi_affine(expr)) and (
                dtype is None or variables(expr).isdisjoint(self.scalars)):
            if dtype is not None and dtype.kind == "f" and not isinstance(expr, float | p.Variable):
                return float(expr) if isinstance(expr, int) else product_of(1.0, expr)      # real, as declared
            return expr
        return self._evaluated(argument.name, given, dtype)

    def _is_known(self, expr: Expression) -> bool:
        """Does *expr* read no array, and so has one value during the call?"""
        return not has_reduction(expr) and variables(expr) <= self.values.union(self.scalars, self.place.inames)

    def _evaluated(self, name: str, expr: Expression, dtype: np.dtype | None = None) -> p.Variable:
        """A new temporary, like *name*, with the value of *expr*."""
        reductions = self.maker.reductions
        variable = p.Variable(fresh(name, reductions.taken))
        reductions.temporaries[variable.name] = TemporaryVariable(variable.name, dtype, ())
        only_rules = self.maker.rules.expanded(expr, self.node.start, only_reducing=True)
        self._add(fresh(f"{self.place.owner}_{variable.name}", reductions.ids), variable, only_rules, self.place)
        return variable

    def _add(self, owner: str, variable: p.Variable, expr: Expression, place: Evaluation) -> None:
        _, tree = self.maker.add(replace(place, owner=owner), variable, expr, self.node)
        self.trees.append(tree)

    def _error(self, message: str, expected: str, hint: str | None = None) -> Exception:
        return self.maker.rules.source.error(self.node.start, message, expected, hint=hint)

    # Slices

    def _passed(self, name: str, given: Slice) -> PassedArray:
        """The elements *given* for the array argument *name*."""
        axes = tuple(f"axis {k}" for k in range(len(given.axes)))
        lows, extents = self._ranges(given)
        starts: dict[str, Expression] = {
            x: add(low, p.Variable(axis)) for x, low, axis in zip(given.axes, lows, axes, strict=True)}
        subscripts = tuple(substitute(self._frozen(given, e), starts) for e in given.subscripts)
        return PassedArray(name, given.array, subscripts, axes, extents)

    def _ranges(self, given: Slice) -> tuple[tuple[Expression, ...], tuple[Expression | None, ...]]:
        """The first value and the extent of each axis; those of swept inames come from their domains."""
        if not given.swept:
            return (0,)*len(given.axes), tuple(e for _, e in given.extents)
        domains = self.maker.rules.domains
        if bound := sorted({*given.swept} & {*self.place.inames}):
            raise self._error(f"The iname '{bound[0]}' of a slice is also an iname of the call.",
                              f"an iname other than '{bound[0]}'")
        points = domains.instances((*self.place.inames, *given.swept)).bound(self.place.inames)
        ends = [affine_ends(points.onto((x,)), universe_params()) for x in given.swept]
        box = InstanceSet.universe(given.swept).where(*(
            condition for x, found in zip(given.swept, ends, strict=True) if found is not None
            for condition in bounded_by(x, found[0], add(found[1], 1))))
        if None in ends or not box.intersect_params(points.set.params()).is_subset(points):
            raise self._error(f"The inames {', '.join(given.swept)} of the slice of '{given.array}' do not have all "
                              "values between a first and a last one.", "inames with one lower and one upper bound")
        known = [found for found in ends if found is not None]
        return tuple(low for low, _ in known), tuple(add(subtract(high, low), 1) for low, high in known)

    def _frozen(self, given: Slice, expr: Expression) -> Expression:
        """*expr*, of a slice's subscripts, with parts that read memory replaced by their values before the call."""
        expr = self.maker.rules.expanded(expr, self.node.start)
        written = {r.array for r in self.node.results}

        def walk(e: Expression) -> Expression:
            if isinstance(e, p.Variable) and (e.name in given.axes or self._is_known(e)):
                return e
            if isinstance(e, p.Variable | p.Subscript) and variables(e).isdisjoint(given.axes):
                if e not in self.indices:
                    self.indices[e] = self._evaluated("index", e)
                return self.indices[e]
            if isinstance(e, p.Subscript):
                if clash := variables(e) & written:
                    raise self._error(f"The call writes '{min(clash)}', which a slice of it reads.",
                                      "a slice by other arrays")
                return p.Subscript(e.aggregate, tuple(map(walk, e.index_tuple)))
            return map_children(e, walk)
        return walk(expr)


def _same_elements(a: PassedArray, b: PassedArray) -> bool:
    """Do both pass the same elements in the same order?"""
    if a.array != b.array or len(a.subscripts) != len(b.subscripts):
        return False
    return all(x == y or (is_quasi_affine(x) and is_quasi_affine(y) and _equal(x, y))
               for x, y in zip(a.subscripts, b.subscripts, strict=True))


def _equal(x: Expression, y: Expression) -> bool:
    """Are two quasi-affine forms equal for all values of their names?"""
    return InstanceSet.universe(()).where(("!=", subtract(x, y))).is_empty()
