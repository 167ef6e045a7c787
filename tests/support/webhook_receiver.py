"""A web server of this process that notes the alerts it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(BaseHTTPRequestHandler):
    """Notes what it gets; fails or hangs as the server says."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.hang.wait(30)
        server.got.append(body)
        self.send_response(500 if len(server.got) <= server.failures else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def receiver(failures: int = 0, *, hangs: bool = False) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.failures, server.hang = [], failures, threading.Event()
    if not hangs:
        server.hang.set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.hang.set()
        server.shutdown()
        server.server_close()
