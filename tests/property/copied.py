"""Random programs over strided domains and unions, and copies of what they read: boxes, registers, beside vectors."""
from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st

from tests.property.kernels import Draw, Program
from tests.property.pipelines import Drawer, Step

#: Where ``i`` and ``j`` may be: as a domain and as a Python condition; ``n`` is at most 4 and ``m`` at most 3.
SPACES = (
    ("0<=i<n and 0<=j<m", "0 <= i < n and 0 <= j < m"),
    ("0<=i<9 and 0<=j<8", "0 <= i < 9 and 0 <= j < 8"),
    ("0<=i<n and i<=j<n", "0 <= i < n and i <= j < n"),
    ("(0<=i<n or 2*n<=i<2*n+m) and 0<=j<m", "(0 <= i < n or 2*n <= i < 2*n + m) and 0 <= j < m"),
    ("(0<=i<n or 2*n<=i<2*n+m) and 0<=j<m and (i+2*j) mod 3 = 1",
     "(0 <= i < n or 2*n <= i < 2*n + m) and 0 <= j < m and (i + 2*j) % 3 == 1"),
    ("0<=i<9 and i mod 2 = 1 and 0<=j<m", "0 <= i < 9 and i % 2 == 1 and 0 <= j < m"),
    ("0<=i<2*n and 0<=j<8 and (i+j) mod 2 = 0", "0 <= i < 2*n and 0 <= j < 8 and (i + j) % 2 == 0"),
    ("((0<=i<n and i mod 2 = 0) or n+1<=i<n+4) and 0<=j<m",
     "(0 <= i < n and i % 2 == 0 or n < i < n + 4) and 0 <= j < m"),
    ("(n<=i<n+3 or m<=i<m+2) and 0<=j<4", "(n <= i < n + 3 or m <= i < m + 2) and 0 <= j < 4"),
    ("m<=i<m+n and n<=j<n+4", "m <= i < m + n and n <= j < n + 4"))
#: Where ``r`` of a reduction may be: as a domain and as Python.
REDUCED = (("{[r]: 0<=r<3}", "range(3)"), ("{[r]: 0<=r<m}", "range(m)"), ("[j] -> {[r]: 0<=r<=j}", "range(j + 1)"),
           ("{[r]: 0<=r<6 and r mod 2 = 1}", "range(1, 6, 2)"), ("{[r]: n<=r<n+4}", "range(n, n + 4)"))
SUBSCRIPTS = ("i", "2*i", "i + 1", "i + 4", "j", "j + 1", "3*j", "2*j + 1", "i + j", "i + 2*j", "23 - 2*i", "5")
WITH_R = ("r", "i + r", "2*r", "3*r + 1", "j + r", "j + 2*r")
#: What a copy may change beside, each with how often it is allowed, in percent; other programs test the refusals.
ALLOWED = (("allow_reordering", 40), ("allow_global_storage", 5))


class Copier(Drawer):
    """Draws copies, and what may be beside them."""

    def split_inside(self) -> Step:
        axis = self.one("01")
        tags = self.one(({"outer_tag": f"g.{axis}", "inner_tag": f"l.{axis}"}, {"inner_tag": f"l.{axis}"},
                         {"inner_tag": "vec"}, {"inner_tag": "vec"}, {"inner_tag": "unr"}, {"outer_tag": f"g.{axis}"}))
        return Step("split_iname", (self.one(self.untagged), self.one((2, 3, 4, 8))), tuple(tags.items()))

    def to_blocks(self) -> Step:
        return Step("tag_inames", ({self.one(self.untagged): self.one(("g.0", "g.1"))},))

    def copy(self) -> Step:
        """Mostly of what has a box: over inames of a constant range, and for readers in loops of one kind."""
        readers = self._readers([*self.knl.array_args, *self.knl.temporaries])
        array = self.one(sorted(x for x in readers if x in self.knl.array_args or self.chance(20)))
        statements = [self.knl.statement_by_id[s] for s in readers[array]]
        kwargs: list[tuple[str, Any]] = [("default_tag", self.one(("l.auto", "l.auto", "unr", "unr", None, "vec")))]
        if len({s.inames for s in statements}) > 1 and self.chance(80):
            statements = [self.one(statements)]
            kwargs.append(("within", statements[0].id))
        inames = list(dict.fromkeys(x for s in statements for x in s.inames))
        if self.chance(80):
            inames = [x for x in inames if all(None not in s.domain.constant_range(x)
                                               for s in statements if x in s.inames)]
        inner = [x for x in inames if x.endswith("_inner")]
        swept = self.some(inner if inner and self.chance(60) else inames, 2) if inames and self.chance(85) else []
        if self.chance(30):
            kwargs += [("fetch_bounding_box", True), ("box_multiples", self.one((1, 2, 3)))]
        if self.chance(15):
            kwargs.append(("temporary_address_space", self.one(("private", "local", "global"))))
        kwargs += [(name, True) for name, percent in ALLOWED if self.chance(percent)]
        return Step("add_prefetch", (array, swept), tuple(kwargs))


