"""JSON schemas of keys: the heaviest ones, and the history of one."""

from evenflow.service.api_model import ApiModel


class HotKeyInfo(ApiModel):
    """A heavy key of a keyed query: its share of the query's row cost, and its worker.

    A key that is split has several `owners`; `owner` is the first of them.
    """

    query: str
    key: str
    share: float
    owner: int
    owners: list[int]


class PastMoveInfo(ApiModel):
    """One move of a query or key in the past; `before` and `after` -1: all workers.

    `load` is in CPU seconds of a batch. The imbalance is that before the decision `batch`, as
    predicted, and as measured afterwards.
    """

    batch: int
    at: float
    query: str
    key: str | None
    before: int
    after: int
    owners_before: list[int]
    owners_after: list[int]
    trigger: str
    reason: str
    message: str
    load: float | None
    imbalance: float
    predicted: float | None
    measured: float | None


class KeyPoint(ApiModel):
    """A key in one batch: its share of the query's row cost, its CPU seconds, its workers."""

    batch: int
    at: float
    share: float
    cpu_seconds: float
    owners: list[int]


class KeyHistoryInfo(ApiModel):
    """One key of a keyed query over the last 256 batches, oldest first; moves newest first.

    Batches in which the key was not among the heavy ones are left out. `owners` are its workers
    now.
    """

    query: str
    key: str
    owners: list[int]
    points: list[KeyPoint]
    moves: list[PastMoveInfo]
