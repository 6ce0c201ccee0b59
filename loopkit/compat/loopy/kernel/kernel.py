"""A kernel with loopy's attributes and queries, around one of loopkit."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.analysis.accesses import expand_rules
from loopkit.analysis.constructors import annotated
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.dtypes import with_loopy_dtypes
from loopkit.compat.loopy.kernel.data import (
    ArrayArg,
    GlobalArg,
    KernelArgument,
    SubstitutionRule,
    TemporaryVariable,
    ValueArg,
    address_space_of,
)
from loopkit.compat.loopy.kernel.definition import Definition, Origin, Parts, StepCall
from loopkit.compat.loopy.kernel.instruction import (
    Assignment,
    BarrierInstruction,
    claims_text,
    core_instruction,
    instructions_of,
    line_of,
    with_parts_of_reductions,
)
from loopkit.compat.loopy.kernel.queries import KernelQueries
from loopkit.compat.loopy.options import Options
from loopkit.compat.loopy.schedule.linear import ScheduleItem, linear_form
from loopkit.compat.loopy.tagged import rules_of_tags
from loopkit.compat.loopy.types import NumpyType, as_numpy, to_loopy_type
from loopkit.compat.loopy.typing import auto
from loopkit.errors import IllegalTransformError, PreconditionError, UndecidedError
from loopkit.kernel.statement import owner
from loopkit.poly.domains import AnySet
from loopkit.poly.limits import bounded


class KernelState(IntEnum):
    """loopy's stages of a kernel: steps lead back to the first one, and the last one has a linear form."""

    INITIAL = 0
    CALLS_RESOLVED = 1
    PREPROCESSED = 2
    LINEARIZED = 3


