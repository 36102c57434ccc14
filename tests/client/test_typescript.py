"""The client for TypeScript on node, and the providers of OpenFeature, against a real server."""

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import armrace
from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from armrace.service.model.events import Decided
from armrace_client.contexts import ContextSchema
from armrace_client.errors import ArmraceError
from armrace_client.leases import Draws, integer_weights
from client.test_leases import VECTORS
from hosting import running
from serving import events, is_replay

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clients" / "typescript"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

CITIES = {"type": "category", "buckets": 4}
FEATURES = {
    "device": {"type": "category", "values": ["ios", "web"]},
    "age": {"type": "number", "low": 0, "high": 100},
    "city": CITIES,
    "new": {"type": "boolean"},
}
LEAVES = {"device": True, "age": [30.0, 50.0], "city": True, "new": True}
AWKWARD = [None, "", "ios", "tv", "é\U0001f600", "x" * 200, "x" * 201, "\U0001f600" * 200, True]
AWKWARD += [False, 0, 29.999, 30, 1e300, -1, 50, "web"]


@pytest.fixture(scope="module")
def built():
    """The client as JavaScript: it compiles only if all types agree."""
    compiler = FOLDER / "node_modules" / ".bin" / "tsc"
    assert compiler.exists(), "the packages of clients/typescript are missing: run make setup"
    done = subprocess.run([compiler, "-p", FOLDER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return FOLDER / "dist" / "test"


def run_tests(built, name, **variables):
    """Run a file of tests with node; they all pass, and none is left out."""
    given = {f"ARMRACE_{name.upper()}": str(value) for name, value in variables.items()}
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", built / f"{name}.test.js"],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# skipped 0" in done.stdout
    return done.stdout


def drawn(seed, stream, weights, leaves, first):
    draws = Draws(seed, stream, weights, leaves)
    arms = [[draws.arm(first + n, leaf) for n in range(500)] for leaf in range(leaves)]
    lease = {"seed": seed.hex(), "stream": stream, "weights": weights, "leaves": leaves}
    return {**lease, "first": first, "arms": arms}


def leaf_or_code(schema, context, key):
    try:
        return schema.encode(context, key).leaf
    except ArmraceError as error:
        return error.code


def encoded(chance, names, missing):
    """Leaves that Python finds for contexts, the most awkward ones included."""
    leaves = {name: LEAVES[name] for name in names}
    plain = {"features": FEATURES, "leaves": leaves, "missing": missing}
    schema, key = ContextSchema.declare(**plain), chance.randbytes(32)
    cases = [{name: value} for name in FEATURES for value in AWKWARD] + [{"plan": 1}, {}]
    usual = {"device": ["ios", "tv"], "age": [17.5, 30, 88], "new": [True, False]}
    for number in range(100):
        context = {name: chance.choice(values) for name, values in usual.items()}
        cases.append({**context, "city": "ab" * number + "é"[: number % 2]})
    found = [[context, leaf_or_code(schema, context, key)] for context in cases]
    return {"schema": plain, "key": key.hex(), "cases": found}


def test_draws_and_leaves_are_those_of_python(built, tmp_path):
    chance = random.Random(1)
    draws = [drawn(*lease, 1, first) for lease, first, _ in VECTORS]
    for arms in range(2, 12):
        rows = [integer_weights([chance.random() for _ in range(arms)]) for _ in range(3)]
        draws.append(
            drawn(
                chance.randbytes(32), arms**9, [each for row in rows for each in row], 3, 10**arms
            )
        )
    contexts = [
        encoded(chance, names, missing)
        for missing in ("refuse", "bucket")
        for names in (["device"], ["city", "age"], list(LEAVES), [])
    ]
    vectors = tmp_path / "vectors.json"
    vectors.write_text(json.dumps({"draws": draws, "contexts": contexts}))
    assert "# pass 3" in run_tests(built, "vectors", vectors=vectors)


@pytest.fixture(scope="module")
def service():
    with Service(MemoryStore()) as service:
        arms = ["red", "green"]
        for name in ("banners", "decisions", "rewards", "leased", "flags", "stopped"):
            service.create(name, arms, 0, policy="tsallis-inf", seed=1)
        service.create("switch", ["true", "false"], 0, policy="tsallis-inf", seed=1)
        service.create("unleasable", arms, 0, policy="ucb1", horizon=100)
        features = {name: FEATURES[name] for name in ("device", "age", "city")}
        leaves = {name: LEAVES[name] for name in features}
        leafy = {"policy": "leaf-barrier", "horizon": 1000}
        service.create("leafy", arms, 0, **leafy, context=features, leaves=leaves, seed=1)
        service.pause("stopped")
        yield service


@pytest.fixture(scope="module")
def address(service):
    server = Server(create_application(service, declared_open=True), "127.0.0.1", 0)
    with running(server) as (host, port):
        yield f"http://{host}:{port}"


def test_the_client_decides_rewards_and_leases(built, service, address):
    run_tests(built, "service", address=address)
    rows = service.rows("rewards")
    assert [row.reward for row in rows[:40]] == [1.0] * 40
    assert {row.source for row in rows[:40]} == {"queue"}
    assert sum(row.reward or 0 for row in rows) == 40
    for name in ("leased", "leafy"):
        visits = [event for _, event in events(service, name) if isinstance(event, Decided)]
        assert len(visits) == 80
        assert {visit.by for visit in visits} == {"lease"}
        assert len({(visit.lease, visit.draw) for visit in visits}) == 80
        assert len({visit.lease for visit in visits}) >= 4
        # The service has drawn each arm again: it is the one that was rewarded as such.
        assert {(row.arm, row.reward) for row in service.rows(name)} == {("red", 1), ("green", 0)}
        assert is_replay(service, name)


def test_openfeature_decides_on_servers_and_pages(built, service, address):
    run_tests(built, "openfeature", address=address)
    assert service.describe("flags").decisions == 2
    assert service.describe("stopped").decisions == 0
    assert [view.labels for view in service.rows("flags")][-1] == {"evaluation": "bulk"}


def test_the_example_of_the_guide_runs(built, service, address):
    page = (ROOT / "docs" / "guide" / "other-languages.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```typescript\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = example.replace('"armrace-client"', f'"{built.parent}/src/index.js"')
    script = script.replace("https://bandits.example", address)
    script = f"const show = (arm) => console.log(arm);\n{script}"
    done = subprocess.run(
        [NODE, "--input-type=module"], input=script, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["red"] * 2, ["green"] * 2, ["red", "green"], ["green", "red"])
    assert [row.reward for row in service.rows("banners")] == [1.0, 1.0]


def test_the_lock_names_every_package_by_its_digest_and_no_host():
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert len(packages) > 8
    for name, each in packages.items():
        assert each["integrity"].startswith("sha512-"), name
        assert "resolved" not in each, name
    manifest = json.loads((FOLDER / "package.json").read_text())
    assert manifest["version"] == armrace.__version__.partition(".dev")[0]
    assert "dependencies" not in manifest
    assert all(version[0].isdigit() for version in manifest["devDependencies"].values())
