"""JSON schemas of the HTTP API: responses first, then request bodies. Source of /openapi.json."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenflow.model.decision import BalanceMetrics, Verdict
from evenflow.model.plan import Transfer
from evenflow.service.tokens import Role

# starting: no batch has finished yet; ended: the streaming query has stopped.
RunStatus = Literal["starting", "running", "ended"]
NameField = Annotated[str, Field(min_length=1, max_length=128)]
WorkerField = Annotated[int, Field(ge=0)]


class ApiModel(BaseModel):
    """Base of all JSON objects of the API: frozen, unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerInfo(ApiModel):
    """One worker in the last batch; `load` is the share of a core that its queries used."""

    worker: int
    status: Literal["active", "draining", "drained"]
    load: float
    of_mean: float
    cpu_seconds: float
    state_bytes: float
    shipped_bytes: float
    queries: int


class QueryInfo(ApiModel):
    """One query: its definition, where it runs, and its last batch.

    `loads` has one entry per worker. `worker` is None for a keyed query, which runs on all.
    """

    name: str
    form: str
    kind: str
    text: str
    streams: list[str]
    columns: list[str]
    parameters: list[str] | None
    key: list[str] | None
    keyable: bool
    publish: bool
    pinned: bool
    worker: int | None
    load: float
    loads: list[float]
    rows_in: int
    rows_out: int
    state_bytes: float
    table_entries: int
    late: int
    quarantined: str | None


class StreamInfo(ApiModel):
    """One stream and its traffic in the last batch, measured and estimated for round robin."""

    name: str
    derived: bool
    time: str
    columns: list[str]
    watermark_us: int | None
    readers: list[str]
    workers: list[int]
    shipped_bytes: float
    round_robin_bytes: float


class HotKeyInfo(ApiModel):
    """A heavy key of a keyed query: its share of the query's row cost, and its worker.

    A key that is split has several `owners`; `owner` is the first of them.
    """

    query: str
    key: str
    share: float
    owner: int
    owners: list[int]


class CorrelationMatrix(ApiModel):
    """Pairwise correlation of worker loads; None where a worker's load does not vary."""

    workers: list[int]
    batches: int
    values: list[list[float | None]]


class MoveInfo(ApiModel):
    """Move of a whole query, or of one key of a keyed query, to another worker.

    Of a key that is split before or after, `owners_before` and `owners_after` are all its workers,
    its home first; for other moves they are empty. `load` is in CPU seconds of the batch before the
    decision, None if it was not measured.
    """

    query: str
    before: int
    after: int
    key: str | None
    load: float | None = None
    owners_before: list[int] = []
    owners_after: list[int] = []


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


class OutcomeInfo(ApiModel):
    """Measured effect of a decision; `handed` lists the largest state transfers first."""

    batch: int
    judgement: BalanceMetrics
    handed_bytes: float
    pause_seconds: float
    duration_seconds: float | None
    handed: list[Transfer]


class DecisionInfo(ApiModel):
    """The decision after batch `number`, its prediction and its measured effect.

    `title` says it in words. `moves` lists the heaviest first and is cut off; `move_count` is the
    total. `arrived` maps queries placed by this decision to their workers (-1: keyed, runs on all).
    Loads are CPU seconds of each worker per batch.
    """

    number: int
    at: float
    title: str
    trigger: str
    reason: str
    message: str
    changed: bool
    staged: bool
    before: BalanceMetrics
    predicted: BalanceMetrics | None
    measured: OutcomeInfo | None
    loads_before: list[float] | None
    loads_after: list[float] | None
    move_count: int
    moves: list[MoveInfo]
    moved_bytes: float
    move_price: float | None = None
    arrived: dict[str, int]
    verdicts: list[Verdict]


class SplitInfo(ApiModel):
    """Key that several workers share: its home first, and the stream divided over them."""

    owners: list[int]
    fragmented: str


class RoutingTableInfo(ApiModel):
    """Routing table of a keyed query: key hashes routed elsewhere than the hash function says."""

    query: str
    entries: dict[str, int]
    splits: dict[str, SplitInfo] = {}


class PlanInfo(ApiModel):
    """Where every query and key runs in the next batch."""

    workers: int
    drained: list[int]
    placement: dict[str, int]
    tables: list[RoutingTableInfo]


class RunSummary(ApiModel):
    """Key figures of a run; `bound` is the highest imbalance that needs no plan change."""

    status: RunStatus
    batch: int | None
    at: float | None
    batches: int
    workers: int
    active: int
    queries: int
    imbalance: float
    bound: float
    mean_load: float
    seconds: float
    rows_per_second: float
    rows: int
    shipped_bytes: float
    round_robin_bytes: float
    plan_changes: int
    moves: int
    handed_bytes: float
    late: int
    quarantined: int
    refused: int


class BatchPoint(ApiModel):
    """One batch of the time charts; loads are shares of a core."""

    batch: int
    at: float
    seconds: float
    loads: list[float]
    active: int
    imbalance: float
    rows_per_second: float
    shipped_bytes: float


class RunState(ApiModel):
    """The complete state of the page."""

    summary: RunSummary
    workers: list[WorkerInfo]
    queries: list[QueryInfo]
    streams: list[StreamInfo]
    hot_keys: list[HotKeyInfo]
    correlation: CorrelationMatrix
    decisions: list[DecisionInfo]
    points: list[BatchPoint]


class StateDelta(ApiModel):
    """Changes of one batch; fields that are None are unchanged."""

    summary: RunSummary
    points: list[BatchPoint]
    decisions: list[DecisionInfo]
    workers: list[WorkerInfo] | None = None
    queries: list[QueryInfo] | None = None
    streams: list[StreamInfo] | None = None
    hot_keys: list[HotKeyInfo] | None = None
    correlation: CorrelationMatrix | None = None


class RunInfo(ApiModel):
    """Which run this service shows."""

    checkpoint: str
    version: str


class Accepted(ApiModel):
    """A change that was accepted; it takes effect at the next batch boundary."""

    asked: str
    message: str


class ErrorBody(ApiModel):
    """Why a request was rejected, and what to do."""

    error: str


class Health(ApiModel):
    """Liveness of the run and its watcher."""

    status: Literal["ok", "ended"]
    batch: int | None


class CallerInfo(ApiModel):
    """Who sends the request; `role` read, submit or operate."""

    name: str
    role: Role
    tenant: str | None


class SubmitRequest(ApiModel):
    """A query; with `template`, an SQL text with parameters such as `:symbol`."""

    name: NameField
    sql: Annotated[str, Field(min_length=1, max_length=20_000)]
    key: list[NameField] | None = None
    publish: bool = False
    worker: WorkerField | None = None
    template: bool = False


class SubscribeRequest(ApiModel):
    """Rows with the column `subscription` and one column per parameter."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20_000)]


class UnsubscribeRequest(ApiModel):
    """Names of the subscriptions to end."""

    names: Annotated[list[str], Field(min_length=1, max_length=20_000)]


class PinRequest(ApiModel):
    """The worker to pin a query to; None: its current worker."""

    worker: WorkerField | None = None


class WatermarkRequest(ApiModel):
    """The time to set a watermark back to, in UTC unless it has a zone; None: now."""

    to: datetime | None = None


class EmptyRequest(ApiModel):
    """An empty object."""
