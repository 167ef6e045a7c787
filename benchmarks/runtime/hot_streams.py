"""Streams with hot keys against the whole loop: `python -m benchmarks.runtime.hot_streams [CLASS]`.

The runtime's router, workers, measuring and controller in one process, 8 workers, default settings.
Workers report a fixed price per row and per pair or result as their CPU time, so that the loop is
the same on every machine (`tests/support/priced_flow.py`). A batch is a second. Every key has its
share of rows in every batch, to a row, so that what is measured is the plan and not the draw.

detected     batches from each shift of the hot keys to the plan that answers it
median, worst, within   busiest over mean worker from the third batch after that plan to the next
             shift, and the part of these batches within the goal (1.08 joins, 1.1 others)
hash_only    the same without plans, mean over all batches
plans        plans of the run, of which `settled` more than five batches after a shift's first plan
owners       owners of split keys: most at any time, and at the end
equal        whether the results are those of one worker without plans
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.priced_flow import PricedFlow, worker_seconds

from benchmarks.harness import Rows, print_row, run_parts
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec

WORKERS, BATCHES, SECOND = 8, 40, 1_000_000
BEGIN_US = 1_700_000_000 * SECOND
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", pa.int64())])
WITHIN = "{1}.ts >= {0}.ts AND {1}.ts <= {0}.ts + INTERVAL 3 SECONDS"
SELF = f"left p JOIN left q ON p.k = q.k AND {WITHIN.format('p', 'q')} AND p.x + 950 < q.x"
TWO = f"left l JOIN right r ON l.k = r.k AND {WITHIN.format('l', 'r')} AND abs(l.x - r.x) < 20"
ALARMS = "SELECT ts, k FROM left WHERE k = :k AND x > :least"
NULL = -1  # stands for the NULL key
WANTED = [
    {"subscription": f"{key}-{least}", "k": key, "least": least}
    for key in (*range(1, 10), *range(100, 400))
    for least in (300, 900)
]


@dataclass(frozen=True)
class QueryClass:
    """A query of some class, its rows per batch and stream, and the goal for max over mean."""

    queries: tuple[Submission, ...]
    rows: Mapping[str, int]
    goal: float = 1.1


def query(sql: str, name: str = "q", **options: Any) -> Submission:
    """Return a keyed query."""
    return Submission("query", name, sql, ("k",), **options)


CLASSES = {
    "self_join": QueryClass(
        (query(f"SELECT p.ts, p.k, p.x, q.x AS y FROM {SELF}"),), {"left": 2_000}, 1.08
    ),
    "two_streams": QueryClass(
        (query(f"SELECT l.ts, l.k, l.x, r.x AS y FROM {TWO}"),), {"left": 3_000, "right": 1_000}
    ),
    "template": QueryClass(
        (
            Submission(
                "template", "q", "SELECT ts, k FROM left WHERE k = :k AND x > :least", ("k",)
            ),
        ),
        {"left": 6_000},
    ),
    "aggregate": QueryClass(
        (
            query(
                "SELECT window.start AS s, k, count(*) AS n, sum(x) AS t FROM left "
                "GROUP BY window(ts, '5 seconds'), k"
            ),
        ),
        {"left": 6_000},
    ),
    "join_aggregate": QueryClass(
        (
            query(
                "SELECT window.start AS s, k, count(*) AS n, sum(y) AS t FROM "
                f"(SELECT l.ts, l.k, r.x AS y FROM {TWO}) GROUP BY window(ts, '5 seconds'), k"
            ),
        ),
        {"left": 3_000, "right": 1_000},
    ),
    "q5": QueryClass(
        (
            query(
                f"SELECT l.ts, l.k, r.x % 25 AS nation, l.x AS revenue FROM {TWO}",
                "joined",
                publish=True,
            ),
            Submission(
                "query",
                "revenue",
                "SELECT window.start AS s, nation, sum(revenue) AS revenue FROM joined "
                "GROUP BY window(ts, '5 seconds', '1 second'), nation",
            ),
        ),
        {"left": 3_000, "right": 1_000},
    ),
}
Hot = Callable[[int], Mapping[int, float]]  # batch -> hot keys and their parts of the rows


def one(batch: int) -> dict[int, float]:
    """One hot key, another one from the middle on."""
    return {1 if batch < BATCHES // 2 else 2: 0.4}


def two(batch: int) -> dict[int, float]:
    """Two hot keys, two others from the middle on."""
    return {3: 0.3, 4: 0.2} if batch < BATCHES // 2 else {5: 0.3, 6: 0.2}


def cools(batch: int) -> dict[int, float]:
    """A hot key that is like all others from the middle on."""
    return {7: 0.4} if batch < BATCHES // 2 else {}


def null(batch: int) -> dict[int, float]:
    """A hot NULL."""
    return {NULL: 0.4}


def alternate(batch: int) -> dict[int, float]:
    """Two keys that are hot in turns of ten batches."""
    return {8 + batch // 10 % 2: 0.4}


STREAMS: dict[str, tuple[Hot, tuple[int, ...]]] = {
    "one": (one, (0, BATCHES // 2)),
    "two": (two, (0, BATCHES // 2)),
    "cools": (cools, (0, BATCHES // 2)),
    "one_input": (one, (0, BATCHES // 2)),
    "null": (null, (0,)),
    "alternate": (alternate, (0, 10, 20, 30)),
}


def key_numbers(hot: Mapping[int, float], count: int, keys: int, skew: float, seed: int) -> Indices:
    """Return the keys of a batch's rows: hot ones by their part, the others by Zipf."""
    rng = np.random.default_rng(seed)
    chosen = [np.full(round(part * count), key) for key, part in hot.items()]
    rest = count - sum(map(len, chosen))
    weights = np.cumsum(np.arange(1, keys + 1) ** -skew)
    each = (np.arange(rest) + rng.random()) / rest * weights[-1]
    numbers = 100 + np.searchsorted(weights, each)
    return rng.permutation(np.concatenate([*chosen, numbers]).astype(np.int64))


