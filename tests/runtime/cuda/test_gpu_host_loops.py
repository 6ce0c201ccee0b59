"""Loops that the host runs, on fake GPUs: what each launch gets, in which order, and what is left when one fails."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.evaluate import evaluate
from tests.lowering.host_loops import HOSTED, before_and_behind, one_statement, over_blocks
from tests.lowering.kernels import make as make_kernel
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.work import KINDS, F, make, read


def arrays_of(knl: lk.LoopKernel, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    typed = lk.lower(knl, stop="types").kernel
    rng = np.random.default_rng(0)
    return {x: rng.integers(-4, 5, [max(evaluate(e, sizes), 0) for e in shape if e is not None]).astype(a.dtype)
            for x, shape in array_shapes(knl).items() if (a := typed.array_args.get(x)) is not None}


def scaled_steps() -> lk.LoopKernel:
    """A scalar that differs from call to call beside the host's iname, and a grid that depends on it."""
    knl = make_kernel("{[t,i]: 0<=t<T and 0<=i<n-t}", "u[t+1,i] = alpha*u[t,n-1-i] + t", u=F, alpha=F)
    return lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def stepped(u: np.ndarray, alpha: float, steps: int) -> np.ndarray:
    u, n = u.copy(), u.shape[1]
    for t in range(steps):
        m = max(n - t, 0)
        u[t+1, :m] = F(alpha)*u[t, ::-1][:m] + F(t)
    return u


@pytest.mark.deep(every=26)
@pytest.mark.parametrize("name", HOSTED)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_results(lab: Lab, name: str, kind: str) -> None:
    reference = HOSTED[name].kernel()
    compiled = lk.compile(HOSTED[name].mapped(), target="cuda")
    for sizes in HOSTED[name].sizes:
        arrays = arrays_of(reference, sizes)
        wanted = {x: a.copy() for x, a in arrays.items()}
        lk.compile(reference, "c")(**wanted, **sizes)
        given = {x: make(lab, kind, a) for x, a in arrays.items()}
        compiled(**given, **sizes)
        for x, a in given.items():
            np.testing.assert_array_equal(read(lab, a), wanted[x], err_msg=f"{x} with {sizes}")


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("kind", KINDS)
def test_each_iteration_gets_its_own_values(lab: Lab, kind: str) -> None:
    """The launches run late: what is written for the next one must not change what an earlier one got."""
    compiled = lk.compile(scaled_steps(), target="cuda")
    u = np.arange(70, dtype=F).reshape(7, 10)
    for alpha in (2.0, 0.5, 0.5):
        given = make(lab, kind, u)
        before = len(lab.machine.launched)
        compiled(u=given, alpha=alpha, T=6)
        assert [x.grid[0] for x in lab.machine.launched[before:]] == [3, 3, 2, 2, 2, 2]
        np.testing.assert_array_equal(read(lab, given), stepped(u, alpha, 6))


