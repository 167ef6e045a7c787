"""Results over HTTP: pages, and events that follow the commits, from a real server."""

import json
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.support.poll import until
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.planning.controller import Balancing
from evenflow.service import Server, serve
from evenflow.service.results import json_value, results_page


class CountingRun:
    """A run with one result per batch, its number; batches are committed by hand."""

    queries: Mapping[str, Any] = MappingProxyType({})
    streams = set_aside = ahead = late = quarantined = watermarks = queries
    snapshots = decisions = outcomes = refused = ()
    checkpoint_uri = "memory"

    def __init__(self, committed: int) -> None:
        self.committed, self.is_active = committed, True
        self.plan, self.balancing, self.url = Plan(2), Balancing(), ""

    def announce(self, url: str | None) -> None:
        self.url = url or "nowhere"

    def results_page(self, name: str, since: ResultPosition | None, limit: int) -> ResultsPage:
        if name != "count":
            raise InputError(f"there is no query {name!r}; there are count")
        end = self.committed
        first = ResultPosition(max(0, end - limit)) if since is None else since
        last = min(end, first.batch + limit)
        rows = pa.table({"n": pa.array(range(first.batch, last), pa.int64())})
        return ResultsPage(rows, first, ResultPosition(max(last, first.batch)), end)


@pytest.fixture
def run() -> CountingRun:
    return CountingRun(10)


@pytest.fixture
def server(run: CountingRun) -> Iterator[Server]:
    made = serve(run, port=0)  # type: ignore[arg-type]
    yield made
    made.stop()
    assert run.url == "nowhere"


def get(server: Server, parameters: str) -> Any:
    return httpx.get(f"{server.url}/api/queries/count/results{parameters}", timeout=30).json()


def numbers(page: Any) -> list[int]:
    return [row["n"] for row in page["rows"]]


def test_pages(server: Server, run: CountingRun) -> None:
    assert run.url == server.url
    newest = get(server, "?limit=3")
    assert (numbers(newest), newest["next"], newest["complete"]) == ([7, 8, 9], "10", True)
    first = get(server, "?since=0&limit=4")
    assert (numbers(first), first["complete"]) == ([0, 1, 2, 3], False)
    assert numbers(get(server, f"?since={first['next']}&limit=100")) == [4, 5, 6, 7, 8, 9]
    assert first["columns"] == [{"name": "n", "type": "int64"}]
    assert "not a position" in get(server, "?since=soon")["error"]
    wrong = httpx.get(f"{server.url}/api/queries/cuont/results", timeout=30)
    assert (wrong.status_code, wrong.json()["error"]) == (
        400, "there is no query 'cuont'; there are count",
    )  # fmt: skip


def test_events_follow_the_commits_and_end_with_the_run(server: Server, run: CountingRun) -> None:
    pages: list[Any] = []
    seen_ids: list[str] = []

    def read() -> None:
        headers = {"Accept": "text/event-stream"}
        address = f"{server.url}/api/queries/count/results?since=8"
        with httpx.stream("GET", address, headers=headers, timeout=60) as reply:
            for line in reply.iter_lines():
                if line.startswith("id: "):
                    seen_ids.append(line[4:])
                if line.startswith('data: {"query'):
                    pages.append(json.loads(line[6:]))

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: len(pages) == 1)
    run.committed = 12
    until(lambda: len(pages) == 2)
    run.is_active = False
    reader.join(30)
    assert not reader.is_alive()
    assert [numbers(page) for page in pages] == [[8, 9], [10, 11]]
    assert seen_ids == ["10", "12"]
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "11"}
    again = httpx.get(f"{server.url}/api/queries/count/results", headers=headers, timeout=30)
    assert ('"n":11' in again.text, '"n":10' in again.text) == (True, False)


def test_the_command_line_follows(server: Server, run: CountingRun) -> None:
    run.is_active = False
    done = CliRunner().invoke(
        app, ["results", "count", "--url", server.url, "--limit", "2", "--follow", "--json"]
    )
    assert (done.exit_code, numbers(json.loads(done.stdout))) == (0, [8, 9])
    shown = CliRunner().invoke(app, ["results", "count", "--run", server.url, "--limit", "2"])
    assert shown.stdout.split() == ["n", "8", "9"]
    wrong = CliRunner().invoke(app, ["results", "other", "--url", server.url])
    assert (wrong.exit_code, "there are count" in wrong.stderr) == (2, True)


def test_values_that_json_would_round_are_text() -> None:
    assert json_value([1 << 53, (1 << 53) + 1, True, None]) == [
        1 << 53, "9007199254740993", True, None,
    ]  # fmt: skip
    assert json_value({"a": float("-inf")}) == {"a": "-Infinity"}


def test_dates_that_python_does_not_have_are_text() -> None:
    days = pa.array([73_000_000, -800_000, 0, None], pa.int32()).cast(pa.date32())
    rows = pa.table({"d": days, "s": pa.StructArray.from_arrays([days], ["x"])})
    page = ResultsPage(rows, ResultPosition(0), ResultPosition(1), 1)
    shown = results_page("q", page).rows
    assert [row["d"] for row in shown] == [
        "<value out of range: 73000000>", "-0221-09-04", "1970-01-01", None,
    ]  # fmt: skip
    assert [row["s"] for row in shown][1:] == [
        "<a date out of range>", {"x": "1970-01-01"}, {"x": None},
    ]  # fmt: skip
