"""The disk cache: shared, damaged, full of leftovers, or not writable at all."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopkit.runtime import cache as cache_module
from loopkit.runtime import library
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.compiler import HostCompiler, find_compiler

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process had just started: nothing in memory, nothing warned about."""
    monkeypatch.setattr(library, "_libraries", {})
    monkeypatch.setattr(cache_module, "_warned", set())


@pytest.fixture(scope="module")
def compiler() -> HostCompiler:
    return find_compiler()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that the compiler was called for."""
    calls: list[str] = []
    original = HostCompiler.compile

    def counting(self: HostCompiler, source: str, kernel: str) -> bytes:
        calls.append(kernel)
        return original(self, source, kernel)
    monkeypatch.setattr(HostCompiler, "compile", counting)
    return calls


def load(compiler: HostCompiler, cache: DiskCache, source: str = SOURCE) -> int:
    library._libraries.clear()
    return int(library.load_library(source, "answer", compiler, cache).answer())


def test_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOOPKIT_CACHE_DIR", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("LOOPKIT_CACHE_DIR")
    assert cache_directory().name == "loopkit"


def test_compiles_once(compiler: HostCompiler, counted: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new" / "cache")
    assert [load(compiler, cache) for _ in range(3)] == [42] * 3
    assert counted == ["answer"]
    record = json.loads(next(cache.directory.glob("*.json")).read_text())
    assert record["kernel"] == "answer"
    assert record["flags"] == list(compiler.flags)
    files, size = cache.size()
    assert files == 2
    assert size > record["bytes"]


def test_in_memory(compiler: HostCompiler, counted: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert library.load_library(SOURCE, "a", compiler, cache) is library.load_library(SOURCE, "a", compiler, cache)
    assert counted == ["a"]


def test_key_depends_on_all_that_matters(compiler: HostCompiler) -> None:
    other = HostCompiler(compiler.command, "another version", compiler.openmp, compiler.native)
    plain = HostCompiler(compiler.command, compiler.version, not compiler.openmp, compiler.native)
    keys = {library.object_key(SOURCE, compiler), library.object_key(SOURCE + " ", compiler),
            library.object_key(SOURCE, other), library.object_key(SOURCE, plain)}
    assert len(keys) == 4


@pytest.mark.parametrize("damage", [
    lambda so, record: so.write_bytes(so.read_bytes()[:100]),
    lambda so, record: so.write_bytes(b"\0" + so.read_bytes()[1:]),
    lambda so, record: so.unlink(),
    lambda so, record: record.unlink(),
    lambda so, record: record.write_text(""),
    lambda so, record: record.write_text("[1, 2]"),
    lambda so, record: record.write_bytes(b"\xff\xfe{}"),
    lambda so, record: record.write_text('{"sha256": "../../etc/passwd"}'),
])
def test_damaged_entry_is_rebuilt(compiler: HostCompiler, counted: list[str], tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    cache = DiskCache(tmp_path)
    load(compiler, cache)
    # another inode, as the file that is mapped into this process must not change
    so = next(tmp_path.glob("*.so"))
    content = so.read_bytes()
    so.unlink()
    so.write_bytes(content)
    damage(so, next(tmp_path.glob("*.json")))
    assert load(compiler, cache) == 42
    assert counted == ["answer"] * 2
    assert load(compiler, cache) == 42
    assert counted == ["answer"] * 2


def test_what_a_killed_writer_left_is_ignored_and_cleared(compiler: HostCompiler, tmp_path: Path) -> None:
    old, new = tmp_path / ".writing-old", tmp_path / ".writing-new"
    for leftover in (old, new):
        leftover.write_bytes(b"half a file")
    os.utime(old, (time.time() - 7200,) * 2)
    assert load(compiler, DiskCache(tmp_path)) == 42
    assert not old.exists()
    assert new.exists()


def test_directory_that_is_a_file(compiler: HostCompiler, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert load(compiler, DiskCache(place)) == 42
    assert load(compiler, DiskCache(place)) == 42     # warned once: a second warning would be an error here


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device"),
                                   OSError(30, "Read-only file system")])
def test_directory_that_cannot_be_written(compiler: HostCompiler, tmp_path: Path, error: OSError,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise error
    monkeypatch.setattr(cache_module, "_write", refuse)
    with pytest.warns(RuntimeWarning, match=str(error.strerror)):
        assert load(compiler, DiskCache(tmp_path)) == 42
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(RuntimeWarning):
        assert DiskCache(tmp_path).put("key", b"x", {}) is None
    assert not list(tmp_path.iterdir())


def test_longest_unused_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=3500)
    for i, key in enumerate(("a", "b", "c")):
        path = cache.put(key, key.encode() * 1000, {})
        assert path is not None
        for file in (path, tmp_path / f"{key}.json"):
            os.utime(file, (1000 + i, 1000 + i))
    assert cache.get("a") is not None                 # used now: "b" is the one to go
    cache.put("d", b"d" * 1000, {})
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert cache.size()[1] <= 3500


def test_entry_larger_than_the_bound_is_kept_while_it_is_new(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10)
    path = cache.put("key", b"x" * 100, {})
    assert path is not None
    assert path.exists()


def test_eight_processes_on_a_cold_cache(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from loopkit.runtime.cache import DiskCache\n"
        "from loopkit.runtime.compiler import find_compiler\n"
        "import loopkit.runtime.library as library\n"
        "cache = DiskCache(pathlib.Path(sys.argv[1]))\n"
        f"print(library.load_library({SOURCE!r}, 'answer', find_compiler(None, cache), cache).answer())\n")

    def run(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True,
                              check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))
    assert [d.stdout for d in done] == ["42\n"] * 8, done[0].stderr
    names = [p.name for p in tmp_path.iterdir()]
    assert not [x for x in names if x.startswith(".writing")]
    key = next(x for x in names if x.endswith(".json") and not x.startswith("compiler-"))
    assert DiskCache(tmp_path).get(key.removesuffix(".json")) is not None


def test_dump(compiler: HostCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPKIT_DUMP", str(tmp_path / "dump"))
    load(compiler, DiskCache(tmp_path / "cache"))
    dumped, = (tmp_path / "dump").iterdir()
    assert dumped.name.startswith("answer-")
    assert dumped.suffix == ".c"
    assert dumped.read_text() == SOURCE
