"""Verdicts from files: void, retract, hold and release, on a store and over HTTP."""

import gzip
import io
import json
import random
import sys
from types import SimpleNamespace

import polars as pl
import pytest

from armrace.cli.main import run
from armrace.files.spreadsheets import csv_text
from armrace.offline.identifiers import IdentifierFile
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.model.events import Ruled
from armrace.service.service import open_service
from armrace_client import Client
from armrace_client.operations import Visit
from hosting import hosted
from processes import python
from serving import events

VISITS = [
    Visit(unit=f"unit {n}", request=f"call {n}", source=f"web{n % 3}", labels={"click": f"c{n}"})
    for n in range(12)
]


def fill(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=60, horizon=1000)
    made = service.decide_batch("ads", VISITS).made()
    service.reward_many([(each, 1.0) for each in made[:8]])
    return made


@pytest.fixture
def store(tmp_path):
    """A store with twelve visits, of which eight have a reward."""
    place = str(tmp_path / "ads.db")
    with open_service(place) as service:
        made = fill(service)
    return SimpleNamespace(place=place, decisions=[each.decision for each in made])


def rule(store, capsys, verdict, path, *more):
    """Run a command; return its figures and what it says on standard error."""
    line = [verdict, "ads", str(path), *more, "--store", store.place, "--json", "-"]
    code = run(line)
    out, error = capsys.readouterr()
    assert code == 0, error
    return json.loads(out), error


def voided(store):
    with open_service(store.place) as service:
        return [place for place, row in enumerate(service.rows("ads")) if row.void]


ROWS = ["unit 3", "unit 7", "nobody"]


def as_csv(path):
    path.write_text('when,unit,rule\n1,"unit 3",fast\n2,unit 7,"many, many"\n3,nobody,fast\n')


def as_gzip(path):
    path.write_bytes(gzip.compress(b"unit;when\nunit 3;1\nunit 7;2\nnobody;3\n"))


def as_ndjson(path):
    path.write_text("".join(json.dumps({"unit": each}) + "\n" for each in ROWS))


def as_parquet(path):
    pl.DataFrame({"unit": ROWS}).write_parquet(path)


def as_text(path):
    path.write_text("\n".join(ROWS))


def as_text_with_header(path):
    path.write_text("unit\n" + "\n".join(ROWS))


@pytest.mark.parametrize(
    "write", [as_csv, as_gzip, as_ndjson, as_parquet, as_text, as_text_with_header]
)
def test_a_file_of_any_form_names_the_same_visits(store, tmp_path, capsys, write):
    write(tmp_path / "names")
    found, _ = rule(store, capsys, "void", tmp_path / "names", "--by", "unit")
    assert {k: found[k] for k in ("names", "unknown", "visits", "changed")} == {
        "names": 3,
        "unknown": 1,
        "visits": 2,
        "changed": 2,
    }
    assert voided(store) == [3, 7]
    again, _ = rule(store, capsys, "void", tmp_path / "names", "--by", "unit")
    assert (again["changed"], again["unchanged"], again["unknown"]) == (0, 2, 1)
    back, _ = rule(store, capsys, "release", tmp_path / "names", "--by", "unit")
    assert (back["changed"], voided(store)) == (2, [])


def test_the_parquet_file_of_a_query_of_duckdb_is_ruled_on(store, tmp_path, capsys):
    bots = tmp_path / "bots.parquet"
    query = "SELECT 'unit ' || n AS visitor, 'clicks: ' || n AS rule FROM range(3, 6) AS b(n)"
    copy = f"COPY ({query}) TO '{bots}'"
    python("-c", f"import duckdb; duckdb.sql({copy!r})", check=True)
    more = ("--by", "unit", "--column", "visitor", "--reason-column", "rule")
    assert rule(store, capsys, "void", bots, *more)[0]["changed"] == 3
    with open_service(store.place) as service:
        said = {each.reason for _, each in events(service) if isinstance(each, Ruled)}
    assert said == {"clicks: 3", "clicks: 4", "clicks: 5"}
    assert voided(store) == [3, 4, 5]


def test_standard_input_is_read(store, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"unit 3\nunit 4\n")))
    found, error = rule(store, capsys, "void", "-", "--by", "unit")
    assert found["changed"] == 2
    assert "2 of 2 rows are used." in error


