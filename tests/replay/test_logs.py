"""Logs of every format and of every kind of damage."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from armrace.errors import InvalidParameter, UnknownName
from armrace.offline import log as log_module
from armrace.offline import open_log, read_columns, readers

GOOD = "when,ad,click,p\n2024-01-01,a,1,0.5\n2024-01-02,b,0,0.5\n2024-01-03,a,0,0.5\n"
ROLES = {"arm": "ad", "reward": "click", "propensity": "p", "time": "when"}


def write(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def reasons(log) -> dict[str, list[int]]:
    return {problem.reason: problem.examples for problem in log.report.problems}


def test_a_clean_log(tmp_path: Path) -> None:
    log = open_log(write(tmp_path, GOOD), ROLES)
    assert log.arms == ["a", "b"]
    assert log.pulls.tolist() == [2, 1]
    assert log.totals.tolist() == [1.0, 0.0]
    assert log.days == 2.0
    assert log.least_propensity == 0.5
    assert str(log.report) == "3 of 3 rows are used."


def test_all_formats_give_the_same_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "when": np.arange(50) * 3600 + 1_700_000_000,
            "ad": [f"ad {number % 3}" for number in range(50)],
            "click": [number % 4 == 0 for number in range(50)],
            "p": [0.25 + 0.5 * (number % 2) for number in range(50)],
        }
    )
    frame.write_csv(tmp_path / "log.csv")
    frame.write_csv(tmp_path / "log.tsv", separator="\t")
    frame.write_csv(tmp_path / "semicolons.txt", separator=";")
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_ndjson(tmp_path / "log.ndjson")
    packed = gzip.compress((tmp_path / "log.csv").read_bytes())
    (tmp_path / "log.csv.gz").write_bytes(packed)
    (tmp_path / "log.ndjson.gz").write_bytes(gzip.compress((tmp_path / "log.ndjson").read_bytes()))
    (tmp_path / "no_ending").write_bytes(packed)
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "log.csv").read_bytes())
    (tmp_path / "windows.csv").write_bytes(
        (tmp_path / "log.csv").read_bytes().replace(b"\n", b"\r\n")
    )
    places = [frame, frame.lazy(), *sorted(tmp_path.iterdir())]
    logs = [open_log(place, ROLES) for place in places]
    for log in logs:
        assert log.rows == 50, log.name
        assert log.arms == ["ad 0", "ad 1", "ad 2"]
        assert (log.first_time, log.last_time) == (1_700_000_000_000, 1_700_176_400_000)
        (batch,), (first,) = log.batches(), logs[0].batches()
        assert batch.arms.tolist() == first.arms.tolist()
        assert batch.rewards.tolist() == first.rewards.tolist()
        assert batch.propensities.tolist() == first.propensities.tolist()


BAD = """when,ad,click,p
2024-01-01,a,1,0.5
2024-01-01,,1,0.5
2024-01-01,b,,0.5
2024-01-01,b,often,0.5
2024-01-01,b,NaN,0.5
2024-01-01,b,7,0.5
2024-01-01,b,1,0
2024-01-01,b,1,1.5
2024-01-01,b,1,NaN
2024-01-01,b,1,
soon,b,1,0.5
2024-01-01,b,inf,0.5
2024-01-01,b,-0.5,0.5

