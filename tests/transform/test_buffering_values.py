"""buffer_array of temporaries: what has a value elsewhere is loaded, what is read elsewhere is stored."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32
from tests.transform.same import assert_same, step

DATA = [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), "..."]


def rows() -> lk.LoopKernel:
    """Each row is begun, worked on several times, and written out backwards."""
    return lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j, k<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for k, j
                t[j] = t[j]*2 + k {id=work}
            end
            for j
                y[i, j] = t[7-j] {id=result}
            end
        end
        """, DATA)


def line(work: str = "t[i] = t[i]*2 + 1", where: str = "0<=i<n") -> lk.LoopKernel:
    """A scratch array as long as the arguments, worked on in tiles."""
    knl = lk.make_kernel(["{[l]: 0<=l<n}", f"{{[i]: {where}}}", "{[j]: 0<=j<n}"], f"""
        for l
            <> t[l] = x[l] {{id=begin}}
        end
        for i
            {work} {{id=work}}
        end
        for j
            y[j] = t[j] {{id=result}}
        end
        """, DATA)
    return lk.split_iname(knl, "i", 4)


# What it makes

@pytest.mark.deep
def test_a_row_is_loaded_and_stored() -> None:
    knl = step(rows(), lk.buffer_array, "t", "j, k", within="work", default_tag=None)
    assert outline(knl) == text("""
        for i
          for j
            begin: t[j] = x[i, j]
          for t_init_0
            init_t: t_buf[t_init_0] = t[t_init_0]
          for k
            for j
              work: t_buf[j] = t_buf[j]*2 + k
          for t_store_0
            store_t: t[t_store_0] = t_buf[t_store_0]
          for j
            result: y[i, j] = t[7 + (-1)*j]
        """)
    for mapped in (knl, lk.tag_inames(knl, "i:g.0"), lk.tag_inames(knl, "i:g.0, t_init_0:l.0, t_store_0:l.0")):
        assert_same(rows(), mapped, n=3)


@pytest.mark.deep
def test_tiles_of_a_scratch_array_in_shared_memory() -> None:
    knl = lk.tag_inames(line(), "i_outer:g.0, i_inner:l.0")
    knl = lk.buffer_array(knl, "t", "i_inner", within="work", temporary_address_space="local")
    storage = str(lk.lower(knl, stop="storage"))
    assert "shared float32 t_buf[4]" in storage
    assert "global float32 t[n]" in storage
    for n in (1, 4, 10):
        assert_same(line(), knl, n=n)


@pytest.mark.deep
def test_a_value_goes_from_one_tile_to_the_next() -> None:
    plain = line("t[i] = t[i] + t[i-1]", "1<=i<n")
    knl = step(plain, lk.buffer_array, "t", "i_inner", within="work", default_tag=None)
    assert knl.temporaries["t_buf"].shape == (5,)
    for n in (1, 2, 5, 14):
        assert_same(plain, knl, n=n)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(knl, "i_outer:g.0")


@pytest.mark.deep
def test_what_is_written_first_is_not_loaded() -> None:
    plain = lk.add_dtypes(line("t[i] = 3*i"), {"t": F32})
    knl = step(plain, lk.buffer_array, "t", "i_inner", within="work", default_tag=None)
    assert "init_t" not in knl.statement_by_id
    for n in (1, 4, 10):
        assert_same(plain, knl, n=n)


def test_what_nobody_reads_is_not_stored() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = t[j] + 1 {id=work}
                y[i, j] = t[j] {id=use}
            end
        end
        """, DATA)
    knl = step(plain, lk.buffer_array, "t", "j", within="work, use", default_tag=None)
    assert "store_t" not in knl.statement_by_id
    assert_same(plain, knl, n=3)


def test_only_what_leaves_the_loop_is_stored() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = t[j] + 1 {id=work}
            end
            y[i, 0] = t[3] {id=use}
        end
        """, DATA)
    knl = step(plain, lk.buffer_array, "t", "j", within="work", default_tag=None)
    assert knl.statement("store_t").domain.constant_range(knl.statement("store_t").inames[-1]) == (3, 3)
    assert_same(plain, knl, n=3)


@pytest.mark.deep
def test_after_a_reordering() -> None:
    """What flows is carried along, not looked at anew: here each cell has many values at once."""
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", """
        for i, j
            <> t = x[i, j] {id=begin}
            t = 2*t {id=work}
            y[i, j] = t {id=result}
        end
        """, DATA)
    knl = lk.interchange(plain, "i", "j")
    knl = step(knl, lk.buffer_array, "t", "", within="work", default_tag=None)
    assert_same(plain, knl, n=3)
    assert_same(plain, lk.tag_inames(knl, "i:g.0, j:l.0"), n=3)


@pytest.mark.deep
def test_a_write_that_may_not_happen_before_it() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = 0 {id=clip, if=x[i, j] > 1}
            end
            for j
                t[j] = t[j] + 1 {id=work}
            end
            for j
                t[j] = 5 {id=raise, if=x[i, 7-j] > 1}
            end
            for j
                y[i, j] = t[7-j] {id=result}
            end
        end
        """, DATA)
    knl = step(plain, lk.buffer_array, "t", "j", within="work", default_tag=None)
    assert_same(plain, knl, n=5)


def test_a_reduction_into_it() -> None:
    plain = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<8 and 0<=k<m}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = t[j] + sum(k, a[j, k]) {id=work}
            end
            for j
                y[i, j] = t[7-j] {id=result}
            end
        end
        """, [lk.GlobalArg("a", F32), *DATA])
    knl = step(plain, lk.buffer_array, "t", "j", within="work", default_tag=None)
    assert_same(plain, knl, n=3, m=5)


# What it refuses

def test_a_write_between_is_refused() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = t[j] + 1 {id=first}
            end
            for j
                t[j] = 2*t[7-j] {id=other}
            end
            for j
                t[j] = t[j] + 1 {id=last}
            end
            for j
                y[i, j] = t[j] {id=result}
            end
        end
        """, DATA)
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.buffer_array(knl, "t", "j", within="first, last", default_tag=None)
    assert "other" in str(err.value.witness)


@pytest.mark.parametrize(("call", "match"), [
    (lambda: lk.buffer_array(rows(), "t", "j, k"), "only be another name"),
    (lambda: lk.buffer_array(rows(), "t", "j", within="result"), "No statement writes 't'"),
    (lambda: lk.buffer_array(rows(), "t", "j", "0", within="work", assume="it is"), "are for arguments"),
    (lambda: lk.buffer_array(rows(), "t", "j", within="work", fetch_bounding_box=True), "are for arguments"),
    (lambda: lk.buffer_array(line("t[i] = 3*i"), "t", "i_inner", within="work"), "the dtype of 't' is unknown"),
])
def test_refused(call: object, match: str) -> None:
    with pytest.raises(lk.LoopkitError, match=match):
        call()                                                     # type: ignore[operator]


def test_a_write_that_may_not_happen_in_it() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t[j] = x[i, j] {id=begin}
            end
            for j
                t[j] = 0 {id=clip, if=x[i, j] > 1}
            end
            for j
                y[i, j] = t[7-j] {id=result}
            end
        end
        """, DATA)
    with pytest.raises(lk.PreconditionError, match="whether 'clip' writes 't' depends on data"):
        lk.buffer_array(knl, "t", "j", within="clip", default_tag=None)


def test_what_a_reduction_works_on() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, x[i, k])", DATA)
    with pytest.raises(lk.PreconditionError, match="is the accumulator of a reduction"):
        lk.buffer_array(knl, "acc_k", "k")
