"""Attacks from outside: over HTTP against a running service, and by files against the command line.

    python -m benchmarks.attacks.outside [--url http://127.0.0.1:8080] [--json]

Each attack says how it is done and what must happen. `run_attacks` also asks `/healthz` after each
one: whatever was sent, others are served. Without `--url` only the attacks by files run.
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from benchmarks.attacks.specifications import FILE_ATTACKS, TIMEOUT_SECONDS, OutsideAttack


@dataclass(frozen=True)
class AttackResult:
    """What an attack did, and whether others were served after it."""

    name: str
    how: str
    expected: str
    outcome: str
    served_after: bool
    seconds: float

    @property
    def is_repelled(self) -> bool:
        return self.served_after and self.outcome in self.expected.split(" or ")


def run_attacks(attacks: Iterable[OutsideAttack], url: str | None) -> list[AttackResult]:
    """Run attacks one after the other: HTTP attacks against `url`, others in new folders."""
    results = []
    for attack in attacks:
        started = time.monotonic()
        if attack in HTTP_ATTACKS:
            if url is None:
                continue
            outcome, served = attack.act(url), get_status(f"{url}/healthz") == "200"
        else:
            with tempfile.TemporaryDirectory() as folder:
                outcome, served = attack.act(folder), True
        seconds = round(time.monotonic() - started, 2)
        expected = " or ".join(attack.expected)
        results.append(AttackResult(attack.name, attack.how, expected, outcome, served, seconds))
    return results


def connect(url: str, data: bytes) -> socket.socket:
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port), TIMEOUT_SECONDS)
    connection.sendall(data)
    return connection


def raw(*lines: str, body: str = "", end: str = "\r\n\r\n") -> Callable[[str], str]:
    """Send lines as they are; the outcome is the status of the answer, or `closed`."""

    def act(url: str) -> str:
        host = f"Host: {urlsplit(url).netloc}"
        text = "\r\n".join(line.replace("HOST", host) for line in lines) + end + body
        try:
            connection = connect(url, text.encode("latin-1"))
        except ConnectionError:
            return "closed"
        with connection:
            return first_status(connection)

    return act


def first_status(connection: socket.socket) -> str:
    received = b""
    try:
        while b"\r\n" not in received:
            part = connection.recv(65536)
            if not part:
                return "closed"
            received += part
    except TimeoutError:
        return "no answer"
    except OSError:
        return "closed"
    return received.split()[1].decode("latin-1")


def get_status(url: str, method: str = "GET", body: str | None = None, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(url, None if body is None else body.encode(), named, method=method)  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as reply:  # noqa: S310 - http only
            return str(reply.status)
    except HTTPError as error:
        return str(error.code)
    except OSError:
        return "closed"


def write(path: str, body: str, method: str = "POST") -> Callable[[str], str]:
    """Send a change as the command line would."""
    kind = {"X_Evenflow": "1", "Content_Type": "application/json"}
    return lambda url: get_status(f"{url}{path}", method, body, **kind)


def half_open(count: int, data: str) -> Callable[[str], str]:
    """Open connections that never send a whole request; ask for health beside them."""

    def act(url: str) -> str:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(connect(url, data.encode()))
            return f"others get {get_status(f'{url}/healthz')}"

    return act


def event_streams(count: int, *, reads: bool) -> Callable[[str], str]:
    """Open event streams; ask for health beside them."""

    def act(url: str) -> str:
        head = f"GET /api/events HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n\r\n".encode()
        with ExitStack() as stack:
            for _ in range(count):
                connection = stack.enter_context(connect(url, head))
                if reads:
                    first_status(connection)
            return f"others get {get_status(f'{url}/healthz')}"

    return act


def flood(path: str, count: int, method: str = "GET") -> Callable[[str], str]:
    """Send many requests on one connection each; the outcome is the worst status."""

    def act(url: str) -> str:
        headers = {"X_Evenflow": "1", "Content_Type": "application/json"}
        body = None if method == "GET" else "{}"
        seen = {get_status(f"{url}{path}", method, body, **headers) for _ in range(count)}
        time.sleep(2)  # until the rate allows the question for health
        return max(seen)

    return act


def submissions(count: int, sql: str) -> Callable[[str], str]:
    """Submit statements at once, wait for none of them; ask for health and the page's data."""

    def act(url: str) -> str:
        host = urlsplit(url).netloc
        with ExitStack() as stack:
            for at in range(count):
                body = json.dumps({"name": f"dear_{at}", "sql": sql})
                head = f"POST {_SUBMIT} HTTP/1.1\r\nHost: {host}\r\nX-Evenflow: 1\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                stack.enter_context(connect(url, (head + body).encode()))
            seen = {get_status(f"{url}{path}") for path in ("/healthz", "/api/state")}
            return f"others get {max(seen)}"

    return act


