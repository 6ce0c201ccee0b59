"""Random small kernels, each as text and as the Python program that the text means.

Both come from one drawing, so the Python program (nested loops, statements in textual order, reductions as loops) is
an oracle that shares no code with loopkit. Subscripts lie in the arrays by construction. All numbers are small
integers, so that a reduction has the same value in every order.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np

import loopkit as lk

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: The extent of each axis of an array argument: more than any subscript reaches.
EXTENT = 24
PARAMETERS = ("n", "m")


@dataclass(frozen=True)
class Both:
    """An expression as kernel text and as Python."""

    text: str
    python: str


def both(form: str, *parts: Both) -> Both:
    """*form* with *parts* filled in, on both sides."""
    return Both(form.format(*(e.text for e in parts)), form.format(*(e.python for e in parts)))


def plain(text: object) -> Both:
    return Both(str(text), str(text))


@dataclass(frozen=True)
class Iname:
    """An iname: its domain as text, its values as Python, its parents and its least value.

    :ivar up_to_n: it is never above the parameter ``n``.
    """

    name: str
    domain: str
    values: str
    parents: tuple[str, ...]
    low: int
    up_to_n: bool = False

    @property
    def text(self) -> str:
        return f"{'[' + ', '.join(self.parents) + '] -> ' if self.parents else ''}{{[{self.name}]: {self.domain}}}"


@dataclass(frozen=True)
class Program:
    """A random kernel.

    :ivar python: the body of a function of the parameters and the arrays.
    :ivar shaped: the arrays declare their shapes, so that it is known where they end.
    """

    name: str
    domains: tuple[str, ...]
    text: str
    python: str
    dtype: str
    temporaries: tuple[str, ...]
    assumptions: str | None
    sizes: tuple[Mapping[str, int], ...]
    seed: int
    shaped: bool = False

    def kernel(self) -> lk.LoopKernel:
        return lk.make_kernel(list(self.domains), self.text, self.data(), name=self.name,
                              assumptions=self.assumptions)

    def data(self) -> list[Any]:
        used = [a for a in (*ARRAYS, *TABLES) if f"{a}[" in self.text]
        return [*(lk.GlobalArg(a, np.dtype("int32" if a in TABLES else self.dtype), self._shape(a)) for a in used),
                *(lk.TemporaryVariable(t, np.dtype(self.dtype)) for t in self.temporaries), "..."]

    def _shape(self, array: str) -> tuple[int, ...] | None:
        return (EXTENT,)*{**ARRAYS, **TABLES}[array] if self.shaped else None

    def script(self) -> str:
        """Python text that makes the kernel."""
        data = ", ".join(f"lk.{type(a).__name__}({a.name!r}, np.dtype('{a.dtype}'), {a.shape})" if a != "..." else
                         "'...'" for a in self.data())
        body = "\n    ".join(self.text.splitlines())
        return ("import numpy as np\nimport loopkit as lk\n"
                f"knl = lk.make_kernel({list(self.domains)!r}, '''\n    {body}\n    ''', [{data}], "
                f"name={self.name!r}, assumptions={self.assumptions!r})\n")

    def inputs(self) -> dict[str, np.ndarray]:
        """The arrays of a call; those that the kernel writes hold values before it, too."""
        rng = random.Random(self.seed)
        found: dict[str, np.ndarray] = {}
        for name, axes in ARRAYS.items():
            if f"{name}[" in self.text:
                values = [rng.randint(-2, 3) for _ in range(EXTENT**axes)]
                found[name] = np.array(values, self.dtype).reshape((EXTENT,)*axes)
        if "idx[" in self.text:
            found["idx"] = np.array([rng.randint(0, 5) for _ in range(EXTENT)], np.int32)
        if "ptr[" in self.text:
            lengths = [rng.randint(0, 2) for _ in range(EXTENT)]
            found["ptr"] = np.array([min(12, sum(lengths[:i])) for i in range(EXTENT)], np.int32)
        return found

    def expected(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray] | None:
        """The arrays after the program ran in textual order; ``None`` where it has no exact meaning.

        It has none where it reads a temporary that was not written, or where numbers get too large to be exact.
        """
        inputs = self.inputs()
        cells = {k: Cells({i: v.item() for i, v in np.ndenumerate(a)}) for k, a in inputs.items()}
        names: dict[str, Any] = {**cells, **sizes, **FUNCTIONS, **{t: Cells() for t in self.temporaries}}
        try:
            exec(_compiled(self.python), names)
        except UnwrittenError:
            return None
        result = {}
        for name, a in inputs.items():
            new = np.array([cells[name].values[i] for i in np.ndindex(a.shape)], object).reshape(a.shape)
            if a.size and max(abs(v) for v in new.flat) > 2**45:
                return None
            result[name] = new.astype(a.dtype)
        return result


def _compiled(python: str) -> Any:
    return compile(python, "<oracle>", "exec")


# What the oracle's programs use

class UnwrittenError(Exception):
    """A read of a temporary's element that was not written before."""


@dataclass
class Cells:
    """An array by its subscripts."""

    values: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.values[index if isinstance(index, tuple) else (index,)]
        except KeyError:
            raise UnwrittenError(str(index)) from None

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[index if isinstance(index, tuple) else (index,)] = value


def _fold(operation: Callable[[Any, Any], Any], neutral: Any) -> Callable[[Any], Any]:
    def fold(values: Any) -> Any:
        result = neutral
        for v in values:
            result = operation(result, v)
        return result
    return fold


#: Empty max and min have infinite neutral elements in float64; the clamps around every reduction hide the difference.
FUNCTIONS: dict[str, Any] = {
    "fold_sum": _fold(lambda a, b: a + b, 0), "fold_product": _fold(lambda a, b: a * b, 1),
    "fold_max": _fold(max, -2**63), "fold_min": _fold(min, 2**63 - 1),
    "iff": lambda c, a, b: a if c else b}


#: The array arguments and their axes: ``x`` and ``z`` are only read.
ARRAYS = {"x": 1, "z": 2, "a": 1, "b": 1, "c": 2}
TABLES = {"idx": 1, "ptr": 1}
TEMPORARIES = {"u": 1, "v": 1, "w": 2}
