"""The HTTP server: uvicorn on a thread of the driver process."""

import asyncio
import contextlib
import logging
import os
import socket
import threading

import uvicorn

from evenflow.errors import InputError
from evenflow.service.app import application
from evenflow.service.events import EventHub
from evenflow.service.guard import LOOPBACK, AccessPolicy
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.watcher import PublishedState, Watcher

TOKEN_VARIABLE = "EVENFLOW_TOKEN"  # noqa: S105 - the name of a variable
_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104 - refused without a token
_MAX_EVENT_CLIENTS, _MAX_CONNECTIONS = 32, 128
_MIN_TOKEN_LENGTH = 16
# The kernel closes connections whose client reads nothing for this long.
_TCP_USER_TIMEOUT_MS = 20_000


class Server:
    """Serves one run from a thread of the driver; `stop` ends the service, not the run."""

    def __init__(
        self, run: RunProtocol, host: str, port: int, token: str | None, page: bool
    ) -> None:
        self._run = run
        self._socket = _listen(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.token = token
        hosts = None if host in _WILDCARD_HOSTS else frozenset({*LOOPBACK, host.lower()})
        self._watcher, self.hub = Watcher(run), EventHub(_MAX_EVENT_CLIENTS)
        app = application(
            run,
            self._watcher,
            self.hub,
            AccessPolicy(token, hosts),
            page=page,
            started=self._start_watcher,
        )
        config = uvicorn.Config(
            app,
            log_config=None,  # the application configures logging
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            ws="none",
        )
        logging.getLogger("uvicorn.error").addFilter(_hide_incomplete_responses)
        self._server = uvicorn.Server(config)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="evenflow-service", daemon=True)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = "127.0.0.1" if self.host in _WILDCARD_HOSTS else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> "Server":
        """Start serving; return when requests are answered."""
        self._thread.start()
        self._ready.wait()
        self._run.announce(self.url)
        return self

    def stop(self) -> None:
        """Stop the service."""
        self._run.announce(None)
        self._watcher.stop()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ready.set()

    def _start_watcher(self) -> None:
        loop = asyncio.get_running_loop()

        def publish(published: PublishedState) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.hub.publish, published)

        self._watcher.start(publish, self._ready.set)


def serve(
    run: RunProtocol,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    *,
    page: bool = True,
) -> Server:
    """Serve the API and page of a run from this process; port 0 picks a free port.

    A host other than the loopback needs a token, passed here or in EVENFLOW_TOKEN.
    """
    token = token or os.environ.get(TOKEN_VARIABLE) or None
    if token is None and host not in LOOPBACK:
        raise InputError(
            f"host {host!r} is reachable from other machines and cannot be served without a token; "
            f"set {TOKEN_VARIABLE} or use 127.0.0.1"
        )
    if token is not None and len(token) < _MIN_TOKEN_LENGTH:
        raise InputError(f"a token needs at least {_MIN_TOKEN_LENGTH} characters, got {len(token)}")
    return Server(run, host.strip("[]"), port, token, page).start()


def _hide_incomplete_responses(record: logging.LogRecord) -> bool:
    """Drop log lines about responses cut off because the client stopped reading."""
    return "without completing response" not in record.getMessage()


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64
        )
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
    return listening
