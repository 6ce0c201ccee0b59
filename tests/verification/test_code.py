"""Code generation checks first, lists the result in the text, and has an option without checks."""
from __future__ import annotations

import pickle

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.kernel.statement import Obligation
from tests.cases import csr_matvec, matmul_tiled
from tests.lowering.kernels import F32, exchange, make


def early() -> lk.LoopKernel:
    """Reads what nobody wrote where n is 0."""
    return make("{[i]: 0<=i<n}", """
        for i
            <> t = x[i]
        end
        y[0] = t {inames=}
        """, x=F32)


def head(text: object) -> list[str]:
    lines = str(text).split("\n")
    return lines[:lines.index("")] if lines[0].startswith("//") else []


def test_the_head_of_a_text() -> None:
    assert head(lk.generate_code(matmul_tiled())) == [
        "// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 2, each needed"]


def test_the_head_says_what_is_not_proven() -> None:
    lines = head(lk.generate_code(csr_matvec()))
    assert lines[0] == "// proven: order (6 dependences), no read before a write, no races"
    assert lines[1:] == [
        "// undecided: whether 'insn_1.jj.update' stays inside 'val': a bound is read from memory.",
        "// undecided: whether 'insn_1.jj.update' stays inside 'col': a bound is read from memory.",
        "// undecided: whether 'insn_1.jj.update' stays inside 'x': a subscript is read from memory."]


def test_the_head_lists_obligations() -> None:
    knl = annotated(matmul_tiled(), obligations=(
        Obligation("tag_inames(i)", "rows never meet", "they are " + "long and "*12 + "sorted"),
        Obligation("tag_inames(j)", "columns never meet")))
    lines = head(lk.generate_code(knl))
    assert lines[1].startswith("// assumed: tag_inames(i): rows never meet (they are long and long")
    assert lines[2].startswith("//   long and")
    assert lines[3] == "// unsafe: tag_inames(j): columns never meet"
    assert max(map(len, lines)) <= 110


def test_without_comments_there_is_no_head() -> None:
    assert head(lk.generate_code(lk.set_options(matmul_tiled(), annotate=False))) == []


def test_refuted_kernels_have_no_text() -> None:
    with pytest.raises(lk.VerificationError, match="before anything is written"):
        lk.generate_code(early())
    with pytest.raises(lk.VerificationError, match="before anything is written"):
        lk.compile(early(), target="c")(x=np.ones(3, F32))


@pytest.mark.parametrize("off", [False, "off"])
def test_checks_can_be_left_out(off: bool | str) -> None:
    code = lk.generate_code(early(), verify=off)
    assert head(code) == []
    assert code == lk.generate_code(lk.set_options(early(), verify="off"))
    y, = lk.compile(lk.set_options(early(), verify="off"), target="c")(x=np.ones(3, F32))
    assert y == 1


def test_an_argument_outweighs_the_option() -> None:
    knl = lk.set_options(early(), verify="off")
    with pytest.raises(lk.VerificationError):
        lk.generate_code(knl, verify=True)


@pytest.mark.deep
@pytest.mark.parametrize("extent", [True, "on"])
def test_the_default(extent: bool | str) -> None:
    assert lk.generate_code(matmul_tiled(), verify=extent) == lk.generate_code(matmul_tiled())


def test_compiling_takes_the_same_argument() -> None:
    x = np.ones(3, F32)
    y, = lk.compile(early(), target="c", verify="off")(x=x)
    assert y == 1
    off = lk.set_options(early(), verify="off")
    for verify in ("on", True, "full"):
        with pytest.raises(lk.VerificationError, match="before anything is written"):
            lk.compile(off, target="c", verify=verify)(x=x)
    compiled = lk.compile(off, target="c", verify="on")
    assert compiled.kernel is off
    with pytest.raises(lk.VerificationError):
        pickle.loads(pickle.dumps(compiled))(x=x)


def test_a_compiled_text_says_what_was_checked() -> None:
    def head_of(verify: bool | str | None) -> list[str]:
        return lk.compile(exchange(), target="cuda", verify=verify).source.splitlines()
    proven = "// proven: order (1 dependence), in bounds, no read before a write, no races"
    assert head_of("full")[0] == f"{proven}, program"
    assert head_of("on")[0] == head_of(None)[0] == proven
    assert not head_of(False)[0].startswith("// proven")


def test_full_checks_validate_the_program() -> None:
    assert head(lk.generate_code(exchange(), verify="full")) == [
        "// proven: order (1 dependence), in bounds, no read before a write, no races, program"]
    assert lk.verify(exchange(), full=True)["program"].verdict is lk.Verdict.PROVEN


@pytest.mark.parametrize("wrong", ["all", ""])
def test_wrong_extents(wrong: str) -> None:
    with pytest.raises(lk.PreconditionError, match="is not an extent of checks"):
        lk.generate_code(matmul_tiled(), verify=wrong)
    with pytest.raises(lk.PreconditionError, match="is not an extent of checks"):
        lk.compile(matmul_tiled(), target="c", verify=wrong)
    with pytest.raises(lk.PreconditionError, match="option 'verify'"):
        lk.set_options(matmul_tiled(), verify=wrong)


def test_a_report_prints_and_compares() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    report = lk.verify(knl)
    assert report == lk.verify(knl)
    assert report.raise_if_refuted() is report
    assert str(report).splitlines() == [
        "kernel 'kernel': proven",
        "  order     proven     1 dependence",
        "  bounds    proven     4 accesses",
        "  coverage  proven     t: written before read",
        "      y: every element is written once",
        "  races     proven     t, y: written, and shared between threads",
        "  barriers  proven     1, each needed",
        "      kernel: barrier",
        "        t: write writes, read reads"]
    assert "every element is written once" in report._repr_html_()
    assert [c.name for c in report.checks] == ["order", "bounds", "coverage", "races", "barriers"]
    with pytest.raises(KeyError):
        report["weather"]


def test_kernels_only() -> None:
    for check in (lk.verify, lk.check_legal, lk.check_races, lk.check_bounds, lk.check_coverage, lk.check_barriers):
        with pytest.raises(lk.PreconditionError, match="knl= must be a LoopKernel, not 'y"):
            check("y[i] = x[i]")                                    # type: ignore[arg-type]


def test_no_words_of_the_users_leave_the_comment() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[place[i]] = x[i]"), {"place": np.int32, "x": np.float32})
    text = str(lk.generate_code(lk.tag_inames(knl, "i:g.0", assume="it is\nso\\")))
    head = text[:text.index('extern "C"')].splitlines()
    assert "it is so" in " ".join(line.strip("/ ") for line in head)
    assert all(line == "" or line.startswith("//") for line in head)
    assert not any(line.endswith("\\") for line in head)
