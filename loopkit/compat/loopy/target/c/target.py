"""The targets for the host's C compiler."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from loopkit.compat.loopy.codegen import CodeGenerationResult, generate_code_v2
from loopkit.compat.loopy.target.base import TargetBase
from loopkit.compat.loopy.target.execution import HostExecutor


class CFamilyTarget(TargetBase):
    """Base of the targets whose text is in a language like C."""


class CTarget(CFamilyTarget):
    """C; :class:`ExecutableCTarget` also runs it."""


class CWithGNULibcTarget(CTarget):
    """C with the GNU C library."""


@dataclass(frozen=True)
class ExecutableCTarget(CTarget):
    """C that a call compiles and runs."""

    compiler: Any = field(default=None, compare=False)
    make_executor = HostExecutor


class ExecutableCWithGNULibcTarget(ExecutableCTarget):
    """C with the GNU C library that a call compiles and runs."""


def generate_header(kernel: Any, codegen_result: CodeGenerationResult | None = None) -> list[str]:
    """The declarations of the functions in the text of a program for its target.

    ``__restrict__`` is a word of compilers for C and for C++.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", target=lp.CTarget())
    >>> print(*lp.generate_header(lp.add_dtypes(knl, {"x": "float32"})))
    void loopy_kernel(const float *__restrict__ x, float *__restrict__ y, const int n);
    """
    code = (codegen_result or generate_code_v2(kernel)).generated
    return [_declaration(code.source, function.name).replace("*restrict ", "*__restrict__ ")
            for function in code.kernels]


#: The size of a block in OpenCL, which loopy writes after the type.
_ATTRIBUTE = re.compile(r"(__attribute__)(\(\(reqd_work_group_size\([\d, ]*\)\)\)) void ")


def _declaration(source: str, name: str) -> str:
    """The head of the function *name*, which begins after an empty line, as a declaration."""
    for place in re.finditer(rf"\b{name}\(", source):
        head, mark, _ = source[place.start():].partition("{")
        if mark and ";" not in head:
            lines = (source[:place.start()].rpartition("\n\n")[2] + head).splitlines()
            text = " ".join(line.strip() for line in lines if line[:1] not in ("#", "/", ""))
            return _ATTRIBUTE.sub(r"void \1 \2 ", text.removeprefix("static ").strip()) + ";"
    raise AssertionError(f"the text has no function {name}")
