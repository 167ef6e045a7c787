"""Update mode: of each result the last version is the batch answer, whatever moves or restarts."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.support.sql_cases import SLIDING, TUMBLING
from tests.support.sql_oracle import CATALOG, Cluster, Rows, batch_answer, made, same

from evenflow.sql import Engine, compile_query

COUNTS = "symbol, venue, count(*) AS n, sum(qty) AS q, max(price) AS p"
GROUPS = "SELECT /*+ UPDATE_MODE, TTL('{ttl} seconds') */ {what} FROM trades GROUP BY symbol, venue"
LAST_LIFE = """SELECT {what} FROM (SELECT *, sum(jump) OVER w AS life FROM (SELECT *,
CASE WHEN ts - lag(ts) OVER w <= INTERVAL {ttl} SECONDS THEN 0 ELSE 1 END AS jump FROM trades
WINDOW w AS (PARTITION BY symbol, venue ORDER BY ts)) WINDOW w AS (PARTITION BY symbol, venue
ORDER BY ts)) GROUP BY symbol, venue, life
QUALIFY row_number() OVER (PARTITION BY symbol, venue ORDER BY life DESC) = 1"""
CASES = {
    "tumbling": (
        "SELECT /*+ UPDATE_MODE */ window.start AS s, symbol, count(*) AS n, avg(price) AS p "
        "FROM trades GROUP BY window(ts, '10 seconds'), symbol",
        f"SELECT {TUMBLING} AS s, symbol, count(*), avg(price) FROM trades GROUP BY ALL",
    ),
    "sliding": (
        "SELECT /*+ UPDATE_MODE */ window.end AS e, venue, sum(qty) AS q "
        "FROM trades GROUP BY window(ts, '10 seconds', '5 seconds'), venue",
        f"SELECT w + INTERVAL 10 SECONDS AS e, venue, sum(qty) FROM {SLIDING} GROUP BY ALL",
    ),
    "groups": (
        GROUPS.format(ttl=3600, what=COUNTS),
        f"SELECT {COUNTS} FROM trades GROUP BY ALL",
    ),
    "groups that are forgotten": (
        GROUPS.format(ttl=4, what="symbol, venue, count(*) AS n, sum(qty) AS q"),
        LAST_LIFE.format(ttl=4, what="symbol, venue, count(*) AS n, sum(qty) AS q"),
    ),
    "one group": (
        "SELECT /*+ UPDATE_MODE, TTL('1 hour') */ count(*) AS n, sum(qty) AS q FROM trades",
        "SELECT count(*), sum(qty) FROM trades",
    ),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    shared = Engine()
    yield shared
    shared.close()


def last_versions(results: pa.Table, key: tuple[str, ...]) -> pa.Table:
    latest: dict[tuple[object, ...], dict[str, object]] = {}
    for row in results.to_pylist():
        identity = tuple(row[name] for name in key)
        before = latest.get(identity)
        assert before is None or before["version"] < row["version"], "two results of one version"
        latest[identity] = row
    plain = [name for name in results.column_names if name not in ("version", "is_final")]
    return pa.Table.from_pylist(list(latest.values()), schema=results.schema).select(plain)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_last_versions_are_the_batch_answer(engine: Engine, case: str, seed: int) -> None:
    sql, batch_sql = CASES[case]
    program = compile_query("q", sql, CATALOG)
    assert program.upsert_key is not None
    given: Rows = made(np.random.default_rng(seed), 60 + 300 * seed, 3 + 10 * seed, 200)
    cluster = Cluster(program, engine, np.random.default_rng(seed))
    results = cluster.run(given)
    assert cluster.late == 0
    same(last_versions(results, program.upsert_key), batch_answer(batch_sql, given))
    finals = [row for row in results.to_pylist() if row.get("is_final")]
    assert len(finals) == (len(set(map(str, finals))) if "is_final" in results.column_names else 0)


def test_early_results_come_with_the_rows_and_final_ones_with_the_watermark(
    engine: Engine,
) -> None:
    sql, _ = CASES["tumbling"]
    program = compile_query("q", sql, CATALOG)
    given = made(np.random.default_rng(1), 30, 1, 5)
    task = program.open(engine, {})
    early = task.step(given.batches[0], -(1 << 60)).rows
    task.batch = 7
    assert not any(early["is_final"].to_pylist()), "the watermark has not passed a window"
    assert len(task.step({}, -(1 << 60)).rows) == 0, "nothing changed"
    final = task.step({}, 1 << 60).rows
    assert all(final["is_final"].to_pylist())
    assert set(final["version"].to_pylist()) == {7}
    assert sorted(map(str, early["n"].to_pylist())) == sorted(map(str, final["n"].to_pylist()))


def test_forgotten_groups_take_no_memory(engine: Engine) -> None:
    sql, _ = CASES["groups that are forgotten"]
    program = compile_query("q", sql, CATALOG)
    given = made(np.random.default_rng(1), 200, 1, 40)
    task = program.open(engine, {})
    task.step(given.batches[0], -(1 << 60))
    assert task.state_bytes > 0
    assert task.next_due_us is not None
    task.step({}, 1 << 60)
    assert task.state_bytes == 0
    assert task.next_due_us is None, "nothing is left to forget"


def test_late_rows_are_what_the_watermark_and_a_window_leave_behind(engine: Engine) -> None:
    given = made(np.random.default_rng(1), 100, 1, 40)
    rows = given.batches[0]["trades"]
    times = rows["ts"].cast(pa.int64()).to_numpy()
    watermark = int(np.median(times))
    for hint, late in (
        ("LATE_ROWS", times < watermark),
        ("LATE_ROWS('10 seconds')", times - times % 10_000_000 + 10_000_000 <= watermark),
    ):
        program = compile_query("q", f"SELECT /*+ {hint} */ ts, qty FROM trades", CATALOG)
        got = program.open(engine, {}).step(given.batches[0], watermark).rows
        assert got.equals(rows.filter(pa.array(late)).select(["ts", "qty"]).cast(got.schema))
        assert 0 < len(got) < len(rows)
