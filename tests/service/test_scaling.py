"""Advice on the number of workers over HTTP and on the command line."""

import json

import httpx
from tests.support.http_clients import served
from tests.support.service_world import FakeRun
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.model.scaling_advice import ScalingAdvice

ADVICE = ScalingAdvice(2, 3, 5000.0, 4000.0, 1.25, 1.25 / 3, 0.7, "5,000 rows/s arrive, so ...")


def test_the_advice_is_told_with_its_rates() -> None:
    run = FakeRun()
    run.batch(0)
    run.advice = ADVICE
    with served(run) as server:
        found = httpx.get(f"{server.url}/api/scaling").json()
        assert (found["workers"], found["active"], found["followed"]) == (2, 3, False)
        assert (found["true_rate"], found["busy_workers"]) == (4000.0, 1.25)
        assert httpx.get(f"{server.url}/api/summary").json()["workers_needed"] == 2
        shown = CliRunner().invoke(app, ["workers", "list", "--url", server.url])
        assert shown.stdout.splitlines()[-1] == "advice: 5,000 rows/s arrive, so ..."
        status = CliRunner().invoke(app, ["status", server.url])
        assert "3 of 3 active; the load needs 2" in status.stdout


def test_without_enough_batches_there_is_none() -> None:
    run = FakeRun()
    run.batch(0)
    with served(run) as server:
        found = CliRunner().invoke(app, ["workers", "list", "--json", "--url", server.url])
        scaling = json.loads(found.stdout)["scaling"]
        assert (scaling["workers"], scaling["active"]) == (None, 3)
        assert scaling["message"] == "too few batches to judge"
