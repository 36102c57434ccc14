"""What ``/metrics`` says of experiments and of the store, however many there are."""

import threading
import time

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from armrace.errors import RewardConflict, StoreFailed
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.http import metrics
from armrace.service.http.application import create_application
from armrace.service.http.metrics import Metrics, RequestCounts
from armrace.service.http.server import Server
from armrace.service.log.sqlite import SqliteStore
from hosting import HOSTILE, HOSTILE_NAME, fill, running
from serving import LOCAL, attacked


def samples(text):
    """All samples of an exposition: what each name says by its labels' values."""
    found = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(each.labels.values())] = each.value
    return found


def scraped(service, made=None):
    return samples((made or Metrics(service.engine, RequestCounts())).exposition().decode())


def figures(service, name="ads", made=None):
    prefix = "armrace_experiment_"
    return {
        key.removeprefix(prefix): value
        for key, each in scraped(service, made).items()
        for labels, value in each.items()
        if key.startswith(prefix) and labels in ((name, "main"), ("main", name))
    }


def test_figures_of_an_experiment_are_those_that_were_made(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=60, quarantine=0.5, seed=3)
    made = service.decide_many("ads", 20)
    clock.move(1)
    service.reward_many([(each, 1.0) for each in made[:6]], source="web")
    service.reward_many([(each, 1.0) for each in made[6:10]], source="mill", suspicion=0.9)
    service.reward_many([(each, 1.0) for each in made[10:17]])
    with pytest.raises(RewardConflict):
        service.reward(made[0], 0.0)
    rewarded = clock.now / 1000
    clock.move(5)
    service.retract("ads", decisions=[each.decision for each in made[:2]])
    service.void("ads", decisions=[each.decision for each in made[17:]])
    service.void("ads", decisions=[made[16].decision])
    service.release("ads", decisions=[made[16].decision])
    assert figures(service) == {
        "alarms": 0.0,
        "certified_corruption": 0.0,
        "decisions": 17.0,
        "open_visits": 17.0,
        "conflicts": 1.0,
        "held_rewards": 4.0,
        "retracted_rewards": 2.0,
        "voided_visits": 3.0,
        "top_source_share": 6 / 17,  # most have none, and are of nobody
        "last_reward_timestamp_seconds": rewarded,
    }
    clock.move(3 * 86_400)
    service.reward(service.decide("ads"), 1.0, source="mill")
    found = figures(service)
    assert (found["held_rewards"], found["top_source_share"]) == (4.0, 1.0)
    assert found["last_reward_timestamp_seconds"] == clock.now / 1000


def test_alarms_and_names_that_are_hostile_are_told(service, clock):
    fill(service, clock)
    found = figures(service, HOSTILE_NAME)
    history = service.history(HOSTILE_NAME)
    assert found["alarms"] == history.alarms[-2] > 0
    assert found["certified_corruption"] == history.certificates[-2] > 10
    assert scraped(service)["armrace_alarmed_experiments"] == {(): 1.0}
    assert HOSTILE not in Metrics(service.engine, RequestCounts()).exposition().decode()


def names(service, made):
    shown = scraped(service, made)["armrace_experiment_alarms"]
    return {next(each for each in labels if each != "main") for labels in shown}


