"""A web shop whose banner is chosen by armrace, on a file, without a server of its own.

``python examples/flask_shop.py`` plays 600 visitors against the shop and prints what it learned.
With ``--serve`` it starts on http://127.0.0.1:5000 for you to click.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from html import escape
from pathlib import Path

from flask import Flask, redirect

import armrace
from armrace.service import Service

EXPERIMENT = "banner"
BANNERS = {"red": "Free shipping", "green": "Ten per cent off", "blue": "New in stock"}


def make_shop(service: Service, window: float) -> Flask:
    """Return the shop; the service is opened once for each process, and safe under threads.

    Args:
        service: makes the decisions.
        window: for how many seconds a banner can be clicked; a decision is learned after that.
    """
    service.create(EXPERIMENT, arms=list(BANNERS), missing=0, window=window, horizon=10_000, seed=1)
    shop = Flask(__name__)

    @shop.get("/")
    def home() -> str:
        decision = service.decide(EXPERIMENT)
        # The token goes into the link: it is signed, and worth one reward.
        link = f'<a href="/offer/{escape(decision.decision)}">{BANNERS[decision.arm]}</a>'
        return f'<!doctype html><title>Shop</title><p data-arm="{decision.arm}">{link}</p>'

    @shop.get("/offer/<token>")
    def offer(token: str) -> tuple[str, int] | object:
        try:
            service.reward(token, 1.0, source="web")
        except armrace.ArmraceError as error:
            return f"<!doctype html><p>{escape(str(error))}</p>", 400
        return redirect("/thanks")

    @shop.get("/thanks")
    def thanks() -> str:
        return "<!doctype html><p>Thank you.</p>"

    return shop


def play(shop: Flask, visitors: int, seed: int) -> None:
    """Let visitors come and click, each banner at a rate of its own."""
    rates = {"red": 0.1, "green": 0.3, "blue": 0.2}
    mood, browser = random.Random(seed), shop.test_client()
    for _ in range(visitors):
        page = browser.get("/").get_data(as_text=True)
        arm = page.split('data-arm="')[1].split('"')[0]
        if mood.random() < rates[arm]:
            browser.get(page.split('href="')[1].split('"')[0])


def main() -> None:
    """Serve the shop, or play some visitors against it."""
    with tempfile.TemporaryDirectory() as folder:
        serving = "--serve" in sys.argv
        place = Path("shop.db") if serving else Path(folder) / "shop.db"
        with armrace.open(place) as service:
            shop = make_shop(service, window=1800 if serving else 2)
            if serving:
                shop.run(port=5000)
                return
            for day in range(2):
                play(shop, visitors=300, seed=day)
                time.sleep(2.1)
            view = service.describe(EXPERIMENT)
            for arm in view.arms:
                shown, clicked = f"shown {arm.decisions} times", f"clicked {arm.rewarded} times"
                print(f"{arm.arm}: {shown}, {clicked}; next with probability {arm.probability:.2f}")
            answer = shop.test_client().get("/offer/forged")
            print(f"a forged token: {answer.status_code}")


if __name__ == "__main__":
    main()
