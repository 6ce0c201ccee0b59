"""Golden tests of users: the comparison, and pytest's option for new files."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.show.golden import SHOWN_LINES, UPDATE, require_golden

ROOT = Path(lk.__file__).parents[1]

TEST = """
import numpy as np
import loopkit as lk

def test_twice():
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    lk.assert_golden(lk.add_dtypes(knl, {"x": np.float32}), "golden/twice.c", target="c")
"""

#: A conftest file with the option of its own.
OPTION = """
def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="mine")
"""


def twice(factor: int = 2) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {factor}*x[i]", name="twice")
    return lk.add_dtypes(knl, {"x": np.float32})


@pytest.fixture(autouse=True)
def _no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UPDATE, raising=False)


def test_a_change_fails_with_its_difference(tmp_path: Path) -> None:
    place = tmp_path / "new" / "twice.cu"
    lk.assert_golden(twice(), place, update=True)
    assert place.read_text() == str(lk.generate_code(twice()))
    lk.assert_golden(twice(), place)
    with pytest.raises(AssertionError) as found:
        lk.assert_golden(twice(3), place)
    lines = str(found.value).splitlines()
    assert lines[0] == f"The cuda code of kernel 'twice' differs from the golden file {place}."
    assert "-        y[i] = 2.0f*x[i];" in lines
    assert "+        y[i] = 3.0f*x[i];" in lines
    assert lines[-1].startswith("  hint: run pytest --update-golden")
    assert "2.0f" in place.read_text()


def test_a_missing_file_fails_and_stays_missing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"has no golden file .*twice\.cu yet"):
        lk.assert_golden(twice(), tmp_path / "twice.cu")
    assert not [*tmp_path.iterdir()]


def test_the_argument_goes_before_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UPDATE, "1")
    with pytest.raises(AssertionError, match="has no golden file"):
        lk.assert_golden(twice(), tmp_path / "twice.cu", update=False)
    lk.assert_golden(twice(), tmp_path / "twice.cu")
    assert (tmp_path / "twice.cu").exists()


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    place = tmp_path / "long.txt"
    place.write_text("\n".join(map(str, range(300))))
    with pytest.raises(AssertionError) as found:
        require_golden("short", place, "A text", update=False)
    assert len(str(found.value).splitlines()) == SHOWN_LINES + 3
    assert "... and 104 more lines" in str(found.value)


#: Three runs of pytest in one process.
RUNS = """
import pytest
for options in [], ["--update-golden"], []:
    print("status", int(pytest.main(["-q", "-p", "no:loopkit", "-p", "loopkit.show.pytest_plugin", "-p",
                                     "no:cacheprovider", *options])))
"""


@pytest.mark.parametrize("conftest", ["", OPTION], ids=["the plugin's option", "the option of a conftest file"])
def test_the_option_of_pytest(tmp_path: Path, conftest: str) -> None:
    (tmp_path / "test_twice.py").write_text(TEST)
    (tmp_path / "conftest.py").write_text(conftest)
    done = subprocess.run([sys.executable, "-c", RUNS], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    first, updated, second, _ = re.split(r"(?<=^status \d)\n", done.stdout, flags=re.MULTILINE)
    assert first.endswith("status 1"), done.stdout + done.stderr
    assert "E   " in first
    assert "has no golden file" in first
    assert updated.endswith("status 0"), done.stdout + done.stderr
    assert second.endswith("status 0"), done.stdout + done.stderr
    assert (tmp_path / "golden" / "twice.c").read_text() == str(lk.generate_code(twice(), "c"))
