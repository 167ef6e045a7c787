"""Results are merged and removed beside the batches; nobody sees it but by the number of files."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import shifted, trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import DamagedFileError, InputError, ResultsRemovedError
from evenflow.model.results_page import ResultPosition
from evenflow.model.retention import Retention
from evenflow.spark.driver import maintenance, merge_results
from evenflow.spark.driver.merge_results import BLOCK_SIZES, next_span, removable
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol import entry
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.results_index import Block, BlockList, ResultsIndex
from evenflow.spark.protocol.stored_results import StoredResults

POINTS = ("merge.data", "merge.index", "merge.list", "driver.ledger", "merge.deleted")
QUERIES = [SUBMISSIONS[0], Submission("query", "busy", "SELECT ts, qty FROM trades WHERE qty > 3")]
BATCH_ROWS = 12


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge after 4, 16 and 64 batches, so that tests are short."""
    for module in (entry, merge_results, maintenance):
        monkeypatch.setattr(module, "BLOCK_BATCHES", 4)
    monkeypatch.setattr(merge_results, "BLOCK_SIZES", (4, 16, 64))
    monkeypatch.setattr("os.fsync", lambda _: None)  # no power is lost here


def rows_of_batch(at: int) -> pa.Table:
    return shifted(trades(np.random.default_rng(at), BATCH_ROWS, span_s=1, late_s=1), 2 * at)


