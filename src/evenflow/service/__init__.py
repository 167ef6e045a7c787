"""HTTP API and live page of a run: see docs/reference/http-api.md."""

from evenflow.service.limits import Limits
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.server import Server, TlsFiles, serve
from evenflow.service.tokens import Caller, Role, Token

__all__ = ["Caller", "Limits", "Role", "RunProtocol", "Server", "TlsFiles", "Token", "serve"]
