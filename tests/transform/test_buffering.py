"""buffer_array: part of an array worked on in a temporary."""
from __future__ import annotations

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from tests.language.outline import outline, text
from tests.transform.kernels import F32, twice
from tests.transform.same import assert_same, step


def arrays(*names: str) -> list[object]:
    return [*(lk.GlobalArg(name, F32) for name in names), "..."]


def accumulation() -> lk.LoopKernel:
    """An outer product for each k, added up in place."""
    return lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", """
        for k, i, j
            c[i, j] = c[i, j] + a[i, k]*b[k, j]
        end
        """, arrays("a", "b", "c"))


def tiled_accumulation() -> lk.LoopKernel:
    knl = lk.split_iname(lk.split_iname(accumulation(), "i", 4), "j", 8)
    return lk.prioritize_loops(knl, "i_outer, j_outer, k, i_inner, j_inner")


def overwritten() -> lk.LoopKernel:
    """Each element is written before it is read."""
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                y[i, j] = 2*x[i, j] {id=set}
            end
            for j
                y[i, j] = y[i, j] + y[i, 7-j]*0 {id=use}
            end
        end
        """, arrays("x", "y"))


def sweep(write: str = "i", read: str = "i-1") -> lk.LoopKernel:
    return lk.split_iname(lk.make_kernel("{[i]: 1<=i<n}", f"y[{write}] = y[{read}] + x[i]", arrays("x", "y")), "i", 4)


# What it makes

@pytest.mark.deep
def test_a_tile_is_loaded_and_stored() -> None:
    knl = step(tiled_accumulation(), lk.buffer_array, "c", "i_inner, j_inner", default_tag=None)
    assert outline(knl) == text("""
        for i_outer
          for j_outer
            for c_init_0
              for c_init_1
                init_c: c_buf[c_init_0, c_init_1] = c[4*i_outer + c_init_0, 8*j_outer + c_init_1]
            for k
              for i_inner
                for j_inner
                  insn: c_buf[i_inner, j_inner] = c_buf[i_inner, j_inner] + a[4*i_outer + i_inner, k]*b[k, 8*j_outer + j_inner]
            for c_store_0
              for c_store_1
                store_c: c[4*i_outer + c_store_0, 8*j_outer + c_store_1] = c_buf[c_store_0, c_store_1]
        """)  # noqa: E501
    assert knl.temporaries["c_buf"].shape == (4, 8)
    for sizes in ({"n": 1, "m": 1, "l": 1}, {"n": 5, "m": 11, "l": 3}, {"n": 8, "m": 8, "l": 2}):
        assert_same(accumulation(), knl, **sizes)


def test_subscripts_that_are_affine_for_each_value_only() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<3 and 0<=j<4}", "y[5*i*i + j] = y[5*i*i + j] + a[i, j]", arrays("y", "a"))
    assert_same(plain, step(plain, lk.buffer_array, "y", "j", default_tag=None))
    assert_same(plain, step(plain, lk.buffer_array, "y", "j", default_tag=None, fetch_bounding_box=True))
    values = lk.make_kernel("{[i, j, k]: 0<=i<3 and 0<=j,k<4}", """
        for i
            for j
                <> t[5*i*i + j] = a[i, j] {id=set}
            end
            for k
                y[i, k] = t[5*i*i + 3 - k] {id=use}
            end
        end
        """, arrays("a"))
    assert_same(values, step(values, lk.buffer_array, "t", "j", within="set", default_tag=None))
    data = lk.make_kernel("{[i]: 0<=i<3}", "y[at[i]] = a[i]", [lk.GlobalArg("at", np.int32), *arrays("y", "a")])
    with pytest.raises(lk.PreconditionError, match="needs affine subscripts"):
        lk.buffer_array(data, "y", "i")


@pytest.mark.deep
def test_on_threads() -> None:
    knl = lk.tag_inames(tiled_accumulation(), "i_outer:g.0, j_outer:g.1, i_inner:l.0")
    shared = lk.buffer_array(knl, "c", "i_inner, j_inner")
    own = lk.buffer_array(knl, "c", "j_inner", default_tag=None)
    assert own.temporaries["c_buf"].shape == (8,)
    assert "private" in str(lk.lower(own, stop="storage"))
    for n, m in ((1, 1), (5, 11), (8, 16)):
        assert_same(accumulation(), shared, n=n, m=m, l=3)
        assert_same(accumulation(), own, n=n, m=m, l=3)


