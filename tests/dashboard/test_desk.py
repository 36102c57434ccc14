"""The desk of a fraud team in a real browser: finding who forges, and doing something about it."""

import io
import random
import re
from urllib.parse import quote_plus

import polars as pl
import pytest
from playwright.sync_api import expect

from armrace.service import Keyring, MemoryStore, Service
from armrace_client.operations import Visit
from browsing import DESK, PHONE, chromium, overflow, severe_violations
from hosting import HOSTILE, hosted
from serving import Clock

SHOP = "/sources?name=shop"
CLICKER = "cheap clicks"
FORMULA = "=HYPERLINK(1)"


def fill(service, clock):
    """A shop with 61 sources, of which one clicks on the green banner alone; and a wide one."""
    rng = random.Random(4)
    arms = ["red", "green", "blue"]
    service.create("shop", arms, 0, policy="tsallis-inf", window=600, horizon=9000, seed=1)
    for hour in range(24):
        sources = [f"network {int(60 * rng.random() ** 2):02d}" for _ in range(60)]
        visits = [
            Visit(source=each, unit=f"visitor {hour}-{at}", labels={"campaign": f"spring {at % 5}"})
            for at, each in enumerate(sources)
        ]
        if hour >= 14:
            visits += [Visit(source=CLICKER, unit=f"bot {hour}-{at}") for at in range(20)]
        made = service.decide_batch("shop", visits).made()
        clock.move(2)
        for each, visit in zip(made, visits, strict=True):
            forged = visit.source == CLICKER
            if forged and each.arm == "green":
                service.reward(each, 1.0)
        clock.move(100)
        for each, visit in zip(made, visits, strict=True):
            rate = {"red": 0.3, "green": 0.15, "blue": 0.15}[each.arm]
            if visit.source != CLICKER and rng.random() < rate:
                service.reward(each, 1.0)
        clock.move(3498)
    service.decide("shop", source=FORMULA, labels={HOSTILE: HOSTILE})
    service.create("wide", [f"headline {n}" for n in range(40)], 0, window=60, seed=1)
    for _ in range(6):
        visits = [Visit(source=f"network {n:03d}") for n in range(300)]
        made = service.decide_batch("wide", visits).made()
        service.reward_many([(each, 1.0) for each in made[::3]])
        clock.move(100)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def desk(browser):
    """A page of a fresh service, its address in ``page.home``."""
    clock = Clock()
    service = Service(MemoryStore(), Keyring(), clock=clock)
    fill(service, clock)
    with hosted(service) as address:
        page = browser.new_page(viewport=DESK)
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.service, page.home = service, address
        yield page
        page.close()
        assert problems == []


def rows(page):
    return page.locator("table.sources tbody tr")


def first_name(page):
    return rows(page).first.locator("th a").first


def test_the_forger_is_found_looked_at_voided_and_the_void_undone(desk):
    desk.goto(desk.home + SHOP)
    expect(desk.locator("#found")).to_contain_text("62 sources with 1,641 visits")
    expect(first_name(desk)).to_have_text(CLICKER)  # the heaviest
    desk.get_by_label("First").select_option("most different")
    desk.get_by_role("button", name="Show").click()
    expect(first_name(desk)).to_have_text(CLICKER)
    expect(rows(desk).first).to_contain_text("100% green, the rest")
    expect(desk.locator("table.sources .chip")).to_have_count(
        rows(desk).first.locator(".chip").count()  # honest sources do not differ
    )
    first_name(desk).click()
    table = desk.get_by_role("region", name="Shares by arm")
    expect(table.get_by_role("row", name="green")).to_contain_text("100%")
    expect(desk.locator(".tiles.group")).to_contain_text("delays")
    desk.get_by_role("link", name="Void the visits").click()
    expect(desk.get_by_role("heading", level=2)).to_have_text(f"What to do about {CLICKER}?")
    desk.get_by_label("Reason").fill("clicks on green alone")
    desk.get_by_role("button", name="Void 200 visits").click()
    expect(desk.locator(".banner.ok")).to_contain_text("200 visits were voided")
    desk.get_by_role("link", name="Actions", exact=True).click()
    expect(desk.get_by_role("row").nth(1)).to_contain_text("clicks on green alone")
    desk.get_by_role("link", name=re.compile("^Undo")).first.click()
    desk.get_by_role("button", name="Release 200 visits").click()
    expect(desk.locator(".banner.ok")).to_contain_text("200 visits were released")
    assert [row.void for row in desk.service.rows("shop")].count(True) == 0


