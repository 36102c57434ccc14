"""Sessions, forms and headers, without a browser."""

import re
from contextlib import contextmanager
from html import unescape
from importlib.resources import files

import msgspec
import pytest
from markupsafe import escape
from starlette.testclient import TestClient

from armrace.dashboard import sessions as sessions_module
from armrace.dashboard.pages import Dashboard
from armrace.dashboard.sessions import COOKIE, Sessions
from armrace.errors import RewardConflict, UnwritableOutput
from armrace.reports.kit import style_sheet
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.http.access import TrustedProxies
from armrace.service.http.application import create_application
from serving import LOCAL, Clock


def test_sessions_are_signed_and_end_with_their_key():
    keyring = Keyring()
    key, _ = keyring.create(["read"])
    sessions = Sessions(keyring)
    session = sessions.begin(key)
    assert sessions.key_of(session) == key
    for place in range(0, len(session), 7):
        forged = session[:place] + ("0" if session[place] != "0" else "1") + session[place + 1 :]
        assert sessions.key_of(forged) is None
    for text in ("", ".", "a.b.c", "é.1.2.3", session + "x", sessions.form_token(session)):
        assert sessions.key_of(text) is None
    keyring.rotate()
    assert sessions.key_of(session) == key  # as decisions of the secret before
    keyring.rotate()
    assert sessions.key_of(session) is None
    session = sessions.begin(key)
    keyring.revoke(key.id)
    assert sessions.key_of(session) is None


def test_sessions_end_after_some_time(monkeypatch):
    keyring = Keyring()
    sessions = Sessions(keyring)
    monkeypatch.setattr(sessions_module, "LIFETIME", -1)
    assert sessions.key_of(sessions.begin(keyring.create(["read"])[0])) is None


