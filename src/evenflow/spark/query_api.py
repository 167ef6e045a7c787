"""Methods that declare queries, the same on a `Flow` and on a `Run`.

On a run they take effect at the next batch boundary and survive a restart of the driver.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.codes import QueryForm
from evenflow.names import join_names
from evenflow.spark.driver.submission import (
    KeyArgument,
    Submission,
    key_spec,
    subscription_rows,
)
from evenflow.spark.driver.write_backfill import BackfillRows
from evenflow.spark.protocol.registry import Hosted
from evenflow.sql import Operator, operator_path
from evenflow.sql.compile.hints import with_hints


class QueryMethods(ABC):
    """Base of `Flow` and `Run`; they assign the functions below as methods, under their names."""

    @abstractmethod
    def _submit(self, submission: Submission, backfill: BackfillRows | None = None) -> Hosted:
        """Host a query, or refuse it."""

    @abstractmethod
    def _subscribe(self, name: str, rows: pa.Table) -> None:
        """Add subscriptions of a template."""

    @abstractmethod
    def _declared_queries(self) -> Mapping[str, Hosted]:
        """Return the queries that are hosted or will be."""


def query(
    self: QueryMethods,
    name: str,
    sql: str,
    *,
    key: KeyArgument | None = None,
    publish: bool = False,
    worker: int | None = None,
    tenant: str | None = None,
    mode: str = "append",
    ttl: str | None = None,
    backfill: BackfillRows | None = None,
) -> Hosted:
    """Host a continuous query: on one worker, or with `key` spread over all of them.

    `publish` makes its results a stream for other queries; `worker` pins it to a worker; `tenant`
    is whose limits it counts towards. With `mode="update"` an aggregate also returns results that
    are not complete; groups without a window are then forgotten when they have no row for `ttl`. A
    query that cannot run continuously is refused with what to write instead.

    `backfill` has rows from before: a static DataFrame in the columns of the stream, or one for
    each of several streams. The query takes them first, then every row that comes from its first
    batch on, none of them twice; its results are those of batch SQL over both.
    """
    text = with_hints(sql, mode, ttl)
    return self._submit(
        Submission(QueryForm.QUERY, name, text, key_spec(key), publish, worker, tenant=tenant),
        backfill,
    )


def template(
    self: QueryMethods,
    name: str,
    sql: str,
    *,
    key: KeyArgument | None = None,
    publish: bool = False,
    worker: int | None = None,
    tenant: str | None = None,
) -> Hosted:
    """Host one SQL text with parameters such as :symbol, for very many subscriptions."""
    return self._submit(
        Submission(QueryForm.TEMPLATE, name, sql, key_spec(key), publish, worker, tenant=tenant)
    )


def operator(
    self: QueryMethods,
    name: str,
    operator: type[Operator],
    streams: str | Sequence[str],
    *,
    key: KeyArgument | None = None,
    publish: bool = False,
    worker: int | None = None,
    isolate: bool = False,
    tenant: str | None = None,
) -> Hosted:
    """Host a Python class over Arrow tables, for what SQL cannot express.

    `isolate` runs it in a process of its own: a crash, a hang or a leak there harms nobody else.
    """
    inputs = (streams,) if isinstance(streams, str) else tuple(streams)
    path = operator_path(operator)
    return self._submit(
        Submission(
            QueryForm.OPERATOR,
            name,
            path,
            key_spec(key),
            publish,
            worker,
            inputs,
            isolate,
            tenant,
        )
    )


def subscribe(self: QueryMethods, name: str, rows: Any) -> None:
    """Subscribe to a template with a mapping, a list or a DataFrame of rows.

    A row has the column `subscription`, its name, and one for each parameter. A name that is
    subscribed already gets the new parameters.
    """
    self._subscribe(name, subscription_rows(find_template(self, name), rows))


def find_template(self: QueryMethods, name: str) -> Hosted:
    """Return a template by name, or list those there are."""
    queries = self._declared_queries()
    if name not in queries:
        raise InputError(f"there is no template {name!r}; there are {join_names(queries)}")
    return queries[name]
