"""Access checks of the HTTP API."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evenflow.errors import InputError
from evenflow.service.guard import MAX_BODY_BYTES, AccessPolicy, Guard
from evenflow.service.limits import FailedTokens, Limits, PerClient, RateLimiter
from evenflow.service.server import serve
from evenflow.service.tokens import Caller, Role, Token, TokenBook

OURS = {"X-Evenflow": "1", "Origin": "http://127.0.0.1:8080"}
TOKEN = "a-token-of-some-length"  # noqa: S105


async def echo(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


class Browser:
    """Sends requests to a guarded application and keeps cookies."""

    def __init__(
        self, *, token: str | None = None, client: str = "10.0.0.1", **access: Any
    ) -> None:
        if token is not None:
            access["tokens"] = TokenBook([Token(Caller("mine", Role.OPERATE), token)])
        routes = [Route(path, echo, methods=["GET", "POST"]) for path in ("/", "/api", "/healthz")]
        guard = Middleware(Guard, access=AccessPolicy(**access))
        self._transport = httpx.ASGITransport(
            Starlette(routes=routes, middleware=[guard]), client=(client, 1234)
        )
        self._cookies = httpx.Cookies()

    def move_to(self, client: str) -> None:
        self._transport.client = (client, 1234)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._send("GET", path, more))

    def post(self, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._send("POST", path, more))

    async def _send(self, method: str, path: str, more: Any) -> httpx.Response:
        base = "http://127.0.0.1:8080"
        async with httpx.AsyncClient(
            transport=self._transport, base_url=base, cookies=self._cookies
        ) as client:
            answer = await client.request(method, path, **more)
            self._cookies = client.cookies
            return answer


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:80", 200), ("evil.example:8080", 400)],
)
def test_only_known_hosts_are_served(host: str, status: int) -> None:
    assert Browser().get("/api", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OURS, 200),
        ({"X-Evenflow": "1"}, 200),
        ({}, 403),
        ({**OURS, "Origin": "http://evil.example"}, 403),
        ({**OURS, "Origin": "null"}, 403),
        ({"X-Evenflow": "1", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
    ids=["page", "program", "form", "foreign", "sandboxed", "cross-site"],
)
def test_writes_need_the_header_and_the_same_origin(headers: dict[str, str], status: int) -> None:
    assert Browser().post("/api", headers=headers, json={}).status_code == status


def test_a_token_is_required_except_for_health() -> None:
    browser = Browser(token=TOKEN)
    assert browser.get("/healthz").status_code == 200
    for path in ("/", "/api", f"/api?token={TOKEN}", "/?token=wrong"):
        assert browser.get(path).status_code == 401, path
    assert browser.get("/api", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert browser.get("/api", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    entered = browser.get(f"/?token={TOKEN}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert browser.get("/api").status_code == 200  # by the cookie it now has


def test_bodies_are_limited_with_and_without_content_length() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65536 + 1):
            yield b"x" * 65536

    told = Browser().post("/api", headers=OURS, content=b"x" * (MAX_BODY_BYTES + 1))
    untold = Browser().post("/api", headers=OURS, content=parts())
    assert (told.status_code, untold.status_code) == (413, 413)
    whole = Browser().post("/api", headers=OURS, content=b"x" * MAX_BODY_BYTES)
    assert whole.json() == {"bytes": MAX_BODY_BYTES}


def test_writes_are_rate_limited() -> None:
    flood = Browser()
    found = [flood.post("/api", headers=OURS).status_code for _ in range(60)]
    assert found[:30] == [200] * 30
    assert 429 in found
    assert flood.get("/api").status_code == 200  # reading goes on


def test_rate_limiter_refills() -> None:
    now = [0.0]
    bucket = RateLimiter(2, 3, clock=lambda: now[0])
    assert [bucket.try_acquire() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert (bucket.try_acquire(), bucket.try_acquire()) == (True, False)


def test_every_response_forbids_inline_scripts_and_frames() -> None:
    for answer in (Browser().get("/api"), Browser(token=TOKEN).get("/api")):
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    ("host", "token", "said"),
    [("0.0.0.0", None, "without a token"), ("127.0.0.1", "short", "16 characters, got 5")],  # noqa: S104
)
def test_public_hosts_and_short_tokens_are_rejected(
    host: str, token: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENFLOW_TOKEN", raising=False)
    with pytest.raises(InputError, match=said):
        serve(None, host=host, port=0, token=token)  # type: ignore[arg-type]


def test_clients_have_limits_of_their_own() -> None:
    guard = Browser(limits=Limits(writes=(0.0, 2.0)))
    found = [guard.post("/api", headers=OURS).status_code for _ in range(3)]
    assert found == [200, 200, 429]
    guard.move_to("10.0.0.2")
    assert guard.post("/api", headers=OURS).status_code == 200


def test_few_clients_are_remembered() -> None:
    limiters = PerClient(lambda: RateLimiter(0, 1))
    assert limiters["first"].try_acquire()
    for number in range(10_000):
        limiters[str(number)].try_acquire()
    assert len(limiters) == 4096
    assert limiters["first"].try_acquire()  # forgotten: the least recently seen


def test_waiting_after_wrong_tokens_doubles_and_ends() -> None:
    now = [0.0]
    failed = FailedTokens(clock=lambda: now[0])
    waits = []
    for _ in range(14):
        failed.add()
        waits.append(failed.wait_seconds())
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    now[0] = 60.0
    assert failed.wait_seconds() == 0
    now[0] = 1_000.0
    failed.add()
    assert failed.wait_seconds() == 0  # the old ones are forgotten


def test_a_wrong_cookie_is_deleted() -> None:
    browser = Browser(token=TOKEN)
    answer = browser.get("/api", headers={"Cookie": "evenflow_token=of-an-earlier-run"})
    assert answer.status_code == 401
    assert 'evenflow_token=""' in answer.headers["set-cookie"]
