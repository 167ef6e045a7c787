"""Whose queries a caller may submit and change."""

from typing import Any

from starlette.exceptions import HTTPException

from evenflow.service.requests import SubmitRequest
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.tokens import Caller


def for_tenant(run: RunProtocol, caller: Caller, query: str | None, body: Any) -> Any:
    """Return the body of a request as its caller may send it, or refuse it.

    A caller with a tenant submits for that tenant, and changes no query of another one.
    """
    if caller.tenant is None:
        return body
    mine = f"token {caller.name!r} acts for tenant {caller.tenant!r}"
    if isinstance(body, SubmitRequest):
        if body.tenant not in (None, caller.tenant):
            raise HTTPException(403, f"{mine}, got tenant {body.tenant[:60]!r}")
        return body.model_copy(update={"tenant": caller.tenant})
    found = None if query is None else run.queries.get(query)
    if found is not None and found.tenant != caller.tenant:
        raise HTTPException(403, f"{mine}, and query {query!r} is not one of its queries")
    return body
