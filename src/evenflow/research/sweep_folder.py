"""What a sweep keeps: finished points as they come, so that an interruption loses none.

    OUT/points/ID/*.parquet    finished points, one file for each chunk, renamed into place
    OUT/ID.parquet             all rows of an experiment, tidy, once its grid is complete

A point that was measured by other code than today's is measured again: every file names the code
that made it. Figures and reports are no part of that: they are made anew from what is kept.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import InputError
from evenflow.research.experiment import PointResult

DIGEST_PACKAGES = ("model", "planning", "simulation", "experiments")  # whose code makes the numbers
LIVE_DIGEST_PACKAGES = ("spark", "sql")  # and, where streams are run, the runtime's
PRESENTATION_FILES = ("drawing.py", "looks.py", "measures.py", "report.py", "results.py")
POINT_SCHEMA = pa.schema(
    {
        "experiment": pa.string(),
        "point": pa.string(),
        "rows": pa.string(),
        "cpu_seconds": pa.float64(),
        "error": pa.string(),
    }
)


def code_digest(experiment: str) -> str:
    """Return a digest of the code that makes an experiment's numbers."""
    from evenflow.research.experiments import (
        EXPERIMENTS,  # which imports this package's other modules
    )

    known = EXPERIMENTS.get(experiment)
    return _package_digest(
        (*DIGEST_PACKAGES, *LIVE_DIGEST_PACKAGES)
        if known is not None and known.live
        else DIGEST_PACKAGES
    )


@cache
def _package_digest(packages: tuple[str, ...]) -> str:
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            if package == "experiments" and path.name in PRESENTATION_FILES:
                continue
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class SweepFolder:
    """The folder of a sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator["SweepFolder"]:
        """Make the folder, refuse what cannot be written, and keep other sweeps out."""
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
                    "wait for its end or name another folder"
                ) from error
            yield self

    def append_results(self, outcomes: Sequence[PointResult]) -> None:
        """Keep finished points; failed ones are not finished."""
        done = [outcome for outcome in outcomes if not outcome.error]
        for experiment in dict.fromkeys(outcome.experiment for outcome in done):
            mine = [asdict(outcome) for outcome in done if outcome.experiment == experiment]
            self._write(experiment, pa.Table.from_pylist(mine, POINT_SCHEMA))

    def finished_points(self, experiment: str) -> dict[str, PointResult]:
        """Return the finished points of an experiment by name."""
        found: dict[str, PointResult] = {}
        for path in self._files(experiment):
            table = self._read(path)
            if (table.schema.metadata or {}).get(b"code", b"").decode() == code_digest(experiment):
                found |= {row["point"]: PointResult(**row) for row in table.to_pylist()}
        return found

    def merge_files(self, experiment: str) -> None:
        """Put the many small files of an experiment into one."""
        old = self._files(experiment)
        if len(old) > 1:
            kept = [asdict(outcome) for outcome in self.finished_points(experiment).values()]
            self._write(experiment, pa.Table.from_pylist(kept, POINT_SCHEMA))
            for path in old:
                path.unlink()

    def _files(self, experiment: str) -> list[Path]:
        return sorted((self.folder / "points" / experiment).glob("*.parquet"))

    def _read(self, path: Path) -> pa.Table:
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path}: cannot be read ({error}); remove it, and its points are run again"
            ) from error

    def _write(self, experiment: str, table: pa.Table) -> None:
        folder = self.folder / "points" / experiment
        folder.mkdir(exist_ok=True)
        named = table.replace_schema_metadata({"code": code_digest(experiment)})
        write_parquet_atomically(named, folder / f"{uuid4()}.parquet")


def write_parquet_atomically(table: pa.Table, path: Path) -> None:
    """Write a Parquet file that is either whole or not there."""
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial)
    partial.replace(path)
