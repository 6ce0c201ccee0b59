"""fuse_kernels: one kernel that computes what several kernels compute one after the other."""
from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any, TypeVar

import pymbolic.primitives as p

from loopkit.analysis.accesses import accesses_to
from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.legality import require_legal
from loopkit.analysis.shapes import with_inferred_shapes, with_shapes_like_inputs, with_sizes_nonnegative
from loopkit.errors import NameConflictError, PreconditionError
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import Argument, GlobalArg, SubstitutionRule, ValueArg
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tree import seq
from loopkit.language.domains import read_domains
from loopkit.language.names import fresh
from loopkit.poly.limits import bounded, coalesced
from loopkit.poly.sets import InstanceSet, Set, rename_param
from loopkit.transform.definition import require_own_order
from loopkit.transform.functions import with_calls_inlined
from loopkit.transform.names import replace_instruction_ids
from loopkit.transform.reindex import folded, substituted, substituted_rules, with_domains

T = TypeVar("T")

#: The number at the end of an id like ``insn_0``.
_NUMBER = re.compile(r"_\d+$")


@checked
def fuse_kernels(kernels: Iterable[LoopKernel], suffixes: Iterable[str] | None = None,
                 data_flow: Iterable[tuple[str, int, int]] | None = None, *, assume: str | None = None,
                 unsafe: bool = False) -> LoopKernel:
    """Make one kernel of several: it runs all of their statements, those of the first kernel first.

    The new kernel is a definition. Its order is that of the kernels one after the other, each in its present order, and
    its dependences are computed from this order. Each kernel keeps its own loops: :func:`fuse_loops` makes one loop of
    two, with a proof.

    Arguments of one name are one argument, and inames of one name are one iname, with one tag. Temporaries and
    statements stay apart: if a name is taken, they get another one. Calls of functions are inlined.

    :arg suffixes: for each kernel, a suffix for the names of its temporaries that another kernel has; default: numbers
        for the temporaries of later kernels.
    :arg data_flow: triples of an array and the numbers of two kernels. The second kernel runs after the first, and
        those of its statements that read the array get ``dep=`` on the statements of the first that write it.
    :arg assume: the reason why the tags are legal for all statements together, if this is undecided.
    :raises PreconditionError: the kernels have different declarations, tags, rules or domains of one name, or
        contradicting assumptions; the number of suffixes is wrong; *data_flow* has a cycle, or an array that the first
        kernel does not write.
    :raises NameConflictError: a name is an iname of one kernel, and something else in another.
    :raises IllegalTransformError: a tag would break a dependence between the kernels.

    >>> first = lk.make_kernel("{[i]: 0<=i<n}", "<> t = 2*x[i]\\ny[i] = t", name="twice")
    >>> second = lk.make_kernel("{[i]: 0<=i<n}", "<> t = y[n-1-i]\\nz[i] = t", name="reverse")
    >>> knl = lk.fuse_kernels([first, second])
    >>> knl.name
    'twice_and_reverse'
    >>> print(knl.statements_text)
    for i
      <> t = 2*x[i]  {id=insn}
      y[i] = t  {id=insn_0}
    end
    for i
      <> t_0 = y[n - 1 - i]  {id=insn_1}
      z[i] = t_0  {id=insn_2}
    end
    """
    parts = list(kernels)
    if not parts:
        raise PreconditionError("fuse_kernels needs at least one kernel.", subject="kernels")
    name = "_and_".join(knl.name for knl in parts)
    with bounded(f"fusing kernel '{name}'"):
        for knl in parts:
            require_own_order(knl)
        parts = [with_calls_inlined(knl) for knl in parts]
        flows = _flows(parts, data_flow)
        _require_one_kind(parts)
        _require_equal_domains(parts)
        # the arguments have the given order, and the statements that of the data flow
        own = _with_different_names(parts, suffixes)
        fused = _one_after_the_other([own[k] for k in _order(len(parts), flows)], name, _joint_arguments(own))
        fused = _with_flows(fused, own, flows)
        return require_legal(fused, "fuse_kernels", assume=assume, unsafe=unsafe)


