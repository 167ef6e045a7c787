"""Checks that need no Spark, done before it starts: one line instead of a late failure."""

import os
import socket

from evenflow.errors import InputError, SetupError
from evenflow.spec import CheckedSpec


def check_start(checked: CheckedSpec, *, serves: bool) -> None:
    """Refuse a start that cannot succeed: the port is taken, or the checkpoint does not fit."""
    from evenflow.spark.protocol.run_note import read_run_note
    from evenflow.spark.spec_diff import spec_diff
    from evenflow.storage.file_store import FileStore

    store = FileStore(checked.resolve(checked.spec.checkpoint), options=checked.storage)
    try:
        note = read_run_note(store)
    except OSError as error:
        raise SetupError(f"cannot read the checkpoint {store.uri}: {error}") from None
    if note is not None and note.is_running:
        raise InputError(
            f"the checkpoint {store.uri} is in use by another run, process {note.pid}; stop it "
            f"with: evenflow stop {checked.resolve(checked.spec.checkpoint)}"
        )
    if serves:
        _check_port(checked.spec.service.host, checked.spec.service.port)
    refusal = spec_diff(checked).refusal
    if refusal is not None:
        raise InputError(refusal)


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        raise SetupError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; choose another port "
            "with --port, or use --no-page"
        ) from None
