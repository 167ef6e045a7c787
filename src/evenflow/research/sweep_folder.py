"""The output folder of a sweep. Finished points are written at once and survive an interruption.

    OUT/points/ID/*.parquet    finished points, one file per chunk, renamed into place
    OUT/ID.parquet             all rows of an experiment, tidy, once its grid is complete

Every file of points carries a digest of the code that measured them; points of other code are
measured again. Code that only draws or reports is not part of the digest: figures and reports are
written again on every run.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import InputError
from evenflow.research.experiment import Experiment, PointResult

# The code that produces the numbers of an experiment; a live one also runs the runtime.
DIGEST_PACKAGES = ("model", "planning", "datasets", "research")
LIVE_PACKAGES = ("spark", "sql", "storage")
LIVE_FILES = {"research/live_runner.py", "research/sweep.py"}
PRESENTATION_FILES = {
    "research/figures.py",
    "research/plot_styles.py",
    "research/seed_statistics.py",
    "research/sweep_folder.py",
    "research/sweep_report.py",
}
POINT_SCHEMA = pa.schema(
    {
        "experiment": pa.string(),
        "point": pa.string(),
        "rows": pa.string(),
        "cpu_seconds": pa.float64(),
        "error": pa.string(),
    }
)


@cache
def code_digest(live: bool) -> str:
    """Return a digest of the code that measures points, live ones or all others."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    packages = (*DIGEST_PACKAGES, *LIVE_PACKAGES) if live else DIGEST_PACKAGES
    excluded = PRESENTATION_FILES if live else PRESENTATION_FILES | LIVE_FILES
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if name not in excluded and not name.startswith("research/cli/"):
                digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class SweepFolder:
    """The output folder of a sweep over some experiments; used on the driver's main thread."""

    def __init__(self, folder: Path, experiments: Iterable[Experiment]) -> None:
        self.folder = folder
        self._digests = {e.id: code_digest(e.live) for e in experiments}

    @contextmanager
    def locked(self) -> Iterator["SweepFolder"]:
        """Create the folder, check that it is writable, and lock out other sweeps."""
        try:
            (self.folder / "points").mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
            lock = (self.folder / "points" / ".lock").open("w")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"--out {self.folder}: cannot be written ({reason})") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"--out {self.folder}: another sweep is writing there; "
                    "wait until it ends, or choose another folder"
                ) from error
            yield self

    def append_results(self, results: Sequence[PointResult]) -> None:
        """Write the points that did not fail."""
        finished: dict[str, list[PointResult]] = {}
        for result in results:
            if not result.error:
                finished.setdefault(result.experiment, []).append(result)
        for experiment, points in finished.items():
            self._write(experiment, points)

    def finished_points(self, experiment: str) -> dict[str, PointResult]:
        """Return the finished points of an experiment, by point name."""
        finished: dict[str, PointResult] = {}
        for path in self._files(experiment):
            table = self._read(path)
            digest = (table.schema.metadata or {}).get(b"code", b"").decode()
            if digest == self._digests[experiment]:
                finished |= {row["point"]: PointResult(**row) for row in table.to_pylist()}
        return finished

    def merge_files(self, experiment: str) -> None:
        """Replace the many small files of an experiment by one."""
        old = self._files(experiment)
        if len(old) > 1:
            self._write(experiment, self.finished_points(experiment).values())
            for path in old:
                path.unlink()

    def _files(self, experiment: str) -> list[Path]:
        return sorted((self.folder / "points" / experiment).glob("*.parquet"))

    def _read(self, path: Path) -> pa.Table:
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path}: cannot be read ({error}); delete it to measure its points again"
            ) from error

    def _write(self, experiment: str, results: Iterable[PointResult]) -> None:
        folder = self.folder / "points" / experiment
        folder.mkdir(exist_ok=True)
        schema = POINT_SCHEMA.with_metadata({"code": self._digests[experiment]})
        table = pa.Table.from_pylist([asdict(result) for result in results], schema)
        write_parquet_atomically(table, folder / f"{uuid4()}.parquet")


def write_parquet_atomically(table: pa.Table, path: Path) -> None:
    """Write a Parquet file under another name, then rename it."""
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial)
    partial.replace(path)
