"""Feeding the service from a log, and back."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import AlreadyExists, InvalidParameter
from armrace.kernels.compiling import NotCompiled
from armrace.service import imports
from armrace.service.imports import (
    LoggedRow,
    import_rows,
    rows_of,
    rows_of_export,
    survey_export,
)
from armrace.service.model.events import Decided, Rewarded
from armrace.service.model.settings import Settings, make_settings
from armrace.service.work import Work
from armrace_client.operations import Create
from replay_reference import make_log
from serving import events, is_replay, live

MEANS = (0.3, 0.7)
OWN = (
    "time",
    "arm",
    "probability",
    "reward",
    "reward_time",
    "source",
    "suspicion",
    "counts",
    "labels",
    "void",
)


def settings_of(arms: list[str], missing, *, seed: int, **more) -> Settings:
    return make_settings(Create("shop", arms, missing, **more), seed)


def exported(service, name: str, path: Path) -> pl.DataFrame:
    service.export(name, path)
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ndjson(path)


def live_export(path: Path) -> pl.DataFrame:
    """What a service exports that has decided itself: late, missing and retracted rewards."""
    with armrace.open(":memory:") as service:
        service.create("shop", ["a", "b"], missing=0, policy="exp3", seed=1)
        decisions = [
            service.decide("shop", unit=f"visitor {number}", labels={"page": str(number % 7)})
            for number in range(60)
        ]
        for number, decision in enumerate(decisions[:50]):
            value = (number % 3) / 2
            service.reward(decision, value, source=f"net {number % 2}", suspicion=number / 100)
        service.retract("shop", sources=["net 1"], reason="bots")
        service.void("shop", labels={"page": "6"}, reason="scrapers")
        return exported(service, "shop", path)


@pytest.mark.parametrize("ending", ["parquet", "ndjson"])
def test_what_is_exported_can_be_imported_without_a_loss(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"first.{ending}"
    first = live_export(path)
    assert first["counts"].to_list().count(False) == 29
    assert first["reward"].null_count() == 10
    assert first["void"].sum() == 8
    arms, least = survey_export(path)
    settings = settings_of(arms, 0, policy="exp3", seed=1)
    with armrace.open(":memory:") as service:
        found = import_rows(service, "shop", rows_of_export(path), settings, least)
        second = exported(service, "shop", tmp_path / f"second.{ending}")
    assert (found.rows, found.rewards, found.retracted, found.voided) == (60, 50, 22, 8)
    assert second.select(OWN).equals(first.select(OWN))


def test_an_imported_log_comes_back_bit_for_bit_through_the_shell(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = make_log(2000, MEANS, (0.3, 0.7), seed=1).with_columns(
        time=pl.int_range(2000) * 1000 + 1_700_000_000_000, visitor=pl.int_range(2000)
    )
    log.write_parquet("log.parquet")
    columns = ["--arm", "arm", "--reward", "reward", "--propensity", "propensity"]
    columns += ["--time", "time", "--unit", "visitor"]
    assert run(["import", "log.parquet", "--into", "a.db", *columns, "--policy", "ucb1"]) == 0
    assert run(["export", "log", "first.parquet", "--from", "a.db"]) == 0
    assert run(["import", "first.parquet", "--into", "b.db", "--policy", "ucb1"]) == 0
    assert run(["export", "first", "second.parquet", "--from", "b.db"]) == 0
    first, second = pl.read_parquet("first.parquet"), pl.read_parquet("second.parquet")
    # Units are hashed with a key of the store: the same for the same unit of an experiment.
    assert first.drop("unit").equals(second.drop("unit"))
    assert second["unit"].n_unique() == 2000
    assert first["arm"].to_list() == log["arm"].cast(pl.String).to_list()
    assert first["reward"].to_list() == log["reward"].to_list()
    assert first["probability"].to_list() == log["propensity"].to_list()
    assert first["time"].to_list() == log["time"].to_list()


def test_the_policy_learns_only_from_rows_that_it_draws_itself(tmp_path: Path) -> None:
    """As many as replay accepts: 30% of 2,000 rows are 600, within 5 standard deviations."""
    log = armrace.open_log(
        make_log(2000, MEANS, (0.3, 0.7), seed=1),
        arm="arm",
        reward="reward",
        propensity="propensity",
    )
    settings = settings_of(log.arms, "drop", policy="ucb1", horizon=600, settle="immediate", seed=3)
    with armrace.open(tmp_path / "s.db") as service:
        found = import_rows(service, "shop", rows_of(log), settings, log.least_propensity)
        rows = list(service.rows("shop"))
    assert abs(found.learned - 600) < 5 * (2000 * 0.3 * 0.7) ** 0.5
    own = [row for row in rows if row.by == "policy"]
    assert len(own) == found.learned
    # UCB1 has learned which arm is better, so that most of its own decisions show it.
    assert sum(row.arm == "1" for row in own) > 0.6 * len(own)


def test_a_replay_of_the_imported_log_is_the_live_state(tmp_path: Path) -> None:
    log = armrace.open_log(make_log(500, MEANS, seed=1), arm="arm", reward="reward")
    settings = settings_of(log.arms, "drop", policy="exp3", seed=3)
    with armrace.open(tmp_path / "s.db") as service:
        import_rows(service, "shop", rows_of(log), settings)
        assert is_replay(service, "shop")
        after = service.decide("shop")
        assert after.arm in ("0", "1")


def test_an_import_whose_transactions_are_given_up_has_the_same_log(monkeypatch) -> None:
    monkeypatch.setattr(imports, "_CHUNK", 7)
    settings = settings_of(["a", "b"], "drop", policy="ucb1", seed=1)
    rows = [
        LoggedRow(1000 * n, "ab"[n % 2], reward=1.0, reward_time=1000 * n + 2500, counts=n % 5 != 0)
        for n in range(20)
    ]
    found = []
    for is_broken in (False, True):
        with armrace.open(":memory:") as service, monkeypatch.context() as patch:
            if is_broken:
                give_up_every_chunk_once(patch)
            told = import_rows(service, "shop", rows, settings)
            made = [e for _, e in events(service, "shop") if isinstance(e, Decided | Rewarded)]
            found.append((told, made, live(service, "shop").generation.save()))
    assert found[0] == found[1]
    assert found[0][0].retracted == 4


def give_up_every_chunk_once(patch: pytest.MonkeyPatch) -> None:
    """Have something to compile turn up at the end of every chunk."""
    original, given_up = imports._Importer.done_with, set()

    class Nothing(NotCompiled):
        def __init__(self) -> None:
            Exception.__init__(self, "nothing")

        def compile(self) -> None:
            pass

    def done_with(self, work: Work, rows, is_last):
        made = original(self, work, rows, is_last)
        if rows not in given_up:
            given_up.add(rows)
            raise Nothing
        return made

    patch.setattr(imports._Importer, "done_with", done_with)


@pytest.mark.parametrize("kind", [list, iter])
def test_a_late_row_that_is_refused_leaves_nothing(monkeypatch, kind) -> None:
    monkeypatch.setattr(imports, "_CHUNK", 2)
    settings = settings_of(["a", "b"], "drop", policy="ucb1", seed=1)
    rows = [LoggedRow(None, "a", unit="u" * (201 if n == 5 else 200)) for n in range(6)]
    with armrace.open(":memory:") as service:
        with pytest.raises(InvalidParameter, match="unit of row 6 must be text of 1 to 200"):
            import_rows(service, "shop", kind(rows), settings)
        assert service.names() == []
        assert import_rows(service, "shop", kind(rows[:5]), settings).rows == 5


def test_imports_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    settings = settings_of(["a", "b"], "drop", seed=1)
    rows = [LoggedRow(2000, "a", reward=1.0), LoggedRow(1000, "b", reward=0.0)]
    with armrace.open(":memory:") as service:
        with pytest.raises(InvalidParameter, match="row 2 is earlier than the row before it"):
            import_rows(service, "shop", rows, settings)
        with pytest.raises(InvalidParameter, match="no rows"):
            import_rows(service, "shop", [], settings)
        assert service.names() == []
        import_rows(service, "shop", [LoggedRow(None, "a", reward=1.0)], settings)
        with pytest.raises(AlreadyExists, match="there is an experiment named 'shop'"):
            import_rows(service, "shop", [LoggedRow(None, "a", reward=1.0)], settings)
        late = [LoggedRow(2**41, "a", reward=1.0, reward_time=2**42)]
        with pytest.raises(InvalidParameter, match="window must be longer"):
            import_rows(service, "late", late, settings)
        with pytest.raises(InvalidParameter, match="row 1 has the unknown arm 'z'"):
            import_rows(service, "late", [LoggedRow(None, "z")], settings)
        with pytest.raises(InvalidParameter, match="reward must be in"):
            import_rows(service, "late", [LoggedRow(None, "a", reward=3.0)], settings)
        assert service.names() == ["shop"]


@pytest.mark.parametrize(
    "more", [{"probability": -3.0}, {"probability": math.nan}, {"suspicion": 7.0}], ids=str
)
def test_rows_with_impossible_shares_are_refused(more: dict[str, float]) -> None:
    row = LoggedRow(None, "a", reward=1.0, **more)
    settings = make_settings(Create("ads", ["a", "b"], 0), 1)
    with armrace.open(":memory:") as service:
        with pytest.raises(InvalidParameter, match=f"{next(iter(more))} of row 1 must be"):
            import_rows(service, "ads", [row], settings, None)
        assert service.names() == []


@pytest.mark.parametrize(("field", "value", "wanted"), [
    ("probability", [0.5], "a number"), ("arm", ["a"], "text"), ("probability", "half", "a number"),
])  # fmt: skip
def test_an_export_with_a_value_of_another_kind_is_refused_with_its_row(
    tmp_path, field, value, wanted
):
    row = dict.fromkeys(("unit", "reward", "reward_time", "source", "suspicion", "counts"))
    row |= {"decision": 1, "time": 1_700_000_000_000, "arm": "a", "probability": 0.5}
    row |= {"labels": {"page": "1"}, "void": False}
    lines = [json.dumps({**row, field: None}), json.dumps({**row, field: value})]
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    with pytest.raises(InvalidParameter, match=rf"{field} must be {wanted}; got .* \(row 2\)\.$"):
        survey_export(tmp_path / "log.ndjson")
