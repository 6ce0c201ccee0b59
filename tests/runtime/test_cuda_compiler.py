"""Compiling CUDA C++ without a GPU: what reaches the compilers, what they say, and what is kept."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import loopkit as lk
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.cuda import compiler as compiler_module
from loopkit.runtime.cuda.compiler import (
    CudaCompiler,
    Nvcc,
    Nvrtc,
    available_cuda_compilers,
    binary_key,
    expected_nvrtc,
    find_cuda_compiler,
    find_nvcc,
    find_nvrtc,
    load_binary,
)
from loopkit.runtime.cuda.resources import Binary, PtxasUsage, parse_ptxas_log
from tests.nvrtc import nvrtc

SOURCE = """\
extern "C" __global__ void reverse(const float *__restrict__ a, float *__restrict__ out)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[255 - threadIdx.x] / a[0];
}

extern "C" __global__ void zero(float *a)
{
    a[threadIdx.x] = 0;
}
"""
BROKEN = SOURCE.replace("a[threadIdx.x] = 0;", "a[threadIdx.x] = nothing;")
SM_90 = lk.CudaTarget("sm_90")


def _nvcc() -> Nvcc:
    found = find_nvcc()
    return found if found is not None else pytest.skip("there is no nvcc here")


@pytest.fixture(params=["NVRTC", "nvcc"])
def compiler(request: pytest.FixtureRequest) -> CudaCompiler:
    return nvrtc() if request.param == "NVRTC" else _nvcc()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """As if the process had just started."""
    load_binary.cache_clear()


@dataclass(eq=False)
class Counting:
    """A compiler that notes what it is asked for."""

    real: CudaCompiler = field(default_factory=nvrtc)
    name: str = "NVRTC"
    version: str = "1.0"
    calls: list[str] = field(default_factory=list)

    def cubin(self, source: str, kernel: str, target: lk.CudaTarget) -> Binary:
        self.calls.append(kernel)
        return self.real.cubin(source, kernel, target)

    def ptx(self, source: str, kernel: str, target: lk.CudaTarget) -> str:
        return self.real.ptx(source, kernel, target)


def load(counting: Counting, cache: DiskCache, target: lk.CudaTarget = SM_90) -> Binary:
    """As another process would: with nothing in memory."""
    load_binary.cache_clear()
    return load_binary(SOURCE, "reverse", target, cache, counting)


# Finding

def test_nvrtc_comes_first() -> None:
    assert find_cuda_compiler() == nvrtc() == available_cuda_compilers()[0]
    assert find_nvrtc() is find_nvrtc()
    assert nvrtc().version.count(".") == 2              # the build too
    assert "sm_90" in nvrtc().supported


def test_nvcc_where_there_is_no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = _nvcc()
    monkeypatch.setattr(compiler_module, "find_nvrtc", lambda: None)
    assert find_cuda_compiler() == nvcc
    assert available_cuda_compilers() == (nvcc,)
    assert Path(nvcc.command).is_absolute()


def test_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "find_nvrtc", lambda: None)
    monkeypatch.setattr(compiler_module, "find_nvcc", lambda: None)
    assert available_cuda_compilers() == ()
    with pytest.raises(lk.CompilerError, match="NVRTC cannot be loaded, and there is no nvcc") as caught:
        find_cuda_compiler()
    assert caught.value.hint is not None
    assert "pip install 'loopkit[cuda]'" in caught.value.hint


@pytest.fixture
def search_again() -> Iterator[None]:
    find_nvrtc.cache_clear()
    yield
    find_nvrtc.cache_clear()


def test_a_library_that_fails_is_not_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CompilerError is a RuntimeError too, and must not be taken for the library's own."""
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setattr(bindings, "nvrtcVersion", lambda: (bindings.nvrtcResult.NVRTC_SUCCESS, 12, 9))
    monkeypatch.setattr(bindings, "nvrtcGetSupportedArchs", lambda: (bindings.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY, 0))
    with pytest.raises(lk.CompilerError, match="NVRTC fails: NVRTC_ERROR_OUT_OF_MEMORY"):
        find_nvrtc.__wrapped__()



@pytest.mark.usefixtures("search_again")
def test_bindings_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = pytest.importorskip("cuda.bindings.nvrtc")

    def missing() -> None:
        raise RuntimeError("Failed to dlopen libnvrtc.so")
    monkeypatch.setattr(bindings, "nvrtcVersion", missing)
    assert find_nvrtc() is None