# The order

def _flows(parts: Sequence[LoopKernel], data_flow: Iterable[tuple[str, int, int]] | None) -> list[tuple[str, int, int]]:
    """*data_flow*, checked."""
    found: list[tuple[str, int, int]] = []
    for name, source, sink in data_flow or ():
        for k in (source, sink):
            if not 0 <= k < len(parts):
                raise PreconditionError(f"data_flow has the kernel {k}, but there are {len(parts)} kernels.",
                                        subject=name, hint=f"the kernels have the numbers 0 to {len(parts) - 1}")
        if name not in parts[source].written_names or name in parts[source].temporaries:
            raise PreconditionError(f"Kernel {source} does not write an argument '{name}'.", subject=name,
                                    hint="data_flow has triples of an array, its writing and its reading kernel")
        if name not in parts[sink].argument_by_name:
            raise PreconditionError(f"Kernel {sink} does not have an argument '{name}'.", subject=name)
        found.append((name, source, sink))
    return found


def _order(count: int, flows: Sequence[tuple[str, int, int]]) -> list[int]:
    """The numbers of the kernels, the sources of *flows* first, and otherwise in their order."""
    before = {k: {source for _, source, sink in flows if sink == k} for k in range(count)}
    order: list[int] = []
    while len(order) < count:
        ready = [k for k in range(count) if k not in order and before[k] <= set(order)]
        if not ready:
            cycle = graphlib.TopologicalSorter(before)
            try:
                cycle.prepare()
            except graphlib.CycleError as err:
                chain = " -> ".join(map(str, err.args[1]))
                raise PreconditionError(f"data_flow has a cycle of kernels: {chain}.", subject="data_flow",
                                        hint="a kernel runs after the kernels from which its values flow") from None
        order.append(ready[0])
    return order


def _with_flows(fused: LoopKernel, own: Sequence[LoopKernel], flows: Iterable[tuple[str, int, int]]) -> LoopKernel:
    """*fused* with ``dep=`` of the readers of each flow on its writers."""
    above: dict[str, frozenset[str]] = {}
    for name, source, sink in flows:
        writers = frozenset(owner(s.id) for s in own[source].statements if s.written == name)
        readers = {owner(s.id) for s in own[sink].statements if accesses_to(fused, s.id, name, is_write=False)}
        above |= {s: above.get(s, frozenset()) | writers for s in readers}

    def ordered(s: Statement) -> Statement:
        new = s.options.depends_on | above.get(owner(s.id), frozenset())
        return replace(s, options=replace(s.options, depends_on=new))
    return in_own_order(fused, statements=tuple(map(ordered, fused.statements))) if above else fused


# Names

def _inames(knl: LoopKernel) -> frozenset[str]:
    return frozenset(knl.inames).union(*(d.inames for d in knl.declared_domains))


def _require_one_kind(parts: Sequence[LoopKernel]) -> None:
    """:raises NameConflictError: a name that stays is of two kinds."""
    kinds: dict[str, str] = {}
    for knl in parts:
        for kind, names in (("iname", _inames(knl)), ("argument", knl.argument_by_name), ("rule", knl.substitutions),
                            ("reduction", knl.operations), ("function", knl.functions)):
            for name in sorted(names):
                if kinds.setdefault(name, kind) != kind:
                    raise NameConflictError(f"'{name}' is the name of one kernel's {kinds[name]} and of another "
                                            f"kernel's {kind}.", subject=name,
                                            hint=f"rename_{'iname' if 'iname' in (kind, kinds[name]) else 'argument'}"
                                                 f"(knl, '{name}', ...) in one of them")


