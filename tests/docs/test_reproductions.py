"""The pages of papers that are run again follow from the figures beside them."""

import pytest

from armrace.reproduction import PAPERS, reproduce
from armrace.reproduction.pages import markdown_of
from docs.conftest import load_script


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_is_what_the_figures_say(paper: str) -> None:
    """Run ``python docs/reproductions.py PAPER`` where a declaration or a figure has changed."""
    script = load_script("reproductions")
    found = script.stored(paper)
    page = (script.FOLDER / f"{paper}.md").read_text(encoding="utf-8")
    assert page == markdown_of(found)
    assert [done.study for done in found.studies] == [s.name for s in PAPERS[paper].studies]
    for done in found.studies:
        assert (script.FOLDER / f"{paper}-{done.study}.svg").is_file()
    assert f"({paper}.md)" in (script.FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("paper", PAPERS)
def test_the_command_gives_the_figures_of_the_page(paper: str) -> None:
    said = load_script("reproductions").stored(paper)
    found = reproduce(paper, quick=said.quick, seed=said.seed, progress=False)
    for one, other in zip(said.studies, found.studies, strict=True):
        assert one.rows == other.rows, one.study
        assert one.findings == other.findings
