"""What a tenant may host: refuse what is more. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sized

from evenflow.errors import InputError
from evenflow.model.tenants import Tenants
from evenflow.spark.protocol.registry import Hosted, Registry


def tenant_queries(registry: Registry, tenant: str) -> list[Hosted]:
    """Return the queries of a tenant."""
    return [query for query in registry.queries.values() if query.tenant == tenant]


def check_queries(registry: Registry, tenant: str | None, tenants: Tenants, more: int = 1) -> None:
    """Refuse queries that a tenant may not have in addition to what is hosted."""
    limit = tenants.limits(tenant).queries
    if tenant is None or limit is None:
        return
    hosted = len(tenant_queries(registry, tenant))
    if hosted + more > limit:
        raise InputError(
            f"tenant {tenant!r} has {hosted} queries and may have {limit}; cancel one, or raise "
            "its limit `queries`"
        )


def check_subscriptions(
    registry: Registry,
    count_of: Callable[[Hosted], int],
    template: str,
    more: int,
    tenants: Tenants,
) -> None:
    """Refuse subscriptions that the tenant of a template may not have in addition.

    A name that is given again counts as one more.
    """
    tenant = registry.query(template).tenant
    limit = tenants.limits(tenant).subscriptions
    if tenant is None or limit is None:
        return
    has = sum(count_of(query) for query in tenant_queries(registry, tenant))
    if has + more > limit:
        raise InputError(
            f"tenant {tenant!r} has {has} subscriptions and may have {limit}, got {more} more; "
            "unsubscribe some, or raise its limit `subscriptions`"
        )


def check_declared(
    registry: Registry, subscriptions: Iterable[tuple[str, Sized]], tenants: Tenants
) -> None:
    """Refuse a flow that declares more than its tenants may have."""
    counts: dict[str, int] = {}
    for name, rows in subscriptions:
        counts[name] = counts.get(name, 0) + len(rows)
    for tenant in sorted({q.tenant for q in registry.queries.values() if q.tenant is not None}):
        check_queries(registry, tenant, tenants, more=0)
        own = tenant_queries(registry, tenant)
        check_subscriptions(registry, _counted(counts), own[0].name, 0, tenants)


def _counted(counts: Mapping[str, int]) -> Callable[[Hosted], int]:
    return lambda query: counts.get(query.name, 0)
