"""Results of a query over HTTP: pages, and server-sent events that follow the commits.

An event holds one page and has the position after it as its id. A client that reconnects sends the
id of the last event it saw, so it gets every row once.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.service.parameters import int_parameter
from evenflow.service.results_schema import ColumnInfo, ResultsInfo
from evenflow.service.run_protocol import RunProtocol

_PAGE_ROWS = 100
_MAX_FOLLOWERS, _MAX_READERS = 32, 4
_POLL_SECONDS, _HEARTBEAT_SECONDS = 0.5, 15.0
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_MAX_EXACT_INT = 1 << 53  # beyond it, readers of JSON such as browsers round


def results_page(name: str, page: ResultsPage) -> ResultsInfo:
    """Return a page as JSON values."""
    rows = page.rows
    columns = [_values(column) for column in rows.columns]
    return ResultsInfo(
        query=name,
        columns=[ColumnInfo(name=f.name, type=str(f.type)) for f in rows.schema],
        rows=[
            dict(zip(rows.column_names, map(json_value, row), strict=True))
            for row in zip(*columns, strict=True)
        ],
        first=str(page.first),
        next=str(page.next),
        complete=page.complete,
        committed=page.committed,
    )


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; as text if Python has no such dates."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if pa.types.is_temporal(column.type):
            return list(column.cast(pa.string()).to_pylist())
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return "<a date out of range>"


def _page_json(name: str, page: ResultsPage) -> str:
    return results_page(name, page).model_dump_json()


def json_value(value: Any) -> Any:
    """Return a value of a result as JSON, as text where a JSON number would be rounded.

    >>> json_value(Decimal("1.50")), json_value(float("nan")), json_value(2**60), json_value(b"a")
    ('1.50', 'NaN', '1152921504606846976', '61')
    """
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    exact = value is None or isinstance(value, bool | str)
    if exact or (isinstance(value, int) and abs(value) <= _MAX_EXACT_INT):
        return value
    return _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class ResultStreams:
    """Answers requests for results; counts the clients that follow. Lives as long as the server.

    A page is small, but the batches that it is cut from may be large, so few are read at once:
    `slots` has a place for each.
    """

    def __init__(self, run: RunProtocol) -> None:
        self._run = run
        self._followers = 0
        self.slots = asyncio.Semaphore(_MAX_READERS)

    def page(self, request: Request) -> ResultsInfo:
        """Return one page: from `since` on, or the newest rows."""
        name, since, limit = _parameters(request)
        return results_page(name, self._run.results_page(name, since, limit))

    async def follow(self, request: Request) -> Response:
        """Return server-sent events: a page for each commit with rows, until the run ends."""
        name, since, limit = _parameters(request)
        first = await self._read(name, since, limit)
        if self._followers >= _MAX_FOLLOWERS:
            message = f"at most {_MAX_FOLLOWERS} clients can follow results; close one"
            return JSONResponse({"error": message}, 503, headers={"retry-after": "10"})
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        events = self._events(name, first, limit)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _read(self, name: str, since: ResultPosition | None, limit: int) -> ResultsPage:
        async with self.slots:
            return await run_in_threadpool(self._run.results_page, name, since, limit)

    async def _events(self, name: str, page: ResultsPage, limit: int) -> AsyncIterator[str]:
        self._followers += 1
        silent = 0.0
        try:
            yield "retry: 2000\n\n"
            while True:
                if len(page.rows) or not page.complete:
                    data = await run_in_threadpool(_page_json, name, page)
                    yield f"id: {page.next}\nevent: rows\ndata: {data}\n\n"
                    silent = 0.0
                elif not self._run.is_active:
                    yield "event: end\ndata: {}\n\n"
                    return
                elif silent >= _HEARTBEAT_SECONDS:
                    yield ": heartbeat\n\n"
                    silent = 0.0
                if page.complete:
                    await asyncio.sleep(_POLL_SECONDS)
                    silent += _POLL_SECONDS
                page = await self._read(name, page.next, limit)
        finally:
            self._followers -= 1


def _parameters(request: Request) -> tuple[str, ResultPosition | None, int]:
    """Return the query, the position to begin at, and the number of rows of a page."""
    since = request.headers.get("last-event-id") or request.query_params.get("since")
    limit = int_parameter(request, "limit", _PAGE_ROWS)
    position = None if since is None else ResultPosition.parse(since)
    return request.path_params["name"], position, limit


def wants_events(request: Request) -> bool:
    """Tell whether a client asks for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")
