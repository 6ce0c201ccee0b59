"""LoopKernel: an immutable program, its order of execution, and its data."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, count
from typing import Any

import numpy as np
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.errors import require_known
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.nodes import Operation
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.kernel.data import Argument, GlobalArg, Options, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.kernel.history import History
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.statement import CallRegion, Dependence, Obligation, ReductionNode, RequestedBarrier, Statement
from loopkit.kernel.tags import GivenTags, InameTag
from loopkit.kernel.tree import Chain, GivenOrder, Path, Tree, chains_of, leaves, paths, require_once
from loopkit.poly.limits import bounded
from loopkit.poly.sets import InstanceSet, Set, universe_params
from loopkit.shown import ENTRY_POINTS, Shown

#: Gives the dependences of a kernel, from those of the kernel before and from the kernel itself.
Derive = Callable[[Sequence[Dependence], "LoopKernel"], Iterable[Dependence]]


@dataclass(frozen=True)
class Derivation:
    """The derivation of a kernel's dependences: *derive* makes them from those of the kernel *before*."""

    before: LoopKernel
    derive: Derive


@dataclass(frozen=True)
class WholeKernel:
    """The facts of the whole kernel that all launches in loops of the host share.

    :ivar packing_order: the place of each iname among those that share an axis.
    :ivar known_sizes: only the equalities of sizes that hold for all sizes.
    :ivar ranges: the start of the range of each parallel iname, and its extent if constant (else 0).
    """

    packing_order: Mapping[str, int]
    known_sizes: Set
    ranges: Mapping[str, tuple[Expression, int]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelData:
    """The names of a kernel that are not inames, and the facts about them.

    :ivar operations: those that the user defined; *functions*: the user's functions.
    :ivar assumptions: about the parameters.
    :ivar declared_domains: domains of the definition other than the instance sets; steps that change their inames
        remove them.
    :ivar kernel_tags: user tags of the kernel.
    """

    arguments: tuple[Argument, ...]
    temporaries: Mapping[str, TemporaryVariable]
    substitutions: Mapping[str, SubstitutionRule] = field(default_factory=dict)
    operations: Mapping[str, ReductionOperation] = field(default_factory=dict)
    functions: Mapping[str, ScalarFunction] = field(default_factory=dict)
    assumptions: Set = field(default_factory=universe_params)
    options: Options = field(default_factory=Options)
    declared_domains: tuple[InstanceSet, ...] = ()
    kernel_tags: frozenset[Tag] = frozenset()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelBody:
    """The statements of a kernel, and the order and the threads that execute them.

    :ivar statements: in textual order, reductions as their init, update and final statements.
    :ivar tree: the reference order, as transformed so far.
    :ivar given_pairs: each two loops, the outer one first, whose order the user gave; see :attr:`given_order`.
    :ivar barriers: those that the user requested; lowering adds others.
    :ivar user_tags: user tags of inames.
    :ivar calls: the calls of functions whose statements are embedded, by id; each statement names those around it.
    """

    statements: tuple[Statement, ...]
    tree: Tree
    reductions: Mapping[str, ReductionNode] = field(default_factory=dict)
    tags: Mapping[str, InameTag] = field(default_factory=dict)
    given_pairs: GivenOrder = frozenset()
    barriers: tuple[RequestedBarrier, ...] = ()
    user_tags: Mapping[str, frozenset[Tag]] = field(default_factory=dict)
    calls: Mapping[str, CallRegion] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LoopKernel(KernelBody, KernelData, Shown):
    """A kernel: statements, the tree that orders them, and the data that they access. It is immutable.

    :func:`loopkit.make_kernel` makes a kernel, and transformations make kernels from kernels. A derived kernel inherits
    the dependences through the constructors in :mod:`loopkit.analysis.constructors`; :func:`dataclasses.replace` alone
    is refused.

    :ivar name: the name of the generated function.
    :ivar derived: the dependences of a kernel that a step made, or their derivation from those before the step.
        ``None``: they follow from the kernel's own order. The field has no default, so that each caller decides.
    :ivar obligations: claims of the user (``assume=``, ``unsafe=``) in place of proofs.
    :ivar whole: for a launch in a loop of the host, the facts of the whole kernel; ``None`` for other kernels.
    :ivar memo: results of analyses of this kernel object, by name: a cache that may be emptied at any time.
    """

    name: str
    derived: InitVar[Derivation | tuple[Dependence, ...] | None]
    history: History = field(default_factory=History)
    obligations: tuple[Obligation, ...] = ()
    whole: WholeKernel | None = None
    derivation: Derivation | tuple[Dependence, ...] | None = field(init=False)
    memo: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self, derived: Derivation | tuple[Dependence, ...] | None) -> None:
        require_once(leaves(self.tree))
        object.__setattr__(self, "derivation", derived)

    # Looking things up

    @cached_property
    def statement_by_id(self) -> Mapping[str, Statement]:
        return {s.id: s for s in self.statements}

    @cached_property
    def reduction_of(self) -> Mapping[str, ReductionNode]:
        """The reduction of each statement that is the init or an update of one."""
        return {s: node for node in self.reductions.values() for s in (node.init, *node.updates)}

    @cached_property
    def argument_by_name(self) -> Mapping[str, Argument]:
        return {a.name: a for a in self.arguments}

    @cached_property
    def paths(self) -> Mapping[str, Path]:
        """The path from the root of the tree to each statement."""
        return paths(self.tree)

    @cached_property
    def inames(self) -> tuple[str, ...]:
        """Every iname, in the order of first use by a statement."""
        return tuple(dict.fromkeys(x for s in self.statements for x in s.inames))

    @cached_property
    def given_order(self) -> tuple[Chain, ...]:
        """The orders of loops that the user gave; steps without a reordering purpose keep them."""
        return tuple(chains_of(self.given_pairs, self.inames))

    @cached_property
    def value_params(self) -> frozenset[str]:
        """The integer value arguments, which affine forms may use as parameters."""
        return frozenset(a.name for a in self.arguments if isinstance(a, ValueArg)
                         and (a.dtype is None or np.dtype(a.dtype).kind in "iu"))

    @cached_property
    def array_args(self) -> Mapping[str, GlobalArg]:
        return {a.name: a for a in self.arguments if isinstance(a, GlobalArg)}

    @cached_property
    def data(self) -> Mapping[str, GlobalArg | TemporaryVariable]:
        """The array arguments and the temporaries."""
        return {**self.array_args, **self.temporaries}

    @cached_property
    def writers(self) -> Mapping[str, tuple[Statement, ...]]:
        """The statements that write each array, argument or temporary."""
        found: dict[str, tuple[Statement, ...]] = {}
        for s in self.statements:
            found[s.written] = (*found.get(s.written, ()), s)
        return found

    @cached_property
    def written_names(self) -> frozenset[str]:
        return frozenset(self.writers)

    @cached_property
    def all_names(self) -> frozenset[str]:
        """Every name that a new one must not collide with."""
        return self.names_outside_rules.union(x for rule in self.substitutions.values() for x in rule.arguments)

    @cached_property
    def names_outside_rules(self) -> frozenset[str]:
        """Every name but those of the arguments of rules, with which a name that no rule gets cannot collide."""
        return frozenset([*self.argument_by_name, *self.temporaries, *self.inames, *self.substitutions,
                          *(t.base_storage for t in self.temporaries.values() if t.base_storage is not None),
                          *self.operations, *self.functions, *(region.function for region in self.calls.values()),
                          *(p for s in self.statements for p in s.domain.params)])

    def statement(self, statement_id: str) -> Statement:
        """:raises UnknownNameError: there is no such statement."""
        require_known("statement", [statement_id], self.statement_by_id)
        return self.statement_by_id[statement_id]

    def operation(self, name: str) -> Operation:
        """The reduction operation called *name*, the user's or the language's."""
        return self.operations[name] if name in self.operations else BUILT_IN[name]

    def fresh_name(self, base: str, *also_taken: str) -> str:
        """*base*, or *base* with the first free number after it."""
        taken = {*self.all_names, *also_taken, *self.statement_by_id}
        return next(x for x in chain((base,), (f"{base}_{i}" for i in count())) if x not in taken)

    def with_history(self, history: History, given_pairs: GivenOrder) -> LoopKernel:
        """The same kernel with another history: both share the results of analyses.

        Inames without statements lose their user tags.
        """
        tags = {x: own for x, own in self.user_tags.items() if x in self.inames}
        result = replace(self, derived=self.derivation, history=history, given_pairs=given_pairs, user_tags=tags)
        object.__setattr__(result, "memo", self.memo)
        return result

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: the fields, with the dependences computed and the memo empty."""
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        with bounded(f"pickling kernel '{self.name}'"):
            known = None if self.derivation is None else ENTRY_POINTS["dependences"](self)
        return {**state, "derivation": known, "memo": {}}

    # Equality: the meaning of the kernel, not its history

    def _key(self) -> tuple[object, ...]:
        return (self.name, self.arguments, self.tree, tuple(self.temporaries.items()),
                tuple(self.reductions.items()), tuple(sorted((k, str(v)) for k, v in self.tags.items())),
                self.barriers, tuple(self.operations.items()), tuple(self.functions.items()),
                tuple(self.substitutions.items()), self.options, self.obligations, self.kernel_tags,
                frozenset(self.user_tags.items()), tuple(self.calls.items()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LoopKernel):
            return NotImplemented
        with bounded(f"comparing kernel '{self.name}'"):
            return self is other or (self._key() == other._key() and self.statements == other.statements
                                     and bool(self.assumptions.is_equal(other.assumptions)))

    def __hash__(self) -> int:
        return hash((self.name, self.tree, tuple(s.id for s in self.statements)))

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """For the keys of pytools' dictionaries on disk: the same in every process for equal kernels."""
        with bounded(f"hashing kernel '{self.name}'"):
            key_builder.rec(key_hash, (self._key(), self.statements, str(self.assumptions)))

    # The interface for users, with loopy's names

    @property
    def domains(self) -> tuple[InstanceSet, ...]:
        """The distinct instance sets of the statements, including those of the statements of reductions.

        Other domains of the definition follow, in which a new statement may run, as long as no step changes their
        inames.

        >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k]*x[k])")
        >>> [d.inames for d in knl.domains]
        [('i',), ('i', 'k')]
        """
        found: dict[str, InstanceSet] = {}
        with bounded(f"reading kernel '{self.name}'"):
            for domain in (*{id(s.domain): s.domain for s in self.statements}.values(), *self.declared_domains):
                found.setdefault(domain.text, domain)
        return tuple(found.values())

    @property
    def instructions(self) -> tuple[Assignment, ...]:
        """The statements as printed: in the order of the text, with complete reductions as expressions.

        :func:`loopkit.make_kernel` takes them back, with :attr:`domains` and :attr:`arguments`, and for a transformed
        kernel :func:`loopkit.with_statements`.

        >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "<> s = sum(k, a[i, k]) {id=row}\\ny[i] = 2*s")
        >>> [s.id for s in knl.instructions]
        ['row', 'insn']
        >>> [s.id for s in knl.statements]
        ['row.k.init', 'row.k.update', 'row', 'insn']
        """
        return tuple(ENTRY_POINTS["instructions"](self))

    @property
    def args(self) -> tuple[Argument, ...]:
        """:attr:`arguments`, as loopy calls them.

        >>> [a.name for a in lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]").args]
        ['n', 'x', 'y']
        """
        return self.arguments

    @property
    def temporary_variables(self) -> Mapping[str, TemporaryVariable]:
        """:attr:`temporaries`, as loopy calls them.

        >>> list(lk.make_kernel("{[i]: 0<=i<n}", "<> t = 2*x[i]\\ny[i] = t").temporary_variables)
        ['t']
        """
        return self.temporaries

    def all_inames(self) -> frozenset[str]:
        """The inames of all statements.

        >>> sorted(lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), "i", 4).all_inames())
        ['i_inner', 'i_outer']
        """
        return frozenset(self.inames)

    def iname_tags(self, iname: str) -> frozenset[InameTag | Tag]:
        """The tags of *iname*: that of its execution, and user tags.

        >>> from pytools.tag import Tag
        >>> class Rows(Tag):
        ...     "The rows of a matrix."
        >>> knl = lk.tag_inames(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"i": Rows()})
        >>> [type(tag).__name__ for tag in knl.iname_tags("i")]
        ['Rows']

        :raises UnknownNameError: there is no such iname.
        """
        require_known("iname", [iname], self.inames)
        own: frozenset[InameTag | Tag] = frozenset((self.tags[iname],) if iname in self.tags else ())
        return own | self.user_tags.get(iname, frozenset())

    def iname_tags_of_type(self, iname: str, tag_type: type) -> frozenset[InameTag | Tag]:
        """Those of :meth:`iname_tags` that are instances of *tag_type*."""
        return frozenset(tag for tag in self.iname_tags(iname) if isinstance(tag, tag_type))

    def tags_of_type(self, tag_type: type) -> frozenset[Tag]:
        """The user tags of the kernel that are instances of *tag_type*."""
        return frozenset(tag for tag in self.kernel_tags if isinstance(tag, tag_type))

    # Plugged in from higher layers

    def tagged(self, tags: GivenTags) -> LoopKernel:
        """The kernel with further user tags of its own; see :func:`loopkit.tag_kernel`."""
        result: LoopKernel = ENTRY_POINTS["tag_kernel"](self, tags)
        return result

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Run the kernel; :func:`loopkit.compile` documents the arguments and results."""
        return ENTRY_POINTS["call"](self, *args, **kwargs)

    def plot(self, what: str = "domain", **options: Any) -> Any:
        """A picture of the kernel. It prints as text, a notebook draws it, and ``.save("k.svg")`` writes a file.

        The pictures and their options:

        - ``"domain"``: the points of one statement, tiles, and dependences between them as arrows. *statement* is an id
          (default: the first). *inames* are down, across and from panel to panel; ``"i_outer, i_inner"`` share a side
          (default: the first two, with those of one split together). *fixed* has values of other inames (default: the
          least), *parameters* sizes (default: small ones). *colour* is ``"block"``, ``"thread"`` or ``"time"``
          (default: the first that differs).
        - ``"loops"``: launches, the host's loops, blocks, threads, loops, barriers and statements.
        - ``"dependences"``: the dependences between statements, with kinds, arrays and distances. *statements* are ids
          (default: all).
        - ``"grid"``: the blocks of a launch, and one of them opened into warps and threads. *launch* is a name
          (default: the first with several threads), *block* has the coordinates of the opened block; *parameters*.
        - ``"access"``: the addresses that the threads of a warp access at once, with sectors or bank conflicts.
          *statement* and *array* select the access (default: the first). *block* and *warp* (its number in the block)
          select the warp (default: the first with most threads). *fixed* has values of the loops (default: the first
          iteration); *parameters* (default: large sizes).

        >>> knl = lk.make_kernel("{[i, j]: 1<=i<n and 0<=j<m}", "a[i, j] = 2*a[i-1, j]", name="down")
        >>> print(knl.plot("domain", parameters={"n": 4, "m": 3}))
        Points of insn in kernel 'down', n = 4, m = 3
        9 points, i down, j across
        the number of a point is its time: 0: time 0, 1: time 1, 2: time 2, ..., 8: time 8
          j    0 1 2
          i=1  0 1 2
          i=2  3 4 5
          i=3  6 7 8
        arrows: flow dependence of a, distance (i +1) 6 times

        :arg what: the name of the picture.
        :arg options: the options of the picture, as above.
        :returns: an object with the methods above and the text ``svg``.
        :raises UnknownNameError: there is no such picture, option, statement, array, launch, iname or size.
        :raises PreconditionError: the points or addresses depend on data, are too many, or there are none; no iname is
            on an axis of blocks or threads.
        :raises CallError: the assumptions do not allow the sizes.
        """
        return ENTRY_POINTS["plot"](self, what, **options)

    @property
    def headline(self) -> str:
        return f"{self.name!r}: {len(self.statements)} statement{'' if len(self.statements) == 1 else 's'}"

    @property
    def statements_text(self) -> str:
        """The statements in their loops, as in the printed kernel."""
        return str(ENTRY_POINTS["statements"](self))

    @property
    def domains_text(self) -> str:
        """The distinct instance sets of the statements, one a line, in isl's notation."""
        with bounded(f"printing kernel '{self.name}'"):
            distinct = {id(s.domain): s.domain for s in self.statements}.values()
            return "\n".join(dict.fromkeys(d.text for d in distinct))
