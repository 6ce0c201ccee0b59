"""The statements of a function in the place of a call: ordinary statements of the caller.

Inames and temporaries of the function get new names, and its statements new ids. Its values become the expressions of
the call, and its arrays the caller's arrays, subscripted through the slices. All analyses, steps and checks then work
on the caller's statements as if its text had contained them.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import element, map_children, variables
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import KernelBody, LoopKernel
from loopkit.kernel.statement import CallRegion, PassedArray, RequestedBarrier, Statement, with_expressions
from loopkit.kernel.tree import Leaf, Loop, Tree, rewrite
from loopkit.poly.affine import add, subtract
from loopkit.poly.sets import InstanceSet, rename_param, with_dim_names


@dataclass(frozen=True)
class Embedding:
    """The statements of *callee* in the place of one call.

    :ivar call: the id of the call.
    :ivar place: the instances of the call.
    :ivar predicates: the conditions of the call that are not affine.
    :ivar values: the expression of each value argument: of the caller's inames and value arguments, or a temporary.
    :ivar arrays: the elements of the caller that each array of the function stands for.
    :ivar names: the new names of its inames, temporaries and base storages.
    :ivar ids: the new ids of its statements, reductions and calls.
    """

    callee: LoopKernel
    call: str
    place: InstanceSet
    predicates: tuple[Expression, ...]
    values: Mapping[str, Expression]
    arrays: Mapping[str, PassedArray]
    names: Mapping[str, str]
    ids: Mapping[str, str]

    def expression(self, expr: Expression) -> Expression:
        """*expr*, of the function, in the names of the caller."""
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in self.arrays:
                return self.arrays[name].element(tuple(map(self.expression, expr.index_tuple)))
            case p.Variable(name=name) if name in self.arrays:
                return self.arrays[name].element(())
            case p.Variable(name=name):
                return self.values[name] if name in self.values else p.Variable(self.names.get(name, name))
            case _:
                return map_children(expr, self.expression)

    def domain(self, domain: InstanceSet) -> InstanceSet:
        """The instances of a statement of the function, for each instance of the call."""
        own = tuple(self.names[x] for x in domain.inames)
        # a parameter of the function may have the name of an iname of the caller
        points = domain.set
        for x in domain.params:
            points = rename_param(points, x, _name_in_function(x))
        sizes = [x for x in domain.params if x in self.values]
        around = (*self.place.inames, *map(_name_in_function, sizes), *own)
        widened = InstanceSet(own, with_dim_names(points, own)).onto(around).where(
            *(("==", subtract(p.Variable(_name_in_function(x)), self.values[x])) for x in sizes))
        result = widened.onto((*self.place.inames, *own))
        for x in domain.params:
            if x in self.names:
                result = result.named(rename_param(result.set, _name_in_function(x), self.names[x]))
        return result.intersect(self.place)

    def body(self, region: CallRegion) -> KernelBody:
        """The statements, their order and all that belongs to them; *region* describes the call."""
        callee = self.callee
        domains = {id(s.domain): self.domain(s.domain) for s in callee.statements}
        nodes = (replace(
            node, name=self.ids[node.name], accumulator=self.names[node.accumulator],
            inames=tuple(self.names[x] for x in node.inames), init=self.ids[node.init], final=self.ids[node.final],
            updates=tuple(self.ids[s] for s in node.updates), sweep=node.sweep and self.names[node.sweep])
            for node in callee.reductions.values())
        return KernelBody(
            statements=tuple(self._statement(s, domains[id(s.domain)]) for s in callee.statements),
            tree=rewrite(callee.tree, self._node), reductions={node.name: node for node in nodes},
            tags={self.names[x]: tag for x, tag in callee.tags.items() if x in self.names},
            user_tags={self.names[x]: own for x, own in callee.user_tags.items() if x in self.names},
            given_pairs=frozenset((self.names[x], self.names[y]) for x, y in callee.given_pairs),
            barriers=tuple(RequestedBarrier(self.ids[b.first], self.ids[b.second], b.kind) for b in callee.barriers),
            calls={self.call: region, **{self.ids[name]: self._region(inner) for name, inner in callee.calls.items()}})

    def _node(self, tree: Tree) -> Tree:
        match tree:
            case Leaf(statement):
                return Leaf(self.ids[statement])
            case Loop(iname, body):
                return Loop(self.names[iname], body)
            case _:
                return tree

    def _statement(self, s: Statement, domain: InstanceSet) -> Statement:
        new = with_expressions(s, lambda e: self.expression(expand_rules(e, self.callee.substitutions)))
        own = s.options
        options = replace(own, depends_on=frozenset(self.ids[x] for x in own.depends_on),
                          no_sync_with=frozenset(self.ids[x] for x in own.no_sync_with),
                          calls=(self.call, *(self.ids[x] for x in own.calls)))
        return replace(new, id=self.ids[s.id], domain=domain, predicates=(*self.predicates, *new.predicates),
                       options=options)

    def _region(self, inner: CallRegion) -> CallRegion:
        """A call in the function, in the names of the caller."""
        arrays = []
        for passed in inner.arrays:
            found = self.expression(element(passed.array, passed.subscripts))
            assert isinstance(found, p.Variable | p.Subscript)
            arrays.append(passed.of(found))
        return replace(
            inner, inames=(*self.place.inames, *(self.names[x] for x in inner.inames)), arrays=tuple(arrays),
            values={name: self.expression(e) for name, e in inner.values.items()},
            names={self.names[new]: own for new, own in inner.names.items() if new in self.names},
            ids={self.ids[new]: own for new, own in inner.ids.items() if new in self.ids})

    def temporaries(self) -> Iterator[TemporaryVariable]:
        """The temporaries of the function, with the extents that they have in the caller."""
        for t in self.callee.temporaries.values():
            shape = t.shape and tuple(add(self.expression(e)) for e in t.shape)
            if used := frozenset().union(*map(variables, shape or ())) & {*self.place.inames}:
                if t.fixed:
                    raise PreconditionError(
                        f"The extent of the temporary '{t.name}' of the function '{self.callee.name}' depends on "
                        f"'{min(used)}' in the call '{self.call}'.", subject=t.name,
                        hint="declare a constant extent, or no address space")
                shape = None
            base = None if t.base_storage is None else self.names[t.base_storage]
            yield replace(t, name=self.names[t.name], shape=shape, base_storage=base)


def _name_in_function(name: str) -> str:
    """A name that no user can write."""
    return f"{name}'"

