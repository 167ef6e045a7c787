"""A run of Spark with its checkpoint on an S3 server: killed, paused, taken over."""

import json
import os
import signal
from pathlib import Path

import pytest
from scripts.s3_server import BUCKET, S3Server
from tests.support.kill_driver import LOCAL, check_rows, start_program, wait_program, write_rows
from tests.support.poll import until

from evenflow.spark.protocol.ledger import Ledger

PREFIX = "killed"


@pytest.mark.slow
def test_a_killed_and_a_paused_driver_change_no_row(s3: S3Server, tmp_path: Path) -> None:
    """Nothing of the run is on the local disk, so any machine can continue it."""
    write_rows(tmp_path)
    environment = {
        "EVENFLOW_CHECKPOINT": f"s3a://{BUCKET}/{PREFIX}",
        "EVENFLOW_STORAGE": json.dumps(s3.storage | {"cache_folder": str(tmp_path / "cache")}),
    }
    killed = start_program(
        tmp_path, LOCAL, **environment,
        EVENFLOW_CRASH="driver.results:2", EVENFLOW_CRASH_MARK=str(tmp_path / "mark"),
    )  # fmt: skip
    assert wait_program(killed) == -signal.SIGKILL
    ledger = Ledger(s3.store(PREFIX))

    def last_batch() -> int:
        last = ledger.last_entry()
        return -1 if last is None else last.batch

    before = last_batch()
    paused = start_program(tmp_path, LOCAL, **environment)
    until(lambda: last_batch() > before)
    os.killpg(paused.pid, signal.SIGSTOP)
    assert wait_program(start_program(tmp_path, LOCAL, **environment)) == 0
    check_rows(tmp_path, checkpoint=s3.store(PREFIX))
    after = last_batch()
    (tmp_path / "report.json").unlink()
    os.killpg(paused.pid, signal.SIGCONT)
    assert wait_program(paused) == 1, "the paused driver went on"
    assert "s3a://evenflow/killed was taken over by another" in (tmp_path / "log").read_text()
    assert last_batch() == after
    assert not (tmp_path / "report.json").exists()
    assert not (tmp_path / "checkpoint").exists()
