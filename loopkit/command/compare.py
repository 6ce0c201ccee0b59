"""The comparison of two kernels on the host, at sizes that the user gives or that suit the second one."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loopkit.errors import EquivalenceError, LoopkitError, values_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.pipeline import lowered_once
from loopkit.runtime.equivalence import OutputComparison, check_equivalent
from loopkit.show.document import Line, Span, Style
from loopkit.show.program import chosen_sizes

#: The values of sizes to choose from, the best first: with full and partial tiles, and few enough for plain loops.
_SIZES = (150, 128, 256, 512, 1024, 96, 75, 64, 48, 37, 32, 24, 16, 8, 4, 3, 2, 1)
_MOST_BYTES = 2**22

_STYLES: Mapping[str, Style] = {"equal": "good", "different": "bad", "undecided": "warning"}


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same random data.

    :ivar reason: the element that differs, or the obstacle to the runs.
    """

    sizes: Mapping[str, int]
    result: Literal["equal", "different", "undecided"]
    outputs: tuple[OutputComparison, ...] = ()
    reason: str = ""

    def lines(self) -> Iterator[Line]:
        """The result, and a line for each output."""
        yield Span(self.result, _STYLES[self.result]), f" on random data{values_text(self.sizes, ' with {}')}"
        yield from filter(None, self.reason.splitlines())
        yield from map(str, self.outputs)

    def data(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"result": self.result, "sizes": dict(self.sizes), "reason": self.reason,
                "outputs": [{"name": x.name, "error": x.error, "bound": x.bound} for x in self.outputs]}


def compare(old: LoopKernel, new: LoopKernel, given: Mapping[str, int]) -> Comparison:
    """Run *old* and *new* on the host with the *given* sizes; others get values that the assumptions allow."""
    sizes = dict(given)
    try:
        sizes = chosen_sizes(lowered_once(new), sizes, candidates=_SIZES, most_bytes=_MOST_BYTES)
        outputs = check_equivalent(old, new, sizes, target="c").outputs
    except EquivalenceError as err:
        return Comparison(sizes, "different", reason=str(err))
    except LoopkitError as err:
        return Comparison(sizes, "undecided", reason=str(err))
    return Comparison(sizes, "equal", outputs)
