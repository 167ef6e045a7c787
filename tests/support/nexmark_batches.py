"""Nexmark's events cut into batches."""

import numpy as np
from tests.support.sql_oracle import DELAY_US, Rows, watermarks

from evenflow.datasets.nexmark import SCHEMAS, SIDE_INPUT, generate_events
from evenflow.sql import Catalog, Stream

CATALOG = Catalog(
    {name: Stream(schema, "ts", DELAY_US) for name, schema in SCHEMAS.items()},
    {"side_input": SIDE_INPUT.schema},
)


def cut(seed: int, events: int, per_second: int, batches: int) -> Rows:
    """Cut the events at random moments, the same for all streams."""
    rng = np.random.default_rng(seed)
    tables = generate_events(seed, events, per_second)
    found = []
    shares = {
        name: np.sort(rng.integers(0, len(table) + 1, batches - 1))
        for name, table in tables.items()
    }
    for at in range(batches):
        batch = {}
        for name, table in tables.items():
            ends = [0, *shares[name].tolist(), len(table)]
            batch[name] = table.slice(ends[at], ends[at + 1] - ends[at])
        found.append(batch)
    return Rows(found, watermarks(found, dict.fromkeys(tables, "ts")))
