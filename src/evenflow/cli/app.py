"""The command tree of `evenflow`, and how errors become exit codes."""

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evenflow import __version__
from evenflow.cli import (
    alerts,
    control,
    demo,
    diff,
    inspect,
    logs,
    plan_keys,
    plan_operators,
    plan_queries,
    proposals,
    query,
    replay,
    results,
    run,
    status,
    stop,
    tenants,
)
from evenflow.cli.output import print_error
from evenflow.errors import InputError, SetupError

# A package adds commands with an entry point in this group: `register(app: typer.Typer) -> None`.
COMMANDS_GROUP = "evenflow.commands"


class ErrorHandlingGroup(TyperGroup):
    """Prints errors that the user can fix; exit code 2 for wrong input, 4 for a wrong set-up."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; print an error line instead of a traceback."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            for problem in getattr(error, "problems", (error,)):  # a specification has several
                print_error(str(problem))
            raise typer.Exit(2) from error
        except SetupError as error:
            print_error(str(error))
            raise typer.Exit(4) from error


app = typer.Typer(
    cls=ErrorHandlingGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Keep the workers of a streaming system evenly loaded.",
)
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Start": {
        "demo": demo.demo_command,
        "init": run.init_command,
        "validate": run.validate_command,
        "diff": diff.diff_command,
        "run": run.run_command,
    },
    "A run, also when it has ended": {
        "list": status.list_command,
        "status": status.status_command,
        "results": results.results_command,
        "logs": logs.logs_command,
        "moves": inspect.moves_command,
        "explain": inspect.explain_command,
        "replay": replay.replay_command,
        "whatif": replay.whatif_command,
        "stop": stop.stop_command,
    },
    "A run that is served": {
        "ps": inspect.ps_command,
        "hot-keys": inspect.hot_keys_command,
        "alerts": alerts.alerts_command,
        "tenants": tenants.tenants_command,
        "proposals": proposals.proposals_command,
        "approve": proposals.approve_command,
        "reject": proposals.reject_command,
        "submit": control.submit_command,
        "replace": control.replace_command,
        "cancel": control.cancel_command,
        "resume": control.resume_command,
        "watermark": control.watermark_command,
        "pin": control.pin_command,
        "unpin": control.unpin_command,
        "subscribe": control.subscribe_command,
        "unsubscribe": control.unsubscribe_command,
        "rollback": control.rollback_command,
    },
    "Without a run": {"query": query.query_command},
}
for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
plan_app = typer.Typer(no_args_is_help=True, help="Compute plans from files.")
app.add_typer(plan_app, name="plan", rich_help_panel="Without a run")
plan_app.command("keys")(plan_keys.plan_keys_command)
plan_app.command("queries")(plan_queries.plan_queries_command)
plan_app.command("operators")(plan_operators.plan_operators_command)
for _entry_point in entry_points(group=COMMANDS_GROUP):
    _entry_point.load()(app)
workers_app = typer.Typer(no_args_is_help=True, help="List, add or drain workers of a run.")
app.add_typer(workers_app, name="workers", rich_help_panel="A run that is served")
workers_app.command("list")(inspect.list_workers_command)
workers_app.command("add")(control.add_worker_command)
workers_app.command("drain")(control.drain_worker_command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Keep the workers of a streaming system evenly loaded."""


def main() -> None:
    """Entry point of the `evenflow` command."""
    code = 0
    try:
        app()
    except SystemExit as request:  # as in Python, a message as code means 1
        code = request.code if isinstance(request.code, int) else int(request.code is not None)
    if "duckdb" not in sys.modules:
        sys.exit(code)
    # DuckDB prints errors when the interpreter shuts down: exit without a shutdown.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
