"""How soon the controller is sure: streams of few rows, as rows arrive by chance.

python -m benchmarks.planning.certainty [skewed] [even] [shift]

Every batch draws its rows anew from the shares of the keys. Hash placement, bound 0.1, 8 workers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import run_parts
from evenflow.model import Plan, RoutingTable, hash_keys, home_workers
from evenflow.model.arrays import Floats, Hashes
from evenflow.planning.controller import Balancing, decide
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

WORKERS = 8
ROW_SECONDS = 4e-3  # 50 rows keep a worker busy for a fifth of a second
CONFIG = Balancing(max_imbalance=0.1)
STREAMS, BOUNDARIES = 300, 20


def drawn_rows(shares: Callable[[int], Floats], rows: int, seed: int) -> Callable[[int], Floats]:
    """Return the seconds of each key by batch: as many rows as were drawn, Poisson."""

    def seconds(batch: int) -> Floats:
        counts = np.random.default_rng((seed, batch)).poisson(rows * shares(batch))
        return counts.astype(np.float64) * ROW_SECONDS

    return seconds


def first_plan(
    shares: Callable[[int], Floats], hashes: Hashes, rows: int, seed: int, batches: int
) -> tuple[list[int], SyntheticFlow]:
    """Return the batches, counted from 1, after which a plan was made."""
    demand = QueryDemand(drawn_rows(shares, rows, seed), hashes, row_seconds=ROW_SECONDS)
    flow = SyntheticFlow({"counts": demand}, Plan(WORKERS, {}, {"counts": RoutingTable()}))
    for _ in range(batches):
        flow.step(lambda seen, before: decide(seen, before, CONFIG))
    return [d.batch + 1 for d in flow.decisions if d.plan is not None], flow


def true_imbalance(shares: Floats, hashes: Hashes) -> float:
    """Return the imbalance by the hash of the shares themselves, without chance."""
    loads = np.bincount(home_workers(hashes, WORKERS), shares, WORKERS)
    return float(loads.max() / loads.mean())


def skewed() -> list[dict[str, Any]]:
    """Stationary Zipf streams with a hash imbalance of at least 1.2: batches until a plan."""
    found: dict[tuple[int, str], list[int]] = {}
    for seed in range(200):
        skew = (0.7, 0.85, 1.0, 1.2)[seed % 4]
        keys = (1_000, 10_000)[seed // 4 % 2]
        shares = zipf_costs(keys, skew, np.random.default_rng(seed), 1.0)
        hashes = hash_keys(np.arange(keys) + seed * keys)
        imbalance = true_imbalance(shares, hashes)
        if imbalance < 1.2:
            continue
        group = "1.2-1.3" if imbalance < 1.3 else "1.3-1.5" if imbalance < 1.5 else "1.5-"
        for rows in (50, 100, 400):
            made, _ = first_plan(constant(shares), hashes, rows * WORKERS, seed, 8)
            found.setdefault((rows, group), []).append(made[0] if made else 9)
    return [
        {
            "rows_per_worker": rows,
            "imbalance": group,
            "streams": len(after),
            "within_4": rate_words([batch <= 4 for batch in after]),
            "within_8": rate_words([batch <= 8 for batch in after]),
            "median": float(np.median(after)),
        }
        for (rows, group), after in sorted(found.items())
    ]


def even_stream(kind: int, rng: np.random.Generator) -> tuple[Floats, Hashes]:
    """Return shares and hashes of an even stream: many keys, ten alike a worker, or hot ones too.

    The hash spreads 30,000 equal keys evenly. Of few keys the hash does not, so each worker is
    given equally many.
    """
    if kind == 0:
        keys = hash_keys(np.arange(30_000) + int(rng.integers(1 << 40)))
        return np.full(len(keys), 1 / len(keys)), keys
    each = 10 if kind == 1 else 250
    candidates = hash_keys(np.arange(each * WORKERS * 4) + int(rng.integers(1 << 40)))
    homes = home_workers(candidates, WORKERS)
    keys = np.concatenate([candidates[homes == worker][:each] for worker in range(WORKERS)])
    shares = np.ones(len(keys))
    if kind == 2:
        shares[::each] = 100.0
    return shares / shares.sum(), keys


def even() -> list[dict[str, Any]]:
    """Even streams: how many get any plan within 20 boundaries."""
    rows = []
    names = ("30,000 equal keys", "10 equal keys a worker", "1 hot and 249 cold keys a worker")
    for kind, name in enumerate(names):
        for count in (50, 400):
            false = 0
            for seed in range(STREAMS):
                shares, hashes = even_stream(kind, np.random.default_rng((kind, seed)))
                made, _ = first_plan(constant(shares), hashes, count * WORKERS, seed, BOUNDARIES)
                false += bool(made)
            rows.append({
                "stream": name, "rows_per_worker": count, "streams": STREAMS, "with_a_plan": false
            })  # fmt: skip
    return rows


def shift() -> list[dict[str, Any]]:
    """The hot keys change at batch 13: batches from then until a plan."""
    result = []
    for rows in (50, 100, 400):
        after, needed, early = [], 0, 0
        for seed in range(100):
            first, second = (
                zipf_costs(10_000, 0.85, np.random.default_rng((seed, epoch)), 1.0)
                for epoch in (0, 1)
            )
            hashes = hash_keys(np.arange(10_000))
            made, _ = first_plan(changing(first, second, 12), hashes, rows * WORKERS, seed, 20)
            early += sum(batch <= 12 for batch in made)
            later = [batch - 12 for batch in made if batch > 12]
            needed += 1
            after.append(later[0] if later else 9)
        result.append({
            "rows_per_worker": rows,
            "streams": needed,
            "within_2": rate_words([batch <= 2 for batch in after]),
            "within_4": rate_words([batch <= 4 for batch in after]),
            "median": float(np.median(after)),
            "plans_before_the_shift": early / needed,
        })  # fmt: skip
    return result


def rate_words(hits: list[bool]) -> str:
    """Return a rate with its 95 % interval (Wilson)."""
    n, p, z = len(hits), sum(hits) / max(len(hits), 1), 1.96
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return f"{p:.2f} ({max(centre - half, 0):.2f}-{min(centre + half, 1):.2f})"


def constant(shares: Floats) -> Callable[[int], Floats]:
    """Return shares that stay the same."""
    return lambda batch: shares


def changing(first: Floats, second: Floats, at: int) -> Callable[[int], Floats]:
    """Return shares that change once."""
    return lambda batch: second if batch >= at else first


if __name__ == "__main__":
    run_parts({"skewed": skewed, "even": even, "shift": shift})
