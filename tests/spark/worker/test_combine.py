"""Rows combined by the router: the same results, few rows for a hot key, one bad query alone."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local, combine_always, runtime
from tests.support.spark_harness import BEGIN_US, SECOND, cut, shifted, trades
from tests.support.submissions import STREAMS, last_row

from evenflow.spark.driver.combine_choice import next_combined
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.report import QueryStats, Report
from evenflow.spark.worker import combiner, router
from evenflow.spark.worker.combiner import Combiner
from evenflow.sql import QueryTask

COUNTS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q FROM trades
GROUP BY window(ts, '10 seconds'), symbol"""
SUBMISSIONS = [
    Submission("query", "counts", COUNTS, key=("symbol",)),
    Submission("query", "whole", COUNTS.replace("trades", "trades WHERE qty > 3"), worker=1),
    Submission(
        "query",
        "sliding",
        "SELECT window.start AS s, symbol, max(qty) AS m FROM trades "
        "GROUP BY window(ts, '10 seconds', '5 seconds'), symbol HAVING count(*) > 1",
        key=("symbol",),
    ),
    Submission("query", "dear", "SELECT ts, symbol, qty FROM trades WHERE price > 50"),
]
ORIGINAL_MERGE = Combiner._merge
NAMES = ("counts", "whole", "sliding", "dear")


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    combine_always(monkeypatch)


def play(folder: Path, batches: list[pa.Table], *, combine: bool, attempt: int = 0) -> Local:
    local = Local(folder, STREAMS, SUBMISSIONS, workers=3)
    if combine:
        local.combine_rows()
    for rows in [*batches, last_row()]:
        number = local.committer.checkpoint.head().batch
        local.store.write(f"spark/offsets/{number}", [])
        local.committer.commit(number, partial(local.work, number, {"trades": rows}, attempt))
    local.rest()
    assert local.committer.checkpoint.head().quarantined == {}
    return local


@pytest.mark.parametrize("attempt", [0, 1])
def test_results_watermarks_and_row_counts_are_those_of_single_rows(
    tmp_path: Path, attempt: int
) -> None:
    rng = np.random.default_rng(5)
    batches = cut(rng, trades(rng, 400), 6)
    plain = play(tmp_path / "plain", batches, combine=False)
    combined = play(tmp_path / "combined", batches, combine=True, attempt=attempt)
    heads = [local.committer.checkpoint.head() for local in (plain, combined)]
    assert heads[0].watermarks == heads[1].watermarks
    for name in NAMES:
        assert combined.results(name) == plain.results(name) != {}, name
    [before, after] = [
        [
            snapshot.queries["counts"].rows_in.sum()
            for snapshot in local.committer.balancer.snapshots
        ]
        for local in (plain, combined)
    ]
    assert after == before


def test_a_hot_key_is_one_partial_row_per_pane(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=3)
    local.combine_rows()
    rows = trades(np.random.default_rng(1), 500)
    hot = rows.set_column(1, "symbol", pa.array(["a"] * 500))
    local.batch({"trades": hot})
    assert local.committer.checkpoint.head().combined == {"counts@1"}
    reports = local.batch({"trades": hot})
    [stats] = [r.query_stats["counts@1"] for r in reports if "counts@1" in r.query_stats]
    assert stats.rows_in == 500
    assert stats.work_rows <= 10
    assert not stats.uncombined


