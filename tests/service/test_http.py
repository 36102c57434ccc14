"""The service over HTTP: the same answers, one shape of errors, keys and limits."""

import asyncio
import io
import json
import tempfile

import pytest
from starlette.testclient import TestClient

from armrace.errors import StoreFailed
from armrace.service.http.application import RequestLog, create_application
from armrace_client.errors import NotFound
from armrace_client.operations import OPERATIONS
from serving import JSON, LOCAL, events_over_http, is_replay

ADS = {"name": "ads", "arms": ["a", "b"], "missing": 0, "window": 10, "policy": "ucb1"}


@pytest.fixture
def client(service):
    with TestClient(
        create_application(service, declared_open=True), base_url="http://127.0.0.1", client=LOCAL
    ) as client:
        client.post("/v1/experiments", json={**ADS, "horizon": 1000, "quarantine": 0.5})
        yield client


def decide(client, **body):
    response = client.post("/v1/experiments/ads/decide", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def reward(client, decision, value, **more):
    body = {"decision": decision["decision"], "value": value, **more}
    return client.post("/v1/rewards", json=body)


def test_a_decision_is_made_rewarded_and_learned(client, service, clock):
    decision = decide(client)
    assert decision.keys() == {"decision", "experiment", "arm", "probability", "repeated", "leaf"}
    assert reward(client, decision, 1).json() == {"status": "accepted"}
    assert reward(client, decision, 1).json() == {"status": "duplicate"}
    conflict = reward(client, decision, 0)
    assert conflict.status_code == 409
    assert conflict.json() == {
        "code": "reward-conflict",
        "message": "the decision has had the reward 1; got 0.",
    }
    clock.move(10)
    view = client.get("/v1/experiments/ads").json()
    assert sum(layer["pulls"] for layer in view["layers"]) == 1
    assert "seed" not in view["settings"]
    assert is_replay(service)


def test_batches_have_an_answer_each(client):
    made = client.post(
        "/v1/experiments/ads/decide/batch", json={"decisions": [{}, {"request": "r"}, {}]}
    ).json()["decisions"]
    assert len({each["decision"] for each in made}) == 3
    rewards = [{"decision": each["decision"], "value": 1} for each in made]
    rewards += [{"decision": "x", "value": 1}, {"decision": made[0]["decision"], "value": 5}]
    answers = client.post("/v1/rewards/batch", json={"rewards": rewards}).json()["rewards"]
    assert [each["status"] for each in answers] == ["accepted"] * 3 + ["unknown", "invalid"]


def test_a_batch_of_decisions_says_of_each_member_what_became_of_it(client):
    client.post("/v1/experiments", json={**ADS, "name": "small", "most_open": 3})
    address = "/v1/experiments/small/decide/batch"
    body = {"decisions": [{}, {"eligible": ["x"]}, {"eligible": ["b"]}, {}, {}]}
    answer = client.post(address, json=body)
    assert answer.status_code == 200
    made, refusals = answer.json()["decisions"], answer.json()["refusals"]
    assert [each and each["experiment"] for each in made] == ["small", None, "small", "small", None]
    assert made[2]["arm"] == "b"
    assert [(each["member"], each["code"]) for each in refusals] == [
        (1, "invalid-parameter"),
        (4, "too-many-open"),
    ]
    assert client.get("/v1/experiments/small").json()["decisions"] == 3
    nothing = client.post(address, json={"decisions": [{}, {}]})
    assert (nothing.status_code, nothing.json()["code"]) == (503, "too-many-open")
    assert client.post(address, json={"decisions": []}).json()["decisions"] == []


def test_exports_leave_nothing_behind(client, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reward(client, decide(client), 1)
    whole = client.get("/v1/experiments/ads/export", headers={"Range": "bytes=0-3"})
    assert whole.status_code == 200  # each export is another one, so that no part of it can be had
    assert int(whole.headers["content-length"]) == len(whole.content) > 0
    assert client.get("/v1/experiments/none/export").status_code == 404
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"decision": "x", "value": NaN}', 422),
        (b'{"decision": "x", "value": 1e999}', 422),
        (b'{"decision": "x", "value": "1"}', 422),
        (b'{"decision": "x"}', 422),
        (b'{"decision": "x", "value": 1, "extra": 1}', 422),
        (b"not json", 422),
        (b"\xff\xfe", 422),
        (b"[" * 4000, 422),
        (b'{"decision": "' + b"x" * 5000 + b'", "value": 1}', 413),
        (b'{"decision": "x", "value": 1}', 404),
        (b'{"decision": "x", "value": -0.0}', 404),
        (b'{"decision": "x", "value": 1e-400}', 404),
        (b'{"decision": "x", "decision": "y", "value": 1}', 404),
    ],
)
def test_bad_bodies_are_refused_in_one_shape(client, body, status):
    response = client.post("/v1/rewards", content=body, headers=JSON)
    assert response.status_code == status
    problem = response.json()
    assert problem.keys() == {"code", "message"}
    assert problem["message"].endswith(".")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"policy": "os:system"}, 422, "policy must be a name of the catalogue"),
        ({"policy": {"name": "os:system"}}, 422, "policy must be a name of the catalogue"),
        ({"policy": "nonsense"}, 404, "there is no policy named"),
        ({"arms": ["a"]}, 422, "refused"),
        ({"name": "a/b"}, 422, "must not have a slash"),
        ({"name": ".."}, 422, "name must not have . or .. as a part; got '..'"),
        ({"arms": ["a", "."]}, 422, "names of arms must not have . or .. as a part"),
        ({"arms": ["a", "b/../c"]}, 422, "names of arms must not have . or .. as a part"),
        ({"missing": 7}, 422, "missing must be"),
        ({"arms": ["x", "y"]}, 409, "other settings"),
    ],
)
def test_bad_experiments_are_refused(client, changes, status, words):
    response = client.post("/v1/experiments", json={**ADS, **changes})
    assert response.status_code == status
    assert words in response.json()["message"]


