"""The stages of lowering: ``stop=`` ends at each, and its result prints and is well-formed."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.ast.nodes import Block, Sync
from loopkit.errors import InternalError
from loopkit.kernel.target import GPU
from loopkit.kernel.tree import Leaf, leaves
from loopkit.lowering import pipeline
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import STAGES, run
from loopkit.lowering.schedule import crossing_pairs
from loopkit.lowering.stored import Storage
from loopkit.target.code import Layout, write_code
from loopkit.verification.validation import validate
from tests.cases import CASES
from tests.golden_files import GoldenFiles
from tests.lowering.host_loops import HOSTED

BY_NAME = {case.name: case for case in CASES}
NAMES = [stage.name for stage in STAGES]


@pytest.mark.deep(every=12)
@pytest.mark.parametrize("name", [*BY_NAME, *HOSTED])
def test_every_stage_is_well_formed_prints_and_stops(name: str) -> None:
    knl = BY_NAME[name].make() if name in BY_NAME else HOSTED[name].mapped()
    low = Lowered(knl, GPU)
    for stage in STAGES:
        low = run(low, [stage])
        stage.check(low)
        assert low.stage == stage.name
        assert str(low) == str(lk.lower(knl, stop=stage.name))
    assert str(low) == str(lk.lower(knl))


#: Kernels with something for most stages to do, none of them long.
SHOWN = ("roots", "row_sums", "shared_by_blocks", "unrolled_vectors")


def shown(name: str) -> lk.LoopKernel:
    match name:
        case "roots":
            knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = sqrt(x[i])", name=name)
            return lk.split_iname(lk.add_dtypes(knl, {"x": "float32"}), "i", 32, outer_tag="g.0", inner_tag="l.0")
        case "row_sums":
            knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<64}", "y[i] = sum(k, a[i, k])", name=name)
            return lk.tag_inames(lk.add_dtypes(knl, {"a": "float32"}), "i:g.0, k:l.0")
        case "shared_by_blocks":
            text = "t = 0 {id=init}\nfor i\n y[i] = t {id=use}\n t = t + x[i] {id=upd}\nend"
            knl = lk.make_kernel("{[i]: 0<=i<8}", text, [lk.TemporaryVariable("t", "float32", ()), "..."], name=name)
            return lk.tag_inames(lk.add_dtypes(knl, {"x": "float32"}), "i:g.0", unsafe=True)
        case _:
            knl = lk.make_kernel("{[i]: 0<=i<8*n}", "<> t = 2*x[i]\n<> unused = t\ny[i] = t", name=name)
            lengths = {"block": None, "unrolled": 2, "element": 4}
            knl = lk.split_levels(lk.add_dtypes(knl, {"x": "float32"}), "i", lengths,
                                  tags={"block": "g.0", "unrolled": "unr", "element": "vec"})
            return lk.set_options(knl, textual_unroll=True)


@pytest.mark.parametrize("name", SHOWN)
def test_golden_stages(name: str, golden: GoldenFiles) -> None:
    """What each stage added, where it differs from what the stage before it prints."""
    parts, before = [], ""
    for stage in NAMES:
        text = str(lk.lower(shown(name), stop=stage))
        parts.append(f"--- {stage}" + ("" if text == before else f"\n{text}"))
        before = text
    golden.check(f"stages/{name}.txt", "\n".join(parts))


def test_the_documentation_lists_all_stages() -> None:
    page = (Path(__file__).parents[2] / "docs" / "code.rst").read_text(encoding="utf-8")
    table = page.partition("The stages before the text")[2].partition(">>>")[0]
    assert re.findall(r"^``(\w+)``  ", table, re.MULTILINE) == NAMES
    assert all(f"``{name}``" in (lk.lower.__doc__ or "") for name in NAMES)


def test_a_stage_does_not_run_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    knl, asked = shown("roots"), []
    watched = tuple(replace(stage, run=lambda low, stage=stage: asked.append(stage.name) or stage.run(low))
                    for stage in STAGES)
    monkeypatch.setattr("loopkit.lowering.pipeline.STAGES", watched)
    for number, stop in enumerate(NAMES):
        asked.clear()
        lk.lower(annotated(knl), stop=stop)
        assert [name for name in asked if NAMES.index(name) > number] == []
        assert asked == NAMES[:number + 1]


@pytest.mark.deep
def test_launches_are_cut_again_where_storage_shows_that_values_cross_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of as many iterations as a size lies in global memory, where one block alone writes it."""
    found = []

    def watched(launches: Sequence[Launch], storages: Mapping[str, Storage]) -> frozenset[tuple[str, str]]:
        found.append(crossing_pairs(launches, storages))
        return found[-1]
    monkeypatch.setattr(pipeline, "crossing_pairs", watched)
    text = "for k\n <> t = x[k] {id=a}\n for i\n  y[i,k] = t {id=b}\n end\nend"
    start = lk.add_dtypes(lk.make_kernel("{[k, i]: 0<=k<m and 0<=i<n}", text), {"x": "float32"})
    knl = lk.tag_inames(lk.distribute_loop(start, "k", "b"), "i:g.0")
    assert len(lk.lower(knl, stop="memory").scheduled.launches) == 1
    assert str(lk.lower(knl, stop="storage")) == "global float32 t[m] expanded over k"
    assert found == []
    low = lk.lower(knl, stop="launches")
    assert found == [{("a", "b")}, frozenset()]
    assert [list(leaves(launch.tree)) for launch in low.launches] == [["a"], ["b"]]
    lk.check_equivalent(start, knl, {"n": 3, "m": 5}, target="c")


@pytest.mark.parametrize("use", [validate, lambda low: write_code(low, lk.CTarget(), Layout())])
def test_what_is_not_finished_is_no_program(use: Callable[[Lowered], object]) -> None:
    assert use(lk.lower(shown("roots"))) is not None
    with pytest.raises(lk.PreconditionError, match="only to the stage 'vectors'"):
        use(lk.lower(shown("roots"), stop="vectors"))


# What checks find

def test_checks_find_what_is_missing() -> None:
    knl = shown("row_sums")

    def at(stage: str) -> Lowered:
        return lk.lower(knl, stop=stage)

    def refused(low: Lowered, text: str) -> None:
        with pytest.raises(InternalError, match=text):
            STAGES[NAMES.index(low.stage)].check(low)
    no_dtype = {name: replace(t, dtype=None) for name, t in at("types").kernel.temporaries.items()}
    refused(replace(at("types"), kernel=annotated(at("types").kernel, temporaries=no_dtype)), "has no dtype")
    refused(replace(at("reductions"), kernel=at("types").kernel), "is over threads")
    scheduled = at("schedule").scheduled
    refused(replace(at("schedule"), schedule=replace(scheduled, launches=())), "should be there once")
    refused(replace(at("storage"), storages={}), "the storage: .* should be there once")
    low = at("binding")
    refused(replace(low, launches=tuple(replace(x, tree=Leaf("y")) for x in low.launches)), "should be there once")
    refused(replace(at("host"), program=replace(at("host").program, order=Block(()))), "the host's part: row_sums")
    low = at("ast")
    function, = low.program.functions
    inside = replace(function, body=Block((*function.body.children, lk.ast.nodes.Region(Block((Sync(()),))))))
    refused(replace(low, program=replace(low.program, functions=(inside,))), "barrier")
