"""Every public object shows itself in a line, as text and as HTML of the same content."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymbolic.primitives import ExpressionNode

import loopkit as lk
from loopkit.analysis.dependences import dependences
from loopkit.lowering.pipeline import STAGES
from loopkit.runtime.results import Timing, TimingRequest
from loopkit.show.document import Code, CodeFold, Document, Fold, Paragraph, Picture, Span, Table, plain
from loopkit.show.documents import _DOCUMENTS, document
from loopkit.show.html import as_html
from loopkit.show.pictures import PICTURES
from loopkit.show.text import as_text
from loopkit.shown import Declared, Shown
from tests.cases import CASES
from tests.golden_files import GoldenFiles

BY_NAME = {case.name: case for case in CASES}

#: Elements without an end tag.
VOID = {"br", "hr", "img", "meta"}


class Reader(HTMLParser):
    """The words of an HTML text, without its style; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.opened

    @property
    def words(self) -> list[str]:
        return self.text.split()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe")
        assert not [value for name, value in attrs if name in ("src", "href") or name.startswith("on")]
        if tag not in VOID:
            self.opened.append(tag)
        self.text += "" if tag == "span" else " "

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.opened:
            self.text += data


def kernel(name: str) -> lk.LoopKernel:
    return BY_NAME[name].make()


def refusal() -> lk.IllegalTransformError:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "a[i+1] = a[i] + b[i]")
    with pytest.raises(lk.IllegalTransformError) as found:
        lk.tag_inames(knl, {"i": "g.0"})
    return found.value


def uncovered() -> lk.Report:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\n<> t[i] = x[i] {if=i>0}\ny[i] = t[i]\nend")
    return lk.check_coverage(lk.add_dtypes(knl, {"x": np.float32}))


@cache
def samples() -> dict[str, Any]:
    """An object of each public type, and of those that one meets through it."""
    knl = lk.split_iname(kernel("vector_add"), "i", 16)
    again = lk.split_iname(kernel("vector_add"), "i", 32)
    compiled = lk.compile(knl, "c")
    out = compiled(**{name: np.ones(40, np.float32) for name in ("x", "y")})
    error, report = refusal(), uncovered()
    replay = error.replay(a=np.array([1., 0., 0.]), b=np.array([2., 3.]))
    equal = lk.check_equivalent(kernel("vector_add"), knl, {"n": 20}, "c")
    sums = lk.ReductionOperation("both", "a + b", neutral=0)
    finding = next(f for check in report.checks for f in check.findings)
    assert isinstance(finding.error, lk.VerificationError)
    found = [
        knl, knl.history, knl.history[0], again.history.diff(knl.history), knl.arguments[0], knl.arguments[-1],
        knl.instructions[0], knl.instructions[0].place, knl.domains[0], knl.options, compiled, out, error,
        error.witness, replay, replay.differing[0], report, report.checks[0], finding, finding.error.witness, equal,
        equal.outputs[0], equal.runs[0], Timing.of([1e-3, 2e-3, 3e-3], TimingRequest()), lk.generate_code(knl),
        lk.generate_code(knl).kernels[0], lk.CudaTarget(arch="sm_90"), lk.CTarget(), sums,
        lk.TemporaryVariable("t", np.float32, (4,), lk.AddressSpace.LOCAL), lk.GlobalArg("x", np.float32, ("n",)),
        lk.ValueArg("n"), lk.Options(min_blocks=2), lk.SubstitutionRule("f", ("x",), 2),
        lk.ScalarFunction("f", 1, text={"c": "sqrt"}), lk.CInstruction("i", "$y = 1;", (), "y[i]"),
        lk.CallInstruction(lk.SubArrayRef("j", "y[i, j]"), "twice", ("x[i, :]",)), lk.SubArrayRef("j", "y[i, j]")]
    counts = lk.get_mem_access_map(knl)
    found += [lk.diff(knl, again), again.history.show(), lk.explain(knl), counts, *list(counts)[:1],
              next(iter(counts.values())), lk.Op(np.float32, "add"), lk.Synchronization("kernel_launch"),
              lk.OpenCLTarget()]
    return {type(x).__name__: x for x in found} | {f"stage {s.name}": lk.lower(kernel("transpose"), stop=s.name)
                                                   for s in STAGES} | {
        "storage": lk.lower(kernel("transpose")).storages["a_fetch"], "launch": lk.lower(knl).launches[0],
        "schedule": lk.lower(knl).scheduled} | {
        f"picture {name}": kernel("matmul_tiled").plot(name) for name in PICTURES} | {"picture error": error.plot()}


