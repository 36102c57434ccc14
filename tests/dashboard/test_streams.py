"""What streams send: pieces that have changed, and costly answers that are kept for a moment."""

import asyncio
import re

import msgspec
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from armrace.dashboard.contents import experiment_content, sources_content
from armrace.dashboard.pages import Dashboard
from armrace.dashboard.sessions import COOKIE
from armrace.dashboard.streaming import CachedCalls, SharedContents, updates
from armrace.errors import StoreFailed
from armrace.service import MemoryStore, Service
from armrace.service.http.access import Caller
from armrace.service.http.application import create_application
from armrace_client.errors import NotFound
from armrace_client.operations import ListQuarantine, ReadHistory
from serving import LOCAL

ASKED = {"client": LOCAL, "method": "GET", "headers": [(b"host", b"127.0.0.1")]}
ARMS = ["<!--piece-->", '"><!--/piece-->', "third"]
"""Names that someone might hope to be taken for marks."""


@pytest.fixture
def service():
    service = Service(MemoryStore())
    service.create("race", ARMS, 1.0, policy="sharp-race", horizon=1000, settle="immediate", seed=1)
    return service


@pytest.fixture
def api(service):
    found = []
    application = create_application(
        service, pages=lambda api: found.append(api) or [], declared_open=True
    )
    assert application is not None
    return found[0]


def race_page(reading) -> dict[str, str]:
    return asyncio.run(experiment_content(reading, Caller("main", None), "race"))


def sent(content: dict, known: dict) -> dict:
    message = updates(content, known)
    return {} if message is None else msgspec.json.decode(message)


def test_a_stream_sends_a_page_whole_and_then_what_has_changed(service, api):
    known, reading = {}, CachedCalls(api, seconds=0)
    first = race_page(reading)
    assert set(sent(first, known)["parts"]) == set(first)
    assert sent(first, known) == {}
    decision = service.decide("race")
    service.reward(decision, 1.0)
    page = race_page(reading)
    message = sent(page, known)
    assert "matrix" not in message["parts"]
    changed = {name for name in message["pieces"] if name.startswith("cell-")}
    assert 1 <= len(changed) < page["matrix"].count('id="cell-')
    assert all(name.endswith(f"-{ARMS.index(decision.arm)}") for name in changed)


def test_pieces_put_into_the_frame_are_the_page(service, api):
    known, reading = {}, CachedCalls(api, seconds=0)
    updates(race_page(reading), known)
    shown = known["matrix"].html
    service.reward_many([(each, 1.0) for each in service.decide_many("race", 20)])
    page = race_page(reading)
    for name, html in sent(page, known)["pieces"].items():
        place = re.compile(f'(id="{name}">)<!--piece-->.*?<!--/piece-->', re.DOTALL)
        shown, places = place.subn(lambda found, html=html: found[1] + html, shown)
        assert places == 1
    assert shown == page["matrix"]


def test_a_part_whose_frame_changes_is_sent_whole(service, api):
    known, reading = {}, CachedCalls(api, seconds=0)
    updates(race_page(reading), known)
    service.retire_arm("race", "third")
    message = sent(race_page(reading), known)
    assert "retired" in message["parts"]["matrix"]
    assert message["pieces"] == {}


def test_costly_answers_are_kept_until_they_are_old_or_another_version(service, api):
    reading, caller = CachedCalls(api, seconds=1000), Caller("main", None)

    def ask(version):
        return asyncio.run(reading.recent(caller, ReadHistory("race"), version))

    first = ask((0, 3))
    service.decide_many("race", 20)
    assert ask((0, 3)) is first
    assert ask((1, 3)).times != first.times
    again = ask((1, 3))
    reading.forget()
    assert ask((1, 3)) is not again


def test_an_arm_that_is_added_is_shown_at_once(service, api):
    reading = CachedCalls(api, seconds=1000)
    race_page(reading)
    service.add_arm("race", "fourth")
    assert ">fourth<" in race_page(reading)["matrix"]


REQUEST = Request({"type": "http", **ASKED})


def heard(dashboard, make, count):
    """Return the names of the first events of a stream."""

    async def listen():
        events = dashboard._events("race", make, REQUEST, "race")
        found = []
        async for each in events:
            found.append(each.decode().split("\n")[0].removeprefix("event: "))
            if len(found) == count:
                break
        return found

    return asyncio.run(listen())


def test_a_stream_beats_when_nothing_changes_and_outlasts_a_store_that_recovers(api):
    answers = [{"a": "x"}, StoreFailed("away."), {"a": "x"}, NotFound("gone.")]

    async def make(reading, caller, name):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    events = heard(Dashboard(api, seconds=0.0, rest=0.0), make, 6)
    assert events == ["retry: 1000", "change", "trouble", "beat", "over"]


