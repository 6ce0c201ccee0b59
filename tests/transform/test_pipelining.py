"""pipeline: copies that run ahead of the loop that uses them."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from tests.transform.same import assert_same, step

BODY = """
    for k
        for i
            <> t[i] = a[k, i]  {id=copy}
        end
        for j
            c[k, j] = t[7 - j]  {id=use}
        end
    end"""


def made(body: str = BODY, domain: str = "{[k, i, j]: 0<=k<n and 0<=i,j<8}") -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(domain, body), {"a": np.float32})


def tiled() -> lk.LoopKernel:
    """A product of matrices with both strips in shared memory, fetched by ``l.auto``."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])")
    knl = lk.add_dtypes(knl, {"a,b": np.float32})
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 6)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def barriers(knl: lk.LoopKernel) -> list[str]:
    """Where the barriers of *knl* stand, and between what."""
    placed = lk.lower(knl, stop="barriers")
    return [line.strip() for line in str(placed).splitlines() if "barrier" in line]


# What it makes

@pytest.mark.deep
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("registers", [True, False])
def test_the_result_stays(stages: int, registers: bool) -> None:
    if stages == 1 and not registers:
        return
    plain = made()
    knl = step(plain, lk.pipeline, "k", stages, registers=registers)
    for n in (0, 1, 2, 7):
        assert_same(plain, knl, n=n)
    epilogue = lk.peel(knl, "k", last=1)
    for n in (0, 1, 2, 7):
        assert_same(plain, epilogue, n=n)


@pytest.mark.deep
@pytest.mark.parametrize("registers", [True, False])
def test_elements_that_exist_only_inside(registers: bool) -> None:
    """The first copy of a row depends on where it begins, which isl prints as a choice between numbers."""
    plain = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and -2<=k<=2}",
                           "c[i, j] = sum(k, if(0 <= j + k and j + k < m, a[i, j + k]*w[k + 2], 0))")
    plain = lk.add_dtypes(plain, {"a,w": np.float32})
    knl = lk.split_iname(lk.add_prefetch(plain, "a", [], default_tag=None), "i", 5, inner_tag="l.0")
    knl = step(knl, lk.pipeline, "k", registers=registers)
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    for n, m in ((3, 1), (6, 2), (2, 7), (0, 3)):
        assert_same(plain, knl, n=n, m=m)



@pytest.mark.deep(every=4)
@pytest.mark.parametrize("n", range(4))
def test_a_known_number_of_iterations(n: int) -> None:
    """Where all copies come first, there is nothing to load ahead."""
    plain = lk.fix_parameters(made(), n=n)
    knl = lk.pipeline(plain, "k", 4)
    assert ("t_next" in knl.temporaries) == (n == 0)
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    assert_same(plain, knl)


def test_one_stage_has_no_axis() -> None:
    assert lk.pipeline(made(), "k", 1).statements_text == """\
for k_first, i
  <> t[i] = a[k_first, i]  {id=copy_first}
end
for k
  for i
    t_next[i] = a[k + 1, i]  {id=t_load}
  end
  for j
    c[k, j] = t[7 - j]  {id=use}
  end
  for i
    t[i] = t_next[i]  {id=copy}
  end
end"""


def test_without_registers_the_copies_come_first() -> None:
    assert lk.pipeline(made(), "k", 3, registers=False).statements_text == """\
for k_first, i
  t[k_first, i] = a[k_first, i]  {id=copy_first}
end
for k
  for i
    t[(k + 2) % 3, i] = a[k + 2, i]  {id=copy}
  end
  for j
    c[k, j] = t[k % 3, 7 - j]  {id=use}
  end
end"""


@pytest.mark.deep
@pytest.mark.parametrize(("stages", "count"), [(1, 3), (2, 2), (3, 2)])
def test_two_stages_need_one_barrier_in_the_loop(stages: int, count: int) -> None:
    """The other one is before the loop."""
    assert len(barriers(lk.pipeline(tiled(), "k_outer", stages))) == count


