"""Emulated kernels give numpy's results in each mode, and faults of synchronisation and of matrix instructions show."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product as pairs
from typing import Any

import ml_dtypes
import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, If
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.target.code import Layout, resolve_text_target, write_code
from tests.cases import CASES, Case
from tests.deep import some
from tests.lowering.waiting import WAITING, Waiting
from tests.matrix_kernels import PRODUCTS, data, product
from tests.verification.faults import Fault, faults

MODES = [{"completion": c, "order": o} for c, o in pairs(("last", "first"), ("forward", "backward"))]
EXTREMES = (MODES[0], MODES[3])

#: The kinds of faults that change the order of accesses, or a matrix instruction.
KINDS = frozenset({
    "barrier deleted", "barrier moved", "group deleted", "group not ended", "wait deleted", "wait weakened",
    "wait moved", "wait of fewer threads", "row changed", "move of another kind", "operand changed"})


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {x: v.copy() if isinstance(v, np.ndarray) else v for x, v in arguments.items()}


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_cases(case: Case) -> None:
    size = case.sizes[len(case.sizes) // 2] if np.prod(case.sizes[len(case.sizes) // 2]) < 3000 else case.sizes[0]
    given = case.data(np.random.default_rng(1), *size)
    wanted = case.expected(copied(given))
    error = 200*float(ml_dtypes.finfo(case.dtype).eps)
    for mode in EXTREMES:
        found = lk.emulate(case.make(), copied(given), **mode)
        for name, want in wanted.items():
            wide = np.asarray(want, np.float64)
            apart = np.abs(found[name].astype(np.float64) - wide).max(initial=0)
            assert apart <= error*(1 + np.abs(wide).max(initial=0))


@pytest.mark.deep(every=10)
@pytest.mark.parametrize(("name", "way"), PRODUCTS)
def test_products(name: str, way: str) -> None:
    given, want = data(name)
    for mode in EXTREMES:
        assert (lk.emulate(product(name, way), given, **mode).c == want).all()


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("way", WAITING.values(), ids=str)
def test_asynchronous_copies(way: Waiting) -> None:
    given = waiting_data(way, 4)
    for mode in MODES:
        assert (lk.emulate(way.make(), given, **mode).c == way.plain(**given).c).all()
    assert (lk.emulate(way.make(), given, lockstep=1).c == way.plain(**given).c).all()


def test_the_library() -> None:
    """A product with copies in stages, swizzles, zeros beyond the edges, and fragments."""
    knl = lk.library.matmul(np.dtype(ml_dtypes.bfloat16), mma=True, tile=(32, 32, 64), warp=(16, 16), stages=2, group=2)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((5, 70), (70, 33)))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert (lk.emulate(knl, a=a, b=b).c == want).all()


def test_flags_between_blocks() -> None:
    """A value that a block stores without its flag, or reads without a wait, does not arrive."""
    (case,) = (case for case in CASES if case.name == "chained_scan")
    given = case.data(np.random.default_rng(1), 300)
    want = lk.emulate(case.make(), given).y
    assert np.allclose(want, case.expected(given)["y"], rtol=1e-5)
    found = list[str]()
    for fault in faults(lowered_once(case.make()).program):
        if fault.kind == "value stored without its flag":
            # no block waits for the value of a partial tile, the last one
            with suppress(lk.VerificationError):
                assert (lk.emulate(case.make(), given, program=fault.program).y == want).all()
                continue
            found.append(fault.kind)
        elif fault.kind == "value read without a wait":
            found.append(fault.kind)
            assert not (lk.emulate(case.make(), given, program=fault.program).y == want).all()
    assert {*found} == {"value stored without its flag", "value read without a wait"}


# Faults

def waiting_data(way: Waiting, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    arrays = [x for x in "ab" if x in way.plain.array_args]
    return {x: rng.integers(1, 99, (n, 64*way.width)).astype(np.float32) for x in arrays}


def test_faults_of_synchronisation_show() -> None:
    seen = set[str]()
    for way in (WAITING["warp, 3 stages of 4"], WAITING["block, 3 stages of 1, beside thread"]):
        runs = [(given, way.plain(**given).c) for given in (waiting_data(way, n) for n in (1, 5))]
        seen |= require_shown(way.make(), runs, (32, 1), every=2)
    assert {"barrier deleted", "wait weakened", "group not ended", "wait of fewer threads"} <= seen


def test_faults_of_matrix_instructions_show() -> None:
    name = "mma.m16n8k16.f32.bf16"
    seen = require_shown(product(name, "ldmatrix"), [data(name)], every=8)
    assert {"barrier deleted", "row changed", "move of another kind", "operand changed"} <= seen


def require_shown(knl: lk.LoopKernel, runs: list[Any], locksteps: tuple[int, ...] = (32,), every: int = 1
                  ) -> set[str]:
    """Check that each fault gives a wrong result or an error in one mode, or the same text; returns the kinds tried."""
    low = lowered_once(knl)
    text = str(write_code(low, resolve_text_target("cuda"), Layout()))
    by_kind: dict[str, list[Fault]] = {}
    for fault in faults(low.program):
        if fault.kind in KINDS and fault.text not in HARMLESS:
            by_kind.setdefault(fault.kind, []).append(fault)
    for found in by_kind.values():
        for fault in some(found, every, lambda fault: fault.text):
            ways = pairs(locksteps, runs)
            assert text == _text(low, fault) or any(_shows(knl, fault, *run, lockstep) for lockstep, run in ways), (
                fault.kind, fault.text)
    return set(by_kind)


#: The loads of fragments stay before this barrier, and the product only uses these.
HARMLESS = {"product: up: a_tile: a_fragment_rule reads, a_tile_rule overwrites; "
            "b_tile: b_fragment_rule reads, b_tile_rule overwrites"}


def _text(low: Lowered, fault: Fault) -> str:
    return str(write_code(replace(low, program=fault.program), resolve_text_target("cuda"), Layout()))


def _shows(knl: lk.LoopKernel, fault: Fault, given: Mapping[str, Any], want: np.ndarray, lockstep: int) -> bool:
    def results() -> Iterator[bool]:
        for mode in MODES:
            try:
                found = lk.emulate(knl, given, program=fault.program, lockstep=lockstep, **mode).c
            except lk.VerificationError:
                yield True
            else:
                yield not (found == want).all()
    return any(results())


# Refusals

def test_threads_that_do_not_reach_a_barrier() -> None:
    way = WAITING["block, 3 stages of 1, beside thread"]
    program = lowered_once(way.make()).program
    (function,) = program.functions
    body = Block((If(p.Comparison(p.Variable("l.0"), "<", 32), function.body),))
    with pytest.raises(lk.VerificationError, match=r"do not reach the .*barrier at which others wait"):
        lk.emulate(way.make(), waiting_data(way, 2),
                   program=replace(program, functions=(replace(function, body=body),)))


def test_illegal_options() -> None:
    knl = CASES[1].make()
    for option, text in (({"completion": "never"}, "completion= is"), ({"order": "up"}, "order= is"),
                         ({"lockstep": 3}, "lockstep= is a divisor")):
        with pytest.raises(lk.PreconditionError, match=text):
            lk.emulate(knl, **option)  # type: ignore[arg-type]
    with pytest.raises(lk.CallError, match="'x' is missing"):
        lk.emulate(knl, y=np.ones(3, np.float32))


def test_a_product_and_its_sum_are_rounded_once_or_twice() -> None:
    """CUDA's compiler contracts them: the difference is what rounding the product alone loses."""
    knl = lk.make_kernel("{[i]: 0<=i<4}", "<> t = x[i]*x[i]\n y[i] = x[i]*x[i] - t")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32, "t": np.float32}), "i:l.0")
    x = np.float32([1 + 2.0**-23, 1 + 2.0**-12, 3, 1.0e18])
    square = x.astype(float)**2
    assert not lk.emulate(knl, x=x).y.any()
    np.testing.assert_array_equal(lk.emulate(knl, x=x, contracted=True).y, square - np.float32(square))
