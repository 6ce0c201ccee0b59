"""expand, contract: cells for each iteration of a loop, and one cell for all of them."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, two_loops
from tests.transform.same import assert_same, step

ARRAYS = [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), "..."]


def scalar() -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 2<=i<n}", "<> t = 2*x[i] {id=set}\ny[i] = t + 1 {id=use}", ARRAYS)


def in_two_loops() -> lk.LoopKernel:
    """The reader's loop begins when the writer's has ended."""
    return lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            <> t[i] = 2*x[i] {id=set}
        end
        for i
            y[i] = t[i] + 1 {id=use}
        end
        """, ARRAYS)


def rolling(first: str, second: str) -> lk.LoopKernel:
    """Each iteration reads what the one before it left."""
    return lk.make_kernel("{[i]: 0<=i<n}", f"""
        for i
            {first}
            {second}
        end
        """, [lk.TemporaryVariable("t", F32), *ARRAYS])


SET, USE = "t[i] = x[i] {id=set}", "y[i] = t[i-1] {id=use,if=i>0}"


def rows() -> lk.LoopKernel:
    return lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<4 and 0<=k<4}", """
        for i
            for j
                <> t[i, j] = x[i, j] {id=set}
            end
            for k
                y[i, k] = t[i, 3-k] {id=use}
            end
        end
        """, ARRAYS)


# Expand

def test_each_iteration_gets_a_cell() -> None:
    knl = step(scalar(), lk.expand, "t", "i")
    assert outline(knl) == text("""
        for i
          set: t[i + -2] = 2*x[i]
          use: y[i] = t[i + -2] + 1
        """)
    assert [str(e) for e in knl.temporaries["t"].shape or ()] == ["n + -2"]
    for n in (1, 3, 17):
        assert_same(scalar(), knl, n=n)


def test_a_number_of_cells_that_depends_on_sizes_is_scratch_memory() -> None:
    storage = str(lk.lower(lk.expand(scalar(), "t", "i"), stop="storage"))
    assert storage.startswith("global")


def test_constant_ranges_stay_on_the_chip() -> None:
    plain = lk.fix_parameters(scalar(), n=10)
    knl = lk.expand(plain, "t", "i")
    assert knl.statements_text == lk.privatize(plain, "i", "t").statements_text
    assert "global" not in str(lk.lower(knl, stop="storage"))
    assert_same(plain, knl)


@pytest.mark.deep
def test_expanded_in_blocks_of_threads() -> None:
    knl = lk.split_iname(lk.expand(scalar(), "t", "i"), "i", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (1, 7, 30):
        assert_same(scalar(), knl, n=n)


def test_over_two_inames() -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "<> t = x[i]*x[j]\ny[i, j] = t", ARRAYS)
    knl = step(plain, lk.expand, "t", "i, j")
    assert len(knl.temporaries["t"].shape or ()) == 2
    assert_same(plain, knl, n=6)


def test_a_value_that_crosses_is_refused() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = 0 {id=start}\nfor i\nt = t + x[i] {id=add}\ny[i] = t\nend", ARRAYS)
    with pytest.raises(lk.PreconditionError, match="'start' uses it outside"):
        lk.expand(knl, "t", "i")
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = t {id=use,if=x[i] > 0}\n<> t = x[i] {id=set}\nend", ARRAYS)
    with pytest.raises((lk.IllegalTransformError, lk.UndecidedError)) as err:
        lk.expand(knl, "t", "i")
    assert "'set' and 'use'" in str(err.value) or "set[i=0] writes t" in str(err.value)
    forced = lk.expand(knl, "t", "i", unsafe=True)
    assert forced.history[-1].verdict == "unsafe"


def test_declared_space_is_kept() -> None:
    knl = lk.set_temporary_address_space(scalar(), "t", "private")
    with pytest.raises(lk.StorageError, match="private") as caught:
        lk.expand(knl, "t", "i")
    assert caught.value.hint == "set_temporary_address_space(knl, 't', 'global')"      # it was tried
    assert lk.expand(lk.fix_parameters(knl, n=9), "t", "i").temporaries["t"].address_space is lk.AddressSpace.PRIVATE
    scratch = lk.expand(lk.set_temporary_address_space(scalar(), "t", "global"), "t", "i")
    assert_same(scalar(), scratch, n=12)


# Contract

def test_iterations_share_a_cell() -> None:
    plain = rows()
    knl = step(plain, lk.contract, "t", "i")
    assert outline(knl) == text("""
        for i
          for j
            set: t[j] = x[i, j]
          for k
            use: y[i, k] = t[3 + (-1)*k]
        """)
    assert_same(plain, knl, n=5)


def test_contract_undoes_expand() -> None:
    knl = lk.contract(lk.expand(scalar(), "t", "i"), "t", "i")
    assert outline(knl) == outline(scalar())
    assert knl.temporaries["t"].shape == ()
    assert_same(scalar(), knl, n=9)


def test_a_value_may_cross_where_nothing_overwrites_it_before() -> None:
    plain = rolling(USE, SET)
    knl = step(plain, lk.contract, "t", "i")
    assert "y[i] = t " in knl.statements_text
    assert_same(plain, knl, n=7)
    with pytest.raises(lk.IllegalTransformError, match=r"set\[i=0\] writes, set\[i=1\] overwrites before use\[i=1\]"):
        lk.contract(rolling(SET, USE), "t", "i")


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("axis", ["l.0", "g.0"])
def test_threads_have_copies_of_their_own(axis: str) -> None:
    plain = lk.make_kernel("{[i]: 0<=i<16}", "for i\n<> t[i] = 2*x[i]\ny[i] = t[i]\nend", ARRAYS)
    knl = lk.contract(lk.tag_inames(plain, {"i": axis}), "t", "i")
    assert knl.temporaries["t"].shape in (None, ())
    assert_same(plain, knl)


@pytest.mark.deep
def test_a_shared_tile_over_its_outer_loop() -> None:
    plain = lk.make_kernel("{[o, i, k]: 0<=o<n and 0<=i<8 and 0<=k<8}", """
        for o
            for i
                <> t[o, i] = x[8*o + i] {id=set}
            end
            for k
                y[8*o + k] = t[o, 7-k] {id=use}
            end
        end
        """, ARRAYS)
    knl = lk.contract(lk.tag_inames(plain, "i:l.0, k:l.0"), "t", "o")
    assert_same(plain, knl, n=3)


def test_two_values_alive_at_once_are_refused() -> None:
    knl = in_two_loops()
    with pytest.raises(lk.IllegalTransformError, match=r"set\[i=0\] writes, set\[i=1\] overwrites before "
                                                       r"use\[i=0\] reads it") as err:
        lk.contract(knl, "t", "i")
    assert err.value.witness == lk.Witness({"n": 2}, ("set", {"i": 0}), ("use", {"i": 0}), "t", (0,), "flow")


@pytest.mark.parametrize("n", [3, 5])
def test_the_first_to_overwrite_is_named(n: int) -> None:
    """Not the last, whose value is found there."""
    with pytest.raises(lk.IllegalTransformError, match=r"set\[i=0\] writes, set\[i=1\] overwrites before use\[i=0\]"):
        lk.contract(lk.fix_parameters(in_two_loops(), n=n), "t", "i")


def test_the_smallest_pair_is_named() -> None:
    """Two readers lose values; the earlier one of the smallest value is the witness."""
    knl = lk.make_kernel("{[i]: 0<=i<4}", """
        for i
            <> t[i] = x[i] {id=set}
        end
        for i
            z[i] = t[i] {id=first, if=x[i] > 0}
        end
        for i
            y[i] = t[i] {id=second}
        end
        """, ARRAYS)
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.contract(knl, "t", "i")
    assert (err.value.witness.source, err.value.witness.sink) == (("set", {"i": 0}), ("first", {"i": 0}))


def test_another_statement_overwrites() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4}", """
        for i
            <> t[i] = x[i] {id=set}
        end
        for i
            t[i] = 2*x[i] {id=again, if=x[i] > 0}
            y[i] = t[i] {id=use}
        end
        """, ARRAYS)
    with pytest.raises(lk.IllegalTransformError, match=r"set\[i=0\] writes, set\[i=1\] overwrites before use\[i=0\]"):
        lk.contract(knl, "t", "i")


def test_the_order_of_loops_decides() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<3 and 0<=j<4}", """
        for i
            for j
                <> t[i, j] = x[i, j] {id=set}
            end
            for j
                y[i, j] = t[i, j] {id=use}
            end
        end
        """, ARRAYS)
    assert_same(knl, lk.contract(knl, "t", "i"))
    with pytest.raises(lk.IllegalTransformError, match="set"):
        lk.contract(knl, "t", "j")
    with pytest.raises(lk.IllegalTransformError, match="set"):
        lk.contract(lk.prioritize_loops(knl, "j, i"), "t", "i")

def test_values_that_threads_exchange_are_refused() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<16}", """
        for i
            <> t[i] = x[i] {id=set}
        end
        for i
            y[i] = t[15-i] + t[i] {id=use}
        end
        """, ARRAYS)
    with pytest.raises(lk.PreconditionError, match="No axis"):
        lk.contract(lk.tag_inames(knl, "i:l.0"), "t", "i")


def test_a_subscript_from_memory_is_undecided() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<8}", "for i\n<> t[i] = x[i] {id=set}\ny[i] = t[p[i]]\nend",
                         [*ARRAYS[:2], lk.GlobalArg("p", np.int32), lk.TemporaryVariable("t", F32, (8,)), "..."])
    with pytest.raises(lk.UndecidedError, match="contracted"):
        lk.contract(knl, "t", "i")


@pytest.mark.parametrize(("call", "error", "fields"), [
    (lambda: lk.expand(scalar(), "q", "i"), lk.UnknownNameError, {"kind": "temporary", "name": "q"}),
    (lambda: lk.expand(scalar(), "t", "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.contract(scalar(), "q", "i"), lk.UnknownNameError, {"kind": "temporary", "name": "q"}),
    (lambda: lk.contract(scalar(), "t", "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.contract(scalar(), "t", "i"), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.contract(two_loops(), "t", "i"), lk.PreconditionError, {"subject": "i"}),
])
def test_refused(call: object, error: type[lk.LoopkitError], fields: dict[str, object]) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields
