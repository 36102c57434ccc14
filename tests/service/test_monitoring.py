"""The rules and the dashboard in ``deploy/``, against what a server exposes."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import armrace_client.errors
from armrace.service import Service
from armrace.service.http.application import create_application
from armrace.service.http.webhooks import WebhookSettings
from armrace.service.log.sqlite import SqliteStore
from service.test_deploy import DEPLOY
from serving import LOCAL, Clock, attacked

PROMTOOL = shutil.which("promtool")
RULES = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
ALERTS = {each["alert"]: each for group in RULES for each in group["rules"]}
BOARD = json.loads((DEPLOY / "grafana.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    """The labels of every sample that a server exposes, by its name."""
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "secret").write_text("whsec_" + "A" * 40)
    hook = WebhookSettings("http://127.0.0.1:9/", folder / "secret", "http://localhost")
    clock = Clock()
    service = Service(SqliteStore(folder / "clicks.db"), clock=clock)
    attacked(service, clock)
    service.back_up(folder / "copy.db")
    application = create_application(service, declared_open=True, webhook=hook)
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        client.get("/v1/experiments/none")
        text = client.get("/metrics").text
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics_in(expression):
    return set(re.findall(r"\barmrace_[a-z_]+", expression))


def test_every_expression_asks_for_what_a_server_exposes(exposed):
    used = set()
    for expression in [*QUERIES, *(each["expr"] for each in ALERTS.values())]:
        names = metrics_in(expression)
        assert names <= exposed.keys(), expression
        assert names or "up{" in expression
        used |= names
        labels = {"job", "instance"}.union(*(exposed[name] for name in names))
        asked = re.findall(r"(\w+)=~?\"", expression)
        asked += [
            each
            for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
            for each in group.split(", ")
        ]
        assert set(asked) <= labels, expression
    assert exposed.keys() - used == {"armrace_request_seconds_count", "armrace_request_seconds_sum"}


def test_codes_that_rules_count_are_codes_of_the_service():
    codes = {
        each.code
        for each in vars(armrace_client.errors).values()
        if isinstance(each, type) and hasattr(each, "code")
    }
    counted = {
        code for rule in ALERTS.values() for code in re.findall('code="(.*?)"', rule["expr"])
    }
    assert counted == {"reward-conflict", "too-many-open"}
    assert counted <= codes


def test_alerts_say_what_to_look_at():
    for name, rule in ALERTS.items():
        assert name.startswith("Armrace")
        assert rule["labels"]["severity"] in ("page", "ticket")
        summary = rule["annotations"]["summary"]
        assert summary.endswith(".")
        for label in re.findall(r"\$labels\.(\w+)", summary):
            assert label in ("instance", "experiment")
            assert (label == "experiment") == ("armrace_experiment_" in rule["expr"])


def test_the_dashboard_is_one_that_grafana_takes():
    assert BOARD["schemaVersion"] >= 36
    panels = BOARD["panels"]
    assert sorted(each["id"] for each in panels) == list(range(1, len(panels) + 1))
    taken = set()
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries")
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        references = [each["refId"] for each in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    declared = {each["name"] for each in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps([panels, BOARD["templating"]]))) == {
        "__all",
        *declared,
    }


def checked(*arguments, folder):
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_takes_the_configuration_and_every_expression(tmp_path):
    for name in ("alerts.yaml", "prometheus.yaml"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "armrace.key").write_text("armrace_key")
    checked("check", "config", "--lint-fatal", "prometheus.yaml", folder=tmp_path)
    recorded = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$\w+", ".*", query)}
        for number, query in enumerate(QUERIES)
    ]
    rules = {"groups": [{"name": "panels", "rules": recorded}]}
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump(rules))
    checked("check", "rules", "panels.yaml", folder=tmp_path)


HERE, ADS = 'job="armrace", instance="a"', 'tenant="main", experiment="ads"'
FIRING = {
    "ArmraceAlarm": (ADS, {f"armrace_experiment_alarms{{{ADS}}}": "0x10 2x5000"}),
    "ArmraceTopSourceGrows": (
        ADS,
        {f"armrace_experiment_top_source_share{{{ADS}}}": "0.2x3900 0.75x1000"},
    ),
    "ArmraceRewardsStopped": (
        ADS,
        {
            f"armrace_experiment_last_reward_timestamp_seconds{{{ADS}}}": "0x5000",
            f"armrace_experiment_decisions{{{ADS}}}": "0+10x5000",
        },
    ),
    "ArmraceRewardConflicts": (
        HERE,
        {f'armrace_refusals_total{{{HERE}, code="reward-conflict"}}': "0+2x5000"},
    ),
    "ArmraceTooManyOpen": (
        HERE,
        {f'armrace_refusals_total{{{HERE}, code="too-many-open"}}': "0+1x5000"},
    ),
    "ArmraceDown": (HERE, {f"up{{{HERE}}}": "1x10 0x5000"}),
    "ArmraceErrors": (
        HERE,
        {
            f'armrace_requests_total{{{HERE}, status="200"}}': "0+90x5000",
            f'armrace_requests_total{{{HERE}, status="503"}}': "0+10x5000",
        },
    ),
    "ArmraceSlow": (
        HERE,
        {
            f'armrace_request_seconds_bucket{{{HERE}, le="0.25"}}': "0+90x5000",
            f'armrace_request_seconds_bucket{{{HERE}, le="1"}}': "0+100x5000",
            f'armrace_request_seconds_bucket{{{HERE}, le="+Inf"}}': "0+100x5000",
        },
    ),
    "ArmraceKeysUnreadable": (HERE, {f"armrace_keys_readable{{{HERE}}}": "1x10 0x5000"}),
    "ArmraceDiskFillsUp": (
        HERE,
        {
            f"armrace_store_free_bytes{{{HERE}}}": "2.6e10-5e6x5000",  # 6e9 are left
            f"armrace_last_backup_timestamp_seconds{{{HERE}}}": "0+60x5000",
        },
    ),
    "ArmraceBackupMissing": (
        HERE,
        {f"armrace_last_backup_timestamp_seconds{{{HERE}}}": "0x5000"},
    ),
    "ArmraceNeverBackedUp": (HERE, {f"armrace_store_free_bytes{{{HERE}}}": "9e11x5000"}),
    "ArmraceWebhookWaits": (HERE, {f"armrace_webhook_waiting{{{HERE}}}": "0x10 1x5000"}),
}
"""The labels of each alert, and series, a value a minute, at whose 4000th minute it fires."""
CALM = {
    f"armrace_experiment_alarms{{{ADS}}}": "0x5000",
    f"armrace_experiment_top_source_share{{{ADS}}}": "1x5000",  # it has but one source
    f"armrace_experiment_last_reward_timestamp_seconds{{{ADS}}}": "0+60x5000",
    f"armrace_experiment_decisions{{{ADS}}}": "0+10x5000",
    f'armrace_refusals_total{{{HERE}, code="unknown-name"}}': "0+9x5000",
    f"up{{{HERE}}}": "1x5000",
    f'armrace_requests_total{{{HERE}, status="200"}}': "0+900x5000",
    f'armrace_requests_total{{{HERE}, status="503"}}': "0+1x5000",
    f'armrace_request_seconds_bucket{{{HERE}, le="0.25"}}': "0+1000x5000",
    f'armrace_request_seconds_bucket{{{HERE}, le="+Inf"}}': "0+1001x5000",
    f"armrace_keys_readable{{{HERE}}}": "1x5000",
    f"armrace_store_free_bytes{{{HERE}}}": "9e11-1e6x5000",
    f"armrace_last_backup_timestamp_seconds{{{HERE}}}": "0+60x5000",
    f"armrace_webhook_waiting{{{HERE}}}": "0x5000",
}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_every_alert_fires_when_it_should_and_none_on_a_calm_day(tmp_path):
    assert FIRING.keys() == ALERTS.keys()
    plain = [{key: each[key] for key in each if key != "annotations"} for each in ALERTS.values()]
    rules = {"groups": [{"name": "armrace", "rules": plain}]}
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))

    def group(series, expected):
        return {
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "alert_rule_test": [
                {"eval_time": "4000m", "alertname": name, "exp_alerts": expected.get(name, [])}
                for name in ALERTS
            ],
        }

    tests = [group(CALM, {})]
    for name, (labels, series) in FIRING.items():
        own = dict(re.findall(r'(\w+)="(.*?)"', labels)) | ALERTS[name]["labels"]
        tests.append(group(series, {name: [{"exp_labels": own}]}))
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests})
    )
    checked("test", "rules", "tests.yaml", folder=tmp_path)
