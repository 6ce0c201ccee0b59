"""Compiled objects on disk: written atomically, checked when read, shared by many processes.

An entry is one file, ``KEY.loopkit``: a line with the hash of the rest, a line of JSON with facts about the object, and
the object's bytes.

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

#: Default size of a cache, in bytes; above it, the least recently used entries are evicted.
DEFAULT_LIMIT = 1 << 30
#: Largest difference of clocks, in seconds, that counts as none; writing a file takes less.
_HOUR = 3600.0
_SUFFIX = ".loopkit"
_TEMPORARY = ".loopkit-"
#: Only files with such names are counted and evicted: the user may keep other files in the directory.
_OURS = re.compile(rf"{re.escape(_TEMPORARY)}\w+|[^.]+{re.escape(_SUFFIX)}")
_warned: set[Path] = set()


def cache_directory() -> Path:
    """``$LOOPKIT_CACHE_DIR``, else the user's cache directory of the platform.

    The path is absolute, because the loader searches its own places for a name without a directory.
    """
    chosen = os.environ.get("LOOPKIT_CACHE_DIR")
    return Path(chosen or platformdirs.user_cache_dir("loopkit")).absolute()


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

    def lookup(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The object and the facts of *key*, complete and undamaged, else ``None``."""
        if not self._trusted():
            return None
        path = self.directory / f"{key}{_SUFFIX}"
        try:
            checksum, _, rest = _read_own_file(path).partition(b"\n")
        except OSError:
            return None
        # compared first, so that the parser only reads the output of put
        if _digest(rest).encode() != checksum:
            return None
        # the modification time is the last use: many file systems do not update access times
        with contextlib.suppress(OSError):
            os.utime(path)
        facts, _, content = rest.partition(b"\n")
        return content, json.loads(facts)

    def put(self, key: str, content: bytes, facts: dict[str, object]) -> None:
        """Store *content* and *facts*, a JSON object, if possible."""
        rest = json.dumps(facts, sort_keys=True).encode() + b"\n" + content
        digest = _digest(rest)
        written = digest.encode() + b"\n" + rest
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._trusted():
                # Pseudo-random, on average once per 64th of the bound written, in any process: listing a gigabyte of
                # small objects takes several times as long as compiling one. The hash of the written bytes is the
                # random number, so processes need no shared state and every run is reproducible.
                if int(digest[:8], 16) / (1 << 32) * self.limit < 64 * len(written):
                    self._make_room(len(written))
                _write(self.directory / f"{key}{_SUFFIX}", written)
        except OSError as err:
            _warn_once(self.directory, f"cannot be written ({err.strerror or err}); compiled kernels are not kept.")

    def size(self) -> tuple[int, int]:
        """The number of files, and their bytes."""
        sizes = [status.st_size for _, status in self._files()]
        return len(sizes), sum(sizes)

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

    def _make_room(self, needed: int) -> None:
        """Remove files of killed writers, then the least recently used entries, until *needed* more bytes fit."""
        now = time.time()
        entries: list[tuple[Path, os.stat_result]] = []
        for path, status in self._files():
            if not path.name.startswith(_TEMPORARY):
                entries.append((path, status))
            elif abs(now - status.st_mtime) > _HOUR:
                _remove(path)

        def last_use(entry: tuple[Path, os.stat_result]) -> int:
            _, status = entry
            # a time in the future comes from a wrong clock; that entry would outlive all new ones
            return status.st_mtime_ns if status.st_mtime < now + _HOUR else 0

        excess = needed - self.limit + sum(status.st_size for _, status in entries)
        for path, status in sorted(entries, key=last_use):
            if excess <= 0:
                break
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


def _read_own_file(path: Path) -> bytes:
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
