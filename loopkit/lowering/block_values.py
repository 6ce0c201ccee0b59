"""Values of a block: temporaries that bound loops and have one value at each place of the grid.

Such a value may be read from memory. Within the block it is a parameter; other blocks have other values.
"""
from __future__ import annotations

from loopkit.analysis.accesses import data_params
from loopkit.analysis.must_writes import setter_of
from loopkit.kernel.statement import Statement
from loopkit.lowering.lowered import Launch
from loopkit.poly.limits import kept
from loopkit.poly.sets import InstanceSet


def block_values(launch: Launch) -> frozenset[str]:
    """The temporaries that bound statements of *launch* and that one statement sets once for each place of the grid."""
    def found() -> frozenset[str]:
        setters: dict[str, set[Statement | None]] = {}
        for s in (bound.statement for bound in launch.statements.values()):
            for x in data_params(launch.kernel, s.domain):
                setters.setdefault(x, set()).add(setter_of(launch.kernel, x, s))
        return frozenset(x for x, (setter, *others) in setters.items()
                         if setter is not None and not others and {*setter.inames} <= {*launch.mapping.block_inames})
    return kept(launch.kernel.memo.setdefault("block values", {}), frozenset(launch.statements), found)


def domain_in_block(launch: Launch, statement: str) -> InstanceSet:
    """The domain of *statement* with bounds by values of its block, but no others that depend on data."""
    domain = launch.kernel.statement_by_id[statement].domain
    return domain.without_params({*data_params(launch.kernel, domain)} - block_values(launch))
