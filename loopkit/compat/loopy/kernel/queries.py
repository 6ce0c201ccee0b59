"""loopy's queries of a kernel: its inames, tags and names, and which statements access them."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pytools import UniqueNameGenerator

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array
from loopkit.compat.loopy.kernel.data import Iname
from loopkit.compat.loopy.kernel.instruction import shown_id
from loopkit.errors import PreconditionError, require_known
from loopkit.kernel.statement import owner
from loopkit.poly.domains import AnySet


class KernelQueries(ABC):
    """loopy's queries of a kernel, around one of loopkit."""

    @property
    @abstractmethod
    def core(self) -> lk.LoopKernel:
        """loopkit's kernel."""

    @property
    @abstractmethod
    def instructions(self) -> Sequence[Any]:
        """The statements of the kernel, and the global barriers of the text."""

    @property
    @abstractmethod
    def realized(self) -> frozenset[str]:
        """The statements whose reductions are shown as statements."""

    # Domains and inames

    def parents_per_domain(self) -> Sequence[int | None]:
        """For each domain the place of the domain in which it is nested."""
        own = [frozenset(d.inames) for d in self.core.domains]
        return [max((k for k, other in enumerate(own) if other < d), key=lambda k: len(own[k]), default=None)
                for d in own]

    def get_inames_domain(self, inames: Any) -> AnySet:
        """The domain of *inames*, with the other inames projected out."""
        wanted = [inames] if isinstance(inames, str) else list(inames)
        for d in self.core.domains:
            if set(wanted) <= set(d.inames):
                return d.onto(tuple(x for x in d.inames if x in wanted)).set
        raise PreconditionError(f"No statement has all of the inames {', '.join(wanted)}.", subject=", ".join(wanted))

    @property
    def inames(self) -> Mapping[str, Iname]:
        return {x: Iname(x, self.iname_tags(x)) for x in self.core.inames}

    @property
    def iname_to_tags(self) -> Mapping[str, frozenset[Any]]:
        return {x: self.iname_tags(x) for x in self.core.inames if self.iname_tags(x)}

    def iname_tags(self, iname: str) -> frozenset[Any]:
        """The tags of *iname*."""
        return self.core.iname_tags(iname)

    def iname_tags_of_type(self, iname: str, tag_type: type) -> frozenset[Any]:
        """The tags of *iname* of a class."""
        return self.core.iname_tags_of_type(iname, tag_type)

    def all_inames(self) -> frozenset[str]:
        """Every iname."""
        return self.core.all_inames()

    def all_params(self) -> frozenset[str]:
        """The parameters of the domains."""
        return frozenset(x for d in self.core.domains for x in d.params) - self.all_inames()

    def outer_params(self) -> frozenset[str]:
        """The parameters of the domains that are not computed by the kernel."""
        return self.all_params() - self.core.temporaries.keys()

    def iname_to_insns(self) -> Mapping[str, frozenset[str]]:
        """For each iname the statements in its loops."""
        return {x: frozenset(i.id for i in self.instructions if isinstance(i.id, str) and x in i.within_inames)
                for x in self.core.inames}

    # User tags

    @property
    def tags(self) -> frozenset[Any]:
        """The user tags of the kernel."""
        return self.core.kernel_tags

    def tags_of_type(self, tag_type: type) -> frozenset[Any]:
        """The user tags of a class."""
        return self.core.tags_of_type(tag_type)

    # Statements and names

    @property
    def id_to_insn(self) -> Mapping[str, Any]:
        return {str(i.id): i for i in self.instructions}

    def insn_inames(self, insn: Any) -> frozenset[str]:
        """The inames of the loops around a statement, which is given by its id or as an object."""
        known = self.id_to_insn
        name = insn if isinstance(insn, str) else str(insn.id)
        require_known("statement", [name], known)
        return frozenset(known[name].within_inames)

    def writer_map(self) -> Mapping[str, frozenset[str]]:
        """For each name the statements that write it."""
        return self._accessors(writes=True)

    def reader_map(self) -> Mapping[str, frozenset[str]]:
        """For each name the statements that read it."""
        return self._accessors(writes=False)

    def _accessors(self, *, writes: bool) -> Mapping[str, frozenset[str]]:
        own = {*self.core.argument_by_name, *self.core.temporaries} - {
            node.accumulator for node in self.core.reductions.values() if owner(node.final) not in self.realized}
        return {name: frozenset(shown_id(a.statement, self.realized) for a in accesses if a.is_write is writes)
                for name, accesses in accesses_by_array(self.core).items()
                if name in own and any(a.is_write is writes for a in accesses)}

    def get_written_variables(self) -> frozenset[str]:
        """The names that statements write."""
        return frozenset(self.writer_map())

    def get_read_variables(self) -> frozenset[str]:
        """The names that statements read."""
        return frozenset(self.reader_map())

    def non_iname_variable_names(self) -> frozenset[str]:
        """The names of arguments and temporaries."""
        return frozenset([*self.core.argument_by_name, *self.core.temporaries])

    def all_variable_names(self) -> frozenset[str]:
        """Every name of the kernel."""
        return frozenset(self.core.all_names)

    def get_var_name_generator(self) -> UniqueNameGenerator:
        """A function that makes new names."""
        return UniqueNameGenerator({*self.core.all_names})

    def get_instruction_id_generator(self) -> UniqueNameGenerator:
        """A function that makes new ids of statements."""
        return UniqueNameGenerator({*self.id_to_insn})