def test_nothing_is_loaded_that_is_written_first() -> None:
    knl = step(overwritten(), lk.buffer_array, "y", "j", default_tag=None)
    assert "init_y" not in knl.statement_by_id
    assert_same(overwritten(), knl, n=3)


def test_a_write_under_a_condition_loads() -> None:
    plain = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {if=x[i] > 0}", arrays("x", "y"))
    knl = step(lk.split_iname(plain, "i", 4), lk.buffer_array, "y", "i_inner", default_tag=None)
    assert "init_y" in knl.statement_by_id
    for n in (1, 4, 10):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_only_what_is_written_is_stored() -> None:
    plain = lk.make_kernel("{[i]: 0<=i<n}", "y[2*i] = y[2*i+1] + x[i]", arrays("x", "y"))
    knl = step(lk.split_iname(plain, "i", 4), lk.buffer_array, "y", "i_inner", default_tag=None)
    stored, loaded = knl.statement("store_y"), knl.statement("init_y")
    assert stored.domain.where(("==", _even(stored.inames[-1]))).is_equal(stored.domain)
    assert not loaded.domain.where(("==", _even(loaded.inames[-1]))).is_equal(loaded.domain)
    for n in (1, 4, 10):
        assert_same(plain, knl, n=n)
    mapped = lk.tag_inames(knl, "i_outer:g.0, i_inner:l.0, y_init_0:l.auto, y_store_0:l.auto")
    assert_same(plain, mapped, n=11)


def _even(iname: str) -> p.Remainder:
    return p.Remainder(p.Variable(iname), 2)


@pytest.mark.deep
def test_a_value_goes_from_one_buffer_to_the_next() -> None:
    """A running sum: each tile's buffer is loaded with what the one before stored."""
    plain = lk.make_kernel("{[i]: 1<=i<n}", "y[i] = y[i-1] + x[i]", arrays("x", "y"))
    knl = step(sweep(), lk.buffer_array, "y", "i_inner", default_tag=None)
    assert knl.temporaries["y_buf"].shape == (5,)
    for n in (1, 2, 5, 14):
        assert_same(plain, knl, n=n)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(knl, "i_outer:g.0")


@pytest.mark.deep
def test_steps_after_it_are_bound() -> None:
    knl = lk.buffer_array(sweep(), "y", "i_inner", default_tag=None)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(knl, "i_inner:l.0")
    mapped = lk.tag_inames(knl, "y_init_0:l.0, y_store_0:l.0")
    assert_same(sweep(), mapped, n=14)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_an_output_without_a_dtype_has_that_of_its_one_writer(dtype: type) -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", "a[i] = x[i]\nb[j] = 2*a[j]")
    knl = lk.buffer_array(lk.fuse_loops(knl, ["i", "j"]), "a", [])
    found = knl(x=np.arange(3, dtype=dtype))
    assert found.a.dtype == found.b.dtype == dtype
    np.testing.assert_array_equal(found.a, [0, 1, 2])


