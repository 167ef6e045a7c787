"""A tenant in the API: what it uses beside its limits."""

from evenflow.display import printable
from evenflow.model.tenants import TenantUse
from evenflow.service.api_model import ApiModel

TENANT_RESOURCES = (
    "queries",
    "subscriptions",
    "cpu_share",
    "state_bytes",
    "result_bytes",
    "waiting_bytes",
)
"""What is limited; each has a field of its name and one with `max_` before it."""


class TenantInfo(ApiModel):
    """Use and limits of a tenant, which are None if there are none.

    CPU time and results are those of the last batch; `slowed` has the reason for each query.
    """

    tenant: str
    priority: str
    queries: int
    max_queries: int | None
    subscriptions: int
    max_subscriptions: int | None
    cpu_seconds: float
    cpu_share: float
    max_cpu_share: float | None
    state_bytes: int
    max_state_bytes: int | None
    result_bytes: int
    max_result_bytes: int | None
    waiting_rows: int
    waiting_bytes: int
    max_waiting_bytes: int
    slowed: dict[str, str]
    quarantined: list[str]


def tenant_info(use: TenantUse) -> TenantInfo:
    """Return the use of a tenant for the API."""
    limits = use.limits
    return TenantInfo(
        tenant=use.tenant,
        priority=limits.priority,
        queries=use.queries,
        max_queries=limits.queries,
        subscriptions=use.subscriptions,
        max_subscriptions=limits.subscriptions,
        cpu_seconds=round(use.cpu_seconds, 6),
        cpu_share=round(use.cpu_share, 6),
        max_cpu_share=limits.cpu_share,
        state_bytes=use.state_bytes,
        max_state_bytes=limits.state_bytes,
        result_bytes=use.result_bytes,
        max_result_bytes=limits.result_bytes,
        waiting_rows=use.waiting_rows,
        waiting_bytes=use.waiting_bytes,
        max_waiting_bytes=limits.waiting_bytes,
        slowed={name: printable(reason) for name, reason in use.slowed.items()},
        quarantined=list(use.quarantined),
    )