def test_visits_are_named_in_each_way(store, tmp_path, capsys):
    path = tmp_path / "names.csv"
    path.write_text("name\n" + store.decisions[1] + "\n4\n")  # exports show numbers
    found, _ = rule(store, capsys, "hold", path, "--by", "decision", "--column", "name")
    assert (found["visits"], found["changed"]) == (2, 2)
    path.write_text("click,b\nc1,1\nc2,1\nc99,1\n")
    found, _ = rule(store, capsys, "retract", path, "--by", "label:click")
    assert (found["visits"], found["changed"], found["unknown"]) == (2, 2, 1)
    for by, name, visits in (("request", "call 5", 1), ("source", "web2", 4)):
        path.write_text(f"{by}\n{name}\n")
        found, _ = rule(store, capsys, "void", path, "--by", by, "--until", "2100-01-01")
        assert found["visits"] == visits
        found, _ = rule(store, capsys, "void", path, "--by", by, "--since", "2100-01-01T10:00")
        assert (found["visits"], found["unchanged"]) == (0, 0)


def test_units_are_found_by_their_hashes_in_an_export(store, tmp_path, capsys):
    with open_service(store.place) as service:
        rows = service.rows("ads")
    path = tmp_path / "hashes.csv"
    path.write_text("unit,request\n" + f"{rows[2].unit},{rows[2].request}\n")
    assert rule(store, capsys, "void", path, "--by", "unit")[0]["changed"] == 1
    assert rule(store, capsys, "release", path, "--by", "request")[0]["changed"] == 1


def test_each_row_keeps_its_reason(store, tmp_path, capsys):
    as_csv(tmp_path / "names.csv")
    more = ("--by", "unit", "--reason-column", "rule")
    rule(store, capsys, "void", tmp_path / "names.csv", *more)
    with open_service(store.place) as service:
        ruled = [each for _, each in events(service) if isinstance(each, Ruled)]
        first, second = ([r.decision for r in service.rows("ads")][at] for at in (3, 7))
    said = {each.reason: each.decisions for each in ruled}
    assert said == {"fast": [first], "many, many": [second]}


def test_a_preview_changes_nothing(store, tmp_path, capsys):
    as_csv(tmp_path / "names.csv")
    line = ["void", "ads", str(tmp_path / "names.csv"), "--by", "unit", "--store", store.place]
    assert run([*line, "--preview"]) == 0
    out = capsys.readouterr().out
    assert "2 visits would be voided, of 2 visits that 3 names select." in out
    assert "1 name is unknown, and 0 have nothing that is not voided already." in out
    assert voided(store) == []


def test_unknown_and_ruled_names_are_reported(store, tmp_path, capsys):
    path, report = tmp_path / "names.csv", tmp_path / "report.csv"
    path.write_text('unit,x\nunit 1,1\n"=cmd()",1\nunit 9,1\n')
    rule(store, capsys, "retract", path, "--by", "unit", "--report", str(report))
    rows = set(report.read_text().splitlines())
    # Visit 9 has no reward that could be retracted. A spreadsheet must not calculate a name.
    assert rows == {"name,status", "'=cmd(),unknown", "unit 9,already ruled"}


def test_broken_rows_are_counted_by_their_reason(store, tmp_path, capsys):
    path = tmp_path / "names.csv"
    long = "x" * 201
    path.write_bytes(
        b"unit,x\nunit 1,1\n,1\nunit 2,1,2,3\n" + long.encode() + b",1\nunit \xff,1\nunit 1,2\n"
    )
    found, error = rule(store, capsys, "void", path, "--by", "unit")
    assert (found["names"], found["changed"]) == (1, 1)
    assert "2 of 6 rows (33.3%) are used." in error
    for reason in (
        "1 row left out: the identifier is missing (row 2).",
        "1 row left out: more fields than the header has (row 3).",
        "1 row left out: the identifier has more than 200 characters (row 4).",
        "1 row left out: the identifier is not in UTF-8, to which the file must be converted",
    ):
        assert reason in error
    path.write_text('{"click": "%s"}\n{"click": {"a": 1}}\nno\n{"click": "c1"}\n' % ("é" * 33))
    found, error = rule(store, capsys, "void", path, "--by", "label:click")
    assert (found["names"], found["unchanged"]) == (1, 1)
    assert "1 row left out: the identifier is a list or an object (row 2)." in error
    assert "the identifier has more than 64 bytes" in error
    assert "not a JSON object (row 3)" in error