@dataclass(frozen=True, eq=False)
class LoopKernel(KernelQueries):
    """A kernel of loopkit, with loopy's names for its parts.

    :ivar made: loopkit's kernel; ``None``: the text calls a function that is not known yet.
    :ivar declared: arguments and temporaries as declared, for the fields that loopkit does not have.
    """

    made: lk.LoopKernel | None
    target: Any = None
    options: Options = field(default_factory=Options)
    declared: Mapping[str, Any] = field(default_factory=dict, hash=False)
    silenced_warnings: frozenset[str] = frozenset()
    state: KernelState = KernelState.INITIAL
    definition: Definition | None = field(default=None, compare=False, repr=False)
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    @cached_property
    def _program(self) -> tuple[Any, ...]:
        """The parts that decide the meaning and the text, without the steps that led to them."""
        if self.made is None:
            return (self.definition, self.target, self.options, self.declared)
        core = self.core
        return (core.name, self.target, self.options, tuple(self.args), sorted(self.temporary_variables.items()),
                core.domains_text, tuple(map(line_of, self.instructions)), self.iname_to_tags, core.kernel_tags,
                core.substitutions, str(core.assumptions))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, LoopKernel) and self._program == other._program)

    def __hash__(self) -> int:
        return hash((self.name, None if self.made is None else self.core.domains_text))

    @property
    def parts(self) -> Parts | None:
        """The parts of a kernel that is not made yet."""
        return None if self.definition is None else self.definition.parts

    @cached_property
    def _grown(self) -> LoopKernel:
        """The kernel, made from its parts."""
        assert self.definition is not None
        made: LoopKernel = self.definition.text.grown(self)
        return made

    @property
    def core(self) -> lk.LoopKernel:
        """loopkit's kernel; :raises UnknownNameError: the text calls a function that is not known."""
        return self.require_made()

    def require_made(self) -> lk.LoopKernel:
        """:raises UnknownNameError: the text calls a function that is not known."""
        if self.parts is not None:
            return self._grown.core
        if self.made is None:
            assert self.definition is not None
            assert self.definition.fault is not None
            raise self.definition.fault
        return self.made

    def with_core(self, core: lk.LoopKernel) -> LoopKernel:
        """This kernel around another *core*."""
        return replace(self, made=core, definition=None, state=KernelState.INITIAL)

    def with_order(self, *, after: Mapping[str, frozenset[str]] | None = None,
                   claims: Mapping[str, frozenset[tuple[str, str]]] | None = None) -> LoopKernel:
        """This kernel with further entries in these fields of :class:`~loopkit.compat.loopy.order.Order`."""
        own = self.origin.order
        order = replace(own, after={**own.after, **(after or {})}, claims={**own.claims, **(claims or {})})
        return replace(self, origin=replace(self.origin, order=order))

    def after(self, step: Callable[[LoopKernel], LoopKernel], call: StepCall) -> LoopKernel:
        """This kernel after *step*; it keeps *call*, which has the same effect, for when it is made again."""
        if self.parts is not None:
            return self._grown.after(step, call)
        if self.definition is None:
            return step(self)
        definition = replace(self.definition, steps=(*self.definition.steps, call))
        try:
            new = self if self.made is None else step(self)
        except (IllegalTransformError, UndecidedError) as err:
            if (fault := self.origin.order.fault) is None:
                raise
            # a use of the kernel tells the circle: without an order of the statements, no step keeps it
            fault.__cause__ = err
            return replace(self, made=None, definition=replace(definition, fault=fault))
        left = new.definition if new.made is None else None
        return replace(new, definition=definition if left is None else replace(definition, fault=left.fault))

    @property
    def index_dtype(self) -> NumpyType:
        """loopy's dtype of indices, which programs ask for; loopkit chooses one for each text."""
        return NumpyType(as_numpy(self.origin.index_dtype))

    @property
    def name(self) -> str:
        if self.parts is not None:
            return self.parts.name
        return self.definition.name if self.made is None and self.definition is not None else self.core.name

    # Data

    @cached_property
    def args(self) -> list[KernelArgument]:
        if self.parts is not None:
            return list(self.parts.args)
        return [self._argument(a) for a in self.core.arguments]

    def _argument(self, core: lk.GlobalArg | lk.ValueArg) -> KernelArgument:
        dtype = to_loopy_type(core.dtype, allow_none=True)
        given = self.declared.get(core.name)
        if isinstance(core, lk.ValueArg):
            own = given if isinstance(given, ValueArg) else ValueArg(core.name)
            return own.copy(name=core.name, dtype=dtype)
        array = given if isinstance(given, ArrayArg) else GlobalArg(core.name)
        shape = core.shape if core.shape is not None else core.inferred
        return array.copy(name=core.name, dtype=dtype, shape=auto if shape is None or None in shape else shape,
                          is_output=core.name in self.get_written_variables(),
                          is_input=core.name in self.get_read_variables())

    @property
    def arg_dict(self) -> Mapping[str, KernelArgument]:
        return {a.name: a for a in self.args}

    @cached_property
    def temporary_variables(self) -> Mapping[str, TemporaryVariable]:
        if self.parts is not None:
            return self.parts.temporary_variables
        with bounded(f"inferring shapes of kernel '{self.name}'"):
            shapes = array_shapes(self.core)
        return {name: (given if isinstance(given := self.declared.get(name), TemporaryVariable) else
                       TemporaryVariable(name)).copy(
                           name=name, dtype=to_loopy_type(t.dtype, allow_none=True),
                           shape=auto if None in shapes.get(name, (None,)) else shapes[name],
                           address_space=address_space_of(t.address_space))
                for name, t in self.core.temporaries.items()}

    @property
    def substitutions(self) -> Mapping[str, SubstitutionRule]:
        if self.parts is not None:
            return self.parts.substitutions
        rules = rules_of_tags(self.core, self.origin.tagged)
        return {name: SubstitutionRule(name, r.arguments, expand_rules(r.expr, rules))
                for name, r in self.core.substitutions.items() if name not in rules}

    @property
    def assumptions(self) -> Any:
        return self.core.assumptions

    # Domains and inames

    @property
    def domains(self) -> Sequence[AnySet]:
        return self.parts.domains if self.parts is not None else [d.set for d in self.core.domains]

    # User tags

    def tagged(self, tags: Any) -> LoopKernel:
        """This kernel with further user tags."""
        return self.after(lambda k: k.with_core(lk.tag_kernel(k.core, tags)), StepCall(LoopKernel.tagged, (tags,)))

    def without_tags(self, tags: Any, verify_existence: bool = True) -> LoopKernel:
        """This kernel without some user tags; :raises PreconditionError: it does not have one."""
        gone = frozenset(tags if isinstance(tags, Iterable) else (tags,))
        if verify_existence and not gone <= self.tags:
            missing = min(map(repr, gone - self.tags))
            raise PreconditionError(f"The kernel '{self.name}' does not have the tag {missing}.", subject=missing)
        return self.after(lambda k: k.with_core(annotated(k.core, kernel_tags=k.tags - gone)),
                          StepCall(LoopKernel.without_tags, (tags, False)))

    # Statements

    @cached_property
    def instructions(self) -> Sequence[Any]:
        """Its statements, and the global barriers of the text."""
        if self.parts is not None:
            return self.parts.instructions
        reduced: dict[str, frozenset[str]] = {}
        for x, node in ((owner(r.final), r) for r in self.core.reductions.values()):
            reduced[x] = reduced.get(x, frozenset()).union(() if x in self.realized else node.inames)
        rules = rules_of_tags(self.core, self.origin.tagged)
        shown = list(with_parts_of_reductions(self.core, self.realized, rules))
        return instructions_of(shown, self.origin.order, self.writer_map(), self.reader_map(), reduced)

    @property
    def realized(self) -> frozenset[str]:
        """The statements whose reductions are shown as statements: all of them in a preprocessed kernel."""
        every: frozenset[str] = frozenset(owner(node.final) for node in self.core.reductions.values())
        return every if self.state >= KernelState.PREPROCESSED else self.origin.realized & every

    @cached_property
    def linearization(self) -> tuple[ScheduleItem, ...] | None:
        """Its launches, loops, statements and barriers in sequence, once it is linearized; else ``None``."""
        return None if self.state is not KernelState.LINEARIZED else linear_form(
            with_loopy_dtypes(self.core), self.target.core_target())

    # Copies

    def copy(self, **changes: Any) -> LoopKernel:
        """This kernel with other options, another name or another target; steps change everything else.

        A kernel without statements grows: its copies may have any other parts, until it gets a step or is used.

        >>> import loopkit.compat.loopy as lp
        >>> knl = lp.make_kernel("{:}", [])["loopy_kernel"]
        >>> knl = knl.copy(args=[lp.GlobalArg("y", "float32", shape=8)], domains=["{[i]: 0<=i<8}"])
        >>> knl = knl.copy(instructions=[*knl.instructions, lp.Assignment("y[i]", "2*i")])
        >>> print(knl.core.statements_text)
        for i
          y[i] = 2*i  {id=insn}
        end

        :raises PreconditionError: a part is not one that may be replaced.
        """
        if _PARTS & changes.keys() and (self.parts is not None or self._may_grow):
            return _with_parts(self, changes)
        if self.parts is not None and changes.keys() <= {"target", "options", "silenced_warnings", "state"}:
            return replace(self, **changes)
        return self.after(lambda kernel: _copied(kernel, changes), StepCall(LoopKernel.copy, (), changes))

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """For the keys of pytools' dictionaries on disk."""
        key_builder.rec(key_hash, (self.core, self.target, self.options, tuple(sorted(self.declared.items()))))

    @property
    def _may_grow(self) -> bool:
        return self.made is not None and not self.made.statements and self.definition is not None

    def stringify(self, what: Any = None, with_dependencies: bool = False, **_: Any) -> str:
        """The printed kernel; *with_dependencies* adds the ids that each instruction waits for."""
        waits = [f"  {i.id} : {', '.join(sorted(i.depends_on))}" for i in self.instructions if i.depends_on]
        return "\n".join([str(self), "DEPENDENCES", *waits] if with_dependencies else [str(self)])

    def __str__(self) -> str:
        if self.made is None and self.definition is not None and self.definition.fault is not None:
            return f"KERNEL {self.name}: {self.definition.fault.message}"
        claims = [f"  id={name}, no_sync_with={claims_text(own)}"
                  for name, own in self.origin.order.claims.items() if own]
        return "\n".join([str(self.core), "CLAIMS", *claims] if claims else [str(self.core)])

    def __repr__(self) -> str:
        return f"<LoopKernel '{self.name}', which cannot be made yet>" if self.made is None else repr(self.core)

    def _repr_html_(self) -> str:
        return self.core._repr_html_()


