"""Translation validation: every real case is proven, and what it says of a wrong program is true and small."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Assign, Block, Define, For, If, Node, Scope, Sync
from loopkit.ast.walk import rewritten
from loopkit.expr.mappers import variables
from loopkit.instructions.table import CUDA_TEXTS, OPENMP_TEXTS
from loopkit.kernel.target import Machine
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import add
from loopkit.verification.report import Mismatch
from loopkit.verification.validation import validate
from loopkit.verification.validation_instructions import LOOP_CHECKS
from tests.cases import CASES, F32
from tests.vector_kernels import axpy_vec
from tests.verification.changed import changed
from tests.verification.packed import PACKED

BY_NAME = {case.name: case for case in CASES}
#: Written out, these two are hundreds of statements, which takes seconds to prove.
LARGE = {"matmul_register_blocked", "matmul_large_tiles"}


def lowered(knl: lk.LoopKernel) -> Lowered:
    result = lk.lower(knl)
    return result


def only(findings: tuple[Mismatch, ...]) -> Mismatch:
    assert len(findings) == 1, findings
    return findings[0]


# No false alarms

@pytest.mark.deep
@pytest.mark.parametrize("options", [{}, {"full_tiles": False}, {"textual_unroll": True}], ids=str)
@pytest.mark.parametrize("name", BY_NAME)
def test_real_cases_are_proven(name: str, options: dict[str, Any]) -> None:
    if options.get("textual_unroll") and name in LARGE:
        pytest.skip("hundreds of statements")
    assert validate(lowered(lk.set_options(BY_NAME[name].make(), **options))) == ()


@pytest.mark.deep(every=16)
@pytest.mark.parametrize("full_tiles", [True, False], ids=["full_tiles", "generic"])
@pytest.mark.parametrize("name", PACKED)
def test_parts_of_an_axis_that_sizes_give_are_proven(name: str, full_tiles: bool) -> None:
    low = lowered(lk.set_options(PACKED[name](), full_tiles=full_tiles))
    assert any(isinstance(e, p.FloorDiv | p.Remainder) and not isinstance(e.denominator, int)
               for launch in low.launches for value in launch.mapping.coordinates.values()
               for e in (value.children if isinstance(value, p.Sum) else (value,)))
    assert validate(low) == ()


@pytest.mark.parametrize("value", ["g.0*m", "g.0 % (n*m)", "(g.0 + 1) % m", "g.0 // m % m"])
def test_what_is_no_part_of_an_axis_is_not_proven(value: str) -> None:
    low = lowered(PACKED["plain"]())
    axis, n, m = p.Variable("g.0"), p.Variable("n"), p.Variable("m")
    values = {"g.0*m": p.Product((axis, m)), "g.0 % (n*m)": p.Remainder(axis, p.Product((n, m))),
              "(g.0 + 1) % m": p.Remainder(p.Sum((axis, 1)), m),
              "g.0 // m % m": p.Remainder(p.FloorDiv(axis, m), m)}
    function, = low.program.functions
    wrong = replace(function, coordinates={**function.coordinates, "i": values[value]})
    found = validate(replace(low, program=replace(low.program, functions=(wrong,))))
    assert {finding.kind for finding in found} == {"undecided"}


@pytest.mark.parametrize("length", [4, p.Variable("n")], ids=str)
def test_instances_in_another_block_than_what_they_need(length: int | p.Variable) -> None:
    """Each instance runs once in either way, but not where the kernel has it, which is where its values are."""
    knl = lk.make_kernel([f"{{[i, j]: 0<=i<{length} and 0<=j<3}}", f"{{[k, l]: 0<=k<{length} and 0<=l<3}}"], """
        for i, j
            a[i, j] = x[i, j]
        end
        for k, l
            b[k, l] = a[k, l]
        end
        """, [lk.GlobalArg("a, b, x", F32, shape=f"{length}, 3"), "..."], assumptions=None if length == 4 else "n>=1")
    low = lowered(lk.tag_inames(knl, "i:g.0, j:g.0, k:g.0, l:g.0"))
    assert validate(low) == ()
    function, = low.program.functions
    axis = p.Variable("g.0")
    turned = {**function.coordinates, "k": p.Remainder(axis, length), "l": p.FloorDiv(axis, length)}
    wrong = replace(low.program, functions=(replace(function, coordinates=turned),))
    assert [(f.kind, f.statement) for f in validate(replace(low, program=wrong))] == [("undecided", "insn_0")]


def test_axis_shared_in_bounds_that_depend_on_sizes() -> None:
    """The inames are no affine forms of the axis and stand for it."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="both")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), {"i": "g.0", "j": "g.0"})
    low = lowered(knl)
    assert validate(low) == ()
    shifted = changed(low, lambda node: node if not isinstance(node, Assign) else replace(
        node, target=p.Subscript(p.Variable("y"), (p.Variable("j"), p.Variable("i")))))
    assert only(validate(shifted)).kind == "element"


