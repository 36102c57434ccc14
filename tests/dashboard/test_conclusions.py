"""Sentences and charts that pages show."""

import math
import re

import msgspec
import pytest

from armrace.audit.findings import COUNTS, HIDDEN, STILL, Alarm
from armrace.dashboard.charts import certificate_chart, reward_chart, traffic_chart
from armrace.dashboard.conclusions import (
    FINE_PRINT,
    conclude,
    describe_ratio,
    median_delay,
)
from armrace.dashboard.rendering import _cell_html
from armrace.service import MemoryStore, Service
from armrace.service.notices import describe_alarms
from armrace_client.answers import RatioCheck
from serving import Clock


def play(policy, rounds, rewards=(0.0, 1.0), arms=("a", "b", "c"), good="a", **more):
    clock = Clock()
    service = Service(MemoryStore(), clock=clock)
    service.create(
        "ads",
        list(arms),
        0,
        policy=policy,
        window=1,
        horizon=20_000,
        rewards=rewards,
        seed=2,
        **more,
    )
    low, high = rewards
    for _ in range(rounds):
        made = service.decide_many("ads", 50)
        service.reward_many([(each, high if each.arm == good else low) for each in made])
        clock.move(60)
    return service.describe("ads"), service.history("ads")


def test_a_verdict_grows_surer():
    nothing = conclude(*play("ucb1", 0), alarms=0)
    assert nothing.best is None
    assert nothing.headline.startswith("Nothing has been learned yet")
    at_once = conclude(*play("ucb1", 0, settle="immediate"), alarms=0)
    assert at_once.headline.startswith("No window has closed yet: rewards are learned as they")
    early = conclude(*play("ucb1", 1, good="none"), alarms=0)
    assert early.sure.startswith("No other arm is ruled out yet")
    assert not early.decided
    sure = conclude(*play("ucb1", 20), alarms=0)
    assert (sure.best.arm, sure.decided, sure.rivals) == ("a", True, [])
    assert sure.headline == "is the best arm."
    assert "even if up to 11 of the 1,000 counted visits were forged" in sure.sure
    assert sure.race == ""


def test_a_verdict_says_where_the_traffic_goes_if_not_to_the_best_arm():
    view, history = play("ucb1", 20)
    counts = [list(each) for each in history.decisions]
    counts[1][-1] += 10_000
    moved = msgspec.structs.replace(history, decisions=counts)
    said = "Most of the recent traffic, 9"
    assert said not in conclude(view, history, alarms=0).sure
    conclusion = conclude(view, moved, alarms=0)
    assert conclusion.best.arm == "a"
    assert conclusion.sure.startswith(said)
    assert "goes to b" in conclusion.sure


def test_rewards_of_any_range_are_shown_in_their_units():
    view, history = play("ucb1", 10, rewards=(-5.0, 15.0))
    best = conclude(view, history, alarms=0).best
    assert best.mean == 15.0
    assert 14.0 < best.low <= best.high == 15.0
    chart = reward_chart(history, (-5.0, 15.0))
    assert -5.0 <= chart.panel.y.low < chart.panel.y.high <= 15.0


@pytest.fixture(scope="module")
def race():
    return play({"name": "sharp-race", "most_corruption": 100}, 60)


def slowest_settled(view, history):
    settled = [
        layer
        for layer in range(len(history.tolerated))
        if [each.arm for each in view.layers if each.layer == layer and each.active] == ["a"]
    ]
    return max(settled), history.tolerated[max(settled)]


def test_a_race_says_what_its_slowest_settled_layer_tolerates_and_assumes(race):
    layer, tolerated = slowest_settled(*race)
    assert conclude(*race, alarms=0).race == (
        f"The race has settled on a in layer {layer}. That is right with probability 95% as long "
        f"as rewards were changed by at most {tolerated:.0f} in all."
    )
    assert HIDDEN in FINE_PRINT
    assert COUNTS in FINE_PRINT


def certified(history, certificate):
    return msgspec.structs.replace(history, certificates=[*history.certificates[:-1], certificate])


def test_a_race_that_met_more_than_it_tolerates_guarantees_nothing(race):
    view, history = race
    layer, tolerated = slowest_settled(view, history)
    conclusion = conclude(view, certified(history, 779.9), alarms=0)
    assert conclusion.headline.endswith("but more of them were changed than the race withstands.")
    assert conclusion.race == (
        f"The race has settled on a in layer {layer}, which withstands changes of "
        f"{tolerated:.0f} in all; rewards were changed by at least 779, so nothing guarantees that "
        "choice."
    )
    assert (conclusion.decided, conclusion.rivals) == (False, ["b", "c"])


def test_an_alarm_rules_no_arm_out_again(race):
    view, history = race
    conclusion = conclude(view, history, alarms=1)
    assert "but an alarm is up" in conclusion.headline
    assert (conclusion.decided, conclusion.rivals) == (False, ["b", "c"])
    assert "no arm is ruled out" in conclusion.sure


def test_what_is_certified_is_said_of_changed_rewards(race):
    view, history = race
    settled = conclude(view, certified(history, 2.5), alarms=1).race
    assert settled.endswith(" in all; so far, by at least 2.5.")
    view, other = play("ucb1", 1)
    unsettled = conclude(view, certified(other, 26.19), alarms=1).race
    assert unsettled == "The rewards contradict one another: they were changed by at least 26.1."
    for words in (STILL, HIDDEN, COUNTS):
        assert words in certificate_chart(history).description


