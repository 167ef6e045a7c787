"""Start without some queries: they are quarantined with their state before the first batch.

The next batch has not been committed, whatever attempts there were, so its entry may still change:
this is how a run starts whose next batch fails every time.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from evenflow.spark.driver.keep_state import keep_states
from evenflow.spark.driver.replacement import inherited_uids
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Registry

CANCELLED = "cancelled; it is removed at the next commit"
NAMED = "the run was started without it; resume or cancel it"
UNPROVEN = "hosted since the last good batch, and the run was started safely; resume or cancel it"


def reasons_to_leave_out(
    head: Entry,
    hosted: Registry,
    next_hosted: Registry,
    *,
    names: Collection[str],
    last_good: Registry | None,
) -> dict[str, str]:
    """Return the uids of queries to leave out of the next batch, with the reasons.

    next_hosted  what is hosted after the commands that wait: cancelled queries are not in it; those
                 that another definition replaces run until then
    names        queries that the caller names
    last_good    what was hosted in the last committed batch; None: leave nothing else out
    """
    reasons = {}
    if last_good is not None:
        unproven = (hosted.by_uid.keys() - last_good.by_uid.keys()) | head.resumed.keys()
        reasons = dict.fromkeys(unproven, UNPROVEN)
    reasons |= {hosted.query(name).uid: NAMED for name in names}
    replaced = inherited_uids(hosted, next_hosted)
    cancelled = hosted.by_uid.keys() - next_hosted.by_uid.keys() - replaced.keys()
    reasons |= dict.fromkeys(cancelled, CANCELLED)
    return {uid: why for uid, why in sorted(reasons.items()) if uid not in head.quarantined}


def without_queries(ledger: Ledger, entry: Entry, reasons: Mapping[str, str]) -> Entry:
    """Return the entry of the next batch with some more queries quarantined."""
    return replace(
        entry,
        quarantined={**entry.quarantined, **reasons},
        kept_states={**entry.kept_states, **keep_states(ledger, entry, reasons)},
        incoming=tuple(handoff for handoff in entry.incoming if handoff.uid not in reasons),
        subscription_changes=tuple(c for c in entry.subscription_changes if c.uid not in reasons),
        due_us={
            worker: {uid: due for uid, due in by_uid.items() if uid not in reasons}
            for worker, by_uid in entry.due_us.items()
        },
    )