def test_a_session_that_was_ended_is_over_everywhere(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    key, _ = keyring.create(["admin"])
    one, other = Sessions(keyring), Sessions(Keyring(tmp_path / "keys"))
    first, second = one.begin(key), one.begin(key)
    one.end(first)
    assert (one.key_of(first), one.key_of(second)) == (None, key)
    other._keyring.refresh()
    assert (other.key_of(first), other.key_of(second)) == (None, key)
    # Also after a restart; what has expired is forgotten.
    later = Keyring(tmp_path / "keys")
    assert Sessions(later).key_of(first) is None
    later.end_session("x", 1)
    one.end(second)
    assert set(msgspec.json.decode((tmp_path / "keys").read_bytes())["ended"]) == {
        text.split(".")[2] for text in (first, second)
    }


def test_a_session_is_ended_even_if_the_file_cannot_be_written(tmp_path, monkeypatch):
    keyring = Keyring()
    key, _ = keyring.create(["admin"])
    sessions = Sessions(keyring)
    session = sessions.begin(key)

    def fail(content):
        raise UnwritableOutput("read-only.")

    monkeypatch.setattr(keyring, "_write", fail)
    sessions.end(session)
    assert sessions.key_of(session) is None


def test_a_copy_of_the_cookie_is_of_no_use_after_signing_out(client, keyring):
    sign_in(client, keyring, "admin")
    token, cookie = token_in(client.get("/").text), client.cookies[COOKIE]
    assert client.post("/sign-out", data={"token": token}).status_code == 303
    client.cookies.clear()
    client.cookies.set(COOKIE, cookie)
    assert client.get("/").headers["location"].startswith("/sign-in")
    assert client.post("/rule", data={"token": token, "name": "ads"}).status_code == 303


@pytest.fixture
def keyring():
    return Keyring()


@pytest.fixture
def service(keyring):
    service = Service(MemoryStore(), keyring)
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    service.reward(service.decide("ads"), 1.0, source="web")
    return service


@contextmanager
def browsing(service, **options):
    """A client of the pages of a service, on this machine."""
    application = create_application(service, pages=lambda api: Dashboard(api).routes(), **options)
    with TestClient(application, base_url="http://127.0.0.1", client=LOCAL) as client:
        yield client


@pytest.fixture
def client(service):
    with browsing(service, declared_open=True) as client:
        client.follow_redirects = False
        yield client


def sign_in(client, keyring, *scopes):
    _, text = keyring.create(scopes)
    form = {"key": text, "to": "/sources?name=ads"}
    answer = client.post("/sign-in", data=form, follow_redirects=False)
    assert answer.headers["location"] == "/sources?name=ads"


def token_in(page):
    return page.partition('name="token" value="')[2].partition('"')[0]


def test_a_service_that_is_open_says_so_and_its_pages_can_change_it(client):
    page = client.get("/")
    assert "every program on this machine may do everything" in page.text
    assert "A proxy in front of it opens it to the world." in page.text
    assert client.get("/sign-in").headers["location"] == "/"
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    form = {"name": "ads", "source": "web"}
    assert client.post("/rule", data=form).status_code == 403, "without the token of a page"
    form["token"] = token_in(client.get("/preview?name=ads&source=web").text)
    site = {"origin": "http://evil.example"}
    assert client.post("/rule", data=form, headers=site).status_code == 403
    done = client.post("/rule", data=form)
    assert "1 visit was voided" in client.get(done.headers["location"]).text


def test_without_keys_a_service_that_is_not_open_is_closed(service):
    """So that a file of keys that is replaced by an empty one opens nothing."""
    with browsing(service) as client:
        assert client.get("/v1/experiments").status_code == 401
        assert client.get("/metrics").status_code == 401
        page = client.get("/")
        assert (page.status_code, page.url.path) == (200, "/sign-in")
        assert client.get("/live").status_code == 401


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def test_every_answer_forbids_what_pages_do_not_need(client):
    for path in ("/", "/experiment?name=ads", "/experiment?name=no", "/static/dashboard.js"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert client.get("/static/..%2fpages.py").status_code == 404


def test_the_style_sheet_takes_its_colours_from_the_theme():
    sheet = files("armrace.dashboard").joinpath("static", "dashboard.css").read_text()
    assert re.findall(r"#[0-9a-f]{3,8}\b|\brgba?\(|\bhsla?\(", sheet) == []
    known = set(re.findall(r"(--[\w-]+):", style_sheet() + sheet))
    assert set(re.findall(r"var\((--[\w-]+)", sheet)) - known == set()


def test_every_page_has_a_title_of_its_own(client, keyring):
    sign_in(client, keyring, "admin")
    paths = (
        "/",
        "/experiment?name=ads",
        "/sources?name=ads",
        "/preview?name=ads&source=web",
        "/actions?name=ads",
    )
    titles = [client.get(path).text.split("<title>")[1].split("</title>")[0] for path in paths]
    assert titles == [
        "Experiments · armrace",
        "ads · armrace",
        "Sources of ads · armrace",
        "web in ads · armrace",
        "Actions on ads · armrace",
    ]


def test_pages_hold_no_inline_script_or_style(client):
    still = ("/preview?name=ads&source=web", "/actions?name=ads")
    for path in ("/", "/experiment?name=ads", "/sources?name=ads", *still):
        text = client.get(path).text
        assert "style=" not in text
        assert "<style" not in text
        assert "onclick" not in text
        assert text.count("<script") == text.count("<script src=") == 1


def test_a_form_of_another_site_changes_nothing(client, keyring):
    sign_in(client, keyring, "admin")
    page = client.get("/preview?name=ads&source=web").text
    body = {"name": "ads", "source": "web", "verdict": "retract", "reason": "forged"}
    assert client.post("/rule", data=body).status_code == 403
    assert client.post("/rule", data={**body, "token": "0" * 64}).status_code == 403
    other = Sessions(keyring).begin(keyring.create(["admin"])[0])
    stolen = Sessions(keyring).form_token(other)
    assert client.post("/rule", data={**body, "token": stolen}).status_code == 403
    done = client.post("/rule", data={**body, "token": token_in(page)})
    target = done.headers["location"]
    assert target.startswith("/experiment?name=ads&done=retract&changed=1&seal=")
    page = client.get(target).text
    assert "1 reward retracted: forged" in page
    assert "1 reward was retracted." in page
    for false in (target.replace("changed=1", "changed=9"), target.partition("&seal")[0]):
        assert "was retracted." not in client.get(false).text.replace("were", "was")
    client.cookies.clear()
    sign_in(client, keyring, "admin")
    assert "was retracted." not in client.get(target).text  # another session has not done it


def test_a_form_after_the_session_leads_back_to_its_page(client, keyring):
    keyring.create(["admin"])
    page = "http://127.0.0.1/preview?name=ads&source=web"
    for referer, to in ((page, "%2Fpreview%3Fname%3Dads%26source%3Dweb"), ("", "%2F"),
                        ("http://evil.example/x", "%2F")):  # fmt: skip
        answer = client.post("/rule", data={"name": "ads"}, headers={"referer": referer})
        assert answer.headers["location"] == f"/sign-in?to={to}"


def test_a_wrong_key_does_not_lose_the_page(client, keyring):
    keyring.create(["admin"])
    page = client.post("/sign-in", data={"key": "armrace_x_y", "to": "/sources?name=ads"}).text
    assert 'name="to" value="/sources?name=ads"' in page


def form_of(page):
    """The fields of the form that confirms a preview."""
    form = page.partition('id="confirm"')[2].partition("</form>")[0]
    return {
        name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="(.*?)"', form)
    }


def confirm(client, path, **fields):
    """Send the form of a preview; return the page that it leads to."""
    answer = client.post("/rule", data={**form_of(client.get(path).text), **fields})
    return client.get(answer.headers["location"]).text if answer.status_code == 303 else answer.text


PREVIEW = "/preview?name=ads&source=web"


@pytest.mark.parametrize("verdict", ["void", "retract", "hold"])
def test_what_was_taken_back_can_be_released(client, keyring, service, verdict):
    sign_in(client, keyring, "admin")
    before = service.describe("ads").arms
    said = {
        "void": "1 visit was voided",
        "retract": "1 reward was retracted",
        "hold": "1 reward was held",
    }
    assert said[verdict] in confirm(client, f"{PREVIEW}&verdict={verdict}", standing="")
    assert "Nothing would change" in client.get(f"{PREVIEW}&verdict={verdict}").text
    assert "1 visit was released and counts now." in confirm(client, f"{PREVIEW}&verdict=release")
    assert service.describe("ads").arms == before


@pytest.mark.parametrize("later", ["", "yes"])
def test_what_is_done_is_what_was_shown_with_later_visits_if_wanted(
    client, keyring, service, later
):
    sign_in(client, keyring, "admin")
    shown = form_of(client.get(PREVIEW).text)
    service.reward(service.decide("ads", source="web"), 1.0)  # visits come all the time
    done = client.post("/rule", data={**shown, "later": later})
    said = "2 visits were voided" if later else "1 visit was voided"
    assert said in client.get(done.headers["location"]).text
    assert sum(day.visits for each in service.sources("ads") for day in each.days) == (not later)


def test_a_preview_that_is_outdated_changes_nothing_and_leads_to_a_new_one(
    client, keyring, service
):
    sign_in(client, keyring, "admin")
    path = f"{PREVIEW}&since=2020-01-01T00%3A00&verdict=retract"
    shown = form_of(client.get(path).text)
    service.pause_arm("ads", "b")
    answer = client.post("/rule", data=shown)
    assert answer.status_code == 409
    assert "Nothing was changed" in answer.text
    assert "something was changed since the preview" in answer.text
    (link,) = re.findall(r'href="(/preview[^"]*)">New preview', answer.text)
    assert unescape(link) == path
    assert service.history("ads").rulings == []
    assert "1 reward was retracted" in confirm(client, unescape(link))


def test_a_standing_hold_begins_and_ends(client, keyring, service):
    sign_in(client, keyring, "admin")
    confirm(client, f"{PREVIEW}&verdict=hold", standing="yes", reason="a strange subnet")
    page = client.get("/sources?name=ads").text
    assert "held since" in page
    assert ": a strange subnet." in page
    service.reward(service.decide("ads"), 1.0, source="web")
    assert len(service.quarantine("ads")) == 2
    # From a new source, of which nothing has come yet.
    confirm(client, "/preview?name=ads&source=app&verdict=hold", standing="yes")
    assert {each.source for each in service.describe("ads").holds} == {"web", "app"}
    confirm(client, f"{PREVIEW}&verdict=release", standing="yes")
    assert (service.quarantine("ads"), len(service.describe("ads").holds)) == ([], 1)


def test_a_range_of_time_selects_visits(client, keyring):
    sign_in(client, keyring, "admin")
    assert "Visits found</dt><dd>1<" in client.get(f"{PREVIEW}&since=2020-01-01T00:00").text
    page = client.get(f"{PREVIEW}&until=2020-01-01T00:00").text
    assert "Visits found</dt><dd>0<" in page
    assert "No visit comes from this source in this time." in page
    assert 'id="confirm"' not in page


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("&since=yesterday", "since must be a time in UTC, such as 2026-03-01T14:00"),
        ("&until=9999-99-99", "until must be a time in UTC"),
        ("&verdict=delete", "verdict must be one of void, retract, hold, release; got"),
        ("&source=", "sources must"),
    ],
)
def test_a_preview_of_nonsense_is_refused_in_a_sentence(client, fields, sentence):
    answer = client.get(f"{PREVIEW}{fields}")
    assert answer.status_code == 422
    assert sentence in answer.text


