"""A file of the checkpoint is lost or damaged: the run stops and names it; repaired, it goes on."""

import signal
from pathlib import Path

import pytest
from tests.support.kill_driver import check_rows, run_program, write_rows

from evenflow.spark.protocol.ledger import Ledger
from evenflow.storage.file_store import FileStore


@pytest.mark.slow
def test_lost_and_truncated_files_stop_the_run_and_repaired_it_goes_on(tmp_path: Path) -> None:
    write_rows(tmp_path)
    assert run_program(tmp_path, "driver.ledger:2") == -signal.SIGKILL
    ledger = Ledger(FileStore(str(tmp_path / "checkpoint")))
    entry = ledger.last_entry()
    assert entry is not None
    (segment, *_) = sorted({file for files in entry.live_files.values() for file in files})
    (handoff, *_) = sorted({handoff.state.file for handoff in entry.incoming})
    for file, keep_bytes in ((segment, None), (segment, 10), (handoff, None)):
        path = tmp_path / "checkpoint" / file
        data = path.read_bytes()
        path.unlink()
        if keep_bytes is not None:
            path.write_bytes(data[:keep_bytes])
        (tmp_path / "log").unlink()
        assert run_program(tmp_path) == 1, "the run did not stop"
        lines = (tmp_path / "log").read_text().splitlines()
        errors = ("evenflow.errors.StorageError: ", "evenflow.errors.DamagedFileError: ")
        (*_, last) = [line for line in lines if line.startswith(errors)]
        assert f"{file} cannot be read" in last or f"{file} is damaged" in last
        after = ledger.last_entry()
        assert after is not None
        assert after.batch == entry.batch, "the batch was committed"
        path.write_bytes(data)
    assert run_program(tmp_path) == 0
    check_rows(tmp_path)