def _require_equal_domains(parts: Sequence[LoopKernel]) -> None:
    """:raises PreconditionError: an iname has different values in two kernels."""
    known: dict[str, tuple[LoopKernel, InstanceSet]] = {}
    for knl in parts:
        domains = read_domains(knl.domains)
        for x in domains.parents:
            points = domains.instances(domains.sorted(domains.ancestors([x])))
            other, before = known.setdefault(x, (knl, points))
            if set(before.inames) != set(points.inames) or not before.onto(points.inames).is_equal(points):
                raise PreconditionError(
                    f"The iname '{x}' has the domain {before.text} in '{other.name}' and {points.text} in "
                    f"'{knl.name}'.", subject=x, hint=f"rename_iname(knl, '{x}', ...) in one of them")


def _with_different_names(parts: Sequence[LoopKernel], suffixes: Iterable[str] | None) -> list[LoopKernel]:
    """The kernels with different names of temporaries and statements."""
    endings = None if suffixes is None else list(suffixes)
    if endings is not None and len(endings) != len(parts):
        raise PreconditionError(f"{len(parts)} kernels have {len(endings)} suffixes.", subject="suffixes",
                                hint="give one suffix for each kernel; it may be empty")
    taken = {x for knl in parts for x in knl.all_names.difference(knl.temporaries)}
    ids = set[str]()
    found: list[LoopKernel] = []
    for k, knl in enumerate(parts):
        others = frozenset[str]().union(*(other.all_names for other in (*parts[:k], *parts[k + 1:])))
        names: dict[str, str] = {}
        for x in knl.temporaries:
            names[x] = fresh(x + endings[k] if endings is not None and x in others else x, taken)
        statements = {x: fresh(x if x not in ids else _NUMBER.sub("", x), ids)
                      for x in dict.fromkeys(owner(s.id) for s in knl.statements)}
        changed = {x: y for x, y in statements.items() if x != y}
        renamed = replace_instruction_ids(knl, changed) if changed else knl
        found.append(_with_temporaries_renamed(renamed, {x: y for x, y in names.items() if x != y}))
    return found


def _with_temporaries_renamed(knl: LoopKernel, names: Mapping[str, str]) -> LoopKernel:
    """*knl* with other *names* of temporaries."""
    if not names:
        return knl
    values = {x: p.Variable(y) for x, y in names.items()}

    def renamed(d: InstanceSet) -> InstanceSet:
        return d.named(reduce(lambda points, x: rename_param(points, x, names[x]), names, d.set))
    return in_own_order(
        knl, statements=with_domains((substituted(s, values) for s in knl.statements), renamed),
        temporaries={names.get(x, x): replace(t, name=names.get(x, x)) for x, t in knl.temporaries.items()},
        reductions={x: replace(node, accumulator=names.get(node.accumulator, node.accumulator))
                    for x, node in knl.reductions.items()},
        substitutions=substituted_rules(knl.substitutions, values),
        declared_domains=tuple(map(renamed, knl.declared_domains)))


# The parts of the new kernel

def _one_after_the_other(parts: Sequence[LoopKernel], name: str, arguments: tuple[Argument, ...]) -> LoopKernel:
    """The kernel that runs *parts*, whose names of temporaries and statements differ, one after the other."""
    assumptions = coalesced(reduce(Set.intersect, (knl.assumptions for knl in parts)))
    if assumptions.is_empty():
        raise PreconditionError("The assumptions of the kernels contradict each other.", subject=name)
    users = {x: frozenset[Any]().union(*(knl.user_tags.get(x, ()) for knl in parts)) for x in dict.fromkeys(
        x for knl in parts for x in knl.user_tags)}
    declared = {d.text: d for knl in parts for d in knl.declared_domains}
    result = LoopKernel(
        name=name, derived=None, history=History(), assumptions=assumptions, options=parts[0].options,
        arguments=arguments, temporaries={x: t for knl in parts for x, t in knl.temporaries.items()},
        statements=tuple(s for knl in parts for s in knl.statements), tree=seq(*(knl.tree for knl in parts)),
        substitutions=_merged("rule", parts, lambda knl: knl.substitutions, "expand_subst(knl, '{}') first"),
        operations=_merged("reduction", parts, lambda knl: knl.operations, "give one of them another name"),
        functions=_merged("function", parts, lambda knl: knl.functions, "give one of them another name"),
        tags=_merged("tag of the iname", parts, lambda knl: knl.tags, "rename_iname(knl, '{}', ...) in one of them"),
        reductions={x: node for knl in parts for x, node in knl.reductions.items()},
        given_pairs=_order_given(parts), barriers=tuple(b for knl in parts for b in knl.barriers),
        obligations=tuple(dict.fromkeys(o for knl in parts for o in knl.obligations)),
        declared_domains=tuple(declared.values()), user_tags=users,
        kernel_tags=frozenset[Any]().union(*(knl.kernel_tags for knl in parts)))
    return with_inferred_shapes(with_sizes_nonnegative(with_shapes_like_inputs(result)))


