"""Compiled objects on disk: written atomically, checked when read, shared by many processes.

An entry is an object and a record, in files whose names begin with the entry's key:

- ``KEY.DIGEST.so`` (or another suffix): the object, DIGEST being the hash of its bytes. Two writers of one key whose
  compilers give different bytes write two files, and the content of a path never changes: an object that a process has
  mapped stays unchanged when the entry is rebuilt or evicted.
- ``KEY.loopkit-record``: a line with the hash of the rest, then JSON: facts about the object, and its DIGEST.

*Crashes.* A file is written under another name and then renamed, so a reader gets all of it or nothing, even if the
writer is killed. After a crash of the machine a renamed file may be empty or full of zeros, because nothing is
synchronised to the disk. Every read compares the bytes with a hash first, so such an entry is compiled again. This
costs less than waiting for the disk at every write.

*Security.* Objects from the cache run with the user's rights, and a hash beside an object does not authenticate its
writer. Directories and files are therefore used only if they belong to the user or root and nobody else may write them.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

#: Default size of a cache, in bytes; above it, the least recently used entries are evicted.
DEFAULT_LIMIT = 1 << 30
#: Largest difference of clocks, in seconds, that counts as none; writing a file takes less.
_HOUR = 3600.0
_RECORD = ".loopkit-record"
_TEMPORARY = ".loopkit-"
#: Only files with such names are counted and evicted: the user may keep other files in the directory.
_OURS = re.compile(rf"{re.escape(_TEMPORARY)}\w+|[^.]+(?:{re.escape(_RECORD)}|\.[0-9a-f]{{64}}\.\w+)")
_warned: set[Path] = set()


def cache_directory() -> Path:
    """``$LOOPKIT_CACHE_DIR``, else the user's cache directory of the platform.

    The path is absolute, because the loader searches its own places for a name without a directory.
    """
    chosen = os.environ.get("LOOPKIT_CACHE_DIR")
    return Path(chosen or platformdirs.user_cache_dir("loopkit")).absolute()


@dataclass(frozen=True)
class Entry:
    """The object and the facts of a key, read together; another process may evict the file *path* at any time."""

    path: Path
    content: bytes
    facts: dict[str, object]


@dataclass(frozen=True)
class DiskCache:
    """Binary objects by key. A key is a file name without dots.

    Nothing here raises: missing, damaged or insecure files count as absent, and an unusable directory costs one warning
    per process.

    :ivar directory: created, for the user alone, at the first write.
    :ivar limit: size bound in bytes; it may be exceeded by a few hundredths, and by one entry that is larger.
    """

    directory: Path
    limit: int = DEFAULT_LIMIT

    def lookup(self, key: str, suffix: str) -> Entry | None:
        """The entry of *key*, complete and undamaged, else ``None``."""
        if not self._trusted():
            return None
        record = self.directory / f"{key}{_RECORD}"
        try:
            checksum, _, text = _read(record).partition(b"\n")
            # compared first, so that the parser only reads the output of _record_text
            match json.loads(text) if _digest(text).encode() == checksum else None:
                case {"facts": dict(facts), "object": str(digest)}:
                    path = self.directory / f"{key}.{digest}{suffix}"
                    content = _read(path)
                case _:
                    return None
        except (OSError, ValueError):
            return None
        if _digest(content) != digest:
            return None
        # the record's modification time is the entry's last use: many file systems do not update access times
        with contextlib.suppress(OSError):
            os.utime(record)
        return Entry(path, content, facts)

    def put(self, key: str, content: bytes, facts: dict[str, object], suffix: str) -> Path | None:
        """Store *content* and *facts*, a JSON object; ``None`` if that fails."""
        digest = _digest(content)
        path = self.directory / f"{key}.{digest}{suffix}"
        # the record is written last, because it names the object
        stored = self._store({path: content, self.directory / f"{key}{_RECORD}": _record_text(facts, digest)})
        return path if stored else None

    def size(self) -> tuple[int, int]:
        """The number of files, and their bytes."""
        sizes = [status.st_size for _, status in self._files()]
        return len(sizes), sum(sizes)

    def _store(self, files: dict[Path, bytes]) -> bool:
        needed = sum(map(len, files.values()))
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._trusted():
                return False
            if self._is_time_to_look(files, needed):
                self._make_room(needed)
            for path, content in files.items():
                _write(path, content)
        except OSError as err:
            _warn_once(self.directory, f"cannot be written ({err.strerror or err}); compiled kernels are not kept.")
            return False
        return True

    def _trusted(self) -> bool:
        """Can only the user or root have written the directory's files?"""
        try:
            status = self.directory.stat()
        except OSError:
            return True                # there is nothing to read, and writing will report the problem
        if _is_private(status):
            return True
        _warn_once(self.directory, "belongs to another user or can be written to by others (mode "
                                   f"{stat.S_IMODE(status.st_mode):o}, owner {status.st_uid}); compiled kernels are "
                                   "neither taken from it nor kept. 'chmod go-w' mends that for a directory of yours.")
        return False

    def _is_time_to_look(self, files: dict[Path, bytes], needed: int) -> bool:
        """Is it time to check the size? Pseudo-random, on average once per 64th of the bound written, in any process.

        Listing a gigabyte of small objects takes several times as long as compiling one. The hash of the written
        bytes is the random number, so processes need no shared state and every run is reproducible.
        """
        thrown = int(_digest(b"".join(files.values()))[:8], 16) / (1 << 32)
        return thrown * self.limit < 64 * needed

    def _make_room(self, needed: int) -> None:
        """Remove files of killed writers, then the least recently used entries, until *needed* more bytes fit."""
        now = time.time()
        entries: defaultdict[str, list[tuple[Path, os.stat_result]]] = defaultdict(list)
        for path, status in self._files():
            if not path.name.startswith(_TEMPORARY):
                entries[path.name.partition(".")[0]].append((path, status))
            elif abs(now - status.st_mtime) > _HOUR:
                _remove(path)

        def last_use(files: list[tuple[Path, os.stat_result]]) -> int:
            used = max(files, key=lambda file: file[1].st_mtime_ns)[1]
            # a time in the future comes from a wrong clock; that entry would outlive all new ones
            return used.st_mtime_ns if used.st_mtime < now + _HOUR else 0

        excess = needed - self.limit + sum(status.st_size for files in entries.values() for _, status in files)
        for files in sorted(entries.values(), key=last_use):
            if excess <= 0:
                break
            for path, status in files:
                _remove(path)
                excess -= status.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            with os.scandir(self.directory) as found:
                entries = [entry for entry in found if _OURS.fullmatch(entry.name)]
        except OSError:
            return
        for entry in entries:
            # another process may remove a file between the listing and this
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _record_text(facts: dict[str, object], digest: str) -> bytes:
    text = json.dumps({"facts": facts, "object": digest}, indent=1, sort_keys=True).encode()
    return _digest(text).encode() + b"\n" + text


def _write(path: Path, content: bytes) -> None:
    """Write *path*, for the user alone, so that a reader gets all of it or nothing."""
    handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    """The bytes of a regular file that only the user (or root) can have written.

    :raises OSError: it is not such a file. Links, pipes and devices may lead anywhere, block, or never end.
    """
    directly = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | directly)) as file:
        status = os.fstat(file.fileno())
        if not (stat.S_ISREG(status.st_mode) and _is_private(status)):
            raise PermissionError(f"'{path}' is not to be trusted")
        return file.read()


def _is_private(status: os.stat_result) -> bool:
    if sys.platform == "win32":        # Windows has neither numeric owners nor these bits
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _remove(path: Path) -> None:
    # another process may have been faster; files that cannot be removed stay
    with contextlib.suppress(OSError):
        path.unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _warn_once(directory: Path, what: str) -> None:
    if directory not in _warned:
        _warned.add(directory)
        warnings.warn(f"the cache directory '{directory}' {what} LOOPKIT_CACHE_DIR chooses another place.",
                      RuntimeWarning, stacklevel=2)
