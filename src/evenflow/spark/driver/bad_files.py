"""Files of a source that cannot be read: corrupt, of other column types, or gone.

Spark fails the batch and names the file. With `on_bad_file: skip` the run notes the file in the
checkpoint and starts the batch again without it: none of its rows count, and its name is listed.
Spark's own `ignoreCorruptFiles` keeps the rows before the damage and names nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.errors import InputError, SourceError
from evenflow.model.codes import OnBadFile
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BAD_FILE_FOLDER = "bad_files"
MAX_LISTED_FILES = 1000
_MAX_REASON_LENGTH = 300
_FAILED_READ = re.compile(
    r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+)\.\s*([^\n]*)"
)
_CAUSE = re.compile(r"Caused by: (?:[\w$]+\.)*([\w$]+: [^\n]+)")


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that was left out of a batch, and why."""

    path: str
    reason: str
    batch: int


def bad_file_in(error: BaseException, batch: int) -> BadFile | None:
    """Return the file that stopped Spark's query: Spark passes on only a page of text.

    >>> text = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file f:/b.  SQLSTATE: K"
    >>> bad_file_in(Exception(text + "\\nCaused by: java.io.IOException: cut off\\n at ..."), 7)
    BadFile(path='f:/b', reason='IOException: cut off', batch=7)
    """
    text = str(error)
    found = _FAILED_READ.search(text)
    if found is None:
        return None
    path, hint = found[1], found[2].partition("SQLSTATE")[0].strip()
    cause = _CAUSE.search(text, found.end())
    reason = hint or (cause[1] if cause else "it cannot be read")
    return BadFile(unquote(path), reason[:_MAX_REASON_LENGTH], batch)


def to_source_error(bad: BadFile) -> SourceError:
    """Say in one line which file stops the run."""
    return SourceError(
        f"the file {bad.path} cannot be read: {bad.reason}; put a good one in its place, or set "
        "on_bad_file: skip to go on without its rows"
    )


class BadFileList:
    """The files that were left out, noted in the checkpoint. Driver process."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def add(self, bad: BadFile) -> None:
        """Note a file before the batch runs again without it; only the last ones stay listed."""
        names = self._store.list_names(BAD_FILE_FOLDER)
        number = int(names[-1]) + 1 if names else 0
        self._store.write_record(f"{BAD_FILE_FOLDER}/{number:012d}", bad)
        self._store.delete(f"{BAD_FILE_FOLDER}/{n}" for n in names[: 1 - MAX_LISTED_FILES])

    def all(self) -> list[BadFile]:
        """Return the files that are listed, the oldest first."""
        names = self._store.list_names(BAD_FILE_FOLDER)
        return [self._store.read_record(f"{BAD_FILE_FOLDER}/{name}", BadFile) for name in names]


def without_files(frame: "DataFrame", files: Sequence[BadFile]) -> "DataFrame":
    """Return a source without some files; Spark does not even open them.

    Spark writes the path of a local file in two ways, file:/x and file:///x, and encodes it.
    """
    paths = {path for file in files for path in (file.path, quote(file.path, safe="/:"))}
    local = {re.sub("^file:/+", scheme, p) for p in paths for scheme in ("file:/", "file:///")}
    spellings = paths | local
    if not spellings:
        return frame
    return frame.where(~F.col("_metadata.file_path").isin(sorted(spellings)))


def choose_on_bad_file(name: str, frame: "DataFrame", value: str) -> OnBadFile:
    """Check what a source is to do with a file that cannot be read."""
    if value not in tuple(OnBadFile):
        raise InputError(f"on_bad_file must be 'stop' or 'skip', got {value!r}")
    if value == OnBadFile.SKIP:
        try:
            frame.select("_metadata.file_path")
        except PySparkException:
            raise InputError(
                f"source {name!r} has on_bad_file='skip', but it does not read files; remove it"
            ) from None
    return OnBadFile(value)
