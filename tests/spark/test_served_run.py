"""A real run, served: the API, the command line, and the page in a real browser."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from playwright.sync_api import Page, expect, sync_playwright
from pyspark.sql import SparkSession
from tests.support.poll import until
from tests.support.spark_harness import Play, trades, write_batches
from typer.testing import CliRunner

import evenflow
from evenflow.cli.app import app
from evenflow.service import Server, serve

ARTEFACTS = Path(__file__).parent.parent.parent / "artefacts"
WAIT_MS = 180_000
PAIRS = """SELECT a.ts, a.symbol, b.price FROM trades a JOIN trades b
ON a.symbol = b.symbol AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 3 SECONDS"""
OURS = {"X-Evenflow": "1"}


class Served:
    """A run that is fed until the tests are through, and its service."""

    def __init__(self, play: Play) -> None:
        self._folder, self._stop = play.folder / "trades", threading.Event()
        self._feed(0)
        flow = play.flow()
        flow.query("pairs", PAIRS, key="symbol")
        flow.query("dear", "SELECT ts, symbol, price FROM trades WHERE price > 50", publish=True)
        flow.query("dearest", "SELECT ts, symbol FROM dear WHERE price > 90")
        flow.template("limit", "SELECT ts, price FROM trades WHERE symbol = :symbol")
        self.run: evenflow.Run = flow.start(trigger="100 milliseconds")
        self.server: Server = serve(self.run, port=0)
        self._thread = threading.Thread(target=self._feeding)
        self._thread.start()

    def _feeding(self) -> None:
        number = 1
        while not self._stop.wait(0.5):
            self._feed(number)
            number += 1

    def _feed(self, number: int) -> None:
        rows = trades(np.random.default_rng(number), 300)
        later = pc.add(rows["ts"], pa.scalar(timedelta(seconds=60 * number)))
        write_batches(self._folder, [rows.set_column(0, "ts", later)], first=number)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.server.stop()
        self.run.stop()

    def get(self, path: str) -> Any:
        answer = httpx.get(f"{self.server.url}{path}", verify=False, timeout=30)  # noqa: S501
        answer.raise_for_status()
        return answer.json()

    def cli(self, *arguments: str) -> Any:
        found = CliRunner().invoke(app, [*arguments, "--url", self.server.url, "--json"])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)


@pytest.fixture(scope="module")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(Play(spark, tmp_path_factory.mktemp("served"), workers=3))
    yield found
    found.close()


def shoot(page: Page) -> None:
    """Keep what the page looks like, for people to look at."""
    ARTEFACTS.mkdir(exist_ok=True)
    page.keyboard.press("Home")
    for name, width, scheme in (
        ("light", 1440, "light"),
        ("dark", 1440, "dark"),
        ("narrow", 360, "light"),
    ):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(400)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{name}: {wider} pixels beyond the edge"
        page.screenshot(path=ARTEFACTS / f"page-{name}.png", full_page=True)


@pytest.mark.slow
def test_the_page_shows_a_run_and_changes_it(served: Served) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        errors: list[str] = []
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(served.server.url)
        fills(page)
        assert errors == []
        submits_and_cancels(page)
        drains(page)
        shoot(page)
        # The browser itself notes the one submission that was refused on purpose.
        assert [error for error in errors if "status of 400" not in error] == []
        assert len(errors) == 1
        browser.close()


def fills(page: Page) -> None:
    expect(page.get_by_test_id("live")).to_have_attribute("data-status", "running")
    for query in ("pairs", "dear", "dearest", "limit"):
        expect(page.get_by_test_id(f"query-{query}")).to_be_visible()
    expect(page.get_by_test_id("keys").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_test_id("correlation").locator("td.cell")).to_have_count(9)
    expect(page.get_by_test_id("streams").locator("tbody tr")).to_have_count(2)
    expect(page.get_by_test_id("network").locator("[data-node]")).to_have_count(5)
    expect(page.get_by_test_id("workers").locator("tbody:not(.spacer) tr")).to_have_count(3)
    expect(page.get_by_test_id("chart-load").locator("canvas")).to_be_visible()
    expect(page.get_by_test_id("figure-rows-into-queries").locator("dd span")).not_to_have_text(
        "0/s"
    )


def submits_and_cancels(page: Page) -> None:
    page.get_by_test_id("open-submit").click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_label("SQL over streams").fill("SELECT nothing FROM trades")
    page.get_by_test_id("submit-query").click()
    expect(page.get_by_test_id("submit-error")).to_contain_text("nothing")
    page.get_by_label("SQL over streams").fill("SELECT ts, qty FROM trades WHERE qty > 3")
    page.get_by_test_id("submit-query").click()
    mine = page.get_by_test_id("query-mine")
    expect(mine).to_be_visible()
    mine.click()
    expect(page.locator("dialog pre")).to_have_text("SELECT ts, qty FROM trades WHERE qty > 3")
    page.get_by_role("button", name="Close").click()
    page.get_by_test_id("query-dear").click()
    newest = page.get_by_test_id("results").locator("tbody tr")
    expect(newest).to_have_count(20)
    expect(newest.first.locator("td")).to_have_count(3)
    page.get_by_role("button", name="Close").click()
    mine.click()
    page.get_by_test_id("cancel-query").click()
    expect(mine).to_have_count(0)


def drains(page: Page) -> None:
    page.get_by_test_id("worker-2").click()
    row = page.get_by_test_id("workers").locator("tbody:not(.spacer) tr").nth(2)
    expect(row.locator(".chip")).to_have_text("drained")
    listed = page.get_by_test_id("decisions").locator("li", has_text="drain")
    listed.first.locator("a").click()
    expect(page.get_by_test_id("detail")).to_contain_text("drain")
    expect(page.get_by_test_id("detail").locator(".numbers td").first).to_be_visible()
    expect(row.get_by_role("button")).to_have_text("Activate")


def test_the_api_answers_as_its_description_says(served: Served) -> None:
    described = served.get("/openapi.json")
    plain = [path for path, said in described["paths"].items() if "get" in said and "{" not in path]
    assert "/api/state" in plain
    until(lambda: httpx.get(f"{served.server.url}/readyz", timeout=30).status_code == 200)
    for path in plain:
        content = described["paths"][path]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        found = served.get(path)
        assert isinstance(found, list) == (schema.get("type") == "array"), path
        if isinstance(found, dict):
            model = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert found.keys() == model["properties"].keys(), path
    metrics = httpx.get(f"{served.server.url}/metrics", timeout=30).text
    assert 'evenflow_worker_load_ratio{worker="1"}' in metrics
    decision = served.get("/api/decisions?all=1")[0]
    assert served.get(f"/api/decisions/{decision['number']}")["trigger"] == decision["trigger"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("queries", {"name": "dear", "sql": "SELECT 1"}, 400, "'dear' is already used"),
        ("queries", {"name": "x"}, 400, "sql: Field required"),
        ("queries", {"name": "x", "sql": "SELECT 1", "color": "red"}, 400, "color"),
        ("workers/9/drain", {}, 400, "9"),
        ("workers/first/drain", {}, 404, "workers are numbers"),
        ("queries/nothing/pin", {}, 400, "nothing"),
        ("templates/dear/subscriptions", {"rows": [{"subscription": "s"}]}, 400, "not a template"),
        ("nowhere", {}, 404, "nothing at /api/nowhere"),
    ],
)
def test_what_cannot_be_is_refused(
    served: Served, path: str, body: Any, status: int, said: str
) -> None:
    answer = httpx.post(f"{served.server.url}/api/{path}", json=body, headers=OURS, timeout=30)
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


def subscribed(run: evenflow.Run) -> Counter[str]:
    """How many rows each subscription has got so far."""
    return Counter(row.subscription for row in run.results("limit").collect())


def test_the_command_line_talks_to_it(served: Served, tmp_path: Path) -> None:
    names = {query["name"] for query in served.cli("ps")["queries"]}
    assert {"pairs", "dear", "dearest", "limit"} <= names
    rows = tmp_path / "rows.csv"
    rows.write_text("subscription,symbol\nfirst,a\nsecond,b\n")
    served.cli("subscribe", "limit", "--file", str(rows))
    served.cli("subscribe", "limit", "symbol=c", "--name", "third")
    served.cli("unsubscribe", "limit", "second")
    served.cli("submit", "lots", "SELECT ts, qty FROM trades WHERE qty > 5", "--worker", "0")
    assert served.cli("results", "lots")["query"] == "lots", "known before it is hosted"
    until(lambda: any(q["name"] == "lots" for q in served.cli("ps")["queries"]))
    until(lambda: served.run.results("lots").count() > 0)
    before = subscribed(served.run)
    until(lambda: subscribed(served.run)["third"] > before["third"])
    after = subscribed(served.run)
    assert after["first"] > before["first"]
    assert after["second"] == before["second"]  # it ended before `lots` began
    shown = served.cli("results", "lots", "--limit", "3")
    assert [row["qty"] > 5 for row in shown["rows"]] == [True] * 3
    by_checkpoint = [
        "results", "lots", "--run", served.run.checkpoint_uri, "--limit", "3", "--json",
    ]  # fmt: skip
    found = CliRunner().invoke(app, by_checkpoint)
    assert (found.exit_code, len(json.loads(found.stdout)["rows"])) == (0, 3)
    served.cli("cancel", "lots")
    assert len(served.cli("workers", "list")["workers"]) == 3
    made = served.cli("moves", "--all")["decisions"]
    assert served.cli("explain", str(made[0]["number"]))["number"] == made[0]["number"]
    assert {key["query"] for key in served.cli("hot-keys")["hot_keys"]} <= {"pairs"}


def test_status_finds_it_by_its_checkpoint(served: Served) -> None:
    until(lambda: served.cli("status", served.run.checkpoint_uri)["state"] == "running")
    found = served.cli("status", served.run.checkpoint_uri)
    assert found["url"] == served.server.url
    assert found["queries"] >= 4
    by_key = served.cli("explain", "--query", "pairs")["moves"]
    assert {move["query"] for move in by_key} <= {"pairs"}


def test_the_run_goes_on_without_its_service(served: Served) -> None:
    served.server.stop()
    batch = served.run.snapshots[-1].batch
    until(lambda: served.run.snapshots[-1].batch > batch + 1)
    refused = CliRunner().invoke(app, ["ps", "--url", served.server.url])
    assert refused.exit_code == 4
    found = CliRunner().invoke(app, ["status", served.run.checkpoint_uri, "--json"])
    assert (found.exit_code, json.loads(found.stdout)["state"]) == (0, "running")


def test_stop_ends_it_after_its_batch(served: Served) -> None:
    server = serve(served.run, port=0)
    done = CliRunner().invoke(app, ["stop", "--url", server.url])
    server.stop()
    assert (done.exit_code, done.stdout) == (0, "stopped\n")
    assert not served.run.is_active
    found = CliRunner().invoke(app, ["status", served.run.checkpoint_uri, "--json"])
    assert json.loads(found.stdout)["state"] == "stopped"
    assert len(served.run.results("dear", limit=3).to_arrow()) == 3