2024-01-01,b
2024-01-01,b,true,0.5
2024-01-01,b,true,0.5,and,more
"""


def test_every_unusable_row_is_reported_with_its_reason(tmp_path: Path) -> None:
    log = open_log(write(tmp_path, BAD), ROLES)
    assert (log.report.rows, log.rows) == (17, 2)
    assert reasons(log) == {
        "more fields than the header has": [17],
        "the arm is missing": [2, 14],
        "the reward is missing": [3, 15],
        "the reward is not a number": [4, 5],
        "the reward is outside [0, 1]": [6, 12, 13],
        "the propensity is outside (0, 1]": [7, 8],
        "the propensity is not a number": [9],
        "the propensity is missing": [10],
        "the time cannot be read": [11],
    }
    assert sum(problem.rows for problem in log.report.problems) == log.report.left_out
    assert "3 rows left out: the reward is outside [0, 1] (row 6, 12, 13)." in str(log.report)


def test_lines_of_ndjson_that_are_no_objects(tmp_path: Path) -> None:
    lines = ['{"ad": "a", "click": 1}', "{broken", "[1, 2]", "", '{"ad": "b", "click": "0"}']
    lines += ['{"ad": 3, "click": true}', '{"ad": {"x": 1}, "click": 0}', '{"click": 0}', "\xff"]
    log = open_log(write(tmp_path, "\n".join(lines), "log.ndjson"), arm="ad", reward="click")
    assert log.arms == ["3", "a", "b"]
    assert reasons(log) == {
        "not a JSON object": [2, 3, 8],
        "the arm is a list or an object": [6],
        "the arm is missing": [7],
    }


def test_quotes_and_wrong_encodings(tmp_path: Path) -> None:
    text = b'ad,click\n"x, ""y""\nz",1\n\xe9t\xe9,0\n"x, ""y""\nz",0\nb,1\n'
    log = open_log(write(tmp_path, text), arm="ad", reward="click")
    assert (log.rows, log.report.left_out) == (3, 1)
    assert 'x, "y"\nz' in log.arms
    unclosed = open_log(write(tmp_path, b'ad,click\na,1\n"b,0\nc,1\n'), arm="ad", reward="click")
    assert unclosed.arms == ['"b', "a", "c"]


def test_a_file_that_breaks_off_is_used_up_to_there(tmp_path: Path) -> None:
    lines = "".join(f"ad {n % 7},{n % 2}\n" for n in range(200_000))
    packed = gzip.compress(("ad,click\n" + lines).encode())
    path = write(tmp_path, packed[:-2000], "log.csv.gz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_BLOCK", 50_000)
        log = open_log(path, arm="ad", reward="click")
    assert 0 < log.rows < 200_000
    assert any("cannot be read any further after row" in each for each in log.report.remarks)


def test_blocks_and_rereading_give_the_same_rows(tmp_path: Path, monkeypatch) -> None:
    generator = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "ad": [
                f'"{n}"\nline' if n % 5 == 0 else str(n) for n in generator.integers(0, 9, 5000)
            ],
            "click": generator.integers(0, 2, 5000),
        }
    )
    for name, writer in {"log.csv": frame.write_csv, "log.ndjson": frame.write_ndjson}.items():
        writer(tmp_path / name)
        whole = open_log(tmp_path / name, arm="ad", reward="click")
        with monkeypatch.context() as patch:
            patch.setattr(readers, "_BLOCK", 700)
            patch.setattr(log_module, "_KEPT_ROWS", 100)
            pieces = open_log(tmp_path / name, arm="ad", reward="click")
            parts = list(pieces.batches())
        assert len(parts) > 20
        assert pieces.arms == whole.arms
        (batch,) = whole.batches()
        for field in ("arms", "rewards", "propensities"):
            together = np.concatenate([getattr(part, field) for part in parts])
            assert (together == getattr(batch, field)).all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\x00\x01\x02\x03" * 100, "is not a CSV, NDJSON or Parquet file"),
        ("ad,click\na,1\n".encode("utf-16"), "is UTF-16; convert it to UTF-8"),
        (b"PAR1" + b"x" * 100, "cannot be read"),
        (b"\x1f\x8bgarbage", "cannot be read"),
        (b"ad,click\n", "has no usable row: 0 of 0 rows are used."),
        (b"ad,click\na,x\n", "has no usable row"),
        (b"ad,click\na,1\na,0\n", "must have at least 2 arms; every usable row has 'a'"),
    ],
)
def test_files_without_a_log_are_refused_in_a_sentence(tmp_path: Path, content, words) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        open_log(write(tmp_path, content), arm="ad", reward="click")
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(UnknownName, match="no column 'Click' for the reward; did you mean 'click'"):
        open_log(path, arm="ad", reward="Click")
    with pytest.raises(UnknownName, match="there are 'when', 'ad', 'click', 'p'"):
        open_log(path, arm="zzzzzz", reward="click")
    with pytest.raises(InvalidParameter, match="cannot read"):
        open_log(tmp_path / "none.csv", arm="ad", reward="click")
    with pytest.raises(InvalidParameter, match="it is a folder"):
        open_log(tmp_path, arm="ad", reward="click")
    with pytest.raises(InvalidParameter, match="the column of the reward is missing"):
        open_log(path, arm="ad")
    with pytest.raises(UnknownName, match="did you mean 'open-bandit'"):
        open_log("sample:openbandit", arm="ad", reward="click")


def test_values_of_unexpected_types() -> None:
    frame = pl.DataFrame({"ad": [0.0, 1.0, None, float("nan")], "click": [True, False, True, True]})
    log = open_log(frame, arm="ad", reward="click")
    assert log.arms == ["0", "1"]
    assert reasons(log) == {"the arm is missing": [3, 4]}
    nested = frame.with_columns(ad=pl.Series(["x", "y", "x", "y"]), click=pl.struct("ad", "click"))
    with pytest.raises(
        InvalidParameter, match="4 rows left out: the reward is a list or an object"
    ):
        open_log(nested, arm="ad", reward="click")
    with pytest.raises(InvalidParameter, match="must be different columns; both are 'ad'"):
        open_log(frame, arm="ad", reward="ad")
    with pytest.raises(InvalidParameter, match="rewards must be the smallest and the largest"):
        open_log(frame, arm="ad", reward="click", rewards="ab")
    with pytest.raises(InvalidParameter, match="log must be a file or a data frame; got int"):
        open_log(5, arm="ad", reward="click")


def test_columns_come_from_toml_and_options_have_precedence(tmp_path: Path) -> None:
    mapping = write(tmp_path, '[columns]\narm = "ad"\nreward = "p"\n', "columns.toml")
    assert read_columns(mapping) == {"arm": "ad", "reward": "p"}
    log = open_log(write(tmp_path, GOOD), mapping, reward="click")
    assert log.columns.named() == {"arm": "ad", "reward": "click"}
    for content, words in {
        "arms = 'ad'": "did you mean 'arm'",
        "arm = 3": "must be the name of a column",
        "arm = ": "is not a TOML file",
    }.items():
        with pytest.raises((InvalidParameter, UnknownName), match=words):
            read_columns(write(tmp_path, content, "bad.toml"))


def test_times_of_all_forms(tmp_path: Path) -> None:
    forms = ["1700000000", "1700000000000", "2023-11-14T22:13:20Z", "2023-11-14 22:13:20"]
    forms += ["2023-11-15T00:13:20+02:00", "2023-11-14 22:13:20.000000+00:00", "1.7e9"]
    text = "t,ad,click\n" + "".join(f"{form},{n % 2},1\n" for n, form in enumerate(forms))
    log = open_log(write(tmp_path, text), arm="ad", reward="click", time="t")
    assert (log.rows, log.first_time, log.last_time) == (7, 1_700_000_000_000, 1_700_000_000_000)


def test_times_that_no_calendar_has_cannot_be_read() -> None:
    numbers = [-62_135_596_800_000, 253_402_300_799_999, -62_135_596_800_001, 253_402_300_800_000]
    dates = pl.Series(numbers).cast(pl.Datetime("ms"))
    frame = pl.DataFrame({"t": dates, "ad": ["a", "b", "a", "b"], "click": [0, 1, 0, 1]})
    assert reasons(open_log(frame, arm="ad", reward="click", time="t")) == {
        "the time cannot be read": [3, 4]
    }
    far = frame.with_columns(t=pl.Series(["1e9", "0", "2.6e20", "-1e14"]))
    assert reasons(open_log(far, arm="ad", reward="click", time="t")) == {
        "the time cannot be read": [3, 4]
    }


def test_the_sample_has_its_attribution() -> None:
    log = open_log(
        "sample:open-bandit",
        arm="item_id",
        reward="click",
        propensity="propensity_score",
        time="timestamp",
    )
    assert (log.rows, len(log.arms), log.totals.sum()) == (5000, 34, 20)
    assert log.least_propensity == pytest.approx(1 / 34)
    folder = Path(log_module.__file__).parent / "data"
    words = (folder / "ATTRIBUTION.md").read_text()
    assert "Creative Commons Attribution 4.0" in words
    assert json.dumps(sorted(path.name for path in folder.iterdir())) == json.dumps(
        ["ATTRIBUTION.md", "open-bandit.csv.gz"]
    )


def test_data_frames_of_pandas_are_read():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "arm": ["a", "b", None, "a"],
            "reward": pandas.array([1, 0, 1, None], dtype="Int64"),
            "p": [0.5, 0.5, 0.5, 0.5],
            "when": pandas.to_datetime(["2026-01-01", "2026-01-03", "2026-01-04", None], utc=True),
            "kind": pandas.Categorical(["x", "y", "x", "y"]),
        }
    )
    log = open_log(frame, arm="arm", reward="reward", propensity="p", time="when", source="kind")
    assert (log.arms, log.pulls.tolist(), log.sources) == (["a", "b"], [1, 1], ["x", "y"])
    assert (log.days, log.report.left_out) == (2.0, 2)
    with pytest.raises(UnknownName, match="no column 'click' for the reward"):
        open_log(frame, arm="arm", reward="click")


def test_rows_with_surplus_fields_are_left_out_and_named(tmp_path):
    """A comma within a name shifts all that follows; an empty field at the end does no harm."""
    rows = ["a,1,0.5", "b,c,0,0.5", "b,0,0.5,", "a,0,0.5", '"b,c",1,0.5', "b,1,0.5,x,y"]
    log = open_log(write(tmp_path, "ad,click,p\n" + "\n".join(rows)), ROLES | {"time": None})
    assert reasons(log) == {"more fields than the header has": [2, 6]}
    assert log.arms == ["a", "b", "b,c"]


def test_names_that_are_not_utf8_are_left_out_and_named(tmp_path):
    """Two names that differ in one such letter became one arm."""
    text = "ad,click,p\ncaf\u00e9,1,0.5\ncaf\u00e8,0,0.5\na,0,0.5\nb,0,0.5\n"
    log = open_log(write(tmp_path, text.encode("latin-1")), ROLES | {"time": None})
    words = "the arm is not in UTF-8, to which the file must be converted"
    assert reasons(log) == {words: [1, 2]}
    assert open_log(write(tmp_path, text), ROLES | {"time": None}).report.left_out == 0
