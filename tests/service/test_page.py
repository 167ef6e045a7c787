"""The page in a real browser: actions follow the role, hostile texts are only text."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright
from tests.support.http_clients import SECRETS, role_tokens, served
from tests.support.service_world import FakeRun, hot_key, load

from evenflow.service import Role, Server

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
SHOWN = "<img src=x onerror=alert(1)>\\x1b[31m\\u202e"
WAIT_MS = 120_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    run = FakeRun()
    run.queries["a"] = replace(run.queries["a"], text=f"SELECT '{HOSTILE}'")
    run.quarantined = {"b": HOSTILE}
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
    page.get_by_test_id("query-a").click()
    expect(page.locator("dialog pre")).to_have_text(f"SELECT '{SHOWN}'")
    page.keyboard.press("Escape")
    page.get_by_test_id("query-b").click()
    expect(page.locator("dialog .facts")).to_contain_text(SHOWN)
    assert page.locator("img[src=x]").count() == 0
    assert ran == []
    page.context.close()