@pytest.mark.parametrize("fault", ["none", "merge", "full"])
def test_chunks_of_a_router_task_become_one_partial_row_per_pane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(router, "_CHUNK_BYTES", 1)
    rows = trades(np.random.default_rng(1), 500)
    hot = rows.set_column(1, "symbol", pa.array(["a"] * 500))
    chunks = pa.Table.from_batches(hot.to_batches(max_chunksize=50))
    plain = Local(tmp_path / "plain", STREAMS, SUBMISSIONS[:1], workers=3)
    local = Local(tmp_path / "combined", STREAMS, SUBMISSIONS[:1], workers=3)
    local.combine_rows()
    for batch in (chunks, chunks):
        plain.batch({"trades": batch})
        if fault == "merge":
            monkeypatch.setattr(combiner.Combiner, "_merge", _without_merge)
        elif fault == "full":
            monkeypatch.setattr(combiner, "MAX_KEPT_BYTES", 0)
        reports = local.batch({"trades": batch})
    [stats] = [r.query_stats["counts@1"] for r in reports if "counts@1" in r.query_stats]
    assert stats.rows_in == 500
    assert not stats.uncombined
    panes = len({time // (10 * SECOND) for time in hot["ts"].cast(pa.int64()).to_pylist()})
    assert (stats.groups == panes) == (fault == "none")
    for each in (plain, local):
        each.batch({"trades": last_row()})
        each.rest()
    assert local.results("counts") == plain.results("counts") != {}


def _without_merge(self: Combiner, panes: object, partials: list[pa.Table]) -> pa.Table:
    class Failing:
        def merge_partials(self, rows: pa.Table) -> pa.Table:
            raise TimeoutError

    return ORIGINAL_MERGE(self, Failing(), partials)  # type: ignore[arg-type]


def test_the_watermark_advances_though_no_row_passes_the_condition(tmp_path: Path) -> None:
    none = Submission("query", "none", COUNTS.replace("trades", "trades WHERE qty > 10000"))
    some = Submission("query", "some", COUNTS)
    local = Local(tmp_path, STREAMS, [some, none], workers=2)
    local.combine_rows()
    rows = trades(np.random.default_rng(1), 50)
    local.batch({"trades": rows})
    local.batch({"trades": last_row()})
    at_us = local.committer.checkpoint.head().watermarks["trades"]
    assert at_us > BEGIN_US + 100 * SECOND


def test_a_query_that_fails_in_the_router_is_quarantined_by_its_worker(tmp_path: Path) -> None:
    bad = Submission(
        "query",
        "bad",
        "SELECT window.start AS s, symbol, sum(10 / (qty - 5)) AS x FROM trades "
        "GROUP BY window(ts, '10 seconds'), symbol",
        key=("symbol",),
    )
    local = Local(tmp_path, STREAMS, [SUBMISSIONS[0], bad], workers=2)
    local.combine_rows()
    rows = trades(np.random.default_rng(1), 200)
    fine = rows.filter(pa.compute.not_equal(rows["qty"], 5))
    local.batch({"trades": fine})
    assert local.committer.checkpoint.head().combined == {"counts@1", "bad@2"}
    local.batch({"trades": shifted(rows, 60)})
    assert list(local.committer.checkpoint.head().quarantined) == ["bad@2"]
    assert local.committer.checkpoint.head().combined == {"counts@1"}
    local.batch({"trades": last_row()})
    local.rest()
    assert sum(row[2] for row in local.results("counts").elements()) == len(fine) + len(rows)


def test_a_query_that_the_router_cannot_combine_gets_its_rows_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=2)
    local.combine_rows()
    rows = trades(np.random.default_rng(1), 200)
    local.batch({"trades": rows})

    def too_slow(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(QueryTask, "combine", too_slow)
    reports = local.batch({"trades": rows})
    stats = [r.query_stats["counts@1"] for r in reports if "counts@1" in r.query_stats]
    assert sum(s.rows_in for s in stats) == 200
    assert all(s.uncombined for s in stats)
    assert local.committer.checkpoint.head().combined == frozenset()
    local.batch({"trades": rows})
    assert local.committer.checkpoint.head().combined == frozenset()


def test_combining_begins_and_ends_by_measured_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=2)
    registry = local.committer.checkpoint.registry()

    def chosen(rows: int, groups: int, *, combined: bool) -> bool:
        uids = frozenset({"counts@1"} if combined else ())
        entry = Entry(batch=1, registry_version=1, plan_number=1, combined=uids)
        stats = QueryStats(rows_in=rows, groups=groups)
        report = Report(0, query_stats={"counts@1": stats})
        return bool(next_combined(entry, registry, [report], excluded=()))

    assert chosen(100_000, 1_000, combined=False)
    assert not chosen(100_000, 50_000, combined=False)
    assert chosen(100_000, 50_000, combined=True)
    assert not chosen(100_000, 60_000, combined=True)
    assert not chosen(1_000, 10, combined=False)
    assert not chosen(1_000, 10, combined=True)
    assert chosen(0, 0, combined=True)
    assert not chosen(0, 0, combined=False)
    assert not chosen(100_000, 0, combined=False)  # it cannot be combined


def test_a_router_task_opens_no_task_of_other_queries(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS, workers=2)
    local.combine_rows()
    local.batch({"trades": trades(np.random.default_rng(1), 100)})
    head = local.committer.checkpoint.head()
    opened = Combiner(runtime(), local.committer.checkpoint.ledger, head, "trades")
    assert [query.name for query in opened.queries] == ["counts", "sliding", "whole"]
    opened.close()
