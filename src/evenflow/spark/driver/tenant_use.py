"""What the queries of each tenant use, beside its limits. Pure."""

from collections import Counter

from evenflow.model import Snapshot
from evenflow.model.tenants import DEFAULT_TENANT, Tenants, TenantUse
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.tenant_checks import tenant_queries
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.registry import Registry


def tenant_uses(
    tenants: Tenants,
    registry: Registry,
    head: Entry,
    last: CompletedBatch | None,
    snapshot: Snapshot | None,
    capacity_seconds: float,
) -> tuple[TenantUse, ...]:
    """Return the use of all tenants that are declared or have queries, by name.

    `head` is the entry of the next batch; CPU time and results are those of the `last` batch.
    """
    results: Counter[str] = Counter()
    for report in last.reports if last is not None else ():
        for uid, (part, _) in report.results.items():
            results[uid] += part.length
    owners = {q.tenant for q in registry.queries.values() if q.tenant is not None}
    found = []
    for tenant in sorted(owners | (tenants.declared.keys() - {DEFAULT_TENANT})):
        own = tenant_queries(registry, tenant)
        slow = {q.name: s for q in own if (s := head.slowed.get(q.uid)) is not None and s.is_slow}
        loads = snapshot.queries if snapshot is not None else {}
        measured = [loads[query.name] for query in own if query.name in loads]
        seconds = float(sum(load.cpu_seconds.sum() for load in measured))
        stopped = [query.name for query in own if query.uid in head.quarantined]
        found.append(
            TenantUse(
                tenant=tenant,
                limits=tenants.limits(tenant),
                queries=len(own),
                subscriptions=sum(map(head.subscription_count, own)),
                cpu_seconds=seconds,
                cpu_share=seconds / capacity_seconds if capacity_seconds else 0.0,
                state_bytes=int(sum(load.state_bytes.sum() for load in measured)),
                result_bytes=sum(results[query.uid] for query in own),
                waiting_bytes=sum(record.bytes for record in slow.values()),
                waiting_rows=sum(record.rows for record in slow.values()),
                slowed={n: s.reason for n, s in slow.items() if n not in stopped},
                quarantined=tuple(stopped),
            )
        )
    return tuple(found)
