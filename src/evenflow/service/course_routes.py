"""Reads of the page beyond its state: the whole course, the list of queries, one key, the log."""

from collections.abc import Callable, Iterable
from typing import get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.service import course, keys, present, schemas
from evenflow.service.course_schema import CourseInfo
from evenflow.service.keys_schema import KeyHistoryInfo
from evenflow.service.log_tail import LogLine, LogTail
from evenflow.service.openapi import Endpoint
from evenflow.service.parameters import choice_parameter, int_parameter, time_parameter
from evenflow.service.query_list import QueryFilter, QueryListInfo, QueryOrder, QueryTable
from evenflow.service.watcher import PublishedState

_MAX_LOAD_VALUES = 40_000  # in one answer, of all workers


def course_endpoints(current: Callable[[], PublishedState], log: LogTail) -> Iterable[Endpoint]:
    """Return the endpoints; `current` gives the published state, or refuses the request."""
    table: QueryTable | None = None

    def course_info(request: Request) -> CourseInfo:
        published = current()
        points = published.course
        start, end = time_parameter(request, "start"), time_parameter(request, "end")
        recent = published.state.points
        if start is not None and recent and start >= recent[0].at:
            points = recent  # not averaged
        workers = max(published.state.summary.workers, 1)
        count = min(int_parameter(request, "points", 600), max(_MAX_LOAD_VALUES // workers, 60))
        whole = published.course
        return CourseInfo(
            first_at=whole[0].at if whole else None,
            last_at=whole[-1].at if whole else None,
            points=course.select(points, start, end, count),
        )

    def query_list(request: Request) -> QueryListInfo:
        nonlocal table
        seen, found = current().observed, table
        if found is None or found.seen is not seen:
            table = found = QueryTable(seen)
        return found.find(
            request.query_params.get("search", ""),
            choice_parameter(request, "show", get_args(QueryFilter)),
            choice_parameter(request, "order", get_args(QueryOrder)),
            descending=choice_parameter(request, "descending", ("0", "1")) == "1",
            offset=int_parameter(request, "offset", 0, least=0, most=10_000_000),
            limit=int_parameter(request, "limit", 100),
        )

    def query(request: Request) -> schemas.QueryInfo:
        name, seen = request.path_params["name"], current().observed
        if name not in seen.queries:
            raise HTTPException(404, f"no query {name[:128]!r}")
        return present.query_info(seen, name)

    def key(request: Request) -> KeyHistoryInfo:
        name, text = request.path_params["name"], request.query_params.get("key", "")
        found = keys.key_history(current().observed, name, text)
        if found is None:
            raise HTTPException(
                404, f"key {text[:200]!r} of query {name[:128]!r} was not among the heavy keys"
            )
        return found

    def log_lines(request: Request) -> list[LogLine]:
        return log.lines(int_parameter(request, "limit", 200))

    yield Endpoint(
        "GET", "/api/course", "Batches over time, of a part or all of the run",
        course_info, CourseInfo, parameters=("start", "end", "points"),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/query-list", "Queries, searched and sorted, a part at a time",
        query_list, QueryListInfo,
        parameters=("search", "show", "order", "descending", "offset", "limit"),
    )  # fmt: skip
    yield Endpoint("GET", "/api/queries/{name}", "One query", query, schemas.QueryInfo)
    yield Endpoint(
        "GET", "/api/queries/{name}/key", "A key over time: share, workers, moves",
        key, KeyHistoryInfo, parameters=("key",),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/log", "Last lines of the log, newest first",
        log_lines, LogLine, True, parameters=("limit",),
    )  # fmt: skip
