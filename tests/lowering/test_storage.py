"""Storage allocation: the address space, and the expansion if one cell is not enough."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.lowering.kernels import F32, across_blocks, exchange, make, outside_axes, own_element
from tests.lowering.shown import storages
from tests.transform.same import assert_same

# Address spaces


def test_what_only_its_own_thread_reads_is_private() -> None:
    plain = make("{[i]: 0<=i<n}", "<> t = 2*x[i]\ny[i] = t", x=F32)
    for knl in (plain, lk.split_iname(plain, "i", 8, outer_tag="g.0", inner_tag="l.0")):
        assert storages(knl) == {"t": "private float32 t"}


def test_what_other_threads_of_the_block_read_is_shared() -> None:
    assert storages(lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")) == {"t": "shared float32 t[64]"}


def test_what_other_blocks_read_is_global() -> None:
    knl = lk.split_iname(across_blocks(), "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    assert storages(knl) == {"t": "global float32 t[n]"}


@pytest.mark.deep
def test_what_lives_across_launches_is_global() -> None:
    plain = make("{[i,j]: 0<=i,j<8}", """
        for i
            <> t[i] = 2*x[i] {id=a}
            s[i] = x[i] {id=b}
        end
        for j
            y[j] = t[j] + s[7-j] {id=c}
        end
        """, [lk.TemporaryVariable("s", F32), "..."], x=F32)
    knl = lk.tag_inames(plain, "i:g.0, j:g.0")
    assert storages(knl) == {"t": "global float32 t[8]", "s": "global float32 s[8]"}
    assert_same(plain, knl)


def test_across_launches_a_cell_has_one_value_for_all_its_readers() -> None:
    """One value a cell needs no order of its writers; of two, a reader must not find the other."""
    def lowered(writes: str, reads: str) -> dict[str, str]:
        knl = make("{[i,j]: 0<=i,j<64}", f"""
            for i
                <> t[{writes}] = 2*x[i]
            end
            for j
                y[j] = t[{reads}]
            end
            """, x=F32)
        return storages(lk.tag_inames(knl, "i:g.0, j:g.0"))
    assert lowered("63 - i", "j") == {"t": "global float32 t[64]"}
    assert lowered("2*i", "2*(j//2)") == {"t": "global float32 t[127]"}
    with pytest.raises(lk.StorageError, match="cannot hold all values"):
        lowered("i//2", "j//2")


def test_without_threads_everything_of_a_block_is_private() -> None:
    assert storages(exchange()) == {"t": "private float32 t[64]"}
    assert storages(lk.tag_inames(exchange(), "b:g.0")) == {"t": "private float32 t[64]"}


@pytest.mark.deep
def test_a_value_computed_outside_the_threads_is_computed_by_each() -> None:
    knl = lk.split_iname(lk.tag_inames(outside_axes(), "i:g.0"), "j", 8, inner_tag="l.0")
    assert storages(knl) == {"s": "private float32 s"}
    assert_same(outside_axes(), knl, n=3, m=19)


# Expansion

def distributed() -> lk.LoopKernel:
    """Two loops between which 8 values are alive."""
    return make("{[i,j]: 0<=i<n and 0<=j<8}", """
        for i
            for j
                <> t = 2*x[i,j] {id=write}
                y[i,j] = t {id=read}
            end
        end
        """, x=F32)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("tag", ["ilp", "ilp.seq"])
def test_ilp_gives_each_instance_its_cell(tag: str) -> None:
    knl = lk.tag_inames(distributed(), {"i": "g.0", "j": tag})
    assert storages(knl) == {"t": "private float32 t[8] expanded over j"}
    assert_same(distributed(), knl, n=5)


def test_unrolling_needs_no_expansion() -> None:
    knl = lk.tag_inames(distributed(), "i:g.0, j:unr")
    assert storages(knl) == {"t": "private float32 t"}
    assert_same(distributed(), knl, n=5)


def test_a_loop_moved_between_writer_and_reader_separates_them() -> None:
    plain = make("{[i,j]: 0<=i<6 and 0<=j<m}", """
        for i
            <> t = c[i] {id=write}
            for j
                y[i,j] = t*x[i,j] {id=read}
            end
        end
        """, c=F32, x=F32)
    knl = lk.prioritize_loops(plain, "j, i")
    assert storages(knl) == {"t": "private float32 t[6] expanded over i"}
    assert_same(plain, knl, m=4)


def test_a_parametric_number_of_values_goes_to_global_memory() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", """
        for i
            <> t = c[i] {id=write}
            for j
                y[i,j] = t*x[i,j] {id=read}
            end
        end
        """, c=F32, x=F32)
    knl = lk.prioritize_loops(plain, "j, i")
    assert storages(knl) == {"t": "global float32 t[n] expanded over i"}
    assert_same(plain, knl, n=5, m=4)


def test_an_iname_that_does_not_start_at_zero() -> None:
    plain = make("{[i,j]: 3<=i<9 and 0<=j<m}", """
        for i
            <> t = c[i] {id=write}
            for j
                y[i,j] = t*x[i,j] {id=read}
            end
        end
        """, c=F32, x=F32)
    knl = lk.prioritize_loops(plain, "j, i")
    assert storages(knl) == {"t": "private float32 t[6] expanded over i"}
    assert_same(plain, knl, m=4)


def test_subscripts_that_separate_values_need_no_expansion() -> None:
    plain = make("{[i]: 0<=i<8}", "for i\n <> t[i] = x[i] {id=a}\nend\nfor i\n y[i] = t[i] {id=b}\nend", x=F32)
    assert storages(plain) == {"t": "private float32 t[8]"}
    assert_same(plain, lk.tag_inames(plain, "i:l.0"))


@pytest.mark.deep
@pytest.mark.parametrize("subscript", ["i", "i + 3", "2*i + 1"])
def test_an_axis_that_all_subscript_alike_needs_no_cells(subscript: str) -> None:
    """In one loop, and in one thread, the value of an iteration is a register; from loop to loop the axis stays."""
    def stored(rest: str) -> tuple[str, str]:
        knl = make("{[i,j]: 0<=i<n and 0<=j<4}", f"""
            for i
                <> t[{subscript}] = 2*x[i]
                {rest}
                y[i] = t[{subscript}]
            end
            """, x=F32)
        assert_same(knl, lk.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0"), n=5)
        mapped = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
        return storages(knl)["t"].partition("[")[0], storages(mapped)["t"].partition("[")[0]
    register = "private float32 t"
    assert stored("") == (register, register)
    assert stored("end\nfor i") == ("global float32 t", register)
    assert stored("for j\n z[i,j] = t[" + subscript + "]\nend") == (register, register)


@pytest.mark.deep
def test_an_axis_of_its_own_is_not_led_by_its_iname_again() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", """
        for i
            for j
                <> t[j] = x[i,j]
            end
            y[i] = sum(j, t[j])
        end
        """, x=F32)
    knl = lk.split_iname(plain, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert storages(knl)["t"] == "global float32 t[(n + 15) // 16][16][m] expanded over i_outer, i_inner"
    assert_same(plain, knl, n=5, m=3)


@pytest.mark.deep
@pytest.mark.parametrize("subscript", ["i + p", "i*(m // 2) + p"])
def test_iterations_of_one_block_are_no_iterations_of_another(subscript: str) -> None:
    """In one iteration no two blocks share a cell; in different ones they do, and no block waits for another."""
    plain = make("{[i,p]: 0<=i<3 and 0<=p<m}", f"""
        for i, p
            <> t[{subscript}] = x[i,p]
            y[i,p] = 2*t[{subscript}]
        end
        """, [lk.TemporaryVariable("t", shape="3*m"), "..."], x=F32)
    knl = lk.tag_inames(plain, "p:g.0")
    assert "expanded over p" in storages(knl)["t"]
    assert lk.verify(knl).proven
    assert_same(plain, knl, m=2)


@pytest.mark.deep
def test_two_readers_of_one_array_one_of_them_across() -> None:
    plain = make("{[b,i]: 0<=b<n and 0<=i<16}", """
        for b
            for i
                <> t[i] = x[b,i] {id=w}
            end
            for i
                u[b,i] = t[15-i] {id=v}
            end
            for i
                y[b,i] = t[i] {id=r}
            end
        end
        """, x=F32)
    assert storages(plain) == {"t": "private float32 t[16]"}
    knl = lk.tag_inames(plain, "b:g.0, i:l.0")
    assert storages(knl) == {"t": "shared float32 t[16]"}
    assert_same(plain, knl, n=3)


def test_a_carried_value_stays_in_one_cell() -> None:
    plain = make("{[i]: 0<=i<n}", "<float32> s = 0 {id=z}\nfor i\n s = s + x[i] {id=a}\n y[i] = s {id=b}\nend", x=F32)
    assert storages(plain) == {"s": "private float32 s"}
    assert_same(plain, lk.split_iname(plain, "i", 4), n=10)


# What was declared

@pytest.mark.deep
def test_a_larger_space_than_needed_is_kept() -> None:
    plain = own_element()
    for space, shown in (("shared", "shared float32 t[64]"), ("global", "global float32 t[n][64] expanded over b")):
        knl = lk.set_temporary_address_space(lk.tag_inames(plain, "b:g.0, i:l.0, j:l.0"), "t", space)
        assert storages(knl) == {"t": shown}
        assert_same(plain, knl, n=3)


@pytest.mark.parametrize(("tags", "space", "needed"), [
    ("b:g.0, i:l.0, j:l.0", "private", "shared"),
    ("i:l.0, j:l.0", "private", "shared"),
])
def test_a_smaller_one_is_refused(tags: str, space: str, needed: str) -> None:
    knl = lk.set_temporary_address_space(lk.tag_inames(exchange(), tags), "t", space)
    with pytest.raises(lk.StorageError, match="another thread") as caught:
        lk.lower(knl)
    assert caught.value.subject == "t"
    assert caught.value.hint == f"set_temporary_address_space(knl, 't', '{needed}')"


@pytest.mark.parametrize(("array", "shared"), [("x", "x_fetch[32][16] expanded over i_inner"), ("w", "w_fetch[16]")])
def test_a_box_in_registers_is_one_for_each_thread(array: str, shared: str) -> None:
    """By default it is shared; in registers, the thread that reads it also wrote it, whichever rows others read."""
    plain = make("{[i,k]: 0<=i<n and 0<=k<16}", "y[i] = sum(k, x[i,k]*w[k])", x=F32, w=F32)
    knl = lk.split_iname(plain, "i", 32, outer_tag="g.0", inner_tag="l.0")
    copied = lk.add_prefetch(knl, array, "k")
    assert storages(copied)[f"{array}_fetch"] == f"shared float32 {shared}"
    private = lk.add_prefetch(knl, array, "k", temporary_address_space="private")
    assert storages(private)[f"{array}_fetch"] == f"private float32 {array}_fetch[16]"
    assert lk.verify(private, full=True).ok
    assert_same(plain, private, n=70)
    if array == "w":                            # the threads share the copy of what all of them read
        with pytest.raises(lk.StorageError, match="another thread"):
            lk.lower(lk.set_temporary_address_space(copied, "w_fetch", "private"))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("n", ["n", "1024"])
def test_a_copy_inside_a_loop_that_all_of_it_is_made_in_has_no_cells_for_that_loop(n: str) -> None:
    """Threads share it for each tile of ``j`` again, whichever of the two copies was asked for first."""
    plain = make(f"{{[i,j,e]: 0<=i,j<{n} and 0<=e<16}}", """
        for i
            <> a = 0
            for j
                a = a + sum(e, q[i,e]*k[j,e])
            end
            o[i] = a
        end
        """, q=F32, k=F32)
    knl = lk.split_iname(lk.split_iname(plain, "j", 16), "i", 32, outer_tag="g.0", inner_tag="l.0")
    for first, second in (("k", "q"), ("q", "k")):
        copied = knl
        for x in (first, second):
            copied = lk.add_prefetch(copied, x, ["j_inner", "e"] if x == "k" else "e")
        assert storages(copied)["q_fetch"] == "shared float32 q_fetch[32][16] expanded over i_inner"


@pytest.mark.parametrize("space", ["private", "local"])
def test_across_blocks_only_global_memory_holds(space: str) -> None:
    knl = lk.set_temporary_address_space(lk.tag_inames(across_blocks(), "i:g.0, j:g.0"), "t", space)
    with pytest.raises(lk.StorageError, match="another block or launch") as caught:
        lk.lower(knl)
    assert caught.value.hint == "set_temporary_address_space(knl, 't', 'global')"


def test_a_declared_space_without_room_for_a_parametric_number_is_refused() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", "for i\n <> t = c[i]\n for j\n y[i,j] = t*x[i,j]\n end\nend",
                 c=F32, x=F32)
    knl = lk.set_temporary_address_space(lk.prioritize_loops(plain, "j, i"), "t", "private")
    with pytest.raises(lk.StorageError, match="depends on the sizes") as caught:
        lk.lower(knl)
    assert caught.value.subject == "t"


def test_the_hint_was_tried() -> None:
    """Privatizing needs a constant range; what helps is a cell for each iteration, in global memory."""
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", "for i\n <> t = c[i]\n for j\n y[i,j] = t*x[i,j]\n end\nend",
                 c=F32, x=F32)
    knl = lk.set_temporary_address_space(lk.prioritize_loops(plain, "j, i"), "t", "private")
    with pytest.raises(lk.StorageError) as caught:
        lk.lower(knl)
    assert caught.value.hint is not None
    helped = eval(f"lk.{caught.value.hint}", {"lk": lk, "knl": knl})  # the call stands there as a user would write it
    assert_same(plain, helped, n=5, m=4)


def test_where_nothing_helps_no_step_is_named() -> None:
    knl = make("{[i]: 0<=i<8}", "t = 0\nfor i\n t = t + x[i]\n y[i] = t\nend",
               [lk.TemporaryVariable("t", F32, ()), "..."], x=F32)
    with pytest.raises(lk.StorageError) as caught:
        lk.lower(lk.tag_inames(knl, "i:ilp"))
    assert caught.value.hint == "keep the writer and the reader of each value in one loop"


def test_a_declared_shape_is_kept() -> None:
    plain = make("{[i]: 0<=i<8}", "t[i] = x[i]\ny[i] = t[i]", [lk.TemporaryVariable("t", F32, (12,)), "..."], x=F32)
    assert storages(plain) == {"t": "private float32 t[12]"}


@pytest.mark.deep
def test_an_expanded_one_with_subscripts_that_are_affine_for_each_value_only() -> None:
    plain = make("{[b,i,j,k,m]: 0<=b<n and 0<=i,j,k,m<3}", """
        for b
            for i, j
                <> t[5*i*i + j] = x[b,i,j]
            end
            for k, m
                y[b,k,m] = t[5*(2-k)*(2-k) + 2 - m]
            end
        end
        """, x=F32)
    knl = lk.tag_inames(lk.split_iname(plain, "b", 8, outer_tag="g.0", inner_tag="l.1"), "j:l.0, m:l.0")
    assert storages(knl) == {"t": "shared float32 t[8][23] expanded over b_inner"}
    assert lk.verify(knl, full=True).proven
    assert_same(plain, knl, n=17)


def test_the_subscript_without_a_bound_is_named() -> None:
    knl = lk.make_kernel(["{[q]: 0<=q<2}", "[q] -> {[i]: 0<=i<len}"], """
        for q
          <> len = lengths[q]
          <> v[0] = 0 {id=first}
          for i
            v[i] = 1 {id=all}
          end
          y[q] = v[0]
        end""", [lk.GlobalArg("lengths, y", np.int32), "..."])
    with pytest.raises(lk.ShapeError, match="its subscript 'i' in 'all' has no bound"):
        lk.lower(knl)


def test_registers_of_a_warp_are_read_by_an_instruction() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i, j<32}", "<> t[i] = x[i] {id=copy}\ny[j] = t[31 - j] {id=use}")
    knl = lk.set_temporary_address_space(lk.add_dtypes(knl, {"x": F32}), "t", "warp")
    assert storages(knl) == {"t": "warp float32 t[32]"}, "all of it in one thread"
    with pytest.raises(lk.StorageError, match="'t' is in the registers of warps, and 'use' reads it without an instr"):
        lk.generate_code(lk.tag_inames(knl, "i: l.0, j: l.0"))
    with pytest.raises(lk.StorageError, match="auto of 'i' distributes it over all threads"):
        lk.generate_code(lk.tag_inames(knl, "i: l.auto, j: l.0"))
