"""Barriers: their places, their number, and the dependences that each serves."""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, Define, For, If, Node, Region, Sync
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import variables
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from tests.cases import CASES, Case
from tests.language.outline import text
from tests.lowering.kernels import F32, across_blocks, chain, exchange, make, own_element, rows, time_loop
from tests.lowering.shown import lowered, nodes, placed, reasons
from tests.transform.same import assert_same
from tests.verification.changed import report, without_one_barrier


def test_an_exchange_between_threads_takes_one() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    assert placed(knl) == [text("""
        write
        barrier
        read
        """)]
    assert reasons(knl) == [("t: write writes, read reads",)]
    assert_same(exchange(), knl, n=3)


def test_in_a_sequential_loop_the_next_iteration_must_not_overwrite_too_soon() -> None:
    knl = lk.tag_inames(exchange(), "i:l.0, j:l.0")
    assert placed(knl) == [text("""
        for b
          write
          barrier
          read
          barrier
        """)]
    assert reasons(knl) == [("t: write writes, read reads",), ("t: read reads, write overwrites",)]
    assert_same(exchange(), knl, n=3)


def test_own_elements_take_none() -> None:
    knl = lk.tag_inames(own_element(), "b:g.0, i:l.0, j:l.0")
    assert reasons(knl) == []
    assert_same(own_element(), knl, n=3)


def test_unmapped_kernels_take_none() -> None:
    assert reasons(exchange()) == []


@pytest.mark.deep
def test_a_chain_takes_one_between_two_stages() -> None:
    knl = lk.tag_inames(chain(), "b:g.0, i:l.0, j:l.0, k:l.0")
    assert placed(knl) == [text("""
        first
        barrier
        second
        barrier
        third
        """)]
    assert reasons(knl) == [("t: first writes, second reads",), ("u: second writes, third reads",)]
    assert_same(chain(), knl, n=2)


def two_values(subscript: str) -> lk.LoopKernel:
    """A reader of two temporaries, of ``u`` at *subscript*."""
    return make("{[i,j]: 0<=i,j<64}", f"""
        for i
            <> t[i] = x[i] {{id=a}}
            <> u[i] = 2*x[i] {{id=b}}
        end
        for j
            y[j] = t[63-j] + u[{subscript}] {{id=c}}
        end
        """, x=F32)


@pytest.mark.deep
def test_two_values_share_a_barrier() -> None:
    plain = two_values("63-j")
    knl = lk.tag_inames(plain, "i:l.0, j:l.0")
    assert reasons(knl) == [("t: a writes, c reads", "u: b writes, c reads")]
    assert_same(plain, knl)


def test_arguments_take_barriers_like_shared_memory() -> None:
    plain = lk.fix_parameters(time_loop(), n=66)
    knl = lk.tag_inames(plain, "i:l.0, j:l.0")
    assert placed(knl) == [text("""
        for t
          compute
          barrier
          copy
          barrier
        """)]
    assert_same(plain, knl, T=5)