def _order_given(parts: Iterable[LoopKernel]) -> frozenset[tuple[str, str]]:
    """The given orders of *parts*, without those that two of them contradict."""
    pairs = frozenset[tuple[str, str]]().union(*(knl.given_pairs for knl in parts))
    return frozenset((x, y) for x, y in pairs if (y, x) not in pairs)


def _merged(what: str, parts: Sequence[LoopKernel], held: Callable[[LoopKernel], Mapping[str, T]], hint: str
            ) -> dict[str, T]:
    """The values by name that the kernels have; :raises PreconditionError: two of one name differ."""
    found: dict[str, T] = {}
    for knl in parts:
        for x, value in held(knl).items():
            if found.setdefault(x, value) != value:
                one, other = (to_text(v.expr) if isinstance(v, SubstitutionRule) else getattr(v, "summary", v)
                              for v in (found[x], value))
                raise PreconditionError(f"The {what} '{x}' is '{one}' in one kernel and '{other}' in "
                                        f"'{knl.name}'.", subject=x, hint=hint.format(x))
    return found


def _joint_arguments(parts: Sequence[LoopKernel]) -> tuple[Argument, ...]:
    """The arguments of the kernels, each once."""
    sizes = {x for knl in parts for s in knl.statements for x in s.domain.params}
    found: dict[str, Argument] = {}
    for knl in parts:
        for a in knl.arguments:
            found[a.name] = _joint(found[a.name], a, knl, sizes) if a.name in found else a
    return tuple(replace(a, inferred=None, shape_like=None) if isinstance(a, GlobalArg) else a for a in found.values())


def _joint(first: Argument, second: Argument, knl: LoopKernel, sizes: set[str]) -> Argument:
    """The argument that is declared as *first* and, in *knl*, as *second*: one may leave open what the other declares.

    A number that one kernel writes and another reads is an array without axes.
    """
    if type(first) is not type(second) and first.name not in sizes:
        first, second = (GlobalArg(a.name, a.dtype, (), tags=a.tags) if isinstance(a, ValueArg) else a
                         for a in (first, second))
    if type(first) is type(second):
        values: dict[str, Any] = {}
        for field in (f.name for f in fields(first) if f.name not in ("inferred", "shape_like")):
            own, other = (_in_normal_form(getattr(a, field)) for a in (first, second))
            if field == "tags":
                values[field] = own | other
            elif own is None or other is None or own == other:
                values[field] = getattr(second if own is None else first, field)
        if len(values) == len(fields(first)) - (2 if isinstance(first, GlobalArg) else 0):
            return replace(first, **values)
    raise PreconditionError(f"The argument '{first.name}' is {first} in one kernel and {second} in '{knl.name}'.",
                            subject=first.name, hint=f"rename_argument(knl, '{first.name}', ...) in one of them")


def _in_normal_form(value: Any) -> Any:
    """*value*; of a shape the texts of its extents with like terms collected."""
    return tuple(to_text(folded(e)) for e in value) if isinstance(value, tuple) else value
