"""What all benchmarks share: timing, progress, and one JSON object at the end."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from evenflow.cli.output import quiet_stdout

Rows = list[dict[str, Any]]


def least_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest of several runs: the one least disturbed by others on the machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def tell(row: Mapping[str, Any]) -> None:
    """Show a row as it is measured."""
    cells = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items())
    print("  ".join(cells), file=sys.stderr)


def main(parts: Mapping[str, Callable[[], Any]]) -> None:
    """Run the parts named on the command line, or all, and print the results."""
    asked = sys.argv[1:] or list(parts)
    unknown = [part for part in asked if part not in parts]
    if unknown:
        sys.exit(f"unknown part {unknown[0]}; there are {', '.join(parts)}")
    with quiet_stdout():  # solvers and Spark print what they like
        results = {part: parts[part]() for part in asked}
    print(json.dumps(results, indent=1))
