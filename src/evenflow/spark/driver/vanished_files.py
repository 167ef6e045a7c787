"""Files of a source that vanished before their batch was committed.

Spark notes the files of a batch, then reads those that are still there: without a word it leaves
out one that was removed in between, or before the batch is run again. So before a commit the notes
are compared with what is there.
"""

import json
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evenflow.errors import SourceError
from evenflow.storage.file_store import FileStore

_SOURCES = "spark/sources"


def refuse_vanished_files(store: FileStore, batch: int, left_out: Collection[str]) -> None:
    """Raise an error that names a local file of the batch which is gone and is not left out."""
    known = {unquote(urlsplit(uri).path) for uri in left_out}
    for path in _files_of(store, batch):
        if str(path) not in known and not path.exists():
            # The words of Spark, so that `on_bad_file` decides what follows (`bad_files`).
            raise SourceError(
                f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
                f"{path.as_uri()}. it is gone"
            )


def _files_of(store: FileStore, batch: int) -> list[Path]:
    """Return the local files that Spark noted for a batch, without our wake-ups."""
    if (root := store.local_root) is None:
        return []
    notes = [*root.glob(f"{_SOURCES}/*/{batch}"), *root.glob(f"{_SOURCES}/*/{batch}.compact")]
    found = []
    for note in notes:
        for line in note.read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            parts = urlsplit(str(entry.get("path", "")))
            if entry.get("batchId") == batch and parts.scheme == "file":
                found.append(Path(unquote(parts.path)))
    return [path for path in found if not path.is_relative_to(root)]
