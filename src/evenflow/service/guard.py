"""Who may ask what: checked before any handler runs.

- Host: a page of another site that has its name lead here (DNS rebinding) is refused.
- Token, where one is set: `Authorization: Bearer`, or the cookie that `/?token=` sets.
- What changes something: only from our own page or a program. A foreign page can neither set the
  header nor send JSON without asking first, and we allow nobody who asks.
- Size of a body, number of requests.
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
    """Who may come in; `hosts` None admits every name, for which a token must then stand."""

    token: str | None = None
    hosts: frozenset[str] | None = frozenset(LOOPBACK)


@dataclass(slots=True)
class RateLimiter:
    """Requests allowed: `rate_per_second` a second, `burst` at once."""

    rate_per_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _available: float = field(init=False)
    _updated_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._available, self._updated_at = self.burst, self.clock()

    def try_acquire(self) -> bool:
        """Take one, or tell that none is left."""
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
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, access: AccessPolicy) -> None:
        self.app, self.access = app, access
        self._read_limiter, self._write_limiter = RateLimiter(100, 300), RateLimiter(10, 30)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._reject(scope, headers)
        sending = _add_security_headers(send)
        if refused is not None:
            await refused(scope, receive, sending)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await sending(message)

        try:
            await self.app(scope, _limit_body(receive), watched)
        except _TooLargeError:
            if begun:
                raise
            await _error_response(413, f"a body may have {MAX_BODY_BYTES} bytes; send it in parts")(
                scope, receive, sending
            )

    def _reject(self, scope: Scope, headers: Headers) -> Response | None:
        host, method = headers.get("host", ""), scope["method"]
        if self.access.hosts is not None and _host_name(host) not in self.access.hosts:
            return _error_response(
                400, f"the host {host!r} is not served here; use {_allowed_hosts(self.access)}"
            )
        if scope["path"] not in _PUBLIC_PATHS and not self._is_authenticated(headers):
            return self._log_in(scope)
        bucket = self._read_limiter if method in _SAFE_METHODS else self._write_limiter
        if not bucket.try_acquire():
            refused = _error_response(429, "too many requests; try again in a second")
            refused.headers["retry-after"] = "1"
            return refused
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return _error_response(413, f"a body may have {MAX_BODY_BYTES} bytes; send it in parts")
        return None if method in _SAFE_METHODS else _reject_cross_site(headers)

    def _is_authenticated(self, headers: Headers) -> bool:
        if self.access.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = _cookie_token(headers.get("cookie", ""))
        return self._token_matches(given.strip())

    def _token_matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.access.token or "").encode())

    def _log_in(self, scope: Scope) -> Response:
        """Turn the token of the first address into a cookie, so that it leaves the address bar."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._token_matches(given):
            entered = RedirectResponse("/", 303)
            entered.set_cookie(TOKEN_COOKIE, given, httponly=True, samesite="strict", path="/")
            return entered
        refused = _error_response(
            401, "a token is needed: Authorization: Bearer, or open /?token=..."
        )
        refused.headers["www-authenticate"] = "Bearer"
        return refused


def _reject_cross_site(headers: Headers) -> Response | None:
    """Refuse a change that another site's page could have sent."""
    if headers.get(WRITE_HEADER) is None:
        return _error_response(403, f"a change needs the header {WRITE_HEADER}: 1")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return _error_response(403, f"a change may come from our own page only, got {origin!r}")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return _error_response(403, "a change may come from our own page only")
    return None


def _add_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _limit_body(receive: Receive) -> Receive:
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY_BYTES:
            raise _TooLargeError
        return message

    return receiving


def _error_response(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _host_name(host: str) -> str:
    """Return a Host header without its port.

    >>> _host_name("localhost:8080"), _host_name("[::1]:8080"), _host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    if host.startswith("["):
        return host[: host.find("]") + 1].lower()
    return host.partition(":")[0].lower()


def _allowed_hosts(access: AccessPolicy) -> str:
    return ", ".join(sorted(access.hosts or ()))


def _cookie_token(header: str) -> str:
    try:
        found = SimpleCookie(header).get(TOKEN_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
