"""The search for the headers of halves, for NVRTC."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import loopkit as lk
from loopkit.runtime.cuda import compiler
from loopkit.runtime.cuda.compiler import header_directories, needs_headers


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(compiler, "nvidia_path", lambda function, name: None)
    monkeypatch.setattr(compiler, "_TOOLKIT", str(tmp_path / "usual"))
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    header_directories.cache_clear()
    yield tmp_path
    header_directories.cache_clear()


def with_header(root: Path) -> Path:
    include = root / "include"
    include.mkdir(parents=True)
    (include / "cuda_fp16.h").touch()
    return include


def test_none(nothing_installed: Path) -> None:
    with pytest.raises(lk.CompilerError, match=r"cuda_fp16\.h is not installed") as caught:
        header_directories()
    assert caught.value.hint == "pip install nvidia-cuda-runtime, or set CUDA_HOME to the CUDA toolkit's folder"


@pytest.mark.parametrize("variable", ["CUDA_PATH", "CUDA_HOME"])
def test_environment(nothing_installed: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_header(nothing_installed / "usual")
    include = with_header(nothing_installed / "mine")
    (include / "cccl").mkdir()
    monkeypatch.setenv(variable, str(nothing_installed / "mine"))
    assert header_directories() == (str(include), str(include / "cccl"))


def test_usual_place(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = with_header(nothing_installed / "usual")
    monkeypatch.setenv("CUDA_HOME", str(nothing_installed / "empty"))
    assert header_directories() == (str(include),)


def test_wheels_come_first(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_header(nothing_installed / "usual")
    wheel = with_header(nothing_installed / "wheel")
    monkeypatch.setattr(compiler, "nvidia_path", lambda function, name: str(wheel))
    assert header_directories() == (str(wheel),)


def test_only_texts_with_halves_need_them() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    needed = {dtype: needs_headers(str(lk.generate_code(lk.add_dtypes(knl, {"x": dtype}))))
              for dtype in ("float16", "bfloat16", "float32", "complex64")}
    assert needed == {"float16": True, "bfloat16": True, "float32": False, "complex64": False}