def test_few_of_many_are_shown_and_none_is_loaded_for_it(make_service, clock, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_SHOWN", 4)
    service = make_service(MemoryStore(), most_loaded=8)
    made = Metrics(service.engine, RequestCounts())
    attacked(service, clock, "alarmed")
    for number in range(6):
        service.create(f"calm {number}", ["a", "b"], 0, policy="ucb1")
    assert names(service, made) == {"alarmed", "calm 5", "calm 4", "calm 3"}
    for number in range(6, 30):
        service.create(f"calm {number}", ["a", "b"], 0, policy="ucb1")
    loaded = [each.log for each in service.engine.loaded]
    assert len(loaded) == 8
    # It has left memory: its alarm would seem to be over.
    assert names(service, made) == {"alarmed", "calm 29", "calm 28", "calm 27"}
    assert scraped(service, made)["armrace_alarmed_experiments"] == {(): 1.0}
    assert [each.log for each in service.engine.loaded] == loaded
    service.finish("alarmed")
    service.delete("alarmed", without_export=True)
    assert "alarmed" not in names(service, made)


def test_a_store_that_does_not_answer_leaves_the_figures_of_before(service, clock, monkeypatch):
    attacked(service, clock, "ads")
    service.void("ads", since=0, until=clock.now - 40_000)
    before = figures(service)
    assert before["voided_visits"] == 100.0
    made = Metrics(service.engine, RequestCounts())
    assert figures(service, made=made) == before

    def fail(*given, **more):
        raise StoreFailed("the database does not answer.")

    with monkeypatch.context() as broken:
        broken.setattr(service.engine.store, "transaction", fail)
        assert figures(service, made=made) == before


def test_free_space_and_the_last_backup_survive_a_restart(tmp_path):
    path = tmp_path / "clicks.db"
    with Service(SqliteStore(path)) as service:
        found = scraped(service)
        assert "armrace_last_backup_timestamp_seconds" not in found
        assert found["armrace_store_free_bytes"][()] > 0
        before = time.time() - 1
        service.back_up(tmp_path / "copy.db")
        (tmp_path / "copy.db").unlink()  # carried away
    with Service(SqliteStore(path)) as service:
        made = scraped(service)["armrace_last_backup_timestamp_seconds"][()]
        assert before <= made <= time.time() + 1


def test_the_last_reward_is_known_after_a_restart(tmp_path, clock):
    path, keys = tmp_path / "clicks.db", Keyring()
    with Service(SqliteStore(path), keys, clock=clock) as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", window=60)
        decision = service.decide("ads")
        clock.move(7)
        service.reward(decision, 1.0)
        rewarded = clock.now / 1000
        clock.move(7)
        service.decide("ads")
    with Service(SqliteStore(path), keys, clock=clock) as service:
        service.describe("ads")
        assert figures(service)["last_reward_timestamp_seconds"] == rewarded


def test_a_scrape_that_takes_long_holds_nobody_and_is_made_once(service, monkeypatch):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    begun, end, threads = threading.Event(), threading.Event(), []
    exposition = Metrics.exposition

    def slow(made):
        threads.append(threading.current_thread().name)
        begun.set()
        assert end.wait(30)
        return exposition(made)

    monkeypatch.setattr(Metrics, "exposition", slow)
    server = Server(create_application(service, declared_open=True), "127.0.0.1", 0)
    with running(server) as (host, port):
        address, answers = f"http://{host}:{port}", []
        ask = [
            threading.Thread(target=lambda: answers.append(httpx2.get(f"{address}/metrics")))
            for _ in range(3)
        ]
        for each in ask:
            each.start()
        try:
            assert begun.wait(30)
            while len(server.server_state.tasks) < len(ask):
                time.sleep(0.01)
            decided = httpx2.post(f"{address}/v1/experiments/ads/decide", json={}, timeout=30)
            assert decided.status_code == 200
            assert httpx2.get(f"{address}/healthz").status_code == 200
            assert answers == []
        finally:
            end.set()
        for each in ask:
            each.join()
    assert [each.status_code for each in answers] == [200] * 3
    assert answers[0].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert [each.partition("_")[0] for each in threads] == ["directory"]


def test_answers_are_counted_by_how_long_they_took():
    counts = RequestCounts()
    for seconds in (0.0005, 0.004, 0.004, 7.0):
        counts.add("/v1/x", 200, seconds)
    found = {
        (each.name, each.labels.get("le")): each.value
        for family in counts.families()
        for each in family.samples
    }
    limits = ("0.001", "0.0025", "0.005", "5", "+Inf")
    counted = [found["armrace_request_seconds_bucket", limit] for limit in limits]
    assert counted == [1, 1, 3, 3, 4]
    assert found["armrace_request_seconds_count", None] == 4
    assert found["armrace_request_seconds_sum", None] == pytest.approx(7.0085)


def test_all_counts_are_in_the_answer(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    service.decide_many("ads", 3)
    with TestClient(
        create_application(service, declared_open=True), base_url="http://localhost", client=LOCAL
    ) as client:
        client.get("/v1/experiments/none")
        found = samples(client.get("/metrics").text)
    assert found["armrace_requests_total"] == {("/v1/experiments/{name}", "404"): 1.0}
    assert found["armrace_refusals_total"] == {("unknown-name",): 1.0}
    assert found["armrace_open_visits"] == {(): 3.0}
    assert found["armrace_keys_readable"] == {(): 1.0}
