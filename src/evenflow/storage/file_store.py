"""Files below one root: a local path, or a URI of any file system that Arrow supports."""

import hashlib
import os
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from evenflow.errors import DamagedFileError, InputError
from evenflow.storage import records
from evenflow.storage.records import Value

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{12}")


class FileStore:
    """Reads, writes and lists files; a write is atomic. Stateless, so threads may share it.

    >>> import tempfile
    >>> store = FileStore(tempfile.mkdtemp())
    >>> store.write("a/b", [b"one", b"two"])
    >>> store.read("a/b").to_pybytes(), store.list_names("a"), store.list_names("none")
    (b'onetwo', ['b'], [])
    """

    def __init__(self, root: str, *, power_safe: bool = False) -> None:
        self.power_safe = power_safe  # whether a commit waits for the disk
        self.uri = _normalize_uri(root)
        parts = urlsplit(self.uri)
        self.local_root = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._filesystem: Any = None
        self._base_path = ""
        if self.local_root is None:
            try:
                self._filesystem, self._base_path = fs.FileSystem.from_uri(self.uri)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise InputError(f"cannot open the checkpoint {root!r}: {error}") from None

    @property
    def spark_uri(self) -> str:
        """The root for Spark, which does not decode percent signs in a path."""
        return self.uri if self.local_root is None else f"file://{self.local_root}"

    def create_root(self) -> None:
        """Create the local root if it is missing: other users of the machine read nothing in it."""
        if self.local_root is not None and not self.local_root.exists():
            self.local_root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(
        self, name: str, parts: Iterable[Any], *, flush: bool = False, durable: bool = False
    ) -> None:
        """Write to a temporary file, then rename it.

        `durable` waits until bytes and name are on the disk. `flush` waits for the bytes only, if
        the store is `power_safe`; `sync` of the folder waits for the names of many files.
        """
        # Spark ignores files whose name begins with a dot.
        folder, slash, base = name.rpartition("/")
        temporary = f"{folder}{slash}.{base}.{uuid.uuid4().hex[:12]}"
        if self.local_root is None:
            self._write_remote(name, temporary, parts)
            return
        path, target = self.local_root / temporary, self.local_root / name
        self.create_root()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("wb") as file:
                for part in parts:
                    file.write(part)
                if durable or (flush and self.power_safe):
                    file.flush()
                    os.fsync(file.fileno())
            path.replace(target)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        if durable:
            self.sync([folder])

    def sync(self, patterns: Iterable[str]) -> None:
        """Wait until files, or the names in folders, are on the disk; missing ones are ignored."""
        if (root := self.local_root) is None:
            return
        groups = (root.glob(pattern) if pattern else [root] for pattern in patterns)
        for path in (path for group in groups for path in group):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def delete_temporary(self) -> None:
        """Delete what killed writers left; nobody may be writing. Spark's files stay."""
        if self.local_root is not None:
            for folder in self.local_root.iterdir():
                if folder.is_dir() and folder.name != "spark":
                    for path in folder.rglob(".*"):
                        if _TEMPORARY_NAME.fullmatch(path.name):
                            path.unlink(missing_ok=True)
            return
        selector = fs.FileSelector(self._base_path, allow_not_found=True, recursive=True)
        for info in self._filesystem.get_file_info(selector):
            if _TEMPORARY_NAME.fullmatch(info.base_name):
                self._filesystem.delete_file(info.path)

    def _write_remote(self, name: str, temporary: str, parts: Iterable[Any]) -> None:
        path, target = f"{self._base_path}/{temporary}", f"{self._base_path}/{name}"
        self._filesystem.create_dir(target.rsplit("/", 1)[0], recursive=True)
        with self._filesystem.open_output_stream(path) as file:
            for part in parts:
                file.write(part)
        self._filesystem.move(path, target)

    def read(self, name: str) -> pa.Buffer:
        """Return the bytes of a file; a local file is memory-mapped."""
        if self.local_root is not None:
            path = self.local_root / name
            if path.stat().st_size == 0:
                return pa.py_buffer(b"")
            return pa.memory_map(str(path)).read_buffer()
        with self._filesystem.open_input_file(f"{self._base_path}/{name}") as file:
            return file.read_buffer()

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return some bytes of a file and read no others; fewer if it ends before."""
        if self.local_root is not None:
            return self.read(name)[offset : offset + length]
        with self._filesystem.open_input_file(f"{self._base_path}/{name}") as file:
            return pa.py_buffer(file.read_at(length, offset))

    def list_names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder, without temporary files; none if it is missing."""
        if self.local_root is not None:
            path = self.local_root / folder
            names = [entry.name for entry in os.scandir(path)] if path.is_dir() else []
        else:
            selector = fs.FileSelector(f"{self._base_path}/{folder}", allow_not_found=True)
            names = [info.base_name for info in self._filesystem.get_file_info(selector)]
        return sorted(name for name in names if not name.startswith("."))

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        if self.local_root is not None:
            return (self.local_root / name).exists()
        return bool(
            self._filesystem.get_file_info(f"{self._base_path}/{name}").type != fs.FileType.NotFound
        )

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        for name in names:
            if self.local_root is not None:
                (self.local_root / name).unlink(missing_ok=True)
            elif self.exists(name):
                self._filesystem.delete_file(f"{self._base_path}/{name}")

    def delete_empty_folders(self, folders: Iterable[str]) -> None:
        """Delete folders without files, where folders exist by themselves; others stay."""
        if self.local_root is not None:
            for folder in folders:
                with suppress(OSError):
                    (self.local_root / folder).rmdir()

    def write_record(self, name: str, value: object) -> None:
        """Write a value as JSON with a checksum, durably."""
        body = records.encode(value)
        self.write(name, [hashlib.sha256(body).hexdigest().encode(), b"\n", body], durable=True)

    def read_record(self, name: str, kind: type[Value]) -> Value:
        """Read back what `write_record` wrote, as a `kind`; refuse it if a byte has changed."""
        digest, _, body = self.read(name).to_pybytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise self.damage(name, "its checksum does not match")
        return records.decode(body, kind)

    def damage(
        self,
        name: str,
        problem: str,
        remedy: str = "restore the checkpoint from a backup or start with a new one",
    ) -> DamagedFileError:
        """Return the error for a file that does not hold what was written to it."""
        return DamagedFileError(f"{self.uri}/{name} is damaged: {problem}; {remedy}")


def _normalize_uri(root: str) -> str:
    """Return a URI without a trailing slash; a plain path becomes file:."""
    scheme = urlsplit(root).scheme
    if len(scheme) > 1:
        return root.rstrip("/") if scheme != "file" else Path(unquote(urlsplit(root).path)).as_uri()
    return Path(root).absolute().as_uri()
