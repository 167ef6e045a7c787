"""Shared by all benchmarks: timing, progress on stderr, one JSON object on stdout."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from evenflow.cli.output import quiet_stdout

Rows = list[dict[str, Any]]


def least_seconds(
    work: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of the fastest run, the one least disturbed by other processes."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def print_row(row: Mapping[str, Any]) -> None:
    """Print a measured row to stderr."""
    cells = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items())
    print("  ".join(cells), file=sys.stderr)


def run_parts(parts: Mapping[str, Callable[[], Any]]) -> None:
    """Run the parts named on the command line, or all, and print their results as JSON."""
    names = sys.argv[1:] or list(parts)
    unknown = [part for part in names if part not in parts]
    if unknown:
        sys.exit(f"unknown part {unknown[0]}; known: {', '.join(parts)}")
    with quiet_stdout():  # solvers and Spark print to stdout
        results = {part: parts[part]() for part in names}
    print(json.dumps(results, indent=1))
