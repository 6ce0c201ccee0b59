"""Reviews: the page holds what it promises, and the program finds a wrong element."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.compiler import find_nvcc
from loopkit.show.program import standalone_program
from tests.cases import CASES
from tests.compilers import cpp_compiler

BY_NAME = {case.name: case for case in CASES}

#: CUDA's functions on the host, and the launch of a kernel as a copy of its reference.
STUB = """
#include <cstdlib>
#include <cstring>
#include <cstdio>
typedef int cudaError_t;
typedef int cudaEvent_t;
const cudaError_t cudaSuccess = 0;
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
template <typename T> int cudaMalloc(T **x, size_t n) { *x = static_cast<T *>(std::malloc(n)); return 0; }
int cudaMemcpy(void *to, const void *from, size_t n, int) { std::memcpy(to, from, n); return 0; }
int cudaGetLastError() { return 0; }
int cudaDeviceSynchronize() { return 0; }
const char *cudaGetErrorString(int) { return ""; }
int cudaEventCreate(int *) { return 0; }
int cudaEventRecord(int) { return 0; }
int cudaEventSynchronize(int) { return 0; }
int cudaEventElapsedTime(float *t, int, int) { *t = 20; return 0; }
"""


def on_the_host(text: str, launch: str) -> str:
    """The program *text* without device code, for a C++ compiler; *launch* is the body of the host's function."""
    start = text.index("#include <cmath>")
    head = re.search(r"^void launch_\w+\(.*?\)\n(?=\{)", text, re.DOTALL | re.MULTILINE)
    assert head is not None
    own, main = text[start:].split("int main()")
    return f"{STUB}{own}\n{head[0]}{{ {launch} }}\nint main(){main}"


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cpp").write_text(text)
    subprocess.run([cpp_compiler(), "-std=c++17", "-O1", "-o", "program", "program.cpp"], cwd=folder, check=True)
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=False)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("name", "sizes", "call"), [
    ("stencil_2d", {"n": 40, "m": 30}, "a, out, m, n"), ("two_launches", {"n": 70}, "x, y, t.data(), n"),
    ("axpy_vec", {"n": 33}, "x, y, a, n"), ("lu", {"n": 20}, "a, n"),
    ("softmax_by_block", {"n": 5, "m": 9}, "x, y, m, n")])
def test_the_program_accepts_right_results_and_finds_a_wrong_one(name: str, sizes: dict[str, int], call: str,
                                                                 tmp_path: Path) -> None:
    knl = BY_NAME[name].make()
    text = standalone_program(knl, sizes)
    scratch = "std::vector<float> t(n); " if "t.data()" in call else ""
    launch = f"{scratch}reference::{knl.name}_reference({call});"
    right = run(tmp_path, on_the_host(text, launch))
    assert right.returncode == 0, right.stdout
    assert " 0 of " in right.stdout
    assert "1.0000 ms a call" in right.stdout
    output = next(iter(sorted(knl.written_names & knl.array_args.keys())))
    wrong = run(tmp_path, on_the_host(text, f"{launch} {output}[7] *= 1.01f;"))
    assert wrong.returncode == 1
    assert f"{output}: element 7 is " in wrong.stdout
    assert f"{output}: 1 of " in wrong.stdout
    assert "nvcc -fmad=false" in wrong.stdout
    assert "nvcc -fmad=false" not in right.stdout


@pytest.mark.deep(every=18)
@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"csr_matvec", "histogram"}))
def test_nvcc_builds_the_program(name: str, tmp_path: Path) -> None:
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc here")
    (tmp_path / "k.cu").write_text(standalone_program(BY_NAME[name].make()))
    made = subprocess.run([nvcc.command, "-arch=sm_90", "-o", "k", "k.cu"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "k").exists()


def test_sizes_follow_the_assumptions_and_the_memory() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i,j] = 2*x[i,j]", assumptions="n mod 96 = 0 and n < 400 and n >= 1")
    assert "const int n = 96;" in standalone_program(lk.add_dtypes(knl, {"x": np.float32}))
    with pytest.raises(lk.CallError, match="assumptions exclude n = 97"):
        standalone_program(lk.add_dtypes(knl, {"x": np.float32}), {"n": 97})
    with pytest.raises(lk.UnknownNameError, match="'m' is not a size of kernel 'kernel'"):
        standalone_program(lk.add_dtypes(knl, {"x": np.float32}), {"m": 97})
    halves = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = 2*x[j]", assumptions="n = 2*m and m >= 0")
    text = standalone_program(lk.add_dtypes(halves, {"x": np.float32}))
    assert "const int n = 1008;" in text
    assert "const int m = 504;" in text
    cube = lk.make_kernel("{[i,j,k]: 0<=i,j,k<n}", "y[i,j,k] = 2*x[i,j,k]")
    assert "const int n = 200;" in standalone_program(lk.add_dtypes(cube, {"x": np.float32}))


