"""Fields of `tenants`."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from evenflow.model.limits import size_bytes
from evenflow.model.tenants import WAITING_BATCHES, WAITING_BYTES
from evenflow.spec.base import SpecModel


def _to_bytes(value: Any) -> Any:
    return size_bytes(value, "value") if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_to_bytes), Field(ge=0)]


class TenantSpec(SpecModel):
    """What the queries of a tenant may use together. No value: as much as they want."""

    queries: int | None = Field(None, ge=0, description="Queries, templates and operators.")
    subscriptions: int | None = Field(None, ge=0, description="Subscriptions of its templates.")
    cpu_share: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Share of the CPU time of a batch: `0.25` of 4 cores and a trigger of 1 second "
        "is 1 s.",
    )
    state_bytes: Size | None = Field(None, description="State: `1 GB`.")
    result_bytes: Size | None = Field(None, description="Results of a batch, as stored: `10 MB`.")
    waiting_bytes: Size = Field(
        WAITING_BYTES,
        description="Rows that may wait while queries are slowed; beyond, the query with most of "
        "them is quarantined.",
    )
    waiting_batches: int = Field(
        WAITING_BATCHES, ge=1, description="How many batches a row may wait."
    )
    priority: Literal["low", "normal", "high"] = Field(
        "normal", description="Who waits first if batches take longer than `trigger`: `low`."
    )
