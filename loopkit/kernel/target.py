"""Targets: their names, and the part of a target that lowering and the checks need."""
from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from loopkit.ast.nodes import Scope
from loopkit.errors import PreconditionError
from loopkit.lazy import LazyTable
from loopkit.shown import Declared

#: Threads of a warp, on every architecture.
WARP = 32


@dataclass(frozen=True)
class Machine:
    """The properties of a target that lowering uses; lowered kernels are cached by machine.

    Targets of one machine share their loop programs: the loop program for a GPU runs as C on the host, too.

    :ivar warp: threads of a warp; 1: the target has no instructions of warps.
    :ivar barriers_in_branches: code with barriers may have a version for full tiles; else only code between barriers.
    :ivar roles: the threads of a block may have two roles; else all run all statements, in their order.
    """

    warp: int = WARP
    barriers_in_branches: bool = True
    roles: bool = True

    def threads_of(self, scope: Scope) -> int:
        """The threads of a warp or a warpgroup."""
        return self.warp*{Scope.WARP: 1, Scope.WARPGROUP: 4}[scope]


#: A CUDA GPU of any architecture.
GPU = Machine()


class Target(Declared):
    """A code generator and a device for its code. Subclasses are frozen dataclasses of compiler options."""

    #: The name in ``target="..."``, and of its folder in ``loopkit/target``.
    name: ClassVar[str]

    #: The address ``module:name`` of a :data:`loopkit.runtime.calls.MakeRunner`; ``None``: nothing runs its kernels.
    runner: ClassVar[str | None] = None

    #: The packages of arrays that a call runs with this target, if the user names no other.
    libraries: ClassVar[frozenset[str]] = frozenset()

    @property
    def machine(self) -> Machine:
        return GPU


#: The targets by name; ``loopkit/__init__.py`` finds those of the folders in ``loopkit/target``.
TARGETS = LazyTable[type[Target]]()


@cache
def _libraries() -> Mapping[str, str]:
    return {library: name for name, target in TARGETS.items() for library in target.libraries}


def target_of_arrays(values: Iterable[object]) -> str | None:
    """The name of the target on whose devices the first array among *values* is that chooses one; ``None``: none."""
    libraries = _libraries()
    if not any(x in sys.modules for x in libraries):
        return None
    packages = (type(x).__module__.partition(".")[0] for x in values)
    return next((libraries[x] for x in packages if x in libraries), None)


def resolve_target(target: object) -> Target:
    """The target object for a name (``None``: CUDA); :raises PreconditionError: there is no such target."""
    if isinstance(target, Target):
        return target
    name = "cuda" if target is None else target
    if isinstance(name, str) and name in TARGETS:
        return TARGETS[name]()
    raise PreconditionError(
        f"{target!r} is not a target.", subject=str(target),
        hint=f"the targets are {', '.join(f'{known!r}' for known in TARGETS)}, and objects with options, such as "
             f"{', '.join(f'lk.{cls.__name__}(...)' for cls in TARGETS.values())}")
