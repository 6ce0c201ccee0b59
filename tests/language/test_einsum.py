"""Kernels in numpy's einsum notation."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.interpreter.instances import reference_order
from loopkit.interpreter.interpreter import InitialData, Interpreter
from loopkit.lowering.types import infer_types


@pytest.mark.parametrize("spec", ["ij->ij", "ij->ji", "ii->i", "ij,j->j", "ij,ji->ij", "ij,kj->ik", "ik,kj->ij",
                                  "im,mj,km->ijk", " i j , j -> ", ",i->i", "ji", "ij,jk", "ii", "kj,ji,i"])
def test_numpy_computes_the_same(spec: str) -> None:
    operands = [x.replace(" ", "") for x in spec.split("->")[0].split(",")]
    rng = np.random.default_rng(7)
    arrays = {name: rng.integers(-3, 4, (2,)*len(own)).astype(np.float64)
              for name, own in zip("abc", operands, strict=False)}
    knl = infer_types(lk.add_dtypes(lk.make_einsum(spec, [*arrays]), {",".join(arrays): np.float64}))
    sizes = {a.name: 2 for a in knl.arguments if a.name.startswith("N")}
    numbers = {name: float(x) for name, x in arrays.items() if not x.shape}
    machine = Interpreter(knl, {**sizes, **numbers}, InitialData(
        0, {name: x for name, x in arrays.items() if x.shape}, frozenset()))
    machine.run(reference_order(knl, machine.instances()))
    want = np.einsum(spec.replace(" ", ""), *arrays.values())
    got = np.array([float(machine.cell("out", index)) for index in np.ndindex(want.shape)]).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("spec", "ranks", "statement"), [
    ("...ij,...jk", (3, 3), "out[e0, i, k] = sum(j, a[e0, i, j]*b[e0, j, k])"),
    ("i...,... -> ...i", (3, 1), "out[e0, e1, i] = a[i, e0, e1]*b[e1]"),
    ("i...,...", (1, 0), "out[i] = a[i]*b")])
def test_axes_without_letters(spec: str, ranks: tuple[int, int], statement: str) -> None:
    data = [lk.GlobalArg(name, shape=(4,)*rank) for name, rank in zip("ab", ranks, strict=True)]
    knl = lk.make_einsum(spec, "a, b", kernel_data=[*data, "..."])
    assert statement in knl.statements_text


def test_arguments_of_make_kernel() -> None:
    assert lk.make_einsum("ij,j->i", "a, x").name == "einsum2to1_kernel"
    knl = lk.make_einsum("ij,j->i", "a, x", name="matvec", assumptions="Ni >= 4")
    assert (knl.name, knl.history.made is not None) == ("matvec", True)


@pytest.mark.parametrize(("spec", "names", "error", "message"), [
    ("ij,j->j", ["a"], lk.PreconditionError, "has 2 arrays, and there are 1 names"),
    ("ij,j->jj", ["a", "b"], lk.ParseError, "The subscript 'j' of the result is there twice"),
    ("ij,j->k", ["a", "b"], lk.ParseError, "The subscript 'k' of the result is in no array"),
    ("i...->i", ["a"], lk.ParseError, "Only one side of the arrow has"),
    ("i..->i", ["a"], lk.ParseError, "has another form"), ("...i...", ["a"], lk.ParseError, "has another form"),
    ("...i", ["a"], lk.PreconditionError, r"(?s)stands in 'a' is unknown.*GlobalArg\('a', shape=\('Ne0', 'Ni'\)\)"),
    ("i->i->i", ["a"], lk.ParseError, "has another form")])
def test_refused(spec: str, names: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.make_einsum(spec, names)
