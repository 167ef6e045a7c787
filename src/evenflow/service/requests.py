"""JSON schemas of the request bodies of the HTTP API."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from evenflow.service.api_model import RequestModel

NameField = Annotated[str, Field(min_length=1, max_length=128)]
WorkerField = Annotated[int, Field(ge=0)]


def _refuse_number(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError("a time is a text like 2026-01-31T12:00:00Z")
    return value


class SubmitRequest(RequestModel):
    """A query; with `template`, an SQL text with parameters such as `:symbol`."""

    name: NameField
    sql: Annotated[str, Field(min_length=1, max_length=20_000)]
    key: list[NameField] | None = None
    publish: bool = False
    worker: WorkerField | None = None
    template: bool = False
    tenant: NameField | None = None


class ReplaceRequest(RequestModel):
    """The new definition of a query; the key is as before by default."""

    sql: Annotated[str, Field(min_length=1, max_length=20_000)]
    key: list[NameField] | None = None


class SubscribeRequest(RequestModel):
    """Rows with the column `subscription` and one column per parameter."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20_000)]


class UnsubscribeRequest(RequestModel):
    """Names of the subscriptions to end."""

    names: Annotated[list[str], Field(min_length=1, max_length=20_000)]


class PinRequest(RequestModel):
    """The worker to pin a query to; None: its current worker."""

    worker: WorkerField | None = None


class WatermarkRequest(RequestModel):
    """The time to set a watermark back to, in UTC unless it has a zone; None: now."""

    to: Annotated[datetime, Field(strict=False), BeforeValidator(_refuse_number)] | None = None


class EmptyRequest(RequestModel):
    """An empty object."""