ALARM = Alarm(
    kind="change", arm="a", direction="down", since=60, until=90, pulls=(60, 30),
    means=(0.75, 0.25), chance=1e-20,
)  # fmt: skip


def test_the_banner_says_what_happened_since_when_and_how_sure_it_is():
    view, history = play("ucb1", 3)
    weaker = msgspec.structs.replace(ALARM, arm="b", chance=0.001)
    notice = describe_alarms([weaker, ALARM], view, history)
    assert notice.happened == (
        "a paid 0.75 before that and 0.25 since. Chance alone does this with a probability below "
        "1e-12."
    )
    assert notice.more == 1
    totals = [sum(each) for each in zip(*history.decisions, strict=True)]
    place = history.times.index(notice.since)
    assert totals[place - 1] < 60 <= totals[place]
    assert describe_alarms([], view, history) is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("disagreement", "Two layers of the race see a pay 0.75 and 0.25."),
        ("waves", "a pays in bursts: 0.75 after low rewards, 0.25 after high ones."),
        ("failed-layer", "More rewards were changed than some layers of the race withstand."),
    ],
)
def test_every_kind_of_alarm_has_a_banner(kind, words):
    alarm = msgspec.structs.replace(ALARM, kind=kind, since=None)
    notice = describe_alarms([alarm], *play("ucb1", 1))
    assert notice.happened.startswith(words)
    assert notice.since is None


@pytest.mark.parametrize("name", ["sharp-race", "multi-layer-race"])
def test_the_mean_of_a_cell_lies_within_its_interval(name):
    clock = Clock()
    service = Service(MemoryStore(), clock=clock)
    service.create("ads", ["a", "b", "c"], 0, policy=name, window=1, horizon=20_000, seed=2)
    for number in range(30):  # forgers turn everything round, which fast layers see first
        made = service.decide_many("ads", 50)
        service.reward_many([(d, float((d.arm == "a") == (number < 20))) for d in made])
        clock.move(60)
    cells = [cell for cell in service.describe("ads").layers if cell.evidence]
    assert len(cells) > 10
    assert all(cell.lower <= cell.evidence_mean <= cell.upper for cell in cells)
    pools = name == "sharp-race"
    for cell in cells:
        used = [
            each
            for each in cells
            if each.arm == cell.arm
            and (each.layer == cell.layer or (pools and each.layer > cell.layer))
        ]
        assert cell.evidence == sum(each.pulls for each in used)
        earned = sum(each.pulls * (each.mean or 0.0) for each in used)
        assert cell.evidence_mean == pytest.approx(earned / cell.evidence)
    shown = [_cell_html(cell, 0.0, 1.0, 0) for cell in cells]
    for cell, html in zip(cells, shown, strict=True):
        assert f"<b>{cell.evidence_mean if cell.active else cell.mean:.3f}</b>" in html
        assert ('class="range"' in html) == cell.active


def test_charts_show_shares_that_add_up_and_marks_of_deletions(race):
    _, history = race
    chart = traffic_chart(history)
    for shares in zip(*(line.y for line in chart.panel.lines), strict=True):
        assert math.isclose(sum(shares), 1.0)
    signs = chart.panel.signs
    assert any("b deleted from layer" in sign.title for sign in signs)
    drawing = chart.draw()
    assert drawing.count('class="mark') == len(signs) > 0
    named = {(each.layer, each.arm) for each in history.deletions}
    assert sum(_layers_in(sign.label) for sign in signs) == len(named)
    assert ">layer" in drawing
    levels = [sign for sign in certificate_chart(history).panel.signs if sign.x is None]
    assert history.tolerated[0] < 32  # its allowance, too close to the next for a line of its own
    assert levels[0].label == "layer 1 tolerates 32"


def _layers_in(words):
    """How many layers a mark names, such as "layers 0 to 3"."""
    numbers = [int(each) for each in re.findall(r"\d+", words)]
    return numbers[1] - numbers[0] + 1 if " to " in words else len(numbers)


def test_many_arms_are_put_together():
    _, history = play("ucb1", 5, arms=[f"arm {number}" for number in range(12)], good="arm 3")
    chart = traffic_chart(history)
    names = [line.label for line in chart.panel.lines]
    assert len(names) == 7
    assert names[-1] == "6 other arms"
    assert "arm 3" in names


def test_charts_survive_an_experiment_without_decisions():
    _, history = play("ucb1", 0)
    for chart in (
        traffic_chart(history),
        reward_chart(history, (0, 1)),
        certificate_chart(history),
    ):
        assert "nan" not in chart.draw()
        assert len(chart.rows()) >= 1


@pytest.mark.parametrize(
    ("p_value", "fine", "words"),
    [(None, True, "not enough"), (1e-6, False, "lost or repeated"), (0.3, True, "as often as")],
)
def test_ratios_are_judged_in_words(p_value, fine, words):
    found, sentence = describe_ratio(RatioCheck([], 0, 1.0, p_value))
    assert found is fine
    assert words in sentence


def test_median_delays():
    delays = [0] * 36
    assert median_delay(delays) == "\N{EN DASH}"
    delays[13], delays[22] = 6, 4
    assert median_delay(delays) == "8.2 s"
