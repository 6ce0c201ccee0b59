"""Targets: the part of a target that lowering and the checks need."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopkit.errors import PreconditionError
from loopkit.kernel.devices import WARP, DeviceLimits
from loopkit.lazy import LazyTable


@dataclass(frozen=True)
class Machine:
    """The properties of a target that lowering uses; lowered kernels are kept by their machine.

    Targets of one machine share their loop programs: the loop program for a GPU runs as C on the host, too.
    """

    warp: int = WARP


#: A CUDA GPU of any architecture.
GPU = Machine()


class Target:
    """A code generator and a device for its code. Subclasses are frozen dataclasses of compiler options."""

    #: The name in ``target="..."``.
    name: ClassVar[str]

    @property
    def machine(self) -> Machine:
        return GPU

    @property
    def limits(self) -> DeviceLimits | None:
        """The limits of a launch; ``None``: it has none."""
        return None

    @property
    def capability(self) -> int | None:
        """The number of the architecture, 80 for sm_80; ``None``: it has no architectures."""
        return None if self.limits is None else self.limits.capability


#: The targets by name; ``loopkit/__init__.py`` gives the addresses of ours.
TARGETS = LazyTable[type[Target]]()

#: The target of a kernel for which none is named.
DEFAULT_TARGET = "cuda"


def resolve_target(target: object) -> Target:
    """The target object for a name (``None``: the default); :raises PreconditionError: there is no such target."""
    if isinstance(target, Target):
        return target
    name = DEFAULT_TARGET if target is None else target
    if isinstance(name, str) and name in TARGETS:
        return TARGETS[name]()
    raise PreconditionError(
        f"{target!r} is no target.", subject=str(target),
        hint=f"the targets are {', '.join(f'{known!r}' for known in TARGETS)}, and objects with options, such as "
             f"{', '.join(f'lk.{cls.__name__}(...)' for cls in TARGETS.values())}")
