"""The files that Spark noted for a batch, and one of them that is gone."""

from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import SourceError
from evenflow.spark.driver.bad_files import bad_file_in
from evenflow.spark.driver.vanished_files import noted_files, refuse_vanished_files

NO_SPARK: Any = None  # local files need none


def write_offsets(folder: Path, batch: int, *ends: int | None) -> None:
    """What Spark notes: how far the batch reads in the log of each source."""
    lines = ["v1", "{}", *("-" if end is None else f'{{"logOffset":{end}}}' for end in ends)]
    path = folder / "spark/offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def write_log(folder: Path, source: int, name: str, *entries: tuple[int, Path]) -> None:
    lines = [
        f'{{"path":"{path.as_uri()}","timestamp":1,"batchId":{number}}}' for number, path in entries
    ]
    path = folder / f"spark/sources/{source}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *lines]))


def test_the_files_of_a_batch_are_those_its_offsets_add(tmp_path: Path) -> None:
    """The numbers of a source's log are not those of batches: it has none without new files."""
    a, b, c, d = (tmp_path / f"{name} x.parquet" for name in "abcd")
    folder = tmp_path / "checkpoint"
    write_log(folder, 0, "0", (0, folder / "pulse/7"))
    write_log(folder, 1, "0", (0, a))
    write_log(folder, 1, "1.compact", (0, a), (1, b))
    write_log(folder, 2, "0", (0, c), (0, d))
    for batch, ends in enumerate([(None, 0, None), (0, 0, None), (0, 0, 0), (0, 1, 0)]):
        write_offsets(folder, batch, *ends)
    found = [noted_files(folder, batch) for batch in range(4)]
    assert found == [[a.as_uri()], [], [c.as_uri(), d.as_uri()], [b.as_uri()]]


def test_a_noted_file_that_is_gone_is_named_unless_it_is_left_out(tmp_path: Path) -> None:
    here, gone, folder = tmp_path / "here", tmp_path / "gone away", tmp_path / "checkpoint"
    here.touch()
    write_log(folder, 0, "0", (0, here))
    write_log(folder, 0, "1", (1, gone))
    write_offsets(folder, 4, 0)
    write_offsets(folder, 5, 1)
    with refuse_vanished_files(NO_SPARK, folder, 4, []):
        pass
    with (
        pytest.raises(SourceError, match="gone%20away") as failure,
        refuse_vanished_files(NO_SPARK, folder, 5, []),
    ):
        pass
    bad = bad_file_in(failure.value, 2)
    assert bad is not None
    assert bad.reason == "it is gone"
    with refuse_vanished_files(NO_SPARK, folder, 5, [bad.path]):
        pass
