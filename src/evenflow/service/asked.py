"""What may be asked of the service: checked on arrival, unknown fields refused."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

NameField = Annotated[str, Field(min_length=1, max_length=128)]


class RequestBody(BaseModel):
    """The JSON object of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SubmitRequest(RequestBody):
    """A query, or with `template` an SQL text with parameters such as :symbol."""

    name: NameField
    sql: Annotated[str, Field(min_length=1, max_length=20_000)]
    key: list[NameField] | None = None
    publish: bool = False
    worker: Annotated[int, Field(ge=0)] | None = None
    template: bool = False


class SubscribeRequest(RequestBody):
    """Rows with the column `subscription` and one for each parameter."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20_000)]


class UnsubscribeRequest(RequestBody):
    """Names of subscriptions."""

    names: Annotated[list[str], Field(min_length=1, max_length=20_000)]


class PinRequest(RequestBody):
    """The worker to keep a query on; none: where it is."""

    worker: Annotated[int, Field(ge=0)] | None = None


class EmptyRequest(RequestBody):
    """An empty object."""
