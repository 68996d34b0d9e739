"""The page in a real browser, before a real server with streams at work."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from browsing import chromium, feed, needs_chromium, new_service, put_to_work, visit
from live_server import digits, until
from playwright.sync_api import Browser, Locator, Page, expect

from rotta.client import Client, RefusedError
from rotta.serve import Service, serving

pytestmark = needs_chromium


@dataclass
class Site:
    url: str
    service: Service

    @property
    def client(self) -> Client:
        return Client(self.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    service = new_service(tmp_path_factory.mktemp("page"), guard=True, lr=1.0)
    with serving(service) as url:
        put_to_work(service, url)
        yield Site(url, service)


def row(page: Page, stream: str) -> Locator:
    link = page.get_by_role("link", name=stream, exact=True)
    return page.locator(".streams tbody tr").filter(has=link)


def names(page: Page) -> list[str]:
    return page.locator(".streams tbody th").all_inner_texts()


def test_streams_are_listed_found_and_opened(browser: Browser, site: Site) -> None:
    with visit(browser, site.url) as page:
        expect(page.locator("#health")).to_have_text("✓ Server is well")
        expect(row(page, "yard")).to_contain_text("frozen")
        expect(row(page, "gate-0")).to_contain_text("well")
        expect(row(page, "poisoned")).to_contain_text(re.compile("rolled back|reset by the guard"))
        expect(row(page, "wall")).to_contain_text("shows nothing but noise")
        assert sorted(names(page)[:2]) == ["poisoned", "wall"]
        assert page.locator("[data-of=in_trouble]").inner_text() == "2"

        page.keyboard.press("/")
        page.keyboard.type("gate")
        expect(row(page, "yard")).to_have_count(0)
        assert names(page) == ["gate-0", "gate-1", "gate-2"]
        expect(page.locator("#matching")).to_have_text(re.compile("3 of"))
        page.keyboard.press("Escape")
        expect(row(page, "yard")).to_have_count(1)
        page.get_by_label("Show").select_option("frozen")
        expect(row(page, "poisoned")).to_have_count(0)
        assert names(page) == ["yard"]
        page.get_by_label("Show").select_option("all")
        page.get_by_role("button", name="Stream", exact=True).click()
        expect(page.locator("[data-sort=stream]")).to_have_attribute("aria-sort", "ascending")
        expect(page.locator(".streams tbody th").first).to_have_text("gate-0")

        page.get_by_role("link", name="gate-0", exact=True).focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="gate-1", level=1)).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("link", name="gate-1", exact=True)).to_be_focused()


def test_a_stream_shows_what_it_saw_and_learnt(browser: Browser, site: Site) -> None:
    with visit(browser, f"{site.url}/#/streams/gate-0", expected=("404",)) as page:
        expect(page.locator(".inputs li")).to_have_count(16)
        expect(page.locator(".inputs li").first).to_contain_text(re.compile(r"\d \d+ %"))
        held = sum(site.client.info("gate-0").bank_by_class)
        expect(page.locator(".bank li")).to_have_count(held)
        ages = {int(text.split()[-1]) for text in page.locator(".age").all_inner_texts()}
        assert ages == set(site.client.info("gate-0").bank_ages)
        expect(page.get_by_text("Nothing: it found no reason to.")).to_be_visible()
        chart = page.get_by_role("img", name=re.compile("^Entropy: now"))
        chart.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".readout").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d: \d"))
        expect(page.locator(".line").nth(2)).to_have_attribute("d", re.compile("^M"))
        page.goto(f"{site.url}/#/streams/poisoned")
        expect(page.locator(".events tbody tr").first).to_contain_text("moved too far")
        page.goto(f"{site.url}/#/streams/wall")
        expect(page.locator(".events tbody tr").first).to_contain_text("noise or a single colour")
        page.goto(f"{site.url}/#/streams/nobody")
        expect(page.locator("main .alert")).to_have_text(re.compile("There is no stream nobody"))
        expect(page.get_by_role("button", name="Reset")).to_be_disabled()


def confirm(page: Page, button: str, answer: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=answer, exact=True).click()


def test_a_stream_is_frozen_let_go_reset_and_deleted(browser: Browser, site: Site) -> None:
    with visit(browser, site.url) as page:
        row(page, "gate-2").click()
        expect(page.get_by_role("button", name="Freeze")).to_be_enabled()
        confirm(page, "Freeze", "Cancel")
        assert not site.client.info("gate-2").frozen
        confirm(page, "Freeze", "Freeze")
        expect(page.locator("#said")).to_have_text("gate-2 is frozen.")
        expect(page.locator(".title .state")).to_contain_text("frozen")
        assert site.client.info("gate-2").frozen
        confirm(page, "Unfreeze", "Unfreeze")
        expect(page.locator("#said")).to_have_text("gate-2 learns again.")
        assert not site.client.info("gate-2").frozen

        assert site.client.info("gate-2").updates == 1
        page.get_by_role("button", name="Reset").click()
        lost = page.get_by_role("dialog")
        expect(lost).to_contain_text(re.compile(r"1 update and a bank of \d+ images"))
        lost.get_by_role("button", name="Reset").click()
        expect(page.locator(".bank")).to_have_text("Empty.")
        assert site.client.info("gate-2").updates == 0

        confirm(page, "Delete", "Delete")
        expect(page.locator("#said")).to_have_text("gate-2 is deleted.")
        expect(row(page, "gate-1")).to_have_count(1)
        expect(row(page, "gate-2")).to_have_count(0)
        with pytest.raises(RefusedError, match="there is no stream"):
            site.client.info("gate-2")


def test_an_action_that_fails_is_told(browser: Browser, site: Site) -> None:
    feed(site.service, "fleeting", digits(2))
    refused = ("404",)  # the browser's own words about it
    with visit(browser, f"{site.url}/#/streams/fleeting", expected=refused) as page:
        expect(page.get_by_role("button", name="Freeze")).to_be_enabled()
        page.get_by_role("button", name="Freeze").click()
        site.client.delete("fleeting")
        page.get_by_role("dialog").get_by_role("button", name="Freeze").click()
        expect(page.locator("#said")).to_have_text(
            re.compile("That did not work: there is no stream fleeting")
        )


def test_nothing_is_asked_while_nobody_looks(browser: Browser, site: Site) -> None:
    asked: list[str] = []
    with visit(browser, site.url) as page:
        page.clock.install()
        page.reload()
        expect(row(page, "yard")).to_have_count(1)
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(2100)
        expect(row(page, "yard")).to_have_count(1)
        until(lambda: page.evaluate("1") and len(asked) == 1)
        look = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, %s}); %s }"
        tell = "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate(look % ("configurable: true", tell), True)
        page.clock.run_for(30_000)
        assert len(asked) == 1
        page.evaluate(look % ("configurable: true", tell), False)
        until(lambda: page.evaluate("1") and len(asked) == 2)


def test_it_fits_a_telephone_in_the_dark(browser: Browser, site: Site) -> None:
    small = {"width": 420, "height": 800}
    with visit(browser, site.url, viewport=small, color_scheme="dark") as page:
        fits = "document.documentElement.scrollWidth <= innerWidth"
        dark = "getComputedStyle(document.body).backgroundColor === 'rgb(18, 22, 29)'"
        expect(row(page, "poisoned")).to_have_count(1)
        assert page.evaluate(fits)
        assert page.evaluate(dark)
        page.get_by_role("button", name="Light colours").click()
        assert not page.evaluate(dark)
        page.reload()
        assert not page.evaluate(dark)
        row(page, "poisoned").click()
        expect(page.locator(".bank li, .bank .empty").first).to_be_visible()
        assert page.evaluate(fits)


def test_thousands_come_in_pages(browser: Browser, tmp_path: Path) -> None:
    service = new_service(tmp_path)
    for number in range(5000):
        service.worker.history.standings.add(f"s{number:04}", [number % 10], 0.1, 0.01)
    with serving(service) as url, visit(browser, url) as page:
        expect(page.locator(".pages span")).to_have_text("1 to 50 of 5,000")
        assert len(names(page)) == 50
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".pages span")).to_have_text("51 to 100 of 5,000")
        assert names(page)[0] == "s0050"
        page.get_by_label("Stream", exact=True).fill("s499")
        expect(page.locator(".pages")).to_be_hidden()
        assert names(page) == [f"s499{digit}" for digit in range(10)]


def test_the_token_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    service = new_service(tmp_path, token="open sesame")
    with serving(service) as url, visit(browser, url, expected=("401",)) as page:
        secret = page.get_by_label("Token")
        expect(secret).to_be_focused()
        secret.fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#wrong")).to_have_text("That is not this server's token.")
        secret.fill("open sesame")
        page.keyboard.press("Enter")
        expect(page.get_by_text("No stream yet")).to_be_visible()
        page.reload()
        expect(page.get_by_text("No stream yet")).to_be_visible()
        page.get_by_role("button", name="Forget the token").click()
        expect(secret).to_be_visible()


def test_a_server_that_stops_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    service = new_service(tmp_path)
    broken = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    with ExitStack() as running:
        url = running.enter_context(serving(service))
        feed(service, "gate-0", digits(2))
        with visit(browser, url, expected=broken) as page:
            page.clock.install()
            page.reload()
            expect(row(page, "gate-0")).to_contain_text("no guard")
            running.close()
            page.clock.run_for(2100)
            told = re.compile("does not answer.* What is shown is of")
            expect(page.locator("#lost")).to_have_text(told)
            expect(row(page, "gate-0")).to_have_count(1)
            again = serving(new_service(tmp_path), port=int(url.rpartition(":")[2]))
            running.enter_context(again)
            page.clock.run_for(2100)
            expect(page.locator("#lost")).to_be_hidden()
            expect(row(page, "gate-0")).to_contain_text("not used lately")
