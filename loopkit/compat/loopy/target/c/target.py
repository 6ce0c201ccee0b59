"""The targets for the host's C compiler."""
from __future__ import annotations

from typing import Any

from loopkit.compat.loopy.target.base import TargetBase
from loopkit.compat.loopy.target.execution import HostExecutor
from loopkit.compat.loopy.translation_unit import core_of
from loopkit.verification.checks import generate_code


class CFamilyTarget(TargetBase):
    """Base of the targets whose text is in a language like C."""


class CTarget(CFamilyTarget):
    """C; :class:`ExecutableCTarget` also runs it."""


class CWithGNULibcTarget(CTarget):
    """C with the GNU C library."""


class ExecutableCTarget(CTarget):
    """C that a call compiles and runs."""

    make_executor = HostExecutor


class ExecutableCWithGNULibcTarget(ExecutableCTarget):
    """C with the GNU C library that a call compiles and runs."""


def generate_header(kernel: Any, codegen_result: Any = None) -> list[str]:
    """The declaration of the kernel's function, in a list.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", target=lp.CTarget())
    >>> print(*lp.generate_header(lp.add_dtypes(knl, {"x": "float32"})))
    void loopy_kernel(const float *restrict x, float *restrict y, const int n);
    """
    source = generate_code(core_of(kernel), target="c").source
    name = core_of(kernel).name
    for line in (text := source.splitlines()):
        if f" {name}(" in line:
            start = text.index(line)
            whole = " ".join(part.strip() for part in text[start:]).partition("{")[0].partition(";")[0]
            return [f"{whole.strip().removeprefix('static ')};"]
    return []
