"""loopy's options of a kernel; loopkit's own options are in :class:`loopkit.Options`."""
from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from loopkit.compat.loopy.diagnostic import LoopyWarning
from loopkit.compat.loopy.typing import auto
from loopkit.errors import PreconditionError, require_known


@dataclass(frozen=True)
class Options:
    """loopy's options; those without a meaning here are kept, and change nothing.

    :ivar return_dict: a call returns its outputs by name.
    :ivar no_numpy: a call takes and returns arrays of the device only.
    :ivar write_code: the first call with arguments of a kind prints the text; so does *write_wrapper*.
    :ivar check_dep_resolution: ``dep=`` names statements of the kernel only.
    :ivar enforce_variable_access_ordered: two accesses of an element need an order; ``False``: a warning where they
        have none; ``"no_check"``: they run in the order of the text.
    :ivar build_options: options for the compiler.
    """

    return_dict: bool = False
    no_numpy: bool = False
    trace_assignments: bool = False
    trace_assignment_values: bool = False
    skip_arg_checks: bool = False
    write_wrapper: bool = False
    write_code: bool = False
    edit_code: bool = False
    allow_terminal_colors: bool | None = None
    disable_global_barriers: bool = False
    check_dep_resolution: bool = True
    ignore_boostable_into: bool = True
    enforce_variable_access_ordered: Any = True
    enforce_array_accesses_within_bounds: Any = True
    insert_gbarriers: bool = False
    build_options: Any = ()
    allow_fp_reordering: bool = True
    annotate_inames: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.build_options, str):
            object.__setattr__(self, "build_options", tuple(self.build_options.split()))
        for name, hint in _WITHOUT_EFFECT.items():
            if getattr(self, name):
                warnings.warn(f"loopkit has nothing for the option {name}=: {hint}", LoopyWarning, stacklevel=2)

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """These options with *changes*; :raises UnknownNameError: there is no such option."""
        named = {_LEGACY.get(name, name): value for name, value in changes.items()}
        require_known("option", named, [f.name for f in fields(self)])
        return replace(self, **named)


#: Options that show more than loopkit does, each with another way.
_WITHOUT_EFFECT = {
    "trace_assignments": "loopkit.interpreter runs a kernel statement by statement",
    "trace_assignment_values": "loopkit.interpreter runs a kernel statement by statement",
    "edit_code": "lp.generate_code_v2(knl).device_code() is a text to change and to compile",
}

_LEGACY = {"write_cl": "write_code", "highlight_cl": "allow_terminal_colors", "edit_cl": "edit_code",
           "cl_build_options": "build_options", "cl_exec_manage_array_events": "no_numpy"}


def make_options(given: Any) -> Options:
    """Options from loopy's forms: a mapping, ``"return_dict,no_numpy"``, ``["return_dict"]`` or ``None``."""
    if given is None or isinstance(given, Options):
        return given or Options()
    if isinstance(given, Mapping):
        return Options().changed(given)
    words = given.split(",") if isinstance(given, str) else given
    pairs = (str(word).partition("=") for word in words if str(word).strip())
    return Options().changed({key.strip(): value.strip() if equals else True for key, equals, value in pairs})


#: Further arguments of loopy's make_kernel: those that change no value here, and those with the default value only.
_UNUSED = frozenset({"lang_version", "silenced_warnings", "iname_slab_increments"})
_DEFAULT_ONLY = frozenset({"applied_iname_rewrites", "default_offset", "symbol_manglers"})


def require_neutral(others: Mapping[str, Any], parameters: Collection[str]) -> None:
    """:raises UnknownNameError: one of *others* is not an argument of loopy's make_kernel, which also has *parameters*.

    :raises PreconditionError: loopkit has nothing for its value.
    """
    require_known("argument", others, [*parameters, *_UNUSED, *_DEFAULT_ONLY], where="make_kernel")
    for name, value in others.items():
        neutral: tuple[Any, ...] = (None, 0, auto) if name == "default_offset" else (None, (), [], False, frozenset())
        if name not in _UNUSED and value not in neutral:
            raise PreconditionError(f"make_kernel: loopkit has nothing for {name}={value!r}.", subject=name,
                                    hint="leave it out")
