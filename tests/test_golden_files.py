"""The golden files' own rules."""
from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_files import GoldenFiles


def test_update_writes_and_check_compares(tmp_path: Path) -> None:
    GoldenFiles(tmp_path, update=True).check("cuda/axpy.cu", "a\nb")
    assert (tmp_path / "cuda" / "axpy.cu").read_text() == "a\nb\n"
    GoldenFiles(tmp_path).check("cuda/axpy.cu", "a\nb\n")


def test_a_difference_fails_and_is_shown(tmp_path: Path) -> None:
    GoldenFiles(tmp_path, update=True).check("kernel.txt", "a\nb")
    with pytest.raises(AssertionError, match=r"-b\n\+c"):
        GoldenFiles(tmp_path).check("kernel.txt", "a\nc")


def test_a_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no golden file"):
        GoldenFiles(tmp_path).check("kernel.txt", "a")
    assert not list(tmp_path.iterdir())
