"""``python -m loopkit``: each action on the kernels of a file, its forms, its exit status, and its refusals."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loopkit as lk
from loopkit.__main__ import main

FINE, REFUTED, MISUSED, UNDECIDED = range(4)

COMMON = """
import numpy as np
import loopkit as lk

def saxpy(more=""):
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = 2*x[i]{more}", name="saxpy")
    return lk.add_dtypes(knl, {"x": np.float32})
"""

KERNELS = """
from __future__ import annotations

from dataclasses import dataclass

import loopkit as lk
from common import saxpy

print("this is the file", __name__)


@dataclass
class Variants:
    mapped: object


plain = saxpy()
more = saxpy(" + 1")
number = 3
variants = Variants(lk.split_iname(plain, "i", 128, outer_tag="g.0", inner_tag="l.0"))


def mapped(length: int = 64) -> lk.LoopKernel:
    return lk.split_iname(plain, "i", length, outer_tag="g.0", inner_tag="l.0")


def of_length(length: int) -> lk.LoopKernel:
    return mapped(length)


def refused() -> lk.LoopKernel:
    return lk.split_iname(plain, "j", 16)


def untyped() -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="untyped")


def outside() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i+1]", [lk.GlobalArg("x", shape="n"), "..."], name="outside")
    return lk.add_dtypes(knl, {"x": "float32"})


def gathered(name: str = "gathered") -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[k[i]]", name=name)
    return lk.add_dtypes(knl, {"x": "float32", "k": "int32"})


