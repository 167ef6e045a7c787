"""Find a run by its specification, its checkpoint or the address of its service."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.cli.client import ServiceClient
from evenflow.errors import InputError

if TYPE_CHECKING:
    from evenflow.spark.protocol.run_note import RunNote
    from evenflow.storage.file_store import FileStore
    from evenflow.storage.options import StorageOptions


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run: its service if one answers, its checkpoint if that is known."""

    client: ServiceClient | None = None
    store: "FileStore | None" = None
    note: "RunNote | None" = None

    def require_client(self) -> ServiceClient:
        """Return the service of a run that is served."""
        if self.client is None:
            raise InputError(
                f"{self.require_store().uri} is not served: start it with `evenflow run`; of a "
                "run that has ended there are `status`, `results`, `moves`, `explain` and `logs`"
            )
        return self.client

    def require_store(self) -> "FileStore":
        """Return the checkpoint of a run that is not served."""
        if self.store is None:
            raise InputError("give the specification or the checkpoint of the run")
        return self.store


def find_run(place: str | None, url: str) -> FoundRun:
    """Return the run at a place: a YAML file, a checkpoint, or an address; None: the one at `url`.

    A run whose service answers is asked; of any other run, the checkpoint is read.
    """
    if place is None or place.startswith(("http://", "https://")):
        return FoundRun(ServiceClient(place or url))
    from evenflow.spark.protocol.run_note import read_run_note

    store = find_store(place)
    if not store.exists("meta"):
        yet = f"{place} has not been run yet, or is still starting Spark: there is no"
        what = yet if _is_spec(place) else "there is no"
        checkpoint = store.uri.removeprefix("file://")
        raise InputError(
            f"{what} checkpoint {checkpoint}; give a specification, a checkpoint or an address"
        )
    note = read_run_note(store)
    client = None
    if note is not None and note.url is not None:
        client = ServiceClient(note.url)
        client = client if client.serves(store.uri) else None
    return FoundRun(client, store, note)


def served_run(run: str | None, url: str) -> ServiceClient:
    """Return the service of a run that is served, by `--run`, else by `--url`."""
    return find_run(run, url).require_client()


def find_store(place: str) -> "FileStore":
    """Return the checkpoint at a path, or that of a specification; it need not exist."""
    from evenflow.storage.file_store import FileStore
    from evenflow.storage.options import StorageOptions

    options = StorageOptions()
    if _is_spec(place):
        place, options = _checkpoint_of_spec(Path(place))
    return FileStore(place, options=options)


def _is_spec(place: str) -> bool:
    return place.endswith((".yaml", ".yml"))


def _checkpoint_of_spec(path: Path) -> "tuple[str, StorageOptions]":
    from evenflow.spec import checkpoint_of  # loads DuckDB, which a checkpoint does not need

    return checkpoint_of(path)
