"""Options that several commands share."""

from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8080"

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of randomised planners.")]
UrlOption = Annotated[str, typer.Option(help="Address of the service.", envvar="EVENFLOW_URL")]
