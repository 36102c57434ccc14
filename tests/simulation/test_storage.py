"""Results on disk: the same when they come back, whole or not at all, and damage is noticed."""

import io
import os
import random
import re
from pathlib import Path

import msgspec
import polars as pl
import pytest

import armrace
from armrace.errors import DamagedFile, UnwritableOutput
from armrace.simulation import storage
from processes import python


@pytest.fixture(scope="module")
def result():
    return armrace.simulate(
        "multi-layer-race",
        [0.6, 0.5, 0.4],
        "zero-best",
        budget=20,
        horizon=100,
        replications=2,
        seed=5,
    )


@pytest.fixture
def saved(result, tmp_path):
    path = tmp_path / "result.parquet"
    result.save(path)
    return path


def test_a_result_comes_back_bit_for_bit(result, saved):
    loaded = armrace.load(str(saved))
    assert loaded.rows.schema == result.rows.schema
    for name in ("rows", "final", "curves", "arms", "layers", "race"):
        assert getattr(loaded, name).equals(getattr(result, name))
    for name in ("spec", "view", "seconds", "interrupted"):
        assert getattr(loaded, name) == getattr(result, name)
    assert loaded.summary() == result.summary()
    # Others read it too: it is a Parquet file.
    assert pl.read_parquet(saved)["regret"].equals(result.rows["regret"])


def test_a_file_is_replaced_only_on_request(result, saved):
    old = saved.read_bytes()
    with pytest.raises(UnwritableOutput, match=r"exists; give another path, or overwrite=True\.$"):
        result.save(saved)
    assert saved.read_bytes() == old
    result.save(saved, overwrite=True)
    assert armrace.load(saved).rows.equals(result.rows)
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file(result, saved, monkeypatch, error):
    old = saved.read_bytes()

    def sync_fails(descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", sync_fails)
    with pytest.raises((UnwritableOutput, KeyboardInterrupt)):
        result.save(saved, overwrite=True)
    assert saved.read_bytes() == old
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


FULL_DISK = """
import resource, sys
import armrace
from armrace.errors import UnwritableOutput

result = armrace.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    result.save(sys.argv[1], overwrite=True)
except UnwritableOutput as error:
    print(error)
"""


def test_a_file_that_cannot_be_written_to_its_end_is_refused_and_the_old_one_kept(saved):
    old = saved.read_bytes()
    run = python("-c", FULL_DISK, str(saved))
    assert run.stdout.startswith(f"cannot write {saved}: "), run.stderr
    assert saved.read_bytes() == old
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/result.parquet", "No such file or directory."),
        ("file/result.parquet", "Not a directory"),
        ("folder", "it is a folder, not a file"),
        ("pipe", "it is a device, not a file"),
        ("a\0b", "its name has a null character"),
    ],
)
def test_what_cannot_be_written_is_refused_with_nothing_left_behind(result, tmp_path, name, words):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnwritableOutput, match=f"^cannot write .*: {words}"):
        result.save(str(tmp_path / name))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder", "pipe"]
    assert (tmp_path / "file").read_text() == "kept"
    assert (tmp_path / "pipe").is_fifo()


def assert_damaged(path, contents, sentence):
    path.write_bytes(contents)
    with pytest.raises(DamagedFile) as refusal:
        armrace.load(path)
    assert sentence in str(refusal.value)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("name", ["nothing.parquet", "", "a\0b"])
def test_what_is_not_there_or_is_a_folder_is_no_result(tmp_path, name):
    with pytest.raises(DamagedFile, match="there is no result file"):
        armrace.load(f"{tmp_path}/{name}")


@pytest.mark.parametrize("contents", [b"", b"PAR1", b"hello, world\n" * 100, b"PAR1" * 50])
def test_what_is_no_parquet_file_is_refused(tmp_path, contents):
    assert_damaged(tmp_path / "result.parquet", contents, "armrace")


