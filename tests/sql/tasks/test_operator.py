"""Python operators keep their state in an Arrow table, so it is saved and moved like any other."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from tests.support.sql_oracle import CATALOG, Cluster, made

from evenflow.errors import InputError
from evenflow.model.time import MAX_EVENT_TIME_US, MIN_EVENT_TIME_US, NO_WATERMARK_US
from evenflow.sql import Engine, Operator, QueryFailed, compile_operator


class LastPrice(Operator):
    """Report each symbol's price with the one before it."""

    schema: ClassVar[pa.Schema] = pa.schema(
        [("symbol", pa.string()), ("before", pa.int64()), ("now", pa.int64())]
    )
    state: ClassVar[pa.Schema] = pa.schema([("symbol", pa.string()), ("qty", pa.int64())])

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        last = dict(zip(*(state[c].to_pylist() for c in ("symbol", "qty")), strict=True))
        found = []
        trades = rows.get("trades", pa.table({"symbol": [], "qty": []}))
        for symbol, qty in zip(*(trades[c].to_pylist() for c in ("symbol", "qty")), strict=True):
            found.append({"symbol": symbol, "before": last.get(symbol), "now": qty})
            last[symbol] = qty
        kept = pa.table({"symbol": list(last), "qty": list(last.values())}, schema=self.state)
        return pa.Table.from_pylist(found, schema=self.schema), kept


def test_an_operator_split_over_two_workers_answers_as_one() -> None:
    program = compile_operator("last", LastPrice, ["trades"], CATALOG, key="symbol")
    assert (program.kind, program.key) == ("python", {"trades": ("symbol",)})
    given = made(np.random.default_rng(1), 80, 5, 40)
    trades = given.all("trades")
    wanted, _ = LastPrice().step({"trades": trades}, LastPrice.state.empty_table(), 0)
    for seed in range(8):
        cluster = Cluster(program, Engine(), np.random.default_rng(seed))  # type: ignore[arg-type]
        got = cluster.run(given)
        assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def test_event_times_are_valid_from_1900_to_before_2200() -> None:
    last, first = MAX_EVENT_TIME_US, MIN_EVENT_TIME_US
    schema = CATALOG.streams["trades"].schema
    times = pa.array([first - 1, first, last - 1, last, None], pa.int64()).cast(schema.types[0])
    rows = made(np.random.default_rng(1), 80, 1, 40).all("trades").slice(0, 5)
    task = compile_operator("last", LastPrice, ["trades"], CATALOG).open(Engine())
    out = task.step({"trades": rows.set_column(0, schema.field(0), times)}, NO_WATERMARK_US)
    assert (out.poison, out.late) == ({"trades": 3}, {})
    assert out.rows["now"].to_pylist() == rows["qty"].slice(1, 2).to_pylist()
    late = task.step({"trades": rows.set_column(0, schema.field(0), times)}, first + 1)
    assert (late.poison, late.late, late.rows.num_rows) == ({"trades": 3}, {"trades": 1}, 1)


class Broken(LastPrice):
    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        raise RuntimeError("no such thing")


def test_what_an_operator_throws_is_a_failed_query() -> None:
    task = compile_operator("b", Broken, ["trades"], CATALOG).open(Engine())
    with pytest.raises(QueryFailed, match="RuntimeError: no such thing"):
        task.step({}, 0)


def test_refused_operators() -> None:
    with pytest.raises(InputError, match="is not a stream"):
        compile_operator("o", LastPrice, ["nothing"], CATALOG)
    with pytest.raises(InputError, match="its state has no such column"):
        compile_operator("o", LastPrice, ["trades"], CATALOG, key="venue")
