"""Spark's own files of a run, on the driver's disk: its checkpoint, and pulses that wake it.

They are a working copy. What Spark planned for a batch (offsets, logs of its file sources) is
stored before the batch runs, and the ledger entry that commits the batch names it. A start restores
what the last entry names, so the ledger alone decides where a run continues, on every machine and
every kind of storage, and Spark needs no access to the storage of the checkpoint. A batch that was
planned and not committed is restored too, so it runs again with the same files.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from evenflow.errors import DamagedFileError, StorageError
from evenflow.storage.file_store import FileStore

REMOTE_PREFIX = "evenflow-driver-"
PLAN_FOLDER = "offsets"
_OTHER_PULSES = re.compile(rb'file:/[^"]*/' + REMOTE_PREFIX.encode() + rb'[^/"]*/pulse/')
_FIRST_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


class SparkFolder:
    """The folder of one run: in a local checkpoint, else a temporary one.

    Driver process, from `Checkpoint.open` until the run ends.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._root: Path | None = None
        self._saved: dict[str, str] = {}

    @property
    def root(self) -> Path:
        """The folder."""
        if self._root is None:
            raise RuntimeError("open the folder first")
        return self._root

    def open(self, files: Mapping[str, str], batch: int) -> None:
        """Create the folder with Spark's files of the last commit, and with its plan of `batch`.

        That is the next batch: an earlier driver may have planned it and not committed it.
        """
        self._root = self._store.local_root or Path(tempfile.mkdtemp(prefix=REMOTE_PREFIX))
        self._saved = dict(files)
        shutil.rmtree(self._root / "spark", ignore_errors=True)
        contents = {file: self._read_plan(file) for file in sorted(set(files.values()))}
        for name, file in files.items():
            self._restore(name, contents[file][name])
        self._note_commit(batch - 1)
        plans = [n for n in self._store.list_names(PLAN_FOLDER) if n.startswith(f"{batch:012d}-")]
        for plan in plans[-1:]:  # that of the last driver
            self._restore_uncommitted(f"{PLAN_FOLDER}/{plan}")
        (self._root / "pulse").mkdir(parents=True, exist_ok=True)

    def _restore_uncommitted(self, file: str) -> None:
        try:
            plan = self._read_plan(file)
        except DamagedFileError:
            remedy = "delete it: then the batch has the files of its sources that are there now"
            raise self._store.damage(file, "its checksum does not match", remedy) from None
        for name, content in plan.items():
            self._saved[name] = file
            self._restore(name, content)

    def _read_plan(self, file: str) -> dict[str, bytes]:
        return self._store.read_record(file, dict[str, bytes])

    def _restore(self, name: str, content: bytes) -> None:
        path = self.root / "spark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Spark refuses pulses that another driver noted in a folder of its own.
        here = f"file://{self.root}/pulse/".encode()
        path.write_bytes(_OTHER_PULSES.sub(here.replace(b"\\", b"\\\\"), content))

    def _note_commit(self, batch: int) -> None:
        """Tell Spark that a batch is committed, as the ledger does; else Spark plans it again."""
        spark = self.root / "spark"
        commits, path = _numbered(spark / "commits"), spark / "commits" / str(batch)
        if (spark / "offsets" / str(batch)).exists() and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(commits[-1].read_bytes() if commits else _FIRST_COMMIT)

    def uri(self, folder: str) -> str:
        """Return a folder for Spark, which does not decode percent signs in a path."""
        return f"file://{self.root / folder}"

    def save(self, batch: int, epoch: int) -> dict[str, str]:
        """Store what Spark planned for a batch; return its files and which of ours holds each."""
        file = f"{PLAN_FOLDER}/{batch:012d}-{epoch:06d}"
        needed = {str(p.relative_to(self.root / "spark")): p for p in needed_files(self.root)}
        new = {name: _read(path) for name, path in needed.items() if name not in self._saved}
        if new:
            self._store.write_record(file, new, durable=False)
        self._saved = {name: self._saved.get(name, file) for name in needed}
        return self._saved

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


def needed_files(root: Path) -> Iterator[Path]:
    """Yield the files that Spark reads to continue: last offsets and commit, logs of sources."""
    spark = root / "spark"
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