def test_condition_that_is_affine_for_single_values_only() -> None:
    """``i`` is ``i_outer*(n // 2) + ...`` here; the text asks what lowering could tell for each ``i_outer``."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = if(i != i, x[i], 2*x[i])", name="chunks")
    knl = lk.chunk_iname(lk.add_dtypes(knl, {"x": F32}), "i", 2)
    assert validate(lowered(knl)) == ()


def test_condition_of_which_a_part_always_holds() -> None:
    """isl writes that part as a number, which is no condition that a reader, or a check, understands."""
    knl = lk.make_kernel(["{[i]: 0<=i<2 or 3<=i<n}", "[i] -> {[j]: 0<=j<i}"], """
        for i
            u[i] = 2*x[i]
            for j
                c[i, i] = 1
            end
        end
        """, [lk.GlobalArg("x,c", F32), lk.TemporaryVariable("u", F32), "..."])
    split = lowered(lk.split_iname(knl, "i", 2, inner_tag="l.0"))
    assert " or 1" not in str(split)
    assert validate(split) == ()


def test_unrolled_text_keeps_each_rounds_own_constants() -> None:
    """``let a_dim_0 = point // 8`` of the second round is not the first round's, though it reads the same."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<12}", "y[i, j] = x[i, 11-j] + x[i, j]", name="rounds")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(knl, "x", ["i_inner", "j"])
    knl = lk.set_options(knl, textual_unroll=True)
    assert validate(lowered(knl)) == ()
    lk.check_equivalent(lk.set_options(knl, textual_unroll=False), knl, {"n": 7}, target="c")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("choice", [
    "if(2*k <= n, if(k < 2, x[n-k], k % 3), x[k])", "if(n < 2*k, x[k], if(k < 2, k % 3, x[n-k]))",
    "if(2*k <= n, if(k < 2, if(k < 1, x[k], k), x[n-k]), k)", "if(3 <= k, if(2 < k, x[k], 1), x[n-k])",
    "if(3 <= k, if(k < 3, 1, if(k == 2, k, x[k])), if(k < 3, x[n-k], 2))",
    "2*if(2*k <= n, if(1 < k, k // 2, x[0]), x[k])"])
