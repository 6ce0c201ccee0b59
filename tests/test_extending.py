"""The worked examples of the documentation that add lines to loopkit: a copy of it gets the lines and runs them."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

import loopkit as lk

PAGE = Path(__file__).parents[1] / "docs" / "extending.rst"
_BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n(?:   :caption: (\S+)\n)?\n((?:   .*\n|\n)+)", re.MULTILINE)


def blocks(section: str) -> list[tuple[str, str, str]]:
    """The language, the caption and the text of each code block of the section with this title."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"\n\n\n(?=.+\n-+\n)", text.partition(f"\n{section}\n---")[2])[0]
    return [(language, path, re.sub(r"^   ", "", code, flags=re.MULTILINE).strip("\n") + "\n")
            for language, path, code in _BLOCK.findall(part)]


def patched(text: str, patch: str) -> str:
    """*text* after *patch*, whose hunks have an empty line between them and occur once in *text*."""
    for hunk in patch.rstrip("\n").split("\n\n"):
        old, new = ("".join(f"{line[1:]}\n" for line in hunk.split("\n") if line[:1] not in marks) for marks in "+-")
        old, new = (old, new) if old in text else (old.rstrip("\n"), new.rstrip("\n"))
        assert text.count(old) == 1, f"this occurs {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("section", ["A tag", "A hardware instruction", "A matrix instruction"])
def test_the_lines_make_the_example_run(section: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    copy = shutil.copytree(Path(lk.__file__).parent, tmp_path / "loopkit")     # with the compiled modules
    example, printed = "", ""
    for language, path, code in blocks(section):
        place = copy.parent / path
        match language, bool(path):
            case "diff", True:
                place.write_text(patched(place.read_text(encoding="utf-8"), code), encoding="utf-8")
            case "python", True:
                assert not place.exists()
                place.write_text(code, encoding="utf-8")
            case "python", False:
                example = code
            case _:
                printed = code
    lines = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport numpy as np, loopkit as lk\n{example}"
    done = subprocess.run([sys.executable, "-c", lines], check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    output = done.stdout.strip() + "\n"
    if request.config.getoption("--update-golden"):
        page = PAGE.read_text(encoding="utf-8").replace(indent(printed, "   "), indent(output, "   "))
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    else:
        assert output == printed
