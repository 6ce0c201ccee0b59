"""loopy's linear form of a kernel, and the barriers and launches that a text requests."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.schedule import (
    Barrier,
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
    ScheduleItem,
    linearize,
)
from loopkit.compat.loopy.schedule.tools import get_return_from_kernel_mapping
from loopkit.errors import PreconditionError, ScheduleError, UnknownNameError


def short(item: ScheduleItem) -> str:
    match item:
        case EnterLoop(iname):
            return f"for {iname}"
        case LeaveLoop():
            return "end"
        case CallKernel():
            return "launch"
        case ReturnFromKernel():
            return "return"
        case RunInstruction(insn_id):
            return insn_id
        case Barrier(synchronization_kind=kind):
            return kind
        case _:
            raise AssertionError(item)


def linear(domains: str, text: str, tags: Any = None, **options: Any) -> Any:
    unit = lp.make_kernel(domains, text, seq_dependencies=True, **options)
    return lp.linearize(lp.tag_inames(unit, tags) if tags else unit).default_entrypoint


@pytest.mark.parametrize(("text", "tags", "expected"), [
    ("y[i] = i {id=y}", {}, "launch | for i | y | end | return"),
    ("y[i] = i {id=y}", {"i": "l.0"}, "launch | y | return"),
    # the parts of a reduction
    ("y[i] = sum(j, 2*j) {id=y}", {}, "launch | for i | y.j.init | for j | y.j.update | end | y | end | return"),
    # a barrier that values need, and none where each thread reads its own
    ("for i\n <> s[i] = i {id=s}\n y[i] = s[7-i] {id=y}\nend", {"i": "l.0"}, "launch | s | local | y | return"),
    ("for i\n <> s[i] = i {id=s}\n y[i] = s[i] {id=y}\nend", {"i": "l.0"}, "launch | s | y | return"),
    # barriers of the text; what nothing reads is there, too
    ("for i\n <> s[i] = i {id=s}\n ... lbarrier\n y[i] = i {id=y}\nend", {"i": "l.0"},
     "launch | s | local | y | return"),
    ("for i\n a[i] = i {id=a}\n ... gbarrier\n y[i] = a[i] {id=y}\nend", {"i": "g.0"},
     "launch | a | return | global | launch | y | return"),
    # the host runs the loop around a global barrier, whose first launch waits for the last one
    ("for i, j\n a[j] = i {id=a}\n ... gbarrier\n y[i,j] = a[j] {id=y}\nend", {"j": "g.0"},
     "for i | global | launch | a | return | global | launch | y | return | end"),
])
def test_the_linear_form(text: str, tags: dict[str, str], expected: str) -> None:
    knl = linear("{[i,j]: 0<=i,j<8}", text, tags)
    assert " | ".join(map(short, knl.linearization)) == expected


def test_a_step_makes_the_linear_form_anew() -> None:
    knl = linear("{[i]: 0<=i<8}", "<> t[i] = i\n ... gbarrier\ny[i] = t[i] {id=y}")
    assert get_return_from_kernel_mapping(knl) == {0: 4, 1: 4, 2: 4, 3: 4, 4: 4, 5: None, **dict.fromkeys(
        range(6, 11), 10)}
    assert lp.get_subkernels(knl) == ("loopy_kernel_0", "loopy_kernel_1")
    assert lp.get_subkernel_to_insn_id_map(knl)["loopy_kernel_1"] == {"y"}
    assert lp.get_one_linearized_kernel(knl, {}).state is lp.KernelState.LINEARIZED
    changed = lp.rename_iname(knl, "i", "k")
    assert changed.linearization is None
    with pytest.raises(PreconditionError, match="not in linear form"):
        lp.get_subkernels(changed)


ORDERED = """
    for i
        ... gbarrier {id=top}
        a[i] = i {id=a, dep=top}
        ... nop {id=point, dep=a}
        ... gbarrier {id=middle, dep=point}
        b[i] = 1 {id=b, dep=middle}
        c[i] = 2 {id=c}
    end
    """


def test_the_order_of_global_barriers() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<8}", ORDERED).default_entrypoint
    assert lp.get_global_barrier_order(knl) == ("top", "middle")
    assert [lp.find_most_recent_global_barrier(knl, x) for x in ("top", "a", "middle", "b", "c")] == [
        None, "top", "top", "middle", None]
    assert {x: knl.id_to_insn[x].depends_on for x in ("middle", "b")} == {"middle": {"a"}, "b": {"middle"}}
    assert isinstance(knl.id_to_insn["middle"], lp.BarrierInstruction)
    with pytest.raises(UnknownNameError):
        lp.find_most_recent_global_barrier(knl, "d")
    two = lp.make_kernel("{[i]: 0<=i<8}", "... gbarrier {id=one}\n... gbarrier {id=two}").default_entrypoint
    with pytest.raises(ScheduleError, match="'one' and 'two'"):
        lp.get_global_barrier_order(two)
    with pytest.raises(PreconditionError, match="one text"):
        lp.get_global_barrier_order(lp.fuse_kernels([knl, two]).default_entrypoint)


def test_a_statement_of_a_step_is_on_one_side_of_a_barrier() -> None:
    unit = lp.make_kernel("{[i,j,k]: 0<=i,j,k<8}", """
        y[i] = sum(k, x[k]*a[i]) {id=y}
        ... gbarrier {id=bar}
        z[j] = x[j] {id=z}""", seq_dependencies=True)
    unit = lp.add_prefetch(unit, "x", ["j"], within="id:z", prefetch_insn_id="fetch", default_tag=None)
    unit = lp.buffer_array(unit, "y", ["i"], init_expression="0")
    known = unit["loopy_kernel"].id_to_insn
    assert {x: set(known[x].depends_on) for x in ("fetch", "z", "bar", "store_y")} == {
        "fetch": {"bar"}, "z": {"bar", "fetch"}, "bar": {"y", "store_y"}, "store_y": {"y"}}


def test_a_removed_statement_leaves_its_dependences() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 0 {id=a}\nz[i] = 1 {id=b}\ny[i] = y[i] + 1 {id=c}",
                          seq_dependencies=True)
    assert lp.remove_instructions(unit, {"b"}).default_entrypoint.id_to_insn["c"].depends_on == {"a"}


def test_a_block_has_the_last_value_of_its_inner_loop() -> None:
    text = "for i\n for j\n <> t[i] = i + j\n end\n t[i] = 2*t[i]\n y[i] = t[i]\nend"
    unit = lp.make_kernel("{[i,j]: 0<=i,j<4}", text, seq_dependencies=True, target=lp.ExecutableCTarget())
    assert unit()[1][0].tolist() == [6, 8, 10, 12]


def test_declared_temporaries_that_outlive_a_launch() -> None:
    """Each block has local memory of its own, also where it lives in global memory."""
    text = "for i, j\n <> t[j] = 10*i + j\n ... gbarrier\n y[i,j] = t[3 - j]\nend"
    unit = lp.make_kernel("{[i,j]: 0<=i,j<4}", text, seq_dependencies=True, target=lp.ExecutableCTarget())
    unit = lp.set_temporary_address_space(lp.tag_inames(unit, {"i": "g.0", "j": "l.0"}), "t", "local")
    unit = lp.save_and_reload_temporaries(unit)
    assert len(lp.generate_code_v2(unit).device_programs) == 2
    assert unit()[1][0].tolist() == (10*np.arange(4)[:, None] + np.arange(4)[::-1]).tolist()


def test_inames_for_axes_of_other_statements() -> None:
    unit = lp.make_kernel("{[i,j]: 0<=i,j<4}", "<> a = 2.0 {id=a}\nfor i\n y[i] = a*i {id=y}\nend")
    unit = lp.add_inames_for_unused_hw_axes(lp.tag_inames(unit, {"i": "g.0"}))
    assert unit.default_entrypoint.id_to_insn["a"].within_inames == {"i"}
    _assert_numbers_at_their_readers()
    auto = lp.tag_inames(lp.make_kernel("{[i,j]: 0<=i,j<4}", "y[i] = i"), {"i": "l.auto"})
    with pytest.raises(PreconditionError, match="'i' is not known"):
        lp.add_inames_for_unused_hw_axes(auto)
    both = lp.make_kernel("{[i,j]: 0<=i,j<4}", "y[i] = i\nz[j] = j\na[0] = 1 {id=a}")
    with pytest.raises(PreconditionError, match="'a' could get 'i' or 'j'"):
        lp.add_inames_for_unused_hw_axes(lp.tag_inames(both, {"i": "g.0", "j": "g.0"}))


def _assert_numbers_at_their_readers() -> None:
    """The prefetch of x[i] has no loop over j, and its place is outside of those of a."""
    unit = lp.make_kernel("{[i,j]: 0<=i,j<4}", "<> a = 2.5 {id=a}\ny[i,j] = a*x[i]*z[j] {id=y}",
                          [lp.GlobalArg("x,z", np.float64, shape=(4,)), "..."], target=lp.ExecutableCTarget())
    unit = lp.tag_inames(unit, {"i": "l.0", "j": "g.0"})
    unit = lp.add_inames_for_unused_hw_axes(lp.add_prefetch(unit, "x"))
    found = unit.default_entrypoint.id_to_insn
    assert found["a"].within_inames == found["x_fetch_rule"].within_inames == {"i", "j"}
    x = np.arange(4.0)
    np.testing.assert_array_equal(unit(x=x, z=x + 1)[1][0], 2.5*np.outer(x, x + 1))


def test_the_step_is_in_loopys_module_too() -> None:
    assert linearize is lp.linearize
