"""The small interface that local disk and object storage share."""

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa


class Files(Protocol):
    """Files by name below one root. A missing file raises FileNotFoundError."""

    def write(self, name: str, parts: Iterable[Any], *, fsync: bool, sync_name: bool) -> None:
        """Put a file in place, whole or not at all; replace one that exists.

        `fsync` waits until its bytes are on the disk, `sync_name` until its name is.
        """

    def create(self, name: str, parts: Iterable[Any]) -> None:
        """Put a new file in place, on the disk; FileExistsError if there is one."""

    def read(self, name: str) -> pa.Buffer:
        """Return the bytes of a file."""

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Return the bytes at some (offset, length), and read no others; fewer at the end."""

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder, in any order; none if it is missing."""

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""

    def delete(self, names: list[str]) -> None:
        """Delete files; missing ones are ignored."""