def test_what_is_not_there_has_the_same_shape(client):
    for method, path, status in [
        ("GET", "/nowhere", 404),
        ("DELETE", "/v1/rewards", 405),
        ("GET", "/v1/experiments/none", 404),
        ("POST", "/v1/experiments/none/decide", 404),
    ]:
        response = client.request(method, path)
        assert response.status_code == status
        assert response.json().keys() == {"code", "message"}


def test_keys_open_what_their_scopes_say(service):
    admin = service.keyring.create(["admin"])[1]
    decider = service.keyring.create(["decide"])[1]
    stranger = service.keyring.create(["admin"], tenant="other")[1]
    with TestClient(
        create_application(service, declared_open=True), base_url="http://shop.example"
    ) as client:

        def ask(key, method, path, **more):
            headers = {"Authorization": f"Bearer {key}"}
            return client.request(method, path, headers=headers, **more).status_code

        assert client.get("/v1/experiments").status_code == 401
        assert ask("armrace_wrong_key", "GET", "/v1/experiments") == 401
        assert ask(decider, "POST", "/v1/experiments", json=ADS) == 403
        assert ask(admin, "POST", "/v1/experiments", json=ADS) == 201
        assert ask(decider, "POST", "/v1/experiments/ads/decide") == 200
        assert ask(decider, "GET", "/v1/experiments/ads") == 403
        assert ask(stranger, "GET", "/v1/experiments/ads") == 404
        assert ask(stranger, "POST", "/v1/experiments/ads/decide") == 404
        decision = service.decide("ads").decision
        body = {"decision": decision, "value": 1}
        assert ask(stranger, "POST", "/v1/rewards", json=body) == 404
        assert ask(admin, "POST", "/v1/rewards", json=body) == 200
        assert client.get("/metrics").status_code == 401
        service.keyring.revoke(service.keyring.list()[1].id)
        assert ask(decider, "POST", "/v1/experiments/ads/decide") == 401


