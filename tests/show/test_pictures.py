"""Pictures of kernels: what is drawn is what the words say."""
from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import loopkit as lk
from loopkit.show.drawing import KINDS
from loopkit.show.plot import Plot

SVG = "{http://www.w3.org/2000/svg}"


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
