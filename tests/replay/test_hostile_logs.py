"""Whatever a file holds, it is read or refused in a sentence; no row disappears."""

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from armrace.errors import ArmraceError
from armrace.offline import open_log

ODD = ["", "0", "1", "a", '"', '""', '"a', "NaN", "inf", "-1", "1e400", "0x1", "true", "\r", " 1 "]
CELLS = st.one_of(
    st.sampled_from(ODD),
    st.text(max_size=6),
    st.floats().map(str),
)
LINES = st.lists(st.lists(CELLS, max_size=5), max_size=12)
RAW = st.binary(max_size=60)
COLUMNS = {"arm": "ad", "reward": "click", "propensity": "p", "time": "t"}


def read(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        refusal, log = "", None
        try:
            log = open_log(path, COLUMNS)
        except ArmraceError as error:
            refusal = str(error)
    if log is None:
        assert refusal
        assert "\n" not in refusal.strip()
        return
    report = log.report
    assert report.used + sum(problem.rows for problem in report.problems) == report.rows
    assert log.rows == sum(batch.arms.size for batch in log.batches())
    for batch in log.batches():
        assert ((batch.rewards >= 0) & (batch.rewards <= 1)).all()
        assert ((batch.propensities > 0) & (batch.propensities <= 1)).all()
        assert ((batch.arms >= 0) & (batch.arms < len(log.arms))).all()


@settings(max_examples=150, deadline=None)
@given(LINES, RAW, st.sampled_from([",", ";", "\t"]))
@example([["a", "1", "0.5", "0"], ["b", "0", "0.5", "1"]], b"", ",")
def test_csv(lines, raw, separator) -> None:
    header = separator.join(["ad", "click", "p", "t"])
    text = "\n".join([header, *(separator.join(line) for line in lines)])
    good = "\n".join(
        separator.join(line) for line in (["a", "1", "0.5", "1"], ["b", "0", "1", "2"])
    )
    body = text.encode("utf-8", errors="surrogatepass") + b"\n" + raw + b"\n" + good.encode()
    read(body, "log.csv")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(RAW, CELLS.map(str.encode)), max_size=8))
def test_ndjson(lines) -> None:
    good = [
        b'{"ad": "a", "click": 1, "p": 0.5, "t": 1}',
        b'{"ad": 2, "click": "0", "p": 1, "t": 2}',
    ]
    read(b"\n".join([good[0], *lines, good[1]]), "log.ndjson")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["x.csv", "x.ndjson", "x.parquet", "x.csv.gz"]))
@example(b"a\rb,c\nx", "x.csv")
@example(b"a" * 200_000 + b",b\n1,2", "x.csv")
@example(b"PAR1" + b"\0" * 60 + b"PAR1", "x.parquet")
@example(b"\x1f\x8b\x08\0", "x.csv.gz")
def test_anything(content, name) -> None:
    read(content, name)
