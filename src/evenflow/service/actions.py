"""POST and DELETE: what can be asked. All of it takes effect at a batch border."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.errors import InputError
from evenflow.service import asked, schemas
from evenflow.service.openapi import Endpoint
from evenflow.service.run_protocol import RunProtocol

_FROM_NEXT_BATCH = "holds from the next batch border on"


def write_endpoints(run: RunProtocol) -> Iterable[Endpoint]:
    """Return what can be asked of a run."""

    def submit(_: Request, body: asked.SubmitRequest) -> schemas.Accepted:
        _require_active(run)
        host = run.submit_template if body.template else run.submit
        host(body.name, body.sql, key=body.key, publish=body.publish, worker=body.worker)
        return _accepted("submit", f"{body.name} {_FROM_NEXT_BATCH}")

    def cancel(request: Request) -> schemas.Accepted:
        _require_active(run)
        name = _query_name(request)
        run.cancel(name)
        return _accepted("cancel", f"{name} ends at the next batch border; its results stay")

    def subscribe(request: Request, body: asked.SubscribeRequest) -> schemas.Accepted:
        _require_active(run)
        run.subscribe(_query_name(request), _to_arrow(body.rows))
        return _accepted(
            "subscribe", f"{len(body.rows)} of {_query_name(request)}: {_FROM_NEXT_BATCH}"
        )

    def unsubscribe(request: Request, body: asked.UnsubscribeRequest) -> schemas.Accepted:
        _require_active(run)
        run.unsubscribe(_query_name(request), body.names)
        return _accepted(
            "unsubscribe", f"{len(body.names)} of {_query_name(request)}: {_FROM_NEXT_BATCH}"
        )

    def pin(request: Request, body: asked.PinRequest) -> schemas.Accepted:
        _require_active(run)
        run.pin(_query_name(request), body.worker)
        where = "where it is" if body.worker is None else f"to worker {body.worker}"
        return _accepted("pin", f"{_query_name(request)} is pinned {where}; it {_FROM_NEXT_BATCH}")

    def unpin(request: Request, _: asked.EmptyRequest) -> schemas.Accepted:
        _require_active(run)
        run.unpin(_query_name(request))
        return _accepted("unpin", f"{_query_name(request)} may move again; it {_FROM_NEXT_BATCH}")

    def rollback(_: Request, __: asked.EmptyRequest) -> schemas.Accepted:
        _require_active(run)
        run.rollback()
        return _accepted("rollback", f"the plan before the last change {_FROM_NEXT_BATCH}")

    name = "/api/queries/{name}"
    subscriptions = "/api/templates/{name}/subscriptions"
    yield _write_endpoint(
        "POST", "/api/queries", "Submit a query or template", submit, asked.SubmitRequest
    )
    yield Endpoint("DELETE", name, "Cancel a query", cancel, schemas.Accepted)
    yield _write_endpoint("POST", f"{name}/pin", "Keep a query on a worker", pin, asked.PinRequest)
    yield _write_endpoint("POST", f"{name}/unpin", "Let a query move", unpin, asked.EmptyRequest)
    yield _write_endpoint(
        "POST", subscriptions, "Subscribe to a template", subscribe, asked.SubscribeRequest
    )
    yield _write_endpoint(
        "DELETE", subscriptions, "End subscriptions", unsubscribe, asked.UnsubscribeRequest
    )
    yield _write_endpoint(
        "POST", "/api/workers/{worker}/drain", "Move all work off a worker",
        _worker_handler(run, "drain", run.drain), asked.EmptyRequest,
    )  # fmt: skip
    yield _write_endpoint(
        "POST", "/api/workers/{worker}/activate", "Give a drained worker work again",
        _worker_handler(run, "activate", run.activate), asked.EmptyRequest,
    )  # fmt: skip
    yield _write_endpoint(
        "POST", "/api/rollback", "Go back to the plan before the last change",
        rollback, asked.EmptyRequest,
    )  # fmt: skip


def _write_endpoint(
    method: str, path: str, summary: str, handle: object, body: type[asked.RequestBody]
) -> Endpoint:
    return Endpoint(method, path, summary, handle, schemas.Accepted, body=body)


def _worker_handler(
    run: RunProtocol, word: str, ask: Callable[[int], object]
) -> Callable[[Request, asked.EmptyRequest], schemas.Accepted]:
    def handle(request: Request, _: asked.EmptyRequest) -> schemas.Accepted:
        _require_active(run)
        text = request.path_params["worker"]
        if not text.isdecimal() or len(text) > 6:
            raise HTTPException(404, f"there is no worker {text!r}; workers are numbers from 0 on")
        ask(int(text))
        return _accepted(word, f"worker {text}: {_FROM_NEXT_BATCH}")

    return handle


def _to_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    """Return the rows as a table, whose columns can then be brought to the parameters' types."""
    for row in rows:
        if row.keys() != rows[0].keys():
            raise InputError(
                f"all rows need the same columns: the first has {', '.join(rows[0])}, "
                f"another {', '.join(row)}"
            )
    try:
        return pa.Table.from_pylist(rows)
    except pa.ArrowException as error:
        raise InputError(f"the rows do not make a table: {error}") from None


def _query_name(request: Request) -> str:
    return str(request.path_params["name"])


def _accepted(word: str, message: str) -> schemas.Accepted:
    return schemas.Accepted(asked=word, message=message)


def _require_active(run: RunProtocol) -> None:
    if not run.is_active:
        raise HTTPException(409, "the run has ended; start it again to change it")