def _with_instructions(core: lk.LoopKernel, instructions: Sequence[Assignment]) -> lk.LoopKernel:
    """*core* with other expressions; :raises PreconditionError: the statements are not those of *core* in order."""
    instructions = [i for i in instructions if not isinstance(i, BarrierInstruction)]          # they order, and stay
    if [i.id for i in instructions] != [i.id for i in core.instructions]:
        raise PreconditionError("A copy of a kernel keeps its statements and their order.", subject="instructions",
                                hint="lp.map_instructions and lp.remove_instructions change statements")
    return lk.with_statements(core, list(map(core_instruction, instructions, core.instructions)))


#: The parts that a kernel gets while it grows.
_PARTS = frozenset({"args", "domains", "iname_tags", "instructions", "name", "substitutions", "temporary_variables"})


def _with_parts(kernel: LoopKernel, given: Mapping[str, Any]) -> LoopKernel:
    """The growing *kernel* with other parts and fields."""
    assert kernel.definition is not None
    old = kernel.parts or Parts(kernel.name, kernel.domains, kernel.instructions, kernel.args,
                                kernel.temporary_variables, kernel.substitutions)
    new = replace(old, **{key: value for key, value in given.items() if key in _PARTS})
    growing = replace(kernel, made=None, definition=replace(kernel.definition, parts=new))
    rest = {key: value for key, value in given.items() if key not in _PARTS}
    return growing.copy(**rest) if rest else growing


