"""JSON schemas of the responses of the HTTP API. Source of /openapi.json."""

from typing import Literal

from pydantic import Field

from evenflow.model.decision import BalanceMetrics, Verdict
from evenflow.model.plan import Transfer
from evenflow.service.api_model import ApiModel
from evenflow.service.course_schema import BatchPoint, CorrelationMatrix, KeepingUp
from evenflow.service.keys_schema import HotKeyInfo
from evenflow.service.tenant_schema import TenantInfo
from evenflow.service.tokens import Role

# starting: no batch has finished yet; ended: the streaming query has stopped.
RunStatus = Literal["starting", "running", "ended"]


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

    `loads` has the workers on which it had load. `worker` is None for a keyed query, which runs on
    all.
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
    loads: dict[int, float]
    rows_in: int
    rows_out: int
    state_bytes: float
    table_entries: int
    late: int
    quarantined: str | None


class StreamInfo(ApiModel):
    """One stream and its traffic in the last batch, measured and estimated for round robin.

    `readers` is the number of its queries. `set_aside` rows did not count because of their event
    time, `ahead` of them because it was too far ahead of the clock, the others because it was
    missing or invalid.
    """

    name: str
    derived: bool
    time: str
    columns: list[str]
    watermark_us: int | None
    set_aside: int
    ahead: int
    readers: int
    workers: list[int]
    shipped_bytes: float
    round_robin_bytes: float


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
    owners_before: list[int] = Field(default_factory=list)
    owners_after: list[int] = Field(default_factory=list)


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
    proposal: int | None = None


class SplitInfo(ApiModel):
    """Key that several workers share: its home first, and the stream divided over them."""

    owners: list[int]
    fragmented: str


class RoutingTableInfo(ApiModel):
    """Routing table of a keyed query: key hashes routed elsewhere than the hash function says."""

    query: str
    entries: dict[str, int]
    splits: dict[str, SplitInfo] = Field(default_factory=dict)


class PlanInfo(ApiModel):
    """Where every query and key runs in the next batch."""

    workers: int
    drained: list[int]
    placement: dict[str, int]
    tables: list[RoutingTableInfo]


class ScalingInfo(ApiModel):
    """How many workers the load needs and why; all None before a few batches.

    `true_rate` is the rows that a worker processes in a second of useful time, `busy_workers` the
    useful seconds of all workers per second, `message` the advice in words. `followed`: workers
    are activated and drained by it (`autoscale`), between `min` and `max`.
    """

    workers: int | None
    active: int
    rows_per_second: float | None
    true_rate: float | None
    busy_workers: float | None
    utilisation: float | None
    target: float | None
    message: str
    followed: bool


class RunSummary(ApiModel):
    """Key figures of a run; `bound` is the highest imbalance that needs no plan change.

    `trigger_seconds` is the time between two batches if they are quicker; None: no pause, until
    all rows are read.
    `proposal` is the number of the plan that waits for approval (`/api/proposals`),
    `workers_needed` the advice of `/api/scaling`, `alerts` how many fire (`/api/alerts`).
    """

    status: RunStatus
    batch: int | None
    at: float | None
    batches: int
    trigger_seconds: float | None
    keeping_up: KeepingUp
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
    set_aside: int
    quarantined: int
    refused: int
    proposal: int | None = None
    proposal_state: str | None = None
    workers_needed: int | None = None
    alerts: int = 0


class ProblemInfo(ApiModel):
    """Something that needs attention; `subject` is a query for `quarantined` and `late`."""

    kind: Literal["quarantined", "late", "refused", "verdict"]
    subject: str
    message: str


class RunState(ApiModel):
    """The complete state of the page; decisions without their lists."""

    summary: RunSummary
    workers: list[WorkerInfo]
    queries: list[QueryInfo]
    streams: list[StreamInfo]
    tenants: list[TenantInfo] = Field(default_factory=list)
    hot_keys: list[HotKeyInfo]
    correlation: CorrelationMatrix
    problems: list[ProblemInfo]
    decisions: list[DecisionInfo]
    points: list[BatchPoint]


class StateDelta(ApiModel):
    """Changes of one batch; fields that are None are unchanged.

    A point replaces that of the same batch: Spark reports on a batch a moment after its end.
    """

    summary: RunSummary
    points: list[BatchPoint]
    decisions: list[DecisionInfo]
    workers: list[WorkerInfo] | None = None
    queries: list[QueryInfo] | None = None
    streams: list[StreamInfo] | None = None
    tenants: list[TenantInfo] | None = None
    hot_keys: list[HotKeyInfo] | None = None
    correlation: CorrelationMatrix | None = None
    problems: list[ProblemInfo] | None = None


class RunInfo(ApiModel):
    """Which run this service shows; `name` is the last part of its checkpoint."""

    name: str
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
