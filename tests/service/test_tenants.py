"""Tenants in the API: use beside limits, and who may change what."""

import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from tests.support.http_clients import HTTP, served
from tests.support.poll import until
from tests.support.service_world import FakeRun, Hosted
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.model.tenants import TenantLimits, TenantUse
from evenflow.service.caller_tenant import for_tenant
from evenflow.service.requests import PinRequest, SubmitRequest
from evenflow.service.tokens import Caller, Role
from evenflow.service.watcher import Watcher

runner = CliRunner()
USE = TenantUse(
    tenant="acme",
    limits=TenantLimits(queries=9, cpu_share=0.25),
    queries=2,
    cpu_share=0.5,
    waiting_bytes=7,
    slowed={"a": "why"},
    quarantined=("z",),
)


def test_use_and_limits_are_in_state_and_metrics() -> None:
    run: Any = FakeRun()
    run.tenants = (USE,)
    watcher = Watcher(run)
    published = watcher.poll()
    assert published is not None
    (info,) = published.state.tenants
    assert (info.queries, info.max_queries, info.max_state_bytes) == (2, 9, None)
    assert info.slowed == {"a": "why"}
    metrics = watcher.metrics.exposition().decode()
    assert 'evenflow_tenant_use{resource="cpu_share",tenant="acme"} 0.5' in metrics
    assert 'evenflow_tenant_limit{resource="cpu_share",tenant="acme"} 0.25' in metrics
    assert 'evenflow_tenant_limit{resource="state_bytes",tenant="acme"}' not in metrics
    assert 'evenflow_tenant_slowed_queries{tenant="acme"} 1.0' in metrics


def test_the_command_shows_use_beside_limits() -> None:
    run: Any = FakeRun()
    run.batch(0)
    with served(run) as server:
        assert runner.invoke(app, ["tenants", "--url", server.url]).stdout.startswith("no tenants")
        run.tenants = (USE,)
        run.batch(1)
        until(lambda: HTTP.get(f"{server.url}/api/tenants").json() != [])
        shown = runner.invoke(app, ["tenants", "--url", server.url])
        found = runner.invoke(app, ["tenants", "--url", server.url, "--json"])
    assert shown.exit_code == found.exit_code == 0, shown.output
    for part in ("acme", "2 of 9", "50.0% of 25%", "slowed a: why", "quarantined: z"):
        assert part in shown.stdout, shown.stdout
    (tenant,) = json.loads(found.stdout)["tenants"]
    assert (tenant["cpu_share"], tenant["max_cpu_share"]) == (0.5, 0.25)


def test_a_token_of_a_tenant_acts_for_no_other_one() -> None:
    run: Any = FakeRun()
    run.queries = {"mine": Hosted("mine", tenant="acme"), "yours": Hosted("yours")}
    anna, local = Caller("anna", Role.OPERATE, "acme"), Caller("local", Role.OPERATE)
    body = SubmitRequest(name="n", sql="SELECT 1")
    assert for_tenant(run, anna, None, body).tenant == "acme"
    assert for_tenant(run, local, None, body).tenant is None
    other = SubmitRequest(name="n", sql="SELECT 1", tenant="globex")
    assert for_tenant(run, local, None, other).tenant == "globex"
    with pytest.raises(HTTPException, match="acts for tenant 'acme', got tenant 'globex'"):
        for_tenant(run, anna, None, other)
    pin = PinRequest(worker=None)
    assert for_tenant(run, anna, "mine", pin) is pin
    assert for_tenant(run, local, "yours", pin) is pin
    with pytest.raises(HTTPException, match="query 'yours' is not one of its queries"):
        for_tenant(run, anna, "yours", pin)
