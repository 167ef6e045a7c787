"""What can go: old entries, asks and pulses, and files that attempts left which did not count.

A replay of the last batch needs the last entries and what they name; nothing else is needed but
results. So disk use stays bounded by the state and the results, however many batches run.
"""

from evenflow.spark.driver import commands
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.results_index import ResultsIndex
from evenflow.spark.worker.router import CHUNK_FOLDER
from evenflow.storage.file_store import FileStore

SWEEP_EVERY_BATCHES = 64


def clean_up(ledger: Ledger, head: Entry) -> None:
    """Delete what no replay needs; now and then look for strays too."""
    ledger.delete_old_entries(head)
    store = ledger.store
    commands.delete_applied_commands(store, head)
    # A pulse of batch b is read in b + 1, which is surely committed when b + 3 comes next.
    read = f"{head.batch - 2:012d}"
    store.delete(f"pulse/{name}" for name in store.list_names("pulse") if name[:12] < read)
    _delete_committed_chunks(store, head)
    if head.batch % SWEEP_EVERY_BATCHES == 0:
        delete_unreferenced(ledger, head)
        ResultsIndex(store).merge(head.batch)


def delete_unreferenced(ledger: Ledger, head: Entry) -> None:
    """Delete states, hand-offs and results that no entry names."""
    entries = [ledger.entry(batch) for batch in ledger.batches()]
    live = {file for entry in entries for files in entry.live_files.values() for file in files}
    live |= {handoff.state.file for entry in entries for handoff in entry.incoming}
    live |= {derived.rows.file for entry in entries for derived in entry.derived_rows}
    live |= {change.rows.file for entry in entries for change in entry.subscription_changes}
    # What carries a younger number may be of an attempt that is still at work.
    young = f"{head.batch - 1:012d}"
    for folder in ("state", "exchange"):
        files = [
            f"{folder}/{name}" for name in ledger.store.list_names(folder) if name[:12] < young
        ]
        ledger.store.delete(file for file in files if file not in live)
    _delete_committed_chunks(ledger.store, head)
    _delete_unreferenced_results(ResultsIndex(ledger.store), head.batch - 1)


def _delete_committed_chunks(store: FileStore, head: Entry) -> None:
    """Delete what the router wrote for batches that are committed: nobody reads it again."""
    old = [name for name in store.list_names(CHUNK_FOLDER) if name[:12] < f"{head.batch:012d}"]
    store.delete(f"{CHUNK_FOLDER}/{name}" for name in old)


def _delete_unreferenced_results(results: ResultsIndex, young: int) -> None:
    first = max(0, young - 2 * SWEEP_EVERY_BATCHES)
    named = results.referenced_files(first, young)
    found = [
        name for name in results.store.list_names("results/data") if first <= int(name[:12]) < young
    ]
    files = [f"results/data/{name}" for name in found]
    results.store.delete(file for file in files if file not in named)