HOSTILE = "<script>alert('x')</script>"


def test_actions_say_who_did_what_and_why(service, keyring):
    _, text = keyring.create(["admin"], label=f"fraud {HOSTILE}")
    with browsing(service, proxies=TrustedProxies("X-User", "127.0.0.1")) as client:
        client.follow_redirects = False
        client.post("/sign-in", data={"key": text})
        confirm(client, f"{PREVIEW}&verdict=retract", reason=f"why {HOSTILE}")
        client.headers["x-user"] = f"Ada {HOSTILE}"
        confirm(client, PREVIEW, reason="bots")
        page = client.get("/actions?name=ads").text
        overview = client.get("/experiment?name=ads").text
    safe = str(escape(HOSTILE))
    for words in (f"Ada {safe}", f"fraud {safe}, key ", f"why {safe}", "by source web"):
        assert words in page
    assert f"why {safe}" in overview
    assert HOSTILE not in page + overview
    whats = re.findall(r'<th scope="row">([\w ]+)', page)
    assert whats == ["Voided visits", "Retracted rewards", "Created the experiment"]


def test_actions_go_on_to_earlier_ones(client, service):
    for _ in range(30):
        service.pause_arm("ads", "b")
        service.resume_arm("ads", "b")
    first = client.get("/actions?name=ads").text
    (link,) = re.findall(r'href="(/actions[^"]*)">Earlier', first)
    second = client.get(unescape(link)).text
    assert (first.count('<th scope="row"'), second.count('<th scope="row"')) == (50, 11)
    assert "Created the experiment" in second
    assert (">Latest<" in first, ">Latest<" in second) == (False, True)
    assert client.get("/actions?name=ads&before=x").status_code == 422


