"""`evenflow simulate operators`."""

from typing import Annotated, Any

import typer

REPORT_FIELDS = (
    "latency_ratio",
    "latency_ratio_p50",
    "latency_ratio_p95",
    "latency_ratio_p99",
    "system_load",
    "moves",
    "moved_load",
    "mean_std",
    "lower_bound_std",
    "mean_correlation",
)


def simulate_operators(
    workers: Annotated[int, typer.Option(help="Number of workers, one CPU each.")] = 20,
    operators: Annotated[int, typer.Option(help="Number of operators, in chains of ten.")] = 200,
    load: Annotated[float, typer.Option(help="System load level, of all CPU time.")] = 0.9,
    workload: Annotated[str, typer.Option(help="periodic or onoff.")] = "periodic",
    start: Annotated[str, typer.Option(help="First placement: random or connected.")] = "random",
    plan: Annotated[
        str | None, typer.Option(help="Planner applied once, after the warm-up.")
    ] = None,
    rebalance: Annotated[str | None, typer.Option(help="Planner applied every second.")] = None,
    seconds: Annotated[float, typer.Option(help="Simulated seconds after 20 of warm-up.")] = 200.0,
    seeds: Annotated[int, typer.Option(help="Number of runs, with seeds 0, 1, ...")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate operators on a cluster, tuple by tuple, and report latency and moves."""
    from dataclasses import asdict
    from time import perf_counter

    from evenflow.cli.output import print_json, print_result
    from evenflow.errors import InputError
    from evenflow.planning.operators.registry import warm_up
    from evenflow.research.operator_simulator.simulation import SimulationConfig, simulate_network

    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}")
    experiment = SimulationConfig(
        workers=workers,
        operators=operators,
        load=load,
        workload=workload,
        start=start,
        plan=plan,
        rebalance=rebalance,
        seconds=seconds,
    )
    for algorithm in {plan, rebalance} - {None}:
        warm_up(str(algorithm))
    simulate_network(SimulationConfig(workers=2, operators=4, seconds=2.0), 0)  # compiles
    started = perf_counter()
    runs = [asdict(simulate_network(experiment, seed)) for seed in range(seeds)]
    elapsed = perf_counter() - started
    result: dict[str, Any] = {
        "workers": workers,
        "operators": operators,
        "load": load,
        "workload": workload,
        "start": start,
        "plan": plan,
        "rebalance": rebalance,
        "seconds": seconds,
        "seeds": seeds,
        **{name: _mean([run[name] for run in runs]) for name in REPORT_FIELDS},
        "outputs": sum(run["outputs"] for run in runs),
        "services": sum(run["services"] for run in runs),
        "waiting": sum(run["waiting"] for run in runs),
        "simulate_seconds": elapsed,
        "runs": [{"seed": seed, **run} for seed, run in enumerate(runs)],
    }
    if json:
        print_json(result)
        return
    shown = {
        name.replace("_", " "): "-" if result[name] is None else f"{result[name]:,.4g}"
        for name in (*REPORT_FIELDS, "services", "simulate_seconds")
    }
    print_result(f"{operators} operators on {workers} workers, means of {seeds} runs", shown, ())


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
