"""A real PostgreSQL server for tests and examples: a free port of loopback, files in a folder."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from scripts.services import postgres_bin


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a server; yield the JDBC address of its database."""
    programs = postgres_bin()
    folder = Path(mkdtemp(prefix="postgres-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = str(folder / "data")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"

    def run(*command: str) -> None:
        subprocess.run(
            [*as_user, *command], check=True, capture_output=True, timeout=300, cwd=folder
        )

    run(str(programs / "initdb"), "-D", data, "-U", "tester", "--auth=trust", "--no-sync")
    control = [str(programs / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log")]
    run(*control, "-o", options, "start")
    try:
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=tester"
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
