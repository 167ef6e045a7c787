"""Copies of remote state on the local disk, shared by the processes of a machine.

A copy has the name of its file and its parts at the same offsets; parts that nobody read are holes.
Files never change, and a part counts only if its checksum matches. So nothing has to be locked or
noted: a part that is missing, torn or damaged is fetched again.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.storage.options import StorageOptions

CACHED_FOLDERS = ("state/", "tables/")
MAX_FILES = 10_000
_TRIM_EVERY_FILES = 500
_TRIMS_PER_SIZE = 16


class SegmentCache:
    """The copies of one checkpoint in a folder of at most `max_bytes`; a full disk is no error."""

    def __init__(self, folder: Path, max_bytes: int, max_files: int = MAX_FILES) -> None:
        self.folder, self.max_bytes, self.max_files = folder, max_bytes, max_files
        self._added_bytes = self._added_files = 0

    def read(self, file: str, offset: int, length: int) -> pa.Buffer | None:
        """Return the bytes of a part as the copy has them; the caller compares the checksum."""
        path = self._path(file)
        try:
            if not length or path.stat().st_size < offset + length:
                return None
            part = pa.memory_map(str(path)).read_buffer()[offset : offset + length]
            os.utime(path)  # the least recently used ones are deleted first
        except OSError:
            return None
        return part

    def add(self, file: str, parts: Iterable[tuple[int, Any]]) -> None:
        """Copy parts of a file, given with their offsets."""
        with suppress(OSError):
            handle = os.open(self._path(file), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                for offset, part in parts:
                    view, at = memoryview(part).cast("B"), offset
                    while view:
                        written = os.pwrite(handle, view, at)
                        view, at = view[written:], at + written
                        self._added_bytes += written
            finally:
                os.close(handle)
        self._added_files += 1
        large = self._added_bytes * _TRIMS_PER_SIZE > self.max_bytes
        if large or self._added_files >= min(_TRIM_EVERY_FILES, self.max_files):
            self._added_bytes = self._added_files = 0
            self.trim()

    def trim(self) -> None:
        """Delete the least recently used copies until the rest fits; mapped ones stay readable."""
        found = []
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                status = entry.stat()
                found.append((status.st_mtime_ns, status.st_blocks * 512, entry.path))
        size = 0
        for number, (_, held, path) in enumerate(sorted(found, reverse=True), 1):
            size += held
            if size > self.max_bytes or number > self.max_files:
                Path(path).unlink(missing_ok=True)

    def _path(self, file: str) -> Path:
        return self.folder / file.replace("/", "+")


def open_cache(uri: str, options: StorageOptions) -> SegmentCache | None:
    """Open the cache of a remote checkpoint; None if there is none, or it is another user's."""
    if not options.cache_bytes:
        return None
    base = options.cache_folder or f"{tempfile.gettempdir()}/evenflow-cache-{os.getuid()}"
    folder = Path(base) / hashlib.sha256(uri.encode()).hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = Path(base).stat().st_uid == folder.stat().st_uid == os.getuid()
    except OSError:
        return None
    return SegmentCache(folder, options.cache_bytes) if is_ours else None
