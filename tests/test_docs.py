"""The documentation: its examples run, the README is true, and every public name has its place."""
from __future__ import annotations

import inspect
import operator
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.doc_examples import Page
from tests.test_house import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [Page(path) for path in sorted(DOCS.rglob("*.rst"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")

#: ``.. autofunction:: loopkit.split_iname`` and its like.
_DOCUMENTED = re.compile(r"^\.\. auto\w+:: loopkit\.(\S+)", re.MULTILINE)
DOCUMENTED = {name for page in PAGES for name in _DOCUMENTED.findall(page.text)}
#: The pages that a ``toctree`` lists, after its options.
_TABLE = re.compile(r"^\.\. toctree::\n(?:   :.*\n)*\n((?:   .*\n)*)", re.MULTILINE)
#: Functions and classes for users; :mod:`loopkit.library` has a page.
PUBLIC = {name for name in lk.__all__ if not inspect.ismodule(getattr(lk, name))}


# Pages

def _place(page: Page) -> str:
    """As the pages name each other: ``cookbook/rows``."""
    return page.path.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_place)
def test_examples(page: Page, request: pytest.FixtureRequest) -> None:
    page.check({"lk": lk, "np": np}, update=request.config.getoption("--update-golden"))


def test_every_public_name_is_documented() -> None:
    assert {"make_kernel", "LoopKernel", "split_iname", "ParseError", "Outputs"} <= PUBLIC
    missing = PUBLIC - DOCUMENTED
    assert not missing


def test_every_documented_name_exists() -> None:
    for name in DOCUMENTED:
        value: Any = lk
        for part in name.split("."):
            value = getattr(value, part)
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_each_field_of_a_documented_name_begins_a_line() -> None:
    """Sphinx shows ``:arg x:`` within a line as it is written."""
    stray = re.compile(r"\S.* :(arg|ivar|raises|returns?)\b.*")
    assert stray.search("one of them. :arg x: another")
    values = {name: operator.attrgetter(name)(lk) for name in DOCUMENTED}
    found = {name: stray.findall(inspect.getdoc(value) or "") for name, value in values.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = [name for page in PAGES for table in _TABLE.findall(page.text) for name in table.split()
              if not name.startswith("notebooks/")]
    assert sorted(listed) == sorted({_place(page) for page in PAGES} - {"index"})


def test_the_architecture_lists_the_layers() -> None:
    layers = [name for layer in LAYERS for name in layer]
    assert re.findall(r"^``(\w+)``  ", (DOCS / "architecture.rst").read_text(encoding="utf-8"), re.MULTILINE) == layers
    drawn = re.findall(r'class="name"[^>]*>(\w+)<', (DOCS / "_static" / "house.svg").read_text(encoding="utf-8"))
    assert drawn == [name for layer in reversed(LAYERS) for name in layer]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_no_list_of_sections(page: Page) -> None:
    """furo has it at the side of each page, and shows an error in place of this directive."""
    assert ".. contents::" not in page.text


def test_the_demo_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.index("KERNEL matmul") < said.index("__global__") < said.index("largest error")


# README

def test_the_readme_runs() -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(block, names)
    np.testing.assert_allclose(names["c"], names["A"] @ names["B"], rtol=1e-5)


def test_the_examples_in_the_readme(request: pytest.FixtureRequest) -> None:
    Page(ROOT / "README.md").check({"lk": lk}, update=request.config.getoption("--update-golden"))


def test_the_code_in_the_readme_is_real() -> None:
    """It is abridged: ``...`` stands for lines that are left out."""
    [block] = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    [shown] = re.findall(r"^```cuda\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    printed: list[object] = []
    names: dict[str, Any] = {"print": printed.append}
    exec(block, names)
    code = "\n".join(map(str, printed))
    place = 0
    for part in re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE):
        found = code.find(part, place)
        assert found >= 0, f"the code has changed; this is no part of it any more:\n{part}"
        place = found + len(part)


def test_the_files_that_the_readme_names_exist() -> None:
    named = re.findall(r"\]\(([^)#:]+)\)", README)
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=_place)
def test_the_files_that_a_page_names_exist(page: Page) -> None:
    named = re.findall(r"``((?:loopkit|docs|tests|benchmarks|examples)/[\w/.]+\.\w+)``", page.text)
    assert bool(named) >= (_place(page) in ("glossary", "contributing"))
    assert not [name for name in named if not (ROOT / name).exists()]
