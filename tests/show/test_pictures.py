"""Pictures of kernels: what is drawn is what the words say."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import loopkit as lk
from loopkit.show import cards, dependence_graph, order_picture
from loopkit.show.drawing import KINDS
from loopkit.show.pictures import PICTURES
from loopkit.show.plot import Plot
from loopkit.show.words import ranges_text
from tests.cases import CASES

SVG = "{http://www.w3.org/2000/svg}"

BY_NAME = {case.name: case for case in CASES}


def wave() -> lk.LoopKernel:
    return lk.make_kernel("{[i,j]: 1<=i<n and 0<=j<m}", "a[i, j] = a[i-1, j] + a[i-1, j+1]", name="wave")


def tiled() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "b[i, j] = 2*a[j, i]")
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    return lk.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")


def drawn(plot: Plot) -> ET.Element:
    root = ET.fromstring(plot.svg)
    assert root.findtext(f"{SVG}desc") == plot.picture.text
    return root


def points(plot: Plot) -> list[ET.Element]:
    return [x for x in drawn(plot).iter(f"{SVG}rect") if x.get("fill") in KINDS and x.get("stroke") == "none"]


def test_every_point_and_every_dependence_is_drawn() -> None:
    plot = wave().plot("domain", parameters={"n": 5, "m": 4})
    assert len(points(plot)) == 16
    assert len([x for x in drawn(plot).iter(f"{SVG}path") if x.get("fill") == "none"]) == 12 + 9
    assert "distance (i +1) 12 times" in str(plot)
    assert "distance (i +1, j -1) 9 times" in str(plot)


@pytest.mark.parametrize(("factor", "is_at_top"), [(0, True), (1, False), (2, False)])
def test_numbers_are_in_a_corner_without_arrows(factor: int, is_at_top: bool) -> None:
    """The distances (i +1, j -1) cross the lower left corners, and (i +1, j +1) the upper left ones."""
    knl = lk.skew(wave(), "j", by={"i": factor}) if factor else wave()
    plot = knl.plot("domain", parameters={"n": 3, "m": 2})
    cells = [(float(x.get("y", "")), float(x.get("height", ""))) for x in points(plot)]
    numbers = [float(x.get("y", "")) for x in drawn(plot).iter(f"{SVG}text") if x.get("font-size") == "9"]
    assert len(numbers) == 4
    assert [y < top + height/2 for y, (top, height) in zip(numbers, cells, strict=True)] == [is_at_top]*4


def test_blocks_have_colours_and_tiles_outlines() -> None:
    plot = tiled().plot("domain", parameters={"n": 8, "m": 6})
    assert len(points(plot)) == 48
    assert len({x.get("fill") for x in points(plot)}) == 4
    assert len([x for x in drawn(plot).iter(f"{SVG}rect") if x.get("fill") == "none"]) == 4
    assert "1: block (1, 0)" in str(plot)


def test_a_third_iname_makes_panels() -> None:
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<=i and 0<=k<9}", "c[i, j, k] = 1")
    plot = knl.plot("domain", inames=["i", "j", "k"], parameters={"n": 3})
    assert len(points(plot)) == 6*6
    assert "not drawn: 18 more points" in str(plot)
    assert len(list(drawn(plot).iter(f"{SVG}g"))) == 6
    assert len(points(knl.plot("domain", fixed={"k": 4}, parameters={"n": 3}))) == 6


def test_default_sizes_keep_the_assumptions() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", assumptions="n >= 11 and n mod 2 = 0")
    assert len(points(knl.plot("domain"))) == 12


def test_a_saved_picture_is_a_file_of_its_own(tmp_path: Path) -> None:
    plot = wave().plot("domain")
    plot.save(tmp_path / "x.svg")
    root = ET.parse(tmp_path / "x.svg").getroot()
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
    assert repr(plot) == "<Plot Points of insn in kernel 'wave', m = 8, n = 8>"
    assert plot.svg in plot._repr_html_()


def test_dependences_on_other_statements_are_drawn_or_named() -> None:
    knl = lk.make_kernel("{[i]: 1<=i<n}", "b[i] = 2*a[i] {id=first}\nc[i] = b[i-1] {id=second}\nd[0] = c[5] {id=third}")
    for statement in ("first", "second"):
        plot = knl.plot("domain", statement=statement, parameters={"n": 6})
        assert "red arrows: flow dependence of b from first to second, distance (i +1) 4 times" in str(plot)
        assert len([x for x in drawn(plot).iter(f"{SVG}path") if x.get("fill") == "none"]) == 4
    assert "not drawn: dependences on third" in str(knl.plot("domain", statement="second"))


def test_conditions_on_data_are_named() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] {if=x[i]>0}")
    assert "the condition x[i] > 0 depends on data: not all of these points may run" in str(knl.plot("domain"))


def test_too_many_arrows_are_left_out_by_length() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<5 and 0<=j<8}", "a[j] = a[j] + i")
    plot = knl.plot("domain")                           # flow, anti and output, 8*(5 - d) times at the distance d
    assert len([x for x in drawn(plot).iter(f"{SVG}path") if x.get("fill") == "none"]) == 96
    assert "not drawn: the 144 longest arrows" in str(plot)


def texts(plot: Plot) -> list[str]:
    return ["".join(x.itertext()) for x in drawn(plot).iter(f"{SVG}text")]


# The loop tree

def test_the_loop_tree_has_every_part() -> None:
    lines = str(BY_NAME["matmul_tiled"].make().plot("loops")).splitlines()
    assert lines[1].startswith("launch matmul: ")
    assert lines[2:4] == ["  each block: i_outer = g.1, j_outer = g.0", "    each thread: i_inner = l.1, j_inner = l.0"]
    assert "      for k_outer in 0 .. (l + 15) // 16" in lines
    assert len([line for line in lines if line.startswith("        barrier  # ")]) == 2
    hosts = str(BY_NAME["jacobi_over_blocks"].make().plot("loops"))
    assert "  host: for t in 0 .. steps\n    launch jacobi_0: " in hosts


def test_a_long_loop_tree_is_cut() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "\n".join(f"y{k}[i] = {k}.0" for k in range(130)))
    plot = knl.plot("loops")
    assert "not drawn: 14 more rows" in str(plot)
    assert "y115[i] = 115.0" in str(plot)
    assert "y116[i]" not in str(plot)


# Dependences

def chain(number: int) -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 1<=i<n}", "\n".join(
        f"x{k}[i] = x{k-1}[i] + x{max(k-3, 0)}[i-1] {{id=s{k}}}" for k in range(1, number + 1)))


def boxes(plot: Plot) -> list[tuple[float, ...]]:
    return [tuple(float(x.get(side, "")) for side in ("x", "y", "width", "height"))
            for x in drawn(plot).iter(f"{SVG}rect")]


def test_dependences_have_kinds_and_distances() -> None:
    lines = str(wave().plot("dependences")).splitlines()
    assert lines[1].startswith("1 statement, 0 dependent pairs, 1 dependent on themselves")
    assert lines[2:] == ["insn -> insn: flow of a: i +1; flow of a: i +1, j -1"]
    matmul = str(BY_NAME["matmul_tiled"].make().plot("dependences"))
    assert "insn.k.update -> insn.k.update: flow of acc_k: k_outer any, k_inner -15 to +15, in any order" in matmul
    assert "insn.k.init -> insn: flow of acc_k\n" in matmul
    order = lk.make_kernel("{[i]: 0<=i<n}", "a[i] = 1 {id=s}\nb[i] = 2 {id=t, dep=s}\nc[i] = 3 {id=u}")
    assert "s -> t: dep=\nwithout dependences: u" in str(order.plot("dependences"))


def test_statements_do_not_overlap_and_later_ones_are_below() -> None:
    plot = chain(12).plot("dependences")
    found = boxes(plot)
    assert len(found) == 12
    for number, (x, y, width, height) in enumerate(found):
        for other_x, other_y, other_width, other_height in found[number + 1:]:
            assert other_y >= y + height                # each depends on the one before it
            assert other_x + other_width > 0
            assert other_height == height
            assert x >= 0
            assert width > 0
    assert all(f"s{k}" in texts(plot) for k in range(1, 13))


def test_many_statements_are_in_the_words() -> None:
    plot = chain(30).plot("dependences")
    assert len(boxes(plot)) == dependence_graph.MOST_NODES
    assert any("not drawn: 14 statements" in text for text in texts(plot))
    assert "s29 -> s30: flow of x29" in str(plot)
    assert len(boxes(chain(30).plot("dependences", statements=["s29", "s30"]))) == 2


def test_assumed_dependences_are_marked() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\n<> t[i] = x[i]\ny[i] = t[i-1] {if=i>0}\nend")
    text = str(lk.reverse(knl, "i", unsafe=True).plot("dependences"))
    assert "flow of t: i -1, assumed not to bind" in text
    assert "without the pairs that an obligation of the kernel covers" in text


# Blocks and threads

def test_the_grid_has_blocks_threads_and_warps() -> None:
    plot = BY_NAME["matmul_tiled"].make().plot("grid", parameters={"n": 40, "m": 20, "l": 8}, block=(1, 2))
    assert "2 x 3 blocks of 16 x 16 threads, 8 warps a block" in str(plot)
    assert "block (1, 2): j_outer = 1, i_outer = 2" in str(plot)
    assert "  warp 1: threads 32-63: j_inner = 0-15, i_inner = 2-3" in str(plot)
    assert len(boxes(plot)) == 6 + 256
    assert {"(1, 2)", "255", "i_inner=15"} <= set(texts(plot))


def test_a_large_grid_is_cut() -> None:
    plot = BY_NAME["jacobi_over_blocks"].make().plot("grid", parameters={"n": 128*20})
    assert "not drawn: 4 more blocks" in str(plot)
    assert len(boxes(plot)) == 16 + 128


# Addresses

def transposed(width: int, padding: int = 0) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose")
    knl = lk.add_dtypes(knl, {"a": np.dtype(f"f{width}")})
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.1")
    knl = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])
    return lk.add_padding(knl, "a_fetch", 0, by=padding) if padding else knl


@pytest.mark.parametrize(("width", "padding", "said"), [
    (4, 0, "32-way bank conflict: 32 passes, without conflicts 1"),
    (4, 1, "no bank conflict: 1 pass"),
    (4, 2, "2-way bank conflict: 2 passes, without conflicts 1"),
    (8, 0, "16-way bank conflict: 32 passes, without conflicts 2"),
    (8, 1, "no bank conflict: 2 passes of 16 threads each"),
    (2, 0, "16-way bank conflict: 16 passes, without conflicts 1"),
    (2, 2, "no bank conflict: 1 pass")])
def test_bank_conflicts(width: int, padding: int, said: str) -> None:
    """The conflicts of threads along a column of a tile: 32 columns of *width* bytes, *padding* cells in each row."""
    assert said in str(transposed(width, padding).plot("access", statement="insn", array="a_fetch"))


def test_words_that_threads_share_are_no_conflict() -> None:
    plot = BY_NAME["matmul_tiled"].make().plot("access", statement="insn.k.update", array="a_fetch")
    assert "no bank conflict: 1 pass" in str(plot)
    assert {"0+", "16+"} <= set(texts(plot))


def test_swizzled_columns_are_in_different_banks() -> None:
    """The rows of a vector of four stay together: one column is in eight of the banks."""
    knl = BY_NAME["transpose_swizzled"].make()
    assert "4-way bank conflict" in str(knl.plot("access", statement="a_fetch_rule", array="a_fetch"))
    plot = knl.plot("access", statement="insn", array="a_fetch")
    assert "8 threads, 16 bytes each\nno bank conflict: 1 pass" in str(plot)


@pytest.mark.parametrize(("subscript", "said"), [
    ("i, j", "1 line of 128 bytes, 4 sectors of 32 bytes: 128 of 128 bytes are used, 100 %"),
    ("j, i", "32 lines of 128 bytes, 32 sectors of 32 bytes: 128 of 1024 bytes are used, 12.5 %"),
    ("i, j + 1", "2 lines of 128 bytes, 5 sectors of 32 bytes: 128 of 160 bytes are used, 80 %"),
    ("i, 2*j", "2 lines of 128 bytes, 8 sectors of 32 bytes: 128 of 256 bytes are used, 50 %"),
    ("i, 0*j", "1 line of 128 bytes, 1 sector of 32 bytes: 4 of 32 bytes are used, 12.5 %")])
def test_sectors(subscript: str, said: str) -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", f"y[i, j] = x[{subscript}]")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "j", 32, outer_tag="g.0", inner_tag="l.0")
    assert said in str(knl.plot("access", array="x", parameters={"n": 64, "m": 64}))


def test_vectors_are_accessed_at_once() -> None:
    plot = BY_NAME["matmul_vec"].make().plot("access", statement="b_fetch_rule", array="b")
    assert "32 threads, 16 bytes each" in str(plot)
    assert "4 lines of 128 bytes, 16 sectors" in str(plot)


def test_an_access_is_at_the_chosen_place() -> None:
    knl = BY_NAME["matmul_tiled"].make()
    sizes = {"n": 64, "m": 64, "l": 64}
    plot = knl.plot("access", array="a", parameters=sizes, block=(0, 1), warp=3, fixed={"k_outer": 2})
    assert "at k_outer = 2" in str(plot)
    assert "line at byte 5760: a[22, 32] ... a[22, 47] by threads 0-15" in str(plot)     # 4*(22*64 + 32)
    half = knl.plot("access", array="a", parameters={"n": 1, "m": 64, "l": 64})
    assert "16 threads, 4 bytes each" in str(half)


def test_several_accesses_are_drawn() -> None:
    text = str(BY_NAME["jacobi_over_blocks"].make().plot("access", statement="insn", array="u"))
    assert text.count("in global memory") == 3


@pytest.mark.parametrize(("domain", "text", "array", "is_noted"), [
    ("{[i]: 0<=i<n}", "y[i] = x[i] {if=x[i]>0}", "y", True), ("{[i]: 0<=i<n}", "y[i] = x[i] {if=i>3}", "y", False),
    ("{[i,j]: 0<=i<n and 0<=j<e}", "for i\n <> e = p[i]\n y[i] = sum(j, x[j+i])\nend", "x", True),
    ("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, x[j+i])", "x", False)])
def test_what_depends_on_data_is_taken_to_run(domain: str, text: str, array: str, is_noted: bool) -> None:
    knl = lk.add_dtypes(lk.make_kernel(domain, text), {"x": np.float32} | ({"p": np.int32} if "p[" in text else {}))
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert ("not all of these threads may run it" in str(knl.plot("access", array=array))) is is_noted


def gathered() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = y[i]\nz[i] = x[p[i]] + t")
    knl = lk.add_dtypes(knl, {"x,y": np.float32, "p": np.int32})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def csr() -> lk.LoopKernel:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "{[k]: first<=k<last}"], """
        for i
            <> first = ptr[i]  {id=first}
            <> last = ptr[i+1]
            y[i] = sum(k, val[k]*x[col[k]])  {id=row}
        end""")
    knl = lk.add_dtypes(knl, {"val,x": np.float32, "ptr,col": np.int32})
    return lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.1"), "k", 32, inner_tag="l.0")


def test_a_loop_over_data_hides_no_other_statement() -> None:
    assert "ptr[0] by threads 0-31" in str(csr().plot("access", statement="first"))
    assert "row writes y[4*i_outer + i_inner] in global memory: 1 thread" in str(csr().plot("access", array="y"))


def test_a_loop_over_data_is_taken_to_have_the_chosen_iteration() -> None:
    text = str(csr().plot("access", array="val", fixed={"k_outer": 2}))
    assert "line at byte 256: val[64] ... val[95] by threads 0-31" in text
    assert "a condition or a bound depends on data" in text


def unmapped() -> lk.LoopKernel:
    return lk.add_dtypes(wave(), {"a": np.float32})


@pytest.mark.parametrize(("make", "what", "options", "message", "hint"), [
    (unmapped, "grid", {}, "No iname of launch 'wave' is on an axis of blocks or threads", "split_iname"),
    (unmapped, "access", {}, "No iname of launch 'wave' is on an axis of blocks or threads", "split_iname"),
    (wave, "loops", {}, "The dtype of the argument 'a'", ""),
    (gathered, "grid", {"launch": "k"}, "'k' is not a launch of kernel 'kernel'", "there is only kernel"),
    (gathered, "grid", {"block": (99,)}, "(99,) is not a block of the grid 2", "each from 0"),
    (gathered, "grid", {"parameters": {"n": 0}}, "Launch 'kernel' has no blocks at these sizes", "larger sizes"),
    (gathered, "grid", {"parameters": {"k": 0}}, "'k' is not a size of the kernel", "there is only n"),
    (gathered, "access", {"array": "x"}, "The subscript of x[p[32*i_outer + i_inner]]", "array="),
    (gathered, "access", {"array": "t"}, "'t' is in registers", "choose one of y, x, p, z"),
    (gathered, "access", {"array": "q"}, "'q' is not an array of the kernel", "y, x, p, z"),
    (gathered, "access", {"statement": "s"}, "'s' is not a statement of", "insn"),
    (gathered, "access", {"warp": 1}, "A block of launch 'kernel' has no warp 1", "from 0 to 0"),
    (gathered, "access", {"block": (9,), "parameters": {"n": 32}}, "(9,) is not a block of the grid 1", "from 0"),
    (gathered, "access", {"fixed": {"k": 3}}, "'k' is not an iname of the statement 'insn'", "i_outer, i_inner"),
    (gathered, "access", {"fixed": {"i_inner": 40}}, "No thread of the blocks tried runs 'insn' with", "fixed="),
    (csr, "access", {"array": "val"}, "The loop over k_outer starts at a value", "fixed={'k_outer': 0}"),
    (gathered, "dependences", {"statements": ["s"]}, "'s' is not a statement of the kernel", "insn")])
def test_what_cannot_be_drawn(make: Callable[[], lk.LoopKernel], what: str, options: dict[str, Any], message: str,
                              hint: str) -> None:
    with pytest.raises(lk.LoopkitError) as found:
        make().plot(what, **options)
    assert message in found.value.message
    assert hint in (found.value.hint or "")


def test_a_warp_that_runs_nothing_is_named() -> None:
    with pytest.raises(lk.PreconditionError, match=r"No thread of warp 1 and block \(0,\) runs 'insn' at n = 8"):
        BY_NAME["jacobi_over_blocks"].make().plot("access", parameters={"n": 8}, block=[0], warp=1)


def test_a_full_warp_is_found() -> None:
    """The first threads of the first block are beyond the array."""
    assert "a in a_fetch_rule: warp 0 of block (1, 1, 1)" in str(BY_NAME["stencil_3d"].make().plot("access"))
    assert "u in insn: warp 1 of block 0" in str(BY_NAME["jacobi_over_blocks"].make().plot("access"))


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_has_its_pictures(name: str) -> None:
    """Each is drawn, but for those of threads where no iname is mapped to threads."""
    knl = BY_NAME[name].make()
    for what in PICTURES:
        if what in ("grid", "access") and name in ("vector_add", "recurrence", "matmul", "jacobi"):
            with pytest.raises(lk.PreconditionError, match=r"No iname of launch .* is on an axis"):
                knl.plot(what)
        else:
            drawn(knl.plot(what))


NOTHING_RUNS = {
    "no argument is written": lambda: lk.make_kernel("{[i]: 0<=i<10}", "<> t[i] = 2.0*i"),
    "no points": lambda: lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<0}", "y[i] = 2*x[i]"), {"x": np.float32})}


@pytest.mark.parametrize("why", NOTHING_RUNS)
def test_a_kernel_without_launches_is_shown(why: str) -> None:
    knl = NOTHING_RUNS[why]()
    assert "no launch: no statement runs" in str(knl.plot("loops"))
    assert "no launch: no statement runs" in knl._repr_html_()
    assert "1 statement" in str(knl.plot("dependences"))
    for what in ("grid", "access"):
        with pytest.raises(lk.PreconditionError, match="Kernel 'kernel' has no launch"):
            knl.plot(what)


def test_a_statement_without_inames_has_one_point() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[0] = 2*x[0]\nz[i] = y[0]")
    plot = knl.plot("domain", statement="insn")
    assert str(plot).splitlines()[1].startswith("1 point")
    assert len(points(plot)) == 1


# Errors

def refused(step: Callable[[], object]) -> lk.IllegalTransformError:
    with pytest.raises(lk.IllegalTransformError) as found:
        step()
    return found.value


def test_both_orders_are_drawn() -> None:
    plot = refused(lambda: lk.interchange(wave(), "i", "j")).plot()
    first, before, after = str(plot).splitlines()
    assert first == "Order of two instances of insn, m = 2, n = 3"
    assert before.index("insn[i=1, j=1] writes a[1, 1]") < before.index("insn[i=2, j=0] reads a[1, 1]")
    assert after.index("insn[i=1, j=1] writes a[1, 1]") > after.index("insn[i=2, j=0] reads a[1, 1]")
    assert after.startswith("after, the second instance would run before the first: ")
    assert len(boxes(plot)) == 8


def test_instances_with_other_inames_are_drawn_alone_before() -> None:
    """The reversed loop has other values for the same instances."""
    _, before, _ = str(refused(lambda: lk.reverse(wave(), "i")).plot()).splitlines()
    assert before == "before: insn[i=2, j=0] writes a[1, 0], ..., insn[i=1, j=0] reads a[1, 0]"


def test_a_vector_reads_before_it_writes() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4}", "a[i+1] = a[i]")
    *_, after = str(refused(lambda: lk.tag_inames(knl, {"i": "vec"})).plot()).splitlines()
    assert after.endswith("insn[i=0] reads, insn[i=1] reads a[1], insn[i=2] reads, insn[i=3] reads, insn[i=0] writes "
                          "a[1], insn[i=1] writes, ... 1 more ..., insn[i=3] writes")


def test_orders_too_long_are_the_two_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_picture, "_MOST_ORDERED", 3)
    plot = refused(lambda: lk.interchange(wave(), "i", "j")).plot()
    assert "after, possibly: insn[i=2, j=0] reads a[1, 1], ..., insn[i=1, j=1] writes a[1, 1]" in str(plot)


def test_a_race_is_two_threads() -> None:
    witness = lk.Witness({}, ("s", {"i": 0}), ("t", {"i": 1}), "a", (1,), "flow")
    error = lk.VerificationError("Two threads access one element.", check="races", witness=witness)
    assert "one thread: s[i=0] writes a[1]\nanother thread: t[i=1] reads a[1]" in str(error.plot())
    assert error.plot().svg in error._repr_html_()
    lost = lk.Witness({}, ("s", {"i": 0}), ("t", {"i": 1}), "a", (1,), "missing")
    for error in (lk.VerificationError("No.", check="bounds"), lk.IllegalTransformError("No.", lost)):
        with pytest.raises(lk.PreconditionError, match="does not name two instances"):
            error.plot()
        assert "<svg" not in error._repr_html_()


def test_an_error_shows_its_picture() -> None:
    error = refused(lambda: lk.interchange(wave(), "i", "j"))
    assert error.plot().svg in error._repr_html_()
    assert error._render_traceback_()[-2:] == [f"  {line}" for line in str(error.plot()).splitlines()[1:]]


# Cards

def test_a_card_has_small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = BY_NAME["matmul_tiled"].make()
    html = knl._repr_html_()
    assert knl.plot("loops").svg in html
    assert knl.plot("dependences").svg in html
    assert "<details><summary>Pictures</summary>" in html
    assert "Loop tree" not in str(knl)
    monkeypatch.setattr(cards, "_MOST_CARD_ROWS", 5)
    monkeypatch.setattr(cards, "_MOST_CARD_STATEMENTS", 2)
    html = knl._repr_html_()
    assert "<svg" not in html
    assert 'more pictures: knl.plot("loops"), knl.plot("dependences"), ' in html
    assert "Pictures" not in wave()._repr_html_()       # it has no dtypes yet


def test_ranges() -> None:
    assert [ranges_text(x) for x in ([], [3], [1, 2, 3, 7], [2, 2, 1])] == ["", "3", "1-3, 7", "1-2"]


def test_wrong_options_are_named() -> None:
    knl = wave()
    for options, message in [({"size": 3}, "'size' is not an option of the picture 'domain'"),
                             ({"inames": ["k"]}, "'k' is not an iname of the statement 'insn'"),
                             ({"colour": "red"}, "'red' is not a colour of a picture of points"),
                             ({"parameters": {"q": 3}}, "'q' is not a size of the kernel"),
                             ({"statement": "s"}, "'s' is not a statement of the kernel")]:
        with pytest.raises(lk.UnknownNameError, match=message):
            knl.plot("domain", **options)
    with pytest.raises(lk.UnknownNameError, match="'x' is not a picture"):
        knl.plot("x")
    with pytest.raises(lk.PreconditionError, match="has no instance at"):
        knl.plot("domain", parameters={"n": 1, "m": 1})
    with pytest.raises(lk.PreconditionError, match="each iname at most once"):
        knl.plot("domain", inames=["i", "i"])
