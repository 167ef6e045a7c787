"""The public API on Spark: refusals, live changes, restarts, routing as the planners do."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.support.functions import doubled
from tests.support.operators import Counter, Total
from tests.support.poll import until
from tests.support.spark_harness import Play, rows_of, shifted, trades, write_batches

import evenflow
from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.spark.driver.checkpoint import check_compatible
from evenflow.storage.file_store import FileStore

DEAR = "SELECT ts, symbol, price FROM trades WHERE price > 50"


@pytest.fixture
def play(spark: SparkSession, tmp_path: Path) -> Play:
    write_batches(tmp_path / "trades", [trades(np.random.default_rng(1), 20)])
    return Play(spark, tmp_path, workers=2)


Declare = Callable[[evenflow.Flow, SparkSession], Any]
REFUSED: list[tuple[str, Declare, str]] = [
    (
        "static source",
        lambda f, s: f.source("x", s.range(1), time="id", watermark="1 second"),
        "use table",
    ),
    (
        "streaming table",
        lambda f, s: f.table("x", s.readStream.format("rate").load()),
        "use source",
    ),
    (
        "time column",
        lambda f, s: f.source(
            "x", s.readStream.format("rate").load(), time="value", watermark="1 second"
        ),
        "TIMESTAMP column",
    ),
    (
        "watermark",
        lambda f, s: f.source(
            "x", s.readStream.format("rate").load(), time="timestamp", watermark="soon"
        ),
        "not a duration",
    ),
    (
        "unit",
        lambda f, s: f.source(
            "x", s.readStream.format("rate").load(), time="timestamp", watermark="1 moon"
        ),
        "unit 'moon'",
    ),
    ("taken", lambda f, s: f.query("trades", DEAR), "'trades' is already used"),
    ("bad name", lambda f, s: f.query("a b", DEAR), "cannot name"),
    ("unknown stream", lambda f, s: f.query("q", "SELECT * FROM nothing"), "nothing"),
    ("loop", lambda f, s: f.query("q", "SELECT ts FROM q", publish=True), "q"),
    (
        "unbounded",
        lambda f, s: f.query("q", "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol"),
        "window",
    ),
    (
        "no time",
        lambda f, s: f.query("q", "SELECT symbol FROM trades", publish=True),
        "event-time column",
    ),
    ("wrong key", lambda f, s: f.query("q", DEAR, key="nothing"), "nothing"),
    ("empty key", lambda f, s: f.query("q", DEAR, key=[]), "at least one column"),
    ("no worker", lambda f, s: f.query("q", DEAR, worker=7), "worker=7"),
    (
        "keyed and pinned",
        lambda f, s: f.query("q", DEAR, key="symbol", worker=0),
        "remove `worker`",
    ),
    ("not a template", lambda f, s: f.subscribe("nothing", []), "no template 'nothing'"),
    ("trigger", lambda f, s: f.start("often"), "not a duration"),
]


@pytest.mark.parametrize(("declare", "said"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_be_is_refused_with_a_reason(
    spark: SparkSession, play: Play, declare: Declare, said: str
) -> None:
    with pytest.raises(InputError, match=said) as refusal:
        declare(play.flow(), spark)
    assert "\n" not in str(refusal.value)


def test_subscriptions_are_checked(play: Play) -> None:
    flow = play.flow()
    flow.query("dear", DEAR)
    flow.template("limit", "SELECT ts FROM trades WHERE symbol = :symbol AND price > :limit")
    for rows, said in (
        ({"subscription": "a", "symbol": "a"}, "lacks limit"),
        ([{"subscription": None, "symbol": "a", "limit": 1.0}], "no name"),
        ([{"subscription": "a", "symbol": "a", "limit": 1.0}] * 2, "one name"),
        ([{"subscription": "a", "symbol": "a", "limit": "much"}], "wrong type"),
    ):
        with pytest.raises(InputError, match=said):
            flow.subscribe("limit", rows)
    with pytest.raises(InputError, match="not a template"):
        flow.subscribe("dear", [])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"format": 1, "workers": 8, "state_format": 2}, "has 8 workers, not 4.*workers=8"),
        ({"format": 1, "workers": 4, "state_format": 1}, "state of format 1; this .* 2: use the"),
        ({"format": 0, "workers": 4, "state_format": 2}, "has format 0"),
        (
            {"format": 2, "workers": 4, "state_format": 2},
            r"pip install 'evenflow==0\.1\.\*'\) and run it to the end",
        ),
    ],
)
def test_a_checkpoint_of_another_set_up_is_refused(found: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_compatible(found, {"format": 1, "workers": 4, "state_format": 2}, "file:///x")


def test_a_restart_goes_on_and_checks_what_is_declared(play: Play) -> None:
    flow = play.flow()
    flow.query("dear", DEAR)
    first = rows_of(play.run(flow).results("dear"))
    more = trades(np.random.default_rng(2), 20)
    write_batches(play.folder / "trades", [more], first=1)
    play.checkpoint = (play.folder / "checkpoint").as_uri()  # the same place, as a URI
    again = play.flow()
    again.query("dear", DEAR)
    run = play.run(again)
    expensive = sum(price > 50 for price in more["price"].to_pylist())
    assert rows_of(run.results("dear")).total() == first.total() + expensive

    other = play.flow()
    other.query("dear", DEAR + " AND qty > 0")
    with pytest.raises(InputError, match="exists in the checkpoint with a different definition"):
        other.start(available_now=True)
    fewer = Play(play.spark, play.folder, workers=3).flow()
    with pytest.raises(InputError, match="has 2 workers, not 3"):
        fewer.start(available_now=True)
    store = FileStore(play.checkpoint)
    assert store.local_root is not None
    shutil.rmtree(store.local_root / "spark")  # a working copy: the ledger has what Spark needs
    assert rows_of(play.run(again).results("dear")).total() == first.total() + expensive
    entry = sorted(store.list_names("ledger"))[-1]
    path = store.local_root / "ledger" / entry
    path.write_bytes(path.read_bytes().replace(b'"batch"', b'"bitch"'))
    with pytest.raises(InputError, match="checksum does not match"):
        again.start(available_now=True)


def test_what_a_driver_left_that_died_at_its_first_offsets_is_in_nobodys_way(play: Play) -> None:
    left = play.folder / "checkpoint/spark/offsets"
    left.mkdir(parents=True)
    (left / ".0.fd5eb9e6.tmp").write_text("v1")
    flow = play.flow()
    flow.query("dear", DEAR)
    assert rows_of(play.run(flow).results("dear"))


def test_queries_come_and_go_while_it_runs(play: Play) -> None:
    flow = play.flow()
    flow.query("dear", DEAR)
    templates = {"limit": None, "spread": "symbol"}
    for name, key in templates.items():
        flow.template(name, "SELECT ts, price FROM trades WHERE symbol = :symbol", key=key)
        flow.subscribe(name, {"subscription": "all a", "symbol": "a"})
    run = flow.start(trigger="100 milliseconds")
    hashes = hash_keys(pa.array(["a", "b"]))
    try:
        until(lambda: run.watermarks.get("trades") is not None, run)
        with pytest.raises(InputError, match="in use by another run"):
            play.flow().start()
        run.submit("cheap", "SELECT ts, symbol FROM trades WHERE price <= 50", key="symbol")
        for name in templates:
            run.subscribe(name, [{"subscription": "all b", "symbol": "b"}])
        run.submit("bad", "SELECT ts, CAST(symbol AS INT) AS x FROM trades", worker=1)
        run.cancel("dear")
        until(lambda: "cheap" in run.queries and "dear" not in run.queries, run)
        before = run.plan
        other = 1 - before.placement["limit"]
        table = RoutingTable.from_entries(hashes, 1 - before.route("spread", hashes))
        run.apply(Plan(2, {"limit": other}, {"cheap": table, "spread": table}))
        until(lambda: run.plan.placement["limit"] == other, run)
        assert (run.plan.route("spread", hashes) != before.route("spread", hashes)).all()
        more = trades(np.random.default_rng(2), 40)
        write_batches(play.folder / "trades", [more], first=1)
        until(lambda: run.results("cheap").count() > 0 and "bad" in run.quarantined, run)
    finally:
        run.stop()
    rows = more.to_pylist()
    assert run.results("cheap").count() == sum(row["price"] <= 50 for row in rows)
    # "all a" was there from the first batch on, "all b" only for the second.
    first = trades(np.random.default_rng(1), 20).to_pylist()
    for name in templates:
        assert rows_of(run.results(name).groupBy("subscription").count()) == {
            ("all a", sum(row["symbol"] == "a" for row in (*first, *rows))): 1,
            ("all b", sum(row["symbol"] == "b" for row in rows)): 1,
        }, name
    assert "not a whole number" in run.quarantined["bad"]
    assert run.results("dear").count() == sum(row["price"] > 50 for row in first)
    with pytest.raises(InputError, match="no query 'nothing'; there are bad, cheap, dear, limit"):
        run.results("nothing")


def test_python_operators_keep_their_state_when_a_plan_moves_them(play: Play) -> None:
    """Hosted from the start and submitted live, whole and keyed: counts go on where they were."""
    flow = play.flow()
    flow.operator("total", Total, "trades")
    flow.operator("counts", Counter, "trades", key="symbol")
    flow.function("doubled", doubled, returns="DOUBLE")
    flow.query("twice", "SELECT ts, symbol, doubled(qty) AS d FROM trades", key="symbol")
    run = flow.start(trigger="100 milliseconds")
    given = [trades(np.random.default_rng(1), 20)]
    hashes = hash_keys(pa.array([None, "a", "b", "c", "d", "e'"]))

    def move(owner: int) -> None:
        table = RoutingTable.from_entries(hashes, [owner] * len(hashes))
        run.apply(Plan(2, {"total": owner}, {"counts": table, "later": table}))
        until(lambda: run.plan.placement["total"] == owner, run)
        given.append(shifted(trades(np.random.default_rng(owner), 15), 100 * len(given)))
        write_batches(play.folder / "trades", given[-1:], first=len(given) - 1)
        until(lambda: run.results("total").count() == len(given), run)

    try:
        until(lambda: run.results("total").count() == 1, run)
        run.submit_operator("later", Counter, ["trades"], key="symbol")
        until(lambda: "later" in run.queries, run)
        for owner in (1, 0, 1):
            move(owner)
    finally:
        run.stop()
    assert (dict(run.quarantined), dict(run.late)) == ({}, {})
    assert rows_of(run.results("total")) == {(20,): 1, (35,): 1, (50,): 1, (65,): 1}
    wanted = 2.0 * pc.sum(pa.concat_tables(given)["qty"]).as_py()
    assert run.results("twice").agg(F.sum("d")).collect() == [(wanted,)]
    for name, seen in (("counts", given), ("later", given[1:])):
        symbols = pa.concat_tables(seen)["symbol"].to_pylist()
        last = rows_of(run.results(name).groupBy("symbol").agg(F.max("n")))
        assert last == {(symbol, symbols.count(symbol)): 1 for symbol in set(symbols)}, name


def test_spark_hashes_and_routes_as_the_planners_do(spark: SparkSession) -> None:
    texts = pa.array(["IBM", "", "ä" * 40, None, "x" * 33])
    numbers = pa.array([7, -1, 2**62, 0, None], pa.int64())
    frame = spark.createDataFrame(pa.table({"t": texts, "n": numbers})).coalesce(1)
    found = frame.select(F.xxhash64("t"), F.xxhash64("n"), F.xxhash64("t", "n")).collect()
    for at, columns in enumerate([(texts,), (numbers,), (texts, numbers)]):
        assert [row[at] for row in found] == hash_keys(*columns).astype(np.int64).tolist()
    table = RoutingTable.from_entries(hash_keys(texts)[:2], [4, 4])

    def route(batches: Any) -> Any:
        for batch in batches:
            routed = table.route(hash_keys(batch.column(0)), 5)
            yield pa.RecordBatch.from_arrays([pa.array(routed)], names=["worker"])

    there = [row.worker for row in frame.select("t").mapInArrow(route, "worker int").collect()]
    assert there == table.route(hash_keys(texts), 5).tolist()


@pytest.mark.parametrize(
    ("setting", "value", "advice"),
    [
        ("spark.sql.session.timeZone", "Europe/Rome", 'timeZone", "UTC"'),
        ("spark.sql.ansi.enabled", "false", 'enabled", "true"'),
        ("spark.sql.chunkBase64String.enabled", "false", 'chunkBase64String.enabled", "true"'),
    ],
)
def test_a_session_that_would_answer_otherwise_is_refused(
    play: Play, spark: SparkSession, setting: str, value: str, advice: str
) -> None:
    flow = play.flow()
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, value)
    try:
        with pytest.raises(InputError, match=advice):
            flow.start(available_now=True)
    finally:
        spark.conf.set(setting, before)