def test_choices_in_choices_of_which_whole_tiles_take_one(choice: str) -> None:
    """What is left may be of a dtype of its own, so that the choice around it stays where the outer one went."""
    knl = lk.make_kernel("{[k]: 2<=k<=n}", f"c[k] = {choice}", [lk.GlobalArg("x, c", F32, shape="n + 1"), "..."])
    assert validate(lowered(lk.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0"))) == ()


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("tag", ["for", "unr", "ilp", "vec"])
@pytest.mark.parametrize("mapped", ["for", "g.0"])
def test_bounds_from_memory_around_loops_of_their_own(tag: str, mapped: str) -> None:
    """Where the bounds are in a condition around the loops and in another one inside, both cut the instances."""
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[first] -> {[j]: 0<=j<m and first<=j<m-1}"], """
        for i
          <> first = at[i]
          for j
            y[i, j] = 2*x[i, j]  {id=S}
          end
        end
        """, [lk.GlobalArg("x,y", F32, shape="n, m"), lk.GlobalArg("at", np.int32, shape="n"), "..."])
    knl = lk.split_iname(lk.tag_inames(knl, {"i": mapped}), "j", 4, inner_tag=tag)
    low = lowered(knl)
    assert validate(low) == ()

    def wider(node: Node) -> Node:
        if isinstance(node, If) and "first" in variables(node.condition):
            return node.then
        return replace(node, start=0) if isinstance(node, For) and "first" in variables(node.start) else node
    assert {found.kind for found in validate(changed(low, wider))} == {"outside"}


# What it finds

def test_a_branch_that_is_only_right_where_the_other_one_is_taken() -> None:
    knl = lk.make_kernel("{[k]: 0<=k<n}", "c[k] = if(3 <= k, x[k], if(k < 3, 2*x[k], x[0]))")
    low = lowered(lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "k", 8, outer_tag="g.0", inner_tag="l.0"))
    assert validate(low) == ()

    def wrong(node: Node) -> Node:
        if isinstance(node, Assign) and isinstance(node.value, p.If):
            return replace(node, value=p.If(node.value.condition, node.value.else_, node.value.then))
        return node
    assert {found.kind for found in validate(changed(low, wrong))} == {"value"}


def test_a_branch_of_another_dtype() -> None:
    """The whole is a quotient of real numbers; with the branch alone it were one of integers."""
    knl = lk.make_kernel("{[k]: 2<=k<=n}", "c[k] = if(k < 2, x[k], k) // 2", [lk.GlobalArg("x, c", F32), "..."])
    low = lowered(lk.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0"))
    assert validate(low) == ()

    def alone(node: Node) -> Node:
        if isinstance(node, Assign) and isinstance(node.value, p.FloorDiv):
            assert isinstance(node.value.numerator, p.If)
            return replace(node, value=p.FloorDiv(node.value.numerator.else_, 2))
        return node
    assert {found.kind for found in validate(changed(low, alone))} == {"value"}


def test_the_wrong_branch() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = if(i < n-1, x[i], 2*x[i])", name="ends")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 8, outer_tag="g.0", inner_tag="l.0")
    low = lowered(knl)
    assert validate(low) == ()
    for branch in ("then", "else_"):
        taken = changed(low, lambda node, b=branch: replace(node, value=getattr(node.value, b))
                        if isinstance(node, Assign) and isinstance(node.value, p.If) else node)
        assert only(validate(taken)).kind == "value"
    inside = changed(low, lambda node: replace(node, value=p.Product((2, node.value)))
                     if isinstance(node, Assign) and not isinstance(node.value, p.If) else node)
    assert only(validate(inside)).kind == "value"


def test_missing() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i, j] = 1.0", name="triangle")
    low = lowered(lk.add_dtypes(knl, {"y": F32}))
    found = only(validate(changed(low, lambda node: replace(node, stop=p.Variable("i"))
                                  if isinstance(node, For) and node.iname == "j" else node)))
    assert (found.kind, found.parameters, found.instance) == ("missing", {"n": 1}, {"i": 0, "j": 0})
    assert str(found) == "triangle: 'insn' does not execute an instance (with n = 1; instance insn[i = 0, j = 0])"


def test_outside() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="scale")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    low = lowered(lk.set_options(knl, full_tiles=False))
    found = only(validate(changed(low, lambda node: node.then if isinstance(node, If) else node)))
    assert found.kind == "outside"
    assert found.parameters == {"n": 1}
    assert (found.instance, found.place) == ({"i_outer": 0, "i_inner": 1}, {"g.0": 0, "l.0": 1})


def test_twice_in_a_loop() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="scale")
    low = lowered(lk.add_dtypes(knl, {"x": F32}))
    twice = changed(low, lambda node: For("again", 0, 2, 1, Block((node,))) if isinstance(node, Assign) else node)
    found = only(validate(twice))
    assert (found.kind, found.parameters) == ("twice", {"n": 1})


def test_twice_at_two_places() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="scale")
    low = lowered(lk.add_dtypes(knl, {"x": F32}))
    found = only(validate(changed(low, lambda node: Block((node, node)) if isinstance(node, Assign) else node)))
    assert (found.kind, found.instance) == ("twice", {"i": 0})


def test_other_branch_of_a_tile() -> None:
    """Both versions of a tile are looked at: the branches of the test may not be exchanged."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="scale")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    wrong = changed(lowered(knl), lambda node: replace(node, then=node.otherwise, otherwise=node.then)
                    if isinstance(node, If) and node.otherwise is not None else node)
    assert {f.kind for f in validate(wrong)} == {"outside"}


def test_condition_on_data_is_the_statements_own() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            <> t = x[i]
            if t > 0.5
                y[i] = 2*t
            end
        end
        """, name="some")
    low = lowered(lk.add_dtypes(knl, {"x": F32}))
    assert validate(low) == ()
    unconditional = changed(low, lambda node: node.then if isinstance(node, If) else node)
    assert {f.kind for f in validate(unconditional)} == {"outside"}
    other = changed(low, lambda node: replace(node, condition=p.LogicalNot(node.condition))
                    if isinstance(node, If) else node)
    assert {f.kind for f in validate(other)} == {"missing", "outside"}


@pytest.mark.parametrize("make", [
    lambda k: lk.peel(k, "i", first=1), lambda k: lk.tag_inames(k, "i:ilp"), lambda k: lk.split_iname(k, "i", 2)])
def test_condition_that_is_affine_at_one_value_of_an_iname(make: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    low = lowered(make(lk.make_kernel("{[i]: 0<=i<3}", "a[i*i] = x[i] {if=i*n > 3}", [
        lk.GlobalArg("a,x", F32), "..."], assumptions="n >= 0")))
    assert validate(low) == ()
    unconditional = changed(low, lambda node: node.then if isinstance(node, If) else node)
    assert {f.kind for f in validate(unconditional)} == {"outside"}
    never = changed(low, lambda node: replace(node, condition=p.Comparison(p.Variable("n"), "<", -1))
                    if isinstance(node, If) else node)
    assert "missing" in {f.kind for f in validate(never)}


def test_order_on_one_thread() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            <> t = 2*x[i]
            y[i] = t
        end
        """, name="chain")
    low = lowered(lk.add_dtypes(knl, {"x": F32}))
    found = validate(changed(low, lambda node: replace(node, body=Block(node.body.children[::-1]))
                             if isinstance(node, For) else node))
    assert [f.kind for f in found] == ["order"]
    assert found[0].parameters == {"n": 1}
    assert "conflicts with 'insn' on 't'" in found[0].text


