"""What the page of an experiment says of numbers to stop by."""

import random
import urllib.request

import pytest
from markupsafe import escape

from armrace.dashboard.conclusions import describe_holdout
from armrace.service import MemoryStore, Service
from armrace_client.answers import HoldoutView
from armrace_client.calls import RewardItem
from browsing import DESK, PHONE, chromium, overflow, severe_violations
from hosting import HOSTILE, hosted
from serving import Clock

MEANS = {"a": 0.7, HOSTILE: 0.2}


@pytest.fixture(scope="module")
def shop():
    clock, rng = Clock(), random.Random(1)
    service = Service(MemoryStore(), clock=clock)
    settings = {"policy": "tsallis-inf", "horizon": 20_000, "window": 10, "seed": 1}
    watched = {HOSTILE: {"low": 0, "high": 2, "worse": "higher", "limit": 1.5}}
    more = {"holdout": 0.2, "holdout_arm": HOSTILE, "guardrails": watched}
    service.create("ads", ["a", HOSTILE], 0, **settings, **more)
    service.create("plain", ["a", "b"], 0, **settings)
    for _ in range(20):
        made = service.decide_many("ads", 100)
        service.reward_many(
            RewardItem(
                each,
                float(rng.random() < MEANS[each.arm]),
                metrics={HOSTILE: 0.1 if each.arm == "a" else 1.9},
            )
            for each in made
        )
        clock.move(10)
    with hosted(service) as address:
        yield service, address
    service.close()


def _page(shop, name):
    with urllib.request.urlopen(f"{shop[1]}/experiment?name={name}") as answer:
        return answer.read().decode()


def test_the_page_says_what_the_state_says(shop):
    shown, view = _page(shop, "ads"), shop[0].describe("ads")
    forged = view.best.forged
    assert forged > 0
    assert f"even if up to {forged} of the 2,000 counted visits were forged" in shown
    assert "A visit earns more with the policy than without: between " in shown
    assert f'<td class="num">{view.holdout.policy_visits:,}</td>' in shown
    assert "It shows &lt;script&gt;" in shown
    assert len(view.guardrails[0].warnings) == 2
    for warning in view.guardrails[0].warnings:
        assert f'<p class="banner alarm">{escape(warning)}</p>' in shown
    assert 'id="h-guardrails"' not in _page(shop, "plain")
    assert HOSTILE not in shown
    assert 'id="h-holdout"' not in _page(shop, "plain")


def test_what_is_not_settled_is_not_said():
    def said(lower, upper):
        known = None if lower is None else (lower + upper) / 2
        return describe_holdout(HoldoutView(0.1, None, 1, 0, 9, 0, known, lower, upper, 0.95))

    assert describe_holdout(None) == ""
    assert said(None, None).startswith("No visit has been compared yet")
    assert said(-0.1, 0.2).startswith("It is not settled yet whether the policy earns more")
    assert said(-0.3, -0.2).startswith(
        "A visit earns less with the policy than without: between 0.2 and 0.3"
    )
    assert said(0.1, 0.2).endswith("That holds at any time with 95% confidence.")


@pytest.mark.parametrize("device", [DESK, PHONE])
def test_the_page_fits_and_can_be_used_by_all(shop, device):
    with chromium() as browser:
        page = browser.new_context(viewport=device).new_page()
        page.goto(f"{shop[1]}/experiment?name=ads")
        assert overflow(page) == 0
        assert severe_violations(page) == []
