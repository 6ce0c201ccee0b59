"""Sequential loops that the host runs, because they carry cross-block dependences."""
from __future__ import annotations

import random

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import variables
from loopkit.runtime.views import ArrayView
from loopkit.target.code import HostIname, Pointer, Value
from tests.lowering.host_loops import HOSTED, before_and_behind, elimination, one_statement, over_blocks
from tests.lowering.kernels import F32, make, time_loop
from tests.lowering.shown import lowered, storages
from tests.property.machine import execute
from tests.transform.same import assert_same

each = pytest.mark.parametrize("name", HOSTED)


@pytest.mark.deep(every=13)
@each
def test_schedule(name: str) -> None:
    assert str(lk.lower(HOSTED[name].mapped(), stop="schedule")) == HOSTED[name].schedule


@pytest.mark.deep
@each
def test_computes_the_same(name: str) -> None:
    knl = HOSTED[name].mapped()
    for sizes in HOSTED[name].sizes:
        assert_same(HOSTED[name].kernel(), knl, **sizes)


@pytest.mark.deep(every=13)
@each
def test_has_no_race(name: str) -> None:
    """Thread by thread, on a machine that knows who touched what."""
    knl = HOSTED[name].mapped()
    for sizes in HOSTED[name].sizes:
        arrays = {x: np.random.default_rng(0).integers(-4, 5, [max(evaluate(e, sizes), 0) for e in shape])
                  for x, shape in array_shapes(knl).items() if x in knl.array_args}
        assert_same_arrays(execute(lowered(HOSTED[name].kernel()), arrays, sizes, random.Random(0)),
                           execute(lowered(knl), arrays, sizes, random.Random(1)))