def test_sources_are_searched_paged_and_limited_to_a_time(desk):
    desk.goto(f"{desk.home}{SHOP}&sort=name")
    seen = []
    for _ in range(4):
        seen += rows(desk).locator("th a:first-child").all_inner_texts()
        desk.get_by_role("link", name="Next").click()
    seen += rows(desk).locator("th a:first-child").all_inner_texts()
    assert len(seen) == len(set(seen)) == 62
    assert seen == sorted(seen)
    desk.get_by_label("Name has").fill("NETWORK 1")
    desk.get_by_role("button", name="Show").click()
    expect(desk.locator("#found")).to_contain_text("10 sources")
    desk.get_by_label("Until").fill("2023-11-14T23:00")
    desk.get_by_role("button", name="Show").click()
    expect(desk.locator("#found")).not_to_contain_text("10 sources with 1")
    desk.get_by_role("link", name="Visitors").click()
    expect(desk.locator("#found")).to_contain_text("1,641 visitors with 1,641 visits")
    desk.get_by_label("how its hash begins").fill("bot 20-3")
    desk.get_by_role("button", name="Show").click()
    expect(rows(desk)).to_have_count(1)
    expect(desk.locator("#found")).to_contain_text("1 visitor with 1 visit;")
    desk.get_by_role("link", name="campaign").click()
    expect(desk.locator("#found")).to_contain_text("6 values of campaign with 1,641 visits")
    desk.get_by_label("Name has").fill("winter")
    desk.get_by_role("button", name="Show").click()
    expect(desk.locator(".empty")).to_have_text("Nothing fits this search.")


def test_all_that_a_filter_shows_is_voided_in_a_range_and_released(desk):
    desk.goto(desk.home + SHOP)
    desk.get_by_label("Name has").fill("network 1")
    desk.get_by_label("Visits since").fill("2023-11-15T02:00")
    desk.get_by_role("button", name="Show").click()
    visits = re.search(r"with ([\d,]+) visits", desk.locator("#found").inner_text())[1]
    desk.get_by_role("link", name="Void or retract all of these").click()
    expect(desk.get_by_role("heading", level=2)).to_have_text("What to do about 10 sources?")
    desk.get_by_role("button", name=f"Void {visits} visits").click()
    expect(desk.locator(".banner.ok")).to_contain_text(f"{visits} visits were voided")
    chosen = [row for row in desk.service.rows("shop") if row.void]
    assert len(chosen) == int(visits)
    assert all(row.source.startswith("network 1") for row in chosen)
    assert min(row.time for row in chosen) >= 1_700_013_600_000
    desk.goto(desk.home + SHOP + "&search=network+1")
    desk.get_by_role("link", name="Release all of these").click()
    desk.get_by_role("button", name=f"Release {visits} visits").click()
    expect(desk.locator(".banner.ok")).to_contain_text(f"{visits} visits were released")


def test_a_file_of_verdicts_is_sent_previewed_and_ruled_on(desk):
    desk.goto(desk.home + SHOP)
    desk.get_by_text("Verdicts from a file").click()
    content = "unit,x\n" + "".join(f"bot 20-{at},1\n" for at in range(25)) + ",1\n"
    file = {"name": "bots.csv", "mimeType": "text/csv", "buffer": content.encode()}
    desk.get_by_label("File").set_input_files(file)
    desk.get_by_label("It names").select_option("visitors")
    desk.locator("#verdict-file").get_by_role("button", name="Preview").click()
    banner = desk.locator(".banner").first
    expect(banner).to_contain_text("25 of 26 rows (96.2%) are used.")
    expect(banner).to_contain_text("5 of the names are unknown (bot 20-20, bot 20-21")
    desk.get_by_role("button", name="Void 20 visits").click()
    expect(desk.locator(".banner.ok")).to_contain_text("20 visits were voided")
    # Parquet, whose bytes no form may change; names of a label.
    buffer = io.BytesIO()
    pl.DataFrame({"id": ["spring 1", "spring 9"]}).write_parquet(buffer)
    desk.goto(desk.home + SHOP)
    desk.get_by_text("Verdicts from a file").click()
    file = {"name": "c.parquet", "mimeType": "x/y", "buffer": buffer.getvalue()}
    desk.get_by_label("File").set_input_files(file)
    desk.get_by_label("It names").select_option("label:campaign")
    desk.get_by_label("In the column").fill("id")
    desk.get_by_label("What to do").select_option("hold")
    desk.locator("#verdict-file").get_by_role("button", name="Preview").click()
    expect(desk.locator(".banner").first).to_contain_text("1 of the names are unknown (spring 9)")
    desk.get_by_role("button", name=re.compile(r"Hold \d+ rewards")).click()
    expect(desk.locator(".banner.ok")).to_contain_text("were held")
    # A file that is not one.
    desk.goto(desk.home + SHOP)
    desk.get_by_text("Verdicts from a file").click()
    desk.get_by_label("File").set_input_files({**file, "name": "x.bin", "buffer": b"PAR1\x00"})
    desk.locator("#verdict-file").get_by_role("button", name="Preview").click()
    expect(desk.locator(".lead")).to_contain_text("x.bin cannot be read")