@pytest.mark.deep
def test_a_thread_holds_its_part_of_a_tile() -> None:
    """24 elements on 4 by 4 threads: 4 along a row and 2 rounds, which leave some threads without one."""
    knl = lk.pipeline(tiled(), "k_outer")
    stored = lk.lower(knl, stop="storage")
    shown = {name: str(storage) for name, storage in stored.storages.items()}
    assert shown["a_fetch"] == "shared float32 a_fetch[2][4][6]"
    assert shown["a_fetch_next"] == "private float32 a_fetch_next[2]"
    assert shown["b_fetch_next"] == "private float32 b_fetch_next[2]"
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    for sizes in ((4, 4, 6), (5, 3, 13), (1, 9, 1), (6, 6, 0)):
        assert_same(tiled(), knl, **dict(zip(("n", "m", "l"), sizes, strict=True)))


@pytest.mark.deep
def test_chosen_temporaries() -> None:
    knl = lk.pipeline(tiled(), "k_outer", temporaries="b_fetch")
    assert "a_fetch_next" not in knl.temporaries
    assert "b_fetch_next" in knl.temporaries
    assert_same(tiled(), knl, n=5, m=6, l=14)


def test_by_default_what_the_loop_computes_is_no_copy() -> None:
    knl = made("""
        for k
            <> t = a[k]  {id=copy}
            <> u = b[k]*t  {id=product}
            d[k] = u*t  {id=use}
        end""", "{[k]: 0<=k<n}")
    knl = lk.add_dtypes(knl, {"b": np.float32})
    piped = lk.pipeline(knl, "k")
    assert set(piped.temporaries) == {"t", "u", "t_next"}
    assert_same(knl, piped, n=5)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("tag", [None, "l.auto"])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_buffer_that_is_written_too(tag: str | None, stages: int) -> None:
    plain = made("""
        for k
            for i, j
                y[k, i] = y[k, i] + a[k, j]*m[j, i]  {id=add}
            end
            for i
                y[k, i] = 2*y[k, i]  {id=twice}
            end
        end""")
    plain = lk.add_dtypes(plain, {"y,m": np.float32})
    knl = lk.add_prefetch(lk.buffer_array(plain, "y", "i", default_tag=tag), "a", "j", default_tag=tag)
    if tag is not None:
        knl = lk.tag_inames(knl, "i:l.0")
    knl = lk.pipeline(knl, "k", stages)
    assert {"y_buf_next", "a_fetch_next"} <= set(knl.temporaries)
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    for n in (0, 1, 5):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_threads_that_are_tagged_later() -> None:
    """Without threads the box of a copy remains a loop."""
    knl = lk.make_kernel("{[i, k]: 0<=i<8 and 0<=k<n}", "y[i] = sum(k, a[i, k])")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float32}), "k", 4)
    knl = lk.add_prefetch(knl, "a", ["i", "k_inner"], allow_global_storage=True)
    later = lk.tag_inames(lk.pipeline(knl, "k_outer"), "i:l.0")
    assert lk.verify(later).verdict is lk.Verdict.PROVEN
    assert_same(knl, later, n=11)


# What it refuses

WRITTEN = BODY.replace("c[k, j]", "a[k + 1, j]")
CARRIED = """
    for k
        for j
            c[k, j] = t[7 - j]  {id=use}
        end
        for i
            <> t[i] = a[k, i]  {id=copy}
        end
    end"""
BESIDE = """
    for k
        for i
            <> t[i] = a[k, i]  {id=copy}
            c[k, i] = t[i]  {id=use}
        end
    end"""
INDIRECT = BODY.replace("a[k, i]", "a[p[k], i]").replace("c[k, j]", "a[k, j]")


