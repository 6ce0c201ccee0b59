"""The disk cache: shared, damaged, full of leftovers, or not writable at all."""
from __future__ import annotations

import logging
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loopkit.runtime import cache as cache_module
from loopkit.runtime import host
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.compiler import HostCompiler, find_compiler

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process had just started: nothing in memory, nothing warned about."""
    host.load_library.cache_clear()
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
    host.load_library.cache_clear()
    return int(host.load_library(source, "answer", compiler, cache).answer())


def test_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOOPKIT_CACHE_DIR", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("LOOPKIT_CACHE_DIR")
    assert cache_directory().name == "loopkit"


def test_relative_directory(compiler: HostCompiler, counted: list[str], tmp_path: Path,
                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPKIT_CACHE_DIR", ".")
    cache = DiskCache(cache_directory())
    monkeypatch.chdir("/")
    assert [load(compiler, cache) for _ in range(2)] == [42] * 2
    assert counted == ["answer"]
    assert len(list(tmp_path.iterdir())) == 1


def test_compiles_once(compiler: HostCompiler, counted: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new" / "cache")
    assert [load(compiler, cache) for _ in range(3)] == [42] * 3
    assert counted == ["answer"]
    entry = cache.lookup(host.object_key(SOURCE, compiler))
    assert entry is not None
    content, facts = entry
    assert facts == {"kernel": "answer", "compiler": list(compiler.command), "version": compiler.version,
                     "flags": list(compiler.flags)}
    files, size = cache.size()
    assert files == 1
    assert size > len(content)


def test_for_the_user_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("key", b"x", {})
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in cache.directory.iterdir()} == {0o600}


def test_entry(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    facts: dict[str, object] = {"registers": 32, "spills": None, "name": "\u00e4\n", "share": 0.1}
    assert cache.lookup("key") is None
    cache.put("key", b"con\ntent\0", facts)
    assert cache.lookup("key") == (b"con\ntent\0", facts)
    assert cache.lookup("other") is None
    cache.put("key", b"", {"alone": True})             # facts with an empty object
    assert cache.lookup("key") == (b"", {"alone": True})
    assert len(list(tmp_path.iterdir())) == 1


def test_in_memory(compiler: HostCompiler, counted: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert host.load_library(SOURCE, "a", compiler, cache) is host.load_library(SOURCE, "a", compiler, cache)
    assert counted == ["a"]


def test_the_log_tells_whether_a_kernel_is_compiled(compiler: HostCompiler, tmp_path: Path,
                                                    caplog: pytest.LogCaptureFixture) -> None:
    cache = DiskCache(tmp_path)
    with caplog.at_level(logging.DEBUG, "loopkit"):
        for _ in range(2):
            host.load_library(SOURCE, "a", compiler, cache)
        load(compiler, cache)
        host.load_library("int answer(void) { return 1; }\n", "b", compiler, cache)
    assert caplog.messages == ["Kernel a compiled", "Kernel a retrieved from cache",
                               "Kernel answer retrieved from cache", "Kernel b compiled"]


def test_key_depends_on_all_that_matters(compiler: HostCompiler) -> None:
    other = replace(compiler, version="another version")
    plain = replace(compiler, chosen=(*compiler.chosen, "-g"))
    keys = {host.object_key(SOURCE, compiler), host.object_key(SOURCE + " ", compiler),
            host.object_key(SOURCE, other), host.object_key(SOURCE, plain)}
    assert len(keys) == 4


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:70]),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
    "garbage": lambda path: path.write_bytes(b"[" * 100_000),
    "gone": lambda path: path.unlink(),
    "linked": linked, "endless": endless, "pipe": pipe}


@pytest.mark.deep(every=10)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_entry_is_rebuilt(compiler: HostCompiler, counted: list[str], tmp_path: Path,
                                  damage: Callable[[Path], object]) -> None:
    cache = DiskCache(tmp_path)
    load(compiler, cache)
    damage(next(tmp_path.glob("*.loopkit")))
    assert load(compiler, cache) == 42
    assert counted == ["answer"] * 2
    assert load(compiler, cache) == 42
    assert counted == ["answer"] * 2


def test_facts_are_checked_too(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("key", b"x", {"registers": 32})
    file, = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"32}", b"33}"))
    assert cache.lookup("key") is None


@pytest.mark.parametrize("damage", [linked, endless, pipe])
def test_only_plain_files_are_read(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o600)
    assert cache_module._read_own_file(path) == b""
    damage(path)
    with pytest.raises(OSError, match=r"trusted|symbolic"):
        cache_module._read_own_file(path)


def test_directories_where_files_should_be(compiler: HostCompiler, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    load(compiler, cache)
    for path in list(tmp_path.iterdir()):
        path.unlink()
        path.mkdir()
    with pytest.warns(RuntimeWarning, match="Is a directory"):
        assert load(compiler, cache) == 42
    assert load(compiler, cache) == 42


def test_what_a_killed_writer_left_is_ignored_and_cleared(tmp_path: Path) -> None:
    old, new, ahead = (tmp_path / f"{cache_module._TEMPORARY}{name}" for name in ("old", "new", "ahead"))
    for leftover, shift in ((old, -7200), (new, 0), (ahead, 7200)):
        leftover.write_bytes(b"half a file")
        os.utime(leftover, (time.time() + shift,) * 2)
    DiskCache(tmp_path, limit=1000).put("key", b"x" * 500, {})
    assert not old.exists()
    assert new.exists()                                # its writer may be at work
    assert not ahead.exists()


def test_object_that_the_loader_refuses_is_compiled_again(compiler: HostCompiler, counted: list[str],
                                                          tmp_path: Path) -> None:
    """Made where libraries were installed that are missing here."""
    cache = DiskCache(tmp_path)
    cache.put(host.object_key(SOURCE, compiler), b"sound, but no object", {})
    assert [load(compiler, cache) for _ in range(2)] == [42] * 2
    assert counted == ["answer"]


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
        DiskCache(tmp_path).put("key", b"x", {})
    assert not list(tmp_path.iterdir())


def test_directory_that_vanishes(compiler: HostCompiler, counted: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    load(compiler, cache)
    shutil.rmtree(cache.directory)
    assert [load(compiler, cache) for _ in range(2)] == [42] * 2
    assert counted == ["answer"] * 2


# Trust

def given_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *path* be another user's."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        me = os.geteuid()
        monkeypatch.setattr(cache_module.os, "geteuid", lambda: me + 1)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777, 0o700])
def test_directory_that_others_can_write_to(compiler: HostCompiler, counted: list[str], tmp_path: Path, mode: int,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path)
    load(compiler, cache)
    before = sorted(tmp_path.iterdir())
    tmp_path.chmod(mode)
    if mode == 0o700:
        given_away(tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match="another user or can be written to by others") as warned:
        assert [load(compiler, cache) for _ in range(2)] == [42] * 2
    assert len(warned) == 1
    assert counted == ["answer"] * 3                   # neither taken from there nor kept
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("spoil", ["chmod", "chown"])
def test_file_that_others_can_write_to(tmp_path: Path, spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left from a time when the directory was open."""
    cache = DiskCache(tmp_path)
    cache.put("key", b"x", {})
    path, = tmp_path.iterdir()
    if spoil == "chmod":
        path.chmod(0o622)
    else:
        monkeypatch.setattr(DiskCache, "_trusted", lambda self: True)
        given_away(path, monkeypatch)
    assert cache.lookup("key") is None

