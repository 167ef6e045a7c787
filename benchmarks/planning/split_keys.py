"""Split keys in closed loops: rows drawn by chance, costs emulated, no Spark.

python -m benchmarks.planning.split_keys [self_join] [self_join_100k] [two_streams] [templates]
                                         [chance] [chance_100k]

A batch is a second. A self-join within 20 s compares each row with the rows of its key in the last
20 batches, so a key that becomes hot costs more in every batch for 20 of them. `drawn` is the
imbalance of the rows that were drawn, `expected` that of as many rows as there are on average.
8 workers, 20,000 rows a batch; the hot keys change every 30 batches. `within_bound` is the part of
batches within 1.08, with its 95 % interval. `throughput` is that of settled batches if the busiest
worker sets the pace, over that of the same pairs spread evenly, without copies of rows.

`chance` compares the controller with planners that know more than any can (Zipf 0.85), on the same
drawn rows in the same batches: `knows_shares` makes a new plan for every batch from what each key
costs in it on average, so only chance is left; `knows_shares_late` does so for what a key cost two
batches ago, which is how long a plan takes to be in force.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import print_row, run_parts
from benchmarks.planning.certainty import rate_words
from evenflow.model import KeyLoads, KeySplit, Plan, RoutingTable, hash_keys, home_workers
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing, decide
from evenflow.planning.keys import ALGORITHMS, KeyConfig
from evenflow.planning.keys.split import plan_with_splits
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

WORKERS, ROWS, SPAN, SHIFT, EPOCHS = 8, 20_000, 20, 30, 3
PAIR_SECONDS, ROW_SECONDS = 2e-7, 2e-6
SEEDS = range(3)
BOUND = 1.08
FORESEEN_KEYS = 4096  # as many as the workers list
CONFIG = Balancing()


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """Rows of each key in each batch, drawn by chance from shares that change."""

    shares: Callable[[int], Floats]
    rows: int
    seed: int
    by_chance: bool = True

    def __call__(self, batch: int) -> Floats:
        """Return the rows of a batch."""
        if not self.by_chance:
            return self.rows * self.shares(batch)
        rng = np.random.default_rng((self.seed, batch))
        return rng.poisson(self.rows * self.shares(batch)).astype(np.float64)


def self_join_demand(keys: int, skew: float, seed: int, by_chance: bool = True) -> QueryDemand:
    """Return a self-join within 20 s; half of its pairs are with rows of the same batch."""

    @functools.cache
    def epoch(number: int) -> Floats:
        return zipf_costs(keys, skew, np.random.default_rng((seed, number)), 1.0)

    # The run does not start empty: its batch 0 is batch SPAN of what is drawn.
    drawn = functools.lru_cache(2 * SPAN)(
        DrawnRows(lambda b: epoch(max(b - SPAN, 0) // SHIFT), ROWS, seed, by_chance)
    )

    @functools.lru_cache(4)
    def seconds(batch: int) -> Floats:
        new, stored = drawn(batch), sum((drawn(b) for b in range(batch - SPAN, batch)), 0.0)
        result: Floats = ROW_SECONDS * new + PAIR_SECONDS * new * (stored + new / 2)
        return result

    return QueryDemand(
        lambda batch: seconds(batch + SPAN),
        hash_keys(np.arange(keys)),
        split_by="events",
        key_rows=lambda batch: drawn(batch + SPAN),
        shared_seconds=lambda batch: ROW_SECONDS * drawn(batch + SPAN),
    )


def hot_key_demand(
    keys: int, hot: float, shared: float, seed: int, by_chance: bool = True
) -> QueryDemand:
    """Return a query whose key 0, later key 1, has a part of all rows."""

    @functools.cache
    def epoch(number: int) -> Floats:
        shares = np.full(keys, (1 - hot) / (keys - 1))
        shares[number] = hot
        return shares

    drawn = functools.lru_cache(4)(DrawnRows(lambda b: epoch(b // SHIFT), ROWS, seed, by_chance))
    return QueryDemand(
        lambda batch: drawn(batch) * 2e-4,
        hash_keys(np.arange(keys)),
        split_by="events",
        key_rows=drawn,
        shared_part=shared,
    )


def foreseen_plan(demand: QueryDemand, batch: int) -> Plan:
    """Plan with the costs that the heaviest keys have in a batch, as evenly as splits allow."""
    assert demand.hashes is not None  # noqa: S101 - all queries here have keys
    cost, workers = demand.key_seconds(batch), np.arange(WORKERS, dtype=np.int32)
    heavy, homes = np.argsort(-cost)[:FORESEEN_KEYS], home_workers(demand.hashes, WORKERS)
    light = np.delete(np.arange(len(cost)), heavy)
    rest = np.bincount(homes[light], cost[light], WORKERS)
    shared = demand.shared_parts(batch, cost)[heavy] * cost[heavy]
    owner = np.concatenate([homes[heavy], workers]).astype(np.int32)
    keys = KeyLoads(
        np.concatenate([cost[heavy], rest]), np.ones(len(owner)), owner, owner, WORKERS,
        immovable=np.arange(len(owner)) >= len(heavy), shared=np.concatenate([shared, rest]),
        noise=np.append(cost[heavy] / np.sqrt(demand.rows(batch, cost)[heavy]), 0 * rest),
    )  # fmt: skip
    limits = KeyConfig(0.01, len(heavy), max_owners=WORKERS)
    made = plan_with_splits(ALGORITHMS["cover"], keys, limits, np.random.default_rng(0))
    hashes = demand.hashes[heavy]
    splits = [KeySplit(int(hashes[key]), owners, "events") for key, owners in made.splits.items()]
    table = RoutingTable.from_entries(hashes, made.owner[: len(heavy)]).with_splits(splits)
    return Plan(WORKERS, {}, {"q": table})


def foreseen(drawn: QueryDemand, expected: QueryDemand, batch: int, late: int) -> float:
    """Return the imbalance of a batch's drawn rows under a plan made with foresight."""
    flow = SyntheticFlow({"q": drawn}, foreseen_plan(expected, max(batch - late, 0)), batch=batch)
    return flow.imbalance()


