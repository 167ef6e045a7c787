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
from evenflow.spark.store import Store
from evenflow.spark.submission import Submission


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


Ask = Submission | Cancel | Subscribe


@dataclass(frozen=True, slots=True)
class Upcoming:
    """What will hold after the next border."""

    registry: Registry
    plan: Plan
    subscribing: tuple[Subscribing, ...] = ()

    def after(self, ask: Ask) -> "Upcoming":
        """Return it with one more ask taken in, or refuse that."""
        if isinstance(ask, Subscribe):
            if ask.name not in self.registry.queries:
                known = listed(self.registry.queries)
                raise InputError(f"there is no template {ask.name!r}; there are {known}")
            uid = self.registry.queries[ask.name].uid
            return replace(
                self, subscribing=(*self.subscribing, Subscribing(uid, ask.rows, ask.begin))
            )
        if isinstance(ask, Cancel):
            registry = self.registry.without_query(ask.name)
            return replace(self, registry=registry, plan=border.remove(self.plan, ask.name))
        registry, plan = ask(self.registry, self.plan)
        return replace(self, registry=registry, plan=plan)


class Asks:
    """The files of asks, numbered in the order in which they came."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.end = 0

    def open(self, head: Entry) -> list[Ask]:
        """Return those that no border has taken in yet."""
        numbers = [int(name) for name in self.store.names("asked")]
        self.end = max([head.asked, *(number + 1 for number in numbers)])
        waiting = [number for number in numbers if number >= head.asked]
        return [_ask(self.store.read_record(_file(number))) for number in waiting]

    def write(self, ask: Ask) -> None:
        """Write one down."""
        self.store.write_record(_file(self.end), _record(ask))
        self.end += 1


def forget(store: Store, head: Entry) -> None:
    """Delete what borders have taken in."""
    names = store.names("asked")
    store.delete(f"asked/{name}" for name in names if int(name) < head.asked)


def _record(ask: Ask) -> dict[str, Any]:
    if isinstance(ask, Submission):
        return {"ask": "submit", **asdict(ask), "key": columns_record(ask.key)}
    return {"ask": "cancel" if isinstance(ask, Cancel) else "subscribe", **asdict(ask)}


def _ask(record: dict[str, Any]) -> Ask:
    kind = record.pop("ask")
    if kind == "cancel":
        return Cancel(**record)
    if kind == "subscribe":
        return Subscribe(record["name"], Ref(*record["rows"]), record["begin"])
    key, over = columns_of(record.pop("key")), tuple(record.pop("over"))
    return Submission(**record, key=key, over=over)


def _file(number: int) -> str:
    return f"asked/{number:012d}"