def test_what_a_page_shows_is_exported_and_safe_in_a_spreadsheet(desk):
    desk.goto(desk.home + SHOP)
    with desk.expect_download() as waiting:
        desk.get_by_role("link", name="CSV").click()
    text = waiting.value.path().read_text()
    assert text.startswith("name,visits,rewarded,")
    assert len(text.splitlines()) == 1 + 62  # all pages
    assert f"\n'{FORMULA}," in text
    desk.goto(desk.home + SHOP + "&search=network+1")
    with desk.expect_download() as waiting:
        desk.get_by_role("link", name="Parquet").click()
    frame = pl.read_parquet(waiting.value.path())
    assert frame.height == 10
    found = {each.name: each for each in desk.service.groups("shop", search="network 1").groups}
    for row in frame.iter_rows(named=True):
        assert row["visits"] == found[row["name"]].visits


def test_standing_holds_of_a_source_and_of_a_label_are_ended(desk):
    desk.service.hold("shop", sources=["network 05"], standing=True)
    desk.service.hold("shop", labels={"campaign": "spring 3"}, standing=True)
    desk.goto(desk.home + SHOP)
    expect(rows(desk).filter(has_text="network 05")).to_contain_text("held since")
    for _ in range(2):
        desk.locator(".holds").get_by_role("link", name="End it").first.click()
        desk.get_by_role("button", name=re.compile("^Release")).click()
        expect(desk.locator(".banner.ok")).to_be_visible()
    assert desk.service.describe("shop").holds == []


def test_both_answers_to_an_alarm_are_shown_before_one_is_given(desk):
    desk.goto(f"{desk.home}/afresh?name=shop")
    forged, world = desk.get_by_role("article").all()
    expect(forged).to_contain_text(f"{CLICKER} sent")
    expect(forged).to_contain_text("which arms are rewarded")
    expect(world).to_contain_text("forgets 1,641 decisions")
    expect(world.get_by_role("row", name="red")).to_contain_text("33%")  # each of three, afresh
    assert desk.service.describe("shop").generation == 0
    desk.get_by_label("Reason").fill("new prices")
    desk.get_by_role("button", name="Start afresh").click()
    expect(desk.locator(".banner.ok")).to_contain_text("The policy has started afresh")
    assert desk.service.describe("shop").generation == 1
    assert {round(each.probability, 2) for each in desk.service.describe("shop").arms} == {0.33}


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_wide_experiments_fit(desk, size):
    desk.set_viewport_size(size)
    for path in ("/sources?name=wide", "/group?name=wide&by=source&key=network+007"):
        desk.goto(desk.home + path)
        assert overflow(desk) <= 0
        assert severe_violations(desk) == []
    desk.goto(f"{desk.home}/sources?name=wide")
    height = desk.evaluate("document.documentElement.scrollHeight")
    assert size is PHONE or height <= 2 * size["height"]
    link = desk.get_by_role("link", name="Void or retract").first.bounding_box()
    assert link["x"] + link["width"] <= size["width"]


def test_hostile_names_stay_text(desk):
    desk.goto(f"{desk.home}/sources?name=shop&by={quote_plus(f'label:{HOSTILE}')}")
    expect(rows(desk).filter(has_text=HOSTILE)).to_have_count(1)
    first = rows(desk).filter(has_text=HOSTILE).locator("th a").first
    first.click()
    expect(desk.get_by_role("heading", level=2)).to_contain_text(HOSTILE)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/sources?name=shop&sort=size", 404, "sort"),
        ("/sources?name=shop&by=visitor", 422, "by must be source, unit or label:NAME"),
        ("/sources?name=shop&since=noon", 422, "since must be a time in UTC"),
        ("/sources?name=shop&skip=-1", 200, "62 sources"),
        ("/sources?name=none", 404, "none"),
        ("/sources.exe?name=shop", 404, "nothing at this address"),
        ("/group?name=shop&by=source&key=nobody", 404, "no visit of that time"),
        ("/preview?name=shop&file=abc", 422, "the file is not here any more"),
        ("/preview?name=shop&all=yes&search=nobody", 422, "nothing that the search finds"),
        ("/preview?name=shop&ruled=1", 422, "ruled must be the record of a ruling; got 1."),
    ],
)
def test_nonsense_is_refused_in_a_sentence(desk, path, status, words):
    answer = desk.goto(desk.home + path)
    assert answer.status == status
    expect(desk.locator("main")).to_contain_text(words)
