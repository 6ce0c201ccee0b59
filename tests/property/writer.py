"""Draws the programs of :mod:`tests.property.kernels`."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st

from tests.property.kernels import ARRAYS, PARAMETERS, TEMPORARIES, Both, Draw, Iname, Program, both, plain

LOOPS = ("i", "j", "k")


@dataclass(frozen=True)
class Scope:
    """Where a statement stands: its loops, outermost first, and the scalar temporaries that have values there."""

    loops: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    reducing: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return (*self.loops, *self.reducing)


@dataclass
class Line:
    """A statement: its text, its Python, and the loops around it that have no ``for`` in the text."""

    text: list[str]
    python: list[str]
    implied: tuple[str, ...] = ()


@dataclass
class Writer:
    """Draws one program.

    :ivar independent: hardly any statement reads what another instance wrote, so that most loops can be parallel.
    """

    draw: Draw
    integers: bool
    independent: bool
    inames: dict[str, Iname] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    rules: list[Both] = field(default_factory=list)
    rule_axes: list[str] = field(default_factory=list)
    temporaries: dict[str, None] = field(default_factory=dict)
    count: int = 0

    # Choices

    def pick(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def word(self, *choices: str) -> str:
        return str(self.pick(*choices))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    # Inames

    def add_inames(self) -> None:
        for name in (*LOOPS, "r", "s"):
            if name in "rs" and self.chance(30):
                self.inames[name] = Iname(name, f"0<={name}<m", "range(0, m)", (), 0)
                continue
            earlier = [x for x in self.inames if x in LOOPS]
            self.inames[name] = self._dependent(name, self.word(*earlier)) if earlier and self.chance(30) \
                else self._independent(name)

    def _independent(self, x: str) -> Iname:
        const = self.number(1, 6)
        kind = self.word("n", "n", "const", "n", "const", "m", "inner", "from", "even", "odd", "union")
        domain, values, low = {
            "n": (f"0<={x}<n", "range(0, n)", 0),
            "const": (f"0<={x}<{const}", f"range(0, {const})", 0),
            "m": (f"0<={x}<m", "range(0, m)", 0),
            "inner": (f"1<={x}<n-1", "range(1, n-1)", 1),
            "from": (f"2<={x}<=n", "range(2, n+1)", 2),
            "even": (f"0<={x}<n and {x} mod 2 = 0", "range(0, n, 2)", 0),
            "odd": (f"exists e: 0<={x}<n and {x} = 2*e + 1", "range(1, n, 2)", 1),
            "union": (f"0<={x}<2 or 3<={x}<n", "[*range(0, 2), *range(3, n)]", 0),
        }[kind]
        return Iname(x, domain, values, (), low, kind in ("n", "inner", "from", "even", "odd"))

    def _dependent(self, x: str, parent: str) -> Iname:
        low = self.inames[parent].low
        kind = self.word("upto", "below", "above", "window")
        domain, values, own = {
            "upto": (f"0<={x}<={parent}", f"range(0, {parent}+1)", 0),
            "below": (f"0<={x}<{parent}", f"range(0, {parent})", 0),
            "above": (f"{parent}<={x}<n", f"range({parent}, n)", low),
            "window": (f"{parent}<={x}<={parent}+2", f"range({parent}, {parent}+3)", low),
        }[kind]
        within = kind == "above" or (kind != "window" and self.inames[parent].up_to_n)
        return Iname(x, domain, values, (parent,), own, within)

    def may_open(self, scope: Scope) -> list[str]:
        return [x for x in LOOPS if x not in scope.loops and set(self.inames[x].parents) <= set(scope.loops)]

    def opened(self, x: str) -> str:
        self.used[x] = None
        return f"for {x} in {self.inames[x].values}:"

    # Expressions

    def subscript(self, scope: Scope) -> Both:
        """One within the arrays: inames are at most 11, their least value is known."""
        if not scope.known or self.chance(8):
            return plain(self.number(0, 2))
        x = self.word(*scope.known)
        offset = self.number(-self.inames[x].low, 2)
        form = self.word("shift", "shift", "shift", "shift", "double", "sum", "turn")
        if form == "double":
            return plain(f"2*{x}")
        if form == "sum" and len(scope.known) > 1:
            return plain(f"{x} + {self.word(*scope.known)}")
        if form == "turn" and self.inames[x].up_to_n:
            return plain(f"n - {x}")
        return plain(f"{x} + {offset}" if offset > 0 else f"{x} - {-offset}" if offset else x)

    def read(self, scope: Scope, *names: str) -> Both:
        written = ("a", "b", "c") if not self.independent or self.chance(10) else ()
        name = self.word(*(names or ("x", "x", "z", *written, *self.temporaries)))
        axes = {**ARRAYS, **TEMPORARIES}[name]
        parts = [self.subscript(scope) for _ in range(axes)]
        if name in TEMPORARIES and scope.known and self.chance(75):
            parts = [plain(self.word(*scope.known)) for _ in range(axes)]
        if name in ("x", "a") and self.chance(6):
            return both("{}[idx[{}]]", plain(name), *parts)
        return both(f"{name}[{', '.join(['{}']*axes)}]", *parts)

    def leaf(self, scope: Scope) -> Both:
        kind = self.word("read", "read", "read", "number", "iname", "scalar", "rule")
        if kind == "scalar" and scope.scalars:
            return plain(self.word(*scope.scalars))
        if kind == "iname" and scope.known:
            x = self.word(*scope.known)
            return plain(self.word(x, f"({x} // 2)", f"({x} % 3)", f"(({x} - 3) // 2)", f"((1 - {x}) % 3)"))
        if kind == "number":
            return plain(self.number(-2, 3)) if self.chance(50) else plain(self.number(1, 3))
        if kind == "rule":
            return self.use_of_rule(scope)
        return self.read(scope)

    def use_of_rule(self, scope: Scope) -> Both:
        if not self.rules:
            body = both("({} + {})", self.rule_read(), both("{}*arg", plain(self.number(1, 2))))
            self.rules.append(body)
        body = self.rules[0]
        arg = self.subscript(scope)
        return Both(f"f({arg.text})", f"f({arg.python})")

    def rule_read(self) -> Both:
        return plain(self.word("x[arg]", "z[arg, 1]", "x[arg + 1]", "x[2]" if self.independent else "a[arg]"))

    def expression(self, scope: Scope, depth: int = 2) -> Both:
        if depth == 0 or self.chance(25):
            return self.leaf(scope)
        kind = self.word("sum", "sum", "difference", "scaled", "product", "min", "if", "reduction")
        a = self.expression(scope, depth - 1)
        if kind == "scaled":
            return both("{}*({})", plain(self.number(2, 3)), a)
        if kind == "product":
            return both("{}*{}", self.read(scope, "x", "z"), self.read(scope, "x", "z"))
        if kind == "reduction":
            return both("({} + {})", a, self.reduction(scope)) if self.chance(60) else self.reduction(scope)
        b = self.leaf(scope)
        if kind == "min":
            if a.text in self.inames:                  # max(i, ...) is a reduction
                a = both("({} + 0)", a)
            return both(self.word("min({}, {})", "max({}, {})"), a, b)
        if kind == "if":
            c = self.condition(scope)
            return Both(f"if({c.text}, {a.text}, {b.text})", f"iff({c.python}, {a.python}, {b.python})")
        return both("({} + {})" if kind == "sum" else "({} - {})", a, b)

    def reduction(self, scope: Scope, depth: int = 1) -> Both:
        free = [x for x in "rs" if x not in scope.reducing and set(self.inames[x].parents) <= set(scope.known)]
        if not free:
            return self.leaf(scope)
        inames = [self.word(*free)] if len(free) == 1 or self.chance(70) else free
        operation = self.word("sum", "sum", "max", "min", "product")
        inner = replace(scope, reducing=(*scope.reducing, *inames))
        operand = self.expression(inner, 1)
        if depth and self.chance(15):
            operand = both("({} + {})", self.reduction(inner, depth - 1), operand)
        if operation in ("sum", "product"):
            operand = both("min(2, max(-2, {}))", operand)
        bound = inames[0] if len(inames) == 1 else f"[{', '.join(inames)}]"
        loops = " ".join(self.opened(x).removesuffix(":") for x in inames)
        whole = Both(f"{operation}({bound}, {operand.text})", f"fold_{operation}(({operand.python}) {loops})")
        return both("min(999, max(-999, {}))", whole)

    def condition(self, scope: Scope, *, affine: bool | None = None) -> Both:
        if scope.known and (affine or (affine is None and self.chance(60))):
            x, y = self.word(*scope.known), self.word(*scope.known)
            return plain(self.word(f"{x} < 2", f"{x} >= 1", f"{x} % 2 == 0", f"{x} + {y} <= n", f"{x} != {y}",
                                   f"({x} < 1 or {y} > 2)", f"({x} > 0 and not {y} == 2)"))
        if affine is None and self.chance(10):
            a = self.reduction(scope, 0)
        else:
            a = plain(self.word(*scope.scalars)) if scope.scalars and self.chance(40) else self.read(scope)
        return both(self.word("{} > 0", "{} < 1", "{} == 1"), a)

    # Statements

    def options(self, condition: Both | None = None, inames: Sequence[str] = ()) -> str:
        parts = [f"id=S{self.count}"]
        self.count += 1
        if inames:
            parts.append(f"inames={':'.join(inames)}")
        if condition is not None:
            parts.append(f"if={condition.text}")
        return f" {{{', '.join(parts)}}}"

    def value(self, scope: Scope) -> Both:
        value = self.expression(scope)
        return both("(({}) % 97)", value) if self.integers else value

    def assignment(self, scope: Scope, conditional: bool = False) -> Line:
        """A write of an array, at times of a temporary one, an update, or under a condition."""
        extra = self.implied_loops(scope) if not conditional and self.chance(20) else ()
        scope = replace(scope, loops=(*scope.loops, *extra))
        name = self.word("argument", "argument", *TEMPORARIES)
        if name in TEMPORARIES and len(scope.loops) >= TEMPORARIES[name]:
            target = plain(f"{name}[{', '.join(scope.loops[-TEMPORARIES[name]:])}]")
        else:
            name, target = "argument", self.target(scope)
        value = self.value(scope)
        written_before = name in self.temporaries
        if name in TEMPORARIES:
            self.temporaries[name] = None
        if self.chance(15):
            value = both("(({} + {}) % 97)" if self.integers else "({} + {})", target, value)
        condition = self.condition(scope) if self.chance(25 if written_before else 12) else None
        if name in TEMPORARIES and not written_before:
            condition = None
        text = f"{target.text} = {value.text}{self.options(condition, extra)}"
        python = [f"{target.python} = {value.python}"]
        if condition is not None:
            python = [f"if {condition.python}:", f"    {python[0]}"]
        return Line([text], python, extra)

    def target_subscript(self, scope: Scope) -> Both:
        if self.chance(4) and scope.loops:
            return plain(f"idx[{self.word(*scope.loops)}]")
        return self.subscript(replace(scope, reducing=()))

    def target(self, scope: Scope) -> Both:
        """What is written; at times, and where loops allow, an element of its own for each instance."""
        name = self.word("a", "b", "c") if len(scope.loops) < 2 else self.word("c", "c", "a")
        axes = ARRAYS[name]
        if not self.independent or not scope.loops or self.chance(15):
            subscripts = [self.target_subscript(scope) for _ in range(axes)]
        else:
            order = scope.loops[-axes:] if self.chance(80) else scope.loops[:axes][::-1]
            subscripts = [plain(x) for x in order] + [plain(self.number(0, 2)) for _ in range(axes - len(order))]
        return both(f"{name}[{', '.join(['{}']*axes)}]", *subscripts)

    def implied_loops(self, scope: Scope) -> tuple[str, ...]:
        """A loop that no ``for`` names: the statement's subscripts mention it (see :meth:`block`)."""
        choices = self.may_open(scope)
        return (self.word(*choices),) if choices else ()

    def scalar(self, scope: Scope) -> tuple[Line, str]:
        name = f"t{self.count}"
        value = both("({} + {})", self.read(scope), self.expression(scope, 1))
        value = both("(({}) % 97)", value) if self.integers else value
        return Line([f"<> {name} = {value.text}{self.options()}"], [f"{name} = {value.python}"]), name

    # Blocks

    def block(self, scope: Scope, depth: int, conditional: bool = False) -> list[Line]:
        lines: list[Line] = []
        for _ in range(self.number(1, 3)):
            kind = self.word("assign", "for", "assign", "scalar", "for", "if", "update", "set")
            if kind == "for" and depth and self.may_open(scope):
                lines.append(self.loop(scope, depth))
            elif kind == "if" and depth and scope.loops:
                lines.append(self.branch(scope, depth))
            elif kind == "scalar" and not conditional:
                line, name = self.scalar(scope)
                lines.append(line)
                scope = replace(scope, scalars=(*scope.scalars, name))
            elif kind == "update" and scope.scalars:
                t = self.word(*scope.scalars)
                value = both("(({} + {}) % 97)" if self.integers else "({} + {})", plain(t), self.read(scope))
                lines.append(self.setting(scope, t, value))
            elif kind == "set" and scope.scalars:
                lines.append(self.setting(scope, self.word(*scope.scalars), self.value(scope)))
            else:
                lines.append(self.assignment(scope, conditional))
            if self.count >= 8:
                break
        return lines

    def loop(self, scope: Scope, depth: int) -> Line:
        x = self.word(*self.may_open(scope))
        head = self.opened(x)
        text, python = self.joined(self.block(replace(scope, loops=(*scope.loops, x)), depth - 1))
        return Line([f"for {x}", *indented(text), "end"], [head, *indented(python)])

    def branch(self, scope: Scope, depth: int) -> Line:
        condition = self.condition(scope)
        both_set = self.word(*scope.scalars) if scope.scalars and self.chance(30) else None
        text, python = self.joined(self.branch_block(scope, depth, both_set))
        lines = [f"if {condition.text}", *indented(text)]
        code = [f"if {condition.python}:", *indented(python)]
        if both_set is not None or self.chance(40):
            text, python = self.joined(self.branch_block(scope, depth, both_set))
            lines += ["else", *indented(text)]
            code += ["else:", *indented(python)]
        return Line([*lines, "end"], code)

    def branch_block(self, scope: Scope, depth: int, scalar: str | None) -> list[Line]:
        """What is in one branch; *scalar* gets a new value there."""
        lines = self.block(scope, depth - 1, True)
        if scalar is not None:
            lines.insert(self.number(0, len(lines)), self.setting(scope, scalar, self.value(scope)))
        return lines

    def setting(self, scope: Scope, scalar: str, value: Both) -> Line:
        """A new value of a scalar temporary, at times under a condition."""
        condition = self.condition(scope) if self.chance(20) else None
        python = [f"{scalar} = {value.python}"]
        if condition is not None:
            python = [f"if {condition.python}:", f"    {python[0]}"]
        return Line([f"{scalar} = {value.text}{self.options(condition)}"], python)

    def joined(self, lines: Sequence[Line]) -> tuple[list[str], list[str]]:
        """The lines of a block; neighbours share the loops that no ``for`` names, where these are the same."""
        text = [t for line in lines for t in line.text]
        python: list[str] = []
        last: tuple[str, ...] = ()
        for line in lines:
            if line.implied:
                if line.implied != last:
                    python.append(self.opened(line.implied[0]))
                python += indented(line.python)
            else:
                python += line.python
            last = line.implied
        return text, python


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: Draw, name: str = "knl", kind: type[Writer] = Writer) -> Program:
    writer = kind(draw, integers=bool(draw(st.booleans())), independent=bool(draw(st.booleans())))
    writer.add_inames()
    text, python = writer.joined(writer.block(Scope(), 3))
    if writer.rules:
        text = [f"f(arg) := {writer.rules[0].text}", *text]
        python = [f"f = lambda arg: {writer.rules[0].python}", *python]
    used = {x for x in writer.used if re.search(rf"\b{x}\b", " ".join(text))}
    while more := {q for x in used for q in writer.inames[x].parents} - used:
        used |= more
    domains = tuple(v.text for x, v in writer.inames.items() if x in used)
    parameters = [q for q in PARAMETERS if re.search(rf"\b{q}\b", " ".join([*text, *domains]))]
    sizes = tuple({"n": draw(st.integers(0, 7)), "m": draw(st.integers(1, 4))} for _ in range(2))
    temporaries = tuple(t for t in writer.temporaries if f"{t}[" in "".join(text))
    # written outside of all loops, too, they hold one value for all iterations, as the oracle's do
    begun = [f"{t}[{', '.join(['0']*TEMPORARIES[t])}] = 0" for t in temporaries]
    text = [*(f"{line} {{id=begin_{t}}}" for t, line in zip(temporaries, begun, strict=True)), *text]
    python = [*begun, *python]
    assumed = [f"{q}>={draw(st.integers(0, 1))}" for q in parameters if draw(st.booleans())]
    return Program(name, domains, "\n".join(text), "\n".join(python), "int64" if writer.integers else "float64",
                   temporaries, " and ".join(assumed) or None,
                   ({"n": 5, "m": 3}, *sizes), draw(st.integers(0, 5)))
