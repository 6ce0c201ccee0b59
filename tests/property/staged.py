"""Random programs made for staging: nests in which copies, full tiles, pipelines and scans are accepted."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st

from tests.property.kernels import Draw, Iname, Program
from tests.property.pipelines import Drawer, Step

#: The values of loops, as a domain and as Python.
LOOPS = (("0<={}<n", "range(n)"), ("0<={}<n", "range(n)"), ("0<={}<5", "range(5)"), ("1<={}<n", "range(1, n)"),
         ("0<={}<m", "range(m)"))
#: Subscripts in the loops i, j and k, of arrays that are only read.
SUBSCRIPTS = ("i + k", "i", "k", "k + 1", "i + k + 2", "2*k", "k + j", "j", "2*i + 1", "7 - k", "i - k + 8")


@dataclass
class Stager(Drawer):
    """Draws the steps of staged kernels."""

    def fill(self) -> Step:
        return Step("pad_domain", ({x: self.one((2, 3, 4)) for x in self.some(self.untagged, 2)},))

    def split_around(self) -> Step:
        tag = (("inner_tag", "unr"),) if self.chance(30) else ()
        loops = [x for x in self.untagged if x == "k" and self.knl.reductions]
        return Step("split_iname", (self.one(loops), self.one((2, 3, 4))), tag)

    def split_inside(self) -> Step:
        axis = self.one("001")
        tags = self.one(({"outer_tag": f"g.{axis}", "inner_tag": f"l.{axis}"}, {"inner_tag": f"l.{axis}"},
                         {"inner_tag": f"l.{axis}"}, {"inner_tag": "unr"}, {"inner_tag": "vec"}, {}))
        loops = [x for x in self.untagged if x not in ("k", "k_outer")]
        return Step("split_iname", (self.one(loops), self.one((2, 3, 4))), tuple(tags.items()))

    def stage(self) -> Step:
        """A copy of what the inner loops read, of an array or by a rule."""
        array = self.chance(60) or not self.knl.substitutions
        names = self._readers(self.knl.array_args) if array else {}
        name = self.one(sorted(names)) if array else self.one(self.knl.substitutions)
        users = [self.knl.statement_by_id[s] for s in names[name]] if array else self.knl.statements
        inames = list(dict.fromkeys(x for s in users for x in s.inames))
        swept = self.some([x for x in inames if x.endswith("_inner")] or inames, 3)
        swept += ["k_inner"] if "k_inner" in inames and "k_inner" not in swept else []
        kwargs: list[tuple[str, Any]] = [("default_tag", self.one(("l.auto", "l.auto", None, "unr")))]
        if self.chance(20):
            kwargs.append(("fetch_bounding_box", True))
        return Step("add_prefetch" if array else "precompute", (name, swept), (*kwargs, *self.allowed()))

    def run_ahead(self) -> Step:
        iname = self.one([x for x in self.untagged if x in ("k", "k_outer")] or self.untagged)
        how = self.one(((), (("registers", False),), (("asynchronous", True),), (("asynchronous", True),)))
        return Step("pipeline", (iname, self.one((2, 2, 3) if how else (1, 2, 2, 3))), how)

    def keep(self) -> Step:
        return Step("set_cache_policy", (
            self.one([a for a in self.knl.array_args if a not in self.knl.written_names]), "evict_last"))

    def last(self) -> Step:
        return Step("peel", (self.one(self.untagged), 0, self.one((1, 1, 2))))

    def realize(self) -> Step:
        return Step("realize_scan", (self.one(sorted({x for r in self.knl.reductions.values() for x in r.inames})),))


#: What comes first, each with how often it does, in percent; and what may come after it.
PLAN = ((Stager.fill, 25), (Stager.split_around, 90), (Stager.split_inside, 60), (Stager.split_inside, 30),
        (Stager.stage, 80), (Stager.realize, 10), (Stager.buffer, 10), (Stager.stage, 30), (Stager.run_ahead, 100),
        (Stager.run_ahead, 20))
BEHIND = (Stager.last, Stager.split_inside, Stager.mapping, Stager.keep, Stager.stream, Stager.options, Stager.pad,
          Stager.pack, Stager.levels, Stager.tag, Stager.step, Stager.run_ahead, Stager.interchange)


@st.composite
def staged_programs(draw: Draw) -> Program:
    """Copies into temporaries and their use in a loop, or reductions over windows, up to the row at times."""
    def one(choices: Any) -> Any:
        return draw(st.sampled_from(list(choices)))

    def read(*names: str) -> str:
        subscripts = [s for s in SUBSCRIPTS if set(re.findall(r"[ijk]", s)) <= set(names)]
        return str(one((f"x[{one(subscripts)}]", f"x[{one(subscripts)}]", f"z[{one(subscripts)}, {one(subscripts)}]")))
    inner, outer = one(LOOPS), one((*LOOPS, ("0<={}<6", "range(6)")))
    inames = {"i": inner, "j": inner, "k": outer}
    if draw(st.integers(0, 2)):
        around = draw(st.booleans())                   # a loop around the one that is pipelined
        inames |= {"p": ("0<={}<3", "range(3)")} if around else {}
        source = read("i", "k") + one(("", "", " + x[p + i]" if around else " + k", f" - {read('i', 'k')}"))
        target = one(("c[k, j]", "a[j]", "c[j, k]", "a[j + k]", "c[j, p]" if around else "c[j, 0]"))
        value = one(("u[j]", f"u[j] + {read('j', 'k')}", f"{target} + u[j]", f"{target} + {read('j', 'k')} - u[j]"))
        guard = one(("", "", "j < 3", "k > 0", "x[j] > 0"))
        nest = [(("p", "k", "i") if around else ("k", "i"), f"u[i] = {source}", ""),
                (("p", "k", "j") if around else ("k", "j"), f"{target} = {value}", guard)]
    else:
        loops = one((("i", "j"), ("i",)))
        if draw(st.integers(0, 3)) == 0:
            inames["k"] = ("0<={}<=i", "range(i + 1)")
        operand = "*".join(read(*loops, "k") for _ in range(draw(st.integers(1, 2))))
        target = one(("c[i, j]", "c[j, i]")) if len(loops) == 2 else one(("a[i]", "c[i, 1]", "c[2, i]"))
        operation = one(("sum", "sum", "max"))
        nest = [(loops, f"{target} = min(999, max(-999, {operation}(k, {operand})))", "")]
    text, python = _written(nest, inames)
    used = {x: loop for x, loop in inames.items() if re.search(rf"\b{x}\b", text)}
    domains = tuple(Iname(x, domain.format(x), values, ("i",) if "<=i" in domain else (), 0).text
                    for x, (domain, values) in used.items())
    sizes = tuple({"n": draw(st.integers(0, 7)), "m": draw(st.integers(1, 4))} for _ in range(2))
    return Program("staged", domains, text, python, one(("int64", "float64")), ("u",) if "u[" in text else (), None,
                   ({"n": 5, "m": 3}, *sizes), draw(st.integers(0, 9)))


def _written(nest: list[tuple[tuple[str, ...], str, str]], inames: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Statements with their loops and conditions, as kernel text and as Python; neighbours share the outer loops."""
    text: list[str] = []
    python: list[str] = []
    before: tuple[str, ...] = ()
    for loops, statement, guard in nest:
        shared = next((d for d, (a, b) in enumerate(zip(before, loops, strict=False)) if a != b), 0)
        text += ["end"]*(len(before) - shared)
        for depth in range(shared, len(loops)):
            text.append(f"for {loops[depth]}")
            python.append(f"{'  '*depth}for {loops[depth]} in {inames[loops[depth]][1]}:")
        pad = "  "*len(loops)
        text.append(statement + (f" {{if={guard}}}" if guard else ""))
        folded = re.sub(r"(sum|max)\(k, (.*)\)\)\)", rf"fold_\1((\2) for k in {inames['k'][1]})))", statement)
        python.append(f"{pad}if {guard}: {folded}" if guard else f"{pad}{folded}")
        before = loops
    return "\n".join([*text, *["end"]*len(before)]), "\n".join(python)
