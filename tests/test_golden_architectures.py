"""Golden texts with instructions of some GPUs: NVRTC compiles them for each architecture that has these."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.nvrtc import compile_cuda

#: The instructions in PTX of texts that need an architecture, and the ones that have them.
ARCHITECTURES = {
    r"wgmma\.|setmaxnreg": ("sm_90a",), "multicast": ("sm_90a", "sm_100a"),
    r"stmatrix|cp\.async\.bulk|cp\.reduce|mbarrier": ("sm_90", "sm_90a", "sm_100a"),
    r"mma\.sync|ldmatrix|cp\.async": ("sm_80", "sm_89", "sm_90a", "sm_100a")}

GOLDEN = Path(__file__).parent / "golden"

#: The architectures of each of these texts, the shortest text first.
TEXTS = {str(path.relative_to(GOLDEN)): archs
         for text, path in sorted(((x.read_text(), x) for x in GOLDEN.rglob("*.cu")), key=lambda x: len(x[0]))
         for archs in [next((own for words, own in ARCHITECTURES.items() if re.search(words, text)), ())] if archs}


def test_there_are_such_texts() -> None:
    assert set(TEXTS.values()) == {*ARCHITECTURES.values()}
    assert {"product_by_tma.cu", "product_by_stmatrix.cu", "sums_by_tma.cu"} <= {*TEXTS}


@pytest.mark.deep(every=20)
@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name, archs in TEXTS.items() for arch in archs])
def test_each_architecture(name: str, arch: str) -> None:
    compile_cuda((GOLDEN / name).read_text(), arch)
