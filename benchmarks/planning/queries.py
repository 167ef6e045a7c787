"""Quality and speed of the query planners. Prints one JSON object; progress goes to stderr.

Usage: python -m benchmarks.planning.queries [quality] [speed] [repair] [churn] [--scale 0.1]

quality  replication factor and CPU seconds of every algorithm, and of Mt-KaHyPar (extra `solvers`)
         on the same instances: 100,000 queries, 100 workers. Mt-KaHyPar does not run on queries
         with one source: it takes many minutes, and others reach the lower bound
speed    a million queries of two sources on 1,000 workers: queries per second, ratio to OnRand
repair   share of the gap to Mt-KaHyPar's plan (else partition's) that moves of 5 % of the queries
         close, and an upper bound for any repair (needs scipy, extra `solvers`; minutes)
churn    replication factor under arrivals and departures, with and without moves

Times exclude compilation and reading. CPU seconds count all threads; `speed` is wall time, the
fastest of three interleaved runs.
"""

import argparse
import functools
import json
import sys
import time
from typing import Any

import numpy as np

from benchmarks.planning.repair_bound import most_saved
from evenflow.planning.queries import (
    ALGORITHMS,
    ONLINE,
    Fleet,
    Placement,
    PlacementProblem,
    measure_placement,
    place_arrivals,
    plan_queries,
)
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.search_state import workers_of_queries
from evenflow.research.kahypar import SolverMissing, kahypar
from evenflow.research.query_churn import Churn, PlacementRule, simulate_churn
from evenflow.research.subscription_workload import random_subscriptions

QUALITY = ((1.5, 2), (2.0, 2), (3.0, 2), (2.0, 1), (2.0, 5))
SEED = 1


def print_progress(*parts: object) -> None:
    print(*parts, file=sys.stderr, flush=True)


def instance(
    count: int, workers: int, beta: float, width: int, seed: int = SEED
) -> PlacementProblem:
    drawn = random_subscriptions(count, beta, width, np.random.default_rng(seed))
    return PlacementProblem.of(drawn, workers)


def warm_up() -> None:
    for name in ALGORITHMS:
        tiny = instance(20, 2, 2.0, 1)
        tiny = PlacementProblem.of(tiny.subscriptions, 2, current=np.zeros(20, dtype=np.int32))
        plan_queries(tiny, name, np.random.default_rng(0))