def leaves() -> lk.LoopKernel:
    raise SystemExit(0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "common.py").write_text(COMMON)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path / "kernels.py"


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit status, stdout and stderr."""
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def data(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status, out, _ = answer(capsys, *arguments, "--format", "json")
    found = json.loads(out)
    assert found["version"] == 1
    assert found["status"] == status
    assert found["command"] == arguments[0]
    return status, found


# Actions

def test_show_has_the_card_and_the_code(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "show", f"{file}:mapped")
    assert status == FINE
    assert out.startswith("KERNEL saxpy\n1 launch, 64 threads a block")
    assert "CODE FOR CUDA" in out
    assert '__global__ void __launch_bounds__(64)' in out
    assert "this is the file kernels" in err
    assert "this is the file" not in out
    _, out, _ = answer(capsys, "show", f"{file}:variants.mapped", "--target", "c")
    assert "CODE FOR C\n" in out
    assert "__global__" not in out
    status, out, _ = answer(capsys, "show", f"{file}:untyped")
    assert status == FINE
    assert "not generated: The dtype" in out


def test_show_as_data_is_the_same_document(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = data(capsys, "show", f"{file}:mapped")
    assert found["kernel"] == "saxpy"
    assert found["title"] == "KERNEL saxpy"
    parts = {part["title"]: part for part in found["body"] if part["kind"] == "part"}
    assert parts["Arguments"]["body"][0]["head"][:2] == ["name", "dtype"]
    assert ["x", "float32", "(n,)", "(1,)", "read"] in parts["Arguments"]["body"][0]["rows"]
    (code, host) = parts["Code for cuda"]["body"]
    assert code["language"] == "cuda"
    assert len(code["lines"]) == len(code["margin"])
    assert "insn 2" in code["margin"]
    assert host["title"] == "Host"


def test_a_page_needs_nothing_and_goes_where_output_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = file.with_name("page.html")
    status, out, _ = answer(capsys, "show", f"{file}:mapped", "--format", "html", "--output", page)
    assert (status, out) == (FINE, "")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>KERNEL saxpy</title>" in text
    assert not re.search(r"<script|src=|href=|http", text)
    status, _, err = answer(capsys, "show", f"{file}:mapped", "--output", file.with_name("no") / "page.txt")
    assert status == MISUSED
    assert "No such file or directory" in err


def test_a_terminal_gets_colours(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
                                 ) -> None:
    plain = answer(capsys, "check", f"{file}:mapped")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = answer(capsys, "check", f"{file}:mapped")[1]
    assert "\x1b[32mproven\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_diff_is_like_diff(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "diff", f"{file}:mapped", "--against", f"{file}:plain")
    assert status == REFUTED
    assert "TAGS\n  + i_outer: g.0, i_inner: l.0" in out
    status, out, _ = answer(capsys, "diff", f"{file}:plain", "--against", f"{file}:plain")
    assert (status, out) == (FINE, "'saxpy' -> 'saxpy': no difference\n")
    status, out, _ = answer(capsys, "diff", f"{file}:mapped", "--against", f"{file}:variants.mapped", "--target", "c")
    assert status == REFUTED
    assert "SOURCE" in out
    status, out, err = answer(capsys, "diff", f"{file}:untyped", "--against", f"{file}:plain", "--target", "c")
    assert (status, out) == (REFUTED, "")
    assert err.splitlines()[-2].startswith("error: The dtype of the argument")


def test_files_of_one_name_in_two_folders_have_their_own_neighbours(file: Path, tmp_path: Path,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kernels.py").write_text(KERNELS)
    (tmp_path / "old" / "common.py").write_text(COMMON.replace("2*x", "3*x"))
    before, places = set(sys.modules), list(sys.path)
    status, out, _ = answer(capsys, "diff", f"{file}:plain", "--against", f"{tmp_path}/old/kernels.py:plain")
    assert status == REFUTED
    assert "- " in out
    assert "3*x[i]" in out
    assert sys.path == places
    assert not {"kernels", "common"} & (set(sys.modules) - before)


def test_review_writes_beside_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = data(capsys, "review", f"{file}:mapped", "--size", "n=1000")
    assert status == FINE
    assert [Path(name).name for name in found["files"]] == ["saxpy.html", "saxpy.cu"]
    assert "const int n = 1000;" in file.with_name("saxpy.cu").read_text()
    status, out, _ = answer(capsys, "review", f"{file}:mapped", "--output", file.with_name("page.html"))
    assert status == FINE
    assert re.fullmatch(r"wrote \S+page.html\nwrote \S+page.cu\n", out)
    assert answer(capsys, "review", f"{file}:mapped")[0] == FINE, "its own files are written again"
    file.with_name("saxpy.cu").write_text("// by hand")
    status, _, err = answer(capsys, "review", f"{file}:mapped")
    assert status == MISUSED
    assert "saxpy.cu' is there already, and a review did not write it" in err
    assert file.with_name("saxpy.cu").read_text() == "// by hand"
    assert answer(capsys, "review", f"{file}:mapped", "--output", "page.cu")[0] == MISUSED


def test_check_reports_and_compares(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "check", f"{file}:mapped")
    assert status == FINE
    assert out.startswith("kernel 'saxpy': proven\norder     proven")
    status, found = data(capsys, "check", f"{file}:mapped", "--against", f"{file}:plain", "--size", "n=77")
    assert status == FINE
    assert [check["name"] for check in found["checks"]] == ["order", "bounds", "coverage", "races", "barriers"]
    assert found["comparison"] == {"result": "equal", "reason": "", "runs": [{"sizes": {"n": 77}, "outputs": [
        {"name": "y", "error": 0.0, "bound": pytest.approx(3.57e-6, rel=1e-2)}]}]}
    status, out, _ = answer(capsys, "check", f"{file}:mapped", "--against", f"{file}:more")
    assert status == REFUTED
    assert "Compared with " in out
    assert "with n = 1, data: random" in out


def test_check_refutes_with_a_witness(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = data(capsys, "check", f"{file}:outside", "--against", f"{file}:plain")
    assert status == REFUTED
    assert found["verdict"] == "refuted"
    assert "comparison" not in found, "a refuted kernel does not run"
    (finding,) = [f for check in found["checks"] for f in check["findings"]]
    assert "x[1]" in finding["witness"]
    assert finding["hints"]
    status, out, _ = answer(capsys, "check", f"{file}:untyped")
    assert status == REFUTED
    assert "refuted: The dtype of the argument" in out


def test_check_may_end_undecided(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = data(capsys, "check", f"{file}:gathered", "--against", f"{file}:gathered")
    assert status == UNDECIDED
    assert found["comparison"]["result"] == "undecided"
    assert "k" in found["comparison"]["reason"]


# Refusals

@pytest.mark.parametrize(("name", "message"), [
    ("kernels.py:mappd", "'mappd' is not a name of '.*kernels.py'.\n  hint: did you mean 'mapped'"),
    ("kernels.py:number", "'number' of .* gives an object of type int, which is not a kernel.\n  hint: names that "
                          "may give one: plain, more, mapped"),
    ("kernels.py:of_length", "'of_length' of .* needs the argument 'length'"),
    ("nothing.py:k", "There is no file '.*nothing.py'."),
    ("kernels.txt:k", "kernels.txt' is not a Python file")])
def test_names_of_no_kernel(name: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "show", file.with_name(name))
    assert (status, out) == (MISUSED, "")
    assert re.search(f"^error: .*{message}", err, re.MULTILINE)
    assert "Traceback" not in err


def test_exceptions_of_the_file_are_shown_from_its_own_lines_on(file: Path, capsys: pytest.CaptureFixture[str]
                                                                ) -> None:
    status, _, err = answer(capsys, "show", f"{file}:refused")
    assert status == MISUSED
    assert "raises UnknownNameError" in err
    assert 'return lk.split_iname(plain, "j", 16)' in err
    assert str(Path(lk.__file__).parent) not in err
    broken = file.with_name("broken.py")
    broken.write_text("import common\n\ndef f():\n    return 1/0\n\nf()\n")
    status, _, err = answer(capsys, "check", f"{broken}:knl")
    assert status == MISUSED
    assert re.findall(r'File ".*?(\w+\.py)", line (\d+)', err) == [("broken.py", "6"), ("broken.py", "4")]
    assert err.rstrip().endswith("ZeroDivisionError: division by zero")
    broken.write_text("knl = (")
    status, _, err = answer(capsys, "check", f"{broken}:knl")
    assert status == MISUSED
    assert "SyntaxError: '(' was never closed" in err
    assert answer(capsys, "show", f"{file}:leaves")[0] == MISUSED, "a file does not choose the status"


@pytest.mark.parametrize(("arguments", "message"), [
    (["show", "kernels.py"], "'kernels.py' does not name a kernel as FILE.py:KERNEL"),
    (["show", "kernels.py:print(1)"], "does not name a kernel"),
    (["diff", "kernels.py:plain"], "--against"),
    (["check", "kernels.py:plain", "--against", "kernels.py:plain", "--size", "n"], "is not of the form NAME=NUMBER"),
    (["show", "kernels.py:plain", "--target", "metal"], "invalid choice: 'metal'")])
def test_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == MISUSED
    assert message in capsys.readouterr().err


def test_sizes_that_serve_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = answer(capsys, "check", f"{file}:plain", "--size", "n=3")
    assert status == MISUSED
    assert "--size only for the comparison" in err
    status, _, err = answer(capsys, "check", f"{file}:plain", "--against", f"{file}:plain", "--size", "m=3")
    assert status == MISUSED
    assert "'m' is not a size of kernel 'saxpy'" in err


@pytest.mark.parametrize("action", ["check", "review"])
def test_sizes_that_the_assumptions_exclude(action: str, file: Path, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    others = ["--against", f"{file}:plain"] if action == "check" else ["--output", str(tmp_path / "k.html")]
    status, _, err = answer(capsys, action, f"{file}:plain", "--size", "n=-3", *others)
    assert status == MISUSED
    assert "The kernel's assumptions exclude n = -3: they are n >= 0." in err
    assert not (tmp_path / "k.html").exists()


def test_as_a_process_with_warnings_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "unused.py").write_text('import loopkit as lk\nknl = lk.add_dtypes(lk.make_kernel('
                                        '"{[i,j]: 0<=i,j<n}", "y[i] = 2*x[i]"), {"x": "float32"})\n')
    done = subprocess.run([sys.executable, "-m", "loopkit", "check", "unused.py:knl", "--format", "json"],
                          cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(Path(lk.__file__).parents[1])})
    assert done.returncode == FINE, done.stderr
    assert json.loads(done.stdout)["verdict"] == "proven"
    assert "UnusedInameWarning" in done.stderr


def test_the_documentation_has_all_options_and_entries(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(lk.__file__).parents[1] / "docs" / "command.rst").read_text(encoding="utf-8")
    for command in ("show", "diff", "review", "check"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = capsys.readouterr().out
        assert "3  undecided" in text
        for word in {f"``{command}``", *re.findall(r"--\w+", text)} - {"--help"}:
            assert word in page, word
    for name in ("show", "check"):
        _, found = data(capsys, name, f"{file}:mapped")
        assert not [key for key in found if f"``{key}``" not in page]
