"""Spark's own files of a run, on the driver's disk: its checkpoint, and pulses that wake it.

They are a working copy. What Spark needs to continue after a batch (offsets, logs of its file
sources) is part of the commit of that batch: the ledger entry names it, and a start restores it. So
the ledger alone decides where a run continues, on every machine and every kind of storage, and
Spark needs no access to the storage of the checkpoint.
"""

import re
import shutil
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from evenflow.errors import StorageError
from evenflow.storage.bundle import Bundle, PartRef, check_part
from evenflow.storage.file_store import FileStore

REMOTE_PREFIX = "evenflow-driver-"
OFFSET_FOLDER = "offsets"
_OTHER_PULSES = re.compile(rb'file:/[^"]*/' + REMOTE_PREFIX.encode() + rb'[^/"]*/pulse/')
_FIRST_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


class SparkFolder:
    """The folder of one run: in a local checkpoint, else a temporary one.

    Driver process, from `Checkpoint.open` until the run ends.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._root: Path | None = None
        self._saved: dict[str, PartRef] = {}

    @property
    def root(self) -> Path:
        """The folder."""
        if self._root is None:
            raise RuntimeError("open the folder first")
        return self._root

    def open(self, files: Mapping[str, PartRef]) -> None:
        """Create the folder with the files of the last commit, and nothing else of Spark's."""
        self._root = self._store.local_root or Path(tempfile.mkdtemp(prefix=REMOTE_PREFIX))
        self._saved = dict(files)
        shutil.rmtree(self._root / "spark", ignore_errors=True)
        by_file: dict[str, list[tuple[str, PartRef]]] = defaultdict(list)
        for name, ref in files.items():
            by_file[ref.file].append((name, ref))
        for file, named in by_file.items():
            found = self._store.read_ranges(file, [(ref.offset, ref.length) for _, ref in named])
            for (name, ref), part in zip(named, found, strict=True):
                path = self._root / "spark" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                content = bytes(check_part(self._store, ref, part))
                # Spark refuses pulses that another driver noted in a folder of its own.
                here = f"file://{self._root}/pulse/".encode()
                path.write_bytes(_OTHER_PULSES.sub(here.replace(b"\\", b"\\\\"), content))
        (self._root / "pulse").mkdir(parents=True, exist_ok=True)
        if self._store.local_root is None:
            self._note_commit()

    def _note_commit(self) -> None:
        """Tell Spark that the last batch is committed, as the ledger does.

        Otherwise Spark plans it again, with pulses in a folder of another driver.
        """
        spark = self.root / "spark"
        commits = _numbered(spark / "commits")
        for offsets in _numbered(spark / "offsets")[-1:]:
            path = spark / "commits" / offsets.name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(commits[-1].read_bytes() if commits else _FIRST_COMMIT)

    def uri(self, folder: str) -> str:
        """Return a folder for Spark, which does not decode percent signs in a path."""
        return f"file://{self.root / folder}"

    def save(self, batch: int) -> dict[str, PartRef]:
        """Write what Spark needs to continue after a batch; return where it is."""
        bundle = Bundle(f"{OFFSET_FOLDER}/{batch:012d}-{uuid.uuid4().hex[:12]}")
        saved = {}
        for path in needed_files(self.root / "spark"):
            name = str(path.relative_to(self.root / "spark"))
            saved[name] = self._saved.get(name) or bundle.add(_read(path))
        bundle.write(self._store)
        self._saved = saved
        return saved

    def wake(self, name: str) -> None:
        """Make Spark run a batch even if no rows arrive."""
        (self.root / "pulse" / name).write_bytes(b"\n")

    def delete_pulses(self, before: str) -> None:
        """Delete the pulses whose names are smaller."""
        for path in (self.root / "pulse").iterdir():
            if path.name < before:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove a temporary folder."""
        if self._store.local_root is None and self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)


def needed_files(spark: Path) -> Iterator[Path]:
    """Yield the files that Spark reads to continue: last offsets and commit, logs of sources."""
    if (spark / "metadata").exists():
        yield spark / "metadata"
    yield from _numbered(spark / "offsets")[-2:]
    yield from _numbered(spark / "commits")[-1:]
    for source in sorted((spark / "sources").glob("*")):
        log = _numbered(source)
        compacted = [at for at, path in enumerate(log) if path.suffix == ".compact"]
        yield from log[max(compacted, default=0) :]


def _numbered(folder: Path) -> list[Path]:
    """Return the files of one of Spark's logs in order: 8, 9.compact, 10."""
    found = [path for path in folder.glob("*") if path.name.partition(".")[0].isdigit()]
    return sorted(found, key=lambda path: int(path.name.partition(".")[0]))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} of Spark cannot be read: {error}; start again") from error
