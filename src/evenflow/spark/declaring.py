"""Ways to declare a query, the same before a run and while it runs.

`Flow` and `Run` take these functions as their methods; each says only what becomes of what is
declared. On a run it takes effect at a batch border and survives the driver.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.spark.registry import Hosted, listed
from evenflow.spark.submission import Key, Submission, columns, subscriptions
from evenflow.sql import Operator, operator_path


class Declares(ABC):
    """What queries and subscriptions can be declared on."""

    @abstractmethod
    def _submit(self, submission: Submission) -> Hosted:
        """Host a query, or refuse it."""

    @abstractmethod
    def _subscribe(self, name: str, rows: pa.Table) -> None:
        """Begin subscriptions of a template."""

    @abstractmethod
    def _declared(self) -> Mapping[str, Hosted]:
        """Return the queries that are hosted or will be."""


def query(
    self: Declares,
    name: str,
    sql: str,
    *,
    key: Key | None = None,
    publish: bool = False,
    worker: int | None = None,
) -> Hosted:
    """Host a continuous query: on one worker, or with `key` over all of them.

    `publish` makes its results a stream for later queries, `worker` pins it. What cannot run
    continuously is refused here, with what to write instead.
    """
    return self._submit(Submission("query", name, sql, columns(key), publish, worker))


def template(
    self: Declares,
    name: str,
    sql: str,
    *,
    key: Key | None = None,
    publish: bool = False,
    worker: int | None = None,
) -> Hosted:
    """Host one SQL text with parameters such as :symbol, for very many subscriptions."""
    return self._submit(Submission("template", name, sql, columns(key), publish, worker))


def operator(
    self: Declares,
    name: str,
    operator: type[Operator],
    streams: str | Sequence[str],
    *,
    key: Key | None = None,
    publish: bool = False,
    worker: int | None = None,
) -> Hosted:
    """Host a Python class over Arrow tables, for what SQL cannot say."""
    over = (streams,) if isinstance(streams, str) else tuple(streams)
    path = operator_path(operator)
    return self._submit(Submission("operator", name, path, columns(key), publish, worker, over))


def subscribe(self: Declares, name: str, rows: Any) -> None:
    """Subscribe to a template with a mapping, a list or a DataFrame of rows.

    A row has the column `subscription`, its name, and one for each parameter. A name that is known
    takes the new parameters.
    """
    self._subscribe(name, subscriptions(template_of(self, name), rows))


def template_of(self: Declares, name: str) -> Hosted:
    """Return a template by name, or say which there are."""
    known = self._declared()
    if name not in known:
        raise InputError(f"there is no template {name!r}; there are {listed(known)}")
    return known[name]