def _copied(kernel: LoopKernel, given: Mapping[str, Any]) -> LoopKernel:
    """*kernel* with other parts; :raises PreconditionError: one is not one that may be replaced."""
    changes = {key: value for key, value in given.items() if key not in _SCHEDULE}
    own = {key: changes.pop(key) for key in ("target", "options", "silenced_warnings", "state") if key in changes}
    result = replace(kernel, **own)
    if "index_dtype" in changes:
        result = replace(result, origin=replace(result.origin, index_dtype=changes.pop("index_dtype")))
    if "name" in changes:
        result = result.with_core(annotated(kernel.core, name=changes.pop("name")))
    if "args" in changes:
        result = _with_dtypes(result, changes.pop("args"))
    if "instructions" in changes:
        result = result.with_core(_with_instructions(kernel.core, changes.pop("instructions")))
    if changes:
        part = min(changes)
        raise PreconditionError(f"A copy of a kernel cannot have other {part}.", subject=part,
                                hint="a step changes a kernel so that it still computes the same")
    return result


#: The parts of loopy's kernels that choose among schedules with the same values.
_SCHEDULE = frozenset({"iname_slab_increments", "loop_priority", "overridden_get_grid_sizes_for_insn_ids"})


def _with_dtypes(kernel: LoopKernel, args: Sequence[KernelArgument]) -> LoopKernel:
    """*kernel* with the fields and dtypes of *args*, which must be its own arguments."""
    if [a.name for a in args] != [a.name for a in kernel.args]:
        raise PreconditionError("A copy of a kernel keeps its arguments and their order.", subject="args")
    dtypes = {a.name: np.dtype(a.dtype.numpy_dtype) for a in args if a.dtype is not None}
    own = {**kernel.declared, **{a.name: a for a in args}}
    return replace(kernel, made=lk.add_dtypes(kernel.core, dtypes) if dtypes else kernel.core, declared=own)
