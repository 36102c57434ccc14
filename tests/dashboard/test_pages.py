"""The dashboard in a real browser: every page, signing in, and a server that comes back."""

import re
import threading
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import expect

from armrace.service import Keyring, MemoryStore, Service
from browsing import DESK, PHONE, chromium, overflow, severe_violations
from hosting import HOSTILE, HOSTILE_NAME, fill, free_port, hosted
from serving import Clock

NAME = quote_plus(HOSTILE_NAME)
PAGES = {
    "list": "/",
    "race": f"/experiment?name={NAME}",
    "without layers": "/experiment?name=plain",
    "empty": "/experiment?name=nothing+yet",
    "sources": f"/sources?name={NAME}",
    "group": f"/group?name={NAME}&by=source&key={quote_plus(HOSTILE)}",
    "afresh": f"/afresh?name={NAME}",
    "preview": f"/preview?name={NAME}&source={quote_plus(HOSTILE)}",
    "hold": f"/preview?name={NAME}&source=web&verdict=hold",
    "actions": f"/actions?name={NAME}",
    "API": "/docs",
    "refusal": "/experiment?name=none",
}
STILL_PAGES = ("group", "afresh", "preview", "hold", "actions", "API", "refusal")


class World:
    """A service with a dashboard, and keys of all kinds."""

    def __init__(self) -> None:
        self.keyring = Keyring()
        self.keys = {
            scope: self.keyring.create([scope])[1] for scope in ("admin", "read", "reward")
        }
        self.clock = Clock()
        self.service = Service(MemoryStore(), self.keyring, clock=self.clock)
        fill(self.service, self.clock)


@pytest.fixture(scope="module")
def world():
    world = World()
    with hosted(world.service) as world.address:
        yield world


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser, world):
    """Open pages, signed in; scripts that fail and requests that leave the host are noted."""
    opened, problems = [], []

    def begin(scope="admin", **options):
        context = browser.new_context(**{"viewport": DESK, **options})
        opened.append(context)
        page = context.new_page()
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: _note(problems, said))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(world.address) else problems.append(asked),
        )
        if scope is not None:
            page.goto(f"{world.address}/sign-in")
            page.get_by_label("Key").fill(world.keys[scope])
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Experiments")).to_be_visible()
        return page

    yield begin
    for context in opened:
        context.close()
    assert problems == []


def _note(problems, said) -> None:
    refused = ("401 (Unauthorized)", "403 (Forbidden)", "404 (Not Found)", "409 (", "ERR_FAILED")
    if said.type == "error" and not any(each in said.text for each in refused):
        problems.append(said.text)


def test_every_page_is_accessible_and_fits_a_phone(visit, world):
    page = visit(viewport=PHONE)
    for name, path in PAGES.items():
        page.goto(world.address + path)
        if name not in STILL_PAGES:
            expect(page.get_by_text("live", exact=True)).to_be_visible()
        assert overflow(page) <= 0, name
        assert severe_violations(page) == [], name


def test_dark_pages_are_legible(visit, world):
    page = visit(color_scheme="dark")
    for name in ("list", "race", "sources", "group", "afresh", "preview", "actions"):
        page.goto(world.address + PAGES[name])
        assert severe_violations(page) == [], name


def test_the_sign_in_page_is_accessible_and_fits(visit, world):
    page = visit(None, viewport=PHONE)
    page.goto(world.address)
    assert page.url == f"{world.address}/sign-in?to=%2F"
    assert severe_violations(page) == []
    assert overflow(page) <= 0


def test_hostile_names_are_text(visit, world):
    page = visit()
    page.goto(world.address + PAGES["preview"])
    expect(page.get_by_role("heading", level=2)).to_have_text(f"What to do about {HOSTILE}?")
    page.get_by_role("link", name="Retract the rewards").click()
    expect(page.get_by_text("A retraction takes back rewards, not visits")).to_be_visible()
    page.goto(world.address + PAGES["sources"])
    expect(page.locator(".holds")).to_contain_text(f"{HOSTILE_NAME} are held since")
    expect(page.locator(".holds")).to_contain_text(f": {HOSTILE}.")
    page.goto(world.address + PAGES["actions"])
    expect(page.get_by_role("row", name="Voided visits")).to_contain_text(HOSTILE)
    expect(page.get_by_role("row", name="standing hold")).to_contain_text(f"source {HOSTILE_NAME}")
    page.goto(world.address + PAGES["race"])
    expect(page.get_by_role("heading", name=HOSTILE_NAME, level=1)).to_be_visible()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    cells = page.locator("table.matrix thead .arm")
    assert cells.all_inner_texts() == [HOSTILE, "second arm", "third"]


