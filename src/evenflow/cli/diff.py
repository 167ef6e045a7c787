"""`evenflow diff`: what a start would change against the checkpoint."""

from dataclasses import asdict

import typer

from evenflow.cli.options import JsonOption
from evenflow.cli.output import print_error, print_json
from evenflow.cli.run import OverrideOption, SpecArgument


def diff_command(spec: SpecArgument, sets: OverrideOption = None, json: JsonOption = False) -> None:
    """Show what a start would change against the checkpoint, before it does. Needs no Spark.

    Exit code 2 if the start would be refused.
    """
    from evenflow.spark.spec_diff import spec_diff
    from evenflow.spec import load_spec

    checked = load_spec(spec, sets or [])
    diff = spec_diff(checked)
    if json:
        print_json({**asdict(diff), "refusal": diff.refusal})
    else:
        checkpoint = checked.resolve(checked.spec.checkpoint)
        typer.echo(f"{checkpoint}: " + ("a new checkpoint" if diff.is_new else "continues"))
        for mark, names, words in (
            ("+", diff.added, "begins"),
            ("~", diff.changed, "has another definition than in the checkpoint"),
            ("=", diff.kept, "is not in the file but hosted; it goes on (cancel it to end it)"),
            ("~", diff.sources, "is a source that was added, removed or changed"),
        ):
            for name in names:
                typer.echo(f"{mark} {name} {words}")
        if diff.pending:
            typer.echo(f"{diff.pending} commands of the last run are applied first")
        if not (diff.added or diff.changed or diff.kept or diff.sources or diff.problem):
            typer.echo("no difference")
        if diff.refusal is not None:
            print_error(diff.refusal)
    if diff.refusal is not None:
        raise typer.Exit(2)