def test_sizes_differ_and_have_partial_tiles() -> None:
    """Sizes of full tiles alone would leave half of the code without a check, and equal ones would hide confusions."""
    text = standalone_program(BY_NAME["matmul_tiled"].make())
    sizes = [int(x) for x in re.findall(r"^    const int [lmn] = (\d+);$", text, re.MULTILINE)]
    assert len(set(sizes)) == 3
    assert all(size > 16 and size % 16 and not size % 8 for size in sizes)
    text = standalone_program(BY_NAME["matmul_tiled"].make(), {"l": 7})
    assert "const int l = 7;" in text
    assert "const int m = 504;" in text


def test_the_command_names_the_architecture_that_an_instruction_needs() -> None:
    assert "nvcc -o axpy axpy.cu && ./axpy" in standalone_program(BY_NAME["axpy_vec"].make(), name="axpy")
    assert "nvcc -arch=sm_80 -o k k.cu && ./k" in standalone_program(BY_NAME["matmul_asynchronous"].make(), name="k")


def test_names_of_the_program_are_free_for_arguments(tmp_path: Path) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<time}", "wrong[i] = program*x[i] + reference", name="show")
    text = standalone_program(lk.add_dtypes(knl, {"program, reference, x": np.float32}), {"time": 9})
    done = run(tmp_path, on_the_host(text, "reference::show_reference(wrong, x, program, reference, time);"))
    assert done.stdout.startswith("program = 1.25\nreference = 1.25\ntime = 9\nwrong: 0 of 9 elements are wrong\n")
    assert done.returncode == 0


def test_sizes_that_vector_accesses_do_not_fit_get_a_text_without_them() -> None:
    knl = BY_NAME["stencil_2d_vec"].make()
    assert "float4" in standalone_program(knl)
    assert "float4" not in standalone_program(knl, {"n": 30, "m": 31})


@pytest.mark.parametrize(("knl", "message"), [
    (lambda: BY_NAME["csr_matvec"].make(), "cannot fill the array 'col': subscripts or bounds are read from it"),
    (lambda: lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.complex64}),
     "dtype is complex64")])
def test_refusals(knl: object, message: str, tmp_path: Path) -> None:
    made = knl()  # type: ignore[operator]
    with pytest.raises(lk.PreconditionError, match=message):
        standalone_program(made)
    assert lk.review(made, tmp_path / "k.html") == (tmp_path / "k.html",)
    assert message in (tmp_path / "k.html").read_text()
    assert [x.name for x in tmp_path.iterdir()] == ["k.html"]


def test_the_page_holds_everything_and_needs_nothing(tmp_path: Path) -> None:
    knl = lk.assume(BY_NAME["matmul_tiled"].make(), "n < 10000")
    files = lk.review(knl, tmp_path / "matmul.html")
    assert [x.name for x in files] == ["matmul.html", "matmul.cu"]
    page = files[0].read_text()
    for part in ("<title>Review of kernel &#x27;matmul&#x27;</title>", "Algorithm", "make_kernel", "Kernel", "Steps",
                 "Step 6: add_prefetch", "In sentences", "races", "Resources", "Program", "__global__",
                 "&lt;&lt;&lt;dim3", "Host"):
        assert part in page, part
    assert not re.search(r"<script|src=|href=|http", page)


def test_the_page_says_what_is_not_proven(tmp_path: Path) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "a[k[i]] = b[i]", name="scatter")
    knl = lk.add_dtypes(knl, {"b": np.float32, "k": np.int32})
    lk.review(lk.tag_inames(knl, "i:g.0", assume="k has no value twice"), tmp_path / "k.html")
    page = (tmp_path / "k.html").read_text()
    assert "trusted without a proof" in page
    assert "Trusted without a proof" in page
    assert "(assumed: k has no value twice)" in page
    assert "There is no program for this kernel." in page
    lk.review(BY_NAME["vector_add"].make(), tmp_path / "k.html")
    page = (tmp_path / "k.html").read_text()
    assert "Trusted without a proof" not in page
    assert "<td>nothing</td>" in page


def test_the_file_of_the_program_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(lk.PreconditionError, match="is the file of the program"):
        lk.review(BY_NAME["vector_add"].make(), tmp_path / "k.cu")
