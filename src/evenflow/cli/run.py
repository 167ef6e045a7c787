"""`evenflow run`, `validate` and `init`."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from evenflow.cli.options import JsonOption
from evenflow.cli.output import count_of, print_json
from evenflow.errors import InputError

SpecArgument = Annotated[Path, typer.Argument(help="Specification, a YAML file.", metavar="SPEC")]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a field by its dotted path, as in balancing.mode=off; repeatable.",
    ),
]


def run_command(
    spec: SpecArgument,
    master: Annotated[str | None, typer.Option(help="Override spark.master.")] = None,
    workers: Annotated[int | None, typer.Option(help="Override workers.")] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", help="Stop after this time: 90s, 5m, 1h.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Override service.port.")
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Override service.health_port."),
    ] = None,
    page: Annotated[bool, typer.Option(help="Serve the page and the API.")] = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="First delete the checkpoint and output files.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAME", help="Start without this query; repeatable."),
    ] = None,
    safe: Annotated[
        bool,
        typer.Option("--safe", help="Start without queries hosted since the last good batch."),
    ] = False,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(help="`json`: one object per line, also on standard error."),
    ] = "text",
    sets: OverrideOption = None,
    json: JsonOption = False,
) -> None:
    """Run a specification until it ends, --for passes or Ctrl-C; then print a summary.

    Ctrl-C stops after the current batch, a second Ctrl-C at once. Exit codes: 0 success; 1 a
    query was quarantined or a sink is behind; 2 bad input; 4 Java, Spark or the port is not
    available; 5 the stream failed; 130 interrupted.
    """
    from evenflow.cli.known_runs import KnownRun, remember_run
    from evenflow.cli.results import print_newest_results
    from evenflow.cli.run_spec import RunOptions, run_spec
    from evenflow.cli.run_summary import print_run_summary
    from evenflow.spec import load_spec

    overrides = [f"spark.master={master}"] if master else []
    overrides += [f"workers={workers}"] if workers is not None else []
    overrides += [f"service.port={port}"] if port is not None else []
    overrides += [f"service.health_port={health_port}"] if health_port is not None else []
    checked = load_spec(spec, [*overrides, *(sets or [])])
    options = RunOptions(
        max_seconds=None if lasting is None else parse_seconds(lasting),
        serves=page,
        fresh=fresh,
        results_as_json=json,
        without=tuple(without or ()),
        safe=safe,
        log_format=log_format,
    )
    checkpoint = checked.resolve(checked.spec.checkpoint)
    remember_run(KnownRun(checked.spec.name, checkpoint, str(spec.resolve())))
    summary = run_spec(checked, options)
    if json:
        print_json(summary)
    else:
        print_run_summary(summary)
        print_newest_results(checked, str(spec))
    raise typer.Exit(int(summary["exit_code"]))


def validate_command(
    spec: SpecArgument, sets: OverrideOption = None, json: JsonOption = False
) -> None:
    """Check a specification completely, without starting Spark."""
    from evenflow.spec import SpecError, load_spec

    try:
        checked = load_spec(spec, sets or [])
    except SpecError as error:
        if json:
            print_json({"ok": False, "problems": [asdict(each) for each in error.problems]})
            raise typer.Exit(2) from None
        raise
    if json:
        print_json({"ok": True, "problems": [], "order": list(checked.order)})
        return
    sections = ("sources", "tables", "queries", "templates", "operators", "sinks")
    counts = {section: len(getattr(checked.spec, section)) for section in sections}
    counts |= {"workers": checked.spec.workers}
    said = [count_of(count, section) for section, count in counts.items() if count]
    typer.echo(f"{spec}: valid ({', '.join(said)})")


def init_command(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("evenflow.yaml"),
) -> None:
    """Write a commented example specification, ready to run."""
    from importlib.resources import files

    if path.exists():
        raise InputError(f"{path}: already exists; choose another name")
    text = files("evenflow.spec").joinpath("starter.yaml").read_text(encoding="utf-8")
    text = text.replace("evenflow.yaml", path.name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    typer.echo(f"wrote {path}; run it with: evenflow run {path}")


def parse_seconds(text: str) -> float:
    """Parse a time to run.

    >>> parse_seconds("90s"), parse_seconds("1h30m"), parse_seconds("2 minutes")
    (90.0, 5400.0, 120.0)
    """
    from evenflow.durations import duration_us

    units = {"h": "hour", "m": "minute", "s": "second"}
    whole = re.sub(r"(\d+)\s*([hms])(?![a-z])", lambda m: f"{m[1]} {units[m[2]]} ", text.lower())
    return duration_us(whole, "--for") / 1e6