def test_a_result_of_another_format_is_refused(result, tmp_path, monkeypatch):
    path = tmp_path / "future.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_FORMAT", 7)
        result.save(path)
    assert_damaged(path, path.read_bytes(), "has format 7; this version reads 2")


def test_changed_numbers_are_noticed(result, tmp_path):
    path = tmp_path / "result.parquet"
    result.save(path)
    metadata = pl.read_parquet_metadata(path)
    changed = result.rows.with_columns(pl.col("regret") + 1)
    changed.write_parquet(path, metadata={"armrace": metadata["armrace"]})
    assert_damaged(path, path.read_bytes(), "damaged")


DAMAGE = """
import sys
from pathlib import Path

import armrace
from armrace.errors import DamagedFile

good = Path(sys.argv[1]).read_bytes()
bad = Path(sys.argv[1]).with_name("bad.parquet")
step = int(sys.argv[3])
unnoticed = []
for place in range(0, len(good), step):
    if sys.argv[2] == "cut":
        contents = good[:place]
    else:
        contents = good[:place] + bytes([good[place] ^ (1 << place % 8)]) + good[place + 1 :]
    bad.write_bytes(contents)
    try:
        armrace.load(bad)
    except DamagedFile:
        continue
    unnoticed.append(place)
print("unnoticed:", unnoticed)
"""


@pytest.mark.parametrize(("damage", "step"), [("cut", 29), ("flip", 5)])
def test_damage_anywhere_is_noticed_before_anything_is_made_of_the_file(
    saved: Path, damage: str, step: int
):
    # In a process of its own: a reader that trusts damaged lengths may take the process down.
    run = python("-c", DAMAGE, str(saved), damage, str(step))
    assert run.returncode == 0, run.stderr[-500:]
    assert run.stdout == "unnoticed: []\n"
    assert run.stderr == ""


