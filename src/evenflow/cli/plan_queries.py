"""`evenflow plan queries`."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
            help="Parquet or JSON lines in order of arrival: query, sources (a list), and if "
            "wanted load (1) and pinned (a worker it may not leave).",
        ),
    ],
    workers: Annotated[int, typer.Option(help="Number of workers.", metavar="K")],
    sources: Annotated[
        Path | None, typer.Option(help="source,rate of every source; none: 1.", metavar="RATES")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="mqp, ic, mms, single-source, offrand, leastcost, leastsource, leastqt, onrand, "
            "roundrobin, reserve, herd, repair or partition."
        ),
    ] = "herd",
    slack: Annotated[
        float, typer.Option(help="How far above its share a worker's load may be.")
    ] = 0.05,
    absolute_slack: Annotated[
        float, typer.Option(help="For arrivals, in queries of mean load above the share.")
    ] = 10.0,
    current: Annotated[
        Path | None,
        typer.Option(help="query,worker of what runs now.", metavar="PLACEMENT"),
    ] = None,
    max_moves: Annotated[
        int | None,
        typer.Option(
            help="Moves of running queries: herd makes none without it, repair any that pay.",
            metavar="M",
        ),
    ] = None,
    placement_out: Annotated[
        Path | None, typer.Option(help="Write query,worker here.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Repeats a plan exactly.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan which query runs on which worker, so that each source flows to few workers."""
    from evenflow.cli.output import print_json, print_result, verdicts_to_json
    from evenflow.cli.query_files import read_placement, read_queries
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.planning.queries import (
        ALGORITHMS,
        ONLINE,
        Fleet,
        PlacementProblem,
        measure_placement,
    )

    if algorithm not in ALGORITHMS:
        raise InputError(f"--algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm}")
    if not 1 <= workers <= 100_000:
        raise InputError(f"--workers must be 1 to 100,000, got {workers}")
    if max_moves is not None:
        max_moves = min(max_moves, 2**62)
    if seed < 0:
        raise InputError(f"--seed must not be negative, got {seed}")
    if algorithm == "repair" and current is None:
        raise InputError("--algorithm repair starts from a placement: give --current PLACEMENT")
    fleet = Fleet.of(workers, slack, absolute_slack)
    check_writable(placement_out, inputs=(file, sources, current))
    given = read_queries(file, sources, workers)
    at = read_placement(current, given.names, workers) if current else None
    problem = PlacementProblem.of(given.subscriptions, fleet, given.pinned, at)
    if algorithm not in ONLINE:
        problem.check_pins(problem.capacities())
    if algorithm == "single-source":
        _check_single_source(given)
    placement, seconds = _timed_plan(problem, algorithm, seed, max_moves)
    placement = replace(placement, verdicts=_name_queries(placement.verdicts, given.names))
    assessment = measure_placement(problem, placement, online=algorithm in ONLINE)
    if placement_out:
        import pyarrow as pa

        columns = {"query": given.names, "worker": pa.array(placement.workers)}
        write_tables({placement_out: pa.table(columns)})
    result = _plan_to_json(problem, algorithm, placement, assessment, seconds)
    if json:
        print_json({**result, "verdicts": verdicts_to_json(assessment.verdicts)})
    else:
        rows = {name.replace("_", " "): _format_value(value) for name, value in result.items()}
        print_result("plan queries", rows, assessment.verdicts)


def _check_single_source(given: "QueryFile") -> None:
    """Name the query that single-source cannot place."""
    import numpy as np

    sizes = np.diff(given.subscriptions.starts)
    most = int(sizes.argmax())
    if sizes[most] > 1:
        raise InputError(
            f"single-source places queries of one source each, query {given.names[most]} has "
            f"{sizes[most]}; use another algorithm"
        )


def _name_queries(verdicts: "tuple[Verdict, ...]", names: "pa.Array") -> "tuple[Verdict, ...]":
    """Call queries by their names: planners know them by position."""
    return tuple(
        replace(verdict, subject=str(names[int(verdict.subject)]))
        if verdict.code in ("arrival_over_bound", "no_room")
        else verdict
        for verdict in verdicts
    )


def _timed_plan(
    problem: "PlacementProblem", algorithm: str, seed: int, max_moves: int | None
) -> "tuple[Placement, float]":
    """Plan, and measure planning alone: a tiny plan first keeps compilation out of it."""
    import numpy as np

    from evenflow.model.subscriptions import Subscriptions
    from evenflow.planning.queries import PlacementProblem, plan_queries

    tiny = PlacementProblem.of(
        Subscriptions.from_source_sets([[0], [0]]), 2, current=np.zeros(2, dtype=np.int32)
    )
    plan_queries(tiny, algorithm, np.random.default_rng(seed), max_moves)
    begun = time.perf_counter()
    placement = plan_queries(problem, algorithm, np.random.default_rng(seed), max_moves)
    return placement, time.perf_counter() - begun


def _plan_to_json(
    problem: "PlacementProblem",
    algorithm: str,
    placement: "Placement",
    assessment: "PlacementMetrics",
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
        "feasible": assessment.feasible,
        "traffic": assessment.traffic,
        "replication_factor": assessment.replication_factor,
        "lower_bound": assessment.lower_bound,
        "max_over_mean_load": assessment.max_over_mean_load,
        "moved_queries": placement.moved,
        "plan_seconds": seconds,
        "queries_per_second": len(subscriptions) / seconds,
    }


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value}"
