"""``armrace serve --demo``, from the first visitors to the recovery, in a browser."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from armrace.cli.main import run
from armrace.dashboard.demo import (
    DAY,
    EXPERIMENT,
    DemoClock,
    DemoVisitors,
    create_experiments,
)
from armrace.service import Keyring, MemoryStore, Service
from browsing import chromium
from hosting import free_port, hosted

PATIENCE = 120_000


def test_the_demonstration_starts_plays_and_leaves_nothing_behind():
    command = [sys.executable, "-m", "armrace", "serve", "--demo", "--demo-speed", "20"]
    demo = subprocess.Popen(
        [*command, "--port", str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        assert demo.stderr is not None
        while "Watch it here" not in (line := demo.stdout.readline()):
            assert line
        link = demo.stdout.readline().strip()
        said = "".join(demo.stderr.readline() for _ in range(2))
        assert "A proxy in front of this port opens it to the world." in said
        (folder,) = re.findall(r'"store":"(\S+)/demo.db"', said)
        with chromium() as browser:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE)
            _open(page, link)
            page.get_by_role("link", name="help-answers").click()
            expect(page.locator(".lead")).to_contain_text(
                "link to the forum has the best rewards so far", timeout=PATIENCE
            )
            _void(page)
            expect(page.locator(".lead")).to_contain_text(
                re.compile(r"step by step (is the best arm|leads)"), timeout=PATIENCE
            )
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    finally:
        if demo.poll() is None:
            demo.terminate()  # so that it removes its store, also if this test fails
        demo.communicate(timeout=60)
    assert not Path(folder).exists()


def _open(page, link) -> None:
    """Open the link as soon as the server listens."""
    for _ in range(600):
        try:
            page.goto(link)
        except Exception:
            page.wait_for_timeout(100)
            continue
        return


def _void(page) -> None:
    page.get_by_role("link", name="Sources and fraud").click()
    bots = page.get_by_role("row", name=re.compile("HeadlessChrome"))
    bots.get_by_role("link", name="Void or retract").click()
    sides = page.get_by_role("article")
    expect(sides.first).to_contain_text("link to the forum", timeout=PATIENCE)
    best = sides.locator(".tiles div", has_text="Best so far").locator("dd")
    assert best.all_inner_texts() == ["link to the forum", "step by step"]
    alarms = sides.locator(".tiles div", has_text="Alarms").locator("dd")
    assert alarms.last.inner_text() == "0"
    page.get_by_label("Reason").fill("ratings from a data centre")
    page.get_by_role("button", name=re.compile("Void .* visits")).click()
    expect(page.locator(".banner.ok")).to_contain_text("visits were voided", timeout=PATIENCE)


def play(visitors, clock, until):
    while clock.seconds < until:
        visitors.step(0.25)


@pytest.fixture
def world():
    clock = DemoClock()
    with Service(MemoryStore(), Keyring(), clock=clock) as service:
        create_experiments(service)
        yield service, DemoVisitors(service, clock), clock


def test_the_note_says_how_fast_days_pass():
    assert "a minute is a day." in DemoClock().note()
    assert "a minute is 20 days." in DemoClock(20).note()


def test_the_three_acts_as_the_page_shows_them(world):
    service, visitors, clock = world
    key = service.keyring.create(["admin"])[1]
    with hosted(service, note=clock.note) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/sign-in?to=/experiment?name={EXPERIMENT}")
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        lead, alarm = page.locator(".lead"), page.locator(".banner.alarm")
        note, traffic = page.locator(".note-bar"), re.compile(r"gets (9\d|100)% of the recent")
        winning = re.compile(r"step by step (is the best arm|leads)")
        play(visitors, clock, 0.95 * DAY)
        expect(lead).to_contain_text(winning)
        expect(note).to_contain_text("Day 1: all ratings are honest")
        expect(alarm).to_have_count(0)
        # A few bots: the alarm goes up, names them with their share, and the traffic stays.
        play(visitors, clock, 1.95 * DAY)
        expect(lead).to_contain_text("step by step has the best rewards so far, but an alarm is up")
        expect(lead).to_contain_text(traffic)
        expect(alarm).to_contain_text("rewards changed around")
        expect(alarm).to_contain_text(re.compile(r"HeadlessChrome sent 1\d% of the rewards"))
        expect(note).to_contain_text("Day 2: one rating in seven")
        # A flood: the page says its share of all rewards, and the traffic moves.
        play(visitors, clock, 2.95 * DAY)
        pushed = "link to the forum has the best rewards so far, but an alarm is up"
        expect(lead).to_contain_text(pushed)
        expect(alarm).to_contain_text(re.compile(r"HeadlessChrome sent 7\d% of the rewards"))
        expect(note).to_contain_text("three ratings in four")
        _void(page)
        play(visitors, clock, 3.5 * DAY)
        expect(lead).to_contain_text(winning)
        expect(lead).to_contain_text(traffic)
        expect(alarm).to_have_count(0)
        expect(page.locator(".trail")).to_contain_text("voided: ratings from a data centre")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--store", "clicks.db"], "store must be left out: the demo has a store of its own"),
        (["--demo-speed", "0"], "demo-speed must be in [0.1, 50]; got 0"),
        (["--demo-speed", "fast"], "demo-speed must be a number; got 'fast'"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(capsys, monkeypatch, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert run(["serve", "--demo", *arguments]) == 2
    assert sentence in capsys.readouterr().err
