"""Where a host compiler must be told to keep the order of an outer loop, and that the results are right there."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import loopkit as lk

pytestmark = pytest.mark.optimised

ORDER = "__asm__ volatile"
F64 = np.float64


def kernel(text: str, domain: str = "{[j,i]: 0<=j,i<n}", extent: str = "4*n") -> lk.LoopKernel:
    b = [lk.GlobalArg("b", np.int32, "n")] if "b[" in text else []
    return lk.make_kernel(domain, text, [lk.GlobalArg("a", F64, extent), lk.GlobalArg("x", F64, "n + 1"), *b, "..."])


def text_of(knl: lk.LoopKernel) -> str:
    return lk.generate_code(knl, target="c").source


@pytest.mark.parametrize(("text", "told"), [
    ("for j, i\n a[j + i] = x[j] + x[j + 1] + x[j]\nend", True),
    ("for j, i\n a[2*j + i] = x[j]\nend", True),
    ("for j, i\n a[j - i + n] = x[j]\nend", False),              # a later i meets what a later j wrote
    ("for j, i\n a[i] = x[j]\nend", False),                      # each time at the same i
    ("for j, i\n a[j] = x[i]\nend", False),
    ("for j, i\n a[b[i]] = x[j]\nend", True),                    # who knows
    ("for j, i\n a[j + i] = a[j + i] + x[j]\nend", False),       # compilers see the read
    ("for j\n a[j] = x[j]\nend", False),                         # there is no inner loop
])
def test_told_where_an_element_is_written_earlier_in_the_inner_loops(text: str, told: bool) -> None:
    assert (ORDER in text_of(kernel(text))) == told


def test_a_split_loop_writes_each_element_once() -> None:
    knl = lk.make_kernel("{[j]: 0<=j<n}", "a[j] = x[j]", [lk.GlobalArg("a, x", F64, "n"), "..."])
    assert ORDER not in text_of(lk.split_iname(knl, "j", 32))


def test_told_across_the_loops_over_threads() -> None:
    knl = kernel("for j, i\n a[j + i] = x[j]\nend", "{[j,i]: 0<=j<n and 0<=i<8}", "n + 8")
    text = text_of(lk.tag_inames(knl, "i:l.0"))
    assert ORDER in text
    assert text.index("l0_") < text.index(ORDER)


@pytest.mark.parametrize("value", ["x[j]", "x[j] + x[j + 1] + x[j]", "x[j]*x[i]", "if(x[j] > 3, x[i], x[j])"])
@pytest.mark.parametrize("index", [(1, 1), (1, 2), (2, 1), (1, -1), (0, 1), (1, 0)])
def test_the_last_write_stays(index: tuple[int, int], value: str) -> None:
    """All sorts of nests in which one statement writes elements again, as a compiler optimizes them."""
    p, q = index
    shift = f" + {-q}*n" if q < 0 else ""
    knl = kernel(f"for j, i\n a[{p}*j + {q}*i{shift}] = {value}\nend")
    for n in (5, 8, 33):
        x = np.arange(1.0, n + 2)
        wanted = np.zeros(4*n)
        for j, i in itertools.product(range(n), repeat=2):
            wanted[p*j + q*i + (-q*n if q < 0 else 0)] = eval(
                value.replace("if(x[j] > 3, x[i], x[j])", "x[i] if x[j] > 3 else x[j]"), {"x": x, "j": j, "i": i})
        found = lk.compile(knl, target="c")(x=x, a=np.zeros(4*n)).a
        np.testing.assert_array_equal(found, wanted)
