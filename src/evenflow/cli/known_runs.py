"""The runs of `evenflow run` and `evenflow demo` on this machine: one small file for each."""

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run by its name, its checkpoint and its specification, if it has one."""

    name: str
    checkpoint: str
    spec: str | None


def folder() -> Path:
    """Return the folder of the files, by the XDG rules."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "evenflow/runs"


def remember_run(run: KnownRun) -> None:
    """Write down a run; without a home folder to write to, it is only not listed."""
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{hashlib.sha256(run.checkpoint.encode()).hexdigest()[:16]}.json"
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(asdict(run)))
        temporary.replace(file)


def known_runs() -> list[KnownRun]:
    """Return the runs by name; files that cannot be read are left out."""
    runs = []
    for file in folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            runs.append(KnownRun(**json.loads(file.read_text())))
    return sorted(runs, key=lambda run: (run.name, run.checkpoint))
