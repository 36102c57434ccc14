"""The files in ``deploy/``, without containers: what they start is started here."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psycopg
import pytest
import yaml

import armrace
from armrace.kernels.machine_code import folders
from databases import Postgres
from hosting import free_port
from processes import python
from service.test_nginx import (
    NGINX,
    ROOT,
    Proxy,
    configuration,
    process,
    replaced,
    running,
    wait_until_ready,
)

DEPLOY = ROOT / "deploy"
PROGRAM = str(Path(sys.executable).with_name("armrace"))
ANALYZE = shutil.which("systemd-analyze")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
SERVICE, STATEFUL = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
POD = STATEFUL["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
STATE = "/var/lib/armrace"
PORT = 8380
"""The default of ``armrace serve``, which all these files rely on."""


def image() -> list[tuple[str, str]]:
    """The instructions of the Containerfile."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def last_stage(name: str) -> list[str]:
    """What the last stage of the image says with an instruction."""
    steps = image()
    begin = max(number for number, (step, _) in enumerate(steps) if step == "FROM")
    return [rest for step, rest in steps[begin:] if step == name]


def variables() -> dict[str, str]:
    """The environment of the image."""
    return dict(pair.split("=", 1) for line in last_stage("ENV") for pair in shlex.split(line))


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / "armrace.service")
    return parser["Service"]