# Eviction

def aged(cache: DiskCache, key: str, seconds: float) -> None:
    for file in cache.directory.glob(f"{key}.*"):
        os.utime(file, (time.time() - seconds,) * 2)


def keys(cache: DiskCache) -> str:
    """Those of the entries, which are complete."""
    there = {file.name.partition(".")[0] for file in cache.directory.iterdir()}
    assert all(cache.lookup(key) is not None for key in there)
    return "".join(sorted(there))


def test_longest_unused_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=3600)
    for i, key in enumerate("abc"):
        cache.put(key, key.encode() * 1000, {})
        aged(cache, key, 100 - i)
    assert cache.lookup("a") is not None        # used now: "b" is the one to go
    cache.put("d", b"d" * 1000, {})
    assert keys(cache) == "acd"
    assert cache.size()[1] <= 3600


def test_time_in_the_future_is_no_use(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=3600)
    for key, age in (("a", 10.0), ("b", -1e6), ("c", -60.0)):
        cache.put(key, key.encode() * 1000, {})
        aged(cache, key, age)
    cache.put("d", b"d" * 1000, {})
    assert keys(cache) == "acd"                        # c: clocks of two machines, not quite alike


def test_same_bytes_under_two_keys(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=2500)
    cache.put("a", b"x" * 1000, {})
    aged(cache, "a", 100)
    cache.put("b", b"x" * 1000, {})
    cache.put("c", b"y" * 1000, {})
    assert keys(cache) == "bc"


def test_entry_larger_than_the_bound_is_kept_while_it_is_new(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10)
    for key in "ab":
        cache.put(key, key.encode() * 100, {})
        assert keys(cache) == key


def test_files_of_others_stay(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10)
    others = [tmp_path / name for name in ("data.json", "lib.so", "a.b.loopkit", ".writing", "notes", ".loopkit")]
    for file in others:
        file.write_bytes(b"x" * 100)
        os.utime(file, (0, 0))
    cache.put("a", b"a" * 100, {})
    cache.put("b", b"b" * 100, {})
    assert all(file.exists() for file in others)
    assert cache.size()[0] == 1


def test_bound_is_looked_after_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(DiskCache, "_make_room", lambda self, needed: looks.append(needed))
    cache = DiskCache(tmp_path, limit=64 * 10_000)
    for i in range(500):                               # 1.1 kilobytes each: one of about nine
        cache.put(f"key{i}", str(i).encode() * (1000 // len(str(i))), {})
    assert 30 < len(looks) < 90

def test_dump(compiler: HostCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPKIT_DUMP", str(tmp_path / "dump"))
    load(compiler, DiskCache(tmp_path / "cache"))
    dumped, = (tmp_path / "dump").iterdir()
    assert dumped.name.startswith("answer-")
    assert dumped.suffix == ".c"
    assert dumped.read_text() == SOURCE