def assert_same_arrays(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    for x, values in first.items():
        np.testing.assert_array_equal(second[x], values, err_msg=x)


@pytest.mark.deep(every=13)
@each
def test_each_function_stands_once_in_the_text(name: str) -> None:
    for target in ("cuda", "c"):
        code = lk.generate_code(HOSTED[name].mapped(), target=target)
        assert all(code.source.count(f"{launch.name}(") == 1 for launch in code.kernels)
        assert len({launch.name for launch in code.kernels}) == len(code.kernels)


# The host's part

def test_host_text() -> None:
    assert lk.generate_code(over_blocks("i", "j")(time_loop())).host == """\
void launch_kernel(float *__restrict__ u, float *__restrict__ v, const int n, const int T)
{
    if (3 <= n) {
        for (int t = 0; t < T; ++t) {
            kernel_0<<<dim3((n + 2) / 4, 1, 1), dim3(4, 1, 1)>>>(u, v, n);
            kernel_1<<<dim3((n + 2) / 4, 1, 1), dim3(4, 1, 1)>>>(u, v, n);
        }
    }
}
"""


def test_host_text_with_a_temporary() -> None:
    code = lk.generate_code(over_blocks("i", "j", "k")(before_and_behind()), layout=lk.target.code.Layout(64))
    assert code.host == """\
void launch_kernel(const float *__restrict__ x, const long long n, float *__restrict__ u,
    float *__restrict__ y, const long long T)
{
    float *acc;
    if (cudaMalloc(&acc, sizeof(float)*n) != cudaSuccess) {
        return;  // nothing runs: see cudaGetLastError()
    }
    if (1 <= n)
        kernel_0<<<dim3((n + 3) / 4, 1, 1), dim3(4, 1, 1)>>>(x, acc, n);
    if (1 <= n) {
        for (long long t = 0; t < T; ++t) {
            kernel_1<<<dim3((n + 3) / 4, 1, 1), dim3(4, 1, 1)>>>(u, acc, n, t);
        }
    }
    if (1 <= n)
        kernel_2<<<dim3((n + 3) / 4, 1, 1), dim3(4, 1, 1)>>>(y, acc, n);
    cudaFree(acc);
}
"""


def test_a_launch_takes_the_inames_that_it_needs() -> None:
    """``T`` only bounds the host's loop, and ``t`` is nothing to who does not subscript with it."""
    first, second = lk.generate_code(over_blocks("i", "j")(time_loop())).kernels
    assert [p.name for p in first.parameters] == [p.name for p in second.parameters] == ["u", "v", "n"]
    launch, = lk.generate_code(over_blocks("i")(one_statement())).kernels
    assert [(p.name, type(p)) for p in launch.parameters] == [("u", Pointer), ("n", Value), ("t", HostIname)]


def test_no_blocks_for_what_the_loop_has_left_behind() -> None:
    knl = HOSTED["elimination"].mapped()
    scale, update = lk.generate_code(knl).kernels
    for n, k in ((7, 0), (7, 5), (16, 3), (17, 3), (33, 30)):
        values = {"n": n, "k": k}
        assert evaluate(scale.grid[0], values) == len({r//4 for r in range(k + 1, n)})
        assert evaluate(update.grid[1], values) == len({i//2 for i in range(k + 1, n)})
    assert "const int r_outer = blockIdx.x + (k + 1) / 4;" in lk.generate_code(knl).source


def test_inames_that_share_an_axis_are_counted_from_where_they_were_compared() -> None:
    launch, = lk.generate_code(HOSTED["two corners"].mapped()).kernels
    assert "k" not in variables(launch.grid[0])


def test_the_printed_program() -> None:
    assert str(lowered(over_blocks("r", "j")(elimination()))).startswith("""\
host
  for k in 0 .. n - 1
    launch kernel_0
    launch kernel_1

launch kernel_0
""")


@pytest.mark.parametrize("number", [3, 2**31])
def test_a_long_loop_takes_wide_indices(number: int) -> None:
    knl = lk.compile(over_blocks("i", "j")(time_loop()), "c")
    u = np.zeros(8, F32)
    typed = knl._runner.kernels.of({"u": u, "v": u})
    bound = typed.plan.bind({"u": ArrayView.of(u), "v": ArrayView.of(u), "T": number})
    assert bound.wide is (number >= 2**31)


# Which loops

def test_what_stays_in_a_block_stays_in_one_launch() -> None:
    knl = lk.tag_inames(lk.fix_parameters(time_loop(), n=18), "i:l.0, j:l.0")
    assert str(lk.lower(knl, stop="schedule")) == "launch 0:\n  for t\n    compute\n    copy"


@pytest.mark.deep
def test_only_the_loop_that_carries_it_and_those_around() -> None:
    """The inner loop's order is kept by each thread."""
    knl = make("{[t,i,s]: 0<=t<T and 0<=i<n and 1<=s<S}", "a[t+1,i,s] = a[t,n-1-i,s] + a[t+1,i,s-1]", a=F32)
    knl = lk.prioritize_loops(knl, "t,i,s")
    mapped = over_blocks("i")(knl)
    assert str(lk.lower(mapped, stop="schedule")) == "on the host, for t:\n  launch 0:\n    for s\n      insn"
    assert_same(knl, mapped, T=3, n=9, S=4)


def test_an_unrolled_loop_is_not_the_hosts() -> None:
    knl = lk.tag_inames(lk.fix_parameters(one_statement(), T=3), "t:unr")
    with pytest.raises(lk.IllegalTransformError) as caught:
        over_blocks("i")(knl)
    assert "the host cannot run the loop, one launch an iteration: 't' is tagged unr" in str(caught.value)
    assert caught.value.witness is not None


def test_a_number_of_steps_that_is_read_from_memory() -> None:
    knl = make(["{[i]: 1<=i<n-1}", "{[t]: 0<=t<steps}"], """
        <> steps = count[0]
        for t, i
            u[t+1,i] = u[t,i-1] + u[t,i+1]
        end
        """, u=F32, count=np.int32)
    with pytest.raises(lk.UndecidedError, match=r"the bounds of 't' are read from memory \(steps\)"):
        over_blocks("i")(knl)


def test_rows_of_data_dependent_length_within_a_step() -> None:
    """What is read from memory may bound loops within a launch."""
    knl = make(["{[t,i,j]: 0<=t<T and 0<=i,j<n}", "{[k]: first<=k<last}"], """
        for t
            for i
                <> first = rowptr[i]
                <> last = rowptr[i+1]
                y[i] = sum(k, val[k]*x[col[k]])
            end
            for j
                x[j] = y[j]
            end
        end
        """, val=F32, x=F32, rowptr=np.int32, col=np.int32)
    mapped = over_blocks("i", "j")(knl)
    assert len(lk.generate_code(mapped).kernels) == 2
    data = {"rowptr": np.array([0, 2, 2, 5, 6, 9], np.int32), "col": np.array([3, 0, 1, 1, 2, 0, 3, 2, 4], np.int32),
            "val": np.arange(-3, 6).astype(F32), "x": np.arange(5).astype(F32)}
    assert_same(knl, mapped, T=2, n=5, **data)


# Storage

def test_storage() -> None:
    assert storages(HOSTED["temporaries in each step"].mapped()) == {
        "f": "private float32 f", "s": "global float32 s[n]"}
    assert storages(HOSTED["launches before and after"].mapped()) == {"acc": "global float32 acc[n]"}


def test_a_value_that_the_hosts_loop_carries_is_not_private() -> None:
    knl = make("{[t,i]: 0<=t<T and 0<=i<n}", """
        for t, i
            acc[i] = acc[i] + u[t,n-1-i]
            u[t+1,i] = acc[i]
        end
        """, [lk.TemporaryVariable("acc", F32, address_space=lk.AddressSpace.PRIVATE), "..."], u=F32)
    with pytest.raises(lk.StorageError, match="in another block or launch"):
        lk.lower(over_blocks("i")(knl))


def test_blocks_before_the_first_value() -> None:
    """The axis begins at the least value for any size; in blocks before the first one nothing runs."""
    knl = make("[n,m] -> {[i]: 0<=m<=i<n}", "y[i] = x[i]", x=F32)
    for mapped in (lk.tag_inames(knl, "i:g.0"), over_blocks("i")(knl)):
        for m in (0, 3, 9):
            assert_same(knl, mapped, n=9, m=m)


def test_a_loop_that_the_host_cannot_run_has_no_value_from_one_block_for_all() -> None:
    knl = lk.make_kernel("{[t, i]: 0<=t<4 and 0<=i<n}", "<> s = 2*x[t] {id=one}\ny[t, i] = s*z[i] {id=each}")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,z": F32}), {"t": "unr", "i": "g.0"})
    knl = lk.set_temporary_address_space(knl, "s", "global")
    with pytest.raises(lk.IllegalTransformError, match="'one' runs in one block and 'each' in all blocks") as err:
        lk.lower(knl)
    assert "'t' is tagged unr" in str(err.value)
    assert "end the sequential loop between the two" in str(err.value)