@pytest.mark.deep
def test_a_dependence_across_blocks_ends_the_launch() -> None:
    knl = lk.split_iname(across_blocks(), "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    assert placed(knl) == ["write", "read"]
    assert [launch.name for launch in lowered(knl).launches] == ["kernel_0", "kernel_1"]
    assert_same(across_blocks(), knl, n=21)


def test_one_block_of_the_same_needs_no_second_launch() -> None:
    plain = lk.fix_parameters(across_blocks(), n=56)
    knl = lk.tag_inames(plain, "i:l.0, j:l.0")
    assert placed(knl) == [text("""
        write
        barrier
        read
        """)]
    assert_same(plain, knl)


@pytest.mark.deep
def test_three_stages_across_blocks_are_three_launches() -> None:
    plain = make("{[i,j,k]: 0<=i,j,k<n}", """
        for i
            s[i] = x[i] {id=a}
        end
        for j
            t[j] = s[n-1-j] {id=b}
        end
        for k
            y[k] = t[n-1-k] + s[k] {id=c}
        end
        """, [lk.TemporaryVariable("s", F32), lk.TemporaryVariable("t", F32), "..."], x=F32)
    knl = lk.tag_inames(plain, "i:g.0, j:g.0, k:g.0")
    assert placed(knl) == ["a", "b", "c"]
    assert_same(plain, knl, n=9)


@pytest.mark.deep
def test_independent_stages_share_a_launch() -> None:
    plain = make("{[i,j]: 0<=i,j<n}", "for i\n y[i] = 2*x[i] {id=a}\nend\nfor j\n z[j] = 3*x[n-1-j] {id=b}\nend", x=F32)
    knl = lk.tag_inames(plain, "i:g.0, j:g.0")
    assert placed(knl) == ["a\nb"]
    assert_same(plain, knl, n=5)


@pytest.mark.deep
def test_a_reduction_by_warps_takes_one() -> None:
    """Between the warps' results and those who read them; the lanes of a warp need none."""
    plain = lk.fix_parameters(rows(), m=128)
    knl = lk.tag_inames(plain, "i:g.0, k:l.0")
    assert placed(knl) == [text("""
        insn.k.init
        insn.k.update
        insn.k.store
        insn.k.step0
        insn.k.step1
        insn.k.step2
        insn.k.step3
        insn.k.step4
        insn.k.put
        barrier
        insn.k.first
        for warp
          insn.k.rest
        insn
        """)]
    assert_same(plain, knl, n=3)


@pytest.mark.deep
def test_reductions_by_warps_in_a_loop_wait_for_those_who_read_the_last_one() -> None:
    plain = lk.fix_parameters(rows(), m=128)
    knl = lk.tag_inames(plain, "k:l.0")
    assert reasons(knl) == [
        ("acc_k_shared: insn.k.put writes, insn.k.first reads", "acc_k_shared: insn.k.put writes, insn.k.rest reads"),
        ("acc_k_shared: insn.k.first reads, insn.k.put overwrites",
         "acc_k_shared: insn.k.rest reads, insn.k.put overwrites")]
    assert_same(plain, knl, n=3)


@pytest.mark.deep
def test_a_tree_reduction_takes_one_a_step_where_threads_meet() -> None:
    """Some threads of the block have no part in it."""
    plain = lk.fix_parameters(make("{[i,k,j]: 0<=i<n and 0<=k<m and 0<=j<160}", """
        for i
            y[i] = sum(k, a[i,k])
            z[i,j] = 2*a[i,j] {id=other}
        end
        """, a=F32), m=128)
    knl = lk.tag_inames(plain, "i:g.0, k:l.0, j:l.0")
    assert placed(knl) == [text("""
        insn.k.init
        insn.k.update
        insn.k.store
        barrier
        insn.k.step0
        barrier
        insn.k.step1
        warp barrier
        insn.k.step2
        warp barrier
        insn.k.step3
        warp barrier
        insn.k.step4
        warp barrier
        insn.k.step5
        warp barrier
        insn.k.step6
        insn
        other
        """)]                                    # the last step and the statement are both thread 0's
    assert_same(plain, knl, n=3)


# Warps

@pytest.mark.deep
def test_what_stays_in_a_warp_takes_a_barrier_of_the_warp() -> None:
    for threads, title in ((32, "warp barrier"), (64, "barrier")):
        plain = turned(threads)
        knl = lk.tag_inames(plain, "b:g.0, i:l.0, j:l.0")
        assert placed(knl) == [f"write\n{title}\nread"]
        assert_same(plain, knl, n=2)


def turned(length: int) -> lk.LoopKernel:
    return make(f"{{[b,i,j]: 0<=b<n and 0<=i,j<{length}}}", f"""
        for b
            for i
                <> t[i] = 2*x[b,i] {{id=write}}
            end
            for j
                y[b,j] = t[{length - 1}-j] {{id=read}}
            end
        end
        """, x=F32)


@pytest.mark.deep
@pytest.mark.parametrize(("subscript", "title"), [
    ("32*(j // 32) + 31 - j % 32", "warp barrier"), ("16*(j // 16) + (j + 1) % 16", "warp barrier"),
    ("(j + 32) % 128", "barrier"), ("48*(j // 48) + 1", "barrier"), ("64*(j // 64) + (j + 1) % 64", "barrier")])
def test_warps_of_a_long_block(subscript: str, title: str) -> None:
    plain = make("{[b,i,j]: 0<=b<n and 0<=i<128 and 0<=j<96}", f"""
        for b
            for i
                <> t[i] = 2*x[b,i] {{id=write}}
            end
            for j
                y[b,j] = t[{subscript}] {{id=read}}
            end
        end
        """, x=F32)
    knl = lk.tag_inames(plain, "b:g.0, i:l.0, j:l.0")
    assert placed(knl) == [f"write\n{title}\nread"]
    assert_same(plain, knl, n=2)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("tags", "title"), [
    ("p:l.0, i:l.1, j:l.1", "barrier"), ("p:l.1, i:l.0, j:l.0", "warp barrier")])
