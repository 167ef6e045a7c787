"""Files of a source that vanished before their batch was committed.

Spark notes the files of a batch, then reads those that are still there: without a word it leaves
out one that was removed in between, or before the batch is run again. So before a commit the notes
are compared with what is there.
"""

import json
import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from evenflow.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUESTS_AT_ONCE = 16


@contextmanager
def refuse_vanished_files(
    spark: "SparkSession", folder: Path, batch: int, left_out: Collection[str]
) -> Iterator[None]:
    """While a batch runs, look for its files; then raise an error that names one that is gone.

    Those in `left_out` need not be there. `folder` holds Spark's own files and our pulses.
    """
    known = {_spelling(uri) for uri in left_out}
    noted = [uri for uri in noted_files(folder, batch) if _spelling(uri) not in known]
    remote = [uri for uri in noted if urlsplit(uri).scheme != "file"]
    # On a local disk it takes a moment, elsewhere a request for each file.
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        found = threads.map(lambda uri: _exists(spark, uri), remote)
        yield
        gone = [uri for uri, exists in zip(remote, found, strict=True) if not exists]
    gone += [uri for uri in noted if uri not in remote and not _local_path(uri).exists()]
    for uri in gone:
        # The words of Spark, so that `on_bad_file` decides what follows (`bad_files`).
        raise SourceError(
            f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {uri}. "
            "it is gone"
        )


def noted_files(folder: Path, batch: int) -> list[str]:
    """Return the files that Spark noted for a batch, without our pulses.

    The offsets of a batch say how far it reads in the log of each file source.
    """
    before = _log_ends(folder, batch - 1)
    found = []
    for source, end in _log_ends(folder, batch).items():
        for number in range(before.get(source, -1) + 1, end + 1):
            found += _logged_files(folder / "spark/sources" / str(source), number)
    return [uri for uri in found if not _is_below(uri, folder)]


def _log_ends(folder: Path, batch: int) -> dict[int, int]:
    """Return the last number of each file source's log that belongs to a batch."""
    offsets = folder / "spark/offsets" / str(batch)
    lines = offsets.read_text().splitlines()[2:] if offsets.exists() else []
    found = [re.fullmatch(r'\{"logOffset":(\d+)\}', line) for line in lines]
    return {source: int(end[1]) for source, end in enumerate(found) if end is not None}


def _logged_files(log: Path, number: int) -> list[str]:
    """Return what one number of a log added; a compacted one repeats those before it."""
    paths = [path for path in (log / str(number), log / f"{number}.compact") if path.exists()]
    lines = [line for path in paths[:1] for line in path.read_text().splitlines()]
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [str(entry["path"]) for entry in entries if entry["batchId"] == number]


def _local_path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def _is_below(uri: str, folder: Path) -> bool:
    return urlsplit(uri).scheme == "file" and _local_path(uri).is_relative_to(folder)


def _spelling(uri: str) -> str:
    """Return one spelling of a path that Spark writes in several ways."""
    return re.sub("^file:/+", "file:/", unquote(uri))


def _exists(spark: "SparkSession", uri: str) -> bool:
    """Ask the storage that Spark reads from."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI.create(uri))  # type: ignore[union-attr]
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    return bool(path.getFileSystem(hadoop).exists(path))