def measure(
    make: Callable[[int, bool], QueryDemand], seeds: range = SEEDS, *, foresight: bool = False
) -> dict[str, Any]:
    """Run all seeds; measure from three batches after the plan that answers each shift."""
    rivals = {"knows_shares": 0, "knows_shares_late": 2} if foresight else {}
    ways = ("drawn", "expected", *rivals)
    settled: dict[str, list[float]] = {name: [] for name in ways}
    hash_only, detected, plans, heaviest = [], [], [], []
    even, busiest = 0.0, 0.0
    for seed in seeds:
        drawn, expected = {"q": make(seed, True)}, {"q": make(seed, False)}
        flow = SyntheticFlow(drawn, Plan(WORKERS, {}, {"q": RoutingTable()}))
        costs = expected["q"].key_seconds(0)
        heaviest.append(float(costs.max() / costs.sum()) * WORKERS)
        found: dict[str, list[float]] = {name: [] for name in settled}
        loads: list[tuple[float, float]] = []
        for batch in range(SHIFT * EPOCHS):
            for name, late in rivals.items():
                found[name].append(foreseen(drawn["q"], expected["q"], batch, late))
            for name, queries in (("expected", expected), ("drawn", drawn)):
                flow.queries = queries
                found[name].append(flow.imbalance())
            needed = float(drawn["q"].key_seconds(batch).sum()) / WORKERS
            loads.append((needed, float(flow.true_loads().max())))
            flow.step(lambda seen, before: decide(seen[-64:], before[-64:], CONFIG))
        made = [d.batch for d in flow.decisions if d.plan is not None]
        plans.append(len(made))
        hash_only.append(found["expected"][0])
        for begin in range(0, SHIFT * EPOCHS, SHIFT):
            answer = next(batch for batch in made if batch >= begin)
            detected.append(answer - begin + 1)
            for name, values in found.items():
                settled[name] += values[answer + 3 : begin + SHIFT]
            kept = np.array(loads[answer + 3 : begin + SHIFT]).sum(axis=0)
            even, busiest = even + kept[0], busiest + kept[1]
    result: dict[str, Any] = {
        "seeds": len(seeds),
        "batches": len(settled["drawn"]),
        "heaviest_key": round(float(np.mean(heaviest)), 2),
        "hash_only": round(float(np.mean(hash_only)), 2),
        "batches_until_plan": detected,
        "plans_per_run": round(float(np.mean(plans)), 1),
        "throughput": round(even / busiest, 3),
    }
    for name, values in settled.items():
        result[name] = {
            "median": round(float(np.median(values)), 3),
            "p95": round(float(np.percentile(values, 95)), 3),
            "worst": round(max(values), 3),
            "within_bound": rate_words([value <= BOUND for value in values]),
        }
    return result


def self_join(keys: int, skew: float, seeds: range, **more: bool) -> dict[str, Any]:
    """A Zipf self-join within 20 s."""
    made = measure(lambda seed, drawn: self_join_demand(keys, skew, seed, drawn), seeds, **more)
    row = {"keys": keys, "skew": skew} | made
    print_row(row)
    return row


def self_joins(keys: int, seeds: range) -> list[dict[str, Any]]:
    """Self-joins of all skews."""
    return [self_join(keys, skew, seeds) for skew in (0.85, 1.0, 1.2, 1.5)]


def two_streams() -> dict[str, Any]:
    """A join of two streams, one key with half of the rows, a tenth of its cost replicated."""
    return measure(lambda seed, chance: hot_key_demand(10_000, 0.5, 0.1, seed, chance))


def templates() -> dict[str, Any]:
    """A template, one symbol with half of the events; subscriptions are replicated."""
    return measure(lambda seed, chance: hot_key_demand(500, 0.5, 0.0, seed, chance))


if __name__ == "__main__":
    run_parts({
        "self_join": lambda: self_joins(10_000, range(5)),
        "self_join_100k": lambda: self_joins(100_000, range(3)),
        "two_streams": two_streams,
        "templates": templates,
        "chance": lambda: self_join(10_000, 0.85, range(2), foresight=True),
        "chance_100k": lambda: self_join(100_000, 0.85, range(1), foresight=True),
    })  # fmt: skip
