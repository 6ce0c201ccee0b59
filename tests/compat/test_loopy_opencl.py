"""loopy's calling convention on a device of OpenCL."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopkit.compat.loopy as lp
from loopkit.errors import CallError
from tests.opencl import opencl

TWICE = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")


@pytest.fixture(scope="module")
def queue() -> Any:
    return opencl().queue


def test_the_text_is_that_of_opencl() -> None:
    code = lp.generate_code_v2(lp.add_dtypes(TWICE, {"x": "float32"})).device_code()
    assert "__kernel" in code
    assert "__global float *restrict y" in code


@pytest.mark.parametrize("out_host", [None, False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_the_place_of_outputs(queue: Any, on_device: bool, out_host: bool | None) -> None:
    from pyopencl import array
    x = np.arange(5.)
    event, (y,) = TWICE(queue, x=array.to_device(queue, x) if on_device else x, out_host=out_host)
    event.wait()
    expected_on_host = not on_device if out_host is None else out_host
    assert isinstance(y, np.ndarray) is expected_on_host
    assert np.asarray(y.get() if isinstance(y, array.Array) else y).tolist() == [0, 2, 4, 6, 8]


def test_a_passed_output_is_written_in_place(queue: Any) -> None:
    from pyopencl import array
    x, y = array.to_device(queue, np.arange(3.)), array.zeros(queue, 3, np.float64)
    _, (result,) = TWICE(queue, x=x, y=y)
    assert result is y
    assert y.get().tolist() == [0, 2, 4]


def test_sizes_alone_give_outputs_on_the_device(queue: Any) -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = i", [lp.GlobalArg("y", np.float32), ...])
    _, (y,) = unit(queue, n=3)
    assert y.get().tolist() == [0, 1, 2]
    unit = lp.make_kernel("[n] -> {[i,j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, j)")
    unit = lp.realize_reduction(lp.fix_parameters(unit, n=5), force_scan=True)          # the runtime infers the shape
    _, (y,) = unit(queue)
    assert y.get().tolist() == [0, 1, 3, 6, 10]


def test_outputs_and_temporaries_have_the_memory_of_the_allocator(queue: Any) -> None:
    import pyopencl as cl
    sizes = list[int]()

    def allocate(size: int) -> Any:
        sizes.append(size)
        return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)

    unit = lp.make_kernel("{[i,j]: 0<=i,j<10}", """
        s[i] = 2*i {id=s}
        y[i] = s[i] {nosync=s}
        ... gbarrier
        t[j] = 3*j {id=t}
        z[j] = t[j] {nosync=t}
        """, [lp.TemporaryVariable(name, base_storage="base", address_space=lp.AddressSpace.GLOBAL) for name in "st"]
        + [...], seq_dependencies=True)
    unit = lp.preprocess_kernel(lp.tag_inames(unit, {"i": "g.0", "j": "g.0"}))
    _, (y, z) = lp.allocate_temporaries_for_base_storage(unit)(queue, allocator=allocate)
    assert (y.get().tolist(), z.get().tolist()) == ([*range(0, 20, 2)], [*range(0, 30, 3)])
    assert sizes == [40, 40, 40]


def test_a_call_without_a_queue_is_refused() -> None:
    opencl()
    with pytest.raises(CallError, match="a queue as its first argument"):
        TWICE(None, x=np.arange(3.))


def test_a_real_number_as_a_condition(queue: Any) -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3 if x[i] else 4")
    assert unit(queue, x=np.array([0, 0.5, -0.0, np.nan]))[1][0].tolist() == [4, 3, 4, 3]


def test_the_call_with_a_queue_of_the_tutorial(queue: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "loopy_tutorial.rst").read_text(encoding="utf-8")
    [block] = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", page, re.MULTILINE)
    names: dict[str, Any] = {"lp": lp, "x": np.arange(3, dtype=np.float32)}
    exec(block.replace("\n   ", "\n").strip(), names)
    assert names["z"].get().tolist() == [0, 2, 4]
