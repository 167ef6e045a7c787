"""What is asked of a flow between batches: written down before the caller hears yes.

An ask is a file until a border has taken it in; the ledger's entry says how many were taken. So
what was promised to a caller survives the driver, and nothing is taken in twice.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.driver import commit
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import Entry, SubscriptionChange
from evenflow.spark.protocol.registry import Registry, join_names, key_from_record, key_record
from evenflow.storage.bundle import PartRef
from evenflow.storage.file_store import FileStore


@dataclass(frozen=True, slots=True)
class CancelQuery:
    """The end of a query."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeSubscriptions:
    """Subscriptions of a template that begin, or end (then only their names count)."""

    name: str
    rows: PartRef
    subscribe: bool


@dataclass(frozen=True, slots=True)
class PinQuery:
    """A whole query bound to a worker, or free again."""

    name: str
    worker: int | None


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """A worker to be emptied, or used again."""

    worker: int
    drain: bool


Command = Submission | CancelQuery | ChangeSubscriptions | PinQuery | DrainWorker
_COMMAND_TYPES: dict[str, type[Command]] = {
    "submit": Submission, "cancel": CancelQuery, "subscribe": ChangeSubscriptions, "pin": PinQuery, "drain": DrainWorker,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PendingState:
    """What will hold after the next border."""

    registry: Registry
    plan: Plan
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    drain: frozenset[int] | None = None

    def is_same(self, other: "PendingState") -> bool:
        """Tell whether nothing has been asked in between."""
        same = self.registry is other.registry and self.plan is other.plan
        return same and (self.subscription_changes, self.drain) == (
            other.subscription_changes,
            other.drain,
        )

    def apply(self, ask: Command) -> "PendingState":
        """Return it with one more ask taken in, or refuse that."""
        match ask:
            case Submission():
                registry, plan = ask(self.registry, self.plan)
                return replace(self, registry=registry, plan=plan)
            case CancelQuery(name):
                registry = self.registry.without_query(name)
                return replace(
                    self, registry=registry, plan=commit.plan_without_query(self.plan, name)
                )
            case PinQuery(name, worker):
                return replace(self, registry=self.registry.with_pin(name, worker))
            case DrainWorker():
                return replace(self, drain=self._drained_workers(ask))
            case ChangeSubscriptions():
                return replace(
                    self,
                    subscription_changes=(
                        *self.subscription_changes,
                        self._subscription_change(ask),
                    ),
                )

    def _drained_workers(self, ask: DrainWorker) -> frozenset[int]:
        before = self.plan.drained if self.drain is None else self.drain
        after = before | {ask.worker} if ask.drain else before - {ask.worker}
        commit.check_drain(after, self.plan, self.registry)
        return after

    def _subscription_change(self, ask: ChangeSubscriptions) -> SubscriptionChange:
        if ask.name not in self.registry.queries:
            known = join_names(self.registry.queries)
            raise InputError(f"there is no template {ask.name!r}; there are {known}")
        return SubscriptionChange(self.registry.queries[ask.name].uid, ask.rows, ask.subscribe)


class CommandLog:
    """The files of asks, numbered in the order in which they came."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.next_number = 0

    def read_pending(self, head: Entry) -> list[Command]:
        """Return those that no border has taken in yet."""
        numbers = [int(name) for name in self.store.list_names("asked")]
        self.next_number = max([head.commands_applied, *(number + 1 for number in numbers)])
        waiting = [number for number in numbers if number >= head.commands_applied]
        return [
            _command_from_record(self.store.read_record(_command_file(number)))
            for number in waiting
        ]

    def append(self, ask: Command) -> None:
        """Write one down."""
        self.store.write_record(_command_file(self.next_number), _command_record(ask))
        self.next_number += 1


def delete_applied_commands(store: FileStore, head: Entry) -> None:
    """Delete what borders have taken in."""
    names = store.list_names("asked")
    store.delete(f"asked/{name}" for name in names if int(name) < head.commands_applied)


def _command_record(ask: Command) -> dict[str, Any]:
    kind = next(name for name, made in _COMMAND_TYPES.items() if isinstance(ask, made))
    key = {"key": key_record(ask.key)} if isinstance(ask, Submission) else {}
    return {"ask": kind, **asdict(ask), **key}


def _command_from_record(record: dict[str, Any]) -> Command:
    kind = record.pop("ask")
    if kind == "submit":
        record |= {"key": key_from_record(record["key"]), "over": tuple(record["over"])}
    if kind == "subscribe":
        record["rows"] = PartRef(*record["rows"])
    return _COMMAND_TYPES[kind](**record)


def _command_file(number: int) -> str:
    return f"asked/{number:012d}"
