"""What may be asked of the service: checked on arrival, unknown fields refused."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=128)]


class Body(BaseModel):
    """The JSON object of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Submit(Body):
    """A query, or with `template` an SQL text with parameters such as :symbol."""

    name: Name
    sql: Annotated[str, Field(min_length=1, max_length=20_000)]
    key: list[Name] | None = None
    publish: bool = False
    worker: Annotated[int, Field(ge=0)] | None = None
    template: bool = False


class Subscribe(Body):
    """Rows with the column `subscription` and one for each parameter."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20_000)]


class Unsubscribe(Body):
    """Names of subscriptions."""

    names: Annotated[list[str], Field(min_length=1, max_length=20_000)]


class Pin(Body):
    """The worker to keep a query on; none: where it is."""

    worker: Annotated[int, Field(ge=0)] | None = None


class Nothing(Body):
    """An empty object."""
