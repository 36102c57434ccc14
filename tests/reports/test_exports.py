"""Pages, plots and figures from Python: the files they write, and what they refuse."""

import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import polars as pl
import pytest
from matplotlib.figure import Figure

import armrace
from armrace.errors import DamagedFile, InvalidParameter, UnknownName, UnwritableOutput
from armrace.red_team.target import EFFORTS
from armrace.reports.arena import arena_plots
from armrace.reports.checks import (
    redteam_plots,
    redteam_specification,
    render_redteam,
    render_verification,
)
from armrace.reports.comparison import comparison_plots, render_report
from armrace.reports.exports import page_of, plots_of
from armrace.reports.figures import write_plots
from armrace.reports.studies import render_plan, replay_specification
from armrace.simulation import Comparison
from armrace.simulation.storage import load_comparison
from reports.conftest import GRID, TINY, Results
from reports.test_page import outline


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return armrace.compare(
        ["multi-layer-race", "ucb1"], [0.9, 0.5, 0.1], "zero-best-when-likely", budget=5.0,
        horizon=500, replications=3, progress=False,
    )  # fmt: skip


def test_a_report_is_the_page_that_the_command_line_renders(
    comparison: Comparison, tmp_path: Path
) -> None:
    page = comparison.report(tmp_path / "page.html", title="story", summary="Once.")
    assert page.read_text() == render_report(comparison, "story", "Once.")
    outline(page.read_text())


@pytest.mark.parametrize(("method", "name", "kind"), [("report", "page.html", "<!DOCTYPE html>"),
                                                      ("plot", "curves.svg", "<svg")])  # fmt: skip
def test_pages_and_plots_replace_no_file_unless_told_to(
    comparison: Comparison, tmp_path: Path, method: str, name: str, kind: str
) -> None:
    file = tmp_path / name
    file.write_text("precious")
    with pytest.raises(UnwritableOutput, match="exists"):
        getattr(comparison, method)(file)
    assert file.read_text() == "precious"
    getattr(comparison.results["ucb1"], method)(file, overwrite=True)
    assert kind in file.read_text()