NAMES = list(samples())

each = pytest.mark.parametrize("name", NAMES)


def test_no_public_type_is_left_out() -> None:
    types = [getattr(lk, name) for name in lk.__all__ if isinstance(getattr(lk, name), type)]
    for cls in types:
        assert issubclass(cls, (Shown, Enum, Warning, ExpressionNode)), cls          # nodes print in the language
        if not issubclass(cls, (lk.LoopkitError, Enum, Warning, ExpressionNode)):
            assert any(isinstance(x, cls) for x in samples().values()), cls


def test_every_type_has_a_text_or_a_document() -> None:
    """The text of a type that had neither would be made of its text."""
    def below(cls: type) -> Iterator[type]:
        for own in cls.__subclasses__():
            yield from (own, *below(own))
    assert {cls for cls in below(Shown) if cls.__str__ is Shown.__str__} <= {
        own for cls in _DOCUMENTS for own in (cls, *below(cls))}


def test_parts_of_larger_objects_have_a_text() -> None:
    knl = lk.make_kernel("{[i]: 1<=i<n}", "y[i] = y[i-1] + x[i]", name="sums")
    assert [str(d) for d in dependences(knl)] == [
        "flow dependence of y, insn to insn: [n] -> { [i] -> [i' = 1 + i] : 0 < i <= -2 + n }"]
    change, = lk.split_iname(knl, "i", 4).history.diff(lk.split_iname(knl, "i", 8).history).changes
    assert str(change).splitlines()[0] == "- 1  knl = lk.split_iname(knl, 'i', 4)"


@each
def test_the_short_form_is_one_line_and_no_dump(name: str) -> None:
    value = samples()[name]
    text = repr(value)
    if not isinstance(value, lk.Outputs):               # whose arrays print as numpy's
        assert "\n" not in text
    if isinstance(value, Declared):
        assert re.fullmatch(r"\w+\(.*\)", text)
    elif is_dataclass(value):
        assert re.fullmatch(rf"<{type(value).__name__} .+>", text)


@each
def test_text_and_html_have_the_same_words(name: str) -> None:
    value = samples()[name]
    words = set(Reader(value._repr_html_()).words)
    lines = str(value).splitlines()
    assert lines
    assert all("dtype(" not in line and "frozenset(" not in line and "<loopkit." not in line for line in lines)
    if isinstance(value, lk.Outputs | lk.CompiledKernel):
        return                                      # arrays print as Python's; a compiled kernel shows its kernel
    # titles of parts are in capitals in the text
    known = {word.upper() for word in words}
    assert [w for line in lines for w in line.split() if w.upper() not in {*known, "..."}] == []


@each
def test_colours_change_no_word(name: str) -> None:
    value = samples()[name]
    if type(value).__str__ is Shown.__str__:
        assert value.__rich__().plain.split() == str(value).split()
    assert value.__rich__().plain


def test_a_declaration_leaves_defaults_out() -> None:
    assert repr(lk.GlobalArg("x")) == "GlobalArg(name='x')"
    assert repr(lk.Options()) == "Options()"
    assert repr(lk.TemporaryVariable("t", np.dtype(np.float32), (4,), lk.AddressSpace.LOCAL)) == \
        "TemporaryVariable(name='t', dtype=float32, shape=(4,), address_space=shared)"


# The card of a kernel

CARDS = ("vector_add", "matmul_tiled", "two_launches", "jacobi", "softmax_by_block", "scan_by_block")


@pytest.mark.parametrize("name", CARDS)
def test_cards(name: str, golden: GoldenFiles) -> None:
    golden.check(f"cards/{name}.txt", kernel(name))


