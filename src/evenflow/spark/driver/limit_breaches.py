"""Queries to quarantine: slowing them did not bring their tenant within its limits. Pure."""

from collections.abc import Iterable, Mapping

from evenflow.model.tenants import Tenants
from evenflow.planning.tenants import QueryNeed
from evenflow.spark.driver.slowed_queries import WaitingTotal
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.registry import Hosted
from evenflow.sql import SLICES

ADVICE = "raise the limit or make it cheaper, then resume it"


def waiting_breaches(
    entry: Entry,
    totals: Mapping[str, WaitingTotal],
    running: Mapping[str, Hosted],
    tenants: Tenants,
) -> dict[str, str]:
    """Return the queries with too many waiting rows, with the reason.

    Of a tenant's queries those with most go first, until the others are within the limit. A query
    that catches up is left alone, so one that was resumed gets its chance.
    """
    found: dict[str, str] = {}
    by_tenant: dict[str | None, list[str]] = {}
    for uid, query in running.items():
        if totals.get(uid, WaitingTotal()).rows:
            by_tenant.setdefault(query.tenant, []).append(uid)
    for tenant, uids in by_tenant.items():
        limits, left = tenants.limits(tenant), sum(totals[uid].bytes for uid in uids)
        for uid in sorted(uids, key=lambda uid: -totals[uid].bytes):
            total, slowed = totals[uid], entry.slowed.get(uid)
            if slowed is None or total.rows <= slowed.rows:
                continue
            batches = entry.batch + 1 - (total.first or 0) // SLICES
            if left > limits.waiting_bytes:
                left -= total.bytes
                found[uid] = (
                    f"{total.bytes:,} bytes of its rows wait, more than waiting_bytes "
                    f"{limits.waiting_bytes:,} of its tenant allow"
                )
            elif batches > limits.waiting_batches:
                found[uid] = (
                    f"its rows wait for {batches:,} batches, waiting_batches are "
                    f"{limits.waiting_batches:,}"
                )
    return {uid: f"{reason}: {entry.slowed[uid].reason}; {ADVICE}" for uid, reason in found.items()}


def worst_state(needs: Iterable[QueryNeed], tenants: Tenants) -> dict[str, tuple[str, str]]:
    """Return the largest query of each tenant that is above its state_bytes, with the reason."""
    by_tenant: dict[str, list[QueryNeed]] = {}
    for need in needs:
        if need.tenant is not None:
            by_tenant.setdefault(need.tenant, []).append(need)
    found = {}
    for tenant, own in by_tenant.items():
        limit, total = tenants.limits(tenant).state_bytes, sum(need.state_bytes for need in own)
        if limit is not None and total > limit:
            worst = max(own, key=lambda need: need.state_bytes)
            found[tenant] = (
                worst.uid,
                f"tenant {tenant!r} has {total:,.0f} bytes of state, its state_bytes are "
                f"{limit:,}, and most is of this query; {ADVICE}",
            )
    return found