def readers(count: int, path: str) -> Callable[[str], str]:
    """Ask for large pages at once, read none of them; ask for health beside them."""

    def act(url: str) -> str:
        head = f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n\r\n".encode()
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(connect(url, head))
            return f"others get {get_status(f'{url}/healthz')}"

    return act


_POST = ("POST /api/rollback HTTP/1.1", "HOST", "X-Evenflow: 1", "Content-Type: application/json")
_SUBMIT, _ROWS = "/api/queries", "/api/templates/none/subscriptions"
_REFUSED, _SERVED = ("400",), ("others get 200",)

HTTP_ATTACKS = (
    OutsideAttack("length and chunks", "Content-Length and Transfer-Encoding", _REFUSED,
                  raw(*_POST, "Content-Length: 2", "Transfer-Encoding: chunked", body="0\r\n\r\n")),
    OutsideAttack("two lengths", "Content-Length: 2 and 30", _REFUSED,
                  raw(*_POST, "Content-Length: 2", "Content-Length: 30", body="{}")),
    OutsideAttack("list of lengths", "Content-Length: 2, 2", _REFUSED,
                  raw(*_POST, "Content-Length: 2, 2", body="{}")),
    OutsideAttack("folded header", "a header over two lines", _REFUSED,
                  raw("GET / HTTP/1.1", "HOST", "X-A: b", " c")),
    OutsideAttack("bare line feeds", "lines that end with LF only", _REFUSED,
                  raw("GET / HTTP/1.1\nHost: 127.0.0.1", end="\n\n")),
    OutsideAttack("bad chunk", "a chunk size that is no number", _REFUSED,
                  raw(*_POST, "Transfer-Encoding: chunked", body="zz\r\n")),
    OutsideAttack("old chunks", "Transfer-Encoding in HTTP/1.0", _REFUSED,
                  raw(_POST[0].replace("1.1", "1.0"), *_POST[1:], "Transfer-Encoding: chunked",
                      body="0\r\n\r\n")),
    OutsideAttack("endless head", "a header of 1 MB", ("431", "closed"),
                  raw("GET / HTTP/1.1", "HOST", "X-A: " + "b" * 1_000_000)),
    OutsideAttack("TLS to plain HTTP", "a TLS client hello", _REFUSED,
                  raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")),
    OutsideAttack("HTTP/2", "the preface of HTTP/2", ("400", "closed"),
                  raw("PRI * HTTP/2.0", "", "SM")),
    OutsideAttack("large body", "Content-Length: 2 MB", ("413",),
                  raw(*_POST, "Content-Length: 2000000")),
    OutsideAttack("foreign host", "DNS rebinding: Host: evil.example", _REFUSED,
                  raw("GET /api/state HTTP/1.1", "Host: evil.example")),
    OutsideAttack("foreign page", "a write with Origin: http://evil.example", ("403",),
                  raw(*_POST, "Origin: http://evil.example", "Content-Length: 2", body="{}")),
    OutsideAttack("form of a foreign page", "a write without X-Evenflow", ("403",),
                  raw(_POST[0], "HOST", "Content-Type: text/plain", "Content-Length: 2",
                      body="{}")),
    OutsideAttack("path out of the page", "GET /..%2f..%2fetc/passwd", ("404",),
                  lambda url: get_status(f"{url}/..%2f..%2f..%2f..%2fetc/passwd")),
    OutsideAttack("digits", "a worker number of 5,000 digits", _REFUSED,
                  write(_SUBMIT, f'{{"name": "a", "sql": "x", "worker": {"9" * 5000}}}')),
    OutsideAttack("deep JSON", "50,000 nested lists", _REFUSED, write(_SUBMIT, "[" * 50_000)),
    OutsideAttack("half a character", "a lone surrogate in a name", _REFUSED,
                  write(_SUBMIT, '{"name": "\\ud800", "sql": "x"}')),
    OutsideAttack("name as path", "a query named ../../x", _REFUSED,
                  write(_SUBMIT, '{"name": "../../x", "sql": "SELECT 1"}')),
    OutsideAttack("number beyond int64", "a subscription with 99999999999999999999", _REFUSED,
                  write(_ROWS, '{"rows": [{"subscription": "s", "x": 99999999999999999999}]}')),
    OutsideAttack("half-open connections", "300 connections without a whole request", _SERVED,
                  half_open(300, "GET / HTTP/1.1\r\nHost: 1")),
    OutsideAttack("silent connections", "300 connections that send nothing", _SERVED,
                  half_open(300, "")),
    OutsideAttack("slow bodies", "100 bodies that never end", _SERVED,
                  half_open(100, "POST /api/rollback HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Evenflow: 1"
                                 "\r\nContent-Length: 100\r\n\r\n{")),
    OutsideAttack("event streams", "500 event streams that are read", _SERVED,
                  event_streams(500, reads=True)),
    OutsideAttack("deaf event streams", "100 event streams that nobody reads", _SERVED,
                  event_streams(100, reads=False)),
    OutsideAttack("dear statements", "8 statements of nested lambdas at once", _SERVED,
                  submissions(8, "SELECT ts, size(filter(sequence(1, 10000), x -> exists(sequence("
                                 "1, 10000), y -> y * x = -1))) AS c FROM trades")),
    OutsideAttack("readers of results", "100 requests for 10,000 results each", _SERVED,
                  readers(100, "/api/queries/counts/results?since=0&limit=10000")),
    OutsideAttack("long parameter", "a query's name of 4,000 letters in the address",
                  ("200", "404"),
                  lambda url: get_status(f"{url}/api/moves?limit=1&query={'q' * 4000}")),
    OutsideAttack("no items", "limit=0", _REFUSED,
                  lambda url: get_status(f"{url}/api/moves?limit=0")),
    OutsideAttack("zero byte", "GET /api/queries/%00", ("404",),
                  lambda url: get_status(f"{url}/api/queries/%00")),
    OutsideAttack("unknown method", "TRACE /api/state", ("405", "400", "501"),
                  raw("TRACE /api/state HTTP/1.1", "HOST")),
    OutsideAttack("not a number", "a subscription with NaN", _REFUSED,
                  write(_ROWS, '{"rows": [{"subscription": "s", "x": NaN}]}')),
    OutsideAttack("endless chunks", "2 MB in chunks of one byte", ("413", "closed"),
                  raw(*_POST, "Transfer-Encoding: chunked", body="1\r\na\r\n" * 2_000_000)),
    OutsideAttack("a name twice", "two names in one body", _REFUSED,
                  write(_SUBMIT, '{"name": "a", "name": "b", "sql": "SELECT 1"}')),
    OutsideAttack("replace nothing", "a replacement of a query that nobody hosts", ("400",),
                  write("/api/queries/none/replace", '{"sql": "SELECT ts FROM trades"}')),
    OutsideAttack("flood of changes", "60 changes in a row", ("429",),
                  flood("/api/queries/none/unpin", 60, "POST")),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = run_attacks((*HTTP_ATTACKS, *FILE_ATTACKS), given.url)
    if given.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("| attack | how | outcome | repelled |\n|---|---|---|---|")
        for r in results:
            print(f"| {r.name} | {r.how} | {r.outcome} | {'yes' if r.is_repelled else 'NO'} |")
    sys.exit(0 if all(result.is_repelled for result in results) else 1)


if __name__ == "__main__":
    main()