@pytest.mark.deep(4)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_has_a_card(name: str) -> None:
    text = str(kernel(name))
    assert "not known" not in text
    assert all(x in text for x in ("ARGUMENTS", "DOMAINS", "STATEMENTS", "AS IT RUNS"))
    for storage in lk.lower(kernel(name)).storages.values():
        assert storage.name in text.partition("WHERE VALUES LIVE")[2]
    Reader(kernel(name)._repr_html_())


def test_a_kernel_that_cannot_be_lowered_says_why() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    assert "not known yet: The dtype of the argument 'x'" in str(knl)


def test_each_verdict_on_a_step_is_explained() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[place[i]] = x[i]")
    notes = {"structural": str(lk.set_options(knl, full_tiles=False)),
             "assumed": str(lk.tag_inames(knl, "i:g.0", assume="a permutation")),
             "unsafe": str(lk.tag_inames(knl, "i:g.0", unsafe=True))}
    for verdict, text in notes.items():
        explained = re.findall(r"^  (?:.*; )?(\w+): the step", text.partition("STEPS")[2], re.MULTILINE)
        assert explained == [verdict]


@pytest.mark.parametrize(("readers", "reason", "way_out"), [
    ("p:g.0, q:l.0", "each thread reads its own values, whose number depends on the sizes", "join the loops"),
    ("p:g.0", "threads of a block read each other's values, whose number depends on the sizes", "join the loops"),
    ("q:l.0", "written by halves_0, read by halves_1", "into one launch")])
def test_the_reason_of_a_place_in_memory(readers: str, reason: str, way_out: str) -> None:
    knl = lk.make_kernel("{[t,i,j,p,q]: 0<=t<steps and 0<=i,p<n and 0<=j,q<32}", """
        for t
            for i
                for j
                    <> v[i,j] = u[t%2,i+1,j]
                end
            end
            for p
                for q
                    u[(t+1)%2,p,q] = v[p,q]
                end
            end
        end""", name="halves")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"u": np.float32}), f"i:g.0, j:l.0, {readers}")
    text = str(knl)
    assert "a loop over t on the host" in text.splitlines()[1]
    assert reason in text
    assert way_out in " ".join(str(lk.explain(knl)).split())


def test_an_extent_that_depends_on_data_is_explained() -> None:
    assert "?: the extent depends on data" in str(kernel("csr_matvec"))
    assert "?:" not in str(kernel("matmul_tiled"))


def test_global_scratch_is_a_warning() -> None:
    html = kernel("two_launches")._repr_html_()
    assert '<span class="warning">global memory</span>' in html
    assert "<span class=\"warning\">global memory</span>" not in kernel("matmul_tiled")._repr_html_()


def test_shared_bytes_of_the_card_are_those_of_the_code() -> None:
    for name in ("matmul_tiled", "transpose", "softmax_by_block"):
        (launch,) = lk.generate_code(kernel(name)).kernels
        assert f"{launch.name}: {launch.shared_bytes} bytes of shared memory a block" in str(kernel(name))


# Code

def test_lines_of_code_name_their_statements() -> None:
    knl = kernel("matmul_tiled")
    code = lk.generate_code(knl)
    html = code._repr_html_()
    (line,) = re.findall(r'<span title="([^"]*)">[^\n]*acc_k \+=[^\n]*__fma', html)[:1] or re.findall(
        r'<span title="([^"]*)"><span class="margin">insn', html)[:1]
    assert line.startswith("insn")
    assert code.source == str(code)


def margins(code: lk.GeneratedCode) -> dict[str, Span]:
    block = document(code).body[0]
    assert isinstance(block, Code)
    return {span.text.partition(" ")[0]: span for span in block.margin}


