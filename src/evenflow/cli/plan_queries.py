"""`evenflow plan queries`: which query runs on which worker."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import JsonOption
from evenflow.cli.output import format_figures, print_json, print_result, verdicts_to_json
from evenflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.cli.query_files import QueryFile
    from evenflow.model import Verdict
    from evenflow.planning.queries import Placement, PlacementMetrics, PlacementProblem


def plan_queries_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help="Parquet or JSON lines in order of arrival: query, sources (a list), and "
            "optionally load (default 1) and pinned (a fixed worker).",
        ),
    ],
    workers: Annotated[int, typer.Option(help="Number of workers.", metavar="K")],
    sources: Annotated[
        Path | None, typer.Option(help="source,rate of every source; default: 1.", metavar="RATES")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="mqp, ic, mms, single-source, offrand, leastcost, leastsource, leastqt, onrand, "
            "roundrobin, reserve, herd, repair or partition."
        ),
    ] = "herd",
    slack: Annotated[
        float, typer.Option(help="Load above its share that a worker may have.")
    ] = 0.05,
    absolute_slack: Annotated[
        float, typer.Option(help="The same for arrivals, in queries of mean load.")
    ] = 10.0,
    current: Annotated[
        Path | None,
        typer.Option(help="Current placement: query,worker.", metavar="PLACEMENT"),
    ] = None,
    max_moves: Annotated[
        int | None,
        typer.Option(
            help="Maximum moves of running queries; default: none for herd, no limit for repair.",
            metavar="M",
        ),
    ] = None,
    placement_out: Annotated[
        Path | None, typer.Option(help="Write query,worker here.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of randomised planners.")] = 0,
    json: JsonOption = False,
) -> None:
    """Plan which query runs on which worker, so that each source flows to few workers."""
    from evenflow.cli.query_files import read_placement, read_queries
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.planning.queries import (
        ALGORITHMS,
        ONLINE,
        Fleet,
        PlacementProblem,
        measure_placement,
    )
    from evenflow.planning.queries.offline import worker_capacities

    if algorithm not in ALGORITHMS:
        raise InputError(f"--algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    if not 1 <= workers <= 100_000:
        raise InputError(f"--workers must be 1 to 100,000, got {workers}")
    if max_moves is not None:
        max_moves = min(max_moves, 2**62)
    if seed < 0:
        raise InputError(f"--seed must not be negative, got {seed}")
    if algorithm == "repair" and current is None:
        raise InputError("--algorithm repair needs a current placement: add --current PLACEMENT")
    fleet = Fleet.of(workers, slack, absolute_slack)
    check_writable(placement_out, inputs=(file, sources, current))
    query_file = read_queries(file, sources, workers)
    placed = read_placement(current, query_file.names, workers) if current else None
    problem = PlacementProblem.of(query_file.subscriptions, fleet, query_file.pinned, placed)
    if algorithm not in ONLINE:
        problem.check_pins(worker_capacities(problem))
    if algorithm == "single-source":
        _check_single_source(query_file)
    placement, seconds = _timed_plan(problem, algorithm, seed, max_moves)
    placement = replace(placement, verdicts=_name_queries(placement.verdicts, query_file.names))
    metrics = measure_placement(problem, placement, online=algorithm in ONLINE)
    if placement_out:
        import pyarrow as pa

        columns = {"query": query_file.names, "worker": pa.array(placement.workers)}
        write_tables({placement_out: pa.table(columns)})
    result = _plan_to_json(problem, algorithm, placement, metrics, seconds)
    if json:
        print_json({**result, "verdicts": verdicts_to_json(metrics.verdicts)})
    else:
        print_result("plan queries", format_figures(result), metrics.verdicts)


def _check_single_source(query_file: "QueryFile") -> None:
    import numpy as np

    sizes = np.diff(query_file.subscriptions.starts)
    most = int(sizes.argmax())
    if sizes[most] > 1:
        raise InputError(
            f"--algorithm single-source needs queries with one source, but query "
            f"{query_file.names[most]} has {sizes[most]}; choose another algorithm"
        )


def _name_queries(verdicts: "tuple[Verdict, ...]", names: "pa.Array") -> "tuple[Verdict, ...]":
    """Replace the positions of queries, which planners use, by their names."""
    return tuple(
        replace(verdict, subject=str(names[int(verdict.subject)]))
        if verdict.code in ("arrival_over_bound", "no_room")
        else verdict
        for verdict in verdicts
    )


def _timed_plan(
    problem: "PlacementProblem", algorithm: str, seed: int, max_moves: int | None
) -> "tuple[Placement, float]":
    """Plan and measure the time, after a tiny plan that triggers compilation."""
    import numpy as np

    from evenflow.model.subscriptions import Subscriptions
    from evenflow.planning.queries import PlacementProblem, plan_queries

    tiny = PlacementProblem.of(
        Subscriptions.from_source_sets([[0], [0]]), 2, current=np.zeros(2, dtype=np.int32)
    )
    plan_queries(tiny, algorithm, np.random.default_rng(seed), max_moves)
    started = time.perf_counter()
    placement = plan_queries(problem, algorithm, np.random.default_rng(seed), max_moves)
    return placement, time.perf_counter() - started


def _plan_to_json(
    problem: "PlacementProblem",
    algorithm: str,
    placement: "Placement",
    metrics: "PlacementMetrics",
    seconds: float,
) -> dict[str, Any]:
    from evenflow.planning.queries.query_types import query_types

    subscriptions = problem.subscriptions
    return {
        "algorithm": algorithm,
        "workers": len(problem.fleet),
        "queries": len(subscriptions),
        "query_types": int(query_types(subscriptions).max()) + 1,
        "sources": int((subscriptions.reader_counts() > 0).sum()),
        "feasible": metrics.feasible,
        "traffic": metrics.traffic,
        "replication_factor": metrics.replication_factor,
        "lower_bound": metrics.lower_bound,
        "max_over_mean_load": metrics.max_over_mean_load,
        "moved_queries": placement.moved,
        "plan_seconds": seconds,
        "queries_per_second": len(subscriptions) / seconds,
    }
