"""What is asked of a flow between batches: written down before the caller hears yes.

An ask is a file until a border has taken it in; the ledger's entry says how many were taken. So
what was promised to a caller survives the driver, and nothing is taken in twice.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark import border
from evenflow.spark.bundle import Ref
from evenflow.spark.ledger import Entry, Subscribing
from evenflow.spark.registry import Registry, columns_of, columns_record, listed
from evenflow.spark.submission import Submission
from evenflow.storage.file_store import FileStore


@dataclass(frozen=True, slots=True)
class Cancel:
    """The end of a query."""

    name: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscriptions of a template that begin, or end (then only their names count)."""

    name: str
    rows: Ref
    begin: bool


@dataclass(frozen=True, slots=True)
class Pin:
    """A whole query bound to a worker, or free again."""

    name: str
    worker: int | None


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker to be emptied, or used again."""

    worker: int
    drain: bool


Ask = Submission | Cancel | Subscribe | Pin | Drain
_KINDS: dict[str, type[Ask]] = {
    "submit": Submission, "cancel": Cancel, "subscribe": Subscribe, "pin": Pin, "drain": Drain,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Upcoming:
    """What will hold after the next border."""

    registry: Registry
    plan: Plan
    subscribing: tuple[Subscribing, ...] = ()
    drain: frozenset[int] | None = None

    def same_as(self, other: "Upcoming") -> bool:
        """Tell whether nothing has been asked in between."""
        same = self.registry is other.registry and self.plan is other.plan
        return same and (self.subscribing, self.drain) == (other.subscribing, other.drain)

    def after(self, ask: Ask) -> "Upcoming":
        """Return it with one more ask taken in, or refuse that."""
        match ask:
            case Submission():
                registry, plan = ask(self.registry, self.plan)
                return replace(self, registry=registry, plan=plan)
            case Cancel(name):
                registry = self.registry.without_query(name)
                return replace(self, registry=registry, plan=border.remove(self.plan, name))
            case Pin(name, worker):
                return replace(self, registry=self.registry.with_pin(name, worker))
            case Drain():
                return replace(self, drain=self._drained(ask))
            case Subscribe():
                return replace(self, subscribing=(*self.subscribing, self._subscribing(ask)))

    def _drained(self, ask: Drain) -> frozenset[int]:
        before = self.plan.drained if self.drain is None else self.drain
        after = before | {ask.worker} if ask.drain else before - {ask.worker}
        border.check_drain(after, self.plan, self.registry)
        return after

    def _subscribing(self, ask: Subscribe) -> Subscribing:
        if ask.name not in self.registry.queries:
            known = listed(self.registry.queries)
            raise InputError(f"there is no template {ask.name!r}; there are {known}")
        return Subscribing(self.registry.queries[ask.name].uid, ask.rows, ask.begin)


class Asks:
    """The files of asks, numbered in the order in which they came."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.end = 0

    def open(self, head: Entry) -> list[Ask]:
        """Return those that no border has taken in yet."""
        numbers = [int(name) for name in self.store.list_names("asked")]
        self.end = max([head.asked, *(number + 1 for number in numbers)])
        waiting = [number for number in numbers if number >= head.asked]
        return [_ask(self.store.read_record(_file(number))) for number in waiting]

    def write(self, ask: Ask) -> None:
        """Write one down."""
        self.store.write_record(_file(self.end), _record(ask))
        self.end += 1


def forget(store: FileStore, head: Entry) -> None:
    """Delete what borders have taken in."""
    names = store.list_names("asked")
    store.delete(f"asked/{name}" for name in names if int(name) < head.asked)


def _record(ask: Ask) -> dict[str, Any]:
    kind = next(name for name, made in _KINDS.items() if isinstance(ask, made))
    key = {"key": columns_record(ask.key)} if isinstance(ask, Submission) else {}
    return {"ask": kind, **asdict(ask), **key}


def _ask(record: dict[str, Any]) -> Ask:
    kind = record.pop("ask")
    if kind == "submit":
        record |= {"key": columns_of(record["key"]), "over": tuple(record["over"])}
    if kind == "subscribe":
        record["rows"] = Ref(*record["rows"])
    return _KINDS[kind](**record)


def _file(number: int) -> str:
    return f"asked/{number:012d}"
