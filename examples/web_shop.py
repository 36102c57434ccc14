"""A web shop that draws its banners in its own process, and works while the service is away.

Start a service with ``armrace serve``, then ``python examples/web_shop.py`` plays 600 visitors
against the shop and prints what they saw. Without a service they see the default banner. With
``--serve`` the shop starts on http://127.0.0.1:5000 for you to click.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
from collections import OrderedDict
from contextlib import suppress
from html import escape

from flask import Flask, redirect
from werkzeug.wrappers import Response

from armrace_client import ArmraceError, Client, LeasedExperiment
from armrace_client.errors import TooManyOpen
from armrace_client.leases import LeasedDecision

ADDRESS = os.environ.get("ARMRACE_ADDRESS", "http://127.0.0.1:8380")
EXPERIMENT = "shop-banner"
BANNERS = {"red": "Free shipping", "green": "Ten per cent off", "blue": "New in stock"}
DEFAULT = "red"
MOST_SHOWN = 100_000


def make_shop(experiment: LeasedExperiment) -> Flask:
    """Return the shop.

    Args:
        experiment: draws the banners. No page waits for the service while a lease lasts.
    """
    shop = Flask(__name__)
    shown: OrderedDict[str, LeasedDecision] = OrderedDict()

    @shop.get("/")
    def home() -> str:
        name, arm = secrets.token_urlsafe(), DEFAULT
        try:
            decision = experiment.decide(request=name, source="web")
        except ArmraceError:  # the service is away, or the experiment is paused: sell all the same
            name = "default"
        else:
            arm, shown[name] = decision.arm, decision
            if len(shown) > MOST_SHOWN:
                shown.popitem(last=False)
        link = f'<a href="/offer/{name}">{escape(BANNERS[arm])}</a>'
        return f'<!doctype html><title>Shop</title><p data-arm="{arm}">{link}</p>'

    @shop.get("/offer/<name>")
    def offer(name: str) -> Response:
        decision = shown.pop(name, None)  # a name cannot be guessed, and is worth one reward
        with suppress(TooManyOpen):  # the service was away for so long that reports are too many
            if decision is not None:
                decision.reward(1.0)
        return redirect("/thanks")

    @shop.get("/thanks")
    def thanks() -> str:
        return "<!doctype html><p>Thank you.</p>"

    return shop


def play(shop: Flask, visitors: int, seed: int) -> dict[str, int]:
    """Let visitors come and click, each banner at a rate of its own; return what they saw."""
    rates = {"red": 0.1, "green": 0.3, "blue": 0.2}
    mood, browser, seen = random.Random(seed), shop.test_client(), dict.fromkeys(BANNERS, 0)
    for _ in range(visitors):
        page = browser.get("/").get_data(as_text=True)
        arm = page.split('data-arm="')[1].split('"')[0]
        seen[arm] += 1
        if mood.random() < rates[arm]:
            browser.get(page.split('href="')[1].split('"')[0])
    return seen


def main() -> None:
    """Serve the shop, or play some visitors against it."""
    # Not patient: a page that has no lease waits for the service, at most once a second.
    with Client(ADDRESS, timeout=0.5, retries=0) as client:
        try:
            client.create(EXPERIMENT, list(BANNERS), missing=0, window=600, horizon=10_000)
        except ArmraceError as error:
            print(f"every visitor sees the {DEFAULT} banner for now: {error}")
        with LeasedExperiment(client, EXPERIMENT) as experiment:
            shop = make_shop(experiment)
            if "--serve" in sys.argv:
                shop.run(port=5000)
                return
            print(f"600 visitors saw {play(shop, visitors=600, seed=1)}")
        print(f"all visits are reported, {len(experiment.refused)} were refused")


if __name__ == "__main__":
    main()