def test_rows_of_a_block_lie_along_the_first_axis(tags: str, title: str) -> None:
    """Threads are numbered with l.0 fastest: rows of 32 along l.0 are warps, along l.1 they are not."""
    plain = make("{[p,i,j]: 0<=p<4 and 0<=i,j<32}", """
        for p
            for i
                <> t[p,i] = 2*x[p,i] {id=write}
            end
            for j
                y[p,j] = t[p,31-j] {id=read}
            end
        end
        """, x=F32)
    assert placed(lk.tag_inames(plain, tags)) == [f"write\n{title}\nread"]
    assert_same(plain, lk.tag_inames(plain, tags))


@pytest.mark.parametrize(("length", "tags", "title"), [
    (32, "p:l.1, i:l.0, j:l.0", "warp barrier"), (16, "p:l.1, i:l.0, j:l.0", "warp barrier"),
    (24, "p:l.1, i:l.0, j:l.0", "barrier"), (64, "p:l.1, i:l.0, j:l.0", "barrier"),
    (32, "p:l.0, i:l.1, j:l.1", "barrier")])
def test_all_threads_of_a_row_may_be_one_warp(length: int, tags: str, title: str) -> None:
    """The sum has no iname along the row, so each of its threads computes it."""
    plain = make(f"{{[p,i,j,s]: 0<=p<6 and 0<=i,j,s<{length}}}", """
        for p
            for i
                <> t[i] = x[p,i] {id=write}
            end
            <> r = sum(s, t[s])  {id=total}
            for j
                y[p,j] = r + x[p,j] {id=use}
            end
        end
        """, x=F32)
    knl = lk.tag_inames(plain, tags)
    assert placed(knl)[0].split("\n").count(title) == 1
    assert_same(plain, knl)


def test_one_barrier_of_the_block_serves_a_warp_too() -> None:
    knl = lk.tag_inames(two_values("32*(j//32) + 31 - j % 32"), "i:l.0, j:l.0")
    assert placed(knl) == ["a\nb\nbarrier\nc"]
    assert reasons(knl) == [("t: a writes, c reads", "u: b writes, c reads")]


def test_a_copy_by_all_threads_may_come_from_any_warp() -> None:
    plain = make("{[b,i]: 0<=b<n and 0<=i<64}", "y[b,i] = x[64*b + 63 - i]", x=F32)
    knl = lk.add_prefetch(lk.tag_inames(plain, "b:g.0, i:l.0"), "x", ["i"])
    assert placed(knl) == ["x_fetch_rule\nbarrier\ninsn"]


def test_the_text_says_which() -> None:
    knl = lk.tag_inames(turned(32), "b:g.0, i:l.0, j:l.0")
    assert "    // t: write writes, read reads\n    __syncwarp();\n" in str(lk.generate_code(knl, target="cuda"))
    assert "warp barrier\n" in str(lk.lower(knl))
    knl = lk.tag_inames(turned(64), "b:g.0, i:l.0, j:l.0")
    assert "__syncwarp" not in str(lk.generate_code(knl, target="cuda"))


def test_a_barrier_names_each_dependence_once() -> None:
    """What an earlier barrier serves already is not listed again."""
    knl = lk.tag_inames(lk.fix_parameters(rows(), m=48), "i:g.0, k:l.0")
    listed = [reason for serves in reasons(knl) for reason in serves]
    assert len(listed) == len(set(listed))


@pytest.mark.deep
def test_a_thread_dependent_domain_does_not_reach_the_barrier() -> None:
    plain = make("{[b,i,j]: 0<=b<n and 0<=i<16 and 0<=j<16 and i<=b and j<=b}", """
        for b
            for i
                <> t[i] = 2*x[b,i] {id=write}
            end
            for j
                y[b,j] = t[b-j] {id=read}
            end
        end
        """, [lk.TemporaryVariable("t", F32, (16,)), "..."], x=F32)
    knl = lk.tag_inames(lk.assume(plain, "n <= 16"), "i:l.0, j:l.0")
    for n in (1, 2, 16):
        assert_same(lk.assume(plain, "n <= 16"), knl, n=n)
    assert_uniform(knl)


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_barriers_are_met_by_all_threads(case: Case) -> None:
    """No loop or condition around a barrier mentions a thread, and no region holds one."""
    assert_uniform(case.make())


