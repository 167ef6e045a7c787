"""Access checks of the API, done before any handler runs.

- Host header: rejects DNS rebinding, where another site's name resolves to this server.
- Token, if there are any: `Authorization: Bearer`, or the cookie that `/?token=` sets. Wrong tokens
  make a client wait.
- Writes: only from our own page or from a program. A page of another site cannot set the header
  `X-Evenflow` without a CORS preflight, and no preflight is answered.
- Size of a request body, rate of requests of one client.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.service.audit import AuditLog
from evenflow.service.limits import FailedTokens, Limits, PerClient, RateLimiter, client_name
from evenflow.service.tokens import LOCAL_CALLER, Caller, TokenBook

WRITE_HEADER = "x-evenflow"
TOKEN_COOKIE = "evenflow_token"  # noqa: S105 - its name, not a token
MAX_BODY_BYTES = 1 << 20
_TOO_LARGE = f"the body exceeds {MAX_BODY_BYTES} bytes; send it in parts"
_SAFE_METHODS, _WRITE_METHODS = ("GET", "HEAD"), ("POST", "DELETE")
_PUBLIC_PATHS = ("/healthz", "/readyz")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Accepted tokens and host names; `hosts` None accepts every name and needs a token."""

    tokens: TokenBook = field(default_factory=lambda: TokenBook(()))
    hosts: frozenset[str] | None = frozenset(LOOPBACK)
    limits: Limits = field(default_factory=Limits)
    is_encrypted: bool = False


class _TooLargeError(HTTPException):
    """The body is too long; noticed while an endpoint reads it, which answers with it."""

    def __init__(self) -> None:
        super().__init__(413, _TOO_LARGE)


class Guard:
    """ASGI middleware around the application; runs on the event loop of the server."""

    def __init__(self, app: ASGIApp, access: AccessPolicy, audit: AuditLog | None = None) -> None:
        self.app, self.access, self.audit = app, access, audit or AuditLog()
        limits = access.limits
        self._readers = PerClient(lambda: RateLimiter(*limits.reads))
        self._writers = PerClient(lambda: RateLimiter(*limits.writes))
        self._failed_tokens = PerClient(FailedTokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        rejection = self._reject(scope, headers)
        send = _add_security_headers(send)
        if rejection is not None:
            await rejection(scope, receive, send)
            return
        started = False

        async def send_tracked(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, _limit_body(receive), send_tracked)
        except _TooLargeError:
            if started:
                raise
            await _too_large()(scope, receive, send)

    def _reject(self, scope: Scope, headers: Headers) -> Response | None:
        host, method = headers.get("host", ""), scope["method"]
        if self.access.hosts is not None and _host_name(host) not in self.access.hosts:
            hosts = ", ".join(sorted(self.access.hosts))
            return error_response(400, f"unknown host {host[:80]!r}; use one of {hosts}")
        client = client_name((scope.get("client") or ("", 0))[0])
        caller = self._authenticate(scope, headers, client)
        if isinstance(caller, Response):
            return caller
        scope.setdefault("state", {})["caller"] = caller
        limiters = self._writers if method in _WRITE_METHODS else self._readers
        if not limiters[f"{client} {caller.name}"].try_acquire():
            message = "too many requests; try again in a second"
            return error_response(429, message, {"retry-after": "1"})
        length = headers.get("content-length") or "0"
        if not length.isdecimal() or len(length) > 18 or int(length) > MAX_BODY_BYTES:
            return _too_large()
        return _reject_cross_site(headers) if method in _WRITE_METHODS else None

    def _authenticate(self, scope: Scope, headers: Headers, client: str) -> Caller | Response:
        """Return who sends the request, or the response that asks for a token."""
        tokens = self.access.tokens
        if not tokens or scope["path"] in _PUBLIC_PATHS:
            return LOCAL_CALLER
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            secret = _cookie_token(headers.get("cookie", ""))
        in_address = ""
        if scope["path"] == "/" and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            in_address = parse_qs(query).get("token", [""])[0]
        given = in_address or secret.strip()
        if not given:
            return _unauthorized()
        wait = self._failed_tokens[client].wait_seconds()
        if wait > 0:
            message = f"too many wrong tokens; try again in {math.ceil(wait)} s"
            return error_response(429, message, {"retry-after": str(math.ceil(wait))})
        caller = tokens.find(given)
        if caller is None:
            self._failed_tokens[client].add()
            self.audit.add(client=client, command="authenticate", status=401)
            return _unauthorized(forget_cookie=True)
        return self._log_in(in_address) if in_address else caller

    def _log_in(self, secret: str) -> Response:
        """Turn the token of `/?token=` into a cookie, which removes it from the address bar."""
        response = RedirectResponse("/", 303)
        response.set_cookie(
            TOKEN_COOKIE,
            secret,
            httponly=True,
            samesite="strict",
            secure=self.access.is_encrypted,
            path="/",
        )
        return response


def _unauthorized(*, forget_cookie: bool = False) -> Response:
    message = "a token is required: send Authorization: Bearer TOKEN, or open /?token=TOKEN"
    response = error_response(401, message, {"www-authenticate": "Bearer"})
    if forget_cookie:  # else a page left open would go on sending it
        response.delete_cookie(TOKEN_COOKIE, path="/")
    return response


def _reject_cross_site(headers: Headers) -> Response | None:
    """Reject a write that a page of another site could have sent."""
    if headers.get(WRITE_HEADER) != "1":
        return error_response(403, f"writes need the header {WRITE_HEADER}: 1")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and _origin_host(origin) != headers.get("host"):
        return error_response(403, f"writes must come from this server's page, got {origin[:80]!r}")
    if site not in ("same-origin", "none"):
        return error_response(403, f"writes must come from this server's page, got {site[:80]!r}")
    return None


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _add_security_headers(send: Send) -> Send:
    async def send_secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_secured


def _limit_body(receive: Receive) -> Receive:
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise _TooLargeError
        return message

    return receive_limited


def error_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as all routes do: `{"error": ...}`, bounded, without control characters."""
    body: dict[str, Any] = {"error": printable(text, MAX_ERROR_CHARACTERS)}
    return JSONResponse(body, status, headers)


def _too_large() -> Response:
    return error_response(413, _TOO_LARGE)


def _host_name(host: str) -> str:
    """Return a Host header without its port.

    >>> _host_name("localhost:8080"), _host_name("[::1]:8080"), _host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    if host.startswith("["):
        return host[: host.find("]") + 1].lower()
    return host.partition(":")[0].lower()


def _cookie_token(header: str) -> str:
    try:
        cookie = SimpleCookie(header).get(TOKEN_COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value
