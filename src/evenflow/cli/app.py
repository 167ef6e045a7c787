"""The command tree, and how errors leave it."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evenflow import __version__
from evenflow.cli import plan_keys, plan_operators, plan_queries, reproduce, simulate_operators
from evenflow.cli.output import fail
from evenflow.errors import InputError


class OneLineErrors(TyperGroup):
    """Turn bad input into one clear line on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the caller must mend becomes a line, not a traceback."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            fail(str(error))
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Keep the workers of a streaming system evenly loaded.",
)
plan = typer.Typer(no_args_is_help=True, help="Plan from files; changes nothing that runs.")
app.add_typer(plan, name="plan")
plan.command("keys")(plan_keys.keys)
plan.command("queries")(plan_queries.queries)
plan.command("operators")(plan_operators.operators)
simulate = typer.Typer(no_args_is_help=True, help="Simulate a cluster; nothing really runs.")
app.add_typer(simulate, name="simulate")
simulate.command("operators")(simulate_operators.operators)
app.command("reproduce")(reproduce.reproduce)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep the workers of a streaming system evenly loaded."""


def main() -> None:
    """Entry point of the `evenflow` command."""
    app()
