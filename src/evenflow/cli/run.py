"""`evenflow run`: play a specification on Spark, watch it, say what came of it."""

import re
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.output import print_json
from evenflow.errors import InputError

SpecArgument = Annotated[
    Path, typer.Argument(help="The specification, a YAML file.", metavar="SPEC")
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field by its dotted path."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def run_command(
    spec: SpecArgument,
    master: Annotated[str | None, typer.Option(help="Spark master instead of the file's.")] = None,
    workers: Annotated[int | None, typer.Option(help="Workers instead of the file's.")] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", help="End after this time: 90s, 5m, 1h.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8080,
    page: Annotated[bool, typer.Option(help="Serve the page and the API.")] = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete the checkpoint and what file sinks hold first.")
    ] = False,
    sets: OverrideOption = None,
    json: JsonOption = False,
) -> None:
    """Run a specification until it ends, --for passes or Ctrl-C; then sum up.

    Ctrl-C ends after the batch under way, a second one at once. Exit codes: 0 all went well; 1 a
    query was quarantined or a sink lags behind; 2 bad input; 4 Java, Spark or a port refuses;
    5 the stream failed; 130 interrupted.
    """
    from evenflow.cli.run_spec import RunOptions, run_spec
    from evenflow.cli.run_summary import print_run_summary
    from evenflow.spec import load_spec

    given = [f"spark.master={master}"] if master else []
    given += [f"workers={workers}"] if workers is not None else []
    checked = load_spec(spec, [*given, *(sets or [])])
    wishes = RunOptions(
        max_seconds=None if lasting is None else parse_seconds(lasting),
        port=port if page else None,
        fresh=fresh,
        results_as_json=json,
    )
    summary = run_spec(checked, wishes)
    if json:
        print_json(summary)
    else:
        print_run_summary(summary)
    raise typer.Exit(int(summary["exit_code"]))


def validate_command(
    spec: SpecArgument, sets: OverrideOption = None, json: JsonOption = False
) -> None:
    """Check a specification as a whole, without starting Spark."""
    from evenflow.spec import SpecError, load_spec

    try:
        checked = load_spec(spec, sets or [])
    except SpecError as error:
        if json:
            found = [{name: getattr(p, name) for name in p.__slots__} for p in error.problems]
            print_json({"ok": False, "problems": found})
            raise typer.Exit(2) from None
        raise
    said = checked.spec
    if json:
        print_json({"ok": True, "problems": [], "order": list(checked.order)})
        return
    counts = (
        f"{len(getattr(said, part))} {part}"
        for part in ("sources", "tables", "queries", "templates", "operators", "sinks")
        if getattr(said, part)
    )
    typer.echo(f"{spec}: fine ({', '.join(counts)}, {said.workers} workers)")


def init_command(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("evenflow.yaml"),
) -> None:
    """Write a commented specification that runs as it is."""
    from importlib.resources import files

    if path.exists():
        raise InputError(f"{path} is there already; give another name")
    text = files("evenflow.spec").joinpath("starter.yaml").read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    typer.echo(f"wrote {path}; try: evenflow run {path}")


def parse_seconds(text: str) -> float:
    """Read a time to run.

    >>> parse_seconds("90s"), parse_seconds("1h30m"), parse_seconds("2 minutes")
    (90.0, 5400.0, 120.0)
    """
    from evenflow.durations import duration_us

    units = {"h": "hour", "m": "minute", "s": "second"}
    whole = re.sub(r"(\d+)\s*([hms])(?![a-z])", lambda m: f"{m[1]} {units[m[2]]} ", text.lower())
    return duration_us(whole, "--for") / 1e6
