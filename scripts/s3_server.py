"""A real S3 server on loopback, for tests and examples, with a log of its requests."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from scripts import services

from evenflow.storage.file_store import FileStore
from evenflow.storage.options import storage_options

BUCKET = "evenflow"
KEY, SECRET = "testkey", "testsecret"
_REQUEST = re.compile(r"request: .*\{(\w+)@\w+ http://[^/]+/(\S+) HTTP")
_START_SECONDS = 300


class S3Server:
    """A server of its own on a free port; its bucket is a folder."""

    def __init__(self, folder: Path) -> None:
        java = shutil.which("java")
        if java is None:
            raise services.UnavailableError("no S3 server: there is no Java")
        jar = services.s3_server_jar()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.endpoint = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self._log = folder / "server.log"
        (folder / "objects" / BUCKET).mkdir(parents=True)
        properties = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "objects"),
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [java, "-Xmx256m", "-XX:+UseSerialGC", "-jar", str(jar), "--properties",
                 str(config)],
                stdout=log, stderr=log, env={**os.environ, "LOG_LEVEL": "debug"},
            )  # fmt: skip
        until = time.monotonic() + _START_SECONDS
        while "Started" not in self._log.read_text() or not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"the S3 server does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True

    @property
    def storage(self) -> dict[str, Any]:
        """The `storage:` options by which a flow reaches it."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "allow_http": True,
            "options": {"access_key_id": KEY, "secret_access_key": SECRET},
        }

    def store(self, prefix: str, **more: Any) -> FileStore:
        """Open a part of its bucket."""
        return FileStore(f"s3://{BUCKET}/{prefix}", options=storage_options(self.storage | more))

    def requests(self) -> list[tuple[str, str]]:
        """Return the method and path of each request so far, by the server's own log."""
        return [(found[1], found[2]) for found in _REQUEST.finditer(self._log.read_text())]

    def kinds(self, requests: list[tuple[str, str]], prefix: str) -> Counter[str]:
        """Count requests by method and folder below a prefix, to explain a total."""
        folder = re.compile(rf"{BUCKET}/{prefix}/([^/?]+)")
        names = [(method, folder.search(path)) for method, path in requests]
        return Counter(f"{m} {found[1] if found else 'list or delete'}" for m, found in names)

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
