"""`evenflow plan keys`: which key of a keyed query goes to which worker."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import (
    MAX_WORKERS,
    CapacitiesOption,
    JsonOption,
    SeedOption,
    read_capacities,
)
from evenflow.cli.output import print_json, print_loads, print_result, quiet_stdout

if TYPE_CHECKING:
    from evenflow.planning.keys import KeyConfig, KeyPlan


# Names in `planning.keys.ALGORITHMS`, repeated here to keep --help fast.
KeyAlgorithm = StrEnum(
    "KeyAlgorithm",
    "hash simple llfd mintable minmig mixed mixedbf compact readj readj-pairs pkg d-choices "
    "w-choices cover exact",
)


def plan_keys_command(
    stats: Annotated[Path, typer.Argument(help="Parquet or CSV with key, cost, state.")],
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Number of workers.")],
    algorithm: Annotated[KeyAlgorithm, typer.Option(help="Planner.")] = KeyAlgorithm.mixed,
    max_imbalance: Annotated[
        float, typer.Option(help="Fraction by which a worker may exceed the mean load.")
    ] = 0.08,
    max_table: Annotated[int, typer.Option(help="Maximum entries of the routing table.")] = 3000,
    beta: Annotated[float, typer.Option(help="Weight of cost against state.")] = 1.5,
    capacities: CapacitiesOption = None,
    current: Annotated[
        Path | None, typer.Option(help="Current routing table: key, worker. Default: hash only.")
    ] = None,
    table_out: Annotated[Path | None, typer.Option(help="Write the new routing table.")] = None,
    assignment_out: Annotated[
        Path | None, typer.Option(help="Write key, before, after for every key.")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Plan which key goes to which worker; print the cost and the gain."""
    import numpy as np

    from evenflow.cli.key_files import key_plan_tables, key_plan_to_json, read_key_file
    from evenflow.cli.table_files import check_csv_keys, check_writable, write_tables
    from evenflow.planning.keys import (
        ALGORITHMS,
        CHOICE_PLANNERS,
        KeyConfig,
        plan_for_capacities,
        warm_up,
    )
    from evenflow.planning.keys.choices import all_divisible

    config = KeyConfig(max_imbalance, max_table, beta)
    strengths = read_capacities(capacities, workers) or (1.0,) * workers
    check_writable(table_out, assignment_out, inputs=(stats, current))
    key_file = read_key_file(stats, current, workers)
    check_csv_keys(key_file.names, table_out, assignment_out)
    planner = ALGORITHMS[algorithm.value]
    with quiet_stdout():
        warm_up(algorithm.value)
        start = time.perf_counter()
        keys = key_file.loads
        if algorithm.value in CHOICE_PLANNERS:
            keys = all_divisible(keys)
        plan = plan_for_capacities(planner, keys, strengths, config, np.random.default_rng(seed))
        seconds = time.perf_counter() - start
    result = key_plan_to_json(algorithm.value, key_file, config, plan, strengths, seconds)
    write_tables(key_plan_tables(key_file, plan, table_out, assignment_out))
    if json:
        print_json(result)
    else:
        print_key_plan(result, config, plan, strengths)


def print_key_plan(
    result: dict[str, Any], config: "KeyConfig", plan: "KeyPlan", strengths: tuple[float, ...]
) -> None:
    """Print the plan as tables."""
    rows = {
        "keys": f"{result['keys']:,}",
        "workers": f"{result['workers']}",
        "feasible": "yes" if result["feasible"] else "no",
        "imbalance before": f"{result['imbalance_before']:.4f}",
        "imbalance after": f"{result['imbalance']:.4f}",
        "busiest worker / share": f"{result['max_over_mean']:.4f}",
        "table entries": f"{result['table_size']:,} of {config.max_table:,}",
        "keys moved": f"{result['moved_keys']:,}",
        "state moved": f"{result['moved_state']:,.6g} ({result['moved_state_fraction']:.2%})",
        "planned in": f"{result['plan_seconds'] * 1000:.2f} ms",
    }
    print_result(f"plan keys: {result['algorithm']}", rows, plan.verdicts)
    mean = sum(result["loads"]) / result["workers"]
    largest = max(strengths) * result["workers"] / sum(strengths)
    print_loads(result["loads"], (1 + config.max_imbalance) * mean * largest)
