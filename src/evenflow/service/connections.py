"""The listening socket, and which connections it admits."""

import contextlib
import json
import socket
from collections import Counter
from typing import Any

from evenflow.errors import InputError
from evenflow.service.limits import Limits, client_name

Peer = tuple[str, int]
# The kernel closes connections whose client reads nothing for this long.
_TCP_USER_TIMEOUT_MS = 20_000
_BACKLOG = 256
# What the kernel keeps for a client that does not read; by default it may be megabytes.
_SEND_BUFFER_BYTES = 256 * 1024


class Connections:
    """Open connections of one listener. Used only on the event loop that accepts them.

    A connection without a complete request is waiting. If there is no room, a new connection takes
    the place of the oldest waiting one, of the client with the most of them. So half-open
    connections keep nobody out.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[Peer, socket.socket] = {}
        self._waiting: dict[Peer, socket.socket] = {}  # oldest first
        self._of_client: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: socket.socket, peer: Peer) -> bool:
        """Add a connection, closing waiting ones if need be; False if there is no room."""
        self._forget_closed()
        client = client_name(peer[0])
        is_full = self._of_client[client] >= self.limits.connections_per_client
        if is_full and not self._close_waiting(client):
            return False
        if len(self._open) >= self.limits.connections and not self._close_waiting():
            return False
        self._open[peer] = self._waiting[peer] = connection
        self._of_client[client] += 1
        return True

    def begin_request(self, peer: Peer) -> None:
        """Note that a request head is complete."""
        self._waiting.pop(peer, None)

    def end_request(self, peer: Peer) -> None:
        """Note that a response is complete: the connection waits for the next request."""
        if peer in self._open:
            self._waiting[peer] = self._open[peer]

    def leave(self, peer: Peer) -> None:
        """Forget a closed connection."""
        self._waiting.pop(peer, None)
        if self._open.pop(peer, None) is not None:
            client = client_name(peer[0])
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]

    def _close_waiting(self, client: str | None = None) -> bool:
        """Close the oldest waiting connection of a client, by default of the one with the most."""
        clients = Counter(client_name(address) for address, _ in self._waiting)
        if not clients:
            return False
        chosen = clients.most_common(1)[0][0] if client is None else client
        for peer, connection in self._waiting.items():
            if client_name(peer[0]) == chosen:
                with contextlib.suppress(OSError):  # it has just been closed
                    connection.shutdown(socket.SHUT_RDWR)  # the event loop sees its end
                self.leave(peer)
                return True
        return False

    def _forget_closed(self) -> None:
        """Forget connections that ended before they had a protocol: failed TLS handshakes."""
        for peer in [p for p, connection in self._waiting.items() if connection.fileno() < 0]:
            self.leave(peer)


class Listener(socket.socket):
    """A listening TCP socket that accepts what `connections` admits."""

    connections: Connections
    is_encrypted: bool

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; BlockingIOError if there is none or it was refused."""
        connection, address = super().accept()
        if self.connections.admit(connection, (str(address[0]), int(address[1]))):
            return connection, address
        with contextlib.suppress(OSError):
            if not self.is_encrypted:
                connection.setblocking(False)
                connection.send(_NO_ROOM)
        connection.close()
        raise BlockingIOError


def listen(host: str, port: int, limits: Limits, *, is_encrypted: bool = False) -> Listener:
    """Bind a listener; port 0 picks a free one."""
    listener = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.connections, listener.is_encrypted = Connections(limits), is_encrypted
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    return listener


_NO_ROOM_BODY = json.dumps({"error": "too many connections; close some or try again later"})
_NO_ROOM = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    f"Connection: close\r\nContent-Length: {len(_NO_ROOM_BODY)}\r\n\r\n{_NO_ROOM_BODY}"
).encode()
