"""Nexmark: what batches give, split and moved, is what one batch gives; test_spark asks Spark."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
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


def test_the_seed_decides() -> None:
    assert generate_events(1, 300) == generate_events(1, 300)
    assert generate_events(1, 300) != generate_events(2, 300)
    assert {len(table) for table in generate_events(1, 0).values()} == {0}
