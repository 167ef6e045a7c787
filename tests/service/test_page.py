"""The page in a real browser: roles, hostile texts, links, search, sizes, accessibility."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright
from scripts.services import UnavailableError
from tests.service.test_tenants import USE
from tests.support.axe import axe_script
from tests.support.http_clients import SECRETS, role_tokens, served
from tests.support.page_world import PageRun
from tests.support.service_world import FakeRun, hot_key, load

from evenflow.service import Role, Server

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
SHOWN = "<img src=x onerror=alert(1)>\\x1b[31m\\u202e"
WAIT_MS = 120_000
LONGEST_TASK_MS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    run = FakeRun()
    run.queries["a"] = replace(run.queries["a"], text=f"SELECT '{HOSTILE}'")
    run.quarantined = {"b": HOSTILE}
    run.tenants = (replace(USE, slowed={"a": HOSTILE}),)
    for batch in range(5):
        keys = replace(hot_key(), names=(HOSTILE,))
        queries = {"a": load((1.0, 0.0, 0.0)), "k": load((0.0, 0.6, 0.2), keys=keys)}
        run.batch(batch, queries=queries)
    with served(run, tokens=role_tokens()) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


def opened(browser: Browser, server: Server, role: Role) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page.goto(f"{server.url}/?token={SECRETS[role]}")
    assert SECRETS[role] not in page.url
    expect(page.get_by_test_id("live")).to_have_attribute("data-status", "running")
    expect(page.get_by_test_id("query-a")).to_be_visible()
    return page


@pytest.mark.slow
@pytest.mark.parametrize("role", list(Role))
def test_the_page_offers_what_the_token_may_do(
    browser: Browser, server: Server, role: Role
) -> None:
    page = opened(browser, server, role)
    for control, needed in (
        (page.get_by_test_id("open-submit"), Role.SUBMIT),
        (page.get_by_test_id("rollback"), Role.OPERATE),
        (page.get_by_test_id("worker-0"), Role.OPERATE),
    ):
        expect(control).to_be_visible(visible=role.includes(needed))
    page.get_by_test_id("query-b").click()
    for button, needed in (
        ("cancel-query", Role.SUBMIT),
        ("pin", Role.OPERATE),
        ("resume", Role.OPERATE),
    ):
        expect(page.get_by_test_id(button)).to_have_count(int(role.includes(needed)))
    page.context.close()


@pytest.mark.slow
def test_hostile_texts_are_shown_as_text(browser: Browser, server: Server) -> None:
    page = opened(browser, server, Role.OPERATE)
    ran: list[str] = []

    def note(dialog: Dialog) -> None:
        ran.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    expect(page.get_by_test_id("keys")).to_contain_text(SHOWN)
    tenants = page.get_by_test_id("tenants")
    expect(tenants).to_contain_text("50 % of 25 %")
    expect(tenants.locator(".chip")).to_have_attribute("title", f"a: {SHOWN}")
    page.get_by_test_id("query-a").click()
    expect(page.locator("dialog pre")).to_have_text(f"SELECT '{SHOWN}'")
    page.keyboard.press("Escape")
    page.get_by_test_id("query-b").click()
    expect(page.locator("dialog .facts")).to_contain_text(SHOWN)
    assert page.locator("img[src=x]").count() == 0
    assert ran == []
    page.context.close()


@pytest.fixture(scope="module")
def large_run() -> PageRun:
    return PageRun(workers=256, queries=5_000, batches=130)


@pytest.fixture(scope="module")
def large(large_run: PageRun) -> Iterator[Server]:
    with served(large_run) as found:
        yield found


def look(browser: Browser, server: Server, address: str = "", **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page.goto(f"{server.url}/{address}")
    expect(page.get_by_test_id("query-averages")).to_be_visible()
    return page


@pytest.mark.slow
def test_many_workers_and_queries_stay_readable(
    browser: Browser, large: Server, large_run: PageRun
) -> None:
    page = look(browser, large)
    for _ in range(3):
        large_run.step()
        page.wait_for_timeout(700)
    expect(page.get_by_test_id("answer-keeping")).to_contain_text("Keeping up")
    expect(page.get_by_test_id("run-name")).to_have_text("market")
    assert page.locator("#queries tbody tr").count() < 60
    assert page.locator("#workers tbody tr").count() < 60
    workers = page.evaluate("fetch('api/workers').then((answer) => answer.json())")
    loads = [worker["load"] for worker in workers]
    busiest = max(range(256), key=lambda worker: loads[worker])
    expect(page.locator("#workers tbody:not(.spacer) tr").first).to_contain_text(f"{busiest}")
    page.locator("#queries").evaluate("e => e.parentElement.scrollTo(0, 1e6)")
    page.get_by_test_id("query-search").fill("4998")
    expect(page.get_by_test_id("query-alert_4998")).to_be_visible()
    assert page.locator("#queries tbody:not(.spacer) tr").count() == 1
    page.get_by_test_id("query-search").fill("")
    page.get_by_test_id("query-show").select_option("quarantined")
    expect(page.get_by_test_id("query-alert_0002")).to_be_visible()
    page.get_by_test_id("query-show").select_option("all")
    page.get_by_test_id("sort-name").click()
    expect(page.get_by_test_id("query-alert_0000")).to_be_visible()
    page.context.close()


@pytest.mark.slow
def test_no_task_of_the_page_is_long(browser: Browser, large: Server, large_run: PageRun) -> None:
    page = look(browser, large)
    page.wait_for_timeout(2000)  # what is done once, when the page is opened
    longest = []
    for word in ("499", "498", "497"):
        browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
        large_run.step()
        page.wait_for_timeout(1500)
        page.get_by_test_id("query-search").fill(word)
        expect(page.get_by_test_id(f"query-alert_4{word}")).to_be_visible()
        page.get_by_test_id("query-search").fill("")
        page.get_by_test_id("sort-name").click()
        page.get_by_test_id("range-all").click()
        page.wait_for_timeout(1000)
        tasks = task_milliseconds(json.loads(browser.stop_tracing())["traceEvents"])
        assert len(tasks) > 100
        longest.append(max(tasks))
    assert min(longest) < LONGEST_TASK_MS, "a task that is long is so each time"
    page.context.close()


def task_milliseconds(events: list[dict[str, Any]]) -> list[float]:
    """Return the CPU time of each task of the page: a wait for a core of this machine is not it."""
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = (event for event in events if event["ph"] == "X" and "tdur" in event)
    return [task["tdur"] / 1000 for task in tasks if (task["pid"], task["tid"]) in threads]


@pytest.mark.slow
def test_links_open_what_they_name(browser: Browser, large: Server) -> None:
    page = look(browser, large, "#key/averages/NVDA?time=all")
    expect(page.locator("#key")).to_contain_text("Key NVDA of averages")
    expect(page.locator("#key")).to_contain_text("worker 1")
    expect(page.get_by_test_id("range-all")).to_have_attribute("aria-pressed", "true")
    page.locator("#key a", has_text="40,").click()
    expect(page.locator("#key")).to_be_hidden()
    expect(page.get_by_test_id("detail")).to_contain_text("Decision 40")
    assert "#decision/40?time=all" in page.url
    page.go_back()
    expect(page.locator("#key")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#key")).to_be_hidden()
    assert "#key" not in page.url
    page.get_by_test_id("pause").click()
    expect(page.get_by_test_id("live")).to_contain_text("paused")
    page.context.close()


@pytest.mark.slow
def test_a_click_while_the_page_is_drawn_is_seen(browser: Browser, large: Server) -> None:
    page = look(browser, large)
    expect(page.get_by_test_id("decision-40")).to_be_visible()
    page.wait_for_timeout(1000)  # nothing is being drawn, and no batch comes that would redraw
    page.evaluate(
        """() => new Promise((done) => {
          document.querySelector("[data-testid=range-300]").click();
          requestAnimationFrame(() => setTimeout(() => {
            document.getElementById("pause").click();
            done();
          }));
        })"""
    )
    expect(page.get_by_test_id("live")).to_contain_text("paused", timeout=10_000)
    page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_page_is_accessible_at_every_width(
    browser: Browser, large: Server, width: int, scheme: Any
) -> None:
    try:
        script = axe_script()
    except UnavailableError as error:
        pytest.skip(str(error))
    size: Any = {"width": width, "height": 900}
    page = look(browser, large, viewport=size, color_scheme=scheme, bypass_csp=True)
    expect(page.get_by_test_id("decision-40")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.add_script_tag(path=script)
    broken = []
    for address in ("", "#query/averages", "#key/averages/NVDA"):
        page.evaluate(f"location.hash = {address!r}")
        page.wait_for_timeout(500)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")
        broken += [(v["id"], v["nodes"][0]["html"][:150]) for v in found["violations"]]
    assert broken == []
    page.context.close()