def crafted(path, rows=None, header=None):
    """Write a file with other contents and a seal that fits."""
    found = msgspec.json.decode(pl.read_parquet_metadata(path)["armrace"])
    buffer = io.BytesIO()
    rows = pl.read_parquet(path) if rows is None else rows
    written = msgspec.json.encode({**found, **(header or {})}).decode()
    written = re.sub("sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, written)
    rows.write_parquet(buffer, metadata={"armrace": written})
    path.write_bytes(storage._sealed(buffer.getvalue()))
    return path


def test_a_crafted_file_with_the_same_contents_is_read(saved, result):
    assert armrace.load(crafted(saved)).rows.equals(result.rows)


FORGED_ROWS = {
    "a column is missing": lambda rows: rows.drop("corruption"),
    "there is one more column": lambda rows: rows.with_columns(more=1),
    "text for numbers": lambda rows: rows.with_columns(regret=pl.lit("a")),
    "numbers for arrays": lambda rows: rows.with_columns(pulls=pl.lit(1)),
    "lists for arrays": lambda rows: rows.with_columns(pl.col("pulls").arr.to_list()),
    "arrays of other lengths": lambda rows: rows.with_columns(
        arm_corruption=pl.col("arm_corruption").arr.to_list().list.slice(0, 2).list.to_array(2)
    ),
    "no row": lambda rows: rows.clear(),
    "a missing number": lambda rows: rows.with_columns(regret=pl.lit(None, dtype=pl.Float64)),
    "not a number": lambda rows: rows.with_columns(regret=pl.lit(float("nan"))),
    "a row twice": lambda rows: pl.concat([rows, rows]),
    "rounds that are no checkpoints": lambda rows: rows.with_columns(pl.col("round") + 1),
    "a replication that was not asked for": lambda rows: rows.with_columns(
        pl.col("replication") + 5
    ),
    "the end is missing": lambda rows: rows.filter(pl.col("round") < 100),
    "plays that do not add up": lambda rows: rows.with_columns(
        pulls=pl.lit([1, 1, 1], dtype=pl.Array(pl.Int64, 3))
    ),
    "plays below zero": lambda rows: rows.with_columns(
        pulls=pl.concat_list(pl.col("round") + 5, pl.lit(-5), pl.lit(0)).list.to_array(3)
    ),
    "fewer than no refused change": lambda rows: rows.with_columns(pl.col("refused") - 2**40),
}


@pytest.mark.parametrize("change", FORGED_ROWS.values(), ids=FORGED_ROWS)
def test_crafted_rows_are_refused(saved, change):
    path = crafted(saved, rows=change(pl.read_parquet(saved)))
    assert_damaged(path, path.read_bytes(), "is not a readable result of armrace")


def test_rows_that_would_fill_the_memory_are_refused_before_they_are_read(saved, monkeypatch):
    monkeypatch.setattr("armrace.files._UNPACKED_BYTES", 0)
    monkeypatch.setattr("armrace.files._UNPACKED_TIMES", 0)
    monkeypatch.setattr(pl, "read_parquet", None)
    with pytest.raises(DamagedFile, match="would unpack to 0 MiB; a file of its size may unpack"):
        armrace.load(saved)


VIEW = {"layer": 0, "arm": 0, "assigned": 1, "pulls": 1, "mean": 0.5}

FORGED_HEADERS = {
    "no specification": {"spec": {}},
    "no policy": {"spec": {"horizon": 100, "replications": 2}},
    "negative seconds": {"seconds": -1.0},
    "other means": {"means": [0.1]},
    "means that are no numbers": {"means": ["a", "b", "c"]},
    "a view of nothing": {"view": [{}]},
    "a view of an arm that is not there": {"view": [{**VIEW, "arm": 3}]},
    "a view of an arm before the first": {"view": [{**VIEW, "arm": -1}]},
    "a view of a layer that no policy has": {"view": [{**VIEW, "layer": 10**9}]},
    "a view with more plays than a table holds": {"view": [{**VIEW, "pulls": 2**70}]},
    "a view with a round that no table holds": {"view": [{**VIEW, "eliminated_at": 2**70}]},
}
FORGED_SPECIFICATIONS = {
    "a horizon that no run has": {"horizon": 2**70},
    "no replication": {"replications": 0},
    "a policy without a name": {"policy": {}},
    "a table without numbers": {"environment": {"name": "table", "rewards": {"shape": [100, 3]}}},
    "a table without a shape": {"environment": {"name": "table", "rewards": {"float64": "AAAA"}}},
    "a table of nothing": {"environment": {"name": "table", "rewards": {}}},
    "other arms": {"environment": {"name": "bernoulli", "means": [0.5, 0.4]}},
}


@pytest.mark.parametrize("header", FORGED_HEADERS.values(), ids=FORGED_HEADERS)
def test_crafted_headers_are_refused(saved, header):
    path = crafted(saved, header=header)
    assert_damaged(path, path.read_bytes(), "is not a readable result of armrace")


@pytest.mark.parametrize("change", FORGED_SPECIFICATIONS.values(), ids=FORGED_SPECIFICATIONS)
def test_crafted_specifications_are_refused(saved, result, change):
    path = crafted(saved, header={"spec": {**result.spec, **change}, "means": None})
    assert_damaged(path, path.read_bytes(), "is not a readable result of armrace")


def test_flipped_bytes_under_a_seal_that_fits_are_read_or_refused(saved):
    data = saved.read_bytes()
    for seed in range(300):
        chance = random.Random(seed)
        changed = bytearray(data)
        changed[chance.randrange(4, len(data) - 8)] = chance.randrange(256)
        if not storage._SEAL.search(bytes(changed)):
            continue
        saved.write_bytes(storage._sealed(bytes(changed)))
        try:
            loaded = armrace.load(saved)
        except DamagedFile:
            continue
        assert loaded.summary()
        assert loaded.arms.height == loaded.rows.height * 3
