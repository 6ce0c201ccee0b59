"""Compiled objects on disk: written atomically, checked when read, shared by many processes."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

#: How large a cache may become before the entries that were used longest ago go, in bytes.
DEFAULT_LIMIT = 1 << 30
_STALE_SECONDS = 3600.0
_warned: set[str] = set()


def cache_directory() -> Path:
    """``$LOOPKIT_CACHE_DIR``, else the user's cache directory of the platform."""
    chosen = os.environ.get("LOOPKIT_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("loopkit"))


@dataclass(frozen=True)
class DiskCache:
    """Binary objects by key.

    The object lies under the hash of its own bytes and the record, a JSON file under the key, names it, so
    that two writers of one key whose compilers give different bytes cannot leave a record beside the other's object.

    :ivar directory: made when first written to.
    :ivar limit: size bound in bytes.
    """

    directory: Path
    limit: int = DEFAULT_LIMIT

    def get(self, key: str, suffix: str = ".so") -> Path | None:
        """The file of *key*, its bytes checked against the record; ``None`` where there is no sound entry."""
        record = self.directory / f"{key}.json"
        try:
            digest = json.loads(record.read_bytes())["sha256"]
            path = self.directory / f"{digest}{suffix}"
            if _digest(path.read_bytes()) != digest:
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        for used in (record, path):
            with contextlib.suppress(OSError):
                os.utime(used)
        return path

    def put(self, key: str, content: bytes, facts: dict[str, object], suffix: str = ".so") -> Path | None:
        """Store *content* with a record of *facts*; ``None``, after one warning, where that is impossible."""
        digest = _digest(content)
        path = self.directory / f"{digest}{suffix}"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, content)
            text = json.dumps({**facts, "sha256": digest, "bytes": len(content)}, indent=1, sort_keys=True)
            _write(self.directory / f"{key}.json", text.encode())
            self._evict(keep=digest)
        except OSError as err:
            _warn_once(self.directory, err)
            return None
        return path

    def get_record(self, key: str) -> dict[str, object] | None:
        """A record without an object (facts about a compiler, say)."""
        try:
            record = json.loads((self.directory / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def put_record(self, key: str, facts: dict[str, object]) -> None:
        """Store a record without an object; a cache that cannot be written is no error."""
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(self.directory / f"{key}.json", json.dumps(facts, indent=1, sort_keys=True).encode())

    def size(self) -> tuple[int, int]:
        """Number of files and bytes in them."""
        sizes = [s.st_size for _, s in self._files()]
        return len(sizes), sum(sizes)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            entries = list(os.scandir(self.directory))
        except OSError:
            return
        for entry in entries:
            # another process may take a file away between the listing and this
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)

    def _evict(self, keep: str) -> None:
        """Remove what writers that were killed left, then the longest unused files above the bound."""
        files = []
        now = time.time()
        for path, stat in self._files():
            if path.name.startswith(_TEMPORARY):
                if now - stat.st_mtime > _STALE_SECONDS:
                    path.unlink(missing_ok=True)
            elif path.suffix in (".so", ".json", ".cubin"):
                files.append((stat.st_mtime, stat.st_size, path))
        excess = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if excess <= 0:
                break
            if path.stem != keep:
                path.unlink(missing_ok=True)
                excess -= size


_TEMPORARY = ".writing-"


def _write(path: Path, content: bytes) -> None:
    """Write *path* so that a reader sees all of it or nothing."""
    handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _warn_once(directory: Path, err: OSError) -> None:
    if str(directory) not in _warned:
        _warned.add(str(directory))
        warnings.warn(f"the cache directory '{directory}' cannot be written ({err.strerror or err}); compiled kernels "
                      "are not kept. LOOPKIT_CACHE_DIR chooses another place.", RuntimeWarning, stacklevel=2)
