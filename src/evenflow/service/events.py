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

_REPLAY_EVENTS, _MAX_QUEUED = 60, 8
_HEARTBEAT_SECONDS, _SEND_TIMEOUT_SECONDS = 15.0, 10.0


@dataclass(eq=False, slots=True)
class EventClient:
    """One open connection; lives on the event loop of the server until it is closed."""

    queue: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MAX_QUEUED))
    disconnect: asyncio.Event = field(default_factory=asyncio.Event)


class EventHub:
    """All open connections. Lives as long as the server; used only on its event loop."""

    def __init__(self, limit: int) -> None:
        self.max_clients = limit
        self.current: PublishedState | None = None
        self.clients: set[EventClient] = set()
        self.dropped_clients = 0
        # Event ids of an earlier server process must not match ours.
        self._instance_id, self._last_event_number = uuid.uuid4().hex[:8], 0
        self._recent_events: deque[tuple[int, bytes]] = deque(maxlen=_REPLAY_EVENTS)
        self._state_event: bytes | None = None

    def publish(self, published: PublishedState) -> None:
        """Queue the delta for every client, serialised once."""
        self._last_event_number += 1
        self.current, self._state_event = published, None
        event = self._format_event("batch", published.delta.model_dump_json(exclude_unset=True))
        self._recent_events.append((self._last_event_number, event))
        for client in list(self.clients):
            self._enqueue(client, event)

    def close(self) -> None:
        """Disconnect all clients."""
        for client in list(self.clients):
            self._drop(client)

    def join(self, last_id: str) -> EventClient | None:
        """Add a client with its first events queued; None if there are too many."""
        if len(self.clients) >= self.max_clients:
            return None
        client = EventClient()
        self.clients.add(client)
        for event in self._initial_events(last_id):
            client.queue.put_nowait(event)
        return client

    def leave(self, client: EventClient) -> None:
        """Remove a client."""
        self.clients.discard(client)

    def _initial_events(self, last_id: str) -> list[bytes]:
        instance, _, number = last_id.partition("-")
        if instance == self._instance_id and number.isdecimal():
            missed = [event for n, event in self._recent_events if n > int(number)]
            if int(number) + len(missed) == self._last_event_number and len(missed) < _MAX_QUEUED:
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
        client.disconnect.set()
        self.leave(client)

    def _format_event(self, kind: str, data: str) -> bytes:
        number = f"{self._instance_id}-{self._last_event_number}"
        return f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode()


class EventsEndpoint:
    """The ASGI application of `/api/events`."""

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it disconnects, falls behind, or the server stops."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        client = self.hub.join(headers.get(b"last-event-id", ""))
        if client is None:
            message = f"{self.hub.max_clients} clients are connected, the maximum; close one"
            response = JSONResponse({"error": message}, 503, headers={"retry-after": "10"})
            await response(scope, receive, send)
            return
        tasks = [
            asyncio.ensure_future(_send_events(client, send)),
            asyncio.ensure_future(_disconnected(receive)),
            asyncio.ensure_future(client.disconnect.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.hub.leave(client)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _send_events(client: EventClient, send: Send) -> None:
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
    while True:
        # Not wait_for: before Python 3.12 it may lose a cancellation.
        try:
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                event = await client.queue.get()
        except TimeoutError:
            event = b": beat\n\n"
        async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
            await send({"type": "http.response.body", "body": event, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
