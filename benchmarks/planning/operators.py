"""Speed and quality of the operator planners. Prints one JSON object; progress to stderr.

Usage: python -m benchmarks.planning.operators [part ...]   (default: all, about ten minutes)

speed      COR-GLB, 10 operators a worker, 10 samples, against its plain version and the paper
pair       one pairwise step, against the same
large      1,000 workers, 10,000 operators: variance, domains, decentralised
gap        distance from the proven optimum on small cases
simulator  tuple services per second on one core
static     latency of one plan, never changed, at three load levels
dynamic    latency of rebalancing every second, from a bad start and under bursts

Seconds are CPU seconds of one core: other processes disturb them less.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import least_seconds, print_row, run_parts
from evenflow.model.arrays import Floats
from evenflow.planning.operators import (
    ALGORITHMS,
    OperatorConfig,
    OperatorSnapshot,
    disjoint_domains,
    measure_operator_plan,
    plan_decentralised,
    plan_domains,
    plan_operators,
    warm_up,
)
from evenflow.planning.operators.cor_glb import cor_glb, cor_glb_plain
from evenflow.planning.operators.load_statistics import centred
from evenflow.planning.operators.pairwise import (
    EXCHANGE,
    ONE_WAY,
    REDISTRIBUTE,
    apply_step,
    apply_step_plain,
)
from evenflow.planning.operators.variance import variance_objective
from evenflow.planning.operators.worker_lists import OperatorRows
from evenflow.research.experiments.borealis.correlation import operator_snapshot
from evenflow.research.operator_simulator.ideal_rates import ideal_loads
from evenflow.research.operator_simulator.simulation import SimulationConfig, simulate_network
from evenflow.research.operator_simulator.workload import (
    calibrate_streams,
    chain_network,
    periodic_streams,
)

PAPER_SECONDS = {10: 0.5, 20: 3.4, 50: 54.0}
PAPER_PAIR_SECONDS = 0.006
SEEDS = range(10)


def loads(workers: int, seed: int, each: int = 10, samples: int = 10) -> Floats:
    """Measured loads of the paper's default workload: a window of 10 s at load 0.9."""
    rng = np.random.default_rng(seed)
    network = chain_network(workers * each, each, 0.001, 0.2, rng)
    streams = periodic_streams(network.source_count, 10.0, 10.0, 4.0, rng)
    streams = calibrate_streams(network, streams, workers, 0.9, 10.0, rng)
    edges = np.linspace(0.0, 10.0, samples + 1)
    counts = np.stack([np.histogram(s.draw_arrivals(rng), edges)[0] for s in streams])
    return ideal_loads(network, counts * samples / 10.0)


def operator_rows(samples: Floats) -> OperatorRows:
    load = samples.mean(axis=1)
    return OperatorRows(centred(samples), load, np.ones(len(load), dtype=bool), load)


def least_cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    return least_seconds(work, repeats, time.process_time)


def speed() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    warm_up("cor-glb")
    for workers in (10, 20, 50, 100, 200, 1000):
        samples = loads(workers, 0)
        rows_of, start = operator_rows(samples), np.zeros(len(samples), dtype=np.int32)
        placement = start.copy()

        def run(args: Any = (0.8, rows_of, placement, workers)) -> None:
            cor_glb(*args)

        seconds = least_cpu_seconds(run, 3 if workers <= 200 else 1)
        metrics = measure_operator_plan(operator_snapshot(samples, workers), placement)
        row: dict[str, Any] = {
            "workers": workers,
            "seconds": seconds,
            "std_over_bound": metrics.mean_std / metrics.lower_bound_std,
            "mean_correlation": metrics.mean_correlation,
        }
        if rows:
            last = rows[-1]
            row["growth_exponent"] = float(
                np.log(seconds / last["seconds"]) / np.log(workers / last["workers"])
            )
        if workers in PAPER_SECONDS:
            row["paper_seconds"] = PAPER_SECONDS[workers]
            row["times_faster_than_paper"] = PAPER_SECONDS[workers] / seconds
        if workers <= 20:
            started = time.process_time()
            plain = cor_glb_plain(0.8, rows_of, start, workers)
            row["plain_seconds"] = time.process_time() - started
            row["times_faster_than_plain"] = row["plain_seconds"] / seconds
            row["same_plan_as_plain"] = bool((plain == placement).all())
        rows.append(row)
        print_row(row)
    return rows


