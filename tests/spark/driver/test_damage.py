"""A file of the checkpoint that was changed, cut or lost stops the run or the read, by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import DamagedFileError
from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import TableSpec
from evenflow.sql.tasks.segments import _cached_runs
from evenflow.storage.bundle import Bundle, PartRef, pack

SYMBOLS = sorted(set(trades(np.random.default_rng(1), 200)["symbol"].drop_null().to_pylist()))
ROWS = {"trades": trades(np.random.default_rng(1), 60)}


def flip(folder: Path, part: PartRef) -> bytes:
    """Flip one bit in the middle of a part; return what the file was."""
    path = folder / part.file
    before = path.read_bytes()
    at = part.offset + part.length // 2
    path.write_bytes(before[:at] + bytes([before[at] ^ 4]) + before[at + 1 :])
    return before


def move_all(local: Local, owner: int) -> None:
    hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
    table = RoutingTable.from_entries(hashes, [owner] * len(SYMBOLS))
    local.committer.commands.request_plan(Plan(2, {}, {"sums": table}))
    local.batch(ROWS)


def segment(local: Local) -> PartRef:
    states = [process.states for process in local.processes]
    tasks = [task for each in states for state in each.values() for task in state.tasks.values()]
    return next(ref for task in tasks for ref in task.segments.values())


def state_index(local: Local) -> PartRef:
    return next(iter(local.committer.checkpoint.head().state_refs.values()))


def hand_off(local: Local) -> PartRef:
    move_all(local, 0)
    local.batch(ROWS)
    move_all(local, 1)
    local.batch(ROWS)
    return local.committer.checkpoint.head().incoming[0].state


def derived_rows(local: Local) -> PartRef:
    local.batch(ROWS)
    return local.committer.checkpoint.head().derived_rows[0].rows


@pytest.mark.parametrize("find", [segment, state_index, hand_off, derived_rows])
def test_a_flipped_bit_stops_the_run_and_no_query_is_blamed(
    tmp_path: Path, find: Callable[[Local], PartRef]
) -> None:
    derived = Submission("query", "dearest", "SELECT ts, symbol FROM dear", ("symbol",))
    submissions = SUBMISSIONS[:2] if find is derived_rows else SUBMISSIONS[1:2]
    local, calm = (
        Local(tmp_path / name, STREAMS, [*submissions, *[derived] * (find is derived_rows)],
              workers=2)
        for name in ("damaged", "calm")
    )  # fmt: skip
    for one in (local, calm):
        one.batch(ROWS)
        part = find(one)
        if one is local:
            content = flip(tmp_path / "damaged", part)
            local.forget()
            _cached_runs.clear()  # as in another process
            with pytest.raises(DamagedFileError, match=f"{part.file} is damaged: .*{part.offset}"):
                local.batch(ROWS)
            (tmp_path / "damaged" / part.file).write_bytes(content)
        one.batch(ROWS)
    assert local.committer.checkpoint.head().quarantined == {}
    for name in (submission.name for submission in submissions):
        assert local.results(name) == calm.results(name)


def test_a_flipped_bit_in_a_result_stops_the_read(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    local.batch(ROWS)
    uid = local.committer.checkpoint.registry().queries["dear"].uid
    flip(
        tmp_path,
        local.committer.checkpoint.results_index.read_units("results", uid)[0].parts[0].ref,
    )
    with pytest.raises(DamagedFileError, match=r"results/data/\S+ is damaged"):
        local.results("dear")


def test_a_flipped_bit_in_a_reference_table_stops_the_run(tmp_path: Path) -> None:
    rows = pa.table({"symbol": SYMBOLS, "size": list(range(len(SYMBOLS)))})
    bundle = Bundle("tables/sizes")
    table = TableSpec(rows.schema, bundle.add(pack(rows)))
    sql = "SELECT ts, size FROM trades t JOIN sizes s ON t.symbol = s.symbol"
    local = Local(tmp_path, STREAMS, [Submission("query", "sized", sql)], tables={"sizes": table})
    bundle.write(local.store)
    content = flip(tmp_path, table.rows)
    with pytest.raises(DamagedFileError, match="tables/sizes is damaged"):
        local.batch(ROWS)
    (tmp_path / "tables/sizes").write_bytes(content)
    local.batch(ROWS)
    assert local.results("sized").total() == 60 - ROWS["trades"]["symbol"].null_count


def test_a_lost_index_of_results_stops_the_read(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    for _ in range(3):
        local.batch(ROWS)
    (lost,) = (tmp_path / "results/index").glob("000000000001-*")
    lost.unlink()
    with pytest.raises(DamagedFileError, match="it is missing"):
        local.results("dear")


def test_what_a_failed_attempt_indexed_does_not_survive_the_replay(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    failed = local.work(0, ROWS)
    local.committer.checkpoint.results_index.write(0, failed, 0.0)  # and the driver died
    local.reopen()
    local.batch()  # the source gave nothing this time
    assert local.results("dear") == {}
