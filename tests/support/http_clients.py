"""A served fake run, and clients that speak HTTP badly."""

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.support.service_world import FakeRun

from evenflow.service import Caller, Limits, Role, Server, TlsFiles, Token, serve

SECRETS = {role: f"{role}-token-of-some-length" for role in Role}
WRITE = {"X-Evenflow": "1"}
# One for all: each would read the system's certificates.
HTTP = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
HOST = "Host: 127.0.0.1\r\n"


@contextmanager
def served(run: FakeRun | None = None, **more: Any) -> Iterator[Server]:
    """A service on a free port; the run has finished one batch."""
    if run is None:
        run = FakeRun()
        run.batch(0)
    server = serve(run, port=0, **more)
    try:
        yield server
    finally:
        server.stop()


def role_tokens() -> list[Token]:
    """One token per role, named after it."""
    return [Token(Caller(str(role), role), secret) for role, secret in SECRETS.items()]


def bearer(role: Role) -> dict[str, str]:
    return {**WRITE, "Authorization": f"Bearer {SECRETS[role]}"}


def quick_limits(**more: Any) -> Limits:
    return Limits(**{"head_seconds": 0.3, "body_seconds": 0.3, **more})


def connect(port: int, data: bytes | str = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(data.encode() if isinstance(data, str) else data)
    return connection


def answer(connection: socket.socket) -> tuple[int, Any]:
    """The status and JSON body of a response after which the server closes; (0, None) if none."""
    received = b""
    while part := connection.recv(65536):
        received += part
    if not received:
        return 0, None
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"application/json" in head, received
    return int(head.split()[1]), json.loads(body)


def ask(port: int, data: bytes | str) -> tuple[int, Any]:
    with connect(port, data) as connection:
        return answer(connection)


def certificate(folder: Path) -> TlsFiles:
    """A certificate for 127.0.0.1 that signs itself."""
    files = TlsFiles(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-keyout", files.key, "-out", files.certificate, "-days", "2", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


def trusting(files: TlsFiles) -> httpx.Client:
    return httpx.Client(verify=ssl.create_default_context(cafile=str(files.certificate)))
