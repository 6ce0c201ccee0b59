"""Random programs with atomic updates: sums, minima and maxima of small integers, the same in any order."""
from __future__ import annotations

from dataclasses import dataclass, replace

from tests.property.kernels import TEMPORARIES, Both, both, plain
from tests.property.writer import Line, Scope, Writer, programs


@dataclass
class UpdateWriter(Writer):
    """Draws programs of which most assignments are updates, and most of those are atomic."""

    def assignment(self, scope: Scope, conditional: bool = False) -> Line:
        if self.chance(35):
            return super().assignment(scope, conditional)
        extra = self.implied_loops(scope) if not conditional and self.chance(20) else ()
        scope = replace(scope, loops=(*scope.loops, *extra))
        target = self.updated(scope)
        operand = self.value(scope)
        # CUDA has no atomic extrema of real numbers
        form = self.word("{} + {}", *(("{} + {}", "max({}, {})", "min({}, {})") if self.integers else ()))
        if form == "{} + {}" and self.chance(30):
            operand, target = target, operand                   # the target may be anywhere in a sum
            value = both(form, operand, target)
            target = operand
        else:
            value = both(form, target, operand)
        condition = self.condition(scope) if self.chance(20) else None
        options = self.options(condition, extra)
        if self.chance(75):
            options = f"{options.removesuffix('}')}, atomic}}"
        python = [f"{target.python} = {value.python}"]
        if condition is not None:
            python = [f"if {condition.python}:", f"    {python[0]}"]
        return Line([f"{target.text} = {value.text}{options}"], python, extra)

    def updated(self, scope: Scope) -> Both:
        """An element of an argument, at times any of a few, or of a temporary, or a scalar."""
        kind = self.word("argument", "argument", "few", "temporary", "temporary", "scalar")
        if kind == "scalar" and scope.scalars:
            return plain(self.word(*scope.scalars))
        if kind == "temporary" and self.temporaries:
            name = self.word(*self.temporaries)
            return both(f"{name}[{', '.join(['{}']*TEMPORARIES[name])}]",
                        *(self.subscript(replace(scope, reducing=())) for _ in range(TEMPORARIES[name])))
        if kind == "few" and scope.loops:
            x = self.word(*scope.loops)
            if self.chance(30):
                return plain(f"c[idx[{x}], {self.word(*scope.loops)}]")
            return plain(f"{self.word('a', 'b')}[{self.word(f'{x} // 2', f'{x} % 3', f'idx[{x}]')}]")
        return self.target(scope)


updated_programs = programs(kind=UpdateWriter)
