"""Thread axes whose extents depend on the sizes of a call: the launch takes them from the arguments."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles

F64 = np.float64


def made(domain: str, text: str, tags: Mapping[str, str], assumptions: str = "", **arrays: tuple[object, ...]
         ) -> lk.LoopKernel:
    data = [*(lk.GlobalArg(name, np.dtype(F64), shape) for name, shape in arrays.items()), "..."]
    return lk.tag_inames(lk.make_kernel(domain, text, data, assumptions=assumptions or None), tags)


def reversed_rows() -> lk.LoopKernel:
    """Rows reversed in shared memory, whose threads keep a value over a barrier."""
    return made("{[g, i, j, k]: 0<=g<m and 0<=i<n and 0<=j<n and 0<=k<16}", """
        for g
            for k
                <> t[k] = w[k] + g {id=fill}
            end
            for i
                <> own[i] = x[g,i] {id=keep}
            end
            for j
                y[g,j] = own[j] + t[j % 16] {id=out}
            end
        end
        """, {"g": "g.0", "i": "l.0", "j": "l.0", "k": "l.0"}, x=("m", "n"), y=("m", "n"), w=("16",))


def prefetched() -> lk.LoopKernel:
    knl = made("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<8}", "y[i,j] = sum(k, x[i,k]*w[k,j])", {"i": "l.1"},
               x=("n", "8"), w=("8", "m"), y=("n", "m"))
    knl = lk.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")
    return lk.add_prefetch(knl, "w", ["j_inner", "k"], default_tag="l.auto")


#: Kernels, their calls' arguments, and the reference.
CASES: Mapping[str, tuple[Callable[[], lk.LoopKernel], Callable[..., np.ndarray]]] = {
    "alone": (lambda: made("{[i]: 1<=i<n}", "y[i-1,0] = 2*x[i-1,0]", {"i": "l.0"}, "m>=1",
                           x=("n", "m"), y=("n", "m")),
              lambda x, w: np.where((np.arange(len(x)) < len(x) - 1)[:, None] & (np.arange(x.shape[1]) == 0), 2*x, 0)),
    "two statements": (lambda: made("{[i, j]: 0<=i<n and 0<=j<m}", "y[i,0] = x[i,0]\nz[j] = y[0,0] + x[0,j] {dep=*}",
                                    {"i": "l.0", "j": "l.0"}, "n>=1 and m>=1", x=("n", "m"), y=("n", "m"), z=("m",)),
                       lambda x, w: np.where(np.arange(x.shape[1]) == 0, x, 0)),
    "two on one axis": (lambda: made("{[i, j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j]", {"i": "l.0", "j": "l.0"},
                                     x=("n", "m"), y=("n", "m")), lambda x, w: x),
    "chunks": (lambda: lk.chunk_iname(made("{[i, j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j]", {"j": "l.1"},
                                           x=("n", "m"), y=("n", "m")), "i", 3, inner_tag="l.0"), lambda x, w: x),
    "kept in registers": (reversed_rows, lambda x, w: x + w[np.arange(x.shape[1]) % 16] + np.arange(len(x))[:, None])}


@pytest.mark.parametrize("name", CASES)
def test_the_launch_takes_the_block_from_the_arguments(name: str) -> None:
    make, reference = CASES[name]
    knl = make()
    lowered = lk.lower(knl)
    assert not isinstance(lowered.launches[0].threads, int)
    assert validate(lowered) == ()
    assert lk.check_races(knl).proven
    compiled = lk.compile(knl, target="c")
    for m, n in ((3, 5), (1, 1), (2, 40), *([] if name == "two statements" else [(4, 0)])):
        shape = (m, n) if name == "kept in registers" else (n, m)
        x, w, y = np.arange(1.0, 1 + m*n).reshape(shape), np.arange(16.0), np.zeros(shape)
        others = {"w": w} if name == "kept in registers" else {}
        compiled(x=x, y=y, m=m, n=n, **others)
        np.testing.assert_array_equal(y, reference(x, w))


def test_a_copy_is_made_by_the_threads_along_constant_axes(golden: GoldenFiles) -> None:
    knl = prefetched()
    assert validate(lk.lower(knl)) == ()
    for kind, target in (("cu", "cuda"), ("c", "c"), ("cl", "opencl")):
        golden.check(f"block_by_sizes.{kind}", lk.generate_code(knl, target=target))
    golden.check("block_by_sizes.host.cpp", lk.generate_code(knl).host)


def test_the_call_checks_the_number_of_threads() -> None:
    knl = made("{[i, j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j]", {"i": "l.0", "j": "l.1"}, x=("n", "m"), y=("n", "m"))
    compiled = lk.compile(knl, target="c")
    for n, m, what, number in ((1500, 1, "threads along x", 1500), (40, 30, "threads per block", 1200)):
        with pytest.raises(lk.LimitError, match=f"needs {number} {what}") as caught:
            compiled(x=np.zeros((n, m)))
        assert "the block is n x m" in (caught.value.hint or "")


def test_tags_come_before_sizes() -> None:
    knl = made("{[i, j]: 0<=i<n and 0<=j<m}", "<> t = x[i,j]\ny[i,j] = t", {"i": "l.0", "j": "unr"}, x=("n", "m"),
               y=("n", "m"))
    fixed = lk.fix_parameters(lk.privatize(knl, "j"), n=8, m=4)
    assert lk.lower(fixed).launches[0].block == (8, 1, 1)
    assert "t[4]" in str(lk.generate_code(fixed))


@pytest.mark.parametrize(("domain", "tags", "subject"), [
    ("{[i, k]: 0<=i<4 and 0<=k<n}", {"k": "l.0"}, "k"),
    ("{[i, k]: 0<=i<n and 0<=k<32}", {"k": "l.0", "i": "l.1"}, "i")])
def test_threads_that_combine_values_need_a_constant_block(domain: str, tags: dict[str, str], subject: str) -> None:
    knl = made(domain, "y[i] = sum(k, x[i,k])", tags, x=("n + 4", "n + 32"), y=("n + 4",))
    with pytest.raises(lk.PreconditionError, match=f"over 'k': '{subject}' has no constant range") as caught:
        lk.lower(knl)
    assert caught.value.subject == subject
    lk.lower(lk.fix_parameters(knl, n=8))


def test_a_block_of_other_threads_has_no_shuffles() -> None:
    knl = made("{[k, j]: 0<=k<32 and 0<=j<n}", "y[0] = sum(k, x[k])\nz[j] = 2*y[0]", {"k": "l.0", "j": "l.0"},
               x=("32",), y=("1",), z=("n",))
    lowered = lk.lower(knl)
    assert "the block has other threads too" in str(lk.generate_code(knl))
    assert validate(lowered) == ()


@pytest.mark.parametrize("bounds", ["0<=j<len", "len<=j<n", "len<=j<len+4"])
@pytest.mark.parametrize("tag", ["g.0", "l.0"])
def test_an_axis_needs_bounds_in_the_sizes(tag: str, bounds: str) -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", f"{{[j]: {bounds}}}"], "<> len = w[i]\ny[i,j] = 1.0",
                         [lk.GlobalArg("w", np.dtype(np.int32), ("n",)), lk.GlobalArg("y", np.dtype(F64), ("n", "n")),
                          "..."])
    knl = lk.tag_inames(knl, {"j": tag})
    with pytest.raises(lk.PreconditionError, match="The sizes do not bound 'j'") as caught:
        lk.lower(knl)
    assert caught.value.subject == "j"
    assert "The sizes do not bound 'j'" in str(knl)