def test_a_page_that_a_store_cannot_give_is_opened_again(api):
    async def fail(request):
        raise StoreFailed("the store is away.")

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    for method, waits in (("GET", True), ("POST", False)):
        request = Request({**scope, "method": method})
        page = asyncio.run(Dashboard(api)._guarded(fail)(request))
        assert page.status_code == 503
        assert (b"data-waits" in page.body) == waits


def test_streams_that_look_at_the_same_time_share_one_page(api):
    contents, made = SharedContents(CachedCalls(api), seconds=10.0), []
    caller = Caller("main", None)

    async def make(reading, caller, name):
        made.append(name)
        await asyncio.sleep(0.01)
        return {}

    async def look_all():
        first = asyncio.ensure_future(contents.current("race", make, caller, "race"))
        await asyncio.sleep(0)
        looks = [contents.current("race", make, caller, "race") for _ in range(5)]
        first.cancel()  # one that leaves does not end it for the others
        found = await asyncio.gather(*looks)
        return {id(each) for each in found}

    assert len(asyncio.run(look_all())) == 1
    assert made == ["race"]
    contents.forget()  # as after a retraction
    asyncio.run(contents.current("race", make, caller, "race"))
    assert made == ["race", "race"]


class Signed:
    """The dashboard of a service with an admin key, and requests of who has signed in with it."""

    def __init__(self, service, rate=None):
        self.key, _ = service.keyring.create(["admin"])
        found = []

        def pages(api):
            found.append(Dashboard(api, seconds=0.0, rest=0.0))
            return found[0].routes()

        application = create_application(service, rate=rate, pages=pages, declared_open=True)
        (self.dashboard,) = found
        self.client = TestClient(application, base_url="http://127.0.0.1", client=LOCAL)
        self.client.cookies.set(COOKIE, self.dashboard.sessions.begin(self.key))

    def stream(self):
        """Open a stream; return its response, with the events in ``body_iterator``."""
        cookie = f"{COOKIE}={self.client.cookies[COOKIE]}".encode()
        headers = [(b"host", b"127.0.0.1"), (b"cookie", cookie)]
        scope = {"type": "http", **ASKED, "headers": headers, "query_string": b"name=race"}
        return self.dashboard._stream("sources", sources_content)(Request(scope))


def test_pages_and_streams_count_as_requests_of_their_key(service):
    signed = Signed(service, rate=1)  # in bursts of two
    pages = ["/experiment?name=race", "/sources/live?name=none", "/"]
    found = [signed.client.get(page, follow_redirects=False).status_code for page in pages]
    assert found == [200, 404, 429]


def test_streams_of_pages_count_as_streams_of_their_key(service):
    signed = Signed(service)
    signed.dashboard._api.streams._most = 2

    async def open_three():
        opened = [await signed.stream() for _ in range(2)]
        for each in opened:
            await anext(each.body_iterator)
        refused = await signed.stream()
        await opened[0].body_iterator.aclose()
        return refused.status_code, (await signed.stream()).status_code

    assert asyncio.run(open_three()) == (429, 200)


def test_the_quarantine_is_read_only_when_it_may_have_changed(monkeypatch):
    service = Service(MemoryStore())
    service.create("race", ["a", "b"], 0, policy="ucb1", horizon=1000, quarantine=0.5)
    signed = Signed(service)
    reading = CachedCalls(signed.dashboard._api, seconds=0)
    caller, read = Caller(service.tenant, signed.key), []
    call = reading._api.call

    def counted(caller, operation):
        read.extend([1] * isinstance(operation, ListQuarantine))
        return call(caller, operation)

    monkeypatch.setattr(reading._api, "call", counted)

    def held():
        content = asyncio.run(sources_content(reading, caller, "race"))
        return content["quarantine"].count("Release the reward"), len(read)

    made = service.decide_many("race", 4)
    assert held() == (0, 0)
    service.reward(made[0], 1.0, suspicion=0.9)
    assert held() == held() == (1, 1)
    service.reward(made[1], 1.0)
    assert held() == (1, 1)
    service.reward(made[2], 1.0, suspicion=0.9)
    assert held() == (2, 2)
    service.release("race", [made[0]])  # one leaves and another one comes
    service.reward(made[3], 1.0, suspicion=0.9)
    assert held() == (2, 3)
    reader = caller._replace(key=msgspec.structs.replace(signed.key, scopes=("read",)))
    content = asyncio.run(sources_content(reading, reader, "race"))
    assert "Sign in with an admin key" in content["quarantine"]


def test_the_title_of_the_list_does_not_come_from_the_address(service):
    page = Signed(service).client.get("/?name=x").text
    assert "<title>Experiments" in page
    assert "Experimentsx" not in page
