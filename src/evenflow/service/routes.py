"""GET: what can be seen."""

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.service import present, schemas
from evenflow.service.events import EventHub
from evenflow.service.openapi import Endpoint, QueryParameter, int_parameter
from evenflow.service.watcher import PublishedState, Watcher

_MAX_ITEMS = 10_000


def read_endpoints(watcher: Watcher, hub: EventHub) -> Iterable[Endpoint]:
    """Return what can be read, each answered from the last published state."""

    def now() -> PublishedState:
        if hub.current is None:
            raise HTTPException(503, "nothing is known of the run yet; try again in a second")
        return hub.current

    def decision(request: Request) -> schemas.DecisionInfo:
        text, known = request.path_params["number"], now().state.decisions
        for made in known:
            if str(made.number) == text:
                return made
        span = f"{known[-1].number} to {known[0].number}" if known else "none yet"
        raise HTTPException(404, f"there is no decision {text!r}; known are {span}")

    def decisions(request: Request) -> list[schemas.DecisionInfo]:
        everything = request.query_params.get("all") in ("1", "true")
        found = [one for one in now().state.decisions if one.changed or everything]
        return found[: int_parameter(request, "limit", 100, _MAX_ITEMS)]

    def hot_keys(request: Request) -> list[schemas.HotKeyInfo]:
        query, seen = request.query_params.get("query"), now().observed
        if query is not None and query not in seen.plan.tables:
            keyed = ", ".join(sorted(seen.plan.tables)) or "none"
            raise HTTPException(404, f"there is no keyed query {query!r}; there are {keyed}")
        return present.hot_key_infos(
            seen, query, int_parameter(request, "count", present.SHOWN_KEYS, _MAX_ITEMS)
        )

    def queries(request: Request) -> list[schemas.QueryInfo]:
        return present.query_infos(
            now().observed, int_parameter(request, "limit", _MAX_ITEMS, _MAX_ITEMS)
        )

    def health(_: Request) -> schemas.Health:
        found = hub.current
        if not watcher.is_alive:
            raise HTTPException(503, "the run cannot be watched; see the log")
        ended = found is not None and found.state.summary.status == "ended"
        batch = None if found is None else found.state.summary.batch
        return schemas.Health(status="ended" if ended else "ok", batch=batch)

    limit = QueryParameter("limit", "integer", "at most so many")
    yield Endpoint(
        "GET", "/api/state", "All that the page shows", lambda _: now().state, schemas.RunState
    )
    yield Endpoint(
        "GET",
        "/api/summary",
        "The run at a glance",
        lambda _: now().state.summary,
        schemas.RunSummary,
    )
    yield Endpoint(
        "GET",
        "/api/workers",
        "Workers",
        lambda _: now().state.workers,
        schemas.WorkerInfo,
        is_list=True,
    )
    yield Endpoint(
        "GET", "/api/queries", "Queries, heaviest first", queries, schemas.QueryInfo,
        is_list=True, parameters=(limit,),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/streams", "Streams and their traffic", lambda _: now().state.streams,
        schemas.StreamInfo, is_list=True,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/plan", "The plan of the next batch", lambda _: present.plan_info(now().observed.plan),
        schemas.PlanInfo,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/decisions", "Decisions, newest first; plan changes only unless all=1",
        decisions, schemas.DecisionInfo, is_list=True,
        parameters=(limit, QueryParameter("all", "boolean", "also borders where nothing changed")),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/decisions/{number}", "The decision at the border of a batch",
        decision, schemas.DecisionInfo,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/hot-keys", "Heaviest keys of keyed queries", hot_keys, schemas.HotKeyInfo, is_list=True,
        parameters=(
            QueryParameter("query", "string", "of this query only"),
            QueryParameter("count", "integer", "at most so many"),
        ),
    )  # fmt: skip
    yield Endpoint("GET", "/healthz", "Whether all is well", health, schemas.Health)
