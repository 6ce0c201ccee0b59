"""Random programs whose subscripts and conditions are affine only for each value of an iname, or come from memory."""
from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st

from tests.property.kernels import Draw, Iname, Program
from tests.property.pipelines import Drawer

#: The inames, and their values as a domain and as Python; ``n`` is at most 7.
LOOPS = {"i": ("0<=i<3", "range(3)"), "j": ("0<=j<n", "range(n)"), "p": ("0<=p<4", "range(4)")}
BY_VALUE = ("5*i*i + p", "5*i*i + p", "i*(n // 2) + min(n % 2, i) + p", "i*(n // 3) + min(n % 3, i) + j", "i*p", "i*j",
            "i*j + p", "min(i*n, 9) + j", "(i*n) // 3 + p", "(i*p) % 3 + j", "max(i*i, 2) + p", "i*i", "p*p + i")
FROM_MEMORY = ("idx[i] + p", "idx[j]", "idx[p] + i")
AFFINE = ("i", "j", "p", "i + p", "j + 2", "2*i + j", "8")
CONDITIONS = ("i*n > 3", "i*p < j", "i*p < 3", "i*i + p != 4", "p % 2 == 0", "x[i*p] > 0", "min(n, i) < p", "n != 3")


@st.composite
def by_value_programs(draw: Draw) -> Program:
    """Up to three nests of loops over some of the inames."""
    def one(choices: Any) -> Any:
        return draw(st.sampled_from(list(choices)))

    def fitting(choices: Any, loops: Any) -> list[str]:
        return [c for c in choices if set(re.findall(r"\b[ijp]\b", c)) <= set(loops)]

    def subscript(loops: Any, *, table: bool = True) -> str:
        pools = [BY_VALUE, BY_VALUE, AFFINE, *([FROM_MEMORY] if table else [])]
        return str(one(fitting(one(pools), loops) or fitting(AFFINE, loops)))

    def value(loops: Any, known: list[str]) -> str:
        reads = [f"x[{subscript(loops)}]", f"a[{subscript(loops)}]", f"b[{subscript(loops)}]",
                 f"z[{subscript(loops)}, {subscript(loops)}]", *known, *known, "n"]
        a, b = one(reads), one(reads)
        return str(one((a, f"{a} + {b}", f"{a} - {b}")))
    text: list[str] = []
    python: list[str] = []
    temporaries: list[str] = []
    used: dict[str, None] = {}
    for _ in range(draw(st.integers(1, 3))):
        loops = draw(st.lists(st.sampled_from(list(LOOPS)), min_size=1, max_size=3, unique=True))
        used.update(dict.fromkeys(loops))
        for depth, x in enumerate(loops):
            text.append(f"{'  '*depth}for {x}")
            python.append(f"{'  '*depth}for {x} in {LOOPS[x][1]}:")
        known: list[str] = []
        for _ in range(draw(st.integers(1, 2))):
            target, guard = f"{one('abc')}", ""
            if target == "c":
                target = f"c[{subscript(loops)}, {subscript(loops)}]"
            elif len(temporaries) < 3 and draw(st.integers(0, 2)) == 0:
                temporaries.append("uv"[len(temporaries) % 2])
                target = f"{temporaries[-1]}[{subscript(loops, table=False)}]"
            else:
                target = f"{target}[{subscript(loops)}]"
                guard = one(fitting(CONDITIONS, loops)) if draw(st.integers(0, 3)) == 0 else ""
            line, pad = f"{target} = {value(loops, known)}", "  "*len(loops)
            if target[0] in "uv":
                known.append(target)
            text.append(f"{pad}{line}" + (f" {{if={guard}}}" if guard else ""))
            python.append(f"{pad}if {guard}: {line}" if guard else f"{pad}{line}")
        text += [f"{'  '*depth}end" for depth in reversed(range(len(loops)))]
    sizes = tuple({"n": draw(st.integers(0, 7))} for _ in range(2))
    domains = tuple(Iname(x, LOOPS[x][0], LOOPS[x][1], (), 0).text for x in used)
    body = "\n".join(python) + "\n"
    return Program("by_value", domains, "\n".join(text) + "\n", body, "float64", tuple(sorted(set(temporaries))),
                   "n >= 0" if re.search(r"\bn\b", body) else None, sizes, draw(st.integers(0, 99)))


#: What works on elements of arrays, and what makes such subscripts.
STEPS = (Drawer.prefetch, Drawer.prefetch, Drawer.prefetch, Drawer.buffer, Drawer.buffer, Drawer.contract,
         Drawer.expand_storage, Drawer.privatize, Drawer.chunk, Drawer.chunk, Drawer.peel, Drawer.mapping, Drawer.step)
