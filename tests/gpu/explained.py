"""Faults that no tool reported: the results of the simulated machine at the sizes of each case.

    python -m tests.gpu.explained LOG             for each fault that the LOG of tests.gpu.sanitizer calls not reported

The tools see what happens, at the sizes that run: a hazard in shared memory, an access outside of an allocation. The
machine runs the same faulty program without a GPU, its arrays as allocations that know their sizes only.
"""
from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.ast.nodes import Program
from loopkit.kernel.target import GPU
from loopkit.lowering.lowered import Lowered
from loopkit.runtime.typed import TypedKernels
from loopkit.runtime.views import ArrayView
from tests.cases import CASES, Case
from tests.gpu.sanitizer import KINDS, MARK, all_faults
from tests.property.machine import MachineError, Memory, execute

BY_NAME = {case.name: case for case in CASES}


@dataclass
class Allocation(Memory):
    """Memory that knows its size only: no shape, no order of accesses, and zeros where nobody wrote."""

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return self.values.get(self._cell(index), 0)

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        self.values[self._cell(index)] = value

    def _cell(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The indices within the shape of the element that *index* gives the address of."""
        size, offset = prod(self.shape), 0
        for i, extent in zip(index, self.shape, strict=True):
            offset = offset*extent + i
        if not 0 <= offset < size:
            raise MachineError(f"{self.place.statement} touches {self.name}{list(index)}, "
                               f"outside of its {size} elements")
        return tuple(int(i) for i in np.unravel_index(offset, self.shape))


@cache
def _lowered(name: str) -> Lowered:
    lowered = lk.lower(BY_NAME[name].make())
    return lowered


def seen(case: Case, program: Program, memory: type[Memory]) -> str:
    """The first thing that the machine objects to, or nothing, at all sizes of *case*."""
    lowered = replace(_lowered(case.name), program=program)
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(7), *sizes)
        given = {x: ArrayView.of(a) if isinstance(a, np.ndarray) else a for x, a in arguments.items()}
        bound = TypedKernels(case.make(), GPU).of(given).plan.bind(given)
        arrays = {k: np.array(arguments[k]) if k in arguments else np.zeros(a.shape, a.dtype)
                  for k, a in bound.arrays.items()}
        try:
            execute(lowered, arrays, {**arguments, **bound.values}, random.Random(0), memory=memory)
        except MachineError as err:
            return str(err)
    return ""


def explained(name: str) -> tuple[str, str]:
    """The kind of the fault called *name*, and what the machine sees of it that the tool for it could see too."""
    of, number = name.rsplit(f"_{MARK}", 1)
    case = BY_NAME[of]
    fault = all_faults(case, _lowered(of))[int(number)]
    return fault.kind, seen(case, fault.program, Allocation if fault.kind in KINDS["memcheck"] else Memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="what tests.gpu.sanitizer printed")
    count: Counter[str] = Counter()
    for name in re.findall(r"not reported: (\S+)", parser.parse_args().log.read_text()):
        kind, objection = explained(name)
        count[f"{kind}: {'the machine objects too' if objection else 'nothing to see at these sizes'}"] += 1
        print(f"{name} ({kind}):", objection or "nothing", flush=True)
    for line, number in sorted(count.items()):
        print(f"{number:4} {line}")


if __name__ == "__main__":
    main()