def test_some_statements_only() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", """
        for i
            for j
                y[i] = y[i] + x[i, j] {id=add}
            end
            z[i] = y[i] {id=after}
        end
        """, arrays("x", "y", "z"))
    knl = step(plain, lk.buffer_array, "y", "", within="add", default_tag=None)
    assert knl.temporaries["y_buf"].shape == ()
    assert "z[i] = y[i]" in knl.statements_text
    assert_same(plain, knl, n=5)


@pytest.mark.deep
def test_a_reduction_into_the_buffer() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = y[i] + sum(k, a[i, k])"),
                          {"a": F32, "y": F32})
    knl = lk.buffer_array(lk.split_iname(plain, "i", 4, outer_tag="g.0", inner_tag="l.0"), "y", "i_inner")
    for n in (1, 7, 8):
        assert_same(plain, knl, n=n, m=3)


def test_names_can_be_given() -> None:
    knl = lk.buffer_array(sweep(), "y", "i_inner", temporary_name="tile", temporary_address_space="local",
                          init_insn_id="fill", store_insn_id="spill")
    assert knl.temporaries["tile"].address_space is lk.AddressSpace.LOCAL
    assert {"fill", "spill"} <= set(knl.statement_by_id)
    assert_same(sweep(), knl, n=9)


# Whole boxes

def triangle() -> lk.LoopKernel:
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i, j] = y[i, j]*2 + 3*i + j", arrays("y"))


def tiled_triangle() -> lk.LoopKernel:
    knl = lk.split_iname(lk.split_iname(triangle(), "i", 4), "j", 4)
    return lk.prioritize_loops(knl, "i_outer, j_outer, i_inner, j_inner")


@pytest.mark.deep
def test_a_whole_box_is_loaded_and_its_triangle_stored() -> None:
    exact = lk.buffer_array(tiled_triangle(), "y", "i_inner, j_inner", default_tag=None)
    knl = step(tiled_triangle(), lk.buffer_array, "y", "i_inner, j_inner", default_tag=None, fetch_bounding_box=True)
    assert knl.statement("store_y") == exact.statement("store_y")
    loaded = knl.statement("init_y").domain
    assert exact.statement("init_y").domain.is_subset(loaded)
    assert not loaded.is_subset(exact.statement("init_y").domain)
    assert array_shapes(knl)["y"] == array_shapes(triangle())["y"]
    assert lk.check_bounds(knl).verdict is lk.Verdict.PROVEN
    mapped = lk.tag_inames(knl, "i_outer:g.0, j_outer:g.1, i_inner:l.0, y_init_0:l.1, y_init_1:l.0, y_store_0:l.0")
    for n in (1, 3, 4, 9):
        assert_same(triangle(), knl, n=n)
        assert_same(triangle(), mapped, n=n)


@pytest.mark.deep
def test_what_lies_outside_of_the_array_is_not_fetched() -> None:
    """Odd elements only, of an array that ends with the last one."""
    plain = lk.make_kernel("{[i]: 0<=i<n}", "y[2*i + 1] = y[2*i + 1] + 1", [lk.GlobalArg("y", F32, ("2*n",)), "..."])
    knl = lk.buffer_array(lk.split_iname(plain, "i", 4), "y", "i_inner", default_tag=None, fetch_bounding_box=True)
    last = knl.statement("init_y").inames[-1]
    assert knl.statement("init_y").domain.constant_range(last) == (0, 6)
    assert lk.check_bounds(knl).verdict is lk.Verdict.PROVEN
    for n in (1, 4, 6):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_boxes_of_blocks_that_overlap() -> None:
    """Where only boxes overlap, blocks may work on their own elements, but not load what others write meanwhile."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<2}", "y[4*i + 5*j] = y[4*i + 5*j] + x[i]", arrays("x", "y"))
    exact = lk.tag_inames(lk.buffer_array(knl, "y", "j", default_tag=None), "i:g.0")
    boxed = step(knl, lk.buffer_array, "y", "j", default_tag=None, fetch_bounding_box=True)
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.tag_inames(boxed, "i:g.0")
    assert str(err.value.witness) == \
        "with n = 2: store_y[i=0, y_store_0=5] writes y[5], which init_y[i=1, y_init_0=1] reads"
    # of blocks that are there already, all load before any stores: two launches
    apart = lk.buffer_array(lk.tag_inames(knl, "i:g.0"), "y", "j", fetch_bounding_box=True,
                            allow_launches=True)
    assert str(lk.lower(apart, stop="schedule")).count("launch") == 2
    for n in (1, 4, 9):
        for other in (exact, boxed, apart):
            assert_same(knl, other, n=n)


def test_another_statement_that_writes_into_the_box() -> None:
    """Nothing of the filling touches the odd elements, which another statement writes."""
    plain = lk.make_kernel("{[t, i, j]: 0<=t<3 and 0<=i, j<4}", """
        for t
            for i
                y[2*i] = y[2*i] + x[i] {id=even}
            end
            for j
                y[2*j + 1] = 7 {id=odd}
            end
        end
        """, arrays("x", "y"))
    knl = lk.buffer_array(plain, "y", "i", within="even", default_tag=None, fetch_bounding_box=True)
    assert_same(plain, knl)
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.apply_schedule(knl, {"odd": "[0, t, j]", "init_y": "[1, y_init_0]", "even": "[2, t, i]",
                            "store_y": "[3, y_store_0]"})
    assert {err.value.witness.source[0], err.value.witness.sink[0]} == {"init_y", "odd"}


