"""loopy's steps that change a kernel or the layout of its arrays, by their results on the host."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytools.prefork import ExecError

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.target.c.c_execution import CCompiler
from loopkit.compat.loopy.transform.diff import diff_kernel
from loopkit.errors import CallError, IllegalTransformError, PreconditionError, UnknownNameError

HOST = lp.ExecutableCTarget()


def make(text: str, data: Any = None, domains: str = "{[i]: 0<=i<8}", **options: Any) -> Any:
    return lp.make_kernel(domains, text, data, target=HOST, **options)


def text_of(unit: Any) -> list[str]:
    return [line.strip() for line in unit.default_entrypoint.core.statements_text.splitlines()]


def test_fused_kernels_keep_the_flow_of_data() -> None:
    first, second = make("y[i] = 2*x[i]"), make("z[i] = y[7 - i] + 1")
    fused = lp.fuse_kernels([first, second], data_flow=[("y", 0, 1)])
    assert fused.target is HOST
    _, (y, z) = fused(x=np.arange(8.))
    assert z.tolist() == (y[::-1] + 1).tolist()


def test_a_fused_kernel_runs_after_those_that_give_it_data() -> None:
    fused = lp.fuse_kernels([make("z[i] = y[7 - i] + t[i]"), make("<> s = 2*x[i]\ny[i] = s"),
                             make("<> s = 3*y[i]\nt[i] = s")],
                            ["_a", "_b", "_c"], [("y", 1, 0), ("y", 1, 2), ("t", 2, 0)])
    x = np.arange(8.)
    assert "<> s_b = 2*x[i]" in text_of(fused)[1]
    assert any(np.array_equal(a, 2*x[::-1] + 6*x) for a in fused(x=x)[1])
    with pytest.raises(PreconditionError, match="kernel 2, and there are 1"):
        lp.fuse_kernels([make("y[i] = x[i]")], data_flow=[("y", 2, 0)])


def test_the_axis_of_vectors_is_the_fastest() -> None:
    unit = make("<> t[i, j] = x[i, j]\ny[k, l] = t[l, k]", domains="{[i,j,k,l]: 0<=i,j,k,l<8}")
    for tags in ("vec,C", ["vec", "N0"]):
        tagged = lp.tag_array_axes(unit, "t", tags)
        assert tagged.default_entrypoint.core.temporaries["t"].layout.order == (1, 0)
        assert (tagged(x=np.arange(64.).reshape(8, 8))[1][0] == np.arange(64.).reshape(8, 8).T).all()
    assert lp.tag_array_axes(unit, "x", "F,F").default_entrypoint.core.argument_by_name["x"].order == "F"


def test_a_batch() -> None:
    unit = lp.to_batched(make("y[i] = a*x[i]", [lp.GlobalArg("x, y", shape=8), lp.ValueArg("a"), ...]), 3, {"y", "x"})
    x = np.arange(24.).reshape(3, 8)
    assert unit(x=x, a=2.)[1][0].tolist() == (2*x).tolist()


def test_inames_and_predicates_of_statements() -> None:
    unit = make("<> t = x[i] {id=first}\ny[i, j] = t {id=second, if=x[i] > 0}", domains="{[i,j]: 0<=i,j<8}")
    added = lp.add_inames_to_insn(unit, frozenset("j"), "id:first")
    assert text_of(added)[0] == "for i, j"
    assert text_of(lp.remove_inames_from_insn(added, frozenset("j"), "id:first")) == text_of(unit)
    assert "if=" not in "".join(text_of(lp.remove_predicates_from_insn(unit, frozenset(["x[i] > 0"]), "id:second")))


def test_a_dependence_may_reorder_instructions_that_share_no_data() -> None:
    unit = make("y[i] = x[i] {id=a}\nz[i] = x[i] {id=b}\nw[i] = y[i] {id=c}")
    assert "dep=a" in text_of(lp.add_dependency(unit, "id:b", "id:a"))[2]
    with pytest.raises(PreconditionError, match="'id:nothing' selects no statement"):
        lp.add_dependency(unit, "id:b", "id:nothing")
    turned = lp.add_dependency(unit, "id:a", "id:b")
    assert [i.id for i in turned.default_entrypoint.instructions] == ["b", "a", "c"]
    with pytest.raises(IllegalTransformError):
        lp.add_dependency(unit, "id:a", "id:c")


def test_a_compiler_that_does_not_exist() -> None:
    unit = make("y[i] = 2*x[i]").copy(target=lp.ExecutableCTarget(compiler=CCompiler(cc="no_such_compiler")))
    with pytest.raises(ExecError, match="'no_such_compiler' does not compile a small program") as caught:
        unit(x=np.arange(8.))
    assert isinstance(caught.value, lp.LoopyError)


def test_a_derivative() -> None:
    unit = make("y[i] = x[i]*x[i]")
    derived, names = diff_kernel(unit, "y", "x")
    out = derived(x=np.arange(8.))[1]
    assert names == {"y": "y_dx"}
    assert any(np.array_equal(a, np.diag(2*np.arange(8.))) for a in out)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_split_axis(order: str) -> None:
    unit = make("y[i] = 2*x[i]", [lp.GlobalArg("x", order="C"), ...])
    unit = lp.split_array_dim(unit, [("x", 0, order), ("y", 0)], 4, split_kwargs={"inner_tag": "unr"})
    x = np.arange(8.).reshape(2, 4)
    assert unit(x=x if order == "C" else x.T)[1][0].tolist() == (2*x).tolist()


def test_memory_of_temporaries() -> None:
    data = [lp.TemporaryVariable("c", initializer=np.arange(8.), read_only=True),
            lp.TemporaryVariable("s", shape=(8,), base_storage="both"),
            lp.TemporaryVariable("t", shape=(8,), base_storage="both"), ...]
    unit = make("s[i] = x[i] + c[i]\ny[j] = s[7 - j]\nt[k] = y[k]\nz[l] = t[7 - l]", data,
                "{[i,j,k,l]: 0<=i,j,k,l<8}", seq_dependencies=True)
    joined = lp.allocate_temporaries_for_base_storage(lp.add_dtypes(unit, {"x": np.float64}))
    assert "both" in joined.default_entrypoint.core.temporaries
    assert joined(x=np.zeros(8))[1][1].tolist() == list(range(8))
    with pytest.raises(PreconditionError, match="max_nbytes"):
        lp.allocate_temporaries_for_base_storage(unit, max_nbytes=8)


@pytest.mark.parametrize("layout", [{"order": "F"}, {"dim_tags": "N0,N1"}, {"strides": (1, 8)},
                                    {"dim_tags": ["stride:1", "stride:8"]}])
def test_declared_layouts_are_checked(layout: dict[str, Any]) -> None:
    unit = make("y[i, j] = 2*x[i, j]", [lp.GlobalArg("x", **layout), ...], "{[i,j]: 0<=i,j<8}")
    x = np.arange(64.).reshape(8, 8)
    assert unit(x=x.T)[1][0].tolist() == (2*x.T).tolist()
    with pytest.raises(CallError, match="stride"):
        unit(x=x)


def test_a_separated_axis() -> None:
    unit = make("x[k, i] = k*y[i]", [lp.GlobalArg("x", shape=("m", 8), dim_tags="sep,C"), ...],
                "{[i, k]: 0<=i<8 and 0<=k<m}", fixed_parameters={"m": 3})
    x = [np.empty(8) for _ in range(3)]
    _, out = unit(x=x, y=np.arange(8.))
    assert all(a is b for a, b in zip(x, out, strict=True))
    assert np.array_equal(x, np.outer(range(3), range(8)))
    _, out = unit(x=np.empty((3, 8)), y=np.arange(8.))
    assert out[2].tolist() == (2*np.arange(8.)).tolist()


def test_padding_of_an_argument() -> None:
    unit = make("y[i, j] = 2*x[i, j]", [lp.GlobalArg("x", np.float32), ...], "{[i,j]: 0<=i<n and 0<=j<10}")
    assert lp.find_padding_multiple(unit, "x", 0, 16) == 3
    padded = lp.add_padding(unit, "x", 0, 16)
    x = np.ones((3, 12), np.float32)[:, :10]
    assert (padded(x=x)[1][0] == 2).all()
    with pytest.raises(CallError, match="stride 12"):
        padded(x=x.copy())
    with pytest.raises(PreconditionError, match="no axis 2"):
        lp.find_padding_multiple(unit, "x", 2, 16)


def test_assumptions_are_about_the_kernels_with_their_parameters() -> None:
    function = lp.make_function("{[i]: 0<=i<4}", "b[i] = a[i]", name="f")
    unit = lp.merge([lp.make_kernel("{[j]: 0<=j<n}", "y[j,:] = f(x[j,:])"), function])
    assumed = lp.assume(unit, "n >= 8")
    assert "n >= 8" in str(assumed.default_entrypoint.assumptions)
    assert "n" not in str(assumed["f"].assumptions).partition(":")[2]
    with pytest.raises(UnknownNameError, match="'m' is not a parameter"):
        lp.assume(unit, "m >= 8")
