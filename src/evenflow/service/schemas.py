"""What the service answers with: every value on the wire, and the source of its OpenAPI."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """A frozen value; its fields are the API's."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerInfo(ApiModel):
    """One worker in the last batch; load is the share of a core it was busy with queries."""

    worker: int
    status: Literal["active", "draining", "drained"]
    load: float
    of_mean: float
    cpu_seconds: float
    state_bytes: float
    shipped_bytes: float
    queries: int


class QueryInfo(ApiModel):
    """One query: as it was submitted, where it runs, and its last batch.

    `loads` has an entry for each worker, `worker` is that of a whole query.
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
    """One stream and its traffic in the last batch, measured and as round robin would have it."""

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
    """A heavy key of a keyed query: its share of what the query's rows cost, and who has it."""

    query: str
    key: str
    share: float
    owner: int


class CorrelationMatrix(ApiModel):
    """How the loads of workers go together; None where one of them does not vary."""

    workers: list[int]
    batches: int
    values: list[list[float | None]]


class JudgementInfo(ApiModel):
    """The state of balance, measured or predicted; loads in CPU seconds a batch."""

    imbalance: float
    max_load: float
    mean_load: float
    deviation: float
    correlation: float
    shipped_bytes: float


class MoveInfo(ApiModel):
    """A whole query, or one key of a keyed one, that changes workers."""

    query: str
    before: int
    after: int
    key: str | None


class VerdictInfo(ApiModel):
    """A limit that no plan can pass."""

    code: str
    subject: str
    message: str
    reachable: float | None


class TransferInfo(ApiModel):
    """State of a query that went from one worker to another."""

    query: str
    before: int
    after: int
    bytes: int


class OutcomeInfo(ApiModel):
    """What a decision brought; `handed` lists the first ways that state took, the largest first."""

    batch: int
    judgement: JudgementInfo
    handed_bytes: float
    pause_seconds: float
    duration_seconds: float | None
    handed: list[TransferInfo]


class DecisionInfo(ApiModel):
    """What was decided at the border of a batch, which is its number, and what came of it.

    `moves` lists the first ones of `move_count`, `arrived` the first queries that were placed, with
    their workers (-1: all, a keyed one). Loads are CPU seconds of each worker in a batch.
    """

    number: int
    at: float
    trigger: str
    reason: str
    message: str
    changed: bool
    staged: bool
    before: JudgementInfo
    predicted: JudgementInfo | None
    measured: OutcomeInfo | None
    loads_before: list[float] | None
    loads_after: list[float] | None
    move_count: int
    moves: list[MoveInfo]
    moved_bytes: float
    arrived: dict[str, int]
    verdicts: list[VerdictInfo]


class RoutingTableInfo(ApiModel):
    """The routing table of a keyed query: hashed keys that do not go where the hash sends them."""

    query: str
    entries: dict[str, int]


class PlanInfo(ApiModel):
    """Where everything runs in the next batch."""

    workers: int
    drained: list[int]
    placement: dict[str, int]
    tables: list[RoutingTableInfo]


class RunSummary(ApiModel):
    """The run at a glance; `bound` is the imbalance that is still fine."""

    status: Literal["starting", "running", "ended"]
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
    """One batch in the course of time; load as shares of a core."""

    batch: int
    at: float
    seconds: float
    loads: list[float]
    active: int
    imbalance: float
    rows_per_second: float
    shipped_bytes: float


class RunState(ApiModel):
    """All that the page shows."""

    summary: RunSummary
    workers: list[WorkerInfo]
    queries: list[QueryInfo]
    streams: list[StreamInfo]
    hot_keys: list[HotKeyInfo]
    correlation: CorrelationMatrix
    decisions: list[DecisionInfo]
    points: list[BatchPoint]


class StateDelta(ApiModel):
    """What one batch changed; what is None is as before."""

    summary: RunSummary
    points: list[BatchPoint]
    decisions: list[DecisionInfo]
    workers: list[WorkerInfo] | None = None
    queries: list[QueryInfo] | None = None
    streams: list[StreamInfo] | None = None
    hot_keys: list[HotKeyInfo] | None = None
    correlation: CorrelationMatrix | None = None


class Accepted(ApiModel):
    """What was asked is taken; it holds from a batch border on."""

    asked: str
    message: str


class ErrorBody(ApiModel):
    """Why a request was refused, and what to do."""

    error: str


class Health(ApiModel):
    """Whether the run and its watcher are alive."""

    status: Literal["ok", "ended"]
    batch: int | None
