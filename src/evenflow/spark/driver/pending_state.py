"""The kinds of commands, and what they lead to. Values and pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.names import join_names
from evenflow.spark.driver.plan_changes import check_drain, plan_without_query
from evenflow.spark.driver.replacement import ReplaceQuery, next_name
from evenflow.spark.driver.submission import CheckedProgram, Submission
from evenflow.spark.driver.widen_source import WidenSource
from evenflow.spark.protocol.ledger import SubscriptionChange
from evenflow.spark.protocol.registry import Registry
from evenflow.storage import records
from evenflow.storage.bundle import PartRef
from evenflow.storage.file_store import FileStore

COMMAND_FOLDER = "commands"


@dataclass(frozen=True, slots=True)
class CancelQuery:
    """Stop hosting a query."""

    name: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Run a quarantined query again, from its state before it failed."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeSubscriptions:
    """Add subscriptions of a template, or remove them (then only their names count)."""

    name: str
    rows: PartRef
    subscribe: bool
    count: int = 0


@dataclass(frozen=True, slots=True)
class ResetWatermark:
    """Set the watermark of a source back, after rows with a wrong time have raised it."""

    stream: str
    to_us: int


@dataclass(frozen=True, slots=True)
class PinQuery:
    """Keep a whole query on a worker; None frees it."""

    name: str
    worker: int | None


@dataclass(frozen=True, slots=True)
class AssignTenant:
    """Give a query to another tenant; None: to nobody."""

    name: str
    tenant: str | None


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """Empty a worker, or use it again."""

    worker: int
    drain: bool


@dataclass(frozen=True, slots=True)
class AnswerProposal:
    """Approve or reject a plan that waits for approval."""

    number: int
    approve: bool


Command = (
    Submission
    | ReplaceQuery
    | WidenSource
    | CancelQuery
    | ResumeQuery
    | ChangeSubscriptions
    | PinQuery
    | AssignTenant
    | DrainWorker
    | ResetWatermark
    | AnswerProposal
)
_COMMAND_TYPES: Mapping[str, type[Command]] = {
    "submit": Submission,
    "replace": ReplaceQuery,
    "widen": WidenSource,
    "cancel": CancelQuery,
    "resume": ResumeQuery,
    "subscribe": ChangeSubscriptions,
    "pin": PinQuery,
    "tenant": AssignTenant,
    "drain": DrainWorker,
    "reset_watermark": ResetWatermark,
    "answer": AnswerProposal,
}


@dataclass(frozen=True, slots=True)
class PendingState:
    """Registry and plan after the next commit, as far as commands decide."""

    registry: Registry
    plan: Plan
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    drain: frozenset[int] | None = None
    quarantined: frozenset[str] = frozenset()
    resumed: frozenset[str] = frozenset()
    watermark_resets: Mapping[str, int] = field(default_factory=dict)
    proposal: int | None = None  # the one that stands
    approve: bool | None = None  # the answer to it

    def is_same(self, other: "PendingState") -> bool:
        """Tell whether no command was applied in between."""
        same = self.registry is other.registry and self.plan is other.plan
        return same and replace(self, registry=other.registry, plan=other.plan) == other

    def apply(self, command: Command, checked: CheckedProgram | None = None) -> "PendingState":
        """Return the state with one more command, or refuse the command.

        `checked` is the program of a submission, if it is compiled already.
        """
        changed: dict[str, Any]
        match command:
            case Submission() | ReplaceQuery():
                registry, plan = command.apply(self.registry, self.plan, checked)
                changed = {"registry": registry, "plan": plan}
            case WidenSource():
                changed = {"registry": command.apply(self.registry)}
            case CancelQuery(name):
                self._check_not_replaced(name)
                registry, plan = self.registry.without_query(name), self.plan
                changed = {"registry": registry, "plan": plan_without_query(plan, name)}
            case ResumeQuery(name):
                changed = {"resumed": self.resumed | {self._quarantined_uid(name)}}
            case PinQuery(name, worker):
                changed = {"registry": self.registry.with_pin(name, worker)}
            case AssignTenant(name, tenant):
                changed = {"registry": self.registry.with_tenant(name, tenant)}
            case DrainWorker():
                changed = {"drain": self._drained_workers(command)}
            case ResetWatermark(stream, to_us):
                self._check_source(stream)
                changed = {"watermark_resets": {**self.watermark_resets, stream: to_us}}
            case AnswerProposal(number, approve):
                self._check_proposal(number)
                changed = {"approve": approve}
            case ChangeSubscriptions():
                change = self._subscription_change(command)
                changed = {"subscription_changes": (*self.subscription_changes, change)}
        return replace(self, **changed)

    def _check_not_replaced(self, name: str) -> None:
        if next_name(name) in self.registry.queries:
            raise InputError(f"{name!r} is being replaced; cancel {next_name(name)!r} first")

    def _check_source(self, name: str) -> None:
        sources = [n for n, spec in self.registry.streams.items() if not spec.derived]
        if name not in sources:
            raise InputError(f"there is no source {name!r}; there are {join_names(sources)}")

    def _check_proposal(self, number: int) -> None:
        if number != self.proposal:
            one = "none waits" if self.proposal is None else f"{self.proposal} waits"
            raise InputError(f"there is no proposal {number} to answer; {one}")

    def _quarantined_uid(self, name: str) -> str:
        uid = self.registry.query(name).uid
        if uid not in self.quarantined:
            names = [q.name for q in self.registry.queries.values() if q.uid in self.quarantined]
            raise InputError(
                f"{name!r} is not quarantined, so it cannot be resumed; "
                f"quarantined are {join_names(names)}"
            )
        return uid

    def _drained_workers(self, command: DrainWorker) -> frozenset[int]:
        drained = self.plan.drained if self.drain is None else self.drain
        drained = drained | {command.worker} if command.drain else drained - {command.worker}
        check_drain(drained, self.plan, self.registry)
        return drained

    def _subscription_change(self, command: ChangeSubscriptions) -> SubscriptionChange:
        if command.name not in self.registry.queries:
            known = join_names(self.registry.queries)
            raise InputError(f"there is no template {command.name!r}; there are {known}")
        uid = self.registry.queries[command.name].uid
        return SubscriptionChange(uid, command.rows, command.subscribe, command.count)


def write_command(store: FileStore, number: int, command: Command) -> None:
    """Write a command as a new file."""
    kind = next(name for name, type_ in _COMMAND_TYPES.items() if isinstance(command, type_))
    body = {"kind": kind, "command": records.encode(command).decode()}
    store.create_record(command_file(number), body)


def read_command(store: FileStore, number: int) -> Command:
    """Read back what `write_command` wrote."""
    body: Any = store.read_record(command_file(number), Any)
    return records.decode(body["command"].encode(), _COMMAND_TYPES[body["kind"]])


def command_file(number: int) -> str:
    """Return the name of the file of a command."""
    return f"{COMMAND_FOLDER}/{number:012d}"