def test_order_of_a_loop() -> None:
    """Two loops instead of one around both statements."""
    knl = lk.make_kernel("{[i]: 1<=i<n}", """
        for i
            a[i] = 2*b[i-1] {id=first}
            b[i] = a[i] {id=second}
        end
        """, name="both")
    low = lowered(lk.add_dtypes(knl, {"a,b": F32}))
    found = validate(changed(low, lambda node: Block(tuple(replace(node, body=Block((c,))) for c in node.body.children))
                             if isinstance(node, For) else node))
    assert [(f.kind, f.parameters) for f in found] == [("order", {"n": 3})]


@pytest.mark.deep
def test_value_of_another_thread() -> None:
    """A private value that the first thread alone computes does not reach the others."""
    low = lowered(BY_NAME["softmax_by_block"].make())
    first = p.Comparison(p.Variable("l.0"), "==", 0)
    alone = changed(low, lambda node: If(first, Block((node,)))
                    if isinstance(node, Assign) and node.statement == "insn" else node)
    assert {f.kind for f in validate(alone)} == {"missing"}
    launch = low.launches[0]
    statements = {**launch.statements, "insn": replace(launch.statements["insn"], alone_on=("l.0",))}
    found = validate(replace(alone, launches=(replace(launch, statements=statements),)))
    assert [(f.kind, f.statement, f.place["l.0"]) for f in found] == [("value", "insn", 1)]*2      # one for each reader


def test_statement_without_its_instance() -> None:
    low = lowered(BY_NAME["vector_add"].make())
    silent = changed(low, lambda node: replace(node, instance=()) if isinstance(node, Assign) else node)
    assert only(validate(silent)).kind == "undecided"


def test_divergent_barrier() -> None:
    low = lowered(BY_NAME["transpose"].make())
    divergent = changed(low, lambda node: If(p.Comparison(p.Variable("l.0"), "<", 8), Block((node,)))
                        if isinstance(node, Sync) else node)
    assert "divergent" in {f.kind for f in validate(divergent)}