@contextmanager
def served(command: list[str], environment: dict[str, str]):
    """A server with an environment of its own, ended as a supervisor does; yields its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    inherited = {"PATH": os.environ["PATH"], "NUMBA_CACHE_DIR": str(folders()[0])}
    own = {**inherited, **environment, "ARMRACE_HOST": "127.0.0.1", "ARMRACE_PORT": str(port)}
    with process(["env", "-i", *(f"{name}={own[name]}" for name in own), *command], signal.SIGTERM):
        with httpx2.Client(base_url=address) as client:
            wait_until_ready(client)
        yield address


def made_key(*options: str, **environment: str) -> str:
    """An admin key, made before the first start."""
    line = ["-m", "armrace", "keys", "create", "--scopes", "admin", *options]
    made = python(*line, check=True, env={**os.environ, **environment})
    return made.stdout.strip()


def check_decides(address: str, key: str, **options) -> None:
    with armrace.Client(address, key=key, **options) as remote:
        remote.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        assert remote.reward(remote.decide("ads"), 1.0) == "accepted"


def test_the_unit_starts_a_server(tmp_path):
    state = tmp_path / unit()["StateDirectory"]
    state.mkdir(int(unit()["StateDirectoryMode"], 8))
    command = shlex.split(replaced(unit()["ExecStart"], state=("%S", str(tmp_path))))
    assert command[0] == "/opt/armrace/bin/armrace"
    cache = f"%C/{unit()['CacheDirectory']}"
    environment = replaced(unit()["Environment"], cache=(cache, str(folders()[0])))
    key = made_key("--store", command[command.index("--store") + 1])
    with served([PROGRAM, *command[1:]], dict([environment.split("=", 1)])) as address:
        check_decides(address, key)
    assert (state / "armrace.db").exists()


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_its_exposure_is_low(tmp_path):
    file = tmp_path / "armrace.service"
    text = (DEPLOY / "armrace.service").read_text()
    file.write_text(replaced(text, program=("/opt/armrace/bin/armrace", PROGRAM)))

    def analyze(*words: str) -> str:
        run = subprocess.run(
            [str(ANALYZE), *words, str(file)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout + run.stderr

    assert analyze("verify") == ""
    analyze("security", "--offline=yes", "--threshold=15")  # an exposure of at most 1.5 in 10


def test_the_image_is_made_of_files_that_are_there_and_runs_as_another_user():
    for name, rest in image():
        *sources, _ = rest.split()
        if name == "COPY" and "--from=build" not in sources:
            assert all((ROOT / source).exists() for source in sources), rest
    (user,) = last_stage("USER")
    assert user == "10001:10001"
    assert any(rest == f"mkdir -m 700 {STATE} && chown {user} {STATE}" for _, rest in image())
    assert {"--attacks"} == options_of(["warm-up", *warm_up()[1:]])
    # The code is asked for by the processor that it was compiled for.
    built = [rest for name, rest in image() if name == "ENV" and "NUMBA" in rest]
    assert len(built) == 2
    assert len(set(built)) == 1


def warm_up() -> list[str]:
    (line,) = [rest for name, rest in image() if name == "RUN" and " warm-up " in rest]
    program, *words = line.split()
    assert program == "/opt/armrace/bin/armrace"
    return words


def options_of(command: list[str]) -> set[str]:
    """The options of a command line, each of which the program has."""
    name, *words = command
    shown = set(re.findall(r"--[a-z-]+", python("-m", "armrace", name, "--help").stdout))
    found = {word for word in words if word.startswith("--")}
    assert found <= shown
    return found


def test_the_image_serves_and_its_health_check_notices(tmp_path):
    entry, command = (json.loads(*last_stage(name)) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["/opt/armrace/bin/armrace"]
    (check,) = last_stage("HEALTHCHECK")
    probe = json.loads(check.partition(" CMD ")[2])
    assert probe[0] == "/opt/armrace/bin/python"
    given = variables()
    assert given.pop("ARMRACE_HOST") == "0.0.0.0"
    assert Path(given.pop("NUMBA_CACHE_DIR")).is_relative_to("/opt/armrace")
    store = given["ARMRACE_STORE"] = given["ARMRACE_STORE"].replace(STATE, str(tmp_path))
    # Other variables name a processor for which the tests' machine has no code.
    given = {name: value for name, value in given.items() if not name.startswith("NUMBA_")}
    key = made_key(ARMRACE_STORE=store)
    with served([PROGRAM, *command], given) as address:
        check_decides(address, key)
        probe[-1] = replaced(probe[-1], address=(f"http://127.0.0.1:{PORT}", address))
        assert python(*probe[1:]).returncode == 0
    assert python(*probe[1:]).returncode != 0


def test_containers_have_no_rights_that_they_do_not_need():
    compose = COMPOSE["armrace"]
    assert compose["read_only"]
    assert compose["cap_drop"] == ["ALL"]
    assert compose["volumes"] == [f"keys:{STATE}"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert not POD["automountServiceAccountToken"]
    assert f"{POD['securityContext']['runAsUser']}:10001" == last_stage("USER")[0]
    allowed = CONTAINER["securityContext"]
    assert allowed["readOnlyRootFilesystem"]
    assert not allowed["allowPrivilegeEscalation"]
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    mounts = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    assert mounts == {"state": STATE, "temporary": "/tmp"}
    (claim,) = STATEFUL["spec"]["volumeClaimTemplates"]
    volumes = {each["name"] for each in POD["volumes"]} | {claim["metadata"]["name"]}
    assert volumes == set(mounts)


def test_ports_and_names_agree():
    assert last_stage("EXPOSE") == [str(PORT)]
    assert f"server 127.0.0.1:{PORT};" in configuration()
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": PORT}]
    assert SERVICE["spec"]["ports"] == [{"name": "http", "port": PORT, "targetPort": "http"}]
    labels = STATEFUL["spec"]["template"]["metadata"]["labels"]
    assert labels == SERVICE["spec"]["selector"] == STATEFUL["spec"]["selector"]["matchLabels"]
    assert COMPOSE["armrace"]["image"] == CONTAINER["image"]
    # Kubernetes would set ARMRACE_PORT=tcp://... for the Service, and the server would not start.
    assert not POD["enableServiceLinks"]
    assert "PGPASSWORD" in COMPOSE["armrace"]["environment"]
    (variable,) = CONTAINER["env"]
    assert variable["name"] == "PGPASSWORD"
    assert variable["valueFrom"].keys() == {"secretKeyRef"}


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_the_service_of_compose_and_of_kubernetes_decides_behind_nginx(tmp_path):
    command = COMPOSE["armrace"]["command"]
    assert command == CONTAINER["args"]
    assert options_of(command) == {"--store", "--keys", "--per-address"}
    with TemporaryDirectory(prefix="armrace-pg-", ignore_cleanup_errors=True) as folder:
        postgres = Postgres(Path(folder))
        postgres.start()
        try:
            ask_for_password(postgres)
            check_compose(command, f"postgresql://armrace@/armrace?host={folder}", tmp_path)
        finally:
            postgres.stop()


def ask_for_password(postgres: Postgres) -> None:
    """Make the database that the image of PostgreSQL makes, with a password."""
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("CREATE DATABASE armrace")
        connection.execute("ALTER USER armrace PASSWORD 'secret'")
        rules = postgres.folder / "data" / "pg_hba.conf"
        rules.write_text("local all all scram-sha-256\n")
        connection.execute("SELECT pg_reload_conf()")


def check_compose(command: list[str], store: str, folder: Path) -> None:
    state, site = folder / "state", folder / "nginx"
    site.mkdir()
    state.mkdir()
    state.chmod(0o2770)  # as Kubernetes makes a volume with fsGroup
    line = [word.replace(STATE, str(state)) for word in command]
    line[line.index("--store") + 1] = store
    keys = line[line.index("--keys") + 1]
    secret = {"PGPASSWORD": "secret"}
    key = made_key("--store", store, "--keys", keys, **secret)
    with served([PROGRAM, *line], secret) as address:
        for probe in ("readinessProbe", "livenessProbe"):
            get = CONTAINER[probe]["httpGet"]
            assert get["port"] == "http"
            assert httpx2.get(address + get["path"]).status_code == 200
        # What comes before the start of nginx is run as the container does.
        shell, option, script = COMPOSE["nginx"]["command"]
        written = folder / "default.conf"
        script, _, start = script.replace("/etc/armrace", str(DEPLOY)).partition(" && ")
        assert start == "exec nginx -g 'daemon off;'"
        script = script.replace("/etc/nginx/conf.d/default.conf", str(written))
        subprocess.run([shell, option, script], check=True)
        text = replaced(
            written.read_text(), server=(f"armrace:{PORT}", address.removeprefix("http://"))
        )
        with running(Proxy(site, text)) as proxy:
            transport = httpx2.HTTPTransport(verify=proxy.trust)
            check_decides(proxy.address, key, transport=transport)