@pytest.mark.usefixtures("search_again")
def test_no_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert find_nvrtc() is None


# Compiling

def test_cubin(compiler: CudaCompiler) -> None:
    binary = compiler.cubin(SOURCE, "reverse", SM_90)
    assert binary.cubin.startswith(b"\x7fELF")
    assert set(binary.resources) == {"reverse", "zero"}
    reverse, zero = binary.resources["reverse"], binary.resources["zero"]
    assert (reverse.static_shared, reverse.barriers) == (1024, 1)
    assert (zero.static_shared, zero.barriers) == (0, 0)
    assert 1 <= zero.registers <= reverse.registers <= 64
    assert reverse.spill_stores == reverse.spill_loads == reverse.stack == 0
    assert "Compiling entry function 'zero'" in binary.log


def test_ptx(compiler: CudaCompiler) -> None:
    text = compiler.ptx(SOURCE, "reverse", lk.CudaTarget("sm_90a"))
    assert ".target sm_90a" in text
    assert ".entry reverse(" in text
    assert "\0" not in text


def test_options_reach_the_compiler(compiler: CudaCompiler) -> None:
    divided = compiler.ptx(SOURCE, "reverse", SM_90)
    assert "div.rn.f32" in divided
    assert ".loc" not in divided
    assert "div.approx.ftz.f32" in compiler.ptx(SOURCE, "reverse", lk.CudaTarget(fast_math=True))
    assert ".loc" in compiler.ptx(SOURCE, "reverse", lk.CudaTarget(line_info=True))
    source = f"#if WITH == 3\n{SOURCE}#endif\n"
    assert ".entry zero(" in compiler.ptx(source, "reverse", lk.CudaTarget(options=("-DWITH=3",)))


@pytest.mark.parametrize(("version", "refused"), [("12.8.93", False), ("12.9.86", True), ("13.0", True)])
def test_no_cache_but_ours(monkeypatch: pytest.MonkeyPatch, version: str, refused: bool) -> None:
    """Machine code from NVRTC's own cache comes without what ptxas says of registers."""
    given: list[str] = []

    def compiled(_source: str, options: Sequence[str], _form: str) -> tuple[bytes, str]:
        given.extend(options)
        return b"", ""
    monkeypatch.setattr(compiler_module, "_compile", compiled)
    Nvrtc(version, ("sm_90",)).cubin(SOURCE, "reverse", SM_90)
    assert ("--no-cache" in given) == refused


@pytest.mark.parametrize("bounds", ["", "__launch_bounds__(256)"])
def test_fewer_registers(compiler: CudaCompiler, bounds: str) -> None:
    source = f"""extern "C" __global__ void {bounds} many(float *a)
    {{
        float v[64];
        for (int i = 0; i < 64; ++i) v[i] = a[i];
        __syncthreads();
        for (int i = 0; i < 64; ++i) a[i] = v[63 - i];
    }}"""
    free = compiler.cubin(source, "many", SM_90).resources["many"]
    bound = compiler.cubin(source, "many", lk.CudaTarget(max_registers=32)).resources["many"]
    assert free.registers > 64
    assert free.spill_stores == free.spill_loads == 0
    assert bound.registers <= 32
    assert bound.spill_stores > 0
    assert bound.spill_loads > 0


@pytest.mark.parametrize("std", ["c++11", "c++14", "c++17", "c++20"])
def test_dialects(compiler: CudaCompiler, std: str) -> None:
    year = {"c++11": 201103, "c++14": 201402, "c++17": 201703, "c++20": 202002}[std]
    checked = f'static_assert(__cplusplus == {year}, "another dialect");\n{SOURCE}'
    assert ".entry zero" in compiler.ptx(checked, "reverse", lk.CudaTarget(std=std))


def test_contraction_is_the_compiler_s_default(compiler: CudaCompiler) -> None:
    source = 'extern "C" __global__ void axpy(float *y, float a) { y[0] = a*y[1] + y[2]; }'
    assert "fma.rn.f32" in compiler.ptx(source, "axpy", SM_90)
    assert "fma.rn.f32" not in compiler.ptx(source, "axpy", lk.CudaTarget(options=("-fmad=false",)))


