"""HTTP API and live page of a run: see docs/service.md."""

from evenflow.service.running import Running
from evenflow.service.server import Server, serve

__all__ = ["Running", "Server", "serve"]
