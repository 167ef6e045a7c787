"""The endpoints of the API: reads answer from the last published state, writes call the run."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict
from dataclasses import replace as replaced
from functools import partial
from importlib.metadata import version
from typing import Any, get_args

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.errors import InputError
from evenflow.model.move_history import past_moves
from evenflow.service import keys, present, requests, schemas
from evenflow.service.alerts import AlertInfo, alert_info
from evenflow.service.caller_tenant import for_tenant
from evenflow.service.course_routes import course_endpoints
from evenflow.service.events import EventHub
from evenflow.service.keys_schema import HotKeyInfo, PastMoveInfo
from evenflow.service.openapi import Endpoint
from evenflow.service.parameters import MAX_ITEMS, int_parameter
from evenflow.service.proposals import ProposalInfo, proposal_info
from evenflow.service.results import ResultStreams
from evenflow.service.results_schema import ResultsInfo
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.tenant_schema import TenantInfo
from evenflow.service.tokens import LOCAL_CALLER, Role
from evenflow.service.watcher import PublishedState, Watcher

_QUERY, _SUBSCRIPTIONS = "/api/queries/{name}", "/api/templates/{name}/subscriptions"
_PROPOSAL = "/api/proposals/{number}"
_MAX_COMPILES = 4  # that wait for the process that compiles
_NEXT_BATCH = "from the next batch boundary on"


def read_endpoints(watcher: Watcher, hub: EventHub, results: ResultStreams) -> Iterable[Endpoint]:
    """Return the GET endpoints."""

    def current() -> PublishedState:
        if hub.current is None:
            raise HTTPException(503, "the run has no state yet; try again in a second")
        return hub.current

    def decision(request: Request) -> schemas.DecisionInfo:
        number, decisions = request.path_params["number"], current().decisions
        for info in decisions:
            if str(info.number) == number:
                return info
        known = f"{decisions[-1].number} to {decisions[0].number}" if decisions else "none yet"
        raise HTTPException(404, f"no decision {number[:60]!r}; the numbers are {known}")

    def decisions(request: Request) -> list[schemas.DecisionInfo]:
        text = request.query_params.get("all", "0")
        if text not in ("0", "1", "false", "true"):
            raise InputError(f"all must be 0 or 1, got {text[:60]!r}")
        everything = text in ("1", "true")
        listed = [info for info in current().decisions if info.changed or everything]
        return listed[: int_parameter(request, "limit", 100)]

    def hot_keys(request: Request) -> list[HotKeyInfo]:
        query, seen = request.query_params.get("query"), current().observed
        if query is not None and query not in seen.plan.tables:
            keyed = ", ".join(sorted(seen.plan.tables)) or "none"
            raise HTTPException(404, f"no keyed query {query[:128]!r}; keyed queries: {keyed}")
        count = int_parameter(request, "count", present.SHOWN_KEYS)
        return keys.hot_key_infos(seen, query, count)

    def moves(request: Request) -> list[PastMoveInfo]:
        query, key = request.query_params.get("query"), request.query_params.get("key")
        seen = current().observed
        found = past_moves(seen.snapshots, seen.decisions, seen.outcomes, query=query, key=key)
        newest = found[::-1][: int_parameter(request, "limit", 100)]
        return [PastMoveInfo.model_validate(asdict(move)) for move in newest]

    def proposals(request: Request) -> list[ProposalInfo]:
        seen, limit = current().observed, int_parameter(request, "limit", 20)
        return [proposal_info(each, seen.snapshots) for each in seen.proposals[:limit]]

    def alerts(request: Request) -> list[AlertInfo]:
        limit = int_parameter(request, "limit", 100)
        return [alert_info(alert) for alert in current().observed.alerts[:limit]]

    def scaling(_: Request) -> schemas.ScalingInfo:
        seen = current().observed
        if seen.advice is not None:
            return schemas.ScalingInfo(**asdict(seen.advice), followed=seen.scales)
        unknown = dict.fromkeys(name for name in schemas.ScalingInfo.model_fields)
        known = {"active": len(seen.plan.active), "message": "too few batches to judge"}
        return schemas.ScalingInfo.model_validate({**unknown, **known, "followed": seen.scales})

    def queries(request: Request) -> list[schemas.QueryInfo]:
        return present.query_infos(current().observed, int_parameter(request, "limit", MAX_ITEMS))

    def me(request: Request) -> schemas.CallerInfo:
        caller = getattr(request.state, "caller", LOCAL_CALLER)
        return schemas.CallerInfo(name=caller.name, role=caller.role, tenant=caller.tenant)

    def part(name: str) -> Callable[[Request], Any]:
        return lambda _: getattr(current().state, name)

    def plan(_: Request) -> schemas.PlanInfo:
        return present.plan_info(current().observed.plan)

    def run_info(_: Request) -> schemas.RunInfo:
        uri = watcher.checkpoint_uri
        name = uri.rstrip("/").rpartition("/")[2]
        return schemas.RunInfo(name=name, checkpoint=uri, version=version("evenflow"))

    yield _get("/api/run", "Which run this is", run_info, schemas.RunInfo)
    yield _get("/api/state", "All data of the page", lambda _: current().state, schemas.RunState)
    yield _get("/api/summary", "Key figures of the run", part("summary"), schemas.RunSummary)
    yield _get("/api/workers", "Workers", part("workers"), list[schemas.WorkerInfo])
    yield _get(
        "/api/alerts", "Alerts that fire, then resolved ones", alerts, list[AlertInfo], "limit"
    )
    yield _get("/api/scaling", "Workers that the load needs", scaling, schemas.ScalingInfo)
    yield _get("/api/queries", "Queries, heaviest first", queries, list[schemas.QueryInfo], "limit")
    yield _get("/api/streams", "Traffic of streams", part("streams"), list[schemas.StreamInfo])
    yield _get("/api/tenants", "Tenants: use and limits", part("tenants"), list[TenantInfo])
    yield _get("/api/plan", "The plan of the next batch", plan, schemas.PlanInfo)
    yield _get(
        "/api/decisions", "Decisions, newest first; plan changes only unless all=1",
        decisions, list[schemas.DecisionInfo], "limit", "all",
    )  # fmt: skip
    yield _get("/api/decisions/{number}", "One decision", decision, schemas.DecisionInfo)
    yield _get(
        "/api/proposals", "The plan that waits for approval, then earlier ones, newest first",
        proposals, list[ProposalInfo], "limit",
    )  # fmt: skip
    yield _get(
        "/api/moves", "Moves, of a query or key, newest first, of the last batches",
        moves, list[PastMoveInfo], "query", "key", "limit",
    )  # fmt: skip
    yield _get(
        "/api/hot-keys", "Heaviest keys of keyed queries",
        hot_keys, list[HotKeyInfo], "query", "count",
    )  # fmt: skip
    yield Endpoint(
        "GET", f"{_QUERY}/results", "Results of a query, as pages or server-sent events",
        results.page, ResultsInfo, parameters=("since", "limit"), follow=results.follow,
        slots=results.slots,
    )  # fmt: skip
    yield from course_endpoints(current, watcher.log)
    yield _get("/api/me", "Who you are and what you may do", me, schemas.CallerInfo)


def health_endpoints(watcher: Watcher, hub: EventHub) -> Iterable[Endpoint]:
    """Return the endpoints for orchestrators, which need no token."""

    def health(_: Request) -> schemas.Health:
        if not watcher.is_alive:
            raise HTTPException(503, "the run cannot be read; see the log of the driver")
        summary = None if hub.current is None else hub.current.state.summary
        ended = summary is not None and summary.status == "ended"
        batch = None if summary is None else summary.batch
        return schemas.Health(status="ended" if ended else "ok", batch=batch)

    def ready(request: Request) -> schemas.Health:
        found = health(request)
        if found.batch is None or found.status == "ended":
            state = "has ended" if found.status == "ended" else "has not finished a batch yet"
            raise HTTPException(503, f"the run {state}")
        return found

    yield _get("/healthz", "Whether the run can be read", health, schemas.Health)
    yield _get("/readyz", "Whether the run processes batches", ready, schemas.Health)


def _get(path: str, summary: str, handle: Any, response: Any, *names: str) -> Endpoint:
    """`response` is a model, or `list[model]`; `names` are query parameters."""
    (model,) = get_args(response) or (response,)
    is_list = model is not response
    return Endpoint("GET", path, summary, handle, model, is_list, parameters=names)


def write_endpoints(run: RunProtocol) -> Iterable[Endpoint]:
    """Return the POST and DELETE endpoints; a handler calls the run and returns a message."""
    compiles = asyncio.Semaphore(_MAX_COMPILES)  # a cancel never waits for them

    def submit(_: str, body: requests.SubmitRequest) -> str:
        host = run.submit_template if body.template else run.submit
        host(
            body.name,
            body.sql,
            key=body.key,
            publish=body.publish,
            worker=body.worker,
            tenant=body.tenant,
        )
        return f"query {body.name} runs {_NEXT_BATCH}"

    def replace(name: str, body: requests.ReplaceRequest) -> str:
        hosted = run.replace(name, body.sql, key=body.key)
        if hosted.name == name:
            return f"query {name} has its new definition {_NEXT_BATCH}, with its state"
        return (
            f"query {name} is replaced once {hosted.name}, which runs beside it, has seen all rows "
            "that count"
        )

    def cancel(name: str, _: None) -> str:
        run.cancel(name)
        return f"query {name} ends at the next batch boundary; its results are kept"

    def subscribe(name: str, body: requests.SubscribeRequest) -> str:
        run.subscribe(name, _to_arrow(body.rows))
        return f"{len(body.rows)} subscriptions of {name} start {_NEXT_BATCH}"

    def unsubscribe(name: str, body: requests.UnsubscribeRequest) -> str:
        run.unsubscribe(name, body.names)
        return f"{len(body.names)} subscriptions of {name} end at the next batch boundary"

    def pin(name: str, body: requests.PinRequest) -> str:
        run.pin(name, body.worker)
        worker = "its current worker" if body.worker is None else f"worker {body.worker}"
        return f"query {name} is pinned to {worker} {_NEXT_BATCH}"

    def unpin(name: str, _: requests.EmptyRequest) -> str:
        run.unpin(name)
        return f"query {name} may move {_NEXT_BATCH}"

    def resume(name: str, _: requests.EmptyRequest) -> str:
        since = run.missing_since.get(name)
        run.resume(name)
        before = "it failed" if since is None else f"batch {since:,}"
        return (
            f"query {name} runs again {_NEXT_BATCH}, with its state before {before} and without "
            "the rows since then"
        )

    def reset_watermark(name: str, body: requests.WatermarkRequest) -> str:
        run.reset_watermark(name, body.to)
        to = "now" if body.to is None else body.to.isoformat()
        return f"the watermark of {name} is set back to {to} {_NEXT_BATCH}"

    def drain(worker: str, _: requests.EmptyRequest) -> str:
        run.drain(_worker_number(worker))
        return f"worker {worker} gets no work {_NEXT_BATCH}"

    def activate(worker: str, _: requests.EmptyRequest) -> str:
        run.activate(_worker_number(worker))
        return f"worker {worker} gets work {_NEXT_BATCH}"

    def approve(number: str, _: requests.EmptyRequest) -> str:
        run.approve(_proposal_number(number))
        return f"proposal {number} is followed {_NEXT_BATCH}, or when its maintenance window opens"

    def reject(number: str, _: requests.EmptyRequest) -> str:
        run.reject(_proposal_number(number))
        return f"proposal {number} is rejected; the like is proposed when the load has changed"

    def stop(_: str, __: requests.EmptyRequest) -> str:
        run.request_stop()
        return "the run stops after the current batch"

    def rollback(_: str, __: requests.EmptyRequest) -> str:
        run.rollback()
        return f"the plan before the last change applies {_NEXT_BATCH}"

    def write(
        role: Role,
        method: str,
        path: str,
        summary: str,
        handler: Callable[[str, Any], str],
        body: Any,
    ) -> Endpoint:
        def handle(request: Request, parsed: Any = None) -> schemas.Accepted:
            if not run.is_active:
                raise HTTPException(409, "the run has ended; start it again to change it")
            subject = next(iter(request.path_params.values()), "")
            caller = getattr(request.state, "caller", LOCAL_CALLER)
            query = None if path.startswith("/api/streams") else request.path_params.get("name")
            message = handler(subject, for_tenant(run, caller, query, parsed))
            return schemas.Accepted(asked=handler.__name__, message=message)

        command = handler.__name__
        response = schemas.Accepted
        made = Endpoint(
            method, path, summary, handle, response, body=body, role=role, command=command
        )
        return replaced(made, slots=compiles) if handler in (submit, replace, subscribe) else made

    post, delete = partial(write, Role.SUBMIT, "POST"), partial(write, Role.SUBMIT, "DELETE")
    operate = partial(write, Role.OPERATE, "POST")
    empty, worker = requests.EmptyRequest, "/api/workers/{worker}"
    yield post("/api/queries", "Submit a query or template", submit, requests.SubmitRequest)
    yield delete(_QUERY, "Cancel a query", cancel, None)
    yield post(
        f"{_QUERY}/replace", "Give a query another definition", replace, requests.ReplaceRequest
    )
    yield operate(f"{_QUERY}/pin", "Keep a query on a worker", pin, requests.PinRequest)
    yield operate(f"{_QUERY}/unpin", "Let a query move", unpin, empty)
    yield operate(f"{_QUERY}/resume", "Run a quarantined query again", resume, empty)
    yield post(_SUBSCRIPTIONS, "Subscribe to a template", subscribe, requests.SubscribeRequest)
    yield delete(_SUBSCRIPTIONS, "End subscriptions", unsubscribe, requests.UnsubscribeRequest)
    yield operate(
        "/api/streams/{name}/watermark", "Set the watermark of a source back",
        reset_watermark, requests.WatermarkRequest,
    )  # fmt: skip
    yield operate(f"{_PROPOSAL}/approve", "Follow a proposed plan", approve, empty)
    yield operate(f"{_PROPOSAL}/reject", "Reject a proposed plan", reject, empty)
    yield operate(f"{worker}/drain", "Move all work off a worker", drain, empty)
    yield operate(f"{worker}/activate", "Give a drained worker work again", activate, empty)
    yield operate("/api/stop", "Stop the run after the current batch", stop, empty)
    yield operate("/api/rollback", "Return to the plan before the last change", rollback, empty)


def _proposal_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise HTTPException(404, f"no proposal {text[:60]!r}; GET /api/proposals lists them")
    return int(text)


def _worker_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise HTTPException(404, f"no worker {text[:60]!r}; workers are numbers, starting at 0")
    return int(text)


def _to_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    for row in rows:
        if row.keys() != rows[0].keys():
            raise InputError(
                f"all rows need the same columns: the first row has {', '.join(rows[0])}, "
                f"another has {', '.join(row)}"
            )
    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"the rows cannot be read as a table: {error}") from None
