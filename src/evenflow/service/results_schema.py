"""JSON schemas of the results of queries."""

from typing import Any

from evenflow.service.api_model import ApiModel


class ColumnInfo(ApiModel):
    """A column of results and its Arrow type."""

    name: str
    type: str


class ResultsInfo(ApiModel):
    """Some committed results of a query, in the order of their batches.

    Pass `next` as `since` to get what follows; `complete`: nothing follows yet. Results of all
    batches before `committed` are there. Times, decimals and numbers that JSON would round are
    strings.
    """

    query: str
    columns: list[ColumnInfo]
    rows: list[dict[str, Any]]
    first: str
    next: str
    complete: bool
    committed: int