def test_lines_of_code_name_the_steps_of_their_statements() -> None:
    knl = kernel("transpose_swizzled")
    found = margins(lk.generate_code(knl))
    numbers = {step.name: number for number, step in enumerate(knl.history, 1)}
    rule = found["a_fetch_rule"]
    assert f"made by step {numbers['add_prefetch']}: add_prefetch(knl, 'a'" in rule.hint
    assert f"changed by step {numbers['swizzle']}: swizzle(knl, 'a_fetch'" in rule.hint
    assert "as written" not in rule.hint
    assert "as written" in found["insn"].hint
    assert str(numbers["add_dtypes"]) not in found["insn"].text.split()
    assert all(step.name in str(lk.generate_code(knl).__rich__()) for step in knl.history)


def test_statements_of_lowering_have_the_steps_of_their_reduction() -> None:
    code = lk.generate_code(kernel("softmax_by_block"))
    found = margins(code)
    assert found["insn.k.store"].text.partition(" ")[2] == found["insn.k.update"].text.partition(" ")[2] != ""
    block = document(code).body[0]
    assert isinstance(block, Code)
    assert {span.text.partition(" ")[0] for line, span in zip(block.lines, block.margin, strict=True)
            if "_warp =" in line or "_shfl" in line} == {"insn.k.store", "insn_0.k.store"}


def test_a_kernel_without_a_history_has_code_without_steps() -> None:
    knl = kernel("vector_add_mapped")
    bare = knl.with_history(lk.History(), knl.given_pairs)
    assert margins(lk.generate_code(bare))["insn"].text == "insn"


@pytest.mark.parametrize(("target", "name"), [
    ("cuda", "matmul_tiled"), ("cuda", "stencil_2d_vec"), ("cuda", "matmul_large_tiles"), ("c", "transpose")])
def test_versions_of_the_code_are_folds(target: str, name: str) -> None:
    code = lk.generate_code(kernel(name), target)
    block = document(code).body[0]
    assert isinstance(block, Code)
    lines = code.source.splitlines()
    assert sum("a full tile" in lines[fold.body - 1] for fold in block.folds) == code.source.count("a full tile")
    for fold in block.folds:
        indent = len(lines[fold.start]) - len(lines[fold.start].lstrip())
        assert lines[fold.body - 1].partition("  //")[0].endswith("{")
        assert lines[fold.end].startswith(" "*indent + "}")
        assert all(line.startswith(" "*(indent + 1)) for line in lines[fold.body:fold.end] if line)
    html = code._repr_html_()
    assert html.count("<details open><summary><span") == len({fold.start for fold in block.folds})


def test_folded_code_keeps_all_lines() -> None:
    code = Code(("a", "if {", "  b", "", "} else {", "  c", "}"), "", (), (CodeFold(1, 2, 4), CodeFold(4, 5, 6)))
    html = as_html(Document("", (code,)))
    assert html.endswith('<div class="code"><pre>a</pre><details open><summary>if {</summary><pre>  b\n\n</pre>'
                         '</details><details open><summary>} else {</summary><pre>  c</pre></details><pre>}</pre>'
                         '</div></div>')
    assert as_text(Document("", (code,))) == "\n".join(map(str, code.lines))


def test_steps_have_the_cost_after_each() -> None:
    shown = kernel("matmul_tiled").history.show()
    (table,) = (part for block in document(shown).body[:1] if isinstance(block, Fold) for part in block.body)
    assert isinstance(table, Table)
    rows = [[plain(cell) for cell in row] for row in table.rows]
    assert [row[0] for row in rows] == [str(number) for number in range(len(shown.kernels))]
    assert [row[1] for row in rows] == ["make_kernel", *(step.name for step in shown.history)]
    assert [row[3] for row in rows[1:]] == ["1", "16", "256", "256", "256", "256"]
    assert [row[5] for row in rows[1:]] == ["0", "0", "0", "0", "1024", "2048"]
    assert rows[0][2] == "not known"
    (launch,) = lk.generate_code(shown.kernels[-1]).kernels
    assert rows[-1][5] == str(launch.shared_bytes)


def test_steps_show_scratch_and_each_launch() -> None:
    table = document(kernel("two_launches").history.show()).body[0]
    assert isinstance(table, Fold)
    last = [plain(cell) for cell in table.body[0].rows[-1]]  # type: ignore[union-attr]
    assert last[2:] == ["2", "64", "0", "0", "4*n", "without guards"]


