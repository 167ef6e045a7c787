"""How many rows each query may process in a batch, so that its tenant stays within its limits.

A limit is shared out by its water level: queries that need less than the level run freely, the
others get the level each. So the heaviest queries of a tenant wait; the light ones do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenflow.model.tenants import Priority, TenantLimits, Tenants

STATE_SHARE = 0.5  # of the rows that come, for the largest queries of a tenant with too much state
MIN_ROWS = 100  # so that it goes on even if nothing comes
LEAST_SHARE = 0.05  # of a batch, for each priority under overload


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNeed:
    """What a query would use if it processed all its rows; costs are means of the last batches.

    rows         rows that come in a batch, and those that wait
    came         rows that come in a batch
    row_seconds  CPU seconds per row
    row_results  bytes of results per row
    state_bytes  bytes of state
    """

    uid: str
    tenant: str | None
    rows: float
    came: float
    row_seconds: float
    row_results: float
    state_bytes: float

    @property
    def seconds(self) -> float:
        """CPU seconds of all its rows."""
        return self.rows * self.row_seconds


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many rows a query may process in a batch on average, and why not more."""

    rows: float
    reason: str


@dataclass(frozen=True, slots=True)
class Overload:
    """Batches take longer than the trigger: CPU seconds that would fit into it."""

    trigger_seconds: float
    target_seconds: float


def water_level(demands: Iterable[float], limit: float) -> float:
    """Return the level at which demands, each cut at it, sum up to the limit; infinite if they fit.

    >>> water_level([1, 2, 9], 6)
    3.0
    >>> water_level([1, 2], 6)
    inf
    """
    ordered = sorted(demands)
    left = limit
    for at, demand in enumerate(ordered):
        share = left / (len(ordered) - at)
        if demand > share:
            return share
        left -= demand
    return float("inf")


def allowances(
    queries: Sequence[QueryNeed],
    tenants: Tenants,
    capacity_seconds: float,
    overload: Overload | None = None,
) -> dict[str, Allowance]:
    """Return the queries that must be slowed; the others process all their rows.

    `capacity_seconds` are the CPU seconds that a batch has. Where several limits apply to a query,
    the tightest one counts.
    """
    found: dict[str, Allowance] = {}
    by_tenant: dict[str, list[QueryNeed]] = {}
    for query in queries:
        if query.tenant is not None:
            by_tenant.setdefault(query.tenant, []).append(query)
    busy = {query.tenant for query in queries if query.rows}
    for tenant, own in sorted(by_tenant.items()):
        limits = tenants.limits(tenant)
        alone = busy <= {tenant}
        _tighten(found, _by_limits(tenant, own, limits, capacity_seconds, alone=alone))
    if overload is not None:
        _tighten(found, _by_priority(queries, tenants, overload))
    return found


def _tighten(found: dict[str, Allowance], more: Mapping[str, Allowance]) -> None:
    for uid, allowance in more.items():
        if uid not in found or allowance.rows < found[uid].rows:
            found[uid] = allowance


def _by_limits(
    tenant: str,
    queries: list[QueryNeed],
    limits: TenantLimits,
    capacity_seconds: float,
    *,
    alone: bool,
) -> dict[str, Allowance]:
    found: dict[str, Allowance] = {}
    if limits.cpu_share is not None:
        # What nobody else needs may be used up.
        limit = (1.0 if alone else limits.cpu_share) * capacity_seconds
        total = sum(query.seconds for query in queries)
        reason = (
            f"tenant {tenant!r} needs {total:.2f} s of CPU in a batch, its cpu_share of "
            f"{limits.cpu_share:g} is {limit:.2f} s"
        )
        costs = {query.uid: query.row_seconds for query in queries}
        _tighten(found, _share_out(queries, costs, limit, reason))
    if limits.result_bytes is not None:
        total = sum(query.rows * query.row_results for query in queries)
        reason = (
            f"tenant {tenant!r} has {total:,.0f} bytes of results in a batch, its result_bytes "
            f"are {limits.result_bytes:,}"
        )
        costs = {query.uid: query.row_results for query in queries}
        _tighten(found, _share_out(queries, costs, limits.result_bytes, reason))
    if limits.state_bytes is not None:
        total = sum(query.state_bytes for query in queries)
        level = water_level((query.state_bytes for query in queries), limits.state_bytes)
        reason = (
            f"tenant {tenant!r} has {total:,.0f} bytes of state, its state_bytes are "
            f"{limits.state_bytes:,}"
        )
        _tighten(
            found,
            {
                query.uid: Allowance(max(MIN_ROWS, query.came * STATE_SHARE), reason)
                for query in queries
                if query.state_bytes > level
            },
        )
    return found


def _share_out(
    queries: Sequence[QueryNeed], row_costs: Mapping[str, float], limit: float, reason: str
) -> dict[str, Allowance]:
    level = water_level((query.rows * row_costs[query.uid] for query in queries), limit)
    return {
        query.uid: Allowance(level / row_costs[query.uid], reason)
        for query in queries
        if query.rows * row_costs[query.uid] > level
    }


def _by_priority(
    queries: Sequence[QueryNeed], tenants: Tenants, overload: Overload
) -> dict[str, Allowance]:
    """Give each priority the CPU time that those above it leave; the highest is never slowed."""
    by_priority: dict[Priority, list[QueryNeed]] = {}
    for query in queries:
        if query.rows:
            by_priority.setdefault(tenants.limits(query.tenant).priority, []).append(query)
    found: dict[str, Allowance] = {}
    left = overload.target_seconds
    for at, priority in enumerate(sorted(by_priority, key=lambda p: -p.rank)):
        own = by_priority[priority]
        if at:
            limit = max(left, LEAST_SHARE * overload.target_seconds)
            reason = (
                f"batches take longer than the trigger of {overload.trigger_seconds:g} s, and "
                f"priority {priority} comes last"
            )
            costs = {query.uid: query.row_seconds for query in own}
            found |= _share_out(own, costs, limit, reason)
        left -= sum(query.seconds for query in own)
    return found
