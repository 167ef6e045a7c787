"""Server-sent events: the whole state on connect, then one delta per batch.

Each client has a short queue; a client that falls behind is dropped. Its browser reconnects with
the id of the last event it saw, and gets the missed events or the whole state.
"""

import asyncio
import uuid
from collections import deque
from dataclasses import dataclass, field

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from evenflow.service.watcher import PublishedState

_MAX_RECENT_EVENTS, _MAX_QUEUED_EVENTS = 60, 8
_HEARTBEAT_SECONDS, _SEND_TIMEOUT_SECONDS = 15.0, 10.0


@dataclass(eq=False, slots=True)
class EventClient:
    """One open connection; lives on the event loop of the server until it is closed."""

    queue: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MAX_QUEUED_EVENTS))
    dropped: asyncio.Event = field(default_factory=asyncio.Event)


class EventHub:
    """All open connections. Lives as long as the server; used only on its event loop."""

    def __init__(self, max_clients: int) -> None:
        self.max_clients = max_clients
        self.current: PublishedState | None = None
        self.clients: set[EventClient] = set()
        self.dropped_clients = 0
        # Part of each event id: a client of an earlier server process gets the whole state.
        self._instance_id, self._last_event_number = uuid.uuid4().hex[:8], 0
        self._recent_events: deque[tuple[int, bytes]] = deque(maxlen=_MAX_RECENT_EVENTS)
        self._state_event: bytes | None = None  # `current.state`, serialised on first use

    def publish(self, published: PublishedState) -> None:
        """Serialise the delta once and queue it for every client."""
        self._last_event_number += 1
        self.current, self._state_event = published, None
        delta = published.delta
        unchanged = {name for name in type(delta).model_fields if getattr(delta, name) is None}
        event = self._format_event("batch", delta.model_dump_json(exclude=unchanged))
        self._recent_events.append((self._last_event_number, event))
        for client in list(self.clients):
            self._enqueue(client, event)

    def close(self) -> None:
        """Disconnect all clients, and let none connect again."""
        self.max_clients = 0
        for client in list(self.clients):
            self._drop(client)

    def join(self, last_event_id: str) -> EventClient | None:
        """Add a client and queue its first events; None if too many clients are connected."""
        if len(self.clients) >= self.max_clients:
            return None
        client = EventClient()
        self.clients.add(client)
        for event in self._initial_events(last_event_id):
            client.queue.put_nowait(event)
        return client

    def leave(self, client: EventClient) -> None:
        """Remove a client."""
        self.clients.discard(client)

    def _initial_events(self, last_event_id: str) -> list[bytes]:
        instance_id, _, number = last_event_id.partition("-")
        if instance_id == self._instance_id and number.isdecimal():
            missed = [event for n, event in self._recent_events if n > int(number)]
            is_complete = int(number) + len(missed) == self._last_event_number
            if is_complete and len(missed) < _MAX_QUEUED_EVENTS:
                return missed
        if self.current is None:
            return []
        if self._state_event is None:
            self._state_event = self._format_event("state", self.current.state.model_dump_json())
        return [self._state_event]

    def _enqueue(self, client: EventClient, event: bytes) -> None:
        try:
            client.queue.put_nowait(event)
        except asyncio.QueueFull:
            self._drop(client)

    def _drop(self, client: EventClient) -> None:
        self.dropped_clients += 1
        client.dropped.set()
        self.leave(client)

    def _format_event(self, kind: str, data: str) -> bytes:
        event_id = f"{self._instance_id}-{self._last_event_number}"
        return f"id: {event_id}\nevent: {kind}\ndata: {data}\n\n".encode()


class EventsEndpoint:
    """The ASGI application of `/api/events`."""

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it disconnects, falls behind, or the server stops."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        client = self.hub.join(headers.get(b"last-event-id", ""))
        if client is None:
            message = f"at most {self.hub.max_clients} clients can be connected; close one"
            response = JSONResponse({"error": message}, 503, headers={"retry-after": "10"})
            await response(scope, receive, send)
            return
        tasks = [
            asyncio.ensure_future(_send_events(client, send)),
            asyncio.ensure_future(_client_disconnected(receive)),
            asyncio.ensure_future(client.dropped.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.hub.leave(client)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _send_events(client: EventClient, send: Send) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
    while True:
        # Not wait_for: before Python 3.12 it may lose a cancellation.
        try:
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                event = await client.queue.get()
        except TimeoutError:
            event = b": heartbeat\n\n"  # a comment, which clients ignore
        async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
            await send({"type": "http.response.body", "body": event, "more_body": True})


async def _client_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
