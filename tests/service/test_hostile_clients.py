"""Clients that are slow, many, or send what is not HTTP: everybody else is served."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from tests.support.http_clients import HOST, HTTP, WRITE, answer, ask, connect, quick_limits, served
from tests.support.poll import until
from tests.support.service_world import FakeRun

from evenflow.service import Limits, Server

POST = f"POST /api/rollback HTTP/1.1\r\n{HOST}X-Evenflow: 1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as found:
        yield found


@pytest.mark.parametrize(
    ("request_text", "status", "said"),
    [
        (f"{POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "togeth"),
        (f"{POST}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}", 400, "more than one"),
        (f"{POST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}", 400, "more than one"),
        (f"{POST}Content-Length: 2, 2\r\n\r\n{{}}", 400, "more than one"),
        (f"{POST}Content-Length: +2\r\n\r\n{{}}", 400, "not valid HTTP"),
        (f"{POST}Transfer-Encoding: gzip\r\n\r\n", 501, "not valid HTTP"),
        (POST.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "1.0"),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "not valid HTTP"),
        (f"GET /api/state HTTP/1.1\r\n{HOST}X-A: b\r\n c\r\n\r\n", 400, "folded"),
        (f"GET /api/state HTTP/1.1\r\n{HOST}X-A : b\r\n\r\n", 400, "not valid HTTP"),
        ("GET /api/state HTTP/1.1\nHost: 127.0.0.1\n\n", 400, "CR LF"),
        (f"GET /api/state HTTP/1.1\r\n{HOST}{HOST}\r\n", 400, "not valid HTTP"),
        ("GET /api/state HTTP/1.1\r\n\r\n", 400, "not valid HTTP"),
        (f"GET /api/state HTTP/1.1\r\n{HOST}X: {'y' * 20_000}", 431, "not valid HTTP"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "not valid HTTP"),
        (f"GET /\x1b[31m HTTP/1.1\r\n{HOST}\r\n", 400, "not valid HTTP"),
    ],
    ids=["cl-te", "cl-twice", "cl-differ", "cl-list", "cl-sign", "te-unknown", "te-in-1.0",
         "bad-chunk", "folded", "space-colon", "bare-lf", "two-hosts", "no-host", "large-head",
         "tls", "escape"],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused_as_json(
    server: Server, request_text: str, status: int, said: str
) -> None:
    found, body = ask(server.port, request_text.encode("latin-1"))
    assert (found, said in body["error"]) == (status, True), body
    assert "\x1b" not in body["error"]


def test_a_second_request_on_a_connection_is_read_as_strictly(server: Server) -> None:
    good = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
    with connect(server.port, f"{good}{good}GET /healthz HTTP/1.1\r\n{HOST} folded\r\n\r\n") as raw:
        received = b""
        while part := raw.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200") == 2
    assert b"folded header" in received


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/api/nowhere", 404, "nothing at /api/nowhere"),
        ("GET", "/nowhere.js", 404, "nothing at /nowhere.js"),
        ("GET", "/..%2f..%2fetc/passwd", 404, "nothing at"),
        ("PUT", "/api/queries", 405, "PUT is not possible"),
        ("DELETE", "/api/queries", 405, "use GET, HEAD, POST"),
        ("OPTIONS", "/api/queries", 405, "OPTIONS"),
        ("POST", "/api/state", 405, "use GET, HEAD"),
        ("POST", "/api/events", 405, "use GET"),
        ("POST", "/", 405, "Method Not Allowed"),
        ("POST", "/api/rollback", 415, "application/json"),
        ("GET", "/api/queries?limit=x", 400, "limit must be a number"),
        ("GET", f"/api/queries?limit={'9' * 5000}", 400, "limit must be a number"),
        ("GET", "/api/decisions?all=maybe", 400, "all must be"),
        ("GET", "/api/decisions/x%1b%5b31m", 404, "no decision"),
        ("POST", "/api/workers/%D9%A3/drain", 404, "workers are numbers"),
    ],
)
def test_every_error_is_json(
    server: Server, method: str, path: str, status: int, said: str
) -> None:
    headers = WRITE if "drain" not in path else {**WRITE, "Content-Type": "application/json"}
    content = b"{}" if "drain" in path else None
    found = HTTP.request(method, f"{server.url}{path}", headers=headers, content=content)
    assert (found.status_code, said in found.json()["error"]) == (status, True), found.text
    assert len(found.json()["error"]) <= 600
    assert "\x1b" not in found.text
    assert status != 405 or path == "/" or "allow" in found.headers


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f'{{"name": "a", "sql": "x", "worker": {"9" * 5000}}}', "worker"),
        (f'{{"name": "a", "sql": "x", "worker": -{"9" * 5000}}}', "worker"),
        ('{"name": "../../x", "sql": "SELECT 1"}', "cannot name a query"),
        ('{"name": "a\\u0000b", "sql": "SELECT 1"}', "cannot name a query"),
        ("[" * 50_000, "body"),
        ('{"name": "\\ud800", "sql": "x"}', "body"),
        ("\xff", "body"),
        ('{"name": "a", "sql": "x", "worker": true}', "worker: Input should be a valid integer"),
        ('{"name": "a", "sql": "x", "worker": "1"}', "worker: Input should be a valid integer"),
        ('{"name": "a", "sql": "x", "publish": 1}', "publish: Input should be a valid boolean"),
        ('{"name": "a", "sql": "x", "name": "b"}', "'name' is given twice"),
        ('{"name": "a", "sql": "x", "n\\u0061me": "b"}', "'name' is given twice"),
    ],
    ids=["digits", "negative", "path", "nul", "deep", "half-character", "not-utf-8", "true",
         "text", "one", "twice", "twice-escaped"],
)  # fmt: skip
def test_hostile_bodies_are_refused(server: Server, body: str, said: str) -> None:
    headers = {**WRITE, "Content-Type": "application/json"}
    found = HTTP.post(f"{server.url}/api/queries", headers=headers, content=body.encode("latin-1"))
    assert (found.status_code, said in found.json()["error"]) == (400, True), found.text


@pytest.mark.parametrize(
    "rows",
    ['[{"subscription": "s", "limit": 99999999999999999999}]',
     f'[{{"subscription": "s", "limit": {"9" * 5000}}}]',
     '[{"subscription": "s", "x": [1, "a"]}]'],
    ids=["beyond-int64", "digits", "mixed"],
)  # fmt: skip
def test_hostile_subscriptions_are_refused(server: Server, rows: str) -> None:
    headers = {**WRITE, "Content-Type": "application/json"}
    found = HTTP.post(
        f"{server.url}/api/templates/a/subscriptions",
        headers=headers,
        content=f'{{"rows": {rows}}}',
    )
    assert found.status_code == 400, found.text


def test_a_bug_is_a_json_error_without_values(caplog: pytest.LogCaptureFixture) -> None:
    with served() as server:
        found = HTTP.post(
            f"{server.url}/api/queries", headers=WRITE, json={"name": "a", "sql": "crash"}
        )
    assert (found.status_code, list(found.json())) == (500, ["error"])
    assert "RuntimeError" in found.json()["error"]
    assert "4711" not in found.text
    assert "a bug" in caplog.text  # for those who can read the driver's log


def test_a_request_that_does_not_end_is_cut_off() -> None:
    with served(limits=quick_limits()) as server, ExitStack() as stack:
        begun = [
            stack.enter_context(connect(server.port, data))
            for data in (
                f"GET /healthz HTTP/1.1\r\n{HOST}X-Slow: ",
                f"{POST}Content-Length: 10\r\n\r\n{{",
                f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\n{{",
            )
        ]
        for connection in begun:
            status, body = answer(connection)
            assert (status, "was not complete after 0.3 s" in body["error"]) == (408, True)
        assert answer(stack.enter_context(connect(server.port))) == (0, None)  # nothing sent
        kept = stack.enter_context(connect(server.port, f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"))
        until(lambda: not kept.recv(65536))  # answered, then closed as it asks nothing more


def test_bytes_that_trickle_in_do_not_extend_the_time() -> None:
    with served(limits=quick_limits()) as server, connect(server.port, "GET /") as slow:
        slow.settimeout(0.05)

        def is_closed() -> bool:
            try:
                slow.sendall(b"a")
                return slow.recv(65536) is not None
            except TimeoutError:
                return False
            except OSError:
                return True

        until(is_closed)


@pytest.mark.parametrize("count", [200])
def test_half_open_connections_keep_nobody_out(count: int) -> None:
    limits = Limits(connections_per_client=32)  # their time does not run out during the test
    with served(limits=limits, health_port=0) as server, ExitStack() as stack:
        begun = [
            stack.enter_context(connect(server.port, "GET /healthz HTTP/1.1\r\nHost: 1"))
            for _ in range(count)
        ]
        health = f"http://127.0.0.1:{server.health_port}"
        for url in (server.url, health):
            for path in ("/healthz", "/readyz"):
                found = HTTP.get(f"{url}{path}")
                assert (found.status_code, found.json()["batch"]) == (200, 0)
        assert HTTP.get(f"{server.url}/api/state").status_code == 200
        assert HTTP.get(f"{health}/api/state").status_code == 404
        until(lambda: begun[0].recv(1) == b"")  # the oldest made room


def test_one_client_cannot_take_all_connections() -> None:
    limits = Limits(connections_per_client=3)
    with served(limits=limits) as server, ExitStack() as stack:
        stream = f"GET /api/events HTTP/1.1\r\n{HOST}\r\n"
        for _ in range(3):
            connection = stack.enter_context(connect(server.port, stream))
            assert b"200 OK" in connection.recv(65536)  # it is not waiting any more
        status, body = ask(server.port, "")
        assert (status, "too many connections" in body["error"]) == (503, True)
        connection.close()
        until(lambda: ask_health(server) == 200)


def ask_health(server: Server) -> int:
    try:
        return HTTP.get(f"{server.url}/healthz").status_code
    except httpx.HTTPError:
        return 0


def test_health_and_readiness_follow_the_run() -> None:
    run = FakeRun()
    with served(run, health_port=0) as server:
        health = f"http://127.0.0.1:{server.health_port}"

        def status(path: str) -> int:
            return HTTP.get(f"{health}{path}").status_code

        assert (status("/healthz"), status("/readyz")) == (200, 503)  # no batch yet
        run.batch(0)
        until(lambda: status("/readyz") == 200)
        run.broken = True
        until(lambda: (status("/healthz"), status("/readyz")) == (503, 503))
        run.broken, run.is_active = False, False
        until(lambda: (status("/healthz"), status("/readyz")) == (200, 503))  # it has ended


def test_a_connection_that_resets_at_once_is_forgotten() -> None:
    with served(limits=Limits(connections_per_client=5)) as server:
        for _ in range(50):
            raw = connect(server.port, "GET / HT")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.close()
        until(lambda: ask_health(server) == 200)


def test_the_error_of_the_parser_names_no_other_header(server: Server) -> None:
    secret = "Authorization: Bearer not-to-be-shown"  # noqa: S105
    _, body = ask(server.port, f"GET / HTTP/1.1\r\n{HOST}{secret}\r\n folded\r\n\r\n")
    assert "not-to-be-shown" not in json.dumps(body)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/api/queries", {"name": "n", "sql": "SELECT 1"}),
        ("/api/templates/n/subscriptions", {"rows": [{"subscription": "s"}]}),
    ],
)
def test_submissions_that_take_long_leave_threads_for_others(route: str, body: Any) -> None:
    """Sixty statements wait to be compiled: health, reads and a cancel are answered meanwhile."""
    release, begun = threading.Event(), threading.Semaphore(0)

    class SlowRun(FakeRun):
        def submit(self, name: str, sql: str, **more: Any) -> None:
            begun.release()
            release.wait(60)

        def subscribe(self, name: str, rows: Any) -> None:
            self.submit(name, "")

    text = json.dumps(body)
    head = POST.replace("/api/rollback", route)
    request = f"{head}Connection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}"
    run = SlowRun()
    run.batch(0)
    with served(run, limits=Limits(writes=(1000.0, 1000.0))) as slow, ExitStack() as stack:
        clients = [stack.enter_context(connect(slow.port, request)) for _ in range(60)]
        for _ in range(4):
            assert begun.acquire(timeout=30)
        assert not begun.acquire(blocking=False)
        for path in ("/healthz", "/api/state"):
            assert httpx.get(f"{slow.url}{path}", timeout=30).status_code == 200
        gone = httpx.delete(f"{slow.url}/api/queries/none", headers=WRITE, timeout=30)
        assert gone.status_code == 400
        release.set()
        assert {answer(client)[0] for client in clients} == {200}
