"""Serve the page of a run from a command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evenflow.errors import InputError, SetupError

if TYPE_CHECKING:
    from evenflow.spark.run import Run

ServePage = Callable[["Run"], str | None]


@contextmanager
def page_url(port: int | None) -> Iterator[ServePage]:
    """Yield a function that serves a run and returns its address, until the context ends."""
    servers = []

    def serve_run(run: "Run") -> str | None:
        if port is None:
            return None
        from evenflow.service import serve

        try:
            server = serve(run, port=port)
        except InputError as error:
            raise SetupError(f"{error} with --port, or use --no-page") from None
        servers.append(server)
        return server.url

    try:
        yield serve_run
    finally:
        for server in servers:
            server.stop()
