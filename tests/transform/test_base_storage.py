"""Temporaries that share memory, against programs that run in Python with shared cells."""
from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit as lk
from tests.deep import amount
from tests.lowering.kernels import F32, make
from tests.lowering.shown import storages
from tests.transform.same import assert_same, step

#: Subscripts of each temporary, with the cell of the shared memory that they mean: ``b`` has two columns.
CELLS = {"a": {"i": lambda i: i, "3 - i": lambda i: 3 - i, "i + 4": lambda i: i + 4, "2*i": lambda i: 2*i},
         "b": {"i, 0": lambda i: 2*i, "3 - i, 1": lambda i: 7 - 2*i}}

accesses = st.sampled_from(sorted(CELLS)).flatmap(lambda name: st.tuples(
    st.booleans(), st.just(name), st.sampled_from(sorted(CELLS[name]))))
programs = st.lists(st.lists(accesses, min_size=1, max_size=2), min_size=2, max_size=4)


def _reads(program: list[list[tuple[bool, str, str]]], *, shared: bool) -> list[object]:
    """The number of the write whose value each read gets; temporaries that are not shared have cells of their own."""
    cells: dict[object, int] = {}
    found, number = [], count()
    for loop in program:
        for i in range(4):
            for is_write, name, subscript in loop:
                cell = CELLS[name][subscript](i)
                key = cell if shared else (name, cell)
                if is_write:
                    cells[key] = next(number)
                else:
                    found.append(cells.get(key))
    return found


@settings(max_examples=amount(80))
@given(programs)
def test_temporaries_share_memory_if_and_only_if_each_read_keeps_its_value(
        program: list[list[tuple[bool, str, str]]]) -> None:
    lines, written = [], {name for loop in program for is_write, name, _ in loop if is_write}
    if written != {name for loop in program for _, name, _ in loop} or len(written) < 2:
        return                                              # a temporary without a write is refused
    for k, loop in enumerate(program):
        lines.append("for i")
        lines += [f"{name}[{i}] = {k} + x[i]" if is_write else f"y{k}{n}[i] = {name}[{i}]"
                  for n, (is_write, name, i) in enumerate(loop)]
        lines.append("end")
    knl = lk.make_kernel("{[i]: 0<=i<4}", lines, [lk.TemporaryVariable("a", shape=8), lk.TemporaryVariable(
        "b", shape=(4, 2)), "..."])
    keeps = _reads(program, shared=True) == _reads(program, shared=False)
    try:
        knl = step(knl, lk.alias_temporaries, "a, b")
    except lk.IllegalTransformError:
        assert not keeps
    else:
        assert keeps
        lk.lower(lk.add_dtypes(knl, {"x": F32}), stop="storage")


def two_exchanges() -> lk.LoopKernel:
    knl = make("{[i, j]: 0<=i,j<64}", "<> u[i] = x[i]\ny[j] = u[63 - j]\n<> v[i] = 3*y[i]\nz[j] = v[63 - j]", x=F32)
    return lk.tag_inames(knl, "i:l.0, j:l.0")


def test_shared_memory_is_allocated_once_and_barriers_keep_readers_before_the_next_writers() -> None:
    apart = two_exchanges()
    knl = step(apart, lk.alias_temporaries, "u, v", "both")
    assert storages(knl) == {"both": "shared float32 both[64]"}
    assert lk.generate_code(knl, target="cuda").kernels[0].shared_bytes == 256
    report = lk.verify(knl, full=True)
    assert report.verdict is lk.Verdict.PROVEN
    assert "both: insn_0 reads, insn_1 overwrites" in str(report)
    assert_same(apart, knl)
    assert storages(step(knl, lk.allocate_temporaries_for_base_storage)) == storages(knl)


def test_a_base_storage_is_declared() -> None:
    text = "for i\nu[i] = x[i]\ny[i] = u[i]\nend\nfor i\nv[i] = y[i]\nz[i] = v[i]\nend"
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, [
        lk.TemporaryVariable(name, shape=shape, address_space="global", base_storage="both")
        for name, shape in (("u", "n"), ("v", "n + 1"))] + ["..."])
    knl = lk.add_dtypes(knl, {"x": F32})
    assert "v: float32 [n + 1] global in both" in str(lk.lower(knl, stop="types"))
    assert storages(knl) == {"both": "global float32 both[max(n, n + 1)]"}


