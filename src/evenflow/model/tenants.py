"""Tenants: who owns queries, and how much all queries of one owner may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from evenflow.errors import InputError
from evenflow.model.limits import size_bytes
from evenflow.names import check_name, join_names

DEFAULT_TENANT = "default"
WAITING_BYTES = 256_000_000
WAITING_BATCHES = 1000


class Priority(StrEnum):
    """Who waits first if batches take longer than the trigger."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """Its place, the lowest first."""
        return list(Priority).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """How much the queries of a tenant may use together; None: as much as they want.

    queries          hosted queries, templates and operators
    subscriptions    subscriptions of its templates
    cpu_share        share of the CPU time of a batch: 0.25 of 4 cores and a trigger of 1 s is 1 s
    state_bytes      bytes of state
    result_bytes     bytes of results in a batch, as stored
    waiting_bytes    bytes of rows that may wait while queries are slowed
    waiting_batches  batches that a row may wait
    priority         who waits first if batches take longer than the trigger
    """

    queries: int | None = None
    subscriptions: int | None = None
    cpu_share: float | None = None
    state_bytes: int | None = None
    result_bytes: int | None = None
    waiting_bytes: int = WAITING_BYTES
    waiting_batches: int = WAITING_BATCHES
    priority: Priority = Priority.NORMAL

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("_bytes") and isinstance(value, str):
                object.__setattr__(self, each.name, size_bytes(value, each.name))
            elif each.name == "priority":
                object.__setattr__(self, "priority", _priority(value))
            elif each.name == "cpu_share":
                if value is not None and not 0 < value <= 1:
                    raise InputError(f"cpu_share must be above 0 and at most 1, got {value}")
            elif value is not None and (isinstance(value, bool) or value < 0):
                raise InputError(f"{each.name} must not be negative, got {value}")


def _priority(value: str) -> Priority:
    if value not in tuple(Priority):
        raise InputError(f"priority must be {join_names(Priority)}, got {value!r}")
    return Priority(value)


NO_LIMITS = TenantLimits()


def tenant_limits(name: str, limits: Mapping[str, Any]) -> TenantLimits:
    """Return the limits of a tenant, or refuse its name or unknown limits."""
    known = [each.name for each in fields(TenantLimits)]
    unknown = [given for given in limits if given not in known]
    if unknown:
        raise InputError(
            f"tenant {name!r} has no limit {join_names(unknown)}; the limits are "
            f"{join_names(known)}"
        )
    check_name(name, "tenant")
    return TenantLimits(**limits)


@dataclass(frozen=True, slots=True)
class Tenants:
    """The limits of tenants by name; `default` are those of tenants that are not declared."""

    declared: Mapping[str, TenantLimits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.declared:
            check_name(name, "tenant")

    def limits(self, tenant: str | None) -> TenantLimits:
        """Return the limits of a tenant; what has no tenant has none."""
        if tenant is None:
            return NO_LIMITS
        return self.declared.get(tenant) or self.declared.get(DEFAULT_TENANT) or NO_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUse:
    """What the queries of a tenant use, beside its limits; flows are of the last batch.

    cpu_share    share of the CPU time of that batch
    slowed       query -> why it is slowed
    quarantined  names of its queries
    """

    tenant: str
    limits: TenantLimits
    queries: int = 0
    subscriptions: int = 0
    cpu_seconds: float = 0.0
    cpu_share: float = 0.0
    state_bytes: int = 0
    result_bytes: int = 0
    waiting_bytes: int = 0
    waiting_rows: int = 0
    slowed: Mapping[str, str] = field(default_factory=dict)
    quarantined: tuple[str, ...] = ()
