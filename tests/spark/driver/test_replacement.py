"""A query that is replaced gives each result once: from its old definition or from the new one."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import SUBMISSIONS, any_plan, hosting_all, last_row

from evenflow.errors import InputError
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.replacement import ReplaceQuery, next_name
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.stored_results import StoredResults

BATCHES = 11
DECLARED = {submission.name: submission for submission in SUBMISSIONS}
SAME_STATE = {
    "sums": """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) + 0 AS q
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
    "dear": "SELECT ts, symbol, abs(price) AS price FROM trades WHERE price > 50",
    "lows": """SELECT window.start AS s, symbol, abs(min(price)) AS low
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
    "alarms": """SELECT window.start AS s, upper(symbol) AS symbol, count(*) AS n
        FROM trades WHERE symbol = :symbol AND price > :limit
        GROUP BY window(ts, '10 seconds'), symbol""",
}
OTHER_STATE = {
    "pairs": """SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.qty, b.price
        FROM trades a JOIN trades b ON a.symbol = b.symbol
        AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS""",
    "wide": """SELECT window.start AS s, count(*) AS n, max(price) AS top
        FROM trades GROUP BY window(ts, '20 seconds', '10 seconds')""",
    "busy": "SELECT s, upper(symbol) AS symbol, n FROM sums WHERE n > 2",
}


def new_definition(name: str, sql: str) -> ReplaceQuery:
    old = DECLARED[name]
    return ReplaceQuery(Submission(old.form, name, sql, old.key, old.publish))


def run(
    local: Local, batches: list[pa.Table], chance: random.Random, replaced: dict[str, str]
) -> None:
    """Run batches; replace queries on the way, with moves and restarts between."""
    when = {name: chance.randrange(1, 4) + 4 * (name in SAME_STATE) for name in replaced}
    for number, rows in enumerate(batches):
        for name in [name for name in replaced if when[name] == number]:
            local.committer.commands.submit(new_definition(name, replaced[name]))
        if replaced and chance.random() < 0.3:
            with suppress(InputError):  # it drains a worker that a replacement is placed on
                local.committer.commands.request_plan(any_plan(chance, local.workers))
        if replaced and chance.random() < 0.15:
            local.reopen()
            local.committer.leave_out([], safe=False)
        local.batch({"trades": rows})
    local.rest()


def common_rows(local: Local, name: str) -> Counter[Any]:
    """The results of all definitions of a query, in the columns of the first."""
    versions = StoredResults(local.store).versions(name)
    uids = dict.fromkeys(uid for q in versions for uid in (*q.continues, q.uid))
    tables = [table for uid in uids for table in local.tables("results", uid)]
    rows = pa.concat_tables(table.select(versions[0].schema.names) for table in tables)
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("seed", range(2))
def test_each_result_comes_from_one_definition(seed: int, tmp_path: Path) -> None:
    rng, chance = np.random.default_rng(seed), random.Random(seed)  # noqa: S311
    batches = [*cut(rng, trades(rng, 500), BATCHES), last_row()]
    twin, local = hosting_all(tmp_path / "twin"), hosting_all(tmp_path / "run", chance=chance)
    run(twin, batches, chance, {})
    run(local, batches, chance, SAME_STATE | OTHER_STATE)
    queries = local.committer.checkpoint.registry().queries
    assert queries.keys() == DECLARED.keys(), "a replacement waits still"
    assert not local.committer.checkpoint.head().quarantined
    both = 0
    for name, sql in (SAME_STATE | OTHER_STATE).items():
        assert queries[name].text == sql
        found, expected = common_rows(local, name), twin.results(name)
        if name in ("alarms", "busy"):  # the new definition says it in upper case
            found, expected = upper(found), upper(expected)
        assert found == expected, name
        new_rows = sum(map(len, local.tables("results", queries[name].uid)))
        both += 0 < new_rows < expected.total()
    assert both >= 4, "few queries have results of both definitions"


def upper(rows: Counter[Any]) -> Counter[Any]:
    changed: Counter[Any] = Counter()
    for row, count in rows.items():
        changed[tuple(v.upper() if isinstance(v, str) else v for v in row)] += count
    return changed


def test_what_cannot_be_replaced_is_refused(tmp_path: Path) -> None:
    local = hosting_all(tmp_path)
    submit = local.committer.commands.submit
    with pytest.raises(InputError, match="there is no query 'none'"):
        submit(ReplaceQuery(Submission("query", "none", "SELECT ts FROM trades")))
    with pytest.raises(InputError, match="'sums' is published, and the new definition keeps other"):
        submit(new_definition("sums", SAME_STATE["sums"].replace("10 seconds", "20 seconds")))
    with pytest.raises(InputError, match="'dear' has other columns then, and is read by dearest"):
        submit(new_definition("dear", "SELECT ts, symbol FROM trades WHERE price > 50"))
    with pytest.raises(InputError, match="'above' is a template, and the new definition keeps"):
        submit(new_definition("above", DECLARED["above"].text.replace("count(*)", "max(price)")))
    submit(new_definition("pairs", OTHER_STATE["pairs"]))
    with pytest.raises(InputError, match="'pairs__next' is about to take the place"):
        submit(new_definition("pairs", DECLARED["pairs"].text))
    with pytest.raises(InputError, match="'pairs' is being replaced; cancel 'pairs__next' first"):
        submit(CancelQuery("pairs"))
    submit(CancelQuery(next_name("pairs")))
    submit(CancelQuery("pairs"))