@pytest.mark.parametrize(("call", "subject"), [
    (lambda: lk.buffer_array(tiled_triangle(), "y", "i_inner", fetch_bounding_box="yes"), "fetch_bounding_box"),
    (lambda: lk.buffer_array(lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = y[i] + 1\nz[i] = y[p[i]]",
                                                           [lk.GlobalArg("p", np.int32), *arrays("y", "z")]), "i", 4),
                             "y", "i_inner", within="writes:y", fetch_bounding_box=True), "y"),
])
def test_boxes_that_cannot_be(call: object, subject: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        call()                                                     # type: ignore[operator]
    assert err.value.subject == subject


# Other values to begin with and to end with

@pytest.mark.deep
def test_an_increment_is_added_at_the_end() -> None:
    plain, reason = accumulation(), "a sum may be added up apart"
    knl = step(tiled_accumulation(), lk.buffer_array, "c", "i_inner, j_inner", "0", "base + buffer", assume=reason)
    assert "c_buf[c_init_0, c_init_1] = 0" in knl.statements_text
    assert "+ c_buf[c_store_0, c_store_1]" in knl.statements_text
    assert [o.reason for o in knl.obligations] == [reason]
    assert knl.history[-1].verdict == "assumed"
    assert_same(plain, knl, n=5, m=11, l=3)
    assert_same(plain, lk.tag_inames(knl, "i_outer:g.0, i_inner:l.0"), n=5, m=11, l=3)


def test_the_storing_that_reads_is_bound_to_others() -> None:
    """Each tile adds to what the one before it stored."""
    plain = lk.make_kernel("{[t, i]: 0<=t<3 and 0<=i<8}", "for t, i\ny[i] = y[i] + x[t, i]\nend", arrays("x", "y"))
    knl = lk.buffer_array(plain, "y", "i", "0", "base + buffer", within="insn", default_tag=None, unsafe=True)
    assert knl.history[-1].verdict == "unsafe"
    assert_same(plain, knl)
    knl = lk.buffer_array(lk.split_iname(plain, "t", 2), "y", "i, t_inner", "0", "buffer + base", default_tag=None,
                          assume="a sum")
    assert_same(plain, knl)


def test_nobody_answers_for_other_values() -> None:
    with pytest.raises(lk.UndecidedError, match="same values"):
        lk.buffer_array(tiled_accumulation(), "c", "i_inner, j_inner", "0", "base + buffer")
    with pytest.raises(lk.PreconditionError, match="but not 'a'"):
        lk.buffer_array(tiled_accumulation(), "c", "i_inner, j_inner", "a + base", assume="it is")
    with pytest.raises(lk.ParseError):
        lk.buffer_array(tiled_accumulation(), "c", "i_inner, j_inner", "0 +", assume="it is")


# What it refuses

def between(second: str) -> lk.LoopKernel:
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", f"""
        for i
            for j
                y[i, j] = y[i, j] + x[i, j] {{id=first}}
            end
            for j
                {second}
            end
            for j
                y[i, j] = y[i, j]*2 {{id=last}}
            end
        end
        """, arrays("x", "y", "z"))


@pytest.mark.deep
@pytest.mark.parametrize("second", ["z[i, j] = y[i, j] {id=other}", "y[i, j] = z[i, j] {id=other}",
                                    "y[i, 3-j] = z[i, j] {id=other}"])
def test_another_statement_between_is_refused(second: str) -> None:
    knl = between(second)
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.buffer_array(knl, "y", "j", within="first,last", default_tag=None)
    assert "other" in str(err.value.witness)
    assert err.value.witness.array == "y"
    forced = lk.buffer_array(knl, "y", "j", within="first,last", default_tag=None, unsafe=True)
    assert forced.history[-1].verdict == "unsafe"
    assert_same(knl, lk.buffer_array(knl, "y", "j", default_tag=None), n=3)


def test_another_element_between_is_no_matter() -> None:
    knl = between("z[i, j] = y[i+1, j] {id=other}")
    assert_same(knl, lk.buffer_array(knl, "y", "j", within="first,last", default_tag=None), n=3)


def test_an_unknown_element_between_is_undecided() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", """
        for i
            y[i] = y[i] + x[i] {id=first}
            z[i] = y[p[i]] {id=other}
            y[i] = y[i]*2 {id=last}
        end
        """, [lk.GlobalArg("p", np.int32), lk.GlobalArg("y", F32, ("n",)), *arrays("x", "z")])
    with pytest.raises(lk.UndecidedError):
        lk.buffer_array(knl, "y", "", within="first,last")
    taken = lk.buffer_array(knl, "y", "", within="first,last", assume="p[i] is beyond i")
    assert taken.history[-1].verdict == "assumed"


@pytest.mark.parametrize(("call", "error", "fields"), [
    (lambda: lk.buffer_array(twice(), "q", "i"), lk.UnknownNameError, {"kind": "array", "name": "q"}),
    (lambda: lk.buffer_array(twice(), "y", "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.buffer_array(twice(), "x", "i"), lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.buffer_array(twice(), "y", "i"), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", within="q"), lk.UnknownNameError,
     {"kind": "statement", "name": "q"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", temporary_name="x"), lk.NameConflictError, {"subject": "x"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", init_insn_id="insn"), lk.NameConflictError, {"subject": "insn"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", init_insn_id="io", store_insn_id="io"), lk.NameConflictError,
     {"subject": "io"}),
    (lambda: lk.buffer_array(lk.make_kernel("{[i]: 0<=i<8}", "for i\n y[i] = x[i]\n y[i] = z[i]\nend"), "y", "i"),
     lk.PreconditionError, {"subject": "y"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", temporary_address_space="near"), lk.PreconditionError,
     {"subject": "near"}),
    (lambda: lk.buffer_array(sweep(), "y", "i_inner", default_tag="auto"), lk.PreconditionError, {"subject": "auto"}),
    (lambda: lk.buffer_array(lk.make_kernel("{[i]: 0<=i<8}", "y[p[i]] = x[i]"), "y", "i"), lk.PreconditionError,
     {"subject": "y"}),
    (lambda: lk.buffer_array(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "y[i*j] = y[i*j] + 1"), "y", "j"),
     lk.PreconditionError, {"subject": "y"}),
    (lambda: lk.buffer_array(lk.make_kernel("{[i, j]: 0<=i,j<8}", "y[i] = x[i]\ny[j] = x[j]"), "y", ""),
     lk.ScheduleError, {"subject": "y"}),
])
def test_refused(call: object, error: type[lk.LoopkitError], fields: dict[str, object]) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields


def test_a_condition_on_a_size_is_decided_once_a_call_says_that_it_is_an_integer() -> None:
    """As it is by ``add_dtypes``: what is stored is what was loaded, or written."""
    knl = lk.buffer_array(lk.make_kernel("{[i]: 0<=i<4}", "b[i] = x[i] {if=i*n > 3}"), "b", ["i"])
    x, b = np.arange(4.) + 1, np.zeros(4)
    lk.compile(knl)(x=x, b=b, n=2)
    assert np.array_equal(b, [0, 0, 3, 4])


def test_no_memory_is_blamed_for_a_product() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4}", "for i\n b[i*i] = x[i*i] {id=p, if=i*n > 3}\n b[4] = x[i*i] {id=q}\nend",
                         [lk.GlobalArg("x,b", np.float32, shape=10), "..."])
    with pytest.raises(lk.UndecidedError, match="is read from memory or is not affine"):
        lk.buffer_array(knl, "b", "i", within="id:p")


def test_an_initial_value_that_nothing_reads_needs_no_claim() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<4}", "y[i] = sum(j, a[i, j])", arrays("a", "y"))
    tiled = lk.split_iname(knl, "i", 4)
    buffered = lk.buffer_array(tiled, "y", "i_inner", "0", default_tag=None)
    assert buffered.statement_by_id.keys() >= {"store_y"}
    assert "init_y" not in buffered.statement_by_id
    assert_same(knl, buffered)
    added = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<4}", "y[i] = y[i] + sum(j, a[i, j])", arrays("a", "y"))
    with pytest.raises(lk.UndecidedError):
        lk.buffer_array(lk.split_iname(added, "i", 4), "y", "i_inner", "0", default_tag=None)
