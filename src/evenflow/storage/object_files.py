"""Files as objects of S3, Google Cloud Storage or Azure: one request for each write and read."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from evenflow.errors import InputError
from evenflow.storage.options import StorageOptions

_MAX_GAP_BYTES = 1 << 20  # reading so much in vain is faster than another request
_MULTIPART_BYTES = 1 << 30  # a larger object needs several requests
_RETRY: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
_NO_SUCH_RANGE = ("416", "InvalidRange", "Invalid range")


class ObjectFiles:
    """The `Files` of a prefix in a bucket; a process opens its own connection."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri, self._options = uri, options
        self._store: Any = None
        self._pid = 0
        self._open()

    def _open(self) -> Any:
        """Return the store of this process: threads of the client do not survive a fork."""
        if self._pid != os.getpid():
            try:
                service: Any = self._options.service  # obstore checks the names
                client: Any = self._options.client
                self._store = from_url(
                    self._uri, config=service, client_options=client, retry_config=_RETRY
                )
            except (BaseError, ValueError) as error:
                raise InputError(f"cannot open {self._uri}: {_first_line(error)}") from None
            self._pid = os.getpid()
        return self._store

    def write(self, name: str, parts: Iterable[Any], *, fsync: bool, sync_name: bool) -> None:
        """Write an object; the service answers when it is stored."""
        self._put(name, parts, "overwrite")

    def create(self, name: str, parts: Iterable[Any]) -> None:
        """Write an object unless there is one (If-None-Match)."""
        self._put(name, parts, "create")

    def _put(self, name: str, parts: Iterable[Any], mode: Any) -> None:
        body = b"".join(parts)
        with _file_errors():
            obstore.put(
                self._open(), name, body, mode=mode, use_multipart=len(body) > _MULTIPART_BYTES
            )

    def read(self, name: str) -> pa.Buffer:
        """Read an object."""
        with _file_errors():
            return pa.py_buffer(obstore.get(self._open(), name).bytes())

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Read parts of an object; those that are close together with one request."""
        spans: list[tuple[int, int]] = []
        for start, length in sorted(ranges):
            if spans and start <= spans[-1][1] + _MAX_GAP_BYTES:
                spans[-1] = spans[-1][0], max(spans[-1][1], start + length)
            else:
                spans.append((start, start + length))
        found = {start: self._read_span(name, start, end) for start, end in spans}
        begins = [max(begin for begin in found if begin <= start) for start, _ in ranges]
        return [
            found[begin][start - begin : start - begin + length]
            for begin, (start, length) in zip(begins, ranges, strict=True)
        ]

    def _read_span(self, name: str, start: int, end: int) -> pa.Buffer:
        try:
            with _file_errors():
                return pa.py_buffer(obstore.get_range(self._open(), name, start=start, end=end))
        except FileNotFoundError:
            raise
        except OSError as error:
            if any(sign in str(error) for sign in _NO_SUCH_RANGE):
                return pa.py_buffer(b"")  # the object ends before
            raise

    def list_names(self, folder: str) -> list[str]:
        """List the objects and folders right below a folder."""
        with _file_errors():
            found: Any = obstore.list_with_delimiter(self._open(), f"{folder}/" if folder else None)
        paths = [*(str(entry["path"]) for entry in found["objects"]), *found["common_prefixes"]]
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""
        try:
            with _file_errors():
                obstore.head(self._open(), name)
        except FileNotFoundError:
            return False
        return True

    def delete(self, names: list[str]) -> None:
        """Delete objects, on S3 a thousand with one request."""
        try:
            with _file_errors():
                obstore.delete(self._open(), names)
        except FileNotFoundError:  # S3 ignores missing ones, others do not
            for name in names if len(names) > 1 else ():
                self.delete([name])


@contextmanager
def _file_errors() -> Iterator[None]:
    """Raise the client's errors as those of files, in one line."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(_first_line(error)) from None
    except FileNotFoundError as error:
        raise FileNotFoundError(_first_line(error)) from None
    except BaseError as error:
        raise OSError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n\nDebug source")[0].replace("\n", " ")
