"""`evenflow plan queries`: which query runs on which worker."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.options import (
    CapacitiesOption,
    JsonOption,
    check_planner_options,
    read_capacities,
)
from evenflow.cli.output import format_figures, print_json, print_result, verdicts_to_json
from evenflow.errors import InputError


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
        Path | None, typer.Option(help="Rates: source,rate; default: 1 each.", metavar="RATES")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="mqp, ic, mms, single-source, offrand, leastcost, leastsource, leastqt, onrand, "
            "roundrobin, reserve, herd, repair or partition."
        ),
    ] = "herd",
    slack: Annotated[
        float, typer.Option(help="Fraction by which a worker may exceed its share.")
    ] = 0.05,
    absolute_slack: Annotated[
        float, typer.Option(help="Slack for arrivals if larger, in queries of mean load.")
    ] = 10.0,
    capacities: CapacitiesOption = None,
    current: Annotated[
        Path | None, typer.Option(help="Current placement: query,worker.", metavar="PLACEMENT")
    ] = None,
    max_moves: Annotated[
        int | None,
        typer.Option(
            help="Maximum moves of running queries; default: none for herd, no limit for repair.",
            metavar="M",
        ),
    ] = None,
    placement_out: Annotated[
        Path | None, typer.Option(help="Write the placement: query,worker.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of randomised planners.")] = 0,
    json: JsonOption = False,
) -> None:
    """Plan which query runs on which worker, so that each source flows to few workers."""
    import numpy as np
    import pyarrow as pa

    from evenflow.cli import query_files
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.planning.queries import (
        ALGORITHMS,
        ONLINE,
        Fleet,
        PlacementProblem,
        measure_placement,
    )

    check_planner_options(algorithm, ALGORITHMS, workers, seed)
    if max_moves is not None:
        max_moves = min(max_moves, 2**62)  # kernels count in int64
    if algorithm == "repair" and current is None:
        raise InputError("--algorithm repair needs a current placement: add --current PLACEMENT")
    strengths = np.array(read_capacities(capacities, workers) or (1.0,) * workers)
    fleet = Fleet(strengths, slack, absolute_slack)
    check_writable(placement_out, inputs=(file, sources, current))
    query_file = query_files.read_queries(file, sources, workers)
    running = query_files.read_placement(current, query_file.names, workers) if current else None
    problem = PlacementProblem.of(query_file.subscriptions, fleet, query_file.pinned, running)
    if algorithm not in ONLINE:
        problem.check_pins(problem.capacities())
    if algorithm == "single-source":
        query_files.check_single_source(query_file)
    placement, seconds = query_files.timed_plan(problem, algorithm, seed, max_moves)
    verdicts = query_files.name_queries(placement.verdicts, query_file.names)
    placement = replace(placement, verdicts=verdicts)
    metrics = measure_placement(problem, placement, online=algorithm in ONLINE)
    if placement_out:
        columns = {"query": query_file.names, "worker": pa.array(placement.workers)}
        write_tables({placement_out: pa.table(columns)})
    result = query_files.query_plan_to_json(problem, algorithm, placement, metrics, seconds)
    if json:
        print_json({**result, "verdicts": verdicts_to_json(metrics.verdicts)})
    else:
        print_result("plan queries", format_figures(result), metrics.verdicts)