def test_code_is_written_with_its_host_part(tmp_path: Any) -> None:
    code = lk.generate_code(kernel("vector_add_mapped"))
    place = tmp_path / "k.cu"
    code.write(place)
    assert place.read_text() == f"{code.source}\n{code.host}"
    assert [p.name for p in tmp_path.iterdir()] == ["k.cu"]
    with pytest.raises(FileNotFoundError):
        code.write(tmp_path / "missing" / "k.cu")


# Errors in notebooks

def own_lines(error: lk.LoopkitError) -> list[str]:
    return error._render_traceback_()


def test_a_traceback_is_the_line_and_the_message() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "a[i+1] = a[i]")
    with pytest.raises(lk.IllegalTransformError) as found:
        lk.tag_inames(knl, {"i": "g.0"})
    lines = own_lines(found.value)
    assert lines[0].startswith(__file__)
    assert lines[1] == '    lk.tag_inames(knl, {"i": "g.0"})'
    orders = str(found.value.plot()).splitlines()[1:]
    assert lines[3:] == [*f"IllegalTransformError: {found.value}".splitlines(), *(f"  {line}" for line in orders)]
    assert not [line for line in lines if "loopkit/transform" in line]


def test_ipython_shows_the_cell_and_the_message(tmp_path: Path) -> None:
    code = """from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell('import loopkit as lk\\nknl = lk.make_kernel("{[i]: 0<=i<n}", "a[i+1] = a[i]")')
shell.run_cell('x = 1\\nlk.tag_inames(knl,\\n    {"i": "g.0"})')"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "IPYTHONDIR": str(tmp_path)})
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[:3] == ["In a cell, line 2", "    lk.tag_inames(knl,", '        {"i": "g.0"})']
    assert lines[4].startswith("IllegalTransformError: tag_inames(i: g.0) would run")
    assert not [line for line in lines if "loopkit/" in line]


def test_an_error_that_was_not_raised_has_a_message() -> None:
    assert own_lines(lk.PreconditionError("No.", hint="yes")) == ["PreconditionError: No.", "  hint: yes"]


# Documents

def pieces() -> Iterator[tuple[str, str, str]]:
    long = " ".join(["word"]*40)
    yield long, "\n".join([" ".join(["word"]*20), f"    {' '.join(['word']*19)}", "    word"]), f"<p>{long}</p>"
    yield "  in", "  in", "<p>  in</p>"
    yield "a < b & c", "a < b & c", "<p>a &lt; b &amp; c</p>"
    yield "x"*120, "x"*120, f"<p>{'x'*120}</p>"
    yield "", "", "<p></p>"


@pytest.mark.parametrize(("line", "text", "html"), [*pieces()])
def test_lines(line: str, text: str, html: str) -> None:
    document = Document("", (Paragraph((line,)),))
    assert as_text(document) == text
    assert as_html(document).endswith(f"</style>{html}</div>")


def test_hints_and_styles_are_escaped() -> None:
    html = as_html(Document("<t>", (Paragraph((Span("<x>", "bad", 'say "<y>"'),)), Picture("<svg></svg>", 'a "b"'))))
    assert '<span class="bad" title="say &quot;&lt;y&gt;&quot;">&lt;x&gt;</span>' in html
    assert '<div class="title">&lt;t&gt;</div>' in html
    Reader(html)


def test_a_table_is_aligned_and_folded() -> None:
    document = Document("", (Fold("Part", (Table(("a", "long"), (("xyz", "1"), ("u", Span("2", "warning")))),)),))
    assert as_text(document) == "PART\n  a    long\n  xyz  1\n  u    2"
    assert "<details open><summary>Part</summary>" in as_html(document)


def test_options_are_a_difference() -> None:
    knl = kernel("vector_add_mapped")
    assert not lk.diff(knl, lk.set_options(knl, full_tiles=True))
    found = lk.diff(knl, lk.set_options(knl, full_tiles=False))
    assert found
    assert "+ full_tiles=False" in str(found)
