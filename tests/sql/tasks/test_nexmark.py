"""Nexmark: what batches give, split and moved, is what one batch gives; test_spark asks Spark."""

from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.nexmark_batches import CATALOG, cut
from tests.support.sql_oracle import Cluster, same

from evenflow.datasets.nexmark import QUERIES, SIDE_INPUT, generate_events
from evenflow.sql import Engine, compile_query


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


KEYS = {
    "q3": {"auction": ("seller",), "person": ("id",)},
    "q4": None,  # grouped by category, joined by auction
    "q5": None,  # the window's maximum needs all auctions
    "q7": None,
    "q8": {"person": ("id",), "auction": ("seller",)},
    "q9": {"auction": ("id",), "bid": ("auction",)},
    "q11": {"bid": ("bidder",)},
    "q18": {"bid": ("auction", "bidder")},
    "q19": {"bid": ("auction",)},
}


@pytest.mark.parametrize("name", QUERIES)
def test_batches_add_up(engine: Engine, name: str) -> None:
    program = compile_query(name, QUERIES[name], CATALOG)
    if name in KEYS:
        assert program.key == KEYS[name]
    given = cut(3, events=6_000, per_second=200, batches=7)
    whole = {stream: given.all(stream) for stream in CATALOG.streams}
    alone = program.open(engine, {"side_input": SIDE_INPUT})
    wanted = [alone.step(whole, 0).rows, alone.step({}, 1 << 60).rows]
    cluster = Cluster(program, engine, np.random.default_rng(5), tables={"side_input": SIDE_INPUT})
    got = cluster.run(given)
    assert (len(got) > 0, cluster.late) == (True, 0)
    same(got, pa.concat_tables(wanted))


def test_q6_is_the_average_of_the_last_ten_auctions_of_any_time(engine: Engine) -> None:
    """The reference has no bound: a plain loop over all winning prices of a seller.

    Sellers have an auction every second here, so their last ten are within the 40 seconds of q6.
    """
    given = cut(4, events=15_000, per_second=120, batches=9)
    for batch in given.batches:
        seller = pc.subtract(
            batch["auction"]["seller"], pc.multiply(pc.divide(batch["auction"]["seller"], 7), 7)
        )
        at = batch["auction"].schema.get_field_index("seller")
        batch["auction"] = batch["auction"].set_column(at, "seller", seller)
    program = compile_query("q6", QUERIES["q6"], CATALOG)
    got = Cluster(program, engine, np.random.default_rng(6)).run(given)
    prices = defaultdict[int, list[tuple[datetime, int]]](list)
    for bid in given.all("bid").select(["auction", "ts", "price"]).to_pylist():
        prices[bid["auction"]].append((bid["ts"], bid["price"]))
    last = defaultdict[int, deque[int]](lambda: deque(maxlen=10))
    wanted = []
    for auction in given.all("auction").to_pylist():  # in the order of their times
        end = min(auction["ts"] + timedelta(seconds=20), auction["expires"])
        valid = [price for at, price in prices[auction["id"]] if auction["ts"] <= at <= end]
        if valid:
            ten = last[auction["seller"]]
            ten.append(max(valid))
            wanted.append((auction["seller"], auction["id"], sum(ten) / len(ten)))
    assert max(map(len, last.values())) == 10
    same(
        got,
        pa.table(
            dict(zip(got.column_names, zip(*wanted, strict=True), strict=True)), schema=got.schema
        ),
    )


def test_the_seed_decides() -> None:
    assert generate_events(1, 300) == generate_events(1, 300)
    assert generate_events(1, 300) != generate_events(2, 300)
    assert {len(table) for table in generate_events(1, 0).values()} == {0}
