"""Options that several commands share."""

from collections.abc import Collection
from typing import Annotated

import typer

from evenflow.errors import InputError

MAX_WORKERS = 100_000
DEFAULT_URL = "http://127.0.0.1:8080"

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of randomised planners.")]
UrlOption = Annotated[str, typer.Option(help="Address of the service.", envvar="EVENFLOW_URL")]
RunOption = Annotated[
    str | None,
    typer.Option(help="The run: its specification, checkpoint or address. Default: --url."),
]

CapacitiesOption = Annotated[
    str | None,
    typer.Option(help="Relative strength of each worker, as in 2,1,1. Default: all equal."),
]


def read_capacities(text: str | None, workers: int) -> tuple[float, ...] | None:
    """Read --capacities: a number above 0 for each worker."""
    if text is None:
        return None
    try:
        given = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--capacities {text!r}: write numbers, as in 2,1,1") from None
    if len(given) != workers or not all(0 < capacity < float("inf") for capacity in given):
        raise InputError(
            f"--capacities {text!r}: give a number above 0 for each of the {workers} workers"
        )
    return given


def check_planner_options(
    algorithm: str, algorithms: Collection[str], workers: int, seed: int
) -> None:
    """Raise an InputError for an unknown algorithm, or workers or seed out of range."""
    if algorithm not in algorithms:
        raise InputError(f"--algorithm must be one of {', '.join(algorithms)}, got {algorithm!r}")
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"--workers must be 1 to {MAX_WORKERS:,}, got {workers}")
    if seed < 0:
        raise InputError(f"--seed must not be negative, got {seed}")
