"""Clean-up: old ledger entries, applied commands, and files of attempts that were not committed.

A replay of the last batch needs the last entries and the files they name; besides those, only
results are kept. So disk use depends on state and results, not on the number of batches.
"""

from evenflow.spark.driver.commands import delete_applied_commands
from evenflow.spark.protocol.envelope import CHUNK_FOLDER
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.storage.file_store import FileStore


def clean_up(ledger: Ledger, head: Entry) -> None:
    """Delete what no replay needs, as far as few names have to be listed."""
    ledger.delete_old_entries(head)
    store = ledger.store
    delete_applied_commands(store, head)
    # A pulse of batch b is read in b + 1, which is committed when b + 3 comes next.
    read = f"{head.batch - 2:012d}"
    store.delete(f"pulse/{name}" for name in store.list_names("pulse") if name[:12] < read)
    _delete_committed_chunks(store, head)


def delete_unreferenced(ledger: Ledger, head: Entry) -> None:
    """Delete states and hand-offs that no entry refers to; lists all of them."""
    entries = [ledger.entry(batch) for batch in ledger.batches()]
    live = {file for entry in entries for files in entry.live_files.values() for file in files}
    live |= {handoff.state.file for entry in entries for handoff in entry.incoming}
    live |= {derived.rows.file for entry in entries for derived in entry.derived_rows}
    live |= {change.rows.file for entry in entries for change in entry.subscription_changes}
    live |= {f for entry in entries for kept in entry.kept_states.values() for f in kept.live_files}
    # Younger files may belong to an attempt that is still running.
    young = f"{head.batch - 1:012d}"
    for folder in ("state", "exchange"):
        files = [
            f"{folder}/{name}" for name in ledger.store.list_names(folder) if name[:12] < young
        ]
        ledger.store.delete(file for file in files if file not in live)
    _delete_committed_chunks(ledger.store, head)


def _delete_committed_chunks(store: FileStore, head: Entry) -> None:
    """Delete what the router wrote for committed batches."""
    old = [name for name in store.list_names(CHUNK_FOLDER) if name[:12] < f"{head.batch:012d}"]
    store.delete(f"{CHUNK_FOLDER}/{name}" for name in old)