def batches(
    query_class: QueryClass, stream: str, keys: int, skew: float, seed: int
) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of each batch; of `one_input`, only the left stream has hot keys."""
    hot = STREAMS[stream][0]
    for batch in range(BATCHES):
        made = {}
        for at, (name, count) in enumerate(query_class.rows.items()):
            here: Mapping[int, float] = {} if stream == "one_input" and at else hot(batch)
            if stream == "one_input" and at:
                here = dict.fromkeys(hot(batch), 0.02)  # so that there are matches
            draw = (seed * 1_000 + batch) * 2 + at
            numbers = key_numbers(here, count, keys, skew, draw)
            rng = np.random.default_rng(draw)
            times = BEGIN_US + batch * SECOND + np.sort(rng.integers(0, SECOND, count))
            made[name] = pa.table(
                {
                    "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                    "k": pa.array(numbers, mask=numbers == NULL),
                    "x": rng.integers(0, 1_000, count),
                },
                schema=SCHEMA,
            )
        yield made


def play(
    query_class: QueryClass, rows: list[dict[str, pa.Table]], workers: int, config: Balancing
) -> tuple[PricedFlow, list[float]]:
    """Run the batches; return the flow, and busiest over mean worker of each batch."""
    is_template = query_class.queries[0].form == "template"
    flow = PricedFlow(
        tempfile.mkdtemp(),
        {name: StreamSpec(SCHEMA, "ts", 0) for name in query_class.rows},
        list(query_class.queries),
        workers=workers,
        subscribed={"q": WANTED} if is_template else None,
    )
    flow.balance(config)
    found = []
    for batch in rows:
        loads: Floats = worker_seconds(flow.batch(batch))
        found.append(float(loads.max() / loads.mean()))
    flow.rest()
    if flow.committer.checkpoint.head().quarantined:
        raise RuntimeError(f"quarantined: {flow.committer.checkpoint.head().quarantined}")
    return flow, found


def settled_batches(
    found: list[float], plans: list[int], shifts: tuple[int, ...]
) -> tuple[list[int], list[float]]:
    """Return the batches to the plan that answers each shift, and what was found from then on."""
    settled: list[float] = []
    detected = []
    for begin, end in zip(shifts, (*shifts[1:], BATCHES), strict=True):
        answers = [batch for batch in plans if begin <= batch < end]
        detected.append(answers[0] - begin + 1 if answers else 0)
        settled += found[(answers[0] if answers else begin) + 3 : end]
    return detected, settled


def compare(name: str, stream: str, keys: int, skew: float, seed: int) -> dict[str, Any]:
    """Play one stream against one class of queries."""
    query_class, shifts = CLASSES[name], STREAMS[stream][1]
    rows = list(batches(query_class, stream, keys, skew, seed))
    flow, found = play(query_class, rows, WORKERS, Balancing())
    calm, _ = play(query_class, rows, 1, Balancing.off())
    _, unplanned = play(query_class, rows, WORKERS, Balancing.off())
    balancer = flow.committer.balancer
    made = [decision.batch for decision in balancer.decisions if decision.plan is not None]
    detected, settled = settled_batches(found, made, shifts)
    answers = [begin + after - 1 for begin, after in zip(shifts, detected, strict=True) if after]
    late = sum(not any(a <= batch <= a + 5 for a in answers) for batch in made)
    owners = [
        sum(len(s.owners) for table in snapshot.plan.tables.values() for s in table.splits)
        for snapshot in balancer.snapshots
    ]
    row = {
        "class": name,
        "stream": stream,
        "keys": keys,
        "skew": skew,
        "seed": seed,
        "detected": detected,
        "median": float(np.median(settled)),
        "worst": max(settled),
        "within": float(np.mean(np.array(settled) <= query_class.goal)),
        "hash_only": float(np.mean(unplanned)),
        "plans": len(made),
        "settled": late,
        "owners": [max(owners), owners[-1]],
        "equal": all(flow.results(q.name) == calm.results(q.name) for q in query_class.queries),
        "results": sum(sum(calm.results(q.name).values()) for q in query_class.queries),
    }
    print_row(row)
    return row


def hot_streams(name: str) -> Rows:
    """Play all streams against one class of queries."""
    streams = [s for s in STREAMS if s != "one_input" or len(CLASSES[name].rows) > 1]
    rows = [compare(name, stream, 10_000, 0.85, seed=1) for stream in streams]
    return [*rows, compare(name, "one", 100_000, 1.2, seed=2)]


if __name__ == "__main__":
    run_parts({name: (lambda name=name: hot_streams(name)) for name in CLASSES})  # type: ignore[misc]