@pytest.fixture(scope="module")
def written(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of all figures of the comparison, alone in a folder."""
    return comparison.figures(tmp_path_factory.mktemp("written") / "figures")


def test_figures_come_in_every_format_at_column_width_with_their_data(
    comparison: Comparison, written: list[Path]
) -> None:
    folder = written[0].parent
    names = {path.name for path in folder.iterdir()}
    assert names == {path.name for path in written}
    assert names == {
        f"{figure}.{suffix}"
        for figure in ("end", "curves", "layers-multi-layer-race")
        for suffix in ("svg", "pdf", "png", "csv")
    }
    assert (folder / "curves.pdf").read_bytes().startswith(b"%PDF")
    png = (folder / "curves.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 1050  # 3.5 inches at 300 dots an inch
    data = pl.read_csv(folder / "curves.csv")
    last = data.filter((pl.col("policy") == "ucb1") & (pl.col("round") == 500))
    median = comparison.results["ucb1"].figure("pseudo_regret").p50
    assert last["median"].item() == pytest.approx(median)
    ends = pl.read_csv(folder / "end.csv")
    assert set(ends["policy"]) == set(comparison.results)


def test_figures_are_the_same_bytes_again_and_replace_nothing(
    comparison: Comparison, written: list[Path], tmp_path: Path
) -> None:
    first = {path.name: path.read_bytes() for path in written}
    for name in first:
        (tmp_path / name).write_text("precious")
    with pytest.raises(UnwritableOutput, match="exists"):
        comparison.figures(tmp_path)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"precious"}
    again = comparison.figures(tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in again} == first


def test_a_plot_goes_onto_given_axes_or_into_a_file(comparison: Comparison, tmp_path: Path) -> None:
    axes = Figure().add_subplot()
    assert comparison.plot(axes, measure="regret") is axes
    assert len(axes.get_lines()) == 2
    assert axes.get_ylabel() == "regret (in rewards)"
    comparison.plot(tmp_path / "plot.pdf")
    assert (tmp_path / "plot.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UnwritableOutput, match="figures end in"):
        comparison.plot(tmp_path / "plot.html")
    assert comparison.plot().get_ylabel() == "pseudo-regret (in rewards)"


def test_without_matplotlib_pages_are_written_and_figures_are_refused(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "<svg" in comparison.report(tmp_path / "page.html").read_text()
    for refused in (comparison.figures, comparison.plot):
        with pytest.raises(InvalidParameter, match=r"pip install 'armrace\[plots\]'"):
            refused(tmp_path / "figures.svg")


def test_a_comparison_is_saved_and_read_back(comparison: Comparison, tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    Comparison(list(comparison.results.values()), "regret").save(file)
    again = load_comparison(file)
    assert again.measure == "regret"
    assert list(again.results) == list(comparison.results)
    for label, result in comparison.results.items():
        assert again.results[label].rows.equals(result.rows)
    with pytest.raises(UnwritableOutput, match="exists"):
        comparison.save(file)
    with pytest.raises(InvalidParameter, match=r"path must end in \.zip"):
        comparison.save(tmp_path / "runs.parquet")


def test_armrace_loads_a_comparison(comparison: Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "runs.zip")
    again = armrace.load(tmp_path / "runs.zip")
    assert isinstance(again, Comparison)
    assert (again.spec, again.table().rows()) == (comparison.spec, comparison.table().rows())
    (tmp_path / "other.json").write_text('{"log": 1}')
    with pytest.raises(DamagedFile, match="is not a replay of armrace"):
        armrace.load(tmp_path / "other.json")


BOMB = """
import sys
from pathlib import Path
from armrace.errors import DamagedFile
from armrace.loading import load

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

before = peak()
try:
    load(sys.argv[1])
except DamagedFile as error:
    print(error)
print(peak() - before)
"""


def test_an_archive_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("000.parquet", "w") as member,
    ):
        for _ in range(400):
            member.write(bytes(2**20))
    command = [sys.executable, "-c", BOMB, str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words, kilobytes = printed.splitlines()
    assert words == (f"{file} would unpack to 400 MiB; a file of its size may unpack to 256 MiB.")
    assert int(kilobytes) < 50 * 2**10


def test_what_is_no_saved_comparison_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    with pytest.raises(DamagedFile, match="there is no comparison file"):
        load_comparison(file)
    file.write_bytes(b"PK nonsense")
    with pytest.raises(DamagedFile, match="not a readable archive"):
        load_comparison(file)
    for index in (b'{"measure": "regret", "results": []}', b"[" * 10_000, b"{}"):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("comparison.json", index)
        with pytest.raises(DamagedFile, match="is not a comparison of armrace"):
            load_comparison(file)
    with pytest.raises(InvalidParameter, match="path must be the path of a comparison file; got"):
        load_comparison(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="results must have at least one result; got none"):
        Comparison([])


def test_the_measure_ranks_table_verdict_and_page(comparison: Comparison) -> None:
    results = list(comparison.results.values())
    assert comparison.measure == "pseudo_regret"
    assert "mean pseudo-regret" in render_report(comparison, "page")
    by_regret = Comparison(results, "regret")
    assert by_regret.table().equals(comparison.table("regret"))
    assert by_regret.verdict() == comparison.verdict("regret")
    text = render_report(by_regret, "page")
    assert "mean regret" in text
    assert "mean pseudo-regret" not in text
    with pytest.raises(UnknownName, match="measure"):
        Comparison(results, "fame")


def test_a_result_whose_environment_is_not_known_here_can_be_reported(
    comparison: Comparison, tmp_path: Path
) -> None:
    found = armrace.simulate("multi-layer-race", [0.9, 0.5], horizon=300, progress=False)
    found.spec["environment"] = {"name": "from-another-planet"}
    text = found.report(tmp_path / "page.html").read_text()
    assert "★ arm 0" in text  # the means are stored with the result


def test_every_kind_of_result_has_a_report_and_figures(results: Results, tmp_path: Path) -> None:
    expected = {
        "plan": (results.plan, render_plan(results.plan), {"survival"}),
        "verdict": (
            results.verdicts[0], render_redteam(results.verdicts[:1]), {"held-out-10"}
        ),
        "verification": (
            results.verification, render_verification(results.verification), {"growth"}
        ),
    }  # fmt: skip
    for name, (result, page, figures) in expected.items():
        file = result.report(tmp_path / f"{name}.html")
        assert file.read_text() == page
        with pytest.raises(UnwritableOutput, match="exists"):
            result.report(file)
        written = result.figures(tmp_path / name)
        assert {path.name for path in written} == {
            f"{figure}.{suffix}" for figure in figures for suffix in ("svg", "pdf", "png", "csv")
        }


def test_every_figure_has_its_data_with_intervals_and_can_be_drawn_for_a_paper(
    results: Results, tmp_path: Path
) -> None:
    plots = [
        *redteam_plots(results.verdicts),
        *arena_plots(GRID, results.arena),
        *comparison_plots(
            results.comparison, {0.0: results.quiet, 20.0: results.comparison}, [results.comparison]
        ),
    ]
    written = write_plots(plots, tmp_path)
    assert len(written) == 4 * len(plots) == 4 * len({plot.name for plot in plots})
    for plot in plots:
        data = pl.read_csv(tmp_path / f"{plot.name}.csv", infer_schema_length=None)
        assert data.height > 0
        if plot.name.startswith(("worst", "budgets", "curves", "end", "corruption")):
            assert (data["low"] <= data["mean"]).all()
            assert (data["mean"] <= data["high"]).all()
        assert plot.caption.endswith(".")


def test_the_specification_of_a_replay_gives_the_same_figures(results: Results) -> None:
    data = msgspec.json.decode(msgspec.json.encode(replay_specification(results.replay)))
    assert (data["attack"]["name"], data["budget"]) == ("zero-best", 10)
    again = armrace.replay("sample:open-bandit", **data)
    assert again.table.equals(results.replay.table)


def test_searches_and_verifications_say_how_to_run_them_again(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EFFORTS, "quick", TINY)
    verdict = results.verdicts[0]
    data = msgspec.json.decode(msgspec.json.encode(redteam_specification(verdict)))
    again = armrace.redteam(**data, progress=False)
    assert (again.attack, again.held_out) == (verdict.attack, verdict.held_out)
    assert "armrace.redteam(**specification)" in page_of(verdict)
    later = armrace.redteam(
        **{**data, "budget": 2 * data["budget"]}, families=["random-flips"],
        attacks=[verdict.attack, "outage"], progress=False,
    )  # fmt: skip
    told = msgspec.json.decode(msgspec.json.encode(redteam_specification(later)))
    again = armrace.redteam(**told, progress=False)
    assert again.held_out == later.held_out
    assert again.search.candidates == later.search.candidates
    assert list(again.search.attacks) == told["attacks"]
    assert results.verification.settings == {
        "policies": ["sharp-race"], "quick": True, "asymptotic": True, "seed": 0
    }  # fmt: skip


def test_there_is_no_page_and_no_figure_of_anything_else() -> None:
    with pytest.raises(TypeError, match="no page of a int"):
        page_of(1)
    with pytest.raises(TypeError, match="no figures of a int"):
        plots_of(1)
