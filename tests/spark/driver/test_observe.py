"""What is measured of a batch: keys counted where the rows are, priced and put together."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.local_runtime import Local
from tests.support.spark_harness import shifted, trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.model import Plan, QueryLoad, RoutingTable, Snapshot, hash_keys, hot_keys
from evenflow.model.traffic import round_robin_bytes, stream_bytes
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.cost_model import CostModel
from evenflow.spark.driver.observe import ObserverState, observe
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.key_counts import decode_key_counts, encode_key_counts
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.report import QueryStats, Report
from evenflow.spark.worker import key_counts
from evenflow.spark.worker.key_counts import count_hashes, count_hashes_reference, heaviest_keys
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.spark.worker.worker_process import emulate_cost

KEYED = [one for one in SUBMISSIONS if one.name in {"sums", "pairs"}]


@given(
    st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=3000),
    st.sampled_from([0, 5]),
)
@settings(max_examples=30)
def test_the_tally_is_that_of_a_plain_count(values: list[int], most: int) -> None:
    hashes = np.array(values, dtype=np.uint64)
    numbers = np.arange(len(hashes) if most else 0) % (most + 1)
    ends = np.array([len(hashes) // 3, len(hashes) // 3, len(hashes)])
    found = zip(*(column.tolist() for column in count_hashes(hashes, numbers, ends)), strict=True)
    assert {key: (number, first) for key, number, first in found} == count_hashes_reference(
        hashes, numbers, ends
    )


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.floats(0, 1),
)
def test_no_key_left_out_is_heavier_than_the_bound(
    keys: list[tuple[int, int]], most: int, price: float
) -> None:
    rows_in, made = np.array(keys).T
    told = heaviest_keys(rows_in, made.astype(float), most)
    assert told.sum() <= most
    cost = price * rows_in + (1 - price) * made
    assert cost[~told].max(initial=0.0) <= 2 / (most + 1) * cost.sum() + 1e-9


def flow(folder: Path, tables: dict[str, RoutingTable] | None = None) -> Local:
    local = Local(folder, STREAMS, KEYED, workers=3)
    if tables:
        local.committer.commands.request_plan(Plan(3, {}, tables))
        local.rest()
    return local


def test_each_key_is_counted_with_its_rows_its_state_and_its_name(tmp_path: Path) -> None:
    local = flow(tmp_path)
    rows = trades(np.random.default_rng(3), 500, span_s=30)
    for part in (rows.slice(0, 200), rows.slice(200)):
        reports = local.batch({"trades": part})
    snapshot, _ = observe(local.committer.completed_batches[-1], ObserverState())
    truth = Counter("NULL" if s is None else s for s in part["symbol"].to_pylist())
    for name in ("sums", "pairs"):
        uid = local.committer.commands.next_registry_and_plan()[0].queries[name].uid
        told = [counts for report in reports for counts in [report.key_counts[uid]]]
        counted = {
            n: int(r) for c in told for n, r in zip(c.names.to_pylist(), c.rows_in, strict=True)
        }
        assert counted == dict(truth)
        query = snapshot.queries[name]
        assert query.keys is not None
        assert sorted(query.keys.names) == sorted(truth)
        at = snapshot.plan.route(name, query.keys.hashes)
        assert query.keys.owner.tolist() == at.tolist()
        for slot, report in enumerate(reports):
            task = local.processes[0].states[slot].tasks[uid].task
            hashes, sizes = task.key_bytes()
            mine = report.key_counts[uid]
            exact = dict(zip(hashes.tolist(), sizes.tolist(), strict=True))
            for key, size in zip(mine.hashes.tolist(), mine.state_bytes.tolist(), strict=True):
                assert abs(size - exact.get(key, 0)) <= len(exact) + 8  # rounded run by run
        cost = np.bincount(query.keys.owner, query.keys.cost, 3) + query.keys.rest_cost
        assert np.allclose(cost, query.load)


class Nothing:
    """A task that keeps nothing."""

    state_bytes = 0

    def key_rows_and_bytes(self, keys: Any) -> Any:
        """Neither rows nor bytes."""
        return np.zeros((2, len(keys)), dtype=np.int64)

    def grouped_row_counts(self, rows: int) -> None:
        """Nothing is grouped."""


def test_keys_of_any_type_over_several_streams_have_names() -> None:
    """Composite ones, bytes, numbers, NULL, long ones cut short; one without rows has none."""
    left = pa.table({"a": [b"x", b"y", None], "b": [1, 2, 3]}).cast(
        pa.schema([("a", pa.binary()), ("b", pa.int64())])
    )
    right = pa.chunked_array([pa.array([b"x"]), pa.array([b"z" * 200])])
    rows = {"one": left, "two": pa.table({"k": right, "n": [1, None]})}
    keys: Any = {"one": ("a", "b"), "two": ("k", "n")}
    listed = hash_keys(pa.array([b"nobody"]), pa.array([7]))
    counts = key_counts.count_keys("stateless", rows, keys, Nothing(), 4, listed)  # type: ignore[arg-type]
    told = dict(zip(counts.names.to_pylist(), counts.rows_in.tolist(), strict=True))
    assert told == {"x, 1": 2, "y, 2": 1, "NULL, 3": 1, "z" * 100: 1, "": 0}
    (back,) = decode_key_counts(encode_key_counts({"q": counts})).values()
    assert back.names.equals(counts.names)
    assert counts.stream_rows.tolist() == [[1, 1], [1, 0], [1, 0], [0, 1], [0, 0]]
    for name in ("hashes", "rows_in", "produced", "state_bytes", "stream_rows"):
        assert getattr(back, name).tolist() == getattr(counts, name).tolist()


@pytest.mark.parametrize(
    ("window", "where", "grouped"),
    [
        ("'10 seconds'", "", True),
        ("'10 seconds', '5 seconds'", "", True),
        ("'10 seconds'", "WHERE qty > 3", False),
    ],
)
def test_rows_that_an_aggregate_has_grouped_are_counted_by_its_groups(
    tmp_path: Path, window: str, where: str, grouped: bool
) -> None:
    """Late rows too; but all of them by themselves where a condition leaves some out."""
    sql = f"""SELECT window.start AS s, symbol, qty, count(*) AS n FROM trades {where}
        GROUP BY window(ts, {window}), symbol, qty"""
    local = Local(tmp_path, STREAMS, [Submission("query", "counts", sql, ("symbol",))], workers=2)
    rows = trades(np.random.default_rng(3), 600, span_s=60)
    uid = local.committer.commands.next_registry_and_plan()[0].queries["counts"].uid
    late = shifted(rows.slice(0, 50), -300)
    for part in (rows.slice(0, 300), rows.slice(300), pa.concat_tables([rows.slice(550), late])):
        reports = local.batch({"trades": part})
        truth = Counter("NULL" if s is None else s for s in part["symbol"].to_pylist())
        found: Counter[str] = Counter()
        for slot, report in enumerate(reports):
            counts = report.key_counts[uid]
            found.update(dict(zip(counts.names.to_pylist(), counts.rows_in.tolist(), strict=True)))
            task = local.processes[0].states[slot].tasks[uid].task
            known = task.grouped_row_counts(report.query_stats[uid].rows_in)
            assert (known is not None) == grouped
        assert found == truth


def test_a_self_join_is_priced_by_the_pairs_of_each_key_and_nothing_else(tmp_path: Path) -> None:
    """Whatever its time condition lets match, and whatever other keys are beside it."""
    local = Local(tmp_path, STREAMS, [one for one in KEYED if one.name == "pairs"], workers=2)
    rows = trades(np.random.default_rng(3), 400, span_s=60)
    uid = local.committer.commands.next_registry_and_plan()[0].queries["pairs"].uid
    for part in (rows.slice(0, 200), rows.slice(200)):
        reports = local.batch({"trades": part})
    for slot, report in enumerate(reports):
        counts = report.key_counts[uid]
        kept, _ = local.processes[0].states[slot].tasks[uid].task.key_rows_and_bytes(counts.hashes)
        assert kept.sum() > 0
        assert counts.produced.tolist() == (counts.rows_in * kept / 2).tolist(), "both sides"
        assert (
            report.query_stats[uid].produced
            == counts.produced.sum()
            > report.query_stats[uid].rows_out
        )


def test_results_of_a_join_of_two_streams_are_dealt_by_pairs() -> None:
    rows_in, kept = np.array([10, 10, 0]), np.array([300.0, 100.0, 0.0])
    one, two = (
        key_counts._estimate_produced("join", streams, rows_in, kept, 80) for streams in (1, 2)
    )
    assert one.tolist() == [300.0, 100.0, 0.0]
    assert two.tolist() == [60.0, 20.0, 0.0]
    assert (
        key_counts._estimate_produced("join_aggregate", 2, rows_in, kept, 80).tolist()
        == one.tolist()
    )


def test_a_query_that_becomes_keyed_is_fitted_anew(tmp_path: Path) -> None:
    """What it makes is counted by key from then on, and that may be something else."""
    local = Local(tmp_path, STREAMS, [one for one in SUBMISSIONS if one.name == "lows"], workers=3)
    rows, memory, batches = trades(np.random.default_rng(3), 100, span_s=1), ObserverState(), []
    for plan in (Plan(3, {"lows": 0}), Plan(3, {"lows": 1}), Plan(3, {}, {"lows": RoutingTable()})):
        local.committer.commands.request_plan(plan)
        local.rest()
        local.batch({"trades": rows})
        _, memory = observe(local.committer.completed_batches[-1], memory)
        batches.append(int(memory.cost_model.batches[0]))
    assert batches == [1, 2, 1]


def test_a_key_with_an_entry_is_told_even_without_rows(tmp_path: Path) -> None:
    hashes = hash_keys(pa.array(["a", "nobody"], pa.string()))
    local = flow(tmp_path, {"sums": RoutingTable.from_entries(hashes, [2, 2])})
    rows = trades(np.random.default_rng(3), 200, span_s=1)
    memory = ObserverState()
    is_a = pa.array([s == "a" for s in rows["symbol"].to_pylist()])
    for part in (rows, rows.filter(pa.compute.invert(is_a))):
        local.batch({"trades": part})
        snapshot, memory = observe(local.committer.completed_batches[-1], memory)
    keys = snapshot.queries["sums"].keys
    assert keys is not None
    found = dict(zip(keys.names, zip(keys.cost, keys.state_bytes, strict=True), strict=True))
    assert found["a"][0] == 0.0
    assert found["a"][1] > 0.0
    assert found[f"#{int(hashes[1]):016x}"] == (0.0, 0.0)


def test_hot_keys_are_those_of_the_last_batch_with_rows(tmp_path: Path) -> None:
    local, balancer = flow(tmp_path), Balancer(Balancing.off())
    rows = trades(np.random.default_rng(3), 200, span_s=1)
    for part in (rows, shifted(rows.slice(0, 1), 3600), rows.slice(0, 0)):
        local.batch({"trades": part})
        balancer.observe(local.committer.completed_batches[-1])
    last = balancer.snapshots[-1].queries["sums"].keys
    assert last is not None, "a batch without rows that closes windows is measured too"
    assert not last.cost.any()
    (hot,) = hot_keys(tuple(balancer.snapshots), "sums", 5)
    assert hot.name == rows["symbol"][0].as_py()
    assert hot.share == 1.0


def test_hot_keys_of_a_small_stream_have_their_share(tmp_path: Path) -> None:
    """So few rows that what is fixed takes all the time."""
    local, balancer = flow(tmp_path), Balancer(Balancing.off())
    symbols = pa.array(["hot"] * 30 + ["a", "b", "c"] * 5)
    rows = trades(np.random.default_rng(3), len(symbols), span_s=1)
    rows = rows.set_column(rows.schema.get_field_index("symbol"), "symbol", symbols)
    for at in range(6):
        local.batch({"trades": shifted(rows, at)})
        balancer.observe(local.committer.completed_batches[-1])
        first, *others = hot_keys(tuple(balancer.snapshots), "sums", 5)
        assert (first.name, len(others)) == ("hot", 3)
        assert 0.4 < first.share <= 30 / 45 + 1e-9


def test_no_row_is_free() -> None:
    """Neither where noise hides what rows cost nor for rows that only come in."""
    stepped = np.ones((1, 4), dtype=bool)
    rows, made = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[0.0, 4.0, 1.0, 0.0]])
    for seconds in (5.0 - rows, 1.0 + made - 0.1 * rows):
        fits = CostModel().for_queries(("q",)).update(rows, made, seconds, stepped)
        fixed, per_row, per_made = fits.weights()[0]
        assert per_row == pytest.approx(0.01 * seconds.sum() / rows.sum())
        assert fixed * 4 + per_made * made.sum() == pytest.approx(0.99 * seconds.sum(), rel=0.2)
    seconds = 1.0 + made
    fixed, per_row, per_made = (
        CostModel().for_queries(("q",)).update(rows, made, seconds, stepped).weights()[0]
    )
    assert per_row >= 0.01 * seconds.sum() / rows.sum()
    assert fixed * 4 + per_made * made.sum() == pytest.approx(0.99 * seconds.sum(), rel=0.2)


def test_many_keys_are_merged_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_counts, "MAX_LISTED_KEYS", 1)
    local = flow(tmp_path)
    rows = trades(np.random.default_rng(3), 300, span_s=30)
    reports = local.batch({"trades": rows})
    snapshot, _ = observe(local.committer.completed_batches[-1], ObserverState())
    for query in snapshot.queries.values():
        assert query.keys is not None
        assert np.bincount(query.keys.owner, minlength=3).max() == 1
        assert len(query.keys.hashes) + query.keys.rest_keys.sum() == 6
        cost = np.bincount(query.keys.owner, query.keys.cost, 3) + query.keys.rest_cost
        assert np.allclose(cost, query.load)
        state = (
            np.bincount(query.keys.owner, query.keys.state_bytes, 3) + query.keys.rest_state_bytes
        )
        assert np.allclose(state, query.state_bytes)
    for report in reports:
        for uid, counts in report.key_counts.items():
            rows_in = counts.rows_in.sum() + counts.rest_rows_in
            assert rows_in == report.query_stats[uid].rows_in


def test_the_cost_of_rows_is_found_through_noise() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.004, 2e-6, 5e-7])
    fits = CostModel().for_queries(("cold", "q"))
    for batch in range(12):
        rows_in = rng.integers(1_000, 60_000, (2, 8)).astype(float)
        made = rows_in * rng.uniform(0.5, 9, (2, 8))
        seconds = truth[0] + truth[1] * rows_in + truth[2] * made
        seconds *= rng.uniform(0.95, 1.05, (2, 8))
        seconds[0] += 3.0 if batch == 0 else 0.0  # what is loaded and compiled once
        fits = fits.update(rows_in, made, seconds, np.ones((2, 8), dtype=bool))
    for found in fits.weights():
        assert np.allclose(found, truth, rtol=0.25)
        predicted = found[0] + found[1] * rows_in[1] + found[2] * made[1]
        assert np.abs(predicted / seconds[1] - 1).max() < 0.08


def test_what_is_made_from_some_batch_on_does_not_hide_what_rows_cost() -> None:
    """As with windows: nothing is made until the first one ends, and results cost nothing here."""
    rng = np.random.default_rng(1)
    fits, stepped = CostModel().for_queries(("q",)), np.ones((1, 8), dtype=bool)
    for batch in range(8):
        rows_in = rng.normal(5000, 500, (1, 8))
        made = rng.normal(3500, 50, (1, 8)) * (batch >= 2)
        seconds = 1e-4 * rows_in * rng.normal(1, 0.01, (1, 8))
        fits = fits.update(rows_in, made, seconds, stepped)
        fixed, per_row, per_made = fits.weights()[0]
        load = fixed + per_row * rows_in + per_made * made
        assert np.abs(load / seconds - 1).max() < 0.05, batch


def test_what_cannot_be_told_apart_costs_the_same() -> None:
    rows_in = np.full((1, 4), 1000.0)
    fits = (
        CostModel()
        .for_queries(("q",))
        .update(rows_in, rows_in, rows_in * 2e-3, np.ones((1, 4), dtype=bool))
    )
    assert np.allclose(fits.weights(), [[0.0, 1e-3, 1e-3]])


def test_a_query_that_had_nothing_to_do_keeps_its_state(tmp_path: Path) -> None:
    whole = [one for one in SUBMISSIONS if one.name == "wide"]
    local = Local(tmp_path, STREAMS, whole, workers=2)
    local.batch({"trades": trades(np.random.default_rng(3), 50, span_s=1)})
    before, memory = observe(local.committer.completed_batches[-1], ObserverState())
    moved = Plan(2, {"wide": 1 - before.plan.placement["wide"]})
    idle = replace(
        local.committer.completed_batches[-1], number=1, reports=(), plan=moved, next_plan=moved
    )
    after, _ = observe(idle, memory)
    was, is_ = before.queries["wide"], after.queries["wide"]
    assert was.state_bytes.sum() > 0
    assert is_.state_bytes.tolist() == was.state_bytes[::-1].tolist()
    assert is_.load.sum() == 0.0


def test_traffic_is_compared_with_queries_dealt_out_in_turn() -> None:
    def query(*streams: str) -> QueryLoad:
        return QueryLoad(streams, *(np.zeros(2) for _ in range(5)))  # type: ignore[arg-type]

    queries = {"a": query("s"), "b": query("t"), "c": query("s"), "d": query("s"), "k": query("s")}
    placement = {"a": 0, "b": 1, "c": 0, "d": 0}
    plan = Plan(2, placement, {"k": RoutingTable()})
    shipped = {"s": np.array([100.0, 40.0]), "t": np.array([0.0, 10.0])}
    snapshot = Snapshot(0, 0.0, 2.0, plan, plan, queries=queries, shipped_bytes=shipped)
    assert stream_bytes(snapshot) == {"s": 100.0, "t": 10.0}
    # a and c on worker 0, b and d on worker 1: s goes to both.
    assert round_robin_bytes(snapshot) == 210.0


def test_emulated_cost_counts_as_work() -> None:
    report = Report(
        0, query_stats={"a@1": QueryStats(work_rows=20), "b@2": QueryStats(work_rows=5)}
    )
    emulate_cost(report, 1e-4)
    assert report.query_stats["a@1"].cpu_seconds == pytest.approx(2e-3)
    assert report.cpu_seconds == pytest.approx(2.5e-3)
    with pytest.raises(InputError, match="got -1"):
        MeasureOptions(emulated_seconds_per_row=-1)


def test_what_compiling_takes_is_no_load_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = SqlRuntime.open_task

    def slow(*given: Any) -> Any:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return really(*given)

    monkeypatch.setattr(SqlRuntime, "open_task", slow)
    local = flow(tmp_path)
    reports = local.batch({"trades": trades(np.random.default_rng(3), 50, span_s=1)})
    told = [stats.cpu_seconds for report in reports for stats in report.query_stats.values()]
    assert told
    assert max(told) < 0.2
    assert sum(report.cpu_seconds for report in reports) > 0.2, "the worker did spend it"


def test_a_batch_in_which_no_worker_had_work_is_idle(tmp_path: Path) -> None:
    local, memory = flow(tmp_path), ObserverState()
    found = []
    for rows in ({"trades": trades(np.random.default_rng(3), 50, span_s=1)}, {}):
        local.batch(rows)
        snapshot, memory = observe(local.committer.completed_batches[-1], memory)
        found.append(snapshot.idle)
    assert found == [False, True]


def test_a_planner_on_the_side_that_fails_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Plan:
        raise ZeroDivisionError("no workers")

    monkeypatch.setattr("evenflow.spark.driver.balancer.plan_traffic_repair", broken)
    local, balancer = flow(tmp_path), Balancer(Balancing(keys="off", repair="repair"))
    rows = trades(np.random.default_rng(3), 90, span_s=9)
    told: list[str] = []
    for at in range(30):
        local.batch({"trades": rows.slice(at * 3, 3)})
        done = local.committer.completed_batches[-1]
        balancer.observe(done)
        balancer.record(balancer.propose(done), done)
        told += [verdict.message for verdict in balancer.decisions[-1].verdicts]
        if told:
            break
        time.sleep(0.01)
    assert told == ["ZeroDivisionError: no workers"]
