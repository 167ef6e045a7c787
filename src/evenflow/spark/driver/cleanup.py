"""Clean-up: old ledger entries, applied commands, and files of attempts that were not committed.

A replay of the last batch needs the last entries and the files they name; besides those, only
results are kept. So disk use depends on state and results, not on the number of batches.
"""

from evenflow.spark.driver.checkpoint import Checkpoint
from evenflow.spark.driver.commands import delete_commands
from evenflow.spark.driver.spark_folder import PLAN_FOLDER
from evenflow.spark.protocol.envelope import CHUNK_FOLDER
from evenflow.spark.protocol.ledger import PROPOSAL_FOLDER, Entry
from evenflow.spark.worker.crash_blame import delete_notes
from evenflow.storage.file_store import FileStore


def clean_up(checkpoint: Checkpoint, before: Entry, head: Entry) -> None:
    """Delete what no replay needs; `before` was the head at the last time.

    On remote storage nothing is listed.
    """
    store = checkpoint.store
    checkpoint.ledger.delete_old_entries(before, head)
    delete_commands(store, range(before.commands_applied, head.commands_applied))
    # A pulse of batch b is read in b + 1, which is committed when b + 3 comes next.
    checkpoint.spark_folder.delete_pulses(f"{head.batch - 2:012d}")
    if store.local_root is not None:
        _delete_committed_chunks(store, head)


def delete_unreferenced(checkpoint: Checkpoint, head: Entry) -> None:
    """Delete states, hand-offs, Spark's plans and notes that no entry names; lists all of them."""
    store = checkpoint.store
    entries = checkpoint.ledger.delete_unreferenced()
    live = {file for entry in entries for files in entry.live_files.values() for file in files}
    live |= {handoff.state.file for entry in entries for handoff in entry.incoming}
    live |= {derived.rows.file for entry in entries for derived in entry.derived_rows}
    live |= {change.rows.file for entry in entries for change in entry.subscription_changes}
    live |= {f for entry in entries for kept in entry.kept_states.values() for f in kept.live_files}
    live |= {file for entry in entries for file in entry.spark_files.values()}
    live |= {entry.proposal.file for entry in entries if entry.proposal is not None}
    # Younger files may belong to an attempt that is still running.
    young = f"{head.batch - 1:012d}"
    for folder in ("state", "exchange", PLAN_FOLDER, PROPOSAL_FOLDER):
        files = [f"{folder}/{name}" for name in store.list_names(folder) if name[:12] < young]
        store.delete(file for file in files if file not in live)
    _delete_committed_chunks(store, head)
    delete_notes(store, head.batch)


def _delete_committed_chunks(store: FileStore, head: Entry) -> None:
    """Delete what the router wrote for committed batches."""
    old = [name for name in store.list_names(CHUNK_FOLDER) if name[:12] < f"{head.batch:012d}"]
    store.delete(f"{CHUNK_FOLDER}/{name}" for name in old)
