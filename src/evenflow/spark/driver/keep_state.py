"""Keep the state of a query that failed, so that it can be resumed."""

from collections.abc import Collection
from dataclasses import replace

from evenflow.spark.protocol.ledger import Entry, KeptState, Ledger
from evenflow.spark.worker.state_share import splits_of
from evenflow.spark.worker.worker_state import read_index


def keep_states(ledger: Ledger, entry: Entry, failed: Collection[str]) -> dict[str, KeptState]:
    """Return the states, before the batch of `entry`, of the queries that failed in it."""
    if not failed:
        return {}
    indexes = {
        worker: read_index(ledger.store, ref)[1] for worker, ref in sorted(entry.state_refs.items())
    }
    plan = ledger.plan(entry.plan_number)
    queries = ledger.registry(entry.registry_version).by_uid
    kept = {}
    for uid in sorted(failed):
        found = {worker: index[uid] for worker, index in indexes.items() if uid in index}
        refs = {worker: entry.state_refs[worker] for worker in found}
        files = {ref.file for task in found.values() for ref in task.segments.values()}
        # A query that was resumed in this batch and failed again keeps what it had.
        state = entry.kept_states.get(uid) or KeptState(
            state_refs=refs,
            files=tuple(sorted(files | {ref.file for ref in refs.values()})),
            incoming=tuple(handoff for handoff in entry.incoming if handoff.uid == uid),
            splits=splits_of(plan, queries[uid].name),
            batch=entry.batch,
        )
        changes = tuple(change for change in entry.subscription_changes if change.uid == uid)
        kept[uid] = replace(state, subscription_changes=changes)
    return kept