#: What comes first, each with how often it does, in percent; and what may come after it.
PLAN = ((Copier.split_inside, 80), (Copier.split_inside, 60), (Copier.to_blocks, 25), (Copier.copy, 90),
        (Copier.to_blocks, 30), (Copier.copy, 60), (Copier.expand_trailing, 30))
BEHIND = (Copier.split_inside, Copier.copy, Copier.step, Copier.step, Copier.expand_trailing, Copier.expand_storage,
          Copier.buffer, Copier.tag, Copier.peel, Copier.tile, Copier.pipeline)


@st.composite
def copied_programs(draw: Draw) -> Program:
    """A nest of ``i`` and ``j``, at times with a reduction, a temporary or a condition."""
    def one(choices: Any) -> Any:
        return draw(st.sampled_from(list(choices)))

    def subscript(*more: str) -> str:
        return str(one(one((SUBSCRIPTS, more)) if more else SUBSCRIPTS))

    def read(*more: str) -> str:
        a, b = subscript(*more), subscript(*more)
        return str(one((f"x[{a}]", f"x[{a}]", f"z[{a}, {b}]")))
    space, test = one(SPACES)
    domain, values = one(REDUCED)
    value = python = one((read(), f"{read()} + {read()}", f"{read()}*j - {read()}"))
    if draw(st.integers(0, 2)) == 0:
        operation, operand = one(("sum", "max")), one((read(*WITH_R), f"{read(*WITH_R)}*{read(*WITH_R)}"))
        value = f"{value} + min(999, max(-999, {operation}(r, {operand})))"
        python = f"{python} + min(999, max(-999, fold_{operation}(({operand}) for r in {values})))"
    target = one(("c[i, j]", "c[i, j]", "c[j, i]", "c[i, j + 1]", "a[i + j]"))
    lines = [(f"{target} = {{}}{one(('', f' + {target}'))}", value, python, one(("", "", "", "j > 0", "x[j] > 0")))]
    if draw(st.integers(0, 3)) == 0:
        scalar = one(("t", "u[j]"))
        lines = [(f"{'<> ' if scalar == 't' else ''}{scalar} = {{}}", read(), "", ""),
                 (lines[0][0], f"{value} - {scalar}", f"{python} - {scalar}", lines[0][3])]
    fors = draw(st.booleans()) or len(lines) > 1
    text = [form.format(v) + (f" {{if={guard}}}" if guard else "") for form, v, _, guard in lines]
    body = [(f"if {guard}: " if guard else "") + form.removeprefix("<> ").format(p or v) for form, v, p, guard in lines]
    text = ["for i", "for j", *text, "end", "end"] if fors else text
    body = ["for i in range(12):", "  for j in range(12):", f"    if {test}:", *(f"      {line}" for line in body)]
    sizes = tuple({"n": draw(st.integers(0, 4)), "m": draw(st.integers(1, 3))} for _ in range(2))
    domains = (f"{{[i,j]: {space}}}", *([domain] if "(r," in value else []))
    assumed = [a for q, a in (("n", "n>=0"), ("m", "m>=1")) if re.search(rf"\b{q}\b", " ".join((*domains, *text)))]
    return Program("copied", domains, "\n".join(text), "\n".join(body), one(("int64", "float64", "float64")),
                   ("u",) if "u[j]" in "".join(text) else (), " and ".join(assumed) or None,
                   ({"n": 3, "m": 3}, *sizes), draw(st.integers(0, 9)), draw(st.booleans()))