def test_an_alarm_can_be_answered_by_starting_afresh(keyring):
    clock = Clock()
    service = Service(MemoryStore(), keyring, clock=clock)
    service.create("quiet", ["a", "b"], 0, policy="ucb1", horizon=10_000)
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000, window=1, seed=1)
    for hour in range(40):
        made = service.decide_many("ads", 50)
        service.reward_many([(each, float((each.arm == "a") == (hour < 20))) for each in made])
        clock.move(3600)
    with browsing(service) as client:
        sign_in(client, keyring, "read")
        page = client.get("/").text  # alarms first, with since when and why
        assert page.index(">ads</a>") < page.index(">quiet</a>")
        assert re.search(r"since 15 Nov \d\d:\d\d: a paid 0\.\d+ before that and 0 since", page)
        page = client.get("/experiment?name=ads").text
        assert "Alarm: rewards changed" in page
        assert "/start-afresh" not in page
        sign_in(client, keyring, "admin")
        page = client.get("/afresh?name=ads").text
        assert "The policy forgets 2,000 decisions" in page
        assert service.describe("ads").generation == 0
        form = {"name": "ads", "token": token_in(page), "reason": "new prices"}
        page = client.post("/start-afresh", data=form).text
        assert "The policy has started afresh" in page
        assert "The policy has started afresh once." in page
        assert "Alarm: rewards changed" not in page
        assert (service.describe("ads").generation, service.actions("ads")[0].reason) == (
            1,
            "new prices",
        )


def test_rewards_that_contradict_others_are_in_the_audit(client, service):
    decision = service.decide("ads")
    service.reward(decision, 1.0)
    with pytest.raises(RewardConflict):
        service.reward(decision, 0.0)
    assert "1 reward was refused because" in client.get("/experiment?name=ads").text


@pytest.mark.parametrize("form", ["/rule", "/start-afresh"])
def test_a_read_key_cannot_change_anything(client, keyring, service, form):
    sign_in(client, keyring, "read")
    token = token_in(client.get("/").text)
    answer = client.post(form, data={"name": "ads", "source": "web", "token": token})
    assert answer.status_code == 403
    assert "scope admin" in answer.text
    assert len(service.actions("ads")) == 1


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_to_this_server(client, keyring, target):
    _, text = keyring.create(["read"])
    answer = client.post("/sign-in", data={"key": text, "to": target})
    assert answer.headers["location"] == "/"


def test_large_forms_are_refused(client, keyring):
    keyring.create(["read"])
    assert client.post("/sign-in", data={"key": "x" * 10_000}).status_code == 413


def test_a_cookie_is_secure_behind_tls(client, keyring):
    _, text = keyring.create(["read"])
    headers = {"x-forwarded-proto": "https"}
    plain = client.post("/sign-in", data={"key": text}).headers["set-cookie"]
    answer = client.post("/sign-in", data={"key": text}, headers=headers)
    assert COOKIE in plain
    assert "Secure" not in plain
    assert "Secure" in answer.headers["set-cookie"]