@pytest.mark.parametrize(
    ("path", "body"), [("decide", {}), ("decide/batch", {"decisions": [{}, {}]})]
)
def test_a_key_that_may_not_read_is_told_no_names(service, path, body):
    service.create("secret-sale", ["a", "b"], 0, policy="ucb1")
    with TestClient(create_application(service), base_url="http://shop.example") as client:

        def told(scope, name):
            headers = {"Authorization": f"Bearer {service.keyring.create([scope])[1]}"}
            answer = client.post(f"/v1/experiments/{name}/{path}", json=body, headers=headers)
            assert answer.status_code == 404
            return answer.json()["message"]

        for name in ("secret-sole", "x"):  # near, and far from all
            assert told("decide", name) == f"there is no experiment named '{name}'."
            assert "secret-sale" in told("admin", name)


def test_metrics_count_answers_and_alarms(client):
    decision = decide(client)
    reward(client, decision, 1)
    reward(client, decision, 0)
    text = client.get("/metrics").text
    assert 'armrace_refusals_total{code="reward-conflict"} 1' in text
    assert 'armrace_requests_total{endpoint="/v1/rewards",status="409"} 1' in text
    assert "\narmrace_open_visits 1.0\n" in text
    assert "\narmrace_loaded_experiments 1.0\n" in text
    assert "\narmrace_transactions_total " in text


def test_the_document_describes_every_endpoint(client):
    document = client.get("/openapi.json").json()
    described = {
        (method.upper(), path) for path, each in document["paths"].items() for method in each
    }
    routes = [kind.route for kind in OPERATIONS.values()]
    declared = {(each.method, each.path) for each in routes}
    aliases = {(each.method, each.alias) for each in routes if each.alias}
    assert described == declared | aliases | {("GET", "/v1/experiments/{name}/events")}
    operations = [one for each in document["paths"].values() for one in each.values()]
    assert {each["operationId"] for each in operations} >= OPERATIONS.keys()


def test_the_document_has_the_parameters_of_queries(client):
    paths = client.get("/openapi.json").json()["paths"]
    audit = paths["/v1/experiments/{name}/audit"]["get"]["parameters"]
    export = paths["/v1/experiments/{name}/export"]["get"]["parameters"]
    assert [(each["name"], each["in"]) for each in audit] == [("name", "path"), ("level", "query")]
    assert export[1]["schema"]["enum"] == ["ndjson", "parquet"]
    backup = paths["/v1/backup"]["post"]["description"]
    assert backup.endswith("Needs the scope admin and a key of the operator's tenant, main.")
    hold = paths["/v1/experiments/{name}/hold"]["post"]
    assert hold["summary"] == "Hold rewards: they do not count until they are released"


