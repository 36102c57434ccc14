"""A segment that bots attack: the alarm names it and the source, and a void restores it."""

import urllib.request

import pytest
from docs.experiments.segment_attack import BOTS, Shop

from armrace.service import Service
from browsing import DESK, PHONE, chromium, overflow, severe_violations
from hosting import HOSTILE, hosted


@pytest.fixture(scope="module")
def shop():
    """A shop after 20 hours with bots among the visitors with Android, and another experiment."""
    shop = Shop()
    shop.open(50)
    features = {HOSTILE: {"type": "boolean"}, "age": {"type": "number", "low": 18, "high": 80}}
    shop.service.create(
        "offers", ["a", HOSTILE], 0, policy="expert-barrier", context=features, window=600
    )
    for number in range(60):
        visitor = {HOSTILE: number % 2 == 0, "age": 18 + number}
        decision = shop.service.decide("offers", context=visitor)
        shop.service.reward(decision, number % 2)
    shop.now += 600_000
    with hosted(shop.service) as shop.address:
        yield shop


def page(shop: Shop, name: str) -> str:
    with urllib.request.urlopen(f"{shop.address}/experiment?name={name}") as answer:
        return answer.read().decode()


def android(service: Service) -> dict:
    leaves = {each.leaf: each for each in service.describe("banners").leaves}
    return {each.arm: each for each in leaves["device=android"].arms}


def test_the_page_shows_leaves_and_the_alarm_names_segment_and_source(shop):
    shown = page(shop, "banners")
    assert "for visitors with device=android" in shown
    assert f"<strong>{BOTS}</strong> has moved the mean of" in shown
    table = shown[shown.index('id="h-leaves"') :]
    table = table[: table.index("</table>")]
    rows = {row.split("<")[0]: row for row in table.split('<th scope="row">')[1:]}
    assert list(rows) == ["device=android", "device=desktop", "device=ios"]  # the alarmed first
    assert [leaf for leaf, row in rows.items() if ">alarm</a>" in row] == ["device=android"]
    assert "layer by layer" not in shown


def test_experts_and_coefficients_are_shown_with_names_that_do_no_harm(shop):
    shown = page(shop, "offers")
    assert "linear-ucb" in shown
    assert "&lt;script&gt;" in shown
    assert HOSTILE not in shown
    assert "expert-barrier cannot be audited where visitors differ" in shown
    drawn = shown[shown.index('id="h-experts"') :]
    assert "Chart: Whom the policy follows" in drawn
    table = drawn[drawn.index('id="table-experts"') :]
    assert "single arms" in table[: table.index("</table>")]


def test_pages_fit_and_are_accessible(shop):
    with chromium() as browser:
        for name in ("banners", "offers"):
            for size in (DESK, PHONE):
                opened = browser.new_context(viewport=size).new_page()
                opened.goto(f"{shop.address}/experiment?name={name}")
                assert overflow(opened) == 0
                assert severe_violations(opened) == []


def test_a_void_of_the_source_restores_the_segment(shop):
    service = shop.service
    assert android(service)["news"].probability < 0.1
    (first, *_) = service.groups("banners", leaf="device=android", sort="moved").groups
    assert first.name == BOTS
    assert {alarm.leaf for alarm in service.audit("banners").alarms} == {"device=android"}
    service.void("banners", sources=[first.name])
    assert android(service)["news"].probability > 0.9
    assert not service.audit("banners").alarms
    with pytest.raises(LookupError, match="no leaf named 'device=web'"):
        service.groups("banners", leaf="device=web")