def measure(
    problem: PlacementProblem, name: str, **options: Any
) -> tuple[Placement, dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    started = time.process_time()
    placement = plan_queries(problem, name, rng, **options)
    seconds = time.process_time() - started
    return placement, row(problem, placement, seconds, online=name in ONLINE)


def row(
    problem: PlacementProblem, placement: Placement, seconds: float, *, online: bool
) -> dict[str, Any]:
    figures = measure_placement(problem, placement, online=online)
    return {
        "replication_factor": round(figures.replication_factor, 4),
        "max_over_mean_load": round(figures.max_over_mean_load, 4),
        "feasible": figures.feasible,
        "cpu_seconds": round(seconds, 3),
    }


def kahypar_plan(problem: PlacementProblem) -> tuple[Placement | None, dict[str, Any]]:
    """Return Mt-KaHyPar's plan, or the reason why it is missing."""
    started = time.process_time()
    try:
        search = kahypar(problem, SEED, threads=2)
    except SolverMissing as missing:
        return None, {"missing": str(missing)}
    placement = Placement(workers_of_queries(search))
    return placement, row(problem, placement, time.process_time() - started, online=False)


def quality(scale: float) -> list[dict[str, Any]]:
    results = []
    for beta, width in QUALITY:
        problem = instance(int(100_000 * scale), max(2, int(100 * scale)), beta, width)
        table: dict[str, Any] = {}
        for name in ALGORITHMS:
            if name == "repair" or (name == "single-source" and width > 1):
                continue
            table[name] = measure(problem, name)[1]
            print_progress(f"beta {beta} d {width}", name, table[name])
        if width > 1:
            _, table["mt-kahypar"] = kahypar_plan(problem)
            print_progress(f"beta {beta} d {width} mt-kahypar", table["mt-kahypar"])
        results.append({"beta": beta, "sources_per_query": width, "algorithms": table})
    return results


def speed(scale: float) -> dict[str, Any]:
    """Return the fastest of three interleaved runs of each rule."""
    count = int(1_000_000 * scale)
    problem = instance(count, max(2, int(1_000 * scale)), 2.0, 2)
    seconds: dict[str, float] = {}
    for _ in range(3):
        for name in ("onrand", "roundrobin", "leastcost", "herd"):
            online = ONLINE[name](problem, np.random.default_rng(SEED))
            started = time.perf_counter()
            place_arrivals(online, problem)
            taken = time.perf_counter() - started
            seconds[name] = min(taken, seconds.get(name, np.inf))
            print_progress("speed", name, round(taken, 2))
    return {
        name: {
            "queries_per_second": round(count / taken),
            "times_onrand": round(taken / seconds["onrand"], 2),
        }
        for name, taken in seconds.items()
    }


def repair(scale: float) -> dict[str, Any]:
    count = int(100_000 * scale)
    problem = instance(count, max(2, int(100 * scale)), 2.0, 2)
    _, best = kahypar_plan(problem)
    if "missing" in best:
        _, best = measure(problem, "partition")
    goal = best["replication_factor"]
    results: dict[str, Any] = {"goal": goal}
    for start in ("leastcost", "herd", "drifted"):
        current = drifted_placement(problem) if start == "drifted" else measure(problem, start)[0]
        running = PlacementProblem.of(problem.subscriptions, problem.fleet, current=current.workers)
        before = row(running, current, 0.0, online=True)["replication_factor"]
        placement, after = measure(running, "repair", max_moves=count // 20)
        share = (before - after["replication_factor"]) / (before - goal)
        most = most_saved(running, count // 20) / len(problem.subscriptions.rates)
        results[start] = {
            "before": before,
            **after,
            "moved": placement.moved,
            "part_of_the_way": round(share, 3),
            "no_repair_exceeds": round(most / (before - goal), 3),
        }
        print_progress("repair from", start, results[start])
    return results


def drifted_placement(problem: PlacementProblem) -> Placement:
    """Plan nine tenths of the queries with partition; herd places the rest on arrival."""
    known = int(0.9 * len(problem.subscriptions))
    early = PlacementProblem.of(
        problem.subscriptions.select_queries(np.arange(known)), problem.fleet
    )
    current = np.full(len(problem.subscriptions), -1, dtype=np.int32)
    current[:known] = measure(early, "partition")[0].workers
    running = PlacementProblem.of(problem.subscriptions, problem.fleet, current=current)
    return measure(running, "herd")[0]


def churn(scale: float) -> dict[str, Any]:
    life = 100_000 * scale
    count = int(4 * life)
    queries = random_subscriptions(count, 2.0, 2, np.random.default_rng(SEED))
    rules: dict[str, PlacementRule] = {
        "onrand": ONLINE["onrand"],
        "leastcost": ONLINE["leastcost"],
        "herd": herd,
        "herd with moves": functools.partial(herd, max_moves=count),
    }
    fleet, results = Fleet.of(max(2, int(100 * scale))), {}
    for gamma in (None, int(10_000 * scale)):
        for name, rule in rules.items():
            history = simulate_churn(
                rule, queries, fleet, Churn(life, fleet_change_steps=gamma), SEED
            )
            kind = name if gamma is None else f"{name}, workers too"
            results[kind] = {
                "replication_factor": round(history.replication_factor(), 4),
                "moves_per_arrival": round(history.moved_queries / count, 4),
                "over_bound": history.placements_over_bound,
            }
            print_progress("churn", kind, results[kind])
    return results


PARTS = {"quality": quality, "speed": speed, "repair": repair, "churn": churn}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the query planners.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the instances")
    arguments = parser.parse_args()
    warm_up()
    chosen = arguments.parts or list(PARTS)
    print(json.dumps({name: PARTS[name](arguments.scale) for name in chosen}, allow_nan=False))


if __name__ == "__main__":
    main()