def test_pages_can_be_read_without_scripts(visit, world):
    page = visit(java_script_enabled=False)
    page.goto(world.address + PAGES["race"])
    expect(page.locator(".at-desk svg.chart")).to_have_count(3)
    expect(page.locator(".lead")).to_contain_text("has the best rewards so far, but an alarm is up")
    expect(page.locator("table.matrix tbody tr")).to_have_count(4)
    expect(page.locator("td.out").first).to_contain_text("deleted")
    expect(page.get_by_role("alert")).to_contain_text("Either rewards are forged, or")
    events = page.locator("#table-traffic .events")
    assert "deleted from layer" in events.text_content()
    assert re.search(r"1 \(0\.\d+ to 1\)", page.locator("#table-reward").text_content())
    page.goto(world.address + PAGES["sources"])
    expect(page.locator("table.sources")).to_contain_text("held")
    page.goto(world.address)
    expect(page.get_by_role("row", name=re.compile("plain"))).to_contain_text("no alarm")
    expect(page.get_by_role("row", name=re.compile("onerror"))).to_contain_text("alarm")


def test_charts_are_read_by_pointer_and_keys(visit, world):
    page = visit()
    page.goto(world.address + PAGES["race"])
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    figure = page.get_by_role("group", name="Chart: Traffic")
    readout = figure.locator("[data-readout]")
    expect(readout).not_to_be_visible()
    figure.locator("svg:visible").hover(position={"x": 60, "y": 60})
    expect(readout).to_contain_text(re.compile(r"second arm \d+%"))
    expect(figure.locator(".cursor")).to_have_count(1)
    before = readout.inner_text()
    figure.focus()
    page.keyboard.press("End")
    expect(readout).not_to_have_text(before)
    expect(readout).to_have_attribute("aria-live", "polite")
    last = readout.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(readout).not_to_have_text(last)


def test_a_read_key_may_look_and_not_change(visit, world):
    page = visit("read")
    page.goto(world.address + PAGES["sources"])
    expect(page.locator("table.sources tbody tr")).not_to_have_count(0)
    for name in ("Void or retract", "Release all of these", "End it"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_text("Verdicts from a file")).to_have_count(0)
    response = page.request.get(world.address + PAGES["preview"])
    assert response.status == 403
    assert page.request.get(f"{world.address}/experiment?name=none").status == 404
    assert "does not have the scope admin" in response.text()


def test_other_keys_are_refused(visit, world):
    page = visit(None)
    for key, words in (
        (world.keys["reward"], "does not have the scope read"),
        ("armrace_x_y", "not known"),
    ):
        page.goto(f"{world.address}/sign-in")
        page.get_by_label("Key").fill(key)
        with page.expect_response(f"{world.address}/sign-in") as answer:
            page.get_by_role("button", name="Sign in").click()
        assert answer.value.status == 403
        expect(page.get_by_role("alert")).to_contain_text(words)
        assert severe_violations(page) == []
        page.context.clear_cookies()
        assert page.request.get(world.address, max_redirects=0).status == 303


def test_a_session_is_kept_from_scripts_and_ends(visit, world):
    page = visit("read")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert world.keys["read"] not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.request.get(f"{world.address}/live").status == 401


def test_a_revoked_key_ends_its_session_and_its_stream(visit, world):
    key, world.keys["short"] = world.keyring.create(["read"])
    page = visit("short")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    world.keyring.revoke(key.id)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_session_that_ends_while_the_page_is_away_leads_to_sign_in(visit, world):
    key, world.keys["away"] = world.keyring.create(["read"])
    page = visit("away")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.route("**/live*", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("reconnecting")).to_be_visible()
    world.keyring.revoke(key.id)
    page.unroute("**/live*")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_reward_is_released_from_the_quarantine(visit, world):
    page = visit()
    page.goto(world.address + PAGES["sources"])
    held = world.service.quarantine(HOSTILE_NAME)
    page.get_by_role("button", name=f"Release the reward of decision {held[-1].decision}").click()
    expect(page.get_by_role("status").last).to_contain_text("1 visit was released")
    assert len(world.service.quarantine(HOSTILE_NAME)) == len(held) - 1


