"""The API does what its own description says, whatever is sent: Schemathesis over a real server."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from tests.support.http_clients import HTTP, served
from tests.support.service_world import FakeRun

from evenflow.service import Limits, Server, routes
from evenflow.service.events import EventHub
from evenflow.service.openapi import openapi_document
from evenflow.service.results import ResultStreams
from evenflow.service.watcher import Watcher

UNLIMITED = (1e9, 1e9)
# The description cannot say which SQL compiles or which names exist: 400 says why it was refused.
CONFIG = SchemathesisConfig.from_dict(
    {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404"]}}}
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    run = FakeRun()
    run.batch(0)
    with served(run, limits=Limits(reads=UNLIMITED, writes=UNLIMITED)) as found:
        yield found


def description() -> Any:
    """The document of `/openapi.json`, which does not depend on the run."""
    run: Any = FakeRun()
    watcher, hub, results = Watcher(run), EventHub(1), ResultStreams(run)
    reads = routes.read_endpoints(watcher, hub, results)
    return openapi_document(
        [*reads, *routes.health_endpoints(watcher, hub), *routes.write_endpoints(run)]
    )


api = schemathesis.openapi.from_dict(description(), config=CONFIG)


@api.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_answers_as_described(case: schemathesis.Case[Any], server: Server) -> None:
    case.call_and_validate(base_url=server.url)


def test_the_server_gives_this_description(server: Server) -> None:
    assert HTTP.get(f"{server.url}/openapi.json").json() == description()
