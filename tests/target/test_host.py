"""Properties of the host C text: blocks are a parallel loop, regions are loops over the threads."""
from __future__ import annotations

import re

import pytest

import loopkit as lk
from tests.cases import CASES, Case
from tests.lowering.kernels import F32, exchange, make

pytestmark = pytest.mark.optimised


def host_text(knl: lk.LoopKernel) -> str:
    return str(lk.generate_code(knl, target="c"))


def test_an_unmapped_kernel_is_plain_loops() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = 2*x[i]", x=F32)
    assert host_text(knl).split("\n\n")[-1] == """\
void kernel(const float *restrict x, float *restrict y, const int n)
{
    for (int i = 0; i < n; ++i) {
        // insn
        y[i] = 2.0f*x[i];
    }
}
"""


def test_blocks_run_in_parallel_threads_in_loops() -> None:
    code = host_text(lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0"))
    assert code.count("#pragma omp parallel for") == 1
    # one on each side of the barrier
    assert len(re.findall(r"for \(int l0_ = 0; l0_ < 64; \+\+l0_\)", code)) == 2
    assert "float t[64];" in code


def test_values_across_a_barrier_are_kept_for_each_thread() -> None:
    plain = make("{[b,i]: 0<=b<n and 0<=i<8}", """
        for b
            for i
                <> own[i] = 2*x[b,i] {id=a}
                <> t[i] = x[b,i] {id=b}
            end
            for i
                y[b,i] = t[7-i] + own[i] {id=c}
            end
        end
        """, x=F32)
    code = host_text(lk.tag_inames(plain, "b:g.0, i:l.0"))
    assert re.search(r"float own\[8\]", code)


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_word_of_cuda(case: Case) -> None:
    code = host_text(case.make())
    assert not re.search(r"__\w+__|threadIdx|blockIdx|__syncthreads", code)


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_functions_are_the_launches(case: Case) -> None:
    code = lk.generate_code(case.make(), target="c")
    assert re.findall(r"^void (\w+)\(", code.source, re.MULTILINE) == [launch.name for launch in code.kernels]
    assert [k.name for k in lk.generate_code(case.make(), target="cuda").kernels] == [k.name for k in code.kernels]
