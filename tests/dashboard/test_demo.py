"""``armrace serve --demo``, from the first visitors to the recovery, in a browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from armrace.cli.main import run
from browsing import chromium
from hosting import free_port

PATIENCE = 120_000


def test_bots_cheat_are_found_and_retracted_and_the_race_recovers():
    command = [sys.executable, "-m", "armrace", "serve", "--demo", "--demo-speed", "12"]
    demo = subprocess.Popen(
        [*command, "--port", str(free_port())], stderr=subprocess.PIPE, text=True
    )
    said = ""
    try:
        assert demo.stderr is not None
        while "The admin key is" not in said:
            line = demo.stderr.readline()
            assert line, said
            said += line
        (link,) = re.findall(r"http://\S+once=\S+", said)
        (folder,) = re.findall(r"The log is in (\S+)/demo.db", said)
        with chromium() as browser:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE)
            _open(page, link)
            _tell_the_story(page)
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


def _tell_the_story(page) -> None:
    page.get_by_role("link", name="help-answers").click()
    lead, alarm = page.locator(".lead"), page.locator(".banner.alarm")
    expect(lead).to_contain_text("step by step is best so far", timeout=PATIENCE)
    expect(alarm).to_contain_text("or the world has moved", timeout=PATIENCE)
    expect(lead).to_contain_text("link to the forum is best so far", timeout=PATIENCE)
    page.get_by_role("link", name="Sources and fraud").click()
    bots = page.get_by_role("row", name=re.compile("HeadlessChrome"))
    bots.get_by_role("link", name="What if it were dropped?").click()
    sides = page.get_by_role("article")
    expect(sides.first).to_contain_text("link to the forum", timeout=PATIENCE)
    best = sides.locator(".tiles div", has_text="Best so far").locator("dd")
    assert best.all_inner_texts() == ["link to the forum", "step by step"]
    alarms = sides.locator(".tiles div", has_text="Alarms").locator("dd")
    assert alarms.last.inner_text() == "0"
    page.get_by_label("Reason").fill("ratings from a data centre")
    page.get_by_role("button", name=re.compile("Retract")).click()
    expect(page.locator(".banner.ok")).to_contain_text("rewards were retracted", timeout=PATIENCE)
    expect(lead).to_contain_text("step by step is best so far", timeout=PATIENCE)
    expect(alarm).to_have_count(0, timeout=PATIENCE)
    share = page.locator("table.matrix thead th", has_text="step by step")
    expect(share).to_contain_text(re.compile(r"[89]\d% of traffic"), timeout=PATIENCE)
    expect(page.locator(".trail")).to_contain_text("retracted: ratings from a data centre")


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
