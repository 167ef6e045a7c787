"""Reads and writes of parts whose failure is the storage's fault and names the file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from evenflow.errors import StorageError
from evenflow.storage.bundle import (
    Bundle,
    PartRef,
    fetch_file,
    fetch_parts,
    read_part,
    unpack,
)
from evenflow.storage.file_store import FileStore


def read_bytes(store: FileStore, ref: PartRef) -> pa.Buffer:
    """Return the bytes of a part, all of them, or raise a `StorageError`."""
    with _storage_errors(store, ref.file, "read"):
        part = read_part(store, ref)
        if part.size != ref.length:
            raise EOFError(f"it ends before byte {ref.offset + ref.length}")
        return part


def read_table(store: FileStore, ref: PartRef) -> pa.Table:
    """Return the table in a part, or raise a `StorageError`."""
    with _storage_errors(store, ref.file, "read"):
        return unpack(read_bytes(store, ref))


def fetch_index(store: FileStore, ref: PartRef) -> None:
    """Copy the file of an index into the local cache: it has the newest segments, too."""
    with _storage_errors(store, ref.file, "read"):
        fetch_file(store, ref)


def fetch_segments(store: FileStore, refs: Iterable[PartRef]) -> None:
    """Copy segments into the local cache, if there is one, with few requests."""
    refs = list(refs)
    if refs:
        with _storage_errors(store, refs[0].file, "read"):
            fetch_parts(store, refs)


def write_bundle(store: FileStore, bundle: Bundle) -> None:
    """Write a bundle, or raise a `StorageError`."""
    with _storage_errors(store, bundle.file, "written"):
        bundle.write(store)


@contextmanager
def _storage_errors(store: FileStore, file: str, verb: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (OSError, EOFError, IndexError, pa.ArrowException) as error:
        cause = " ".join(str(error).split())
        advice = "restore the file from a copy" if verb == "read" else "free or mend the storage"
        raise StorageError(
            f"{store.uri}/{file} cannot be {verb}: {cause}; {advice} and start again: "
            "the run continues after the last committed batch"
        ) from error
