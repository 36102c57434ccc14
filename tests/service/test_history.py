"""The history of an experiment and the sources of its rewards: replays of the log, and bounded."""

import threading

import pytest

from armrace.learner import Learner
from armrace.service.model import history
from armrace.service.model import visits as source_counts
from armrace.service.model.experiment import ExperimentState
from serving import START, is_replay, live

ARMS = ["a", "b"]


def play(service, clock, seconds, source="web", each=20, value=None, **more):
    """Decide and reward some times a second: arm a earns 1, arm b nothing."""
    for _ in range(seconds):
        made = service.decide_many("ads", each)
        earned = [(d, float(d.arm == "a") if value is None else value) for d in made]
        service.reward_many(earned, source=source, **more)
        clock.move(1)


@pytest.fixture
def ads(service, clock):
    service.create("ads", ARMS, 0, policy="ucb1", window=2, horizon=100_000, quarantine=0.5, seed=3)
    return service


def test_the_history_adds_up(ads, clock):
    play(ads, clock, 10)
    course = ads.history("ads")
    assert course.times == [clock.now - 10_000 + 1000 * second for second in range(11)]
    assert [sum(each) for each in zip(*course.decisions, strict=True)] == list(range(0, 220, 20))
    assert [sum(each) for each in zip(*course.learned, strict=True)][-1] == 180  # 2 s are open
    assert course.earned[0][-1] == course.learned[0][-1]
    assert course.earned[1][-1] == 0.0
    assert course.tolerated == []


def test_the_history_is_bounded_however_long_it_runs(ads, clock):
    for _ in range(600):
        ads.decide("ads")
        clock.move(1)
    course = ads.history("ads")
    assert len(course.times) <= 242
    assert course.bucket == 4000
    assert sum(each[-1] for each in course.decisions) == 600
    assert is_replay(ads)


def test_time_in_which_nothing_happens_is_flat(ads, clock):
    play(ads, clock, 1)
    clock.move(3600)
    play(ads, clock, 1)
    course = ads.history("ads")
    totals = [sum(each) for each in zip(*course.decisions, strict=True)]
    assert totals == [0, 20, 20, 40]
    assert course.times[2] - course.times[1] == 3_600_000


def test_an_added_arm_has_no_past(ads, clock):
    play(ads, clock, 3)
    ads.add_arm("ads", "c")
    course = ads.history("ads")
    assert course.arms == ["a", "b", "c"]
    assert course.decisions[2] == [0] * len(course.times)


def test_deletions_of_a_race_have_their_time_and_layer(service, clock):
    policy = {"name": "sharp-race", "most_corruption": 32}
    service.create("ads", ARMS, 0, policy=policy, window=2, horizon=10_000, seed=3)
    play(service, clock, 40, each=40)
    course = service.history("ads")
    first = course.deletions[0]
    assert (first.arm, first.layer, first.by) == ("b", 0, 0)
    assert 16.0 < course.tolerated[0] < 32.0  # its allowance, more than it is designed for
    place = course.times.index(first.time)
    assert sum(each[place] for each in course.decisions) >= first.round
    assert sum(each[place - 1] for each in course.decisions) < first.round


def test_a_retraction_changes_the_history_as_if_the_rewards_had_never_come(ads, clock):
    play(ads, clock, 30)
    play(ads, clock, 15, source="bots", value=0.0)
    alarmed = ads.history("ads")
    assert alarmed.alarms[-1] > 0
    assert alarmed.certificates[-1] > 20
    assert ads.health()[0].alarms > 0
    preview = ads.retract("ads", sources="bots", preview=True)
    assert preview.history_before.alarms[-1] > 0
    said = ads.retract("ads", sources="bots", reason="forged")
    after = ads.history("ads")
    assert after.earned == preview.history_after.earned
    assert after.decisions == alarmed.decisions  # what was decided stays
    (ruling,) = after.rulings
    assert (ruling.verdict, ruling.visits, ruling.reason) == ("retract", said.changed, "forged")
    assert is_replay(ads)


