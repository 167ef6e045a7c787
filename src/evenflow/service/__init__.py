"""HTTP API and live page of a run: see docs/reference/http-api.md."""

from evenflow.service.run_protocol import RunProtocol
from evenflow.service.server import Server, serve

__all__ = ["RunProtocol", "Server", "serve"]
