"""POST and DELETE: what can be asked. All of it takes effect at a batch border."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import Request

from evenflow.errors import InputError
from evenflow.service import asked, views
from evenflow.service.openapi import Endpoint
from evenflow.service.running import Running

_SOON = "holds from the next batch border on"


def endpoints(run: Running) -> Iterable[Endpoint]:
    """Return what can be asked of a run."""

    def submit(_: Request, body: asked.Submit) -> views.Asked:
        _going(run)
        host = run.submit_template if body.template else run.submit
        host(body.name, body.sql, key=body.key, publish=body.publish, worker=body.worker)
        return _asked("submit", f"{body.name} {_SOON}")

    def cancel(request: Request) -> views.Asked:
        _going(run)
        name = _query(request)
        run.cancel(name)
        return _asked("cancel", f"{name} ends at the next batch border; its results stay")

    def subscribe(request: Request, body: asked.Subscribe) -> views.Asked:
        _going(run)
        run.subscribe(_query(request), _table(body.rows))
        return _asked("subscribe", f"{len(body.rows)} of {_query(request)}: {_SOON}")

    def unsubscribe(request: Request, body: asked.Unsubscribe) -> views.Asked:
        _going(run)
        run.unsubscribe(_query(request), body.names)
        return _asked("unsubscribe", f"{len(body.names)} of {_query(request)}: {_SOON}")

    def pin(request: Request, body: asked.Pin) -> views.Asked:
        _going(run)
        run.pin(_query(request), body.worker)
        where = "where it is" if body.worker is None else f"to worker {body.worker}"
        return _asked("pin", f"{_query(request)} is pinned {where}; it {_SOON}")

    def unpin(request: Request, _: asked.Nothing) -> views.Asked:
        _going(run)
        run.unpin(_query(request))
        return _asked("unpin", f"{_query(request)} may move again; it {_SOON}")

    def rollback(_: Request, __: asked.Nothing) -> views.Asked:
        _going(run)
        run.rollback()
        return _asked("rollback", f"the plan before the last change {_SOON}")

    name = "/api/queries/{name}"
    subscriptions = "/api/templates/{name}/subscriptions"
    yield _endpoint("POST", "/api/queries", "Submit a query or template", submit, asked.Submit)
    yield Endpoint("DELETE", name, "Cancel a query", cancel, views.Asked)
    yield _endpoint("POST", f"{name}/pin", "Keep a query on a worker", pin, asked.Pin)
    yield _endpoint("POST", f"{name}/unpin", "Let a query move", unpin, asked.Nothing)
    yield _endpoint("POST", subscriptions, "Subscribe to a template", subscribe, asked.Subscribe)
    yield _endpoint("DELETE", subscriptions, "End subscriptions", unsubscribe, asked.Unsubscribe)
    yield _endpoint(
        "POST", "/api/workers/{worker}/drain", "Move all work off a worker",
        _worker(run, "drain", run.drain), asked.Nothing,
    )  # fmt: skip
    yield _endpoint(
        "POST", "/api/workers/{worker}/activate", "Give a drained worker work again",
        _worker(run, "activate", run.activate), asked.Nothing,
    )  # fmt: skip
    yield _endpoint(
        "POST", "/api/rollback", "Go back to the plan before the last change",
        rollback, asked.Nothing,
    )  # fmt: skip


def _endpoint(
    method: str, path: str, summary: str, handle: object, body: type[asked.Body]
) -> Endpoint:
    return Endpoint(method, path, summary, handle, views.Asked, body=body)


def _worker(
    run: Running, word: str, ask: Callable[[int], object]
) -> Callable[[Request, asked.Nothing], views.Asked]:
    def handle(request: Request, _: asked.Nothing) -> views.Asked:
        _going(run)
        text = request.path_params["worker"]
        if not text.isdecimal() or len(text) > 6:
            raise HTTPException(404, f"there is no worker {text!r}; workers are numbers from 0 on")
        ask(int(text))
        return _asked(word, f"worker {text}: {_SOON}")

    return handle


def _table(rows: list[dict[str, Any]]) -> pa.Table:
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


def _query(request: Request) -> str:
    return str(request.path_params["name"])


def _asked(word: str, message: str) -> views.Asked:
    return views.Asked(asked=word, message=message)


def _going(run: Running) -> None:
    if not run.is_active:
        raise HTTPException(409, "the run has ended; start it again to change it")