def assert_uniform(knl: lk.LoopKernel) -> None:
    result = lowered(knl)
    for launch, function in zip(result.launches, result.program.functions, strict=True):
        inames = {x for x, tag in launch.kernel.tags.items() if isinstance(tag, LocalTag | AutoLocalTag)}
        _require_uniform(function.body, {*inames, "l.0", "l.1", "l.2"})


def _require_uniform(body: Block, threads: set[str]) -> None:
    """:raises AssertionError: a barrier in *body* is where a name of *threads*, or one defined by them, leads."""
    nodes, known = [*nodes_in(body)], 0
    while known != (known := len(threads)):
        threads |= {node.name for node in nodes if isinstance(node, Define) and threads & _names(node.value)}
    for node in nodes:
        match node:
            case For() if _syncs(node):
                assert not threads & _names(node.start, node.stop)
            case If() if _syncs(node):
                assert not threads & _names(node.condition)
            case Region():
                assert not _syncs(node)
            case _:
                pass


def _syncs(node: Node) -> bool:
    return any(isinstance(inner, Sync) for inner in nodes_in(node))


def _names(*expressions: object) -> set[str]:
    return {name for e in expressions for name in variables(e)}         # type: ignore[arg-type]


def test_every_loop_program_has_as_many_barriers_as_were_placed_in_each_version() -> None:
    knl = lk.set_options(lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0"), full_tiles=False)
    assert sum(isinstance(node, Sync) for node in nodes(knl)) == 1


@pytest.mark.deep
def test_a_barrier_at_the_end_of_an_inner_loop_serves_the_loops_around_it() -> None:
    """Its last iteration meets it too: the next iteration of ``c`` overwrites what this one reads."""
    plain = make("{[i,c,d]: 0<=i<n and 0<=c<m and 0<=d<l}", "r[i] = sum([c,d], v[i,c,d]*w[c,d])", v=F32, w=F32)
    knl = lk.split_iname(plain, "i", 64, inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "d", 64), "w", ["d_inner"], default_tag="l.auto")
    assert "2, each needed" in str(lk.verify(knl, full=True))
    for less in without_one_barrier(knl):
        assert report(knl, less)["barriers"].verdict is lk.Verdict.REFUTED
    assert_same(plain, knl, n=70, m=3, l=130)


def test_what_the_last_iteration_writes_is_read_behind_a_barrier() -> None:
    knl = lk.make_kernel("{[k,i,j]: 0<=k,i,j<n}", """
        for k
            for i
                u[i] = x[i + k]
            end
            for j
                c[k, j] = u[j]
            end
        end
        """, [lk.GlobalArg("x,c", F32), lk.TemporaryVariable("u", F32), "..."])
    knl = lk.split_iname(knl, "i", 2, inner_tag="l.0")
    knl = lk.buffer_array(lk.add_prefetch(knl, "x", ["i_inner"], default_tag="l.auto"), "c", [])
    checked = lk.verify(knl, full=True)
    assert checked.ok
    # the last barrier of the loop over 'i' runs in its last iteration, too
    assert "2, each needed" in str(checked)
    assert "u: insn writes, insn_0 reads" in str(lk.generate_code(knl, target="cuda"))


def test_the_last_barrier_of_a_loop_serves_the_loops_around_it() -> None:
    knl = lk.make_kernel("{[j,i]: 0<=i<m and 0<=j<n}", "y[i,j] = 2*x[i,j]", [lk.GlobalArg("x", F32), "..."])
    knl = lk.split_iname(knl, "j", 4, inner_tag="l.0")
    assert "barriers  proven     2, each needed" in str(lk.verify(lk.buffer_array(
        knl, "y", ["j_inner"], default_tag=None), full=True))


def test_a_barrier_behind_a_loop_is_not_the_one_that_its_last_iteration_goes_without() -> None:
    """The sums are written after the last barrier that is sure to run in the loop."""
    knl = make("{[i,k]: 0<=i<5 and 0<=k<=i}", "for i\n a[i] = sum(k, x[i + k])\nend", a=F32, x=F32)
    knl = lk.buffer_array(lk.split_iname(knl, "k", 128), "a", ["i"])
    knl = lk.split_iname(knl, "k_inner", 64, inner_tag="l.0")
    assert "each needed" in str(lk.verify(knl, full=True))
    for less in without_one_barrier(knl):
        assert report(knl, less)["races"].verdict is lk.Verdict.REFUTED


