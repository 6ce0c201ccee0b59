"""The printed kernel: a text in the kernel language.

``make_kernel`` accepts the printed statements of a kernel that was not transformed: reductions are printed as ``sum(k,
...)``, and conditions in a statement's instance set as ``if=``.
"""
from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.kinds import is_tuple
from loopkit.expr.mappers import map_subscripts, substitute, variables
from loopkit.expr.nodes import Neutral, Reduction, to_text
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.data import Argument, GlobalArg, TemporaryVariable, ValueArg
from loopkit.kernel.folding import folded, with_uses
from loopkit.kernel.instruction import Assignment, StatementPlace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tags import in_order
from loopkit.kernel.tree import Barrier, Leaf, Loop, LoopPlace, Path, Seq, Tree, leaves, parts_of, placed_nodes, rewrite
from loopkit.poly.affine import add
from loopkit.poly.domains import restricted
from loopkit.poly.limits import affordable, bounded, coalesced
from loopkit.poly.sets import InstanceSet, params_text

_WIDTH = 110
_PRODUCT = re.compile(r"(?<![\w.])(\d+)([A-Za-z_])")          # isl writes 16i for 16*i


def kernel_text(knl: LoopKernel) -> str:
    """*knl* as text in the kernel language, without any result of lowering.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k]*x[k])", name="matvec")
    >>> print(kernel_text(lk.add_dtypes(knl, {"a,x": np.float32})))
    KERNEL matvec(a: float32, m: int, n: int, x: float32, y: ?)
    ASSUMPTIONS
      n >= 0 and m >= 0
    DOMAINS
      [m, n] -> { [i, k] : 0 <= i < n and 0 <= k < m }
    STATEMENTS
      for i
        y[i] = sum(k, a[i, k]*x[k])  {id=insn}
      end
    """
    with bounded(f"printing kernel '{knl.name}'"):
        return "\n".join([_title(knl), *(line for title, lines in kernel_sections(knl).items() if lines
                                         for line in (title, *(f"  {line}" for line in lines)))])


def kernel_sections(knl: LoopKernel) -> dict[str, Sequence[str]]:
    """The lines of each section of the printed *knl*; some sections have none."""
    domains, conditions = _domains(knl)
    printer = _Printer(knl, *folded(knl), conditions)
    declared = [t for t in knl.temporaries.values() if t.name not in printer.values and not _declared_inline(t)]
    return {"TEMPORARIES": [*map(_datum, declared)],
            "ASSUMPTIONS": [*filter(None, [params_text(knl.assumptions)])],
            "DOMAINS": [d.text for d in domains],
            "TAGS": [*_tags(knl)],
            "GIVEN ORDER": [*map(", ".join, knl.given_order)],
            "REDUCTIONS": [o.summary for o in knl.operations.values()],
            "FUNCTIONS": [o.summary for o in knl.functions.values()],
            "RULES": [f"{r.name}({', '.join(r.arguments)}) := {to_text(r.expr)}" for r in knl.substitutions.values()],
            "STATEMENTS": [*printer.in_calls([printer.shown_tree()])],
            "BARRIERS": [*map(str, knl.barriers)],
            "OBLIGATIONS": [*map(str, knl.obligations)]}


def statements_text(knl: LoopKernel) -> str:
    """The statements of *knl* alone, with their loops."""
    with bounded(f"printing kernel '{knl.name}'"):
        printer = _Printer(knl, *folded(knl), _domains(knl)[1])
        return "\n".join(printer.in_calls([printer.shown_tree()]))


def instructions(knl: LoopKernel) -> tuple[Assignment, ...]:
    """The statements of *knl* as they are printed: in the order of the text, with whole reductions as expressions.

    Each has its place, and each reduction its domain.
    """
    with bounded(f"reading kernel '{knl.name}'"):
        printer = _Printer(knl, *folded(knl, with_domains=True), {})
        return tuple(printer.instruction(knl.statement_by_id[node.statement], loops)
                     for node, loops in _with_loops(printer.shown_tree()))


