"""Counts of operations, accesses and barriers: what running a kernel does."""
from __future__ import annotations

import random
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import loopkit as lk
from loopkit.analysis.accesses import data_params
from loopkit.expr.dtypes import resolve
from loopkit.expr.mappers import children, subexpressions
from loopkit.interpreter.instances import reference_order
from loopkit.interpreter.interpreter import Evaluator, InitialData, Interpreter
from loopkit.lowering.counts import count
from loopkit.lowering.pipeline import placed_once
from loopkit.poly.sets import holds
from tests.property import machine
from tests.property.kernels import ARRAYS, TABLES, Program
from tests.property.writer import programs

SUBGROUP, WORKITEM = lk.CountGranularity.SUBGROUP, lk.CountGranularity.WORKITEM
SIZES = {"n": 512, "m": 256, "l": 128}


def matmul(tile: int = 16, dtype: type[np.generic] = np.float32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<l and 0<=k<m}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         name="matmul", assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b": dtype})
    knl = lk.split_iname(knl, "i", tile, outer_tag="g.0", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", tile, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", tile)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"], default_tag="l.auto")
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"], default_tag="l.auto")


def typed(domain: str, text: str, assumptions: str | None = None, **dtypes: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(domain, text, assumptions=assumptions, name="k"), dtypes)


