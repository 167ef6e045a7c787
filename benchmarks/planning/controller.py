"""The controller in closed loops with known loads: balance reached, and time of a decision.

python -m benchmarks.planning.controller [keys] [bursts] [arrivals] [speed]
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import run_parts
from evenflow.model import LoadSeries, Plan, RoutingTable, hash_keys
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing, decide, place_arriving_queries
from evenflow.planning.operators import OperatorConfig, OperatorSnapshot, plan_operators
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

WORKERS = 8
CONFIG = Balancing()


def run_loop(flow: SyntheticFlow, batches: int) -> tuple[list[float], list[float]]:
    """Return the true imbalance, and the load of the busiest worker, of each batch."""
    imbalance, busiest = [], []
    for _ in range(batches):
        imbalance.append(flow.imbalance())
        busiest.append(float(flow.true_loads().max()))
        flow.step(lambda seen, before: decide(seen, before, CONFIG))
    return imbalance, busiest


def keys() -> list[dict[str, Any]]:
    """Hot keys that shift every twelve batches: by the hash alone, and balanced."""
    rows = []
    for skew in (0.85, 1.0):
        for count in (10_000, 100_000):
            epochs = [zipf_costs(count, skew, np.random.default_rng(at), 4.0) for at in range(4)]
            flow = SyntheticFlow(
                {"counts": QueryDemand(_epochs(epochs, 12), hash_keys(np.arange(count)))},
                Plan(WORKERS, {}, {"counts": RoutingTable()}),
            )
            imbalances, _ = run_loop(flow, 48)
            settled = imbalances[5:12] + imbalances[15:24] + imbalances[27:36]
            plans = [decision for decision in flow.decisions if decision.plan is not None]
            rows.append({
                "skew": skew,
                "keys": count,
                "hash_only": round(_hash_only(epochs, count), 3),
                "detected_then_batches_until_even": _until_even(imbalances, flow),
                "worst_when_settled": round(max(settled), 3),
                "plans": len(plans),
                "moves": [len(decision.moves) for decision in plans],
                "table": len(flow.plan.tables["counts"]),
                "reachable": [v.reachable for d in plans for v in d.verdicts],
            })  # fmt: skip
    return rows


def _epochs(epochs: list[Floats], every: int) -> Callable[[int], Floats]:
    return lambda batch: epochs[min(batch // every, len(epochs) - 1)]


def _hash_only(epochs: list[Floats], count: int) -> float:
    owner = RoutingTable().route(hash_keys(np.arange(count)), WORKERS)
    loads = [np.bincount(owner, weights=costs) for costs in epochs]
    return float(np.mean([load.max() / load.mean() for load in loads]))


def _until_even(imbalances: list[float], flow: SyntheticFlow) -> list[int]:
    """Return the batches from each plan until the imbalance was within the bound."""
    planned = [decision.batch for decision in flow.decisions if decision.plan is not None]
    return [
        next((at - batch for at in range(batch, len(imbalances)) if imbalances[at] <= 1.08), -1)
        for batch in planned
    ]


def bursts() -> list[dict[str, Any]]:
    """40 queries of equal mean load over 8 streams that burst in turn, in 2 or in 4 phases.

    Means over ten assignments of queries to streams. Connected: the queries of a stream together.
    Largest load first sees equal loads, so it is round robin.
    """
    rows = []
    for phases, period in ((2, 4), (2, 8), (2, 12), (4, 8)):
        peaks: dict[str, list[float]] = {"largest load first": [], "connected": [], "evenflow": []}
        plans, moves = 0, 0
        for seed in range(10):
            reads = np.random.default_rng(seed).permutation(np.arange(40) % 8)
            queries = {
                f"q{at}": QueryDemand(
                    _burst(int(reads[at]), phases, period), streams=(f"s{reads[at]}",)
                )
                for at in range(40)
            }
            connected = {f"q{at}": int(reads[at]) for at in range(40)}
            for name, placed in (("largest load first", _llf(queries)), ("connected", connected)):
                busy = [_busiest(queries, placed, batch) for batch in range(2 * period)]
                peaks[name].append(float(np.mean(busy)))
            flow = SyntheticFlow(queries, Plan(WORKERS, connected))
            _, busiest = run_loop(flow, 60)
            peaks["evenflow"].append(float(np.mean(busiest[-2 * period :])))
            plans += sum(decision.plan is not None for decision in flow.decisions)
            moves += sum(len(decision.moves) for decision in flow.decisions)
        means = {name: float(np.mean(values)) for name, values in peaks.items()}
        together = -(-40 // phases // WORKERS)  # queries of one phase on one worker, at least
        rows.append({
            "phases": phases,
            "period": period,
            "busiest_worker": {name: round(mean, 3) for name, mean in means.items()},
            "least_possible": round(together * 0.3 + (5 - together) * 0.02, 3),
            "lower_than": {n: round(1 - means["evenflow"] / m, 3) for n, m in means.items()},
            "plans": plans / 10,
            "moves": moves / 10,
        })  # fmt: skip
    return rows


def _burst(stream: int, phases: int, period: int) -> Callable[[int], Floats]:
    def load(batch: int) -> Floats:
        on = (batch * phases // period + stream) % phases == 0
        return np.array([0.3 if on else 0.02])

    return load


def _llf(queries: dict[str, QueryDemand]) -> dict[str, int]:
    series = LoadSeries(tuple(queries), np.full((40, 1), 0.16), np.ones(40, dtype=np.bool_))
    snapshot = OperatorSnapshot(series, WORKERS)
    plan = plan_operators("llf-glb", snapshot, OperatorConfig(), CONFIG.new_rng())
    return dict(zip(queries, plan.placement.tolist(), strict=True))


def _busiest(queries: dict[str, QueryDemand], placed: dict[str, int], batch: int) -> float:
    loads = np.zeros(WORKERS)
    for name, query in queries.items():
        loads[placed[name]] += query.key_seconds(batch)[0]
    return float(loads.max())


def arrivals() -> dict[str, Any]:
    """5,000 live queries of 200 types; 100 arrive and leave per batch."""
    rng = np.random.default_rng(0)
    weights = 1.0 / np.arange(1, 201)
    shipped: dict[str, list[float]] = {"herd": [], "roundrobin": []}
    worst: dict[str, float] = {"herd": 0.0, "roundrobin": 0.0}
    seconds = []
    drawn = rng.choice(200, 9000, p=weights / weights.sum())
    leaves = rng.permutation(9000)
    for rule, copies in shipped.items():
        config = Balancing(queries=rule)
        plan, streams = Plan(WORKERS), dict[str, tuple[str, ...]]()
        for first in range(0, 9000, 100):
            arriving = {f"q{at}": (f"s{drawn[at]}",) for at in range(first, first + 100)}
            started = time.process_time()
            placed = place_arriving_queries(plan, {**streams, **arriving}, {}, config)
            if rule == "herd":
                seconds.append(time.process_time() - started)
            streams = {**streams, **arriving}
            live = [f"q{at}" for at in leaves if f"q{at}" in streams]
            gone = set(live[: max(len(streams) - 5000, 0)])
            streams = {name: read for name, read in streams.items() if name not in gone}
            placement = {**plan.placement, **placed}
            plan = Plan(WORKERS, {name: placement[name] for name in streams})
            counts = np.bincount(list(plan.placement.values()), minlength=WORKERS)
            allowed = max(1.05 * counts.mean(), counts.mean() + 10)
            worst[rule] = max(worst[rule], float(counts.max() / allowed))
            if first >= 5000:
                flows = {(read, plan.placement[name]) for name, read in streams.items()}
                copies.append(float(len(flows)))
    means = {rule: float(np.mean(values)) for rule, values in shipped.items()}
    return {
        "streams_times_workers": {rule: round(mean, 1) for rule, mean in means.items()},
        "of_round_robin": round(means["herd"] / means["roundrobin"], 3),
        "busiest_over_allowed": {rule: round(value, 3) for rule, value in worst.items()},
        "milliseconds_for_100_arrivals": round(1e3 * float(np.median(seconds)), 1),
    }


def speed() -> dict[str, Any]:
    """10 keyed queries of 10,000 keys, 4,096 of them listed, and 1,000 whole ones."""
    rng = np.random.default_rng(0)
    costs = [zipf_costs(10_000, 0.85, rng, 1.0) for _ in range(10)]
    loads = rng.uniform(0.001, 0.01, 1000)
    queries = {
        f"k{at}": QueryDemand(_epochs([costs[at], costs[at][::-1].copy() * (1 + at)], 20),
                         hash_keys(np.arange(10_000) + at * 10_000))
        for at in range(10)
    }  # fmt: skip
    queries |= {
        f"q{at}": QueryDemand(_constant(loads[at]), streams=(f"s{at % 50}",)) for at in range(1000)
    }
    plan = Plan(
        WORKERS,
        {f"q{at}": int(rng.integers(0, WORKERS)) for at in range(1000)},
        {f"k{at}": RoutingTable() for at in range(10)},
    )
    flow = SyntheticFlow(queries, plan)
    quiet: list[float] = []
    planning: list[float] = []
    for _ in range(40):
        snapshot = flow.observe()
        started = time.process_time()
        decision = decide([*flow.snapshots, snapshot], flow.decisions, CONFIG)
        seconds = time.process_time() - started
        (quiet if decision.plan is None else planning).append(seconds)
        flow.step(lambda seen, before, decision=decision: decision)  # type: ignore[misc]
    return {
        "milliseconds_quiet": round(1e3 * float(np.median(quiet)), 1),
        "milliseconds_planning": [round(1e3 * spent, 1) for spent in planning],
        "imbalance_at_the_end": round(flow.imbalance(), 3),
    }


def _constant(load: float) -> Callable[[int], Floats]:
    return lambda batch: np.array([load])


if __name__ == "__main__":
    run_parts({"keys": keys, "bursts": bursts, "arrivals": arrivals, "speed": speed})
