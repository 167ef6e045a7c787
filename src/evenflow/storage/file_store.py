"""Files of a checkpoint below one root: a local folder, or a prefix in a bucket."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from evenflow.errors import DamagedFileError
from evenflow.storage import records
from evenflow.storage.files import Files
from evenflow.storage.local_files import LocalFiles
from evenflow.storage.location import local_path, normalize_uri
from evenflow.storage.object_files import ObjectFiles
from evenflow.storage.options import StorageOptions
from evenflow.storage.records import Value
from evenflow.storage.segment_cache import open_cache


class FileStore:
    """Reads, writes and lists files; a write is atomic. Threads may share it.

    >>> import tempfile
    >>> store = FileStore(tempfile.mkdtemp())
    >>> store.write("a/b", [b"one", b"two"])
    >>> store.read("a/b").to_pybytes(), store.list_names("a"), store.list_names("none")
    (b'onetwo', ['b'], [])
    """

    def __init__(
        self,
        root: str,
        *,
        power_safe: bool = False,
        options: StorageOptions = StorageOptions(),  # noqa: B008 - frozen
    ) -> None:
        self.power_safe = power_safe  # whether a commit waits for the disk
        self.options = options
        self.uri = normalize_uri(root)
        self.local_root = local_path(self.uri)
        self._local = None if self.local_root is None else LocalFiles(self.local_root)
        self._files: Files = self._local or ObjectFiles(self.uri, options)
        self.cache = None if self._local is not None else open_cache(self.uri, options)

    def create_root(self) -> None:
        """Create the local root if it is missing: other users of the machine read nothing in it."""
        if self.local_root is not None and not self.local_root.exists():
            self.local_root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(
        self, name: str, parts: Iterable[Any], *, flush: bool = False, durable: bool = False
    ) -> None:
        """Write a file; replace one that exists.

        `durable` waits until bytes and name are on the disk. `flush` waits for the bytes only, if
        the store is `power_safe`; `sync` of the folder waits for the names of many files.
        """
        fsync = durable or (flush and self.power_safe)
        self.create_root()
        self._files.write(name, parts, fsync=fsync, sync_name=durable)

    def create(self, name: str, parts: Iterable[Any]) -> None:
        """Write a new file, durably; FileExistsError if there is another one.

        An answer that got lost is asked for again, so a file with the same bytes counts as ours.
        Whoever must not be taken for another writer puts something unique into it.
        """
        body = b"".join(parts)
        self.create_root()
        try:
            self._files.create(name, [body])
        except FileExistsError:
            if self.local_root is not None or self._files.read(name).to_pybytes() != body:
                raise

    def sync(self, patterns: Iterable[str]) -> None:
        """Wait until files, or the names in folders, are on the disk; missing ones are ignored."""
        if self._local is not None:
            self._local.sync(patterns)

    def delete_temporary(self) -> None:
        """Delete what killed writers left; nobody may be writing. Remote writes leave nothing."""
        if self._local is not None:
            self._local.delete_temporary()

    def read(self, name: str) -> pa.Buffer:
        """Return the bytes of a file; a local file is memory-mapped."""
        return self._files.read(name)

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return some bytes of a file and read no others; fewer if it ends before."""
        return self.read_ranges(name, [(offset, length)])[0]

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Return the bytes at some (offset, length), as `read_range` does."""
        return self._files.read_ranges(name, ranges)

    def list_names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder, without temporary files; none if it is missing."""
        return sorted(n for n in self._files.list_names(folder) if not n.startswith("."))

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        return self._files.exists(name)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        if found := list(names):
            self._files.delete(found)

    def delete_empty_folders(self, folders: Iterable[str]) -> None:
        """Delete folders without files, where folders exist by themselves; others stay."""
        if self.local_root is not None:
            for folder in folders:
                with suppress(OSError):
                    (self.local_root / folder).rmdir()

    def write_record(self, name: str, value: object, *, durable: bool = True) -> None:
        """Write a value as JSON with a checksum; if not `durable`, as a part of a commit."""
        self.write(name, _record_parts(value), flush=True, durable=durable)

    def create_record(self, name: str, value: object) -> None:
        """Write a value as `write_record` does; FileExistsError if there is a file."""
        self.create(name, _record_parts(value))

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


def _record_parts(value: object) -> list[bytes]:
    body = records.encode(value)
    return [hashlib.sha256(body).hexdigest().encode(), b"\n", body]