def expected(first: int, until: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for at in range(first, until):
        for row in rows_of_batch(at).to_pylist():
            if row["price"] > 50:
                found[row["ts"], row["symbol"], row["price"]] += 1
    return found


def play(local: Local, batches: int) -> None:
    first = head(local).batch
    for at in range(first, first + batches):
        local.batch({"trades": rows_of_batch(at)})


def read(local: Local, first: int, until: int) -> Counter[Any]:
    tables = local.tables("results", "dear@1", first=first, until=until)
    return Counter(tuple(row.values()) for rows in tables for row in rows.to_pylist())


def head(local: Local) -> Entry:
    return local.committer.checkpoint.head()


def files(folder: Path) -> list[str]:
    found = (folder / "results").rglob("*")
    return sorted(str(path.relative_to(folder)) for path in found if path.is_file())


def test_merged_results_are_the_same_in_few_files(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 90)
    assert local.results("dear") == expected(0, 90)
    assert local.results("busy").total() > 0
    for first, until in ((0, 1), (3, 5), (15, 17), (20, 64), (63, 90), (89, 90), (70, 1000)):
        assert read(local, first, until) == expected(first, min(until, 90)), (first, until)
    listed = local.committer.checkpoint.results_index.block_list(head(local))
    assert [(b.first, b.last) for b in listed.blocks][:2] == [(0, 63), (64, 79)]
    not_merged = 90 - listed.end
    assert len(files(tmp_path)) <= not_merged * 3 + 3 * len(listed.blocks) + 20
    # Parts of a query: one for each run of batches, not one for each batch and worker.
    units = local.committer.checkpoint.results_index.read_units("results", "dear@1", 0, listed.end)
    assert sum(len(unit.parts) for unit in units) == len(listed.blocks)


def test_pages_stay_the_same_when_their_batches_are_merged(tmp_path: Path) -> None:
    """A position is a batch and a row in it: the order of rows must not change."""
    local = Local(tmp_path, STREAMS, [*QUERIES, SUBMISSIONS[2]], workers=3)
    play(local, 6)
    stored = StoredResults(local.store)
    for name in ("dear", "pairs"):
        before = stored.table(name, until=6).to_pylist()
        pages = [stored.page(name, ResultPosition(4, row), 5).rows.to_pylist() for row in range(9)]
        play(local, 20)
        assert stored.table(name, until=6).to_pylist() == before
        again = [stored.page(name, ResultPosition(4, row), 5).rows.to_pylist() for row in range(9)]
        assert again == pages
        newest = stored.table(name).to_pylist()[-30:]
        assert stored.page(name, None, 30).rows.to_pylist() == newest
        assert stored.table(name, limit=30).to_pylist() == newest


def test_the_work_of_a_merge_does_not_grow_with_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    seen: list[str] = []

    def noting(original: Callable[..., Any], file: str, *rest: int) -> Any:
        seen.append(file)
        return original(file, *rest)

    for name in ("read", "read_range", "list_names"):
        monkeypatch.setattr(local.store, name, partial(noting, getattr(local.store, name)))
    counts = []
    for _ in range(3):
        before = len(seen)
        play(local, 64)
        counts.append(len(seen) - before)
    assert counts[2] <= 1.05 * counts[1], counts
    assert not {"results", "results/data", "results/index", "results/merged"} & set(seen)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_in_a_merge_changes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The driver dies at the point each time it is reached, and is started again."""

    class Killed(BaseException):
        """Nothing of ours may catch it, as nothing catches SIGKILL."""

    local, times = Local(tmp_path, STREAMS, QUERIES, workers=2, keep=Retention(batches=16)), [0, 0]

    def maybe(name: str) -> None:
        times[0] += name == point
        if name == point and times[0] % 2:
            times[1] += 1
            raise Killed

    for module in ("merge_results", "maintenance", "committer"):
        monkeypatch.setattr(f"evenflow.spark.driver.{module}.fault_point", maybe)
    while (at := head(local).batch) < 48:
        try:
            local.batch({"trades": rows_of_batch(at)})
        except Killed:
            local.reopen()
        first = local.committer.checkpoint.results_index.first_kept()
        done = head(local).batch
        assert done - first >= min(16, done)
        if done % 3 == 0:
            assert read(local, first, done) == expected(first, done), done
    assert times[1] >= 3, "the point was hardly reached"
    assert first >= 16
    times[0] = 1 << 30
    point = ""
    named = set(files(tmp_path))
    calm = Local(tmp_path / "calm", STREAMS, QUERIES, workers=2, keep=Retention(batches=16))
    play(calm, 48)
    assert len(named) <= len(files(tmp_path / "calm")) + 20, "files were left"


def test_a_frame_made_before_a_merge_reads_the_same_rows_after_it(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 7)
    index = ResultsIndex(local.committer.checkpoint.ledger)
    units = index.read_units("results", "dear@1", 1, 6)
    play(local, 80)
    assert not (tmp_path / units[0].parts[0].ref.file).exists(), "nothing was merged"
    tables = [index.read("results", "dear@1", unit) for unit in units]
    found = Counter(tuple(row.values())[:-1] for rows in tables for row in rows.to_pylist())
    assert found == expected(1, 6)


def test_readers_see_exactly_what_is_committed_while_the_thread_merges(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    local.committer.maintenance.start()
    end, wrong = threading.Event(), []

    def read_again_and_again() -> None:
        while not end.is_set():
            until = head(local).batch
            if read(local, 0, until) != expected(0, until):
                wrong.append(until)

    reader = threading.Thread(target=read_again_and_again)
    reader.start()
    try:
        while local.committer.checkpoint.results_index.block_list(head(local)).end < 32:
            play(local, 1)
            assert head(local).batch < 1000, local.committer.maintenance.error
    finally:
        end.set()
        reader.join()
    local.committer.maintenance.close()
    assert wrong == []
    assert local.committer.maintenance.error is None
    assert local.results("dear") == expected(0, head(local).batch)


def test_readers_behind_retention_are_told(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2, keep=Retention(batches=20))
    play(local, 6)
    index = ResultsIndex(local.committer.checkpoint.ledger)
    units = index.read_units("results", "dear@1")
    play(local, 60)
    first = index.first_kept()
    assert 66 - 20 - 3 * 4 <= first <= 66 - 20
    assert local.results("dear") == expected(first, 66)
    with pytest.raises(ResultsRemovedError, match=f"batches 0 to {first - 1} were removed"):
        read(local, 0, 66)
    with pytest.raises(ResultsRemovedError, match="batches 3 to 4 were removed"):
        read(local, 3, 5)
    with pytest.raises(ResultsRemovedError, match="were removed"):
        [index.read("results", "dear@1", unit) for unit in units]
    assert len(files(tmp_path)) < 90


def test_retention_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    local = Local(tmp_path, STREAMS, QUERIES, workers=2, keep=Retention(seconds=100.0))
    for at in range(60):
        now[0] += 5 if at != 30 else -500  # the clock is set back once
        play(local, 1)
        first = local.committer.checkpoint.results_index.first_kept()
        assert read(local, first, at + 1) == expected(first, at + 1)
        assert first <= max(0, at - 20)
        if at >= 30:
            assert first <= 30, "nothing is removed before the clock has caught up"


def test_large_files_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_results, "USEFUL_BYTES", 1)
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 40)
    assert local.store.list_names("results/merged") == []
    assert local.results("dear") == expected(0, 40)


def test_a_damaged_result_stops_its_merge_and_nothing_else(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 2)
    (unit, *_) = local.committer.checkpoint.results_index.read_units("results", "dear@1")
    path = tmp_path / unit.parts[0].ref.file
    data = path.read_bytes()
    path.write_bytes(bytes(len(data)))
    play(local, 4)
    with pytest.raises(DamagedFileError, match=r"results/data/\S+ is damaged"):
        play(local, 1)
    path.write_bytes(data)
    play(local, 20)
    assert local.results("dear") == expected(0, 27)


def test_what_a_failed_attempt_left_goes_with_the_merge(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 1)
    local.work(1, {"trades": rows_of_batch(1)})
    assert len(files(tmp_path)) > 3
    play(local, 11)
    listed = local.committer.checkpoint.results_index.block_list(head(local))
    assert listed.end >= 4
    assert not (tmp_path / "results/data/000000000000").exists()


def test_a_driver_that_may_no_longer_commit_deletes_nothing(tmp_path: Path) -> None:
    """Its merge counts only with its commit; files that another driver needs stay."""
    local = Local(tmp_path, STREAMS, QUERIES, workers=2)
    play(local, 7)
    last = head(local)
    assert local.committer.maintenance._proposed is not None
    before = files(tmp_path)
    for _ in range(3):
        local.committer.maintenance.work(last)
    assert files(tmp_path) == before
    local.reopen()
    play(local, 10)
    assert local.results("dear") == expected(0, 17)


def test_spans_and_retention_are_planned_without_files() -> None:
    def blocks(*ends: int) -> BlockList:
        starts = [0, *(end + 1 for end in ends[:-1])]
        pairs = zip(starts, ends, strict=True)
        return BlockList(blocks=tuple(Block(a, b, float(b), f"{a}") for a, b in pairs))

    assert next_span(BlockList(), 3, Retention()) is None
    assert next_span(BlockList(), 4, Retention()) == (0, 3)
    assert next_span(BlockList(first_kept=5), 20, Retention()) == (5, 7)
    assert next_span(blocks(3, 7, 11, 15), 18, Retention()) == (0, 15)
    assert next_span(blocks(3, 7, 11, 15), 18, Retention(batches=40)) is None
    assert next_span(blocks(3, 7, 11, 15), 18, Retention(seconds=40.0)) is None
    assert next_span(blocks(3, 7, 11, 15), 18, Retention(seconds=400.0)) == (0, 15)
    assert removable(blocks(3, 7, 11), 30, 0.0, Retention(batches=20)) == 2
    assert removable(blocks(3, 7, 11), 30, 30.0, Retention(seconds=20.0)) == 2
    assert removable(blocks(3, 7, 11), 30, 1e9, Retention()) == 0
    assert BLOCK_SIZES == (64, 4096, 262144)


@pytest.mark.parametrize("text", ["", "7", "soon", "0 batches", "0 days", "-1 batches"])
def test_a_keep_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="keep"):
        Retention.parse(text)