def test_the_document_limits_batches_and_describes_fields(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for body, field in (("DecideBatch", "decisions"), ("RewardBatch", "rewards")):
        assert schemas[f"{body}Body"]["properties"][field]["maxItems"] == 1000
    assert schemas["ReportBody"]["properties"]["visits"]["maxItems"] == 1000
    decide = schemas["DecideBody"]["properties"]
    assert "name" not in decide
    assert decide["unit"]["description"].startswith("the visitor or user that the decision is")
    hold = schemas["HoldBody"]["properties"]
    assert hold["since"]["description"].startswith("only visits decided at this time or later")
    assert hold["standing"]["description"].startswith("whether to hold what comes from now on")


def test_queries_are_checked_as_bodies_are(client):
    actions = "/v1/experiments/ads/actions"
    assert [each["action"] for each in client.get(f"{actions}?most=1").json()] == ["create"]
    assert client.get(f"{actions}?before=1&most=5").json() == []
    for query in ("most=0", "most=x", "many=1", "most=1.5", "before="):
        answer = client.get(f"{actions}?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-parameter")
        assert answer.json()["message"].startswith("the query is refused: ")


def test_too_many_members_of_a_batch_are_refused(client):
    answer = client.post(
        "/v1/experiments/ads/decide/batch", json={"decisions": [{} for _ in range(1001)]}
    )
    assert answer.status_code == 422
    assert "length <= 1000" in answer.json()["message"]


def test_rewards_have_an_address_under_their_experiment(client):
    made = decide(client)
    body = {"decision": made["decision"], "value": 1}
    assert client.post("/v1/experiments/ads/rewards", json=body).json() == {"status": "accepted"}
    batch = client.post("/v1/experiments/ads/rewards/batch", json={"rewards": [body]})
    assert batch.json()["rewards"][0]["status"] == "duplicate"


def test_the_state_is_followed_as_it_changes(service):
    service.create("ads", ["a", "b"], 0)

    async def follow():
        application = create_application(service, declared_open=True)
        task, sent = events_over_http(application)
        assert (await sent.get())["status"] == 200
        found = [(await sent.get())["body"]]
        await asyncio.to_thread(service.decide, "ads")
        found += [(await sent.get())["body"] for _ in range(2)]
        application.streams.close()
        await task
        return found

    first, second, third = asyncio.run(follow())
    assert b'"decisions":0' in first
    assert first.startswith(b"event: state\ndata: {")
    assert b'"decisions":1' in second
    assert third == b":\n\n"


def test_the_log_has_request_ids_and_no_secrets(service):
    key = service.keyring.create(["admin"])[1]
    file = io.StringIO()
    application = create_application(service, log=RequestLog("all", file), declared_open=True)
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": "abc"}
    with TestClient(application, headers=headers) as client:
        response = client.post("/v1/experiments/secret-name/decide?token=secret", json={})
        odd = client.get("/v1/experiments", headers={"X-Request-Id": "x" * 65})
    assert response.headers["X-Request-Id"] == "abc"
    assert odd.headers["X-Request-Id"] != "x" * 65
    first, _, stop = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (first["request"], first["status"], first["code"]) == ("abc", 404, "unknown-name")
    assert (first["event"], stop["event"]) == ("refusal", "stop")
    assert "secret" not in file.getvalue()
    assert key not in file.getvalue()


def logged(file):
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_rulings_and_changes_are_logged_with_who_made_them_and_nothing_private(service):
    made, text = service.keyring.create(["admin"], label="fraud desk")
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    decisions = service.decide_many("ads", 3)
    file = io.StringIO()
    application = create_application(service, log=RequestLog("none", file))
    with TestClient(application, headers={"Authorization": f"Bearer {text}"}) as client:

        def ask(path, **body):
            return client.post(f"/v1/experiments/ads/{path}", json=body).status_code

        chosen = {"decisions": [each.decision for each in decisions[:2]]}
        assert ask("void", **chosen, preview=True) == 200
        assert ask("void", **chosen, reason="private") == 200
        assert ask("hold", units=["mister-x"]) == 200
        assert ask("pause") == 200
        assert client.post("/v1/experiments/none/pause", json={}).status_code == 404
        assert ask("decide") == 409
    void, hold, pause, refused, stop = logged(file)
    who = {"tenant": "main", "experiment": "ads", "key": made.id}
    assert void == {
        "event": "ruling",
        "operation": "void",
        "visits": 2,
        "time": void["time"],
        **who,
    }
    assert (hold["operation"], hold["visits"]) == ("hold", 0)
    assert (pause["event"], pause["operation"], pause["key"]) == ("change", "pause", made.id)
    assert (refused["operation"], refused["code"]) == ("pause", "unknown-name")
    assert stop["event"] == "stop"
    assert stop["message"] == "All requests were answered, and the store is closed."
    for secret in ("private", "mister-x", text, "fraud"):
        assert secret not in file.getvalue()


def test_refusals_are_written_so_far_as_they_fill_no_disk(service, monkeypatch):
    monkeypatch.setattr("armrace.service.http.application._MOST_REFUSALS", 3)
    file = io.StringIO()
    log = RequestLog("problems", file)
    for _ in range(5):
        log.refuse(NotFound("there is nothing."), status=404)
    log._minute -= 1
    log.refuse(NotFound("there is nothing."), status=404)
    log.refuse(StoreFailed("the disk is full."), status=503)
    *written, more, last, failure = logged(file)
    assert [each["code"] for each in written] == ["not-found"] * 3
    assert more["message"] == "2 more refusals of a minute are only counted."
    assert (last["event"], failure["event"]) == ("refusal", "failure")
    assert log.counts.problems == {"not-found": 6, "store-failed": 1}
    RequestLog("none", file := io.StringIO()).refuse(StoreFailed("the disk is full."))
    assert file.getvalue() == ""