def test_sources_are_counted_by_day_and_standing(ads, clock):
    clock.move(86_400 - clock.now // 1000 % 86_400 - 5)  # five seconds before midnight
    play(ads, clock, 1, each=10)
    play(ads, clock, 1, each=5, value=1.0, suspicion=0.9, source="odd")
    clock.move(10)
    play(ads, clock, 1, each=3, source=None)
    clock.move(3)
    web, odd, unnamed = ads.sources("ads")
    assert (web.source, odd.source, unnamed.source) == ("web", "odd", None)
    (day,) = web.days
    assert (day.counted, day.quarantined, day.retracted, day.final) == (10, 0, 0, True)
    (day,) = odd.days
    assert (day.counted, day.quarantined, day.mean) == (0, 5, 1.0)
    assert not unnamed.days[0].final
    assert unnamed.days[0].day > day.day
    ads.retract("ads", sources="web")
    ads.release("ads", sources="odd")
    web, odd, _ = ads.sources("ads")
    assert (web.days[0].counted, web.days[0].retracted) == (0, 10)
    assert (odd.days[0].counted, odd.days[0].quarantined) == (5, 0)
    assert is_replay(ads)


def test_rulings_about_open_decisions_move_counts_at_once(ads, clock):
    made = ads.decide("ads")
    clock.move(1)
    ads.reward(made, 1.0, source="web")
    ads.retract("ads", sources="web")
    (web,) = ads.sources("ads")
    assert (web.days[0].counted, web.days[0].retracted) == (0, 1)
    assert web.delays[(1000).bit_length()] == 1
    assert is_replay(ads)


def test_strangers_cannot_fill_the_memory_with_sources(ads, clock, monkeypatch):
    monkeypatch.setattr(source_counts, "MOST_SOURCES", 3)
    monkeypatch.setattr(source_counts, "MOST_DAYS", 2)
    for day in range(4):
        for number in range(6):
            ads.reward(ads.decide("ads"), 1.0, source=f"source {number}")
        clock.move(86_400)
        assert len(ads.sources("ads")) == 4, day
    *named, others = ads.sources("ads")
    assert [each.source for each in named] == ["source 0", "source 1", "source 2"]
    assert others.others
    assert [each.counted for each in others.days] == [6, 3, 3]
    assert others.days[0].day == "earlier"


def test_health_names_the_favoured_arm(ads, clock):
    (before,) = ads.health()
    assert (before.best, before.alarms, before.decisions) == (None, 0, 0)
    play(ads, clock, 20)
    (after,) = ads.health()
    assert (after.name, after.policy, after.best) == ("ads", "ucb1", "a")
    assert 0.9 < after.share <= 1.0
    assert after.mean == 1.0
    assert after.traffic[-1] == after.decisions == 400


def test_audits_and_histories_are_not_made_by_the_thread_that_serves(ads, clock, monkeypatch):
    threads = set()
    audit = Learner.audit

    def noted(learner, level):
        threads.add(threading.current_thread().name.partition("_")[0])
        return audit(learner, level)

    monkeypatch.setattr(Learner, "audit", noted)
    play(ads, clock, 10)  # points are audited meanwhile
    ads.audit("ads")
    ads.history("ads")
    ads.retract("ads", sources="web", preview=True)
    live(ads).audits.wait()
    # A preview replays the log in a thread of its own, and audits what it shows there.
    assert threads == {"audits", "background"}


def test_what_is_shown_later_does_not_change(ads, monkeypatch):
    monkeypatch.setattr(ExperimentState, "save", lambda state: 1 / 0)  # which takes much longer
    shown = live(ads).frozen()
    ads.hold("ads", sources="mill", standing=True)
    ads.add_arm("ads", "new")
    assert (shown.holds.standing, "new" in shown.arms) == ([], False)
    assert live(ads).holds.standing


def test_points_that_follow_an_audit_get_what_it_finds_whenever_it_ends(monkeypatch):
    may_end, findings = threading.Event(), history._findings
    learner = Learner("ucb1", 2, 1000)
    for reward in (0.0, 1.0):
        for _ in range(100):
            learner.learn(learner.decide(), reward)
    expected = findings(learner)
    monkeypatch.setattr(history, "_findings", lambda still: may_end.wait(30) and findings(still))
    first, second, other = (history.HistoryPoint(0, n, 200, [], [], [], 0, 0.0) for n in (0, 0, 1))
    audits = history.Audits()
    audits.begin(first, learner)
    learner.learn(learner.decide(), 0.0)  # which the audit must not see
    audits.follow(first, second)
    audits.follow(second, other)
    assert audits.is_busy
    may_end.set()
    audits.wait()
    assert expected[0] > 0
    assert [(each.alarms, each.certificate) for each in (first, second)] == [expected] * 2
    assert other.alarms == 0


def test_a_history_of_thousands_of_arms_shows_fewer_moments(service, clock):
    service.create("many", [str(arm) for arm in range(2000)], 0, window=1, seed=1)
    for _ in range(60):
        service.decide_many("many", 5)
        clock.move(1)
    course = service.history("many")
    assert 8 <= len(course.times) <= 51
    assert course.times[0] == START
    assert course.times[-1] == clock.now
    assert sum(each[-1] for each in course.decisions) == 300
