"""One HTTP connection: strict parsing, time limits, and errors of the parser as JSON.

uvicorn's protocol with h11, which accepts some requests that proxies may read differently, and
waits for ever for the head of a request.
"""

import asyncio
import json
import re
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.service.connections import Connections, Peer

_MAX_HEAD_BYTES = 16 * 1024
_END_OF_HEAD = re.compile(rb"\n\r?\n")  # as h11 finds it


class StrictConnection(h11.Connection):
    """A connection that refuses what h11 repairs."""

    refusal: tuple[int, str] = (400, "the request is not valid HTTP")

    def next_event(self) -> Any:
        """Return the next event, or raise an error for a request that is not strictly valid."""
        if self.their_state is h11.IDLE:
            problem = head_problem(self.trailing_data[0])
            if problem is not None:
                self.refusal = (400, f"the request is not valid HTTP: {problem}")
                raise h11.RemoteProtocolError(problem)
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            self.refusal = (error.error_status_hint, f"the request is not valid HTTP: {error}")
            raise


def head_problem(data: bytes) -> str | None:
    r"""Return what makes a request head ambiguous; None if nothing does, or it is incomplete.

    >>> head_problem(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    >>> head_problem(b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n")
    'a folded header'
    """
    end = _END_OF_HEAD.search(data)
    if end is None:
        return None
    first, *lines = data[: end.start() + 1].split(b"\n")[:-1]
    if not all(line.endswith(b"\r") for line in (first, *lines)):
        return "a line that does not end with CR LF"
    if any(line[:1] in (b" ", b"\t") for line in lines):
        return "a folded header"
    fields = [line.partition(b":") for line in lines]
    lengths = [value for name, _, value in fields if name.lower() == b"content-length"]
    encodings = [value for name, _, value in fields if name.lower() == b"transfer-encoding"]
    if len(lengths) > 1 or any(b"," in value for value in lengths):
        return "more than one Content-Length"
    if encodings and (lengths or first.endswith(b"HTTP/1.0\r")):
        return "Transfer-Encoding together with Content-Length or HTTP/1.0"
    return None


class GuardedProtocol(H11Protocol):
    """One connection, on the event loop of its server."""

    def __init__(self, *, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self.conn = self._strict = StrictConnection(h11.SERVER, _MAX_HEAD_BYTES)
        self._connections, self._limits = connections, connections.limits
        self._peer: Peer = ("", 0)
        self._awaited: Any = None  # the part of a request that the timer is for
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time of the first request."""
        super().connection_made(transport)
        address = transport.get_extra_info("peername")
        if address:
            self._peer = (str(address[0]), int(address[1]))
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        self._connections.leave(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        super().data_received(data)
        self._set_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._cancel_timer()
        self._connections.end_request(self._peer)
        super().on_response_complete()
        self._set_timer()

    def send_400_response(self, msg: str) -> None:
        """Reject what the parser refused."""
        self._reject(*self._strict.refusal)

    def _set_timer(self) -> None:
        state = self.conn.their_state
        if state is not h11.IDLE:
            self._connections.begin_request(self._peer)
        awaited = state if state in (h11.IDLE, h11.SEND_BODY) else None
        if awaited is self._awaited or self.transport.is_closing():
            return
        self._cancel_timer()
        self._awaited = awaited
        if awaited is not None:
            is_head = awaited is h11.IDLE
            seconds = self._limits.head_seconds if is_head else self._limits.body_seconds
            self._timer = self.loop.call_later(seconds, self._time_out, seconds)

    def _cancel_timer(self) -> None:
        self._awaited = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, seconds: float) -> None:
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # an idle connection
        else:
            self._reject(408, f"the request was not complete after {seconds:g} s; send it faster")

    def _reject(self, status: int, message: str) -> None:
        """Answer with an error, if no answer has begun, and close the connection."""
        if self.cycle is not None:  # the application has no part in it any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            body = json.dumps({"error": printable(message, MAX_ERROR_CHARACTERS)}).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            reason = HTTPStatus(status).phrase.encode()
            response = h11.Response(status_code=status, headers=headers, reason=reason)
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()
