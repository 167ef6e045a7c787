"""Alerts over HTTP and on the command line."""

import json
from dataclasses import replace

import httpx
from tests.support.http_clients import served
from tests.support.service_world import FakeRun
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.model.alert import Alert, AlertKind

FIRING = Alert(AlertKind.QUARANTINE, "b", "query b is quarantined: why", 1.0, 0.0, 7, 1000.0)
RESOLVED = replace(FIRING, subject="c", message="query c", ended_at=1010.0)


def test_alerts_are_listed_firing_ones_first() -> None:
    run = FakeRun()
    run.batch(0)
    run.told = FIRING, RESOLVED
    with served(run) as server:
        first, second = httpx.get(f"{server.url}/api/alerts").json()
        assert (first["state"], first["kind"], first["subject"]) == ("firing", "quarantine", "b")
        assert (second["state"], second["ended_at"]) == ("resolved", 1010.0)
        assert httpx.get(f"{server.url}/api/summary").json()["alerts"] == 1
        shown = CliRunner().invoke(app, ["alerts", "--url", server.url])
        assert "query b is quarantined: why" in " ".join(shown.stdout.split())
        assert "query c" not in shown.stdout
        everything = CliRunner().invoke(app, ["alerts", "--all", "--json", "--url", server.url])
        assert len(json.loads(everything.stdout)["alerts"]) == 2


def test_without_alerts_the_command_says_so() -> None:
    run = FakeRun()
    run.batch(0)
    with served(run) as server:
        shown = CliRunner().invoke(app, ["alerts", "--url", server.url])
        assert shown.stdout == "no alert fires; --all lists resolved ones\n"