def pair() -> list[dict[str, Any]]:
    rows = []
    operators = operator_rows(loads(2, 1))
    start = (np.arange(len(operators.load)) < 12).astype(np.int64)
    for name, step in (("cor-bal", ONE_WAY), ("cor-re", REDISTRIBUTE), ("cor-se", EXCHANGE)):

        def kernel(step: int = step, times: int = 1000) -> None:
            for _ in range(times):
                apply_step(step, 0.2, operators, start.copy())

        def plain(step: int = step) -> None:
            apply_step_plain(step, 0.2, operators, start)

        kernel(times=1)
        seconds, slow = least_cpu_seconds(kernel) / 1000, least_cpu_seconds(plain)
        row = {
            "step": name,
            "microseconds": 1e6 * seconds,
            "times_faster_than_plain": slow / seconds,
            "times_faster_than_paper": PAPER_PAIR_SECONDS / seconds,
        }
        rows.append(row)
        print_row(row)
    return rows


def large(workers: int = 1000) -> list[dict[str, Any]]:
    rows = []
    for name in ("cor-glb", "cor-se-imp", "variance", "llf-glb"):
        warm_up(name)
    config, new = OperatorConfig(), operator_snapshot(loads(workers, 0), workers)
    anywhere = np.random.default_rng(1).integers(0, workers, len(new.load)).astype(np.int32)
    running = OperatorSnapshot(new.series, workers, anywhere)
    by_load = np.bincount(anywhere, weights=new.load, minlength=workers).astype(float)
    parts = disjoint_domains(np.zeros(workers), 20), disjoint_domains(by_load, 20)
    cases: list[tuple[str, OperatorSnapshot, Callable[[Any], Any]]] = [
        ("llf-glb", new, lambda rng: plan_operators("llf-glb", new, config, rng).placement),
        ("variance", new, lambda rng: plan_operators("variance", new, config, rng).placement),
        *(
            (f"{name} by domains of 20", new,
             lambda rng, name=name: plan_domains(name, new, config, rng, parts[0]))
            for name in ("cor-glb", "variance")
        ),
        ("random start", running, lambda rng: anywhere),
        ("cor-se-imp", running,
         lambda rng: plan_operators("cor-se-imp", running, config, rng).placement),
        ("cor-se-imp by domains of 20", running,
         lambda rng: plan_domains("cor-se-imp", running, config, rng, parts[1])),
        ("variance by domains of 20", running,
         lambda rng: plan_domains("variance", running, config, rng, parts[1])),
        ("cor-se-imp decentralised, 1 round", running,
         lambda rng: plan_decentralised("cor-se-imp", running, config, rng, 20, 1)),
        ("cor-se-imp decentralised, 4 rounds", running,
         lambda rng: plan_decentralised("cor-se-imp", running, config, rng, 20, 4)),
    ]  # fmt: skip
    for name, snapshot, work in cases:
        started = time.process_time()
        placement = work(np.random.default_rng(0))
        seconds = time.process_time() - started
        metrics = measure_operator_plan(snapshot, placement)
        row = {
            "planner": name,
            "seconds": seconds,
            "std_over_bound": metrics.mean_std / metrics.lower_bound_std,
            "mean_std": metrics.mean_std,
            "mean_correlation": metrics.mean_correlation,
            "imbalance": metrics.imbalance,
            "moved_load": metrics.moved_load,
        }
        rows.append(row)
        print_row(row)
    return rows


