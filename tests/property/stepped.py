"""Random programs of time steps whose loops over space run on blocks: their dependences put the steps on the host."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from tests.property.kernels import Draw, Iname, Program
from tests.property.pipelines import Step

#: Where a loop over space may begin and end: as a domain, as Python, and whether it depends on the step.
SPACES = (("0<={x}<m", "range(m)", False), ("0<={x}<m", "range(m)", False), ("1<={x}<m-1", "range(1, m - 1)", False),
          ("0<={x}<m-t", "range(m - t)", True), ("t<{x}<m", "range(t + 1, m)", True),
          ("0<={x}<=t and {x}<m", "range(min(t + 1, m))", True))
TARGETS = ("a[{x}]", "a[m-1-{x}]", "b[{x}+1]", "c[t+1,{x}]", "c[t,{x}]", "u[{x}]", "v[{x}]", "u[{x}+1]")
READS = ("a[{x}]", "a[{x}+1]", "a[m-1-{x}]", "b[{x}]", "c[t,{x}]", "c[t,{x}+1]", "c[{x},t]", "x[{x}]", "x[t]", "u[{x}]",
         "u[{x}+1]", "v[{x}]", "v[m-1-{x}]", "w[0]", "{x}", "t")
IN_A_STEP = ("w[0] = w[0] + x[t]", "w[0] = t - w[0]", "a[0] = w[0]", "w[0] = a[1]", "b[t] = w[0] - 1")


@st.composite
def stepped_programs(draw: Draw) -> Program:
    """Temporaries are filled, then one or two nests of steps, then the temporaries are read."""
    def one(choices: Any) -> Any:
        return draw(st.sampled_from(choices))
    inames = [Iname(x, f"0<={x}<9", "range(9)", (), 0) for x in ("e", "f")] + [Iname("t", "0<=t<n", "range(n)", (), 0)]
    text = ["for e", "  u[e] = x[e]", "  v[e] = 2*x[e+1]", "end", "w[0] = x[m]"]
    python = ["for e in range(9):", "  u[e] = x[e]", "  v[e] = 2*x[e+1]", "w[0] = x[m]"]
    text.append("for t")
    python.append("for t in range(n):")
    for x in "ijkl"[:draw(st.integers(1, 4))]:
        if draw(st.integers(0, 3)) == 0:
            line = one(IN_A_STEP)
            text.append(f"  {line}")
            python.append(f"  {line}")
            continue
        domain, values, of_step = one(SPACES)
        inames.append(Iname(x, domain.format(x=x), values, ("t",) if of_step else (), 0))
        text.append(f"  for {x}")
        python.append(f"  for {x} in {values}:")
        for _ in range(draw(st.integers(1, 2))):
            reads = [one(READS).format(x=x) for _ in range(draw(st.integers(1, 3)))]
            line = f"    {one(TARGETS).format(x=x)} = {one((' + ', ' - ')).join(reads)}"
            text.append(line)
            python.append(line)
        text.append("  end")
    text += ["end", "for f", "  b[f] = b[f] - u[f] + v[f]", "end", "a[9] = w[0]"]
    python += ["for f in range(9):", "  b[f] = b[f] - u[f] + v[f]", "a[9] = w[0]"]
    sizes = tuple({"n": draw(st.integers(0, 4)), "m": draw(st.integers(2, 7))} for _ in range(2))
    return Program("stepped", tuple(x.text for x in inames), "\n".join(text) + "\n", "\n".join(python) + "\n",
                   "float64", ("u", "v", "w"), "n >= 0 and m >= 2", sizes, draw(st.integers(0, 99)))


@st.composite
def mappings(draw: Draw, program: Program) -> list[Step]:
    """Blocks, threads or neither for the loops over space."""
    steps = []
    for x in (x for x in "efijkl" if f"[{x}]" in "".join(program.domains)):
        lot = draw(st.integers(0, 9))
        if lot < 6:
            length = draw(st.sampled_from((2, 3)))
            steps.append(Step("split_iname", (x, length), (("outer_tag", "g.0"), ("inner_tag", "l.0"))))
        elif lot < 8:
            steps.append(Step("tag_inames", ({x: "g.0"},)))
    return steps
