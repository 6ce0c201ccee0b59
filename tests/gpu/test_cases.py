"""Every real case on the GPU, at every size, as a user calls it: against numpy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import epsilon, is_of_ml_dtypes
from tests.cases import CASES, Case
from tests.target.test_restrict import CHOICES


def check(case: Case, found: Any, expected: Any, arguments: dict[str, Any], what: str) -> None:
    for name, value in expected.items():
        scale = max(1.0, float(np.abs(value).max(initial=0)))
        length = max((max(v.shape, default=1) for v in arguments.values() if isinstance(v, np.ndarray)), default=1)
        got = np.asarray(found[name]).astype(np.float64)
        np.testing.assert_allclose(got, value, rtol=0, atol=epsilon(case.dtype)*(8 + 2*length)*scale,
                                   err_msg=f"{name} at {what}")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_on_arrays_of_the_host(case: Case, debug: bool) -> None:
    knl = lk.compile(case.make(), target="cuda", debug=debug)
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(7), *sizes)
        expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
        check(case, knl(**arguments), expected, arguments, str(sizes))


#: Cases that leave the borders of their outputs as they were.
WITH_BORDERS = ("stencil_2d", "stencil_2d_vec", "neighbours_anywhere_vec", "stencil_3d", "jacobi", "two_launches")


def _tensors(arguments: dict[str, Any]) -> dict[str, Any]:
    return {k: _tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


def _tensor(a: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    if is_of_ml_dtypes(a.dtype):
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(a).cuda()


def _values(outputs: Any) -> dict[str, np.ndarray]:
    return {k: x.double().cpu().numpy() for k, x in outputs.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_on_tensors(case: Case) -> None:
    """Results in tensors full of NaN: what a kernel should write and does not is seen."""
    torch = pytest.importorskip("torch")
    knl = lk.compile(case.make(), target="cuda")
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(8), *sizes)
        expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
        plain = knl(**_tensors(arguments)).asdict()
        check(case, _values(plain), expected, arguments, str(sizes))
        poison = {k: torch.full_like(x, float("nan")) for k, x in plain.items() if k not in arguments}
        poisoned = knl(**_tensors(arguments), **poison).asdict()
        if case.name not in WITH_BORDERS:
            check(case, _values(poisoned), expected, arguments, f"{sizes}, poisoned")


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_written_is_read_anew(name: str) -> None:
    """The compiler may not take for constant what the kernel writes."""
    for n in (1, 2, 5, 40):
        given = {x: np.random.default_rng(n).integers(-5, 6, n).astype(float) for x in "xa"}
        found, wanted = (lk.compile(CHOICES[name], target=target)(
            **{k: v.copy() for k, v in given.items()}, n=n).a for target in ("cuda", "c"))
        np.testing.assert_array_equal(found, wanted)