def test_barrier_of_warps_where_blocks_have_to_wait() -> None:
    low = lowered(BY_NAME["transpose"].make())
    weak = changed(low, lambda node: replace(node, scope=Scope.WARP) if isinstance(node, Sync) else node)
    assert {f.kind for f in validate(weak)} == {"barrier"}
    in_one_warp = replace(weak, launches=tuple(replace(launch, machine=Machine(256)) for launch in weak.launches))
    assert validate(in_one_warp) == ()


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("name", ["jacobi_over_blocks", "lu"])
def test_host(name: str) -> None:
    """The host's loops are part of the program: none may be cut short, and their launches stay in order."""
    low = lowered(BY_NAME[name].make())

    def kinds(change: Callable[[For], Node]) -> set[str]:
        order = rewritten(low.program.order, lambda node: change(node) if isinstance(node, For) else node)
        return {f.kind for f in validate(replace(low, program=replace(low.program, order=order)))}
    assert kinds(lambda loop: loop) == set()
    assert kinds(lambda loop: replace(loop, stop=p.Sum((loop.stop, -1)))) == {"missing"}
    assert kinds(lambda loop: replace(loop, stop=p.Sum((loop.stop, 1)))) == {"outside"}
    assert kinds(lambda loop: Block((loop, loop))) == {"outside", "order"}
    assert kinds(lambda loop: replace(loop, body=Block(loop.body.children[::-1]))) == {"order"}
    # a loop of its own for each launch
    assert kinds(lambda loop: Block(tuple(replace(loop, body=Block((c,))) for c in loop.body.children))) == {"order"}


@pytest.mark.parametrize("names", ["i, j", "j, i"])
def test_loops_of_the_host_in_either_order(names: str) -> None:
    """Also where it is not the one in which the statements have these inames."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<3 and 0<=j<=n and 0<=k<2}", "c[i, j] = sum(k, x[k])", assumptions="n >= 1")
    knl = lk.add_barrier(lk.prioritize_loops(lk.add_dtypes(knl, {"x": F32}), names), "insn.k.init", "insn.k.update",
                         synchronization_kind="global")
    low = lowered(knl)
    assert ", ".join(low.launches[0].hosts) == names
    assert validate(low) == ()
    outer, = low.program.order.children
    assert isinstance(outer, For)
    inner, = outer.body.children
    assert isinstance(inner, For)
    turned = Block((replace(inner, body=Block((replace(outer, body=inner.body),))),))
    found = validate(replace(low, program=replace(low.program, order=turned)))
    assert {f.kind for f in found} == {"order"}
    assert found[0].place == {"i, j": {"i": 1, "j": 0}, "j, i": {"j": 1, "i": 0}}[names], found[0]


def test_constant() -> None:
    low = lowered(BY_NAME["stencil_2d"].make())
    wrong = changed(low, lambda node: replace(node, value=p.Sum((node.value, 1)))
                    if isinstance(node, Define) and node.name.endswith("_point") else node)
    assert "missing" in {f.kind for f in validate(wrong)}


def test_coordinates() -> None:
    """What an iname is on its axis counts too."""
    low = lowered(BY_NAME["scale_mapped"].make())
    function = low.program.functions[0]
    wrong = replace(function, coordinates={**function.coordinates, "i_inner": p.Sum((p.Variable("l.0"), 1))})
    assert validate(replace(low, program=replace(low.program, functions=(wrong,))))


@pytest.mark.parametrize("condition", [
    "j + j + 3 <= n", "j + j <= n", "j + j + 3 <= n and x[j] > 0", "j + j + 3 <= n or x[j] > 0", "not (n <= 2*j)"])
def test_conditions_on_sizes_whose_dtype_is_open(condition: str) -> None:
    """They stay with the statement, and in the program they are guards like others."""
    knl = lk.make_kernel("{[j]: 0<=j<5}", f"a[j] = x[j] {{if={condition}}}", assumptions="n >= 0")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), "j:l.0")
    assert knl.statements[0].predicates
    assert validate(lowered(knl)) == ()


def test_a_vector_does_not_move_what_a_later_iteration_reads() -> None:
    """The store after the loop would come after the read of the next iteration."""
    def shifted(node: Node) -> Node:
        if not isinstance(node, Assign) or not isinstance(node.target, p.Subscript):
            return node
        before = p.Subscript(node.target.aggregate, (add(node.target.index_tuple[0], -1),))
        return replace(node, value=p.Sum((node.value, before)))
    found = validate(changed(lowered(axpy_vec()), shifted))
    assert any(f.kind == "vector" and "reads y[" in f.text and "which an earlier one writes as y[" in f.text
               and not f.place.keys() - {"g.0", "l.0"} for f in found), found


def test_each_instruction_of_a_loop_has_a_check() -> None:
    assert LOOP_CHECKS.keys() == {
        own for own, text in {**CUDA_TEXTS, **OPENMP_TEXTS}.items() if text.loop is not None}
