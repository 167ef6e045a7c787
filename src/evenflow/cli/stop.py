"""`evenflow stop`: end a run after its current batch."""

import os
import signal
import time
from typing import Annotated, Any

import typer

from evenflow.cli.find_run import FoundRun, find_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, UrlOption
from evenflow.cli.output import print_json, print_progress
from evenflow.cli.status import RunArgument, run_status
from evenflow.errors import InputError, SetupError

_POLL_SECONDS, _PROGRESS_SECONDS = 0.2, 10.0


def stop_command(
    run: RunArgument = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until it has stopped; 0: do not wait.")
    ] = 120.0,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Stop a run after its current batch. Nothing is lost: the next start continues there.

    A run without a service is stopped by a signal, on this machine.
    """
    found = find_run(run, url)
    request_stop(found)
    stopped = _wait_until_stopped(found, wait) if wait else False
    if wait and not stopped:
        raise SetupError(
            f"the run has not stopped within {wait:.0f} s; it ends with its current batch. "
            "`evenflow status` shows it"
        )
    if json:
        print_json({"asked": "stop", "stopped": stopped})
    else:
        typer.echo("stopped" if stopped else "it stops after the current batch")


def request_stop(found: FoundRun) -> None:
    """Ask the service, or signal the process."""
    if found.client is not None:
        found.client.post("stop")
        return
    note = found.note
    if note is None or not note.is_running:
        where = "" if note is None or note.is_local else f"; it ran on {note.host}: stop it there"
        raise InputError(f"{found.require_store().uri} is not running{where}")
    os.kill(note.pid, signal.SIGTERM)


def _wait_until_stopped(found: FoundRun, seconds: float) -> bool:
    started = last_said = time.monotonic()
    while time.monotonic() - started < seconds:
        if _has_stopped(found):
            return True
        if time.monotonic() - last_said > _PROGRESS_SECONDS:
            last_said = time.monotonic()
            print_progress(f"waiting for the current batch: {last_said - started:.0f} s")
        time.sleep(_POLL_SECONDS)
    return False


def _has_stopped(found: FoundRun) -> bool:
    if found.store is not None and found.note is not None and found.note.is_local:
        from evenflow.spark.protocol.run_note import read_run_note

        note = read_run_note(found.store)
        return note is None or note.pid != found.note.pid or not note.is_running
    if found.client is not None and not found.client.answers():
        return True
    status: dict[str, Any] = run_status(found)
    return bool(status["state"] == "stopped")