@pytest.mark.parametrize(("refused", "text"), [
    (lambda: lk.pipeline(made(), "q"), "'q' is not an iname"),
    (lambda: lk.pipeline(lk.tag_inames(made(), "k:g.0"), "k"), "'k' has the tag 'g.0' and cannot be pipelined"),
    (lambda: lk.pipeline(made(), "k", 0), "stages must be a positive integer"),
    (lambda: lk.pipeline(made(), "k", 1, registers=False), "no copy can run ahead of its use"),
    (lambda: lk.pipeline(made(), "k", registers="yes"), "registers= must be True or False"),
    (lambda: lk.pipeline(made(), "k", 3, registers=True, asynchronous=True),
     "asynchronous=True exclude each other.\n  hint: pipeline(knl, 'k', stages=3, asynchronous=True)"),
    (lambda: lk.pipeline(made(), "j"), "No copy in the loop over 'j' can be pipelined"),
    (lambda: lk.pipeline(made(), "k", temporaries="u"), "'u' is not a temporary"),
    (lambda: lk.pipeline(made(), "j", temporaries="t"), "'copy' uses it outside of the loop"),
    (lambda: lk.pipeline(made(BESIDE), "k", temporaries="t"), "'copy' and 'use' share a loop"),
    (lambda: lk.pipeline(made(BESIDE), "k"), "No copy in the loop over 'k' can be pipelined"),
    (lambda: lk.pipeline(made(BODY + BODY.replace("copy", "copy2").replace("use", "use2").replace("t[", "s[")), "k"),
     "Several loops over 'k' have copies"),
    (lambda: lk.pipeline(made(INDIRECT), "k"), "cannot be decided"),
    (lambda: lk.pipeline(made(BODY.replace("{id=use}", "\n t[j] = b[k, j]")), "k", temporaries="t"),
     "No copy in the loop over 'k' writes 't': 'copy' and 'insn_0' copy into it")])
def test_refused(refused: Callable[[], lk.LoopKernel], text: str) -> None:
    with pytest.raises(lk.LoopkitError) as error:
        refused()
    assert text in str(error.value)


@pytest.mark.parametrize("registers", [True, False])
def test_what_is_copied_is_written_in_between(registers: bool) -> None:
    with pytest.raises(lk.IllegalTransformError) as error:
        lk.pipeline(made(WRITTEN), "k", registers=registers)
    copy = "t_load" if registers else "copy"
    assert str(error.value.witness) == f"with n = 2: use[k=0, j=0] writes a[1, 0], which {copy}[k=0, i=0] reads"


def test_a_value_of_the_iteration_before() -> None:
    with pytest.raises(lk.IllegalTransformError) as error:
        lk.pipeline(made(CARRIED), "k")
    assert "would lose a value of 't'" in str(error.value)
    assert str(error.value.witness) == "with n = 2: copy[k=0, i=0] writes t[0], which use[k=1, j=7] reads"


def test_on_the_callers_account() -> None:
    assert [o.reason for o in lk.pipeline(made(INDIRECT), "k", assume="p[k] > k").obligations] == ["p[k] > k"]


def test_declared_storage_is_kept() -> None:
    t = lk.TemporaryVariable("t", np.dtype(np.float32), (8,), lk.AddressSpace.PRIVATE, fixed=True)
    knl = annotated(made(), temporaries={"t": t})
    with pytest.raises(lk.StorageError, match="were declared"):
        lk.pipeline(knl, "k")
    assert_same(made(), lk.pipeline(knl, "k", 1), n=3)


@pytest.mark.parametrize(("fill", "why"), [
    ("<> t[i] = a[k, i] {id=copy,if=a[k, i] > 0}", "whether 'copy' runs depends on data"),
    ("<> t[i] = a[k, i] + t[i] {id=copy}", "'copy' reads it too"),
    ("<> t[i] = t[i] + a[k, i] {id=copy,atomic}", "'copy' combines into it")])
def test_what_fills_a_temporary_is_no_copy(fill: str, why: str) -> None:
    text = f"for k\nfor i\n{fill.replace(',atomic', '')}\nend\nfor j\nc[k, j] = t[15 - j]\nend\nend"
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<16}", text)
    with pytest.raises(lk.PreconditionError, match=why):
        lk.pipeline(lk.make_atomic(knl, "copy") if "atomic" in fill else knl, "k", temporaries="t")


def test_threads_share_boxes_of_constant_extents() -> None:
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i<m and 0<=j<16}",
                         "for k\nfor i\n<> t[i] = a[k, i]\nend\nfor j\nc[k, j] = t[15 - j]\nend\nend",
                         assumptions="m>=16")
    with pytest.raises(lk.PreconditionError, match=r"'i' has no constant range, which the tag 'l.auto' needs"):
        lk.pipeline(lk.tag_inames(knl, "i:l.auto, j:l.0"), "k")