def gap() -> list[dict[str, Any]]:
    rows = []
    for workers, each in ((2, 6), (3, 4), (4, 4), (5, 3)):
        cases = [operator_snapshot(loads(workers, seed, each), workers) for seed in SEEDS]
        best, proved = [], 0
        for case in cases:
            plan = plan_operators("exact", case, OperatorConfig(), np.random.default_rng(0))
            proved += all(verdict.code != "optimum_not_proved" for verdict in plan.verdicts)
            best.append(variance_objective(case, plan.placement))
        for name in ("variance", "cor-glb", "llf-glb"):
            plans = [
                plan_operators(name, case, OperatorConfig(), np.random.default_rng(1))
                for case in cases
            ]
            gaps = [
                variance_objective(case, plan.placement) / least - 1
                for case, plan, least in zip(cases, plans, best, strict=True)
            ]
            row = {
                "workers": workers,
                "operators": workers * each,
                "proved": proved,
                "planner": name,
                "mean_gap_percent": 100 * float(np.mean(gaps)),
                "worst_gap_percent": 100 * float(np.max(gaps)),
            }
            rows.append(row)
            print_row(row)
    return rows


def simulator() -> list[dict[str, Any]]:
    rows = []
    simulate_network(SimulationConfig(workers=2, operators=4, seconds=2), 0)
    warm_up("variance")
    for workers in (20, 200):
        experiment = SimulationConfig(workers=workers, operators=10 * workers, plan="llf-glb")
        if workers > 20:
            experiment = SimulationConfig(workers=workers, operators=10 * workers, seconds=10)
        times, services = [], 0
        for seed in range(3):
            started = time.process_time()
            services = simulate_network(experiment, seed).services
            times.append(time.process_time() - started)
        row = {
            "workers": workers,
            "simulated_seconds": experiment.end_seconds,
            "services": services,
            "seconds": min(times),
            "million_services_per_second": services / min(times) / 1e6,
            "engine_million_services_per_second": _engine_rate(workers),
        }
        rows.append(row)
        print_row(row)
    return rows


def _engine_rate(workers: int) -> float:
    """Return services per second of the event loop, without workload generation and planning."""
    from evenflow.research.operator_simulator.cluster import Cluster
    from evenflow.research.operator_simulator.workload import merge_arrivals

    rng = np.random.default_rng(0)
    network = chain_network(10 * workers, 10, 0.001, 0.2, rng)
    seconds = 2000.0 / workers
    streams = periodic_streams(network.source_count, seconds, 10.0, 4.0, rng)
    streams = calibrate_streams(network, streams, workers, 0.9, seconds, rng)
    times, sources = merge_arrivals([stream.draw_arrivals(rng) for stream in streams])
    placement = (rng.permutation(10 * workers) % workers).astype(np.int32)
    best = 0.0
    for _ in range(3):
        cluster = Cluster(network, workers, placement, times, sources)
        started = time.process_time()
        cluster.run_until(until=seconds)
        best = max(best, cluster.services / (time.process_time() - started))
    return best / 1e6


def static() -> list[dict[str, Any]]:
    return [
        _latency(load=load, plan=name)
        for load in (0.8, 0.9, 0.95)
        for name in ("cor-glb", "llf-glb", "rand-glb", "variance")
    ]


def dynamic() -> list[dict[str, Any]]:
    rows = [
        _latency(load=load, start="connected", rebalance=name)
        for load in (0.8, 0.9)
        for name in ("cor-bal", "llf-bal", "rand-bal", "cor-se-imp", "cor-re-imp", "variance")
    ]
    both = (("cor-glb", "cor-se-imp"), ("llf-glb", "llf-bal"), ("variance", "variance"))
    return rows + [
        _latency(load=load, workload="onoff", plan=first, rebalance=then)
        for load in (0.6, 0.7)
        for first, then in both
    ]


def _latency(**options: Any) -> dict[str, Any]:
    for name in {options.get("plan"), options.get("rebalance")} & set(ALGORITHMS):
        warm_up(str(name))
    runs = [simulate_network(SimulationConfig(**options), 100 + seed) for seed in SEEDS]
    fields = (
        "latency_ratio", "latency_ratio_p50", "latency_ratio_p99", "moves", "moved_load",
        "mean_std", "lower_bound_std", "mean_correlation",
    )  # fmt: skip
    means = {name: float(np.mean([getattr(run, name) for run in runs])) for name in fields}
    row = {**options, **means}
    print_row(row)
    return row


PARTS = {
    "speed": speed,
    "pair": pair,
    "large": large,
    "gap": gap,
    "simulator": simulator,
    "static": static,
    "dynamic": dynamic,
}

if __name__ == "__main__":
    run_parts(PARTS)
