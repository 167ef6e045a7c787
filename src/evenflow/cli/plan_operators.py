"""`evenflow plan operators`: which operator runs on which worker."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.options import (
    CapacitiesOption,
    JsonOption,
    check_planner_options,
    read_capacities,
)
from evenflow.cli.output import (
    format_figures,
    print_json,
    print_loads,
    print_result,
    verdicts_to_json,
)


def plan_operators_command(
    loads: Annotated[Path, typer.Argument(help="Loads: operator,sample,load[,movable,worker].")],
    workers: Annotated[int, typer.Option(help="Number of workers.")],
    algorithm: Annotated[
        str,
        typer.Option(
            help="cor-bal, cor-re, cor-se, cor-re-imp, cor-se-imp, cor-glb, llf-glb, rand-glb, "
            "llf-bal, rand-bal, variance or exact."
        ),
    ] = "cor-se-imp",
    current: Annotated[
        Path | None, typer.Option(help="Current placement: operator,worker.")
    ] = None,
    balance: Annotated[float, typer.Option(help="Balance pairs that differ more in load.")] = 0.1,
    exchange: Annotated[float, typer.Option(help="Exchange operators with a higher score.")] = 0.2,
    correlation: Annotated[float, typer.Option(help="Improve pairs of lower correlation.")] = 0.8,
    capacity: Annotated[float, typer.Option(help="Load that a worker can carry.")] = 1.0,
    capacities: CapacitiesOption = None,
    placement_out: Annotated[
        Path | None, typer.Option(help="Write the placement: operator,worker (.csv or .parquet).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of randomised planners.")] = 0,
    json: JsonOption = False,
) -> None:
    """Plan which operator runs on which worker, so that bursts cancel out."""
    import numpy as np
    import pyarrow as pa

    from evenflow.cli.operator_files import read_operator_snapshot
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.planning.operators.metrics import measure_operator_plan
    from evenflow.planning.operators.problem import OperatorConfig
    from evenflow.planning.operators.registry import ALGORITHMS, plan_operators, warm_up

    check_planner_options(algorithm, ALGORITHMS, workers, seed)
    check_writable(placement_out, inputs=(loads, current))
    strengths = read_capacities(capacities, workers)
    OperatorConfig(balance, exchange, correlation, capacity)  # reject bad options before reading
    snapshot, names = read_operator_snapshot(loads, current, workers)
    # One plan may move everything: only the cost of a move limits `variance`.
    config = OperatorConfig(
        balance,
        exchange,
        correlation,
        capacity,
        max_moves=len(names),
        capacities=None if strengths is None else tuple(capacity * each for each in strengths),
    )
    warm_up(algorithm)
    started = time.perf_counter()
    plan = plan_operators(algorithm, snapshot, config, np.random.default_rng(seed))
    seconds = time.perf_counter() - started
    result: dict[str, Any] = {
        "algorithm": algorithm,
        "workers": workers,
        "operators": len(names),
        "samples": snapshot.samples.shape[1],
        **asdict(measure_operator_plan(snapshot, plan.placement, config)),
        "plan_seconds": seconds,
    }
    if placement_out:
        write_tables({placement_out: pa.table({"operator": names, "worker": plan.placement})})
    if json:
        print_json({**result, "verdicts": verdicts_to_json(plan.verdicts)})
        return
    print_result("plan operators", format_figures(result), plan.verdicts)
    largest = float(config.worker_capacities(workers).max())
    print_loads(np.bincount(plan.placement, weights=snapshot.load, minlength=workers), largest)