@pytest.mark.parametrize(
    ("content", "more", "sentence"),
    [
        (
            b"unit,x\na,1\n",
            ["--by", "visitor"],
            "by must be decision, request, unit, source or label:NAME; got 'visitor'",
        ),
        (
            b"units,x\na,1\n",
            ["--by", "unit"],
            "the file has no column 'unit' for the identifier; did you",
        ),
        (b"unit,x\na,1\n", ["--by", "unit", "--reason-column", "why"], "no column 'why'"),
        (b"", ["--by", "unit"], "is empty."),
        (b"unit,x\n,1\n", ["--by", "unit"], "no row of"),
        (b"unit,x\na,1\n", ["--by", "unit", "--since", "noon"], "since must be a time in UTC"),
        (
            b"unit\na\n",
            ["--by", "unit", "--since", "2026-03-02", "--until", "2026-03-01"],
            "since must be before until; got 2026-03-02 00:00 UTC and 2026-03-01 00:00 UTC.",
        ),
        (b"unit\na\n", ["--by", "unit", "--server", "http://x"], "a server or a store, not both"),
        (b"PAR1unit", ["--by", "unit"], "cannot be read"),
        (b"\x00\x01\x02", ["--by", "unit"], "is not a CSV, NDJSON or Parquet file."),
    ],
)
def test_what_cannot_be_used_is_refused(store, tmp_path, capsys, content, more, sentence):
    (tmp_path / "names").write_bytes(content)
    code = run(["void", "ads", str(tmp_path / "names"), "--store", store.place, *more])
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert sentence in error
    assert voided(store) == []


def test_messages_about_standard_input_do_not_name_a_temporary_file(store, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert run(["void", "ads", "-", "--by", "unit", "--store", store.place]) == 2
    assert capsys.readouterr().err == "armrace: standard input is empty.\n"


def test_a_file_is_ruled_on_over_http(tmp_path, capsys, monkeypatch):
    keyring = Keyring()
    keys = {scope: keyring.create([scope])[1] for scope in ("admin", "read")}
    service = Service(MemoryStore(), keyring)
    fill(service)
    as_text(tmp_path / "names.txt")
    with hosted(service) as address:
        line = ["void", "ads", str(tmp_path / "names.txt"), "--by", "unit", "--server", address]
        assert run([*line, "--key", keys["read"]]) == 2
        assert "does not have the scope admin" in capsys.readouterr().err
        monkeypatch.setenv("ARMRACE_KEY", keys["admin"])
        assert run(line) == 0
        assert "2 visits were voided" in capsys.readouterr().out
        assert [row.void for row in service.rows("ads")].count(True) == 2
        with Client(address, keys["admin"]) as client:
            actions = client.actions("ads")
    assert (actions[0].action, actions[0].detail) == ("void", "2 visits by 3 units")


def lines_of(form, broken):
    for number in range(10 * len(broken)):
        name = broken[number // 10] if number % 10 == 3 else f"unit {number}"
        yield f"{name},fast" if form == "csv" else json.dumps({"unit": name, "rule": "fast"})


@pytest.mark.parametrize("rows", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_of_a_long_file_all_rows_are_used_that_can_be(tmp_path, rows):
    """A tenth of the rows is broken, in four ways."""
    kinds = {"csv": ["", "x" * 300, "a,b,c", "x\ufffd"], "ndjson": ["", "x" * 300, {"a": 1}, [1]]}
    for form, ways in kinds.items():
        path = tmp_path / f"names.{form}"
        broken = [ways[number % 4] for number in range(rows // 10)]
        head = ["unit,rule"] if form == "csv" else []
        path.write_text("\n".join([*head, *lines_of(form, broken)]))
        read = IdentifierFile(path, "unit", None, "rule")
        assert (read.report.rows, read.report.used) == (rows, rows - rows // 10)
        assert sum(each.rows for each in read.report.problems) == rows // 10
        assert sum(len(part.identifiers) for part in read.parts(2**20)) == rows - rows // 10


def test_a_large_file_is_ruled_on_in_parts_that_fit_a_request(tmp_path, monkeypatch):
    names = [f"unit {number:08d}" for number in range(5000)]
    random.Random(1).shuffle(names)
    path = tmp_path / "names.txt"
    path.write_text("\n".join([*names, *names[:100], 'a"b']))
    read = IdentifierFile(path, "unit")
    assert read.report.used == 5101
    parts = list(read.parts(20_000))
    assert sorted(each for part in parts for each in part.identifiers) == sorted([*names, 'a"b'])
    assert len(parts) > 3
    assert max(len(json.dumps(part.identifiers, separators=(",", ":"))) for part in parts) <= 20_000


def test_cells_that_begin_as_formulas_stay_text():
    given = ["=1", "+1", "-1", "@x", "\t=1", "a=1", "", -1]
    assert csv_text([given]) == "'=1,'+1,'-1,'@x,'\t=1,a=1,,-1\n"
