"""Files on a local disk: mapped when read, renamed or linked into place when written."""

import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{12}")


class LocalFiles:
    """The `Files` of a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, parts: Iterable[Any], *, fsync: bool, sync_name: bool) -> None:
        """Write to a temporary file, then rename it."""
        temporary = self._write_temporary(name, parts, fsync=fsync)
        try:
            temporary.replace(self.root / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if sync_name:
            self.sync([name.rpartition("/")[0]])

    def create(self, name: str, parts: Iterable[Any]) -> None:
        """Write to a temporary file, then link it: a link never replaces a file."""
        temporary = self._write_temporary(name, parts, fsync=True)
        try:
            (self.root / name).hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        self.sync([name.rpartition("/")[0]])

    def _write_temporary(self, name: str, parts: Iterable[Any], *, fsync: bool) -> Path:
        # Spark ignores files whose name begins with a dot.
        folder, slash, base = name.rpartition("/")
        path = self.root / f"{folder}{slash}.{base}.{uuid.uuid4().hex[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("wb") as file:
                for part in parts:
                    file.write(part)
                if fsync:
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def sync(self, patterns: Iterable[str]) -> None:
        """Wait until files, or the names in folders, are on the disk; missing ones are ignored."""
        groups = (self.root.glob(pattern) if pattern else [self.root] for pattern in patterns)
        for path in (path for group in groups for path in group):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def delete_temporary(self) -> None:
        """Delete what killed writers left; nobody may be writing. Spark's files stay."""
        for folder in self.root.iterdir():
            if folder.is_dir() and folder.name != "spark":
                for path in folder.rglob(".*"):
                    if _TEMPORARY_NAME.fullmatch(path.name):
                        path.unlink(missing_ok=True)

    def read(self, name: str) -> pa.Buffer:
        """Map a file into memory."""
        path = self.root / name
        if path.stat().st_size == 0:
            return pa.py_buffer(b"")
        return pa.memory_map(str(path)).read_buffer()

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Map a file into memory and return parts of it."""
        mapped = self.read(name)
        return [mapped[offset : offset + length] for offset, length in ranges]

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        path = self.root / folder
        return [entry.name for entry in os.scandir(path)] if path.is_dir() else []

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        return (self.root / name).exists()

    def delete(self, names: list[str]) -> None:
        """Delete files."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)
