"""t_unit_to_python: the source of a program."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from pytools.tag import Tag

from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.names import PLACES
from loopkit.compat.loopy.translation_unit import TranslationUnit
from loopkit.compat.loopy.types import NumpyType
from loopkit.compat.loopy.typing import auto
from loopkit.errors import PreconditionError
from loopkit.kernel.data import ConstantArray
from loopkit.kernel.literals import call_text, literal, modules_of_tags

#: The modules that the source of a program may name.
_MODULES = ("islpy as isl", "loopkit as lk", "loopkit.compat.loopy as lp", "numpy as np", "pymbolic.primitives as p")


def t_unit_to_python(t_unit: TranslationUnit, var_name: str = "t_unit",
                     return_preamble_and_body_separately: bool = False) -> str | tuple[str, str]:
    """Python source that makes the program, as *var_name*: each of loopkit's kernels with its steps.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", options="return_dict")
    >>> made = {}
    >>> exec(lp.t_unit_to_python(lp.split_iname(knl, "i", 4)), made)
    >>> print(made["t_unit"]["loopy_kernel"].core.statements_text)
    for i_outer, i_inner
      y[4*i_outer + i_inner] = 2*x[4*i_outer + i_inner]  {id=insn}
    end

    A kernel that calls a function which the program does not have yet is a call of ``make_kernel``, without steps.

    :raises PreconditionError: an argument of a step has no text form.
    """
    lines, modules = list[str](), {*_MODULES}
    for name, kernel in t_unit.kernels.items():
        unknown = kernel.made is None and kernel.parts is None
        history = None if unknown else kernel.core.history
        for step in () if history is None else filter(None, (history.made, *history.steps)):
            modules |= {*modules_of_tags((step.args, dict(step.kwargs)))}
        modules |= {*modules_of_tags([getattr(d, "tags", ()) for d in kernel.declared.values()])}
        lines.append(f"{name!r}: {_definition(kernel) if history is None else _kernel(kernel, history.expression())},")
    kernels = "\n".join(lines)
    body = f"{var_name} = " + call_text("lp.TranslationUnit", f"{{\n{kernels}\n}}", written(t_unit.entrypoints),
                                       written(t_unit.target))
    modules |= {*_OWN_MODULE.findall(body)}
    preamble = "\n".join(f"import {module}" for module in sorted(modules))
    return (preamble, body) if return_preamble_and_body_separately else f"{preamble}\n\n{body}\n"


#: The module of a class that ``lp`` does not have.
_OWN_MODULE = re.compile(r"\b(loopkit\.compat\.loopy(?:\.[a-z_]+)+)\.[A-Z]")


def _kernel(kernel: LoopKernel, core: str) -> str:
    origin = replace(kernel.origin, functions=())                  # the text of *core* has them
    return call_text("lp.LoopKernel", core, **{name: written(value) for name, value in (
        ("target", kernel.target), ("options", kernel.options), ("declared", kernel.declared),
        ("silenced_warnings", kernel.silenced_warnings), ("state", kernel.state), ("origin", origin)) if value})


def _definition(kernel: LoopKernel) -> str:
    """A call of ``make_kernel``; :raises PreconditionError: there were steps since."""
    assert kernel.definition is not None
    if kernel.definition.steps:
        raise PreconditionError(f"The kernel '{kernel.name}' calls a function that is not known, and has steps.",
                                subject=kernel.name, hint="lp.merge it with its functions first")
    given = {**kernel.definition.text.arguments, "target": kernel.target, "options": kernel.options}
    return call_text("lp.make_kernel", **{
        name: written(value) for name, value in given.items() if value}) + f"[{kernel.name!r}]"


def written(value: object) -> str:
    """Python text for *value*, which may be an object of the layer.

    >>> from loopkit.compat.loopy import AddressSpace, GlobalArg
    >>> print(written([GlobalArg("x", "float32", shape=(4,)), AddressSpace.LOCAL, auto]))
    [lp.GlobalArg('x', dtype=np.float32, shape=(4,)), lp.AddressSpace.LOCAL, lp.auto]

    :raises PreconditionError: there is no such text.
    """
    match value:
        case NumpyType(dtype=dtype):
            return literal(dtype)
        case Enum() if type(value).__name__ in PLACES.addresses:
            return f"lp.{type(value).__name__}.{value.name}"
        case Mapping():
            return "{" + ", ".join(f"{written(k)}: {written(x)}" for k, x in value.items()) + "}"
        case list():
            return f"[{', '.join(map(written, value))}]"
        case tuple():
            return f"({', '.join(map(written, value))}{',' if len(value) == 1 else ''})"
        case np.ndarray():
            return literal(ConstantArray.of(value))
        case _ if value is auto:
            return "lp.auto"
        case _ if is_dataclass(value) and not isinstance(value, type | Tag) and type(value).__module__.startswith(
                "loopkit.compat.loopy."):
            return _call_of_class(value)
        case _:
            return literal(value)


def _call_of_class(value: Any) -> str:
    """The call of the class of *value*, with the fields that differ from their defaults."""
    args, kwargs, kind = list[str](), dict[str, str](), type(value)
    for f in filter(lambda f: f.init, fields(value)):
        own, default = getattr(value, f.name), f.default if f.default_factory is MISSING else f.default_factory()
        if default is MISSING and not f.kw_only:
            args.append(written(own))
        elif own is not default and not (type(own) is type(default) and own == default):
            kwargs[f.name] = written(own)
    name = kind.__name__
    return call_text(f"lp.{name}" if name in PLACES.addresses else f"{kind.__module__}.{name}", *args, **kwargs)
