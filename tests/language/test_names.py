"""What kernels, and the arrays in them, may not be called: functions of C's headers, of CUDA, and of the texts."""
from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import NameConflictError
from loopkit.language.names import LIBRARY, fault, require_kernel_name
from loopkit.runtime.flags import BASE_FLAGS
from loopkit.target.dialects import CUDA, C
from tests.compilers import c_compiler
from tests.nvrtc import compile_cuda


def refused(name: str) -> bool:
    try:
        require_kernel_name(name)
    except NameConflictError:
        return True
    return False


def test_functions_of_the_headers_are_no_kernels() -> None:
    headers = C.preamble({"complex64"}).partition("static")[0]
    flags = [f for f in BASE_FLAGS if f.startswith("-std")]
    text = subprocess.run([c_compiler(), *flags, "-E", "-P", "-x", "c", "-"], input=headers, check=True, text=True,
                          capture_output=True).stdout
    functions = {name for name in re.findall(r"\b(\w+) *\(", text) if not name.startswith("_")}
    assert {"j0", "nanf", "ldexp", "csin"} & functions
    assert [name for name in sorted(functions) if not refused(name)] == []


def test_functions_of_cuda_are_no_kernels() -> None:
    """Each of them ended in the compiler's own error; an array may have such a name."""
    for name in sorted(LIBRARY):
        with pytest.raises(NameConflictError, match="is a function of C or CUDA") as refusal:
            lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name=name)
        assert f"name='{name}_kernel'" in str(refusal.value.hint)
    arrays = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y1[i] = 2*norm[i]", name="y1_kernel"), {"norm": np.float32})
    assert compile_cuda(str(lk.generate_code(arrays)), "sm_90")


def test_functions_of_the_texts_are_no_arrays() -> None:
    texts = [*CUDA.copies.values(), *CUDA.handing.values(), *CUDA.matrix_products.values(), CUDA.kept_text,
             *CUDA.complex_text.values(), *C.half_text.values()]
    found = {name for text in texts for name in re.findall(r"inline\w* (?:[^(\n]*?\b)?(\w+)\(|struct (\w+)", text)}
    names = {name for pair in found for name in pair if name and name != "operator"} | {CUDA.kept_load}
    assert {"copy_async", "load_kept", "LoadKept", "cexp", "handed", "wait_for", "mma_m8n8k4_f64"} <= names
    assert [name for name in sorted(names) if fault(name) is None] == []


def test_a_kernel_may_be_called_like_its_array() -> None:
    """The launch named the pointer."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="y")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert "::y<<<" in lk.generate_code(knl).host