def test_warnings_stand_in_the_log(compiler: CudaCompiler, capfd: pytest.CaptureFixture[str]) -> None:
    binary = compiler.cubin('extern "C" __global__ void k(float *a) { int unused; a[0] = 1; }', "k", SM_90)
    assert "kernel.cu(1): warning" in binary.log
    assert '"unused" was declared' in binary.log
    assert "loopkit-" not in binary.log                 # no path of a temporary file
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("form", ["cubin", "ptx"])
def test_rejected_text(compiler: CudaCompiler, form: str) -> None:
    with pytest.raises(lk.CompilerError) as caught:
        getattr(compiler, form)(BROKEN, "reverse", SM_90)
    assert caught.value.message == (f"{compiler.name} {compiler.version} rejects the code of kernel 'reverse' "
                                    "at line 11.")
    assert caught.value.log.splitlines()[:4] == [
        '     9 | extern "C" __global__ void zero(float *a)', "    10 | {",
        ">   11 |     a[threadIdx.x] = nothing;", "    12 | }"]
    assert 'identifier "nothing" is undefined' in caught.value.log
    assert "loopkit-" not in str(caught.value)
    assert caught.value.hint is not None


def test_missing_header(compiler: CudaCompiler) -> None:
    with pytest.raises(lk.CompilerError, match="kernel 'k' at line 2") as caught:
        compiler.cubin("// first\n#include <no_such_header.h>\n", "k", SM_90)
    assert ">    2 | #include <no_such_header.h>" in caught.value.log


def test_refused_by_ptxas(compiler: CudaCompiler) -> None:
    with pytest.raises(lk.CompilerError, match="rejects the code of kernel 'reverse'") as caught:
        compiler.cubin(SOURCE.replace("tile[256]", "tile[65536]"), "reverse", SM_90)
    assert "uses too much shared data" in caught.value.log


def test_option_that_the_compiler_does_not_know(compiler: CudaCompiler) -> None:
    with pytest.raises(lk.CompilerError, match="rejects the code of kernel 'k'") as caught:
        compiler.cubin(SOURCE, "k", lk.CudaTarget(options=("--no-such-option",)))
    assert "--no-such-option" in caught.value.log


