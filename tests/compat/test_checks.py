"""loopy's errors where its users rely on them, and arguments that the layer uses or refuses."""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from pymbolic import var

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.target.c.c_execution import CCompiler
from loopkit.errors import CallError, PreconditionError, TypeInferenceError, UnknownNameError


def make(text: object = "y[i, j] = 2*x[i, j]", domains: str = "{[i,j]: 0<=i<n and 0<=j<m}", **given: object
         ) -> lp.TranslationUnit:
    return lp.make_kernel(domains, text, **{"target": lp.ExecutableCTarget(), **given})


def in_one_memory(*text: str) -> lp.TranslationUnit:
    return make(text, "{[i,j]: 0<=i,j<4}", kernel_data=[
        *(lp.TemporaryVariable(x, np.int32, shape=(8,), base_storage="base") for x in "ab"), "..."])


def called(index_dtype: object, other: object) -> lp.TranslationUnit:
    twice = lp.make_function("{[i]: 0<=i<4}", "y[i] = 2*x[i]", name="twice", index_dtype=other)
    return lp.merge([make("[i]: y[i] = twice([i]: x[i])", "{[i]: 0<=i<4}", index_dtype=index_dtype), twice])


@pytest.mark.parametrize(("wrong", "error", "message"), [
    (lambda: lp.TypeCast(np.dtype([("", "<u4"), ("", "<i4")]), 1), TypeInferenceError, "cannot be converted"),
    (lambda: lp.preprocess_kernel(make("y[i, j] = make_two(i)")), UnknownNameError, "make_two.*\n.*lp.merge"),
    (lambda: lp.infer_unknown_types(make(), expect_completion=True), TypeInferenceError, "'x'"),
    (lambda: lp.fix_parameters(make(), n=3, within="id:insn"), PreconditionError, "within"),
    (lambda: make(target=lp.ExecutableCTarget(CCompiler(libraries=["m"])))(x=np.ones((2, 2))),
     PreconditionError, "libraries"),
    (lambda: make()(np.ones((2, 2))), CallError, "by their names"),
    (lambda: make().executor()(entrypoint="other"), CallError, "'other'"),
    (lambda: lp.add_nosync(make(), "any", "id:insn", "id:other"), PreconditionError, "'id:other'"),
    (lambda: make("y[i, j] = 2 {atomic=all}"), lp.LoopyError, "atomic"),
    (lambda: lp.map_instructions(make(), None, lambda s: s.copy(atomicity=("y",))), PreconditionError, "atomic"),
    (lambda: make(state=3), UnknownNameError, "state"),
    (lambda: make(assumption=""), UnknownNameError, "did you mean 'assumptions'"),
    (lambda: make(target="c"), PreconditionError, "'c' is not a target"),
    (lambda: make("y[i, j] = 2*x[i, j] {inames=q}"), UnknownNameError, "'q' is not an iname"),
    (lambda: make("for q\n y[i, j] = 2*x[i, j]\n end"), UnknownNameError, "'q' is not an iname"),
    (lambda: lp.assume(make(), "q > 0"), UnknownNameError, "there are m, n"),
    (lambda: lp.tag_inames(make(), "i=l.0"), PreconditionError, "'i=l.0' is not an iname with a tag"),
    (lambda: lp.to_loopy_type("float31"), TypeInferenceError, "dtypes are"),
    (lambda: lp.skew, AttributeError, "Use lk.skew"),
    (lambda: lp.splitt_iname, AttributeError, "Use split_iname"),
    (lambda: lp.generate_code_v2(lp.tag_inames(make(), "i:l.0,j:l.0")), PreconditionError, "axis l.0: 'i' and 'j'"),
    (lambda: lp.linearize(lp.tag_inames(make(), "i:g.1,j:g.1")), PreconditionError, "axis g.1"),
    (lambda: lp.generate_code_v2(in_one_memory("a[i] = 12", "b[i+3] = 13")),
     lp.diagnostic.VariableAccessNotOrdered, "same elements of 'base'"),
    (lambda: lp.generate_code_v2(called(np.int32, np.int64)), PreconditionError, "int64"),
])
def test_what_has_no_meaning_here_is_refused(wrong: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


@pytest.mark.parametrize(("dropped", "message"), [
    (lambda: lp.add_dtypes(make(), {"z": np.float32}), "'z'"),
    (lambda: lp.prioritize_loops(make(), "j,i,q"), "'q'"),
    (lambda: make(options="edit_code"), "edit_code"),
    (lambda: make(options={"trace_assignments": True}), "loopkit.interpreter"),
])
def test_what_changes_no_value_is_dropped_with_a_warning(dropped: Callable[[], object], message: str) -> None:
    with pytest.warns(lp.LoopyWarning, match=message):
        dropped()


def test_kernels_that_the_checks_of_their_memory_and_indices_accept() -> None:
    for kernel in (in_one_memory("a[i] = 12", "b[i+4] = 13"), in_one_memory("a[i] = 12 {id=a}", "b[i] = 13 {dep=a}"),
                   called(np.int64, "int64"), called(None, np.int32)):
        lp.generate_code_v2(lp.add_dtypes(kernel, {"x": np.float32}) if "twice" in kernel.kernels else kernel)
    assert called(np.int64, None)["loopy_kernel"].index_dtype.numpy_dtype == np.int64


def test_a_temporary_without_a_writer_is_the_memory_of_another_one() -> None:
    unit = in_one_memory("a[i] = 3*i {id=a}", "y[j] = b[3-j] {dep=a}")
    assert unit()[1][0].tolist() == [9, 6, 3, 0]
    with pytest.raises(lp.diagnostic.MissingDefinitionError, match="'b' is read but never written"):
        make(["a[i] = 1", "y[i] = b[i]"], "{[i]: 0<=i<4}", kernel_data=[
            lp.TemporaryVariable("a", np.int32, shape=(4,), base_storage="base"),
            lp.TemporaryVariable("b", np.float32, shape=(4,), base_storage="base"), "..."])


def test_a_write_race_along_ilp_gives_a_warning() -> None:
    unit = lp.tag_inames(make("y[i] = i + j\nx[i, j] = j\n<> t = j\nz[i, j] = t", "{[i,j]: 0<=i,j<4}"), "j:ilp")
    with pytest.warns(lp.diagnostic.WriteRaceConditionWarning, match="'insn'.*value of the last one") as found:
        lp.linearize(lp.preprocess_kernel(unit))
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.linearize(unit.mapped(lambda kernel: kernel.copy(silenced_warnings=frozenset({"write_race(insn)"}))))


def test_a_value_of_all_threads_is_stored_once() -> None:
    """The iname of a statement may come after its tag."""
    unit = make("a[i,j] = 5 {id=a}\nb[i] = 2*i {id=b, dep=a}", "{[i,j]: 0<=i<6 and 0<=j<n}")
    unit = lp.split_iname(lp.tag_inames(unit, "i:g.0"), "j", 4, outer_tag="g.1", inner_tag="l.0")
    unit = lp.add_inames_to_insn(unit, "j_outer, j_inner", "id:b")
    assert unit(n=6)[1][1].tolist() == [0, 2, 4, 6, 8, 10]
    unit = lp.tag_inames(make("a[i,j] = 5 {id=a}\nb[i] = b[i] + 1 {id=b, dep=a}", "{[i,j]: 0<=i,j<4}"), "j:l.0")
    with pytest.raises(lp.LoopyError, match="at once"):
        lp.add_inames_to_insn(unit, "j", "id:b")


def test_a_kernel_without_its_functions_prints() -> None:
    assert "'make_two' is not a function" in str(make("y[i, j] = make_two(i)"))


def test_the_order_of_axes_and_loops_of_make_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    """Also the generated text has the order, in which another program may call it."""
    unit = make(default_order="F", loop_priority=frozenset([("j", "i")]), options="write_code")
    x = np.asfortranarray(np.arange(6.).reshape(2, 3))
    _, (y,) = unit(x=x)
    assert y.flags.f_contiguous
    assert y.tolist() == (2*x).tolist()
    text = capsys.readouterr().out
    assert "y[i*y_stride_0 + j*y_stride_1]" in text
    assert text.index("int j = 0") < text.index("int i = 0")
    with pytest.raises(CallError, match="stride"):
        unit(x=np.ascontiguousarray(x))


def test_the_compiler_and_its_options_are_those_of_the_target() -> None:
    found = lp.ExecutableCTarget(CCompiler(cc="gcc-9", cflags=["-O1"], defines=["X"])).core_target(["-g"])
    assert (found.compiler, found.options) == ("gcc-9", ("-O1", "-DX", "-g"))  # type: ignore[attr-defined]
    assert lp.PyOpenCLTarget("device").device == "device"


def test_the_compiler_is_a_toolchain_of_codepy(monkeypatch: pytest.MonkeyPatch) -> None:
    codepy = ModuleType("codepy.toolchain")
    monkeypatch.setattr(codepy, "GCCToolchain", SimpleNamespace, raising=False)
    monkeypatch.setitem(sys.modules, "codepy", ModuleType("codepy"))
    monkeypatch.setitem(sys.modules, "codepy.toolchain", codepy)
    made = CCompiler(cc="gcc-9", defines=["X"], libraries="m").toolchain
    assert (made.cc, made.defines, made.libraries, made.ldflags) == ("gcc-9", ["X"], ["m"], ["-shared"])
    assert CCompiler(cflags=["-O1"]).toolchain.cflags == ["-O1"]


def test_one_iname_of_a_reduction_may_stand_alone() -> None:
    unit = make([lp.Assignment("y[i]", lp.Reduction("sum", var("j"), var("x")[var("i"), var("j")]))])
    assert unit(x=np.arange(6.).reshape(2, 3))[1][0].tolist() == [3, 12]


def test_a_header_declares_the_functions_of_the_target() -> None:
    unit = lp.add_dtypes(make("y[i] = k[i]/2", "{[i]: 0<=i<4}", name="halves"), {"k": np.int8})
    assert lp.generate_header(unit) == ["void halves(const signed char *__restrict__ k, double *__restrict__ y);"]
    assert lp.generate_header(unit.copy(target=lp.CudaTarget()))[0].startswith('extern "C" __global__ void')
    assert lp.generate_header(unit.copy(target=lp.OpenCLTarget()))[0].startswith("__kernel ")


def test_renaming_obeys_within_and_tags() -> None:
    unit = make("a[i] = 1 {id=a}\nb[i] = 2 {id=b, dep=a}\nc[j] = 3 {id=c, dep=b}", "{[i,j]: 0<=i,j<4}")
    unit = lp.tag_inames(unit, {"j": "unr"})
    new = lp.rename_iname(unit, "j", "k", preserve_tags=False)
    assert not new["loopy_kernel"].iname_tags("k")
    assert lp.rename_iname(unit, "j", "k")["loopy_kernel"].iname_tags("k")
    assert not lp.untag_inames(unit, "j")["loopy_kernel"].iname_tags("j")
    assert lp.untag_inames(unit, "j", str)["loopy_kernel"].iname_tags("j")
    with pytest.raises(lp.LoopyError):
        lp.rename_iname(unit, "j", "i")


def test_dependences_of_mapped_statements_stay() -> None:
    unit = make("a[i] = 1 {id=a}\nb[i] = 2 {id=b}\n... gbarrier {id=bar, dep=b}", "{[i]: 0<=i<4}")
    new = lp.map_instructions(unit, "id:b", lambda s: s.copy(depends_on=s.depends_on | {"a"}))
    assert "dep=a" in new["loopy_kernel"].core.statements_text
    with pytest.raises(lp.LoopyError):
        lp.map_instructions(unit, "id:a", lambda s: s.copy(depends_on=frozenset({"b"})))
    with pytest.raises(lp.LoopyError):
        lp.add_dependency(unit, "id:a", "id:bar")
