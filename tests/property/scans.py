"""Random prefix sums: bounds, operands and surroundings."""
from __future__ import annotations

import hypothesis.strategies as st
import numpy as np

import loopkit as lk
from tests.property.kernels import Draw


@st.composite
def scans(draw: Draw, ends: tuple[str, ...] = ("i", "i", "i", "2*i", "i//2")) -> lk.LoopKernel:
    """A reduction over ``j`` in a statement ``S``, whose upper bound moves with ``i``; sizes n >= m >= 0.

    :arg ends: the upper bounds, to which a constant is added.
    """
    def one(*choices: str) -> str:
        return draw(st.sampled_from(choices))
    low, shift = one("0", "0", "2", "m", "n - m"), draw(st.integers(-3, 2))
    first = f"{low} - {shift}" if shift > 0 else low         # the first sum has one operand at most
    bounds = f"{low}<=j<={one(*ends)} + {shift}" + one("", "", " and j<m", " and j<=2*m")
    inames = draw(st.sampled_from([("i",), ("r", "i"), ("i", "k"), ("r", "i", "k")]))
    at = "".join(f"{x}, " for x in inames if x != "i")
    operand = one(f"x[{at}j + 3]", f"2*x[{at}j + 3] - j", f"x[{at}j + 3]*x[{at}j + 4]")
    total = f"{one('sum', 'sum', 'max', 'product', 'f')}(j, {operand})"
    lines = [*(f"for {x}" for x in inames), *draw(st.sampled_from([(), (f"z[{at}i + 3] = i",)])),
             f"y[{at}i + 3] = {one('{0}', '3*{0} - i', '{0} + {0}').format(total)}  {{id=S}}", *("end" for _ in inames)]
    knl = lk.make_kernel(
        [f"{{[i]: {first}<=i<n}}", f"[i] -> {{[j]: {bounds}}}", *(f"{{[{x}]: 0<={x}<3}}" for x in inames if x != "i")],
        "\n".join(lines), [lk.ValueArg("m", np.dtype(np.int32)), "..."],
        reductions=[lk.ReductionOperation("f", "2*a + b")], assumptions="m>=0 and n>=m")
    return lk.add_dtypes(knl, {"x": np.int64})
