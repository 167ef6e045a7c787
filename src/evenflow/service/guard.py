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

HEADER = "x-evenflow"
COOKIE = "evenflow_token"
MAX_BODY_BYTES = 1 << 20
_SAFE_METHODS = ("GET", "HEAD")
_OPEN_PATHS = ("/healthz",)
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_HEADERS = {
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
class Access:
    """Who may come in; `hosts` None admits every name, for which a token must then stand."""

    token: str | None = None
    hosts: frozenset[str] | None = frozenset(LOOPBACK)


@dataclass(slots=True)
class Bucket:
    """Requests allowed: `rate` a second, `burst` at once."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _level: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._level, self._at = self.burst, self.clock()

    def take(self) -> bool:
        """Take one, or tell that none is left."""
        now = self.clock()
        self._level = min(self.burst, self._level + (now - self._at) * self.rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class _TooLargeError(Exception):
    pass


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._reads, self._changes = Bucket(100, 300), Bucket(10, 30)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refuse(scope, headers)
        sending = _with_headers(send)
        if refused is not None:
            await refused(scope, receive, sending)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await sending(message)

        try:
            await self.app(scope, _limited(receive), watched)
        except _TooLargeError:
            if begun:
                raise
            await _error(413, f"a body may have {MAX_BODY_BYTES} bytes; send it in parts")(
                scope, receive, sending
            )

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        host, method = headers.get("host", ""), scope["method"]
        if self.access.hosts is not None and _name(host) not in self.access.hosts:
            return _error(400, f"the host {host!r} is not served here; use {_served(self.access)}")
        if scope["path"] not in _OPEN_PATHS and not self._known(headers):
            return self._log_in(scope)
        bucket = self._reads if method in _SAFE_METHODS else self._changes
        if not bucket.take():
            refused = _error(429, "too many requests; try again in a second")
            refused.headers["retry-after"] = "1"
            return refused
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return _error(413, f"a body may have {MAX_BODY_BYTES} bytes; send it in parts")
        return None if method in _SAFE_METHODS else _foreign(headers)

    def _known(self, headers: Headers) -> bool:
        if self.access.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = _cookie(headers.get("cookie", ""))
        return self._right(given.strip())

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.access.token or "").encode())

    def _log_in(self, scope: Scope) -> Response:
        """Turn the token of the first address into a cookie, so that it leaves the address bar."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._right(given):
            entered = RedirectResponse("/", 303)
            entered.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
            return entered
        refused = _error(401, "a token is needed: Authorization: Bearer, or open /?token=...")
        refused.headers["www-authenticate"] = "Bearer"
        return refused


def _foreign(headers: Headers) -> Response | None:
    """Refuse a change that another site's page could have sent."""
    if headers.get(HEADER) is None:
        return _error(403, f"a change needs the header {HEADER}: 1")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return _error(403, f"a change may come from our own page only, got {origin!r}")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return _error(403, "a change may come from our own page only")
    return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _limited(receive: Receive) -> Receive:
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY_BYTES:
            raise _TooLargeError
        return message

    return receiving


def _error(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _name(host: str) -> str:
    """Return a Host header without its port.

    >>> _name("localhost:8080"), _name("[::1]:8080"), _name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    if host.startswith("["):
        return host[: host.find("]") + 1].lower()
    return host.partition(":")[0].lower()


def _served(access: Access) -> str:
    return ", ".join(sorted(access.hosts or ()))


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
