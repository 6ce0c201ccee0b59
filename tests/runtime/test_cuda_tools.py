"""Programs of the CUDA toolkit: finding them, and machine code as text."""
from __future__ import annotations

from pathlib import Path

import pytest

import loopkit as lk
from loopkit.runtime.cuda import compiler as toolkit
from loopkit.runtime.cuda.compiler import disassembly, find_nvcc
from tests.compilers import without
from tests.nvrtc import nvrtc


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_tools_are_looked_for_in_the_home_of_the_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolkit, "nvidia_path", lambda function, name: None)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolkit.find_tool("nvdisasm") is None
    program(tmp_path / "toolkit" / "bin" / "nvdisasm", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert toolkit.find_tool("nvdisasm") == str(tmp_path / "toolkit" / "bin" / "nvdisasm")
    program(tmp_path / "nvdisasm", "")
    assert toolkit.find_tool("nvdisasm") == str(tmp_path / "nvdisasm")


def test_an_nvcc_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "nvcc", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_nvcc() is None


_SAID = """\
\t.target\tsm_90

//--------------------- .text.zero                --------------------------
\t.section\t.text.zero,"ax",@progbits
        /*0000*/                   EXIT ;

//--------------------- .text.reverse             --------------------------
\t.section\t.text.reverse,"ax",@progbits
        /*0000*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
"""


def test_disassembly_of_one_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "nvdisasm", f"cat <<'END'\n{_SAID}\nEND")
    monkeypatch.setattr(toolkit, "find_tool", lambda name: str(tmp_path / name))
    text = disassembly(b"", "reverse")
    assert "BAR.SYNC" in text
    assert "EXIT" not in text
    with pytest.raises(lk.CompilerError, match="has no function 'rev'"):
        disassembly(b"", "rev")


def test_no_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "find_tool", lambda name: None)
    with pytest.raises(lk.CompilerError, match="there is no nvdisasm") as caught:
        disassembly(b"", "reverse")
    assert caught.value.hint is not None
    assert "pip install nvidia-cuda-nvdisasm" in caught.value.hint


def test_disassembler_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "nvdisasm", "echo 'nvdisasm fatal   : not an ELF file' >&2; exit 255")
    monkeypatch.setattr(toolkit, "find_tool", lambda name: str(tmp_path / name))
    with pytest.raises(lk.CompilerError, match="nvdisasm cannot read the machine code of kernel 'k'") as caught:
        disassembly(b"", "k")
    assert "not an ELF file" in caught.value.log


@pytest.mark.deep
def test_real_disassembly() -> None:
    if toolkit.find_tool("nvdisasm") is None:
        without("there is no nvdisasm here")
    source = 'extern "C" __global__ void zero(float *a) { a[threadIdx.x] = 0; }'
    text = disassembly(nvrtc().cubin(source, "zero", lk.CudaTarget("sm_90")).cubin, "zero")
    assert "STG" in text
    assert "EXIT" in text