def test_a_tiled_matrix_product() -> None:
    """The numbers of loopy 2025.2, but for the barrier that the last tile does not need."""
    warps = 8*32*8                                               # of all blocks
    operations = lk.get_op_map(matmul(), count_redundant_work=True)
    for name in ("add", "mul"):
        assert operations[lk.Op(np.float32, name, SUBGROUP, "matmul")].eval_with_dict(SIZES) == 256*warps
    accesses = lk.get_mem_access_map(matmul(), count_redundant_work=True)
    m, ell = p.Variable("m"), p.Variable("l")
    for strides, blocks, direction, name, expected in (
            ({0: 1, 1: m}, {0: m*16}, "load", "a", 512*256*128//16),
            ({0: 1, 1: ell}, {1: 16}, "load", "b", 512*256*128//16),
            ({0: 1, 1: ell}, {0: 16*ell, 1: 16}, "store", "c", 512*128)):
        key = lk.MemAccess("global", np.float32, strides, blocks, direction, name, WORKITEM, "matmul")
        assert accesses[key].eval_with_dict(SIZES) == expected
    shared = accesses.filter_by(mtype="local")
    assert shared.filter_by(direction="load").eval_and_sum(SIZES) == 2*256*warps
    assert shared.filter_by(direction=["store"]).eval_and_sum(SIZES) == 2*256//16*warps
    barriers = lk.get_synchronization_map(matmul())
    assert barriers.filter_by(kind="kernel_launch").eval_and_sum(SIZES) == 1
    assert barriers.filter_by(kind="barrier_local").eval_and_sum(SIZES) == 2*256//16 - 1


def accesses_of_a_run(knl: lk.LoopKernel, arrays: dict[str, np.ndarray], sizes: dict[str, int]
                      ) -> Counter[tuple[str, str]]:
    """The accesses of all threads of the simulated machine to *arrays*, by array and direction."""
    made = Counter[tuple[str, str]]()
    load, store = machine.Memory.__getitem__, machine.Memory.__setitem__

    def counted_load(self: machine.Memory, index: tuple[int, ...]) -> Any:
        made[self.name, "load"] += self.name in arrays
        return load(self, index)

    def counted_store(self: machine.Memory, index: tuple[int, ...], value: Any) -> None:
        made[self.name, "store"] += self.name in arrays
        store(self, index, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.Memory, "__getitem__", counted_load)
        patch.setattr(machine.Memory, "__setitem__", counted_store)
        machine.execute(lk.lower(knl), arrays, sizes, random.Random(0))
    return +made


def accesses_as_counted(knl: lk.LoopKernel, sizes: dict[str, int], *, redundant: bool = True
                        ) -> Counter[tuple[str, str]]:
    """Likewise by the counts, of which all are for threads."""
    counts = lk.get_mem_access_map(knl, redundant).filter_by(mtype="global")
    assert len(counts.filter_by(count_granularity=WORKITEM)) == len(counts)
    return +Counter({(key.variable, key.direction): number.eval_with_dict(sizes)
                     for key, number in counts.group_by("variable", "direction").items()
                     if isinstance(key, lk.MemAccess)})


def test_the_simulated_machine_makes_as_many_accesses() -> None:
    knl, sizes = matmul(2, np.int64), {"n": 5, "l": 4, "m": 5}
    arrays = {x: np.ones(shape, np.int64) for x, shape in (("a", (5, 5)), ("b", (5, 4)), ("c", (5, 4)))}
    assert accesses_of_a_run(knl, arrays, sizes) == accesses_as_counted(knl, sizes)


def test_copies_along_axes_are_redundant_work() -> None:
    """Each thread along each axis computes a private value; one thread writes an element of an argument."""
    knl = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i<4 and 0<=j<3}", """
        <> s = 2*w[i]
        z[i] = w[i+1] {inames=i}
        y[b, j, i] = s*w[i] {inames=b:i:j}
        """, assumptions="n>=1")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"w": np.int64}), {"b": "g.0", "i": "l.0", "j": "l.1"})
    arrays = {"w": np.ones(5, np.int64), "z": np.ones(4, np.int64), "y": np.ones((3, 3, 4), np.int64)}
    assert accesses_of_a_run(knl, arrays, {"n": 3}) == accesses_as_counted(knl, {"n": 3}) == Counter(
        {("w", "load"): 4*9 + 4 + 4*9, ("z", "store"): 4, ("y", "store"): 36})
    assert accesses_as_counted(knl, {"n": 3}, redundant=False)["w", "load"] == 4 + 4 + 36


# What the interpreter does

@pytest.mark.parametrize("part", range(2))
def test_the_interpreter_does_as_much(part: int) -> None:
    @seed(part)
    @settings(max_examples=20, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program: Program) -> None:
        knl = program.kernel()
        lowered = placed_once(knl).kernel
        if any(data_params(lowered, s.domain) or s.predicates for s in lowered.statements):
            with pytest.raises(lk.UndecidedError, match="is unknown"):
                lk.get_mem_access_map(knl)
            return
        operations = lk.get_op_map(knl, count_within_subscripts=False)
        accesses = lk.get_mem_access_map(knl)
        if any(isinstance(e, p.If) for s in lowered.statements for e in subexpressions(s.expression)):
            return
        for sizes in (x for x in program.sizes if holds(knl.assumptions, x)):
            done = interpreted(lowered, program, sizes)
            assert +Counter({(key.variable, key.direction): number.eval_with_dict(sizes)
                             for key, number in accesses.group_by("variable", "direction").items()
                             if isinstance(key, lk.MemAccess) and key.variable in {**ARRAYS, **TABLES}}) == done[0]
            assert +Counter({key.name: number.eval_with_dict(sizes) for key, number in
                             operations.filter_by(dtype=FLOATS).group_by("name").items()
                             if isinstance(key, lk.Op)}) == done[1]
    run()


FLOATS = [np.float32, np.float64]
CHAINED = {p.Sum: "add", p.Product: "mul", p.Min: "maxmin", p.Max: "maxmin"}
SINGLE = {p.Quotient: "div", p.FloorDiv: "div", p.Remainder: "div", p.Power: "pow"}


def interpreted(knl: lk.LoopKernel, program: Program, sizes: Any) -> tuple[Counter[Any], Counter[Any]]:
    """The accesses of arguments, by array and direction, and the operations on reals that the interpreter makes."""
    operations = Counter[Any]()
    arithmetic, called = Evaluator._arithmetic, Evaluator._called

    def counted(self: Evaluator, expr: Any, names: Any) -> Any:
        found = self._type(expr)
        if resolve(found) in FLOATS:
            name = CHAINED.get(type(expr), SINGLE.get(type(expr)))
            operands = [e for e in children(expr) if not (isinstance(e, int) and e == -1 and name == "mul")]
            operations[name] += len(operands) - 1
        return arithmetic(self, expr, names)

    def counted_call(self: Evaluator, expr: Any, function: Any, *rest: Any) -> Any:
        operations[f"func:{function.name}"] += resolve(self._type(expr)) in FLOATS
        return called(self, expr, function, *rest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluator, "_arithmetic", counted)
        patch.setattr(Evaluator, "_called", counted_call)
        ran = Interpreter(knl, dict(sizes), InitialData(0, program.inputs(), frozenset()))
        ran.run(reference_order(knl, ran.instances()))
    accesses = Counter((x.array, "store" if x.is_write else "load") for own in ran.accesses.values() for x in own
                       if x.array in {**ARRAYS, **TABLES})
    return accesses, +operations


# Kinds

def names_and_numbers(knl: lk.LoopKernel, **options: Any) -> dict[str, int]:
    return {f"{key.dtype} {key.name}": number.eval_with_dict({"n": 10}) for key, number in
            lk.get_op_map(knl, **options).items() if isinstance(key, lk.Op)}


@pytest.mark.parametrize(("text", "dtype", "expected"), [
    ("x[i] - 2*x[i]/3 + 1", np.float32, {"float32 add": 20, "float32 mul": 10, "float32 div": 10}),
    ("-x[i]*x[i]", np.float64, {"float64 mul": 10}),
    ("(x[i] | 1) + (x[i] & 3) + (~x[i] ^ x[i] >> 2)", np.int64,
     {"int64 add": 20, "int64 bw": 40, "int64 shift": 10}),
    ("max(x[i], 2, x[i+1])", np.float32, {"float32 maxmin": 20, "int32 add": 10}),
    ("x[i]**2 + exp(x[i]) % 2", np.float32, {"float32 pow": 10, "float32 add": 10, "float32 func:exp": 10,
                                            "float32 div": 10}),
    ("if(x[i] > 1 and x[i] < 5, x[i] + 1, 2*x[i])", np.float32, {"float32 add": 10, "float32 mul": 10}),
    ("cast(float64, x[i])", np.float32, {}), ("twice(x[i]) + twice(1)", np.float32, {
        "float32 add": 10, "float32 func:twice": 10, "float64 func:twice": 10})])
def test_names_of_operations(text: str, dtype: Any, expected: dict[str, int]) -> None:
    twice = lk.ScalarFunction("twice", 1, "float", reference=lambda x: 2*x)
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {text}", functions=[twice])
    assert names_and_numbers(lk.add_dtypes(knl, {"x": dtype})) == expected


def test_reductions_count_their_combinations() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=k<=i<n}", "y[i] = far(k, x[k]) + min(k, x[k])\nz[i] = any(k, x[k] > 1)",
                         reductions=[lk.ReductionOperation("far", "max(a, b*b)")])
    knl = lk.add_dtypes(knl, {"x": np.float32})
    assert names_and_numbers(knl) == {"float32 mul": 55, "float32 maxmin": 110, "float32 add": 10}


def test_c_code_counts_as_one_function() -> None:
    norm = lk.CInstruction("i", "$y = 0; for (int k = 0; k < $m; ++k) $y += $row[k*$row.stride];",
                           {"row": "a[i, 0:m]", "m": "2*m"}, {"y": "y[i]"}, id="norm")
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", [norm], assumptions="m>=1"), {"a,y": np.float64})
    assert str(lk.get_op_map(knl).group_by("name", "dtype").filter_by(name="func:norm").sum()) == "(n if n > 0 else 0)"
    loads = lk.get_mem_access_map(knl).filter_by(direction="load")
    assert loads.to_bytes().eval_and_sum({"n": 3, "m": 5}) == 8*15


def test_functions_that_are_kernels() -> None:
    matvec = lk.make_function("{[i, j]: 0<=i,j<20}", "y[i] = sum(j, a[i,j]*x[j])", name="matvec")
    arrays = [lk.GlobalArg(x, np.float64, (20, 20)) for x in "xya"]
    for inlined in (False, True):
        knl = lk.make_kernel("{[i]: 0<=i<20}", "y[i, :] = matvec(a[:, :], x[i, :])", arrays, functions=[matvec])
        knl = lk.inline_callable_kernel(knl, "matvec") if inlined else knl
        assert lk.get_op_map(knl).filter_by(name="add", dtype=np.float64).eval_and_sum() == 20**3


def test_within_and_subscripts() -> None:
    knl = typed("{[i]: 0<=i<n}", "y[2*i+1] = 2*x[i] {id=a}\nz[i] = x[i]+x[i] {id=b}", x=np.float32)
    assert names_and_numbers(knl, within="id:b") == {"float32 add": 10}
    assert names_and_numbers(knl, within="id:a") == {"float32 mul": 10, "int32 mul": 10, "int32 add": 10}
    assert names_and_numbers(knl, within="id:a", count_within_subscripts=False) == {"float32 mul": 10}
    with pytest.raises(lk.UnknownNameError):
        lk.get_op_map(knl, within="id:c")


def test_launches_in_loops_of_the_host() -> None:
    knl = typed("{[t, i]: 0<=t<m and 1<=i<n-1}", """
        for t
            <> s[i] = x[i-1] + x[i+1] {id=s}
            ... gbarrier
            x[i] = s[i] {id=x}
        end
        """, "m>=1 and n>=3", x=np.float32)
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    sizes = {"n": 100, "m": 7}
    assert lk.get_synchronization_map(knl).filter_by(kind="kernel_launch").eval_and_sum(sizes) == 14
    stores = lk.get_mem_access_map(knl).filter_by(direction="store", variable=["x"])
    assert stores.eval_and_sum(sizes) == 7*98


# Footprints

def test_footprints() -> None:
    knl = typed("{[i]: 0<=i<n}", "z[i] = x[3*i] + x[3*i+3] + y[idx[i]]", "n>=1", x=np.float64, y=np.float32,
                idx=np.int32)
    with pytest.raises(lk.UndecidedError, match="'y' that 'insn' accesses are unknown"):
        lk.gather_access_footprints(knl)
    known = lk.gather_access_footprints(knl, ignore_uncountable=True)
    assert set(known) == {("x", "read"), ("idx", "read"), ("z", "write")}
    assert count(knl, known["x", "read"]).eval_with_dict({"n": 10}) == 11
    assert count(knl, known["x", "read"].remove_divs()).eval_with_dict({"n": 10}) == 31
    found = lk.gather_access_footprint_bytes(knl, ignore_uncountable=True)
    assert found["x", "read"].eval_with_dict({"n": 10}) == 88


# Undecided, and bad input

def test_executions_that_depend_on_data() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[first, last] -> {[k]: first<=k<last}"], """
        <> first = ptr[i]
        <> last = ptr[i+1]
        y[i] = sum(k, x[k]) {id=row}
        z[i] = 2*w[i] {id=z, if=w[i] > 0}
        v[i] = 3*w[i] {id=v}
        """, assumptions="n>=0")
    knl = lk.add_dtypes(knl, {"ptr": np.int32, "x,w": np.float32})
    with pytest.raises(lk.UndecidedError, match=r"'row\.k\.update' is unknown") as caught:
        lk.get_op_map(knl)
    assert "read from memory" in caught.value.reason
    with pytest.raises(lk.UndecidedError, match="'z' is unknown") as caught:
        lk.get_mem_access_map(knl, within="id:z")
    assert "'w[i] > 0' depends on data" in caught.value.reason
    assert lk.get_op_map(knl, within="not (id:row or id:z)").filter_by(name="mul").eval_and_sum({"n": 7}) == 7


def test_bad_input() -> None:
    for wrong in (lambda: lk.Op(count_granularity="bushel"), lambda: lk.MemAccess(count_granularity="bushel")):
        with pytest.raises(lk.PreconditionError, match="cannot be 'bushel'"):
            wrong()
    with pytest.raises(lk.PreconditionError, match="'float33' is not a dtype"):
        lk.Op("float33")
    with pytest.raises(lk.PreconditionError, match="subgroup_size= cannot be 0"):
        lk.get_op_map(matmul(), subgroup_size=0)
    counts = lk.get_mem_access_map(matmul())
    with pytest.warns(lk.MisspelledNameWarning, match="'directions'"):
        assert len(counts.filter_by(directions="load")) == 0
    with pytest.raises(lk.UnknownNameError, match="directions"):
        counts.group_by("directions")
    with pytest.raises(lk.UnknownNameError):
        counts.with_set_attributes(kind=1)
    with pytest.raises(lk.PreconditionError, match="has no dtype"):
        counts.group_by("direction").to_bytes()
    with pytest.raises(KeyError):
        counts[lk.MemAccess("global")]


def test_no_dtype_is_not_float64() -> None:
    """numpy takes ``None`` for float64."""
    assert lk.Op(np.float64) != lk.Op()
    assert str(lk.Op(np.float64)) == "Op(dtype=float64)"
    counts = lk.get_op_map(typed("{[i]: 0<=i<n}", "y[i] = 2*x[i]", x=np.float64))
    assert len(counts.filter_by(dtype=np.float64)) == 1
    assert len(counts.group_by("name").filter_by(dtype=np.float64)) == 0
    assert len(counts.filter_by(dtype=None)) == 0


def test_queries_of_counts() -> None:
    accesses = lk.get_mem_access_map(matmul())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(accesses.filter_by(lid_strides={1: 16})) == 1
    loads = accesses.filter_by(mtype=["global"], direction="load", dtype=[np.float32])
    assert loads.to_bytes().eval_and_sum(SIZES) == 4*loads.eval_and_sum(SIZES)
    assert (loads + loads).eval_and_sum(SIZES) == 2*loads.eval_and_sum(SIZES)
    assert set(accesses.group_by()) == {lk.MemAccess()}
    wide = accesses.filter_by_func(lambda key: isinstance(key, lk.MemAccess) and key.lid_strides == {0: 1})
    assert {key.variable for key in wide if isinstance(key, lk.MemAccess)} == {"b_fetch"}
