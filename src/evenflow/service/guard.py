"""Access checks of the API, done before any handler runs.

- Host header: rejects DNS rebinding, where another site's name resolves to this server.
- Token, if one is set: `Authorization: Bearer`, or the cookie that `/?token=` sets.
- Writes: only from our own page or from a program. A page of another site cannot set the header
  `X-Evenflow` without a CORS preflight, and no preflight is answered.
- Size of a request body, rate of requests.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WRITE_HEADER = "x-evenflow"
TOKEN_COOKIE = "evenflow_token"  # noqa: S105 - its name, not a token
MAX_BODY_BYTES = 1 << 20
_SAFE_METHODS = ("GET", "HEAD")
_PUBLIC_PATHS = ("/healthz",)
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
    """Accepted token and host names; `hosts` None accepts every name and needs a token."""

    token: str | None = None
    hosts: frozenset[str] | None = frozenset(LOOPBACK)


@dataclass(slots=True)
class RateLimiter:
    """Token bucket: `rate_per_second` requests a second, up to `burst` at once."""

    rate_per_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _available: float = field(init=False)
    _updated_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._available, self._updated_at = self.burst, self.clock()

    def try_acquire(self) -> bool:
        """Count one request; False if the limit is reached."""
        now = self.clock()
        self._available = min(
            self.burst, self._available + (now - self._updated_at) * self.rate_per_second
        )
        self._updated_at = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


class _TooLargeError(Exception):
    pass


class Guard:
    """ASGI middleware around the application; runs on the event loop of the server."""

    def __init__(self, app: ASGIApp, access: AccessPolicy) -> None:
        self.app, self.access = app, access
        self._read_limiter, self._write_limiter = RateLimiter(100, 300), RateLimiter(10, 30)

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
            return _error_response(400, f"unknown host {host!r}; use one of {hosts}")
        if scope["path"] not in _PUBLIC_PATHS and not self._is_authenticated(headers):
            return self._log_in(scope)
        limiter = self._read_limiter if method in _SAFE_METHODS else self._write_limiter
        if not limiter.try_acquire():
            message = "too many requests; try again in a second"
            return _error_response(429, message, {"retry-after": "1"})
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return _too_large()
        return None if method in _SAFE_METHODS else _reject_cross_site(headers)

    def _is_authenticated(self, headers: Headers) -> bool:
        if self.access.token is None:
            return True
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = _cookie_token(headers.get("cookie", ""))
        return self._token_matches(token.strip())

    def _token_matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), (self.access.token or "").encode())

    def _log_in(self, scope: Scope) -> Response:
        """Turn the token of `/?token=` into a cookie, which removes it from the address bar."""
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._token_matches(token):
            response = RedirectResponse("/", 303)
            response.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict", path="/")
            return response
        message = "a token is required: send Authorization: Bearer TOKEN, or open /?token=TOKEN"
        return _error_response(401, message, {"www-authenticate": "Bearer"})


def _reject_cross_site(headers: Headers) -> Response | None:
    """Reject a write that a page of another site could have sent."""
    if headers.get(WRITE_HEADER) is None:
        return _error_response(403, f"writes need the header {WRITE_HEADER}: 1")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return _error_response(403, f"writes must come from this server's page, got {origin!r}")
    if site not in ("same-origin", "none"):
        return _error_response(403, f"writes must come from this server's page, got {site!r}")
    return None


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


def _error_response(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": text}, status, headers)


def _too_large() -> Response:
    return _error_response(413, f"the body exceeds {MAX_BODY_BYTES} bytes; send it in parts")


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
