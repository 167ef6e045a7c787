"""The HTTP server: uvicorn on threads of the driver process."""

import asyncio
import contextlib
import logging
import os
import resource
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from evenflow.errors import InputError
from evenflow.service.app import application
from evenflow.service.audit import AuditLog
from evenflow.service.connections import Listener, listen
from evenflow.service.events import EventHub
from evenflow.service.guard import LOOPBACK, AccessPolicy
from evenflow.service.health import HEALTH_LIMITS, health_application
from evenflow.service.http_protocol import GuardedProtocol
from evenflow.service.limits import Limits
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.tokens import Caller, Role, Token, TokenBook
from evenflow.service.watcher import PublishedState, Watcher

_log = logging.getLogger(__name__)
TOKEN_VARIABLE = "EVENFLOW_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_TOKEN_NAME = "default"  # noqa: S105
_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104 - refused without a token
_WANTED_OPEN_FILES = 4096
# What uvicorn notes of a client that stops reading, or sends what is not HTTP.
_HIDDEN_LOG_LINES = (
    "without completing response",
    "Invalid HTTP request received",
    "Unsupported upgrade request",
    "No supported WebSocket library",
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate chain and private key, PEM files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS: 1.2 or newer."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"cannot use the certificate {self.certificate} with the key {self.key}: "
                f"{error.strerror or error}"
            ) from None
        return context


class HttpThread:
    """One application on one listener: an event loop on a thread of its own."""

    def __init__(
        self, name: str, app: Any, listener: Listener, context: ssl.SSLContext | None
    ) -> None:
        self.listener = listener
        protocol: Any = partial(GuardedProtocol, connections=listener.connections)
        config = uvicorn.Config(
            app,
            http=protocol,
            loop="asyncio",
            log_config=None,  # the application configures logging
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            ws="none",
            ssl_context_factory=None if context is None else (lambda *_: context),
        )
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.listener.getsockname()[1])

    def start(self, ended: threading.Event) -> None:
        """Start the thread; it sets `ended` at its end, so that nobody waits for a failed start."""
        self._ended = ended
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and wait for the thread."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self.listener.close()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self.listener])
        finally:
            self._ended.set()


class Server:
    """Serves one run from threads of the driver; `stop` ends the service, not the run."""

    def __init__(
        self,
        run: RunProtocol,
        host: str,
        port: int,
        *,
        tokens: TokenBook,
        context: ssl.SSLContext | None,
        health_port: int | None,
        audit: AuditLog,
        limits: Limits,
        page: bool,
    ) -> None:
        self._run = run
        self.host, self.is_encrypted = host, context is not None
        self._audit = audit
        _raise_open_file_limit()
        listener = listen(host, port, limits, is_encrypted=self.is_encrypted)
        self.port = int(listener.getsockname()[1])
        hosts = None if host in _WILDCARD_HOSTS else frozenset({*LOOPBACK, host.lower()})
        self._watcher, self.hub = Watcher(run), EventHub(limits.event_clients)
        app = application(
            run,
            self._watcher,
            self.hub,
            AccessPolicy(tokens, hosts, limits, self.is_encrypted),
            audit=audit,
            page=page,
            started=self._start_watcher,
        )
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [HttpThread("evenflow-service", app, listener, context)]
        self.health_port: int | None = None
        if health_port is not None:
            try:
                health = listen(host, health_port, HEALTH_LIMITS)
            except InputError:
                listener.close()
                raise
            found = health_application(self._watcher, self.hub)
            self._threads.append(HttpThread("evenflow-health", found, health, None))
            self.health_port = self._threads[-1].port

    @property
    def url(self) -> str:
        """Address of the page."""
        host = "127.0.0.1" if self.host in _WILDCARD_HOSTS else self.host
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> "Server":
        """Start serving; return when requests are answered."""
        for thread in self._threads:
            thread.start(self._ready)
        self._ready.wait()
        self._run.announce(self.url)
        return self

    def stop(self) -> None:
        """Stop the service."""
        self._run.announce(None)
        self._watcher.stop()
        self._call_on_loop(self.hub.close)  # else the event loop waits for its clients
        for thread in self._threads:
            thread.stop()
        self._audit.close()

    def _start_watcher(self) -> None:
        self._loop = asyncio.get_running_loop()

        def publish(published: PublishedState) -> None:
            self._call_on_loop(self.hub.publish, published)

        self._watcher.start(publish, self._ready.set)

    def _call_on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call, *arguments)


def serve(
    run: RunProtocol,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    *,
    tokens: Iterable[Token] = (),
    tls: TlsFiles | None = None,
    health_port: int | None = None,
    audit: Path | None = None,
    limits: Limits | None = None,
    page: bool = True,
) -> Server:
    """Serve the API and page of a run from this process; port 0 picks a free port.

    A host other than the loopback needs a token. `token`, or EVENFLOW_TOKEN, may do everything;
    `tokens` have roles. `health_port` answers `/healthz` and `/readyz` without a token. `audit` is
    the file that commands are written to.
    """
    book = list(tokens)
    secret = token or os.environ.get(TOKEN_VARIABLE) or None
    if secret is not None:
        book.append(Token(Caller(DEFAULT_TOKEN_NAME, Role.OPERATE), secret))
    if host not in LOOPBACK:
        if not book:
            raise InputError(
                f"host {host!r} is reachable from other machines and cannot be served without a "
                f"token; set {TOKEN_VARIABLE} or use 127.0.0.1"
            )
        if tls is None:
            _log.warning(
                "host %r is served without TLS: tokens and rows can be read on the network; give "
                "a certificate, or put a proxy with TLS in front",
                host,
            )
    return Server(
        run,
        host.strip("[]"),
        port,
        tokens=TokenBook(book),
        context=None if tls is None else tls.context(),
        health_port=health_port,
        audit=AuditLog(audit),
        limits=limits or Limits(),
        page=page,
    ).start()


def _is_worth_logging(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return not any(hidden in message for hidden in _HIDDEN_LOG_LINES)


def _raise_open_file_limit() -> None:
    """Let connections not use up the files that the driver may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_WANTED_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
