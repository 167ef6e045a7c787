"""`evenflow plan keys`."""

import typer


def keys() -> None:
    """Plan which key goes to which worker."""
    raise typer.Exit(2)
