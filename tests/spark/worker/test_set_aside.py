"""Rows with a wrong event time are set aside, and a watermark that they raised can be set back."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import BEGIN_US, SECOND, trade_batches, trades
from tests.support.submissions import STREAMS, last_row

from evenflow.errors import InputError, StorageError
from evenflow.spark.driver import set_aside_alarm
from evenflow.spark.driver.pending_state import ResetWatermark
from evenflow.spark.driver.submission import Submission
from evenflow.spark.worker import set_aside, worker_batch

DAY = 86_400 * SECOND
SUMS = """SELECT window.start AS s, symbol, count(*) AS n
    FROM {} GROUP BY window(ts, '10 seconds'), symbol"""
QUERIES = [
    Submission("query", "sums", SUMS.format("trades"), ("symbol",)),
    Submission("query", "dear", "SELECT ts, symbol FROM trades WHERE price >= 0", None, True),
    Submission("query", "derived", SUMS.format("dear")),
    Submission(
        "query",
        "pairs",
        """SELECT a.ts AS t1, b.ts AS t2, a.symbol FROM trades a JOIN trades b
        ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 3 SECONDS""",
        ("symbol",),
    ),
]
NAMES = [query.name for query in QUERIES]
ROWS = trade_batches(4)


def at_time(rows: pa.Table, time_us: int) -> pa.Table:
    times = pa.array([time_us] * len(rows)).cast(rows.schema.field("ts").type)
    return rows.set_column(0, "ts", times)


def stored(local: Local) -> pa.Table:
    return pa.concat_tables(local.tables("poison", "trades"))


def play(local: Local, batches: list[pa.Table]) -> dict[str, object]:
    for rows in (*batches, last_row()):
        local.clock_us = max(local.clock_us, BEGIN_US + 3600 * SECOND)
        local.batch({"trades": rows})
    local.rest()
    return {name: local.results(name) for name in NAMES}


def test_one_row_from_the_future_does_not_make_later_rows_late(tmp_path: Path) -> None:
    alone = Local(tmp_path / "alone", STREAMS, QUERIES, workers=2)
    expected = play(alone, ROWS)
    future = at_time(ROWS[0].slice(0, 2), BEGIN_US + 170 * 365 * DAY)
    local = Local(tmp_path / "ahead", STREAMS, QUERIES, workers=2, max_ahead_us=DAY)
    assert play(local, [ROWS[0], pa.concat_tables([future, ROWS[1]]), *ROWS[2:]]) == expected
    head = local.committer.checkpoint.head()
    assert (head.poison, head.ahead) == ({"trades": 2}, {"trades": 2})
    assert stored(local).equals(future)
    # Without the bound the same rows make the later ones late.
    unbounded = Local(tmp_path / "unbounded", STREAMS, QUERIES, workers=2)
    assert play(unbounded, [ROWS[0], pa.concat_tables([future, ROWS[1]]), *ROWS[2:]]) != expected


def test_old_rows_are_never_ahead_and_the_bound_is_exact(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES[:1], workers=1, max_ahead_us=DAY)
    row = ROWS[0].slice(0, 1)
    for time_us in (0, local.clock_us, local.clock_us + DAY, local.clock_us + DAY + 1):
        local.batch({"trades": at_time(row, time_us)})
    assert local.committer.checkpoint.head().ahead == {"trades": 1}
    none = row.set_column(0, "ts", pa.nulls(1, row.schema.field("ts").type))
    local.batch({"trades": pa.concat_tables([none, row])})
    head = local.committer.checkpoint.head()
    assert (head.poison, head.ahead) == ({"trades": 2}, {"trades": 1})


def test_a_batch_without_a_clock_is_not_guessed(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES[:1], workers=1, max_ahead_us=DAY)
    local.store.write("spark/offsets/0", [b"v1\n{}"])
    with pytest.raises(StorageError, match="no batchTimestampMs"):
        local.work(0, {"trades": ROWS[0]})


def test_what_is_stored_of_rows_set_aside_is_bounded_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_batch, "MAX_BATCH_BYTES", 6_000)
    monkeypatch.setattr(worker_batch, "MAX_STREAM_BYTES", 9_000)
    local = Local(tmp_path, STREAMS, QUERIES[:1], workers=2, max_ahead_us=DAY)
    many = at_time(trades(np.random.default_rng(0), 1000), local.clock_us + 2 * DAY)
    for _ in range(4):
        local.batch({"trades": many})
    head = local.committer.checkpoint.head()
    assert head.ahead == {"trades": 4000}
    assert 0 < len(stored(local)) < 500
    assert head.set_aside_bytes["trades"] < 12_000  # the last part may exceed it by its header
    aside = set_aside.SetAside(max_bytes=100)
    aside.add(pa.table({"text": ["x" * 1_000_000]}), invalid=1, ahead=0)
    assert (aside.invalid, aside.rows) == (1, [])


@pytest.mark.parametrize("new_processes", [False, True])
def test_a_watermark_set_back_lets_rows_count_again(tmp_path: Path, new_processes: bool) -> None:
    """Joins and windows, of sources and of derived streams; also by other processes."""
    alone = Local(tmp_path / "alone", STREAMS, QUERIES, workers=2)
    expected = play(alone, ROWS)
    local = Local(tmp_path / "reset", STREAMS, QUERIES, workers=2)
    future = at_time(ROWS[0].slice(0, 1), BEGIN_US + 170 * 365 * DAY)
    local.batch({"trades": future})
    for _ in range(3):  # the watermark of the derived stream follows
        local.batch()
    head = local.committer.checkpoint.head()
    assert head.watermarks["dear"] > BEGIN_US + 100 * 365 * DAY
    local.committer.commands.submit(ResetWatermark("trades", BEGIN_US - 60 * SECOND))
    local.batch()
    assert max(local.committer.checkpoint.head().watermarks.values()) < BEGIN_US
    if new_processes:
        local.reopen()
    found = play(local, ROWS)
    for name in NAMES:
        missing = expected[name] - found[name]  # type: ignore[operator]
        assert not missing, name
        extra = found[name] - expected[name]  # type: ignore[operator]
        assert all(row[0].year > 2100 for row in extra), name
    assert local.committer.checkpoint.head().late == {}


def test_only_a_source_has_a_watermark_to_set_back(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=1)
    with pytest.raises(InputError, match="no source 'dear'; there are trades"):
        local.committer.commands.submit(ResetWatermark("dear", 0))


def test_an_alarm_names_source_reason_and_count_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2, max_ahead_us=DAY)
    ahead = at_time(ROWS[0].slice(0, 2), BEGIN_US + 170 * 365 * DAY)
    no_time = pa.array([None], ROWS[0].schema.field("ts").type)
    timeless = ROWS[0].slice(0, 1).set_column(0, "ts", no_time)
    local.batch({"trades": pa.concat_tables([ROWS[0], ahead, timeless])})
    local.batch({"trades": ahead})  # within the minute: told with the next line
    (line,) = caplog.messages
    assert "source trades: 3 rows set aside up to batch 0" in line
    assert "1 without a valid event time, 2 ahead of the clock" in line
    monkeypatch.setattr(set_aside_alarm, "QUIET_SECONDS", 0.0)
    local.batch({"trades": ROWS[1]})
    assert "source trades: 2 rows set aside up to batch 2" in caplog.messages[1]
    assert "5 in all" in caplog.messages[1]
    local.reopen()
    local.batch({"trades": ROWS[2]})
    assert len(caplog.messages) == 2
