"""Server-sent events over real sockets: a client that stops reading does not affect others."""

import asyncio
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from tests.support.poll import until
from tests.support.service_world import StreamSpec, World

from evenflow.service import present, schemas
from evenflow.service.correlation import correlation_matrix
from evenflow.service.course import batch_point
from evenflow.service.events import EventHub, EventsEndpoint
from evenflow.service.keeping_up import keeping_up
from evenflow.service.present import ObservedRun
from evenflow.service.watcher import PublishedState


def published(batch: int, ballast: int = 0) -> PublishedState:
    """A state with a query text of `ballast` characters."""
    world = World()
    world.queries["a"] = type(world.queries["a"])("a", text="x" * ballast)
    seen = ObservedRun(
        world.plan, world.queries, {"trades": StreamSpec()}, (world.snapshot(batch),)
    )
    points = [batch_point(world.snapshot(batch))]
    summary = schemas.RunSummary(
        status="running", batch=batch, at=0.0, batches=batch, workers=3, active=3, queries=3,
        imbalance=1.0, bound=1.1, mean_load=0.0, seconds=1.0, rows_per_second=0.0, rows=0,
        shipped_bytes=0.0, round_robin_bytes=0.0, plan_changes=0, moves=0, handed_bytes=0.0,
        late=0, set_aside=0, quarantined=0, refused=0, trigger_seconds=1.0,
        keeping_up=keeping_up([], 1.0),
    )  # fmt: skip
    queries = present.query_infos(seen)
    whole = schemas.RunState(
        summary=summary,
        workers=present.worker_infos(seen),
        queries=queries,
        streams=[],
        hot_keys=[],
        correlation=correlation_matrix(points, ()),
        problems=[],
        decisions=[],
        points=points,
    )
    delta = schemas.StateDelta(summary=summary, points=points, decisions=[], queries=queries)
    return PublishedState(seen, whole, delta, [], [])


HTTP = httpx.Client(timeout=10)  # one for all: each would read the system's certificates


class Served:
    def __init__(self, hub: EventHub, port: int, server: uvicorn.Server, loop: Any) -> None:
        self.hub, self.port, self.server, self.loop = hub, port, server, loop
        self.url = f"http://127.0.0.1:{port}/api/events"

    def publish(self, batch: int, ballast: int = 0) -> None:
        found = published(batch, ballast)

        async def on_loop() -> None:
            self.hub.publish(found)

        asyncio.run_coroutine_threadsafe(on_loop(), self.loop).result(10)


@contextmanager
def served(limit: int = 4) -> Iterator[Served]:
    hub, loop = EventHub(limit), asyncio.new_event_loop()
    app = Starlette(routes=[Route("/api/events", EventsEndpoint(hub))])
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.serve(sockets=[listening]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Served(hub, listening.getsockname()[1], server, loop)
    finally:
        server.should_exit = True
        loop.call_soon_threadsafe(hub.close)
        thread.join()
        loop.close()


def events(lines: Iterator[str], count: int) -> list[tuple[str, str]]:
    """The ids and kinds of the next events."""
    found: list[tuple[str, str]] = []
    number = ""
    for line in lines:
        if line.startswith("id: "):
            number = line.removeprefix("id: ")
        if line.startswith("event: "):
            found.append((number, line.removeprefix("event: ")))
            if len(found) == count:
                break
    return found


def test_state_first_then_deltas_and_missed_events_on_reconnect() -> None:
    with served() as service:
        service.publish(0)
        with HTTP.stream("GET", service.url) as answer:
            lines = answer.iter_lines()
            (first,) = events(lines, 1)
            service.publish(1)
            (second,) = events(lines, 1)
        assert (first[1], second[1]) == ("state", "batch")
        service.publish(2)
        service.publish(3)
        for last, kinds in (
            (second[0], ["batch", "batch"]),
            ("of-another-life", ["state"]),
            (second[0].replace("-", "-9"), ["state"]),
        ):
            headers = {"Last-Event-ID": last}
            with HTTP.stream("GET", service.url, headers=headers) as answer:
                assert [kind for _, kind in events(answer.iter_lines(), len(kinds))] == kinds


def test_one_client_too_many_gets_503() -> None:
    with served(limit=1) as service:
        service.publish(0)
        with HTTP.stream("GET", service.url) as answer:
            lines = answer.iter_lines()  # held: letting go of it hangs up
            events(lines, 1)
            refused = HTTP.get(service.url)
        assert (refused.status_code, "1 clients" in refused.json()["error"]) == (503, True)


def test_a_client_that_stops_reading_is_dropped() -> None:
    with served() as service, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", service.port))
        slow.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        slow.recv(16)  # the answer has begun; from here on nothing is read
        service.publish(0)
        with HTTP.stream("GET", service.url) as answer:
            lines = answer.iter_lines()
            events(lines, 1)
            assert len(service.hub.clients) == 2
            for batch in range(1, 40):
                service.publish(batch, ballast=1_000_000)  # far beyond what sockets buffer
                assert [kind for _, kind in events(lines, 1)] == ["batch"]
            assert service.hub.dropped_clients == 1
            assert len(service.hub.clients) == 1
            until(lambda: len(service.server.server_state.tasks) == 1)  # nothing is left of it


def test_vendored_files_match_the_lock() -> None:
    vendor = files("evenflow.service") / "page" / "vendor"
    lock = json.loads((vendor / "vendor.lock").read_text())
    for package in lock.values():
        for file, found in package["files"].items():
            assert hashlib.sha256((vendor / file).read_bytes()).hexdigest() == found["sha256"]
