"""A compiled translation unit for CUDA, and what ptxas says that each of its functions takes."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PtxasUsage:
    """What one function takes.

    :ivar registers: 32-bit registers a thread.
    :ivar spill_stores: bytes that a thread stores because registers are too few; *spill_loads*: that it loads back.
    :ivar stack: bytes of a thread's stack, where arrays lie that did not fit registers.
    :ivar static_shared: bytes of shared memory that the function declares.
    :ivar barriers: barriers of a block.
    :ivar constant: bytes of constant memory, parameters among them; 0 where ptxas is silent about it.
    """

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    static_shared: int = 0
    barriers: int = 0
    constant: int = 0


@dataclass(frozen=True)
class Binary:
    """Machine code of one translation unit.

    :ivar cubin: an ELF file.
    :ivar log: the compiler's messages, warnings among them.
    :ivar resources: by the name of the function.
    """

    cubin: bytes
    log: str
    resources: Mapping[str, PtxasUsage]


_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '\w+'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)


def parse_ptxas_log(log: str) -> dict[str, PtxasUsage]:
    """What ``ptxas -v`` printed, by function."""
    return {m["name"]: PtxasUsage(
        int(m["registers"]), int(m["stores"]), int(m["loads"]), int(m["stack"]),
        static_shared=_total(r"(\d+) bytes smem", m["rest"]), barriers=_total(r"used (\d+) barriers", m["rest"]),
        constant=_total(r"(\d+) bytes cmem", m["rest"])) for m in _FUNCTION.finditer(log)}


def _total(pattern: str, text: str) -> int:
    return sum(map(int, re.findall(pattern, text)))
