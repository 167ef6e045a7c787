"""Registers `evenflow reproduce` and `evenflow simulate`."""

import typer

from evenflow.research.cli.reproduce import reproduce
from evenflow.research.cli.simulate import simulate_operators

_PANEL = "Without a run"


def register(app: typer.Typer) -> None:
    """Add the commands; the entry point group `evenflow.commands` names this function."""
    simulate = typer.Typer(no_args_is_help=True, help="Simulate a cluster; nothing really runs.")
    simulate.command("operators")(simulate_operators)
    app.add_typer(simulate, name="simulate", rich_help_panel=_PANEL)
    app.command("reproduce", rich_help_panel=_PANEL)(reproduce)