def test_values_that_a_later_order_clobbers_are_refused() -> None:
    knl = make("{[i]: 0<=i<8}", """
        for i
            <> u[i] = x[i] {id=wu}
            y[i] = u[i] {id=ru}
        end
        for i
            <> v[i] = 2*x[i] {id=wv}
        end
        for i
            z[i] = v[i] {id=rv}
        end""", x=F32)
    knl = lk.set_temporary_address_space(knl, "u, v", "global")
    shared = lk.alias_temporaries(knl, ["u", "v"])
    assert lk.verify(shared).verdict is lk.Verdict.PROVEN
    early = lk.fuse_loops(lk.shift(shared, "i", -1, within="wv"), "i", within="wu or ru or wv")
    with pytest.raises(lk.StorageError, match="cannot hold all values that are alive at once") as refusal:
        lk.generate_code(early)
    assert "is the memory of u, v: give one of them memory of its own" in str(refusal.value)


REFUSED = [
    ("u, v", "<> u[i] = x[i]\n<> v[i] = x[i]\ny[i] = u[i] + v[i]", "'insn_1' reads 'u' and 'v'"),
    ("u, v", "<float32> u[i] = x[i]\ny[i] = u[i]\n<int32> v[i] = i\nz[i] = v[i]",
     "one has the dtype float32, and the other int32"),
    ("acc_k, v", "<> v[i] = x[i]\nz[i] = v[i]\ny[i] = sum(k, x[k])", "'acc_k' cannot .*: it is the accumulator"),
    ("u, w", "<> u[i, i] = x[i]\ny[i] = u[i, i]\n<> w[i] = x[i]\nz[i] = w[i]", "'u' cannot .*: an extent of it is n"),
    ("u", "<> u[i] = x[i]\ny[i] = u[i]", "needs two or more temporaries, not 1"),
    ("u, u", "<> u[i] = x[i]\ny[i] = u[i]", "needs two or more temporaries, not twice 'u'"),
]


@pytest.mark.parametrize(("names", "text", "error"), REFUSED)
def test_what_cannot_share_memory_is_refused(names: str, text: str, error: str) -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i,k<n}", text)
    with pytest.raises(lk.PreconditionError, match=error):
        lk.alias_temporaries(knl, names)


def test_a_name_in_use_is_no_base_storage() -> None:
    for arguments in ([lk.GlobalArg("x")], []):
        with pytest.raises(lk.NameConflictError, match="The base storage 'x' is already in use"):
            lk.make_kernel("{[i]: 0<=i<8}", "u[i] = x[i]\ny[i] = u[i]", [
                *arguments, lk.TemporaryVariable("u", base_storage="x"), "..."])
    knl = lk.alias_temporaries(two_exchanges(), "u, v", "y")
    assert knl.temporaries["u"].base_storage == "y_0"
    with pytest.raises(lk.PreconditionError, match="'u' has the base storage 'y_0' already"):
        lk.alias_temporaries(knl, "u, v")
    assert np.all(knl(x=np.ones(64, np.float32)).z == 3)


def test_each_call_of_a_function_has_its_own_memory() -> None:
    """The caller may use the name of the function's base storage, and run the calls in one loop."""
    turn = lk.make_function(
        "{[i, j]: 0<=i,j<8}", "<> u[i] = a[i]\nc[j] = u[7 - j]\n<> v[i] = c[i]\nb[j] = v[7 - j] + 1",
        [lk.TemporaryVariable("u, v", base_storage="both"), "..."], name="turn")
    knl = lk.make_kernel("{[k]: 0<=k<8}", "y[:], c[:] = turn(both[0:8])\nz[:], d[:] = turn(both[0:8])\ne[k] = both[k]",
                         functions=[turn])
    assert sorted(t.base_storage for t in knl.temporaries.values()) == ["both_0", "both_0", "both_1", "both_1"]
    x = np.arange(8, dtype=np.float32)
    found = lk.compile(lk.add_dtypes(knl, {"both": np.float32}), target="c")(both=x)
    assert found.y.tolist() == found.z.tolist() == (x + 1).tolist()
    assert found.e.tolist() == x.tolist()