def test_blocks_that_the_loop_has_left_behind_are_not_launched(lab: Lab) -> None:
    compiled = lk.compile(HOSTED["elimination"].mapped(), target="cuda")
    compiled(a=make(lab, "torch", np.arange(81).reshape(9, 9)))
    assert [x.grid[:2] for x in lab.machine.launched] == [
        grid for k in range(8) for grid in ((3 - (k + 1)//4, 1), (3 - (k + 1)//4, 5 - (k + 1)//2))]


def test_bound_calls(lab: Lab) -> None:
    compiled = lk.compile(scaled_steps(), target="cuda")
    u = np.arange(50, dtype=F).reshape(5, 10)
    given = make(lab, "torch", u)
    run = compiled.bind(u=given, alpha=0.5, T=4)
    assert run.number_of_launches == 4
    wanted = u
    for _ in range(3):
        run()
        wanted = stepped(wanted, 0.5, 4)
        np.testing.assert_array_equal(read(lab, given), wanted)


def test_a_temporary_lives_through_the_loop(lab: Lab) -> None:
    knl = over_blocks("i", "j", "k")(before_and_behind())
    compiled = lk.compile(knl, target="cuda")
    sizes = {"T": 3, "n": 9}
    arrays = arrays_of(knl, sizes)
    wanted = {x: a.copy() for x, a in arrays.items()}
    lk.compile(knl, "c")(**wanted, **sizes)
    given = {x: make(lab, "torch", a) for x, a in arrays.items()}
    lab.machine.run_all()
    memory = len(lab.machine.alive())
    run = compiled.bind(**given, **sizes)
    assert len(lab.machine.alive()) == memory + 1
    run()
    for x, a in given.items():
        np.testing.assert_array_equal(read(lab, a), wanted[x], err_msg=x)


def test_no_iteration_is_no_launch(lab: Lab) -> None:
    compiled = lk.compile(scaled_steps(), target="cuda")
    u = make(lab, "torch", np.ones((1, 10), F))
    compiled(u=u, alpha=2, T=0)
    assert not lab.machine.launched
    run = compiled.bind(u=u, alpha=2, T=0)
    run()
    assert run.number_of_launches == 0
    np.testing.assert_array_equal(read(lab, u), np.ones((1, 10), F))


def test_the_launch_that_fails(lab: Lab) -> None:
    compiled = lk.compile(scaled_steps(), target="cuda")
    given: dict[str, Any] = {"u": make(lab, "torch", np.zeros((5, 10), F)), "alpha": 2.0, "T": 4}
    compiled(**given)
    lab.machine.faults.launch = [0, 0, 1]
    with pytest.raises(lk.LaunchError) as caught:
        compiled(**given)
    assert caught.value.grid == (2, 1, 1)
    assert "t = 2" in str(caught.value)
    assert "alpha = 2.0" in str(caught.value)


def test_a_grid_that_is_too_large_in_a_later_iteration(lab: Lab) -> None:
    """Nothing is launched if something cannot be."""
    knl = make_kernel("{[t,i]: 0<=t<T and 0<=i<40000*t}", "u[t+1,i] = u[t,40000*t-1-i]", u=F)
    compiled = lk.compile(lk.tag_inames(knl, "i:g.1"), target="cuda")
    u = make(lab, "torch", np.zeros((4, 80000), F))
    with pytest.raises(lk.LimitError, match="blocks along y"):
        compiled(u=u, T=3)
    assert not lab.machine.launched
    compiled(u=u, T=2)
    assert [x.grid for x in lab.machine.launched] == [(1, 40000, 1)]


def test_time(lab: Lab) -> None:
    compiled = lk.compile(over_blocks("i")(one_statement()), target="cuda")
    u = make(lab, "torch", np.zeros((5, 10), F))
    before = len(lab.machine.launched)
    compiled.time(u=u, T=4, duration=0.01)
    assert len(lab.machine.launched) >= before + 8


def test_blocks_whose_threads_depend_on_the_loop(lab: Lab) -> None:
    knl = make_kernel("{[t,j,i]: 0<=t<T and 0<=j<3 and 0<=i<n-t}", "u[t+1,j,i] = u[t,2-j,n-1-i] + t", u=F)
    compiled = lk.compile(lk.tag_inames(knl, "j:g.0, i:l.0"), target="cuda")
    u = np.arange(90, dtype=F).reshape(5, 3, 6)
    wanted, given = u.copy(), make(lab, "torch", u)
    lk.compile(knl, target="c")(u=wanted, T=4)
    compiled(u=given, T=4)
    np.testing.assert_array_equal(read(lab, given), wanted)
    assert [(x.grid, x.block) for x in lab.machine.launched] == [((3, 1, 1), (6 - t, 1, 1)) for t in range(4)]
    with pytest.raises(lk.LimitError, match="needs 1025 threads along x") as caught:
        compiled(u=make(lab, "torch", np.zeros((3, 3, 1025), F)), T=2)
    assert "the block is n - t" in (caught.value.hint or "")
    assert len(lab.machine.launched) == 4
