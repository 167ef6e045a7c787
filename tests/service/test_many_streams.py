"""Five hundred clients of `/api/events`: each gets every batch, and slow ones are dropped."""

import asyncio
import socket
from dataclasses import replace

import pytest
from tests.support.http_clients import HOST, HTTP, connect, served
from tests.support.poll import until
from tests.support.service_world import FakeRun, Hosted

from evenflow.service import Server

CLIENTS, STAYING, SLOW = 500, 60, 20
REQUEST = f"GET /api/events HTTP/1.1\r\n{HOST}\r\n".encode()


class Reader(asyncio.Protocol):
    """A client that keeps the newest bytes."""

    def __init__(self) -> None:
        self.newest = b""
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self.newest = (self.newest + data)[-300_000:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True

    def has(self, batch: int) -> bool:
        return f'"batch":{batch},'.encode() in self.newest


async def all_have(readers: list[Reader], batch: int) -> None:
    async with asyncio.timeout(180):
        while not all(reader.has(batch) for reader in readers):
            await asyncio.sleep(0.05)


async def follow(server: Server, run: FakeRun) -> None:
    loop = asyncio.get_running_loop()
    readers = [
        (await loop.create_connection(Reader, "127.0.0.1", server.port))[1] for _ in range(CLIENTS)
    ]
    await all_have(readers, 0)
    assert len(server.hub.clients) == CLIENTS
    for batch in range(1, 6):
        run.batch(batch)  # returns at once, whoever is connected
        await all_have(readers, batch)
    answer = await asyncio.to_thread(HTTP.get, f"{server.url}/api/state")
    assert answer.status_code == 200
    for reader in readers[STAYING:]:
        reader.transport.close()
    await asyncio.to_thread(until, lambda: len(server.hub.clients) == STAYING)
    slow = readers[:SLOW]
    for reader in slow:
        connected: socket.socket = reader.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.transport.pause_reading()
    batch = 5
    while server.hub.dropped_clients < SLOW:
        batch += 1
        assert batch < 200
        run.queries = {**run.queries, "a": replace(Hosted("a"), text=f"{batch}" * 100_000)}
        run.batch(batch)
        await all_have(readers[SLOW:STAYING], batch)
    assert server.hub.dropped_clients == SLOW
    assert len(server.hub.clients) == STAYING - SLOW
    assert not any(reader.is_closed for reader in readers[SLOW:STAYING])
    for reader in readers[:STAYING]:
        reader.transport.close()
    await asyncio.to_thread(until, lambda: len(server.hub.clients) == 0)  # nothing is left


def test_five_hundred_clients() -> None:
    run = FakeRun()
    run.batch(0)
    with served(run) as server:
        asyncio.run(follow(server, run))


def test_an_open_stream_does_not_delay_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with served() as server:
        stream = connect(server.port, REQUEST)
        assert b"200 OK" in stream.recv(65536)
    stream.close()
    assert caplog.text == ""  # no task had to be cancelled