def test_options_are_never_read_by_a_shell(compiler: CudaCompiler, tmp_path: Path) -> None:
    with pytest.raises(lk.CompilerError):
        compiler.cubin(SOURCE, "k", lk.CudaTarget(options=(f"; touch {tmp_path / 'made'}",)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["cubin", "ptx"])
def test_architecture_that_the_compiler_does_not_know(compiler: CudaCompiler, form: str) -> None:
    assert isinstance(compiler, Nvrtc | Nvcc)
    if "sm_70" in compiler.supported:
        pytest.skip("a compiler that still knows sm_70")
    with pytest.raises(lk.CompilerError) as caught:
        getattr(compiler, form)(SOURCE, "reverse", lk.CudaTarget("sm_70"))
    assert caught.value.message == (f"{compiler.name} {compiler.version} does not compile for 'sm_70', "
                                    "which kernel 'reverse' is for.")
    assert caught.value.hint is not None
    assert "it compiles for sm_75, sm_80" in caught.value.hint


def test_both_compilers_say_the_same() -> None:
    first, second = (c.cubin(SOURCE, "reverse", SM_90).resources for c in (nvrtc(), _nvcc()))
    assert first.keys() == second.keys()
    assert {name: u.static_shared for name, u in first.items()} == {name: u.static_shared for name, u in second.items()}


def test_forms_of_the_log() -> None:
    log = """\
ptxas info    : 0 bytes gmem, 16 bytes cmem[3]
ptxas info    : Compiling entry function 'first' for 'sm_75'
ptxas info    : Function properties for first
    24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 2 barriers, 132 bytes smem, 364 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'second' for 'sm_75'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers
"""
    assert parse_ptxas_log(log) == {"first": PtxasUsage(40, 8, 12, 24, 132, 2, 372), "second": PtxasUsage(4)}
    assert parse_ptxas_log("nothing of the kind") == {}


def test_two_threads_at_once() -> None:
    sources = [f"// {i}\n{SOURCE}" for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        binaries = list(pool.map(lambda s: nvrtc().cubin(s, "reverse", SM_90), sources))
    assert [set(b.resources) for b in binaries] == [{"reverse", "zero"}]*8


# Keeping

def test_compiles_once(tmp_path: Path) -> None:
    counting, cache = Counting(), DiskCache(tmp_path)
    first = load(counting, cache)
    assert load(counting, cache) == first
    assert counting.calls == ["reverse"]
    key = next(tmp_path.glob("*.loopkit")).name.partition(".")[0]
    entry = cache.lookup(key)
    assert entry is not None
    assert entry[1]["options"] == ["-arch=sm_90", "-std=c++17", "--ptxas-options=-v"]
    assert parse_ptxas_log(str(entry[1]["log"]))["reverse"].static_shared == 1024


def test_the_version_that_is_expected_is_the_one_that_is_loaded() -> None:
    found = find_nvrtc()
    assert found is not None
    assert expected_nvrtc() == (found.name, found.version)


def test_in_memory(tmp_path: Path) -> None:
    counting, cache = Counting(), DiskCache(tmp_path)
    assert load_binary(SOURCE, "a", SM_90, cache, counting) is load_binary(SOURCE, "a", SM_90, cache, counting)
    assert counting.calls == ["a"]


def test_another_process_compiles_nothing(tmp_path: Path) -> None:
    load_binary(SOURCE, "reverse", SM_90, DiskCache(tmp_path))
    program = (
        "import sys, pathlib, loopkit as lk\n"
        "from loopkit.runtime.cache import DiskCache\n"
        "from loopkit.runtime.cuda import compiler\n"
        "from loopkit.runtime.cuda.compiler import load_binary\n"
        "def fail(*rest): raise SystemExit('a compiler was loaded')\n"
        "compiler.find_nvrtc = compiler.find_nvcc = fail\n"
        f"b = load_binary({SOURCE!r}, 'reverse', lk.CudaTarget('sm_90'), DiskCache(pathlib.Path(sys.argv[1])))\n"
        "print(sorted(b.resources))\n")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.stdout, done.stderr) == ("['reverse', 'zero']\n", "")


def test_key_depends_on_all_that_matters() -> None:
    counting = Counting()
    targets = [SM_90, lk.CudaTarget("sm_80"), lk.CudaTarget(std="c++20"), lk.CudaTarget(fast_math=True),
               lk.CudaTarget(line_info=True), lk.CudaTarget(max_registers=32), lk.CudaTarget(options=("-G",))]
    keys = {binary_key(SOURCE, target, counting.name, counting.version) for target in targets}
    keys |= {binary_key(SOURCE + " ", SM_90, counting.name, counting.version),
             binary_key(SOURCE, SM_90, counting.name, "1.1"), binary_key(SOURCE, SM_90, "nvcc", counting.version)}
    assert len(keys) == len(targets) + 3


@pytest.mark.parametrize("damage", [
    lambda file: file.write_bytes(file.read_bytes()[:100]),
    lambda file: file.unlink(),
    lambda file: file.write_text("{"),
    lambda file: _changed(file, log=None),
    lambda file: _changed(file, log=""),
    lambda file: _changed(file, log={"reverse": {"registers": 3}}),
    lambda file: _changed(file, log="Used 3 registers"),
    lambda file: _changed(file, log=17),
])
def test_damaged_entry_is_rebuilt(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    counting, cache = Counting(), DiskCache(tmp_path)
    first = load(counting, cache)
    damage(next(tmp_path.glob("*.loopkit")))
    assert load(counting, cache).resources == first.resources
    assert len(counting.calls) == 2
    load(counting, cache)
    assert len(counting.calls) == 2


def _changed(file: Path, **values: object) -> None:
    """Other facts, as sound as they can be."""
    cache, key = DiskCache(file.parent), file.name.partition(".")[0]
    entry = cache.lookup(key)
    assert entry is not None
    cache.put(key, entry[0], {**entry[1], **values})


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert load(Counting(), DiskCache(place)).cubin


def test_what_is_refused_is_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(lk.CompilerError):
            load_binary(BROKEN, "reverse", SM_90, DiskCache(tmp_path), nvrtc())
    assert not list(tmp_path.iterdir())


def test_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPKIT_DUMP", str(tmp_path / "dump"))
    load(Counting(), DiskCache(tmp_path / "cache"))
    dumped, = (tmp_path / "dump").iterdir()
    assert dumped.name.startswith("reverse-")
    assert dumped.suffix == ".cu"
    assert dumped.read_text() == SOURCE
