"""A file that Spark noted for a batch and that is gone stops the commit of the batch."""

from pathlib import Path

import pytest

from evenflow.errors import SourceError
from evenflow.spark.driver.bad_files import bad_file_in
from evenflow.spark.driver.vanished_files import refuse_vanished_files
from evenflow.storage.file_store import FileStore


def test_a_noted_file_that_is_gone_is_named_unless_it_is_left_out(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "checkpoint"))
    here, gone = tmp_path / "here.parquet", tmp_path / "gone away.parquet"
    here.touch()
    note = tmp_path / "checkpoint/spark/sources/0"
    note.mkdir(parents=True)
    lines = [
        '{"path":"%s","timestamp":1,"batchId":%d}' % (path.as_uri(), batch)  # noqa: UP031
        for path, batch in ((here, 3), (gone, 2), (tmp_path / "checkpoint/pulse/7", 3))
    ]
    (note / "3.compact").write_text("\n".join(["v1", *lines]))
    refuse_vanished_files(store, 3, [])
    (note / "2").write_text("\n".join(["v1", lines[1]]))
    refuse_vanished_files(store, 1, [])
    with pytest.raises(SourceError, match="gone%20away") as failure:
        refuse_vanished_files(store, 2, [])
    bad = bad_file_in(failure.value, 2)
    assert bad is not None
    assert bad.reason == "it is gone"
    refuse_vanished_files(store, 2, [bad.path])
    refuse_vanished_files(FileStore("s3://bucket/flow"), 2, [])
