"""A small call on the host starts no threads, and its arguments are read by their address."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.compiler import find_compiler
from loopkit.runtime.views import address_of
from tests.cases import CASES
from tests.lowering.kernels import F32, make

SCRIPT = """
import os
import numpy as np
import loopkit as lk

knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
twice = lk.compile(lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"), target="c")
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
for n in (1, 100, 32752):
    twice(x=np.ones(n))
small = threads()
twice(x=np.ones(32753))
print(small - before, threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in Linux's /proc")
def test_small_calls_start_no_threads() -> None:
    if not find_compiler().openmp:
        pytest.skip("the compiler has no OpenMP")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
                          env={**os.environ, "OMP_NUM_THREADS": "3", "OMP_DYNAMIC": "false"})
    assert done.stdout.split() == ["0", "2"]


def clause(knl: lk.LoopKernel) -> str | None:
    """What stands behind the pragma of the blocks; ``None``: there is no pragma."""
    found = re.search(r"#pragma omp parallel for(.*)", lk.generate_code(knl, target="c").source)
    return None if found is None else found[1]


@pytest.mark.parametrize(("domain", "statement", "expected"), [
    ("0<=i<n", "y[i] = x[i]", " if(16LL*((n + 15) / 16) >= 32768)"),
    # a loop counts once more than it runs: the assignment before it is work, too
    ("0<=i<n and 0<=j<m", "y[i] = sum(j, a[i,j])", " if(16LL*((n + 15) / 16)*(m + 1) >= 32768)"),
    ("0<=i<n and 0<=j<10", "y[i] = sum(j, a[i,j])", " if(192LL*((n + 15) / 16) >= 32768)"),
    # the number of iterations of both loops over j depends on another loop
    ("0<=i<n and 0<=j<=i", "y[i] = sum(j, a[i,j])", " if(2080LL*((n + 15) / 16) >= 32768)"),
    ("0<=i<32752", "y[i] = x[i]", None),
    ("0<=i<32768", "y[i] = x[i]", "")])
def test_work_in_the_text(domain: str, statement: str, expected: str | None) -> None:
    knl = make(f"{{[{'i,j' if 'j' in domain else 'i'}]: {domain}}}", statement, **{
        "a" if "j" in domain else "x": F32})
    assert clause(lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")) == expected


def test_blocks_in_two_dimensions() -> None:
    knl = make("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j]", x=F32)
    assert clause(lk.tag_inames(knl, "i:g.1, j:g.0")) == " collapse(2) if(1LL*n*m >= 32768)"


def test_loops_of_a_pipeline_are_work_if_they_do_not_run() -> None:
    """With one tile the loop of a pipeline has no iteration, and the tile is before and behind it."""
    text = clause(next(case for case in CASES if case.name == "matmul_asynchronous").make())
    assert text is not None
    assert "*(l / 8 + 1) >= " in text


def test_threads_of_a_large_launch_lose_no_update() -> None:
    knl = make("{[i]: 0<=i<n}", "h[b[i]] = h[b[i]] + 1 {atomic}", h=np.int32, b=np.uint8)
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    b = np.random.default_rng(0).integers(0, 3, 200_000).astype(np.uint8)
    h, = lk.compile(knl, target="c")(h=np.zeros(256, np.int32), b=b)
    np.testing.assert_array_equal(h, np.bincount(b, minlength=256))


@pytest.mark.parametrize("array", [
    np.ones(3), np.ones((2, 3))[:, ::-1], np.ones(0), np.ones(()), np.ones(3).view(np.recarray),
    np.frombuffer(b"abcd", np.uint8)],
    ids=["plain", "reversed", "empty", "scalar", "subclass", "read-only"])
def test_address(array: np.ndarray) -> None:
    assert address_of(array) == array.ctypes.data
