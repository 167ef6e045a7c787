"""GET: what can be seen."""

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.service import state, views
from evenflow.service.events import Hub
from evenflow.service.openapi import Endpoint, Parameter, number
from evenflow.service.watcher import Published, Watcher

_MOST = 10_000


def endpoints(watcher: Watcher, hub: Hub) -> Iterable[Endpoint]:
    """Return what can be read, each answered from the last published state."""

    def now() -> Published:
        if hub.current is None:
            raise HTTPException(503, "nothing is known of the run yet; try again in a second")
        return hub.current

    def decision(request: Request) -> views.Decision:
        text, known = request.path_params["number"], now().state.decisions
        for made in known:
            if str(made.number) == text:
                return made
        span = f"{known[-1].number} to {known[0].number}" if known else "none yet"
        raise HTTPException(404, f"there is no decision {text!r}; known are {span}")

    def decisions(request: Request) -> list[views.Decision]:
        everything = request.query_params.get("all") in ("1", "true")
        found = [one for one in now().state.decisions if one.changed or everything]
        return found[: number(request, "limit", 100, _MOST)]

    def hot_keys(request: Request) -> list[views.HotKey]:
        query, seen = request.query_params.get("query"), now().seen
        if query is not None and query not in seen.plan.tables:
            keyed = ", ".join(sorted(seen.plan.tables)) or "none"
            raise HTTPException(404, f"there is no keyed query {query!r}; there are {keyed}")
        return state.hot_keys(seen, query, number(request, "count", state.SHOWN_KEYS, _MOST))

    def queries(request: Request) -> list[views.Query]:
        return state.queries(now().seen, number(request, "limit", _MOST, _MOST))

    def health(_: Request) -> views.Health:
        found = hub.current
        if not watcher.alive:
            raise HTTPException(503, "the run cannot be watched; see the log")
        ended = found is not None and found.state.summary.status == "ended"
        batch = None if found is None else found.state.summary.batch
        return views.Health(status="ended" if ended else "ok", batch=batch)

    limit = Parameter("limit", "integer", "at most so many")
    yield Endpoint(
        "GET", "/api/state", "All that the page shows", lambda _: now().state, views.State
    )
    yield Endpoint(
        "GET", "/api/summary", "The run at a glance", lambda _: now().state.summary, views.Summary
    )
    yield Endpoint(
        "GET", "/api/workers", "Workers", lambda _: now().state.workers, views.Worker, many=True
    )
    yield Endpoint(
        "GET", "/api/queries", "Queries, heaviest first", queries, views.Query,
        many=True, parameters=(limit,),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/streams", "Streams and their traffic", lambda _: now().state.streams,
        views.Stream, many=True,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/plan", "The plan of the next batch", lambda _: state.plan(now().seen.plan),
        views.Plan,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/decisions", "Decisions, newest first; plan changes only unless all=1",
        decisions, views.Decision, many=True,
        parameters=(limit, Parameter("all", "boolean", "also borders where nothing changed")),
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/decisions/{number}", "The decision at the border of a batch",
        decision, views.Decision,
    )  # fmt: skip
    yield Endpoint(
        "GET", "/api/hot-keys", "Heaviest keys of keyed queries", hot_keys, views.HotKey, many=True,
        parameters=(
            Parameter("query", "string", "of this query only"),
            Parameter("count", "integer", "at most so many"),
        ),
    )  # fmt: skip
    yield Endpoint("GET", "/healthz", "Whether all is well", health, views.Health)