@pytest.mark.deep
def test_a_barrier_in_a_loop_between_two_statements_serves_them_if_it_is_sure_to_run() -> None:
    """So it does where the loop has an iteration whenever the two statements have instances."""
    def program(assumptions: str) -> lk.LoopKernel:
        plain = make("{[i,j,k,r]: 0<=i<n and 0<=j,k,r<64}", """
            c[j] = x[j] {id=first}
            for i
                s[i] = sum(r, x[r]) {id=sums}
            end
            c[63 - k] = 2.0 {id=last}
            """, x=F32, c=F32)
        return lk.tag_inames(lk.assume(plain, assumptions), "j:l.0, k:l.0, r:l.0")
    sure, unsure = program("n>=1"), program("n>=0")
    assert len(reasons(sure)) + 1 == len(reasons(unsure))
    for knl in (sure, unsure):
        assert "each needed" in str(lk.verify(knl, full=True))
        for less in without_one_barrier(knl):
            assert report(knl, less)["races"].verdict is lk.Verdict.REFUTED


def test_a_box_spread_over_no_axis_is_read_by_the_thread_that_wrote_it() -> None:
    knl = make("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, x[i + k])", x=F32)
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 4), "x", ["k_inner"], default_tag="l.auto")
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert not reasons(knl)
    assert lk.verify(knl, full=True).ok


@pytest.mark.deep
def test_a_barrier_within_the_iterations_between_serves_two_that_a_loop_carries() -> None:
    """Odd ``i`` only: of three unrolled iterations the outer two touch the same cells, and the middle one waits too."""
    plain = make("{[i,j]: 0<=i<9 and i mod 2 = 1 and 0<=j<m}", "c[i,j] = x[i]*z[j]", x=F32, z=F32)
    knl = lk.split_iname(lk.split_iname(plain, "i", 3, inner_tag="unr"), "i_outer", 2, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(knl, "x", "i_outer_inner", default_tag="l.auto", allow_reordering=True)
    assert len(reasons(knl)) == 1
    assert lk.verify(knl, full=True).ok
    for less in without_one_barrier(knl):
        assert report(knl, less)["races"].verdict is lk.Verdict.REFUTED
    assert_same(plain, knl, m=3)


# Dep=

def behind(at: str, dep: str = ",dep=first") -> lk.LoopKernel:
    """Two statements that share nothing but the loop over ``k``; the second one's index along the block is *at*."""
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<64}", f"""
        for k
          t[k, i] = a[k, i]  {{id=first}}
          d[k, {at}] = 1     {{id=second{dep}}}
        end
        """, assumptions="n>=0")
    return lk.add_dtypes(knl, {"a": F32, "d": F32})


def test_what_dep_orders_stays_in_order_on_other_threads() -> None:
    """All of ``i`` come before each ``j`` of one ``k``; statements that share ``i`` are in order on each thread."""
    knl = lk.tag_inames(behind("j"), "i:l.0, j:l.0")
    assert reasons(knl) == [("dep=: first is done, second starts",)]
    assert lk.verify(knl, full=True).proven
    assert lk.verify(knl)["barriers"].summary == "1, each needed"
    assert_same(behind("j"), knl, n=3)
    for other, tags in ((behind("i"), "i:l.0"), (behind("j", ""), "i:l.0, j:l.0")):
        knl = lk.tag_inames(other, tags)
        assert reasons(knl) == []
        assert lk.verify(knl, full=True).proven


def test_what_dep_orders_across_blocks_takes_two_launches() -> None:
    knl = lk.tag_inames(behind("j"), "i:g.0, j:g.0")
    assert len(lowered(knl).launches) == 2
    assert lk.verify(knl, full=True).proven


def test_a_missing_barrier_for_dep_is_found() -> None:
    knl = lk.tag_inames(behind("j"), "i:l.0, j:l.0")
    [less] = without_one_barrier(knl)
    found = report(knl, less)
    assert found["barriers"].verdict is lk.Verdict.REFUTED
    assert "'second' and 'first', which dep= orders, run on two threads with no barrier between" in str(found)