def test_bots_are_voided_as_the_preview_shows_while_visits_come(visit, world):
    page = visit()
    page.goto(world.address + PAGES["sources"])
    bots = page.get_by_role("row", name=HOSTILE).first
    bots.get_by_role("link", name="Void or retract").click()
    found = page.locator(".tiles.three dd")
    assert found.all_inner_texts() == ["720", "600", "720"]  # also those that sent no reward
    sides = page.get_by_role("article").locator(".tiles dd")
    alarms = page.locator("article .tiles div", has_text="Alarms").locator("dd")
    assert alarms.all_inner_texts()[0] != "0"
    assert alarms.all_inner_texts()[1] == "0"
    assert sides.count() == 8
    for source in ("web", HOSTILE):
        world.service.reward(world.service.decide(HOSTILE_NAME, source=source), 1.0)
    page.get_by_label("Reason").fill("a farm of browsers")
    page.get_by_label("since this preview").uncheck()
    page.get_by_role("button", name="Void 720 visits").click()
    expect(page.locator(".banner.ok")).to_contain_text("720 visits were voided")
    expect(page.locator(".trail")).to_contain_text("720 visits voided: a farm of browsers")
    page.get_by_role("link", name="Actions", exact=True).click()
    latest = page.get_by_role("row").nth(1)
    expect(latest).to_contain_text("Voided visits")
    expect(latest).to_contain_text("a farm of browsers")
    expect(latest).to_contain_text("key ")
    # Somebody else rules while the next preview is looked at.
    page.goto(world.address + PAGES["preview"])
    world.service.release(HOSTILE_NAME, sources=[HOSTILE])
    page.get_by_role("button", name="Void 1 visit").click()
    expect(page.get_by_role("heading", name="Nothing was changed")).to_be_visible()
    page.get_by_role("link", name="New preview").click()
    expect(page.get_by_role("button", name="Void 721 visits")).to_be_visible()


def test_open_details_stay_open_while_the_page_changes(visit, world):
    page = visit()
    page.goto(f"{world.address}/experiment?name=plain")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_text("Settings", exact=True).click()
    decisions = page.locator(".tiles dd").first
    before = decisions.inner_text()
    world.service.decide("plain")
    expect(decisions).not_to_have_text(before)
    assert page.evaluate("document.getElementById('settings').open")


HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_page_rests_until_it_is_seen(visit, world):
    page = visit()
    page.goto(f"{world.address}/experiment?name=plain")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    decisions = page.locator(".tiles dd").first
    before = decisions.inner_text()
    page.evaluate(HIDE, True)
    world.service.decide("plain")
    page.wait_for_timeout(600)  # three times as long as a stream rests
    assert decisions.inner_text() == before
    page.evaluate(HIDE, False)
    expect(decisions).not_to_have_text(before)


def test_a_page_reconnects_when_its_server_comes_back(browser):
    store, keyring, port = MemoryStore(), Keyring(), free_port()
    service = Service(store, keyring)
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    page = browser.new_page()
    with hosted(service, port) as address:
        page.goto(f"{address}/experiment?name=ads")
        expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#connection")).to_have_text("reconnecting")
    again = Service(store, keyring)
    again.decide_many("ads", 7)
    with hosted(again, port):
        expect(page.locator("#connection")).to_have_text("live", timeout=20_000)
        expect(page.locator(".tiles dd").first).to_have_text("7")
        page.close()


_WAIT_FOR_UPDATES = """(wanted) => new Promise((resolve) => {
    let updates = 0;
    const watched = { subtree: true, characterData: true, childList: true };
    new MutationObserver(() => { updates += 1; if (updates === wanted) resolve(updates); })
        .observe(document.getElementById("part-matrix"), watched);
    setTimeout(() => resolve(updates), 120_000);
})"""


def test_a_large_matrix_follows_its_race(browser):
    service = Service(MemoryStore())
    arms = [f"arm {number}" for number in range(30)]
    service.create("large", arms, 1.0, policy="sharp-race", horizon=10**7, window=0.001, seed=1)
    stop = threading.Event()

    def play() -> None:
        while not stop.wait(0.02):
            service.decide_many("large", 5)  # a missing reward counts 1

    with hosted(service, seconds=0.04, rest=0.0) as address:
        page = browser.new_page(viewport=DESK)
        page.set_default_timeout(120_000)
        page.goto(f"{address}/experiment?name=large")
        assert page.locator("table.matrix tbody td").count() >= 600
        page.evaluate("() => { window.first = document.querySelector('table.matrix td'); }")
        player = threading.Thread(target=play)
        player.start()
        try:
            # How many a second depends on the machine: `python -m benchmarks.frames` judges that.
            assert page.evaluate(_WAIT_FOR_UPDATES, 8) == 8
        finally:
            stop.set()
            player.join()
        # The cell is still the same element, so that focus and selection stay where they are.
        assert page.evaluate("() => window.first === document.querySelector('table.matrix td')")
        cells = [each for each in service.describe("large").layers if each.layer == 0]
        first = page.locator("table.matrix tbody tr").first.locator(".pulls")
        expect(first).to_have_text(
            [str(each.evidence if each.active else each.pulls) for each in cells], timeout=60_000
        )
        page.close()
