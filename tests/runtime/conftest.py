"""Kernels for the tests of the runtime: hand-written C behind real LoopKernels."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

from loopkit.analysis import sizes
from loopkit.kernel.data import Argument, GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import Leaf, seq
from loopkit.poly.sets import InstanceSet, parse_assumptions
from loopkit.runtime import arguments, equivalence, typed
from loopkit.runtime.compiled import CompiledKernel
from loopkit.target.code import GeneratedCode, GeneratedKernel, Layout, Parameter, Pointer, Stride, Value

n, m = p.Variable("n"), p.Variable("m")


def array(name: str, dtype: object = np.float32, shape: tuple[Any, ...] | None = None) -> GlobalArg:
    return GlobalArg(name, None if dtype is None else np.dtype(dtype), shape)   # type: ignore[call-overload]


def value(name: str, dtype: object = np.int32) -> ValueArg:
    return ValueArg(name, None if dtype is None else np.dtype(dtype))           # type: ignore[call-overload]


def parameters_of(knl: LoopKernel, layout: Layout, shapes: Mapping[str, tuple[Any, ...]]) -> tuple[Parameter, ...]:
    """Arrays, then values, then strides: the convention of these tests' C."""
    found: list[Parameter] = []
    for a in knl.arguments:
        assert a.dtype is not None
        found.append(Pointer(a.name, a.dtype, a.name in knl.written_names) if isinstance(a, GlobalArg) else
                     Value(a.name, a.dtype))
    index = np.dtype(f"int{layout.index_bits}")
    found += [Stride(f"{name}_s{i}", index, name, i)
              for name in sorted(layout.strided) for i in range(len(shapes[name]))]
    return tuple(found)


class Workshop:
    """Makes compiled kernels out of C bodies, with the floors below replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.layouts: list[Layout] = []

    def kernel(self, arguments: tuple[Argument, ...], writes: tuple[str, ...], *, name: str = "knl",
               assumptions: str = "") -> LoopKernel:
        domain = InstanceSet.universe(())
        statements = tuple(Statement(f"S{i}", p.Variable(w), 0, domain) for i, w in enumerate(writes))
        params = [a.name for a in arguments if isinstance(a, ValueArg)]
        return LoopKernel(name=name, arguments=arguments, temporaries={}, statements=statements,
                          tree=seq(*(Leaf(s.id) for s in statements)), derived=None,
                          assumptions=parse_assumptions(assumptions or "1 = 1", params))

    def compiled(self, arguments: tuple[Argument, ...], writes: tuple[str, ...], *,
                 shapes: Mapping[str, tuple[Any, ...]], reads: tuple[str, ...] = (), like: Mapping[str, str] = {},
                 body: str | Callable[[LoopKernel, Layout], GeneratedCode] = "", assumptions: str = "",
                 name: str = "knl") -> CompiledKernel:
        knl = self.kernel(arguments, writes, assumptions=assumptions, name=name)

        def generate(typed: LoopKernel, target: str, layout: Layout) -> GeneratedCode:
            self.layouts.append(layout)
            return body(typed, layout) if callable(body) else c_code(typed, layout, shapes, body)

        for replaced, function in (("array_shapes", lambda k: shapes), ("needed_inputs", lambda k: frozenset(reads)),
                                   ("output_shape_like", lambda k: like), ("infer_types", lambda k: k),
                                   ("unknown_dtypes", lambda k: [a.name for a in k.arguments if a.dtype is None]),
                                   ("generate_code", generate)):
            self.replace(replaced, function)
        return CompiledKernel(knl, "c")

    def replace(self, name: str, function: Callable[..., Any]) -> None:
        """Replace *name*, a function of a lower layer, where the runtime uses it."""
        for module in (arguments, typed, equivalence, sizes):
            if hasattr(module, name):
                self._patch.setattr(module, name, function)


_C = {"float32": "float", "float64": "double", "bool": "_Bool", "complex64": "float _Complex",
      "complex128": "double _Complex"}


def c_code(knl: LoopKernel, layout: Layout, shapes: Mapping[str, tuple[Any, ...]], body: str) -> GeneratedCode:
    """*body* as a function; where an array is strided, ``a_s0`` is its stride, else the C-order stride."""
    parameters = parameters_of(knl, layout, shapes)
    c_type = {q.name: _C.get(q.dtype.name, f"{q.dtype.name}_t") for q in parameters}
    listed = ", ".join(f"{c_type[q.name]} {'*' if isinstance(q, Pointer) else ''}{q.name}" for q in parameters)
    strides = "".join(f"  const long {name}_s{i} = {' * '.join(['1', *(f'({e})' for e in shape[i + 1:])])};\n"
                      for name, shape in shapes.items() if name not in layout.strided and None not in shape
                      for i in range(len(shape)))
    source = f"#include <stdint.h>\nvoid {knl.name}({listed})\n{{\n{strides}{body}\n}}\n"
    return GeneratedCode("c", source, (GeneratedKernel(knl.name, parameters),), layout=layout)


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all tests of a run, away from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cache_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, in use."""
    place = tmp_path / "cache"
    monkeypatch.setenv("LOOPKIT_CACHE_DIR", str(place))
    return place
