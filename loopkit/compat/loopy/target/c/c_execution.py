"""loopy's names for the C compiler; loopkit calls it itself."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopkit.errors import PreconditionError

#: Options with which codepy makes a library.
_CFLAGS = ("-std=c99", "-O3", "-fPIC")


@dataclass(frozen=True)
class CCompiler:
    """A C compiler with its options.

    :ivar cc: its command; ``None``: the first that works.
    """

    cc: str | None = None
    cflags: Any = ()
    ldflags: Any = ()
    libraries: Any = ()
    include_dirs: Any = ()
    library_dirs: Any = ()
    defines: Any = ()
    requires_separate_linkage: bool = False

    @property
    def toolchain(self) -> Any:
        """The compiler as a toolchain of codepy, which builds other code with it; loopkit itself does not use codepy.

        :raises ImportError: codepy is not installed.
        """
        from codepy.toolchain import GCCToolchain
        return GCCToolchain(
            cc=self.cc or "cc", ld="ld", cflags=list(self.cflags or _CFLAGS),
            ldflags=list(self.ldflags or ("-shared",)), libraries=list(self.libraries),
            include_dirs=list(self.include_dirs), library_dirs=list(self.library_dirs), defines=list(self.defines),
            undefines=[], so_ext=".so", o_ext=".o", features=set())

    @property
    def core_fields(self) -> Mapping[str, Any]:
        """The fields of loopkit's target; :raises PreconditionError: it has nothing for one of this object."""
        for name in ("ldflags", "libraries", "library_dirs"):
            if getattr(self, name):
                raise PreconditionError(f"A CCompiler has {name}={getattr(self, name)!r}, and loopkit links no "
                                        "libraries to a kernel.", subject=name)
        return {"compiler": self.cc, "options": (*self.cflags, *(f"-I{x}" for x in self.include_dirs),
                                                 *(f"-D{x}" for x in self.defines))}
