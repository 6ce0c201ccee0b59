"""Assumed dependences: storage, barriers and checks rely on these and no others."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.kernel.tags import LocalTag
from loopkit.kernel.tree import has_barrier
from loopkit.lowering.lowered import Lowered
from loopkit.verification.validation import validate
from tests.property.machine import MachineError, execute

F32 = np.float32
WHY = "idx is a permutation that keeps blocks"
DATA = (lk.TemporaryVariable("a", F32, (32,)), lk.GlobalArg("idx", np.int32, (32,)), lk.GlobalArg("x", F32, (32,)),
        "...")


def scattered() -> lk.LoopKernel:
    return lk.make_kernel("{[i, j]: 0<=i,j<32}", """
        for i
            a[idx[i]] = x[i] {id=w}
        end
        for j
            y[j] = a[j] {id=r}
        end
        """, DATA)


def in_blocks(tags: str) -> Callable[[lk.LoopKernel], lk.LoopKernel]:
    def mapped(knl: lk.LoopKernel) -> lk.LoopKernel:
        knl = lk.split_iname(lk.split_iname(knl, "i", 8), "j", 8)
        return lk.tag_inames(knl, tags, assume=WHY)
    return mapped


def running(n: int = 8, last: str = "") -> lk.LoopKernel:
    """A scalar that each iteration leaves for the next."""
    knl = lk.make_kernel(f"{{[i]: 0<=i<{n}}}", f"""
        t = 0 {{id=init}}
        for i
            y[i] = t {{id=use}}
            t = t + x[i] {{id=upd}}
        end
        {last}
        """, [lk.TemporaryVariable("t", F32, ()), "..."])
    return lk.add_dtypes(knl, {"x": F32})


def lowered(knl: lk.LoopKernel) -> Lowered:
    """*knl* lowered; nothing of it is refuted, and its obligations show."""
    result = lk.lower(knl)
    report = lk.verify(knl)
    assert report.verdict in (lk.Verdict.ASSUMED, lk.Verdict.UNDECIDED), report
    assert validate(result) == ()
    text = " ".join(line.strip().removeprefix("// ") for line in str(lk.generate_code(knl)).splitlines())
    for owed in knl.obligations:
        assert owed.claim in " ".join(str(report).split())
        assert owed.claim in " ".join(text.split())
    return result


def permuted(blocks: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.concatenate([b + rng.permutation(32//blocks) for b in range(0, 32, 32//blocks)]).astype(np.int32)


def run(knl: lk.LoopKernel, **arrays: np.ndarray) -> np.ndarray:
    """What the host and the machine of the tests, which sees races, make of *y*."""
    low = lowered(knl)
    arrays = {**arrays, "y": np.zeros(len(arrays["x"]), F32)}
    found = [execute(low, arrays, {}, random.Random(seed))["y"] for seed in range(3)]
    given = {k: v.copy() for k, v in arrays.items()}
    lk.compile(knl, target="c")(**given)
    assert all((y == given["y"]).all() for y in found)
    return given["y"]


# Assumed: the two never meet

@pytest.mark.deep(every=10)
@pytest.mark.parametrize("step", [
    lambda knl: lk.tag_inames(knl, "i:l.0, j:l.0", assume=WHY),
    lambda knl: lk.tag_inames(knl, "i:g.0, j:g.0", assume=WHY),
    in_blocks("i_outer:g.0, i_inner:l.0, j_outer:g.0, j_inner:l.0"),
    in_blocks("i_outer:l.1, i_inner:l.0, j_outer:l.1, j_inner:l.0"),
    lambda knl: lk.reverse(knl, "i", assume=WHY)])
@pytest.mark.parametrize("blocks", [1, 4])
def test_a_permutation(step: Callable[[lk.LoopKernel], lk.LoopKernel], blocks: int) -> None:
    knl, idx, x = step(scattered()), permuted(blocks), np.arange(1, 33, dtype=F32)
    y = run(knl, idx=idx, x=x)
    assert (y[idx] == x).all()


@pytest.mark.deep
def test_a_block_that_keeps_to_itself_has_an_array_of_its_own() -> None:
    """The two loops in one loop of blocks: of other blocks nobody reads, says the caller."""
    knl = lk.make_kernel("{[b, i, j]: 0<=b<4 and 0<=i,j<8}", """
        for b
            for i
                a[idx[8*b + i]] = x[8*b + i] {id=w}
            end
            for j
                y[8*b + j] = a[8*b + j] {id=r}
            end
        end
        """, DATA)
    with pytest.raises(lk.UndecidedError):
        lk.privatize(knl, "b", "a")
    mapped = lk.tag_inames(lk.privatize(knl, "b", "a", assume=WHY), "b:g.0, i:l.0, j:l.0", assume=WHY)
    result = lowered(mapped)
    assert result.storages["a"].space is lk.AddressSpace.LOCAL
    assert len(result.launches) == 1
    idx, x = permuted(4), np.arange(1, 33, dtype=F32)
    assert (run(mapped, idx=idx, x=x)[idx] == x).all()
    # in one array of all blocks, a read may find what a later block wrote: of that nobody said anything
    with pytest.raises(lk.StorageError, match="share a cell"):
        lk.lower(lk.tag_inames(knl, "b:g.0, i:l.0, j:l.0", assume=WHY))


def test_what_was_assumed_of_others_is_no_excuse() -> None:
    """The promise is of the writes; the reads that come after them wait for a barrier all the same."""
    knl = lk.tag_inames(scattered(), "i:l.0, j:l.0", assume=WHY)
    bound = lk.lower(knl, stop="barriers")
    assert has_barrier(bound.launches[0].tree)
    with pytest.raises(lk.UndecidedError):
        lk.tag_inames(scattered(), "i:l.0, j:l.0")


def test_a_promise_that_does_not_hold_is_seen_by_the_machine() -> None:
    """The machine of these tests is no witness that believes what it is told."""
    low = lowered(lk.tag_inames(scattered(), "i:l.0, j:l.0", assume=WHY))
    arrays = {"idx": np.zeros(32, np.int32), "x": np.arange(32, dtype=F32), "y": np.zeros(32, F32)}
    with pytest.raises(MachineError):
        execute(low, arrays, {}, random.Random(0))


def test_a_flag_that_all_threads_set_alike() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<16}", """
        found = 0 {id=init}
        for i
            found = 1 {id=set, if=x[i] > 3}
        end
        y[0] = found {id=use}
        """, [lk.TemporaryVariable("found", np.int32, ()), lk.GlobalArg("x", F32, (16,)), "..."])
    knl = lk.tag_inames(knl, "i:l.0", assume="all write the same number")
    lowered(knl)
    for x in (np.zeros(16, F32), np.arange(16, dtype=F32)):
        y, = lk.compile(knl, target="c")(x=x)
        assert y[0] == (x > 3).any()


# Unsafe: the order does not matter

def test_a_reversed_recurrence_runs_backwards() -> None:
    knl = lk.reverse(running(), "i", unsafe=True)
    x = np.arange(1, 9, dtype=F32)
    assert list(run(knl, x=x)) == list(np.concatenate([[0], np.cumsum(x[::-1])[:-1]])[::-1])
    # what follows from the order is told too: the first value of all is overwritten before its reader
    assert any("value may be lost: init writes t, which use" in o.claim for o in knl.obligations)


def test_threads_share_what_they_would_have_handed_on() -> None:
    knl = lk.tag_inames(running(), "i:l.0", unsafe=True)
    storage = lowered(knl).storages["t"]
    assert storage.space is lk.AddressSpace.LOCAL
    y, = lk.compile(knl, target="c")(x=np.ones(8, F32))
    assert y[0] == 0                                     # this value was not given up


def test_blocks_share_it_too() -> None:
    knl = lk.tag_inames(running(), "i:g.0", unsafe=True)
    low = lowered(knl)
    assert low.storages["t"].space is lk.AddressSpace.GLOBAL
    assert len(low.launches) == 3                        # no launch ends within the order that was given up


@pytest.mark.parametrize(("tag", "launches"), [("l.0", 1), ("g.0", 4)])
def test_which_of_the_writes_at_once_is_the_last(tag: str, launches: int) -> None:
    """A barrier, or the end of the launch, keeps the reader behind all writes. Any of their values may remain."""
    knl = lk.tag_inames(running(last="z[0] = t {id=last}"), f"i:{tag}", unsafe=True)
    assert "this value may be lost: upd[i=7] writes t, which last reads" in [o.claim for o in knl.obligations]
    low = lowered(knl)
    assert len(low.launches) == launches
    order = "\n".join(str(launch) for launch in low.launches).splitlines()
    assert tag == "g.0" or "barrier" in order[order.index("  last") - 1]


@pytest.mark.parametrize("tag", ["l.0", "g.0"])
def test_a_value_of_ones_own_is_not_lost_with_others(tag: str) -> None:
    """Each thread writes and reads its own; only the order of what is added up at the end was given up."""
    knl = lk.make_kernel("{[i]: 0<=i<8}", """
        for i
            own = 2*x[i] {id=set}
            y[i] = own {id=use}
            t = t + own {id=upd}
        end
        """, [lk.TemporaryVariable("own", F32, ()), lk.TemporaryVariable("t", F32, ()), "..."])
    forced = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), f"i:{tag}", unsafe=True)
    assert not [o.claim for o in forced.obligations if "own" in o.claim or "lost" in o.claim]


def test_a_private_copy_is_no_storage_for_what_others_read() -> None:
    """Each thread would write what only others read: an error, with a way out that works."""
    knl = lk.set_temporary_address_space(lk.tag_inames(running(), "i:l.0", unsafe=True), "t", "private")
    with pytest.raises(lk.StorageError, match=r"declared private, but upd writes values that \w+ reads in another"
                       ) as caught:
        lk.lower(knl)
    assert caught.value.hint == "set_temporary_address_space(knl, 't', 'shared')"
    lowered(lk.set_temporary_address_space(knl, "t", "local"))


def test_a_value_that_was_not_given_up_finds_its_cell_or_is_refused() -> None:
    """Beside the running sum, a value that another loop needs later."""
    knl = lk.make_kernel("{[i, j]: 0<=i,j<8}", """
        for i
            a[i] = x[i] {id=set}
        end
        for i
            a[i] = a[i-1] + x[i] {id=add, if=i>0}
        end
        for j
            y[j] = a[j] {id=use}
        end
        """, [lk.TemporaryVariable("a", F32, (8,)), "..."])
    knl = lk.add_dtypes(knl, {"x": F32})
    forced = lk.reverse(knl, "i", within="add", unsafe=True)
    x = np.arange(1, 9, dtype=F32)
    assert list(run(forced, x=x)) == [1, *(x[1:] + x[:-1])]     # each adds the neighbour as it was set


def test_given_up_and_expanded() -> None:
    """With a cell for each iteration, nothing is left to share."""
    knl = lk.make_kernel("{[i]: 0<=i<8}", "for i\n y[i] = t {id=use}\n t = x[i] {id=set}\nend",
                         [lk.TemporaryVariable("t", F32, ()), "..."])
    knl = lk.privatize(lk.add_dtypes(knl, {"x": F32}), "i", "t", unsafe=True)
    assert "value may be lost" in knl.obligations[0].claim


# Arguments

def accumulated() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<8}", "a[j] = a[j] + x[i, j]")
    return lk.add_dtypes(knl, {"a,x": F32})


@pytest.mark.parametrize("make", [accumulated, lambda: lk.make_kernel(
    "{[i]: 0<=i<8}", "for i\n b[i] = c[0] {id=use}\n c[0] = x[i] {id=set}\nend", [lk.GlobalArg("x,b,c", F32), "..."])])
def test_a_statement_that_meets_itself_on_an_argument(make: Callable[[], lk.LoopKernel]) -> None:
    """A kernel whose tags nobody checked is refused; one whose obligation says so is written."""
    knl = make()
    unchecked = annotated(knl, tags={"i": LocalTag(0)})
    with pytest.raises(lk.IllegalTransformError, match=r"access one element of '[ac]' at once") as caught:
        lk.lower(unchecked)
    assert caught.value.witness.source[1]["i"] < caught.value.witness.sink[1]["i"]
    lowered(lk.tag_inames(knl, "i:l.0", unsafe=True))


# No others

def test_two_pairs_and_a_promise_of_one() -> None:
    """An assumption about one array does not cover the other."""
    def kernel(other: str) -> lk.LoopKernel:
        return lk.make_kernel("{[i, j]: 0<=i,j<32}", f"""
            for i
                a[idx[i]] = x[i] {{id=w}}
                {other}
            end
            for j
                y[j] = a[j] + c[j//2] {{id=r}}
            end
            """, [lk.TemporaryVariable("c", F32, (32,)), *DATA])
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(kernel("c[i//2] = c[i//2] + x[i] {id=u}"), "i:l.0, j:l.0", assume=WHY)


CONTRADICTED: Mapping[str, tuple[str, str]] = {
    "threads": ("i:l.0, j:l.0", "Two threads would access one element of 'c' at once"),
    "blocks": ("i:g.0, j:g.0", "share a cell")}


@pytest.mark.parametrize("name", CONTRADICTED)
def test_cells_that_were_never_spoken_of(name: str) -> None:
    """Two writes of one cell, of which no read sees the first: no dependence of values, but a race of cells."""
    tags, message = CONTRADICTED[name]
    knl = lk.make_kernel("{[i, j]: 0<=i,j<32}", """
        for i
            a[idx[i]] = x[i] {id=w}
            c[i//2] = x[i] {id=v}
        end
        for j
            y[j] = a[j] + c[j//2] {id=r}
        end
        """, [lk.TemporaryVariable("c", F32, (16,)), *DATA])
    knl = lk.tag_inames(knl, tags, assume=WHY)
    with pytest.raises((lk.IllegalTransformError, lk.StorageError), match=message):
        lk.lower(knl)


def test_a_step_that_carries_them_along() -> None:
    """Later steps move the pairs with their instances."""
    knl = lk.tag_inames(scattered(), "i:l.0, j:l.0", assume=WHY)
    for step in (lambda k: lk.rename_iname(k, "i", "row"), lambda k: lk.rename_argument(k, "x", "x0"),
                 lambda k: lk.affine_map_inames(lk.untag_inames(k, "i"), "i", "h", "h = 31 - i"),
                 lambda k: lk.assume(k, "")):
        with_pairs = step(knl)
        if "row" in with_pairs.tags or "i" in with_pairs.tags:
            lowered(with_pairs)
