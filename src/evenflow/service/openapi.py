"""The OpenAPI description, made from the routes and their models."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request

from evenflow.service import schemas


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter of the query string."""

    name: str
    json_type: str
    help: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One thing that can be asked: `handle` takes the request, and the checked body if any.

    `response` is the model of the answer, or of the members of the list it is.
    """

    method: str
    path: str
    summary: str
    handle: Any
    response: type[BaseModel]
    is_list: bool = False
    body: type[BaseModel] | None = None
    parameters: tuple[QueryParameter, ...] = ()


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the document of `/openapi.json`."""
    endpoints = list(endpoints)
    models: set[type[BaseModel]] = {schemas.ErrorBody}
    models |= {model for e in endpoints for model in (e.response, e.body) if model is not None}
    listed = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "serialization") for model in listed], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Evenflow", "version": version("evenflow")},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    answer: dict[str, Any] = _schema_ref(endpoint.response)
    if endpoint.is_list:
        answer = {"type": "array", "items": answer}
    described: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)}", endpoint.path)
            ),
            *(
                {
                    "name": parameter.name,
                    "in": "query",
                    "description": parameter.help,
                    "schema": {"type": parameter.json_type},
                }
                for parameter in endpoint.parameters
            ),
        ],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "Refused",
                "content": {"application/json": {"schema": _schema_ref(schemas.ErrorBody)}},
            },
        },
    }
    if endpoint.method != "GET":
        described["parameters"].append(
            {
                "name": "X-Evenflow",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "const": "1"},
            }
        )
    if endpoint.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema_ref(endpoint.body)}},
        }
    return described


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/api"))
    return "_".join((endpoint.method.lower(), *words))


def _schema_ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def int_parameter(request: Request, name: str, default: int, most: int) -> int:
    """Read a whole number of the query string, at most `most`."""
    text = request.query_params.get(name, str(default))
    return min(int(text), most) if text.isdecimal() and len(text) < 10 else default