def _with_loops(tree: Tree) -> Iterator[tuple[Leaf, tuple[LoopPlace, ...]]]:
    """The statements of *tree* in textual order, each with the loops around it."""
    firsts: dict[Path, str] = {}
    for node, path, _ in placed_nodes(tree):
        if isinstance(node, Leaf):
            starts = ((step.iname, path[:k + 1]) for k, step in enumerate(path))
            yield node, tuple((iname, firsts.setdefault(start, node.statement)) for iname, start in starts
                              if iname is not None)


def _tags(knl: LoopKernel) -> Iterator[str]:
    """The tags of inames, and the user tags of the kernel and of its data."""
    for x in dict.fromkeys((*knl.tags, *knl.user_tags)):
        own = [str(knl.tags[x])] if x in knl.tags else []
        yield f"{x}: {' '.join([*own, *in_order(knl.user_tags.get(x, ()))])}"
    for name, tags in ((f"kernel {knl.name}", knl.kernel_tags), *(
            (d.name, d.tags) for d in (*knl.arguments, *knl.temporaries.values()))):
        if tags:
            yield f"{name}: {' '.join(in_order(tags))}"


# Data

def _title(knl: LoopKernel) -> str:
    start, sizes = f"KERNEL {knl.name}(", integer_arguments(knl)
    items = [f"{a.name}: int" if a.name in sizes and a.dtype is None else _datum(a) for a in knl.arguments]
    # no line ends within an item
    text = ", ".join(item.replace(" ", "\0") for item in items) + ")"
    return textwrap.fill(text, _WIDTH, initial_indent=start, subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ")


def integer_arguments(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that are integers by their use in domains and shapes."""
    names = {x for domain in {id(s.domain): s.domain for s in knl.statements}.values() for x in domain.params}
    for a in knl.data.values():
        names.update(x for extent in a.shape or () for x in variables(extent))
    for arg in knl.array_args.values():
        names.update(x for e in arg.strides or () if e is not None for x in variables(e))
    return frozenset(a.name for a in knl.arguments if isinstance(a, ValueArg) and a.name in names)


def _datum(datum: Argument | TemporaryVariable) -> str:
    parts = [f"{datum.name}: {dtype_text(datum.dtype) if datum.dtype is not None else '?'}"]
    if not isinstance(datum, ValueArg) and datum.shape is not None:
        parts.append(f"[{', '.join(map(to_text, datum.shape))}]")
    if isinstance(datum, TemporaryVariable):
        between = "between blocks" if datum.between_blocks else ""
        base = "" if datum.base_storage is None else f"in {datum.base_storage}"
        space = "constant" if datum.read_only else str(datum.address_space or "")
        parts += filter(None, (space, str(datum.layout), base, between))
    if isinstance(datum, GlobalArg):
        order = datum.order if isinstance(datum.order, str | None) else f"axes {', '.join(map(str, datum.order))}"
        listed = ", ".join("auto" if e is None else to_text(e) for e in datum.strides or ())
        strides = None if datum.strides is None else f"strides ({listed})"
        parts += filter(None, (order, strides, str(datum.cache_policy or "")))
    return " ".join(parts)


def _declared_inline(temporary: TemporaryVariable) -> bool:
    """Does ``<> t = ...`` declare all of its properties?"""
    return not (temporary.read_only or temporary.shape or temporary.address_space or temporary.base_storage
                or temporary.between_blocks)


# Domains

def _domains(knl: LoopKernel) -> tuple[list[InstanceSet], dict[int, str]]:
    """The distinct instance sets in the order of first use, without those implied by another one.

    For each of the implied ones, by its identity, the text of its constraints beyond those of the set that implies it.
    """
    distinct: dict[int, InstanceSet] = {id(s.domain): s.domain for s in knl.statements}
    order = {key: i for i, key in enumerate(distinct)}
    printed: list[InstanceSet] = []
    conditions: dict[int, str] = {}
    # only a set with all dimensions of a set can imply it, so sets with more dimensions come first
    for domain in sorted(distinct.values(), key=lambda d: -len(d.inames)):
        for i, other in enumerate(printed):
            if not set(domain.inames) <= set(other.inames):
                continue
            if len(other.inames) == len(domain.inames) and other.onto(domain.inames).is_subset(domain):
                if not domain.is_subset(other.onto(domain.inames)):
                    conditions[id(other)] = _beyond(other, domain.onto(other.inames))
                    printed[i] = domain
                else:
                    conditions[id(domain)] = ""
                break
            seen = restricted(other, domain.inames).onto(domain.inames)
            if domain.is_subset(seen):
                conditions[id(domain)] = _beyond(domain, seen)
                break
        else:
            printed.append(domain)
    return sorted(printed, key=lambda d: order[id(d)]), conditions


def _beyond(domain: InstanceSet, context: InstanceSet) -> str:
    """The constraints of *domain* that *context* does not imply, as text."""
    rest = affordable(lambda: domain.set.gist(context.set), otherwise=domain.set)
    text = domain.named(coalesced(rest)).text
    point, _, condition = text[text.index("{") + 1:text.rindex("}")].partition(":")
    # isl writes an equality into the tuple: [i_outer = 0, i_inner]
    equal = [item.strip() for item in point.strip().strip("[]").split(",") if "=" in item]
    return _PRODUCT.sub(r"\1*\2", " and ".join([*equal, *([condition.strip()] if condition.strip() else [])]))


# Statements

_NEUTRAL: Mapping[str, Expression] = {"sum": 0, "product": 1, "min": p.Variable("inf"), "max": p.Variable("-inf"),
                                      "any": False, "all": True}


def _flat_index(index: Expression) -> Expression:
    """*index* without sums in sums: ``64*i_outer + 4*i_thread + i_reg``."""
    return add(index) if isinstance(index, p.Sum) and any(isinstance(c, p.Sum) for c in index.children) else index


@dataclass(frozen=True)
class _Printer:
    """Prints the order tree.

    :ivar values: the reductions that are expressions, by accumulator; *inner*: of others, the inames that are.
    :ivar conditions: the printed constraints of an instance set, by its identity.
    :ivar declared: the temporaries whose first write was printed.
    """

    knl: LoopKernel
    values: Mapping[str, Expression]
    inner: Mapping[str, tuple[str, ...]]
    conditions: Mapping[int, str]
    declared: set[str] = field(default_factory=set)

    def written_out(self, expr: Expression) -> Expression:
        return with_uses(self.knl, substitute(expr, self.values))

    def shown_tree(self) -> Tree:
        """The order tree without the statements and loops of reductions that are expressions."""
        def shown(tree: Tree) -> Tree:
            match tree:
                case Leaf(statement) if self.knl.statement_by_id[statement].written in self.values:
                    return Seq(())
                case Loop(_, Seq(()) as body):
                    return body
                case Loop(iname, Leaf(statement) as body) if iname in self.inner.get(statement, ()):
                    return body
                case _:
                    return tree
        return rewrite(self.knl.tree, shown)

    def in_calls(self, nodes: Iterable[Tree], around: int = 0) -> Iterator[str]:
        """*nodes* in sequence, those of one call of a function under a comment with the call.

        :arg around: the number of calls around them all.
        """
        before = set[str]()
        for call, group in groupby(nodes, lambda node: self._call_of(node, around)):
            together = [*group]
            for part in [[node] for node in together] if call is None else [together]:
                inside = {owner(s) for node in part for s in leaves(node)} if self.knl.barriers else set[str]()
                yield from dict.fromkeys(f"... {b.kind[0]}barrier" for b in self.knl.barriers
                                         if b.kind != "turns" and b.second in inside and b.first in before)
                before |= inside
                if call is None:
                    yield from self.lines(part[0], around)
                else:
                    yield f"# {self.knl.calls[call].text}"
                    yield from (f"  {line}" for line in self.in_calls(part, around + 1))

    def _call_of(self, node: Tree, depth: int) -> str | None:
        """The call at *depth*, from the outside, to which all statements of *node* belong."""
        if not self.knl.calls:
            return None
        found = {self.knl.statement_by_id[s].options.calls[depth:depth + 1] for s in leaves(node)}
        (common, *others) = found or {()}
        call = common[0] if common and not others else None
        # the loops of the call are around it
        return None if call is None or (isinstance(node, Loop) and node.iname in self.knl.calls[call].inames) else call

    def lines(self, tree: Tree, around: int) -> Iterator[str]:
        match tree:
            case Leaf(statement):
                yield self._statement(self.knl.statement_by_id[statement])
            case Seq(children):
                yield from self.in_calls(children, around)
            case Barrier(serves):
                yield f"... {tree.title}" + (f"  # {', '.join(serves)}" if serves else "")
            case Loop():
                inames: list[str] = []
                body: Tree = tree
                while isinstance(body, Loop):
                    inames.append(body.iname)
                    body = body.body
                tags = self.knl.tags
                yield f"for {', '.join(f'{x} [{tags[x]}]' if x in tags else x for x in inames)}"
                yield from (f"  {line}" for line in self.in_calls(parts_of(body), around))
                yield "end"

    def instruction(self, s: Statement, loops: tuple[LoopPlace, ...]) -> Assignment:
        """*s*, in these *loops*, as an object."""
        declared = self._declared_type(s.written)
        assignee, expression = self.written_out(s.assignee), self.written_out(s.expression)
        return Assignment(
            assignee, expression if s.combine is None else self.knl.operation(s.combine).apply(assignee, expression),
            id=s.id, within_inames=frozenset(s.inames), predicates=tuple(map(self.written_out, s.predicates)),
            depends_on=s.options.depends_on, no_sync_with=s.options.no_sync_with, tags=s.options.tags,
            temp_var_type=declared if declared is None else declared or "auto", instructions=s.instructions,
            place=StatementPlace(s.domain, loops))

    def _statement(self, s: Statement) -> str:
        expression = _NEUTRAL.get(s.expression.operation, s.expression) if isinstance(s.expression, Neutral) \
            else self.written_out(s.expression)
        if s.combine is not None:
            folded = self.inner.get(s.id)
            expression = Reduction(s.combine, folded, expression) if folded else expression
            expression = self.knl.operation(s.combine).apply(s.assignee, expression)
        options = ", ".join(self._options(s))
        target, value = (to_text(map_subscripts(e, _flat_index)) for e in (s.assignee, expression))
        declared = self._declared_type(s.written)
        return f"{'' if declared is None else f'<{declared}> '}{target} = {value}  {{{options}}}"

    def _declared_type(self, name: str) -> str | None:
        """The dtype, or ``""``, at the first write of a temporary that is declared nowhere else; otherwise ``None``."""
        temporary = self.knl.temporaries.get(name)
        if temporary is None or name in self.declared or not _declared_inline(temporary):
            return None
        self.declared.add(name)
        # the language has no text for the dtype of a tuple, which follows from the value
        return "" if temporary.dtype is None or is_tuple(np.dtype(temporary.dtype)) else f"{temporary.dtype}"

    def _options(self, s: Statement) -> Iterator[str]:
        yield f"id={s.id}"
        texts = [*filter(None, [self.conditions.get(id(s.domain))]),
                 *(to_text(self.written_out(e)) for e in s.predicates)]
        if texts:
            yield f"if={' and '.join(f'({x})' if len(texts) > 1 and ' or ' in x else x for x in texts)}"
        scans = [x for r in self.knl.reductions.values() if r.final == s.id and r.sweep is not None for x in r.inames]
        own = s.options
        for option, names in (("scan", scans), ("dep", sorted(own.depends_on)), ("nosync", sorted(own.no_sync_with)),
                              ("tags", in_order(own.tags))):
            if names:
                yield f"{option}={':'.join(names)}"
        updates = (self.knl.statement_by_id[x].instructions for r in self.knl.reductions.values()
                   if r.final == s.id and r.accumulator in self.values for x in r.updates)
        yield from (title for given in (s.instructions, *updates) for i in given for title in i.titles)
