"""A source gets more columns: what is hosted goes on, new queries use them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.spark.driver.compare_flow import check_hosted
from evenflow.spark.driver.submission import Submission
from evenflow.spark.driver.widen_source import WidenSource, widened_sources
from evenflow.spark.protocol.registry import Registry

BEFORE = STREAMS["trades"]
MARKET = pa.field("market", pa.string())
AFTER = replace(BEFORE, schema=pa.schema([MARKET, *BEFORE.schema]))


def with_market(rows: pa.Table) -> pa.Table:
    return rows.add_column(0, MARKET, pa.array(["X"] * len(rows)))


def without_time(rows: pa.Table) -> pa.Table:
    at = rows.column_names.index("ts")
    return rows.set_column(at, "ts", pa.nulls(len(rows), rows.schema.field("ts").type))


def test_queries_go_on_and_new_ones_use_the_column(tmp_path: Path) -> None:
    rng, local = np.random.default_rng(1), Local(tmp_path, STREAMS, SUBMISSIONS[:3])
    first, second = trades(rng, 60), trades(rng, 60)
    local.batch({"trades": pa.concat_tables([first, without_time(first.slice(0, 2))])})
    commands = local.committer.commands
    commands.submit(WidenSource("trades", AFTER.schema))
    commands.submit(Submission("query", "markets", "SELECT ts, market FROM trades"))
    local.reopen()  # a widened source is on disk as any command
    local.batch({"trades": with_market(second)})  # still without the new query
    third = with_market(trades(rng, 30))
    local.batch({"trades": pa.concat_tables([third, without_time(third.slice(0, 1))])})
    assert not local.committer.checkpoint.head().quarantined
    assert {row[1] for row in local.results("markets")} == {"X"}
    assert local.results("markets").total() == len(third)
    whole = Local(tmp_path / "whole", STREAMS, SUBMISSIONS[:3])
    for rows in (first, second, third.select(BEFORE.schema.names)):
        whole.batch({"trades": rows})
    for name in ("dear", "sums", "pairs"):
        assert local.results(name) == whole.results(name), name
    poison = local.tables("poison", "trades")
    assert sum(map(len, poison)) == 3


def test_a_query_that_would_change_is_named(tmp_path: Path) -> None:
    every = Submission("query", "every", "SELECT * FROM trades")
    local = Local(tmp_path, STREAMS, [*SUBMISSIONS[:2], every])
    with pytest.raises(InputError, match="every would change by them, as with SELECT"):
        local.committer.commands.submit(WidenSource("trades", AFTER.schema))


def test_only_added_columns_are_taken() -> None:
    hosted = Registry(1, STREAMS)

    def declared(*fields: pa.Field, delay_us: int = BEFORE.delay_us) -> Registry:
        spec = replace(BEFORE, schema=pa.schema(fields), delay_us=delay_us)
        return Registry(0, {"trades": spec})

    same = list(BEFORE.schema)
    check_hosted(hosted, declared(*same, MARKET), {"trades"}, ())
    assert [w.schema.names for w in widened_sources(hosted, declared(*same, MARKET))] == [
        [*BEFORE.schema.names, "market"]
    ]
    assert not list(widened_sources(hosted, declared(*same)))
    other_type = [f.with_type(pa.string()) if f.name == "qty" else f for f in same]
    for refused in (declared(*same[:-1]), declared(*other_type), declared(*same, delay_us=1)):
        assert not list(widened_sources(hosted, refused))
        with pytest.raises(InputError, match="source 'trades' is in the checkpoint with different"):
            check_hosted(hosted, refused, {"trades"}, ())
